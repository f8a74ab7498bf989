"""Hybrid best-first branch and bound (Allouche et al. 2015): depth-first dives from the open node of best bound.

Decisions "v takes s" and "v does not take s" form a tree, stored by parents; open nodes wait in a heap by their
lower bound, whose least is the lower bound of everything.  A dive restores the root, replays the decisions of
its node, propagates, and searches depth first until a number of conflicts; nodes still open on its stack
go to the heap.  That number doubles or halves to keep replays between 5 % and 10 % of the nodes.
Variables are chosen by size over weighted degree, the one of the last conflict first (Lecoutre et al. 2009).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.search.core import (
    C0,
    CULPRIT,
    DOMAIN_TOP,
    EPS,
    LAST,
    LEVEL,
    NODES,
    TOP,
    TRAILING,
    UB,
    WORK,
    ZERO,
    Core,
    State,
    assign,
    remove,
    undo,
)
from ssvm_backends.search.propagate import pointed, propagate_node
from ssvm_dsl.ir import F64, I8, I32, I64
from ssvm_dsl.kernels import njit

# Places in Tree.tally
N_TREE, N_HEAP, CONFLICTS, REPLAYED, DIVES, FOUND = range(6)

#: A dive without conflicts may take this many times the work of a slice.
LONG_DIVE = 4

#: Most conflicts of a dive.
MOST_CONFLICTS = 1 << 14


class SearchTree(NamedTuple):
    """Open nodes, the decisions that lead to them, and the stack of the dive at hand.

    Parameters
    ----------
    parent : ndarray of int64
    variable, state : ndarray of int32
        The decision; ``state`` is ``-1 - s`` for "does not take s".
    heap_bound : ndarray of float64
    heap_node : ndarray of int64
    stack_variable, stack_state : ndarray of int32, shape (depth,)
    stack_right : ndarray of int8
        Whether "takes" has been searched already.
    stack_bound, stack_c0 : ndarray of float64
        Lower bound and ``c0`` before the decision (an ancestor may have had a better bound than ``c0`` is now).
    stack_top : ndarray of int64, shape (2 depth,)
        Places of the trails.
    tally : ndarray of int64
    """

    parent: I64
    variable: I32
    state: I32
    heap_bound: F64
    heap_node: I64
    stack_variable: I32
    stack_state: I32
    stack_right: I8
    stack_bound: F64
    stack_c0: F64
    stack_top: I64
    tally: I64
    capacity: int
    depth: int


class Root(NamedTuple):
    """Where each dive starts: entries, domains and ``c0`` after the propagation of no decision."""

    value: F64
    domain: I32
    place: I32
    size: I32
    free: I32
    c0: float

    def restore(self, st: State) -> None:
        """Overwrite this search state by a saved one."""
        st.value[:], st.domain[:], st.place[:] = self.value, self.domain, self.place
        st.size[:], st.free[:] = self.size, self.free
        st.real[C0] = self.c0


def make_tree(n_states: int, n_variables: int, capacity: int = 1 << 16) -> SearchTree:
    """Return a tree with the root alone, open."""
    depth = n_states + n_variables + 2
    capacity = max(capacity, 4 * depth)
    tree = SearchTree(
        parent=np.full(capacity, -1, dtype=np.int64),
        variable=np.zeros(capacity, dtype=np.int32),
        state=np.zeros(capacity, dtype=np.int32),
        heap_bound=np.full(capacity, -np.inf),
        heap_node=np.zeros(capacity, dtype=np.int64),
        stack_variable=np.zeros(depth, dtype=np.int32),
        stack_state=np.zeros(depth, dtype=np.int32),
        stack_right=np.zeros(depth, dtype=np.int8),
        stack_bound=np.zeros(depth),
        stack_c0=np.zeros(depth),
        stack_top=np.zeros(2 * depth, dtype=np.int64),
        tally=np.zeros(8, dtype=np.int64),
        capacity=capacity,
        depth=depth,
    )
    tree.tally[N_TREE] = tree.tally[N_HEAP] = 1
    tree.tally[CONFLICTS] = 1
    return tree


def grow_tree(tree: SearchTree) -> SearchTree:
    """Return the tree with twice the capacity."""
    longer = {
        name: np.concatenate([getattr(tree, name), np.zeros_like(getattr(tree, name))])
        for name in ("parent", "variable", "state", "heap_bound", "heap_node")
    }
    return SearchTree(**(tree._asdict() | longer | {"capacity": 2 * tree.capacity}))


def root_of(st: State) -> Root:
    """Return a copy of the state as the start of all dives."""
    return Root(st.value.copy(), st.domain.copy(), st.place.copy(), st.size.copy(), st.free.copy(), float(st.real[C0]))


@njit(cache=True, nogil=True)
def search(core: Core, st: State, tree: SearchTree, root: Root, work: int) -> int:
    """Dive until all is closed (0), about ``work`` table entries were looked at (1) or the tree is full (2)."""
    c, s, t, r = pointed(core), pointed(st), pointed(tree), pointed(root)
    stop = s.tally[WORK] + work
    while t.tally[N_HEAP] > 0:
        if s.tally[WORK] >= stop:
            return 1
        if t.capacity - max(t.tally[N_TREE], t.tally[N_HEAP]) < 2 * t.depth:
            return 2
        bound, node = pop(t)
        if bound >= s.real[UB] - s.real[EPS]:
            t.tally[N_HEAP] = 0
            break
        if _replay(c, s, t, r, node):
            _dive(c, s, t, node, max(bound, s.real[C0]), stop, stop + LONG_DIVE * work)
        t.tally[DIVES] += 1
        share = t.tally[REPLAYED] / (s.tally[NODES] + 1.0)
        if share > 0.1 and t.tally[CONFLICTS] < MOST_CONFLICTS:
            t.tally[CONFLICTS] *= 2
        elif share < 0.05 and t.tally[CONFLICTS] > 1:
            t.tally[CONFLICTS] //= 2
    return 0


@njit(cache=True, nogil=True)
def _replay(core: Core, st: State, tree: SearchTree, root: Root, node: int) -> bool:
    """Put the state to the root, apply the decisions of a node and propagate."""
    n_values = core.n_messages + core.n_states
    st.tally[WORK] += n_values // 4  # as long as looking at so many table entries
    for i in range(n_values):
        st.value[i] = root.value[i]
    for i in range(core.n_states):
        st.domain[i], st.place[i] = root.domain[i], root.place[i]
    for v in range(core.n_variables):
        st.size[v] = root.size[v]
    for f in range(core.n_factors):
        st.free[f] = root.free[f]
    st.real[C0] = root.c0
    st.tally[TOP] = st.tally[DOMAIN_TOP] = st.tally[TRAILING] = 0
    weigh(core, st)
    ok = True
    while tree.parent[node] >= 0 and ok:
        tree.tally[REPLAYED] += 1
        v, s = ZERO + tree.variable[node], ZERO + tree.state[node]
        ok = _decide(core, st, v, s if s >= 0 else -1 - s, s >= 0)
        node = tree.parent[node]
    ok = propagate_node(core, st) and ok
    if not ok:
        weigh_conflict(core, st)
    st.tally[TRAILING] = 1
    return ok


@njit(cache=True, nogil=True)
def weigh(core: Core, st: State) -> None:
    """Recompute the weighted degrees."""
    for v in range(core.n_variables):
        st.degree[v] = 0.0
    for f in range(core.n_factors):
        if st.free[f] >= 2:
            for k in range(core.slot_ptr[f], core.slot_ptr[f + 1]):
                st.degree[core.scope[k]] += st.weight[f]


@njit(cache=True, nogil=True)
def _decide(core: Core, st: State, v: int, s: int, take: bool) -> bool:
    """Apply a decision; return False when it cannot be."""
    there = st.place[core.state_ptr[v] + s] < st.size[v]
    if take:
        if there and st.size[v] > 1:
            assign(core, st, v, s)
        return there
    return remove(core, st, v, s) if there else True


@njit(cache=True, nogil=True)
def weigh_conflict(core: Core, st: State) -> None:
    """Give the factor of the last conflict more weight."""
    f = st.tally[CULPRIT]
    if core.n_factors == 0:
        return
    st.weight[f] += 1.0
    for k in range(core.slot_ptr[f], core.slot_ptr[f + 1]):
        v = core.scope[k]
        if st.free[f] != 1 or st.size[v] == 1:
            st.degree[v] += 1.0


@njit(cache=True, nogil=True)
def _dive(core: Core, st: State, tree: SearchTree, node: int, bound: float, stop: int, latest: int) -> None:
    """Search depth first from a node that is propagated, until it is closed or the conflicts are used up.

    After ``stop`` units of work it ends at the next conflict, after ``latest`` or when the trail is full at once.

    Parameters
    ----------
    core : Core
        The problem; read only.
    st : State
        The node's state; in the end that of some descendant, which the next dive replaces.
    tree : Tree
        Nodes still open on the stack go to its heap; its counts are updated.
    node : int
        Where the node is in the tree.
    bound : float
        Lower bound of the node's costs: that of the heap or ``c0``, whichever is larger.
    stop, latest : int
        In table entries looked at, as ``st.tally[WORK]`` counts them.
    """
    depth, conflicts, n_values = ZERO, 0, core.n_messages + core.n_states
    st.tally[LAST] = -1
    while True:
        v = choose(core, st)
        if v < 0:
            _note_labelling(core, st, tree)
            conflict = True
        elif depth > 0 and (st.tally[TOP] + n_values > core.capacity or st.tally[WORK] >= latest):
            end = _keep_open(tree, node, depth, st.real[UB] - st.real[EPS])
            push(tree, max(bound, st.real[C0]), end)
            return
        else:
            s = _value(core, st, v)
            tree.stack_variable[depth], tree.stack_state[depth] = v, s
            tree.stack_right[depth] = 0
            tree.stack_c0[depth] = st.real[C0]
            tree.stack_bound[depth] = max(bound, st.real[C0])
            tree.stack_top[2 * depth], tree.stack_top[2 * depth + 1] = st.tally[TOP], st.tally[DOMAIN_TOP]
            depth += 1
            st.tally[LEVEL] += 1
            st.tally[NODES] += 1
            assign(core, st, v, s)
            conflict = not propagate_node(core, st)
            if conflict:
                weigh_conflict(core, st)
        while conflict:
            conflicts += 1
            while depth > 0 and tree.stack_right[depth - 1]:
                depth -= 1
                _back(core, st, tree, depth)
            if depth == 0:
                return
            _back(core, st, tree, depth - 1)
            if tree.stack_bound[depth - 1] >= st.real[UB] - st.real[EPS]:
                depth -= 1
                conflicts -= 1  # a labelling found since closes it: nothing was propagated in vain
                continue
            if conflicts >= tree.tally[CONFLICTS] or st.tally[WORK] >= stop:
                _keep_open(tree, node, depth, st.real[UB] - st.real[EPS])
                return
            v, s = ZERO + tree.stack_variable[depth - 1], ZERO + tree.stack_state[depth - 1]
            tree.stack_right[depth - 1] = 1
            st.tally[LAST] = v
            st.tally[LEVEL] += 1
            st.tally[NODES] += 1
            conflict = not (remove(core, st, v, s) and propagate_node(core, st))
            if conflict:
                weigh_conflict(core, st)


@njit(cache=True, nogil=True)
def _back(core: Core, st: State, tree: SearchTree, depth: int) -> None:
    """Return to the state before the decision number ``depth`` of the stack."""
    undo(core, st, tree.stack_top[2 * depth], tree.stack_top[2 * depth + 1])
    st.real[C0] = tree.stack_c0[depth]


@njit(cache=True, nogil=True)
def choose(core: Core, st: State) -> int:
    """Return the variable to branch on, -1 when all have one state."""
    last = st.tally[LAST]
    if last >= 0 and st.size[last] > 1:
        return last
    best, least = ZERO - 1, np.inf
    st.tally[WORK] += core.n_variables // 4
    for v in range(core.n_variables):
        if st.size[v] > 1:
            key = st.size[v] / (st.degree[v] + 1.0)
            if key < least:
                best, least = v, key
    return best


@njit(cache=True, nogil=True)
def _value(core: Core, st: State, v: int) -> int:
    """Return the state of least unary cost, that of the best labelling if it is one of them."""
    first = core.state_ptr[v]
    best, least = ZERO + st.domain[first], np.inf
    for i in range(st.size[v]):
        s = ZERO + st.domain[first + i]
        cost = st.value[core.n_messages + first + s]
        if cost < least or (cost == least and s == st.best[v]):
            best, least = s, cost
    return best


@njit(cache=True, nogil=True)
def labels_cost(core: Core, labels: I32) -> float:
    """Return the cost of a labelling by the costs as they were."""
    total = 0.0
    for v in range(core.n_variables):
        total += core.node_cost[core.state_ptr[v] + labels[v]]
    for f in range(core.n_factors):
        at = core.table_ptr[f]
        for k in range(core.slot_ptr[f], core.slot_ptr[f + 1]):
            at += labels[core.scope[k]] * core.stride[k]
        total += core.cost[at]
    return total


@njit(cache=True, nogil=True)
def _note_labelling(core: Core, st: State, tree: SearchTree) -> None:
    """Keep the labelling of a leaf if it is better than the best."""
    for v in range(core.n_variables):
        st.queue[v] = st.domain[core.state_ptr[v]]
    cost = labels_cost(core, st.queue)
    if cost < st.real[UB]:
        st.real[UB] = cost
        for v in range(core.n_variables):
            st.best[v] = st.queue[v]
        tree.tally[FOUND] += 1


@njit(cache=True, nogil=True)
def _keep_open(tree: SearchTree, node: int, depth: int, limit: float) -> int:
    """Put the other decisions that are open on the stack to the heap; return the node at the end of the stack."""
    for j in range(depth):
        v, s, bound = tree.stack_variable[j], tree.stack_state[j], tree.stack_bound[j]
        if not tree.stack_right[j] and bound < limit:
            push(tree, bound, _child(tree, node, v, -1 - s))
        node = _child(tree, node, v, -1 - s if tree.stack_right[j] else s)
    return node


@njit(cache=True, nogil=True)
def _child(tree: SearchTree, parent: int, v: int, s: int) -> int:
    """Add a decision to the tree."""
    at = tree.tally[N_TREE]
    tree.parent[at], tree.variable[at], tree.state[at] = parent, v, s
    tree.tally[N_TREE] = at + 1
    return at


@njit(cache=True, nogil=True)
def push(tree: SearchTree, bound: float, node: int) -> None:
    """Add an open node to the heap."""
    i = tree.tally[N_HEAP]
    tree.tally[N_HEAP] = i + 1
    while i > 0 and tree.heap_bound[(i - 1) // 2] > bound:
        tree.heap_bound[i], tree.heap_node[i] = tree.heap_bound[(i - 1) // 2], tree.heap_node[(i - 1) // 2]
        i = (i - 1) // 2
    tree.heap_bound[i], tree.heap_node[i] = bound, node


@njit(cache=True, nogil=True)
def pop(tree: SearchTree) -> tuple[float, int]:
    """Take the open node of least bound from the heap."""
    top = tree.heap_bound[0], tree.heap_node[0]
    n = tree.tally[N_HEAP] - 1
    tree.tally[N_HEAP] = n
    bound, node = tree.heap_bound[n], tree.heap_node[n]
    i = 0
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and tree.heap_bound[child + 1] < tree.heap_bound[child]:
            child += 1
        if tree.heap_bound[child] >= bound:
            break
        tree.heap_bound[i], tree.heap_node[i] = tree.heap_bound[child], tree.heap_node[child]
        i = child
    tree.heap_bound[i], tree.heap_node[i] = bound, node
    return top
