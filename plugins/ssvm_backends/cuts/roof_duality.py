"""Roof duality: bound and partial labelling of any binary pairwise problem from one flow.

Every variable x has two nodes, x and its negation; a table with ``D >= 0`` (see :mod:`ssvm_backends.cuts.graph`) links
x and y, any other one links x and the negation of y, in whose states the table is submodular; each link has a mirror
image between the negations.  A minimum cut of this network is twice the optimum of the relaxation in which
x + not x = 1 may fail, which is the local polytope (Hammer, Hansen and Simeone 1984; Boros and Hammer 2002).  With e
the unary scores after all tables are rewritten and R the excess that cannot flow away::

    score(y) <= const + (sum_v e_v + R) / 2        for every labelling y, and for every flow, maximal or not

A node that the source still reaches takes its state in some optimum (persistency).  Of the variables undecided so
far, those are decided too whose nodes lie in different strongly connected components of the residual arcs, taken in
topological order (Kolmogorov and Rother, PAMI 2007, section 2.3); overwriting any labelling with all decided states
never lowers its score.

Node 2 v stands for variable v, 2 v + 1 for its negation; both have one arc for each factor of v, in the order of the
factors.  So the network is laid out while the tables are read, and the mirror image of an arc is the sister of the
arc at the same place of the opposite node.

Measured against thinqpbo 0.1.5, a wrapper of Kolmogorov's QPBO, one thread, with the same bounds: a whole answer, local
search on open variables included, takes 88 and 96 ms on grids of 200 x 200 with weak and strong tables and 2.1 ms on
a complete graph of 100; thinqpbo 290, 396 and 17 ms, of which the flow alone is 48, 88 and 5.4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.cuts.graph import pair_terms, whole, whole_scale
from ssvm_backends.cuts.maxflow import Arcs, Flow, Nodes, advance, push_along_shortest, start
from ssvm_backends.graphs.graph import Graph, Instance, factor_origin
from ssvm_dsl.ir import F64, I32, I64, Bools, Marginals, Primal, Program, Theta, pointers
from ssvm_dsl.kernels import borrow, njit


@njit(cache=True, nogil=True)
def roof_network(
    graph: Graph, score: F64, pool: F64, example: int, scale: float, node: Nodes, arc: Arcs
) -> tuple[int, int]:
    """Write an example's network; return (const, sum of unary scores) as whole numbers.

    Parameters
    ----------
    graph : Graph
        Structure; pairs of binary variables only.
    score, pool : ndarray of float64
        Scores of states (finite) and tables, which may hold ``-inf`` but allow every state.
    example : int
        The example.
    scale : float
        Power of two that makes scores whole numbers, see :func:`~ssvm_backends.cuts.graph.whole_scale`.
    node : ndarray of NODE, shape (at least 2 n + 1,)
        Written: excess and first arc of both nodes of each variable.
    arc : ndarray of ARC, shape (at least 4 m,)
        Written: two links, each with its sister, for each of the m factors.

    Returns
    -------
    const : int
        The constants of all rewritten tables, and the scores of state 0.
    total : int
        ``sum_v e_v`` of the module's bound.
    """
    lo, n = graph.var_ptr[example], graph.var_ptr[example + 1] - graph.var_ptr[example]
    first, const, total = 2 * graph.touch_ptr[lo], 0, 0
    n_written = np.zeros(n, np.int64)  # arcs of each variable
    for v in range(n):
        s = graph.state_ptr[lo + v]
        zero = whole(score[s], scale)
        const += zero
        node[2 * v].excess = whole(score[s + 1], scale) - zero
        start, end = graph.touch_ptr[lo + v], graph.touch_ptr[lo + v + 1]
        node[2 * v].first, node[2 * v + 1].first = 2 * start - first, start + end - first
    node[2 * n].first = 2 * graph.touch_ptr[lo + n] - first
    for f in range(graph.factor_ptr[example], graph.factor_ptr[example + 1]):
        k, at = graph.slot_ptr[f], graph.table_ptr[f]
        x, y = graph.scope[k] - lo, graph.scope[k + 1] - lo
        p, q = 2 * x, 2 * y
        base, e_x, e_y, c_xy, c_yx = pair_terms(pool[at], pool[at + 1], pool[at + 2], pool[at + 3], scale)
        turned = np.int64(c_xy < 0)  # D < 0: the table is submodular in x and the negation of y
        if turned:
            base, e_x, e_y, c_xy, c_yx = pair_terms(pool[at + 1], pool[at], pool[at + 3], pool[at + 2], scale)
            base, e_y = base + e_y, -e_y
        const += base
        node[p].excess += e_x
        node[q].excess += e_y
        i, j = n_written[x], n_written[y]
        n_written[x], n_written[y] = i + 1, j + 1
        a, b = node[p].first + i, node[q + turned].first + j  # the link from p to q or its negation
        arc[a].cap, arc[a].head, arc[a].sister = c_xy, q + turned, b
        arc[b].cap, arc[b].head, arc[b].sister = c_yx, p, a
        a, b = node[q + 1 - turned].first + j, node[p + 1].first + i  # its mirror image
        arc[a].cap, arc[a].head, arc[a].sister = c_xy, p + 1, b
        arc[b].cap, arc[b].head, arc[b].sister = c_yx, q + 1 - turned, a
    for v in range(n):
        total += node[2 * v].excess
        node[2 * v + 1].excess = -node[2 * v].excess
    return const, total


@njit(cache=True, nogil=True)
def _mirror(n: int, node: Nodes, arc: Arcs) -> None:
    """Make the residual network symmetric: arcs and their mirror images get the sum of both capacities."""
    for v in range(n):
        shift = node[2 * v + 1].first - node[2 * v].first
        for a in range(node[2 * v].first, node[2 * v + 1].first):
            if arc[a].head >> 1 > v:
                c = arc[a + shift].sister
                both = arc[a].cap + arc[c].cap
                arc[a].cap, arc[c].cap = both, both
                b, c = arc[a].sister, a + shift
                both = arc[b].cap + arc[c].cap
                arc[b].cap, arc[c].cap = both, both


@njit(cache=True, nogil=True)
def roof_labels(n: int, node: Nodes, arc: Arcs, labels: I32, stack: I64) -> None:
    """Write the persistent state of each variable, -1 where roof duality leaves it open, after the flow.

    The residual network is made symmetric first (changed in place).  ``stack`` holds 2 n numbers.
    """
    _mirror(n, node, arc)
    n_stack, n_open = 0, n
    for v in range(n):
        rest = node[2 * v].excess - node[2 * v + 1].excess  # twice v's excess in the symmetric network
        labels[v] = -1
        if rest != 0:
            labels[v] = 1 if rest > 0 else 0
            stack[n_stack] = 2 * v + (0 if rest > 0 else 1)
            n_stack += 1
            n_open -= 1
    while n_stack > 0 and n_open > 0:  # nodes that the source reaches
        n_stack -= 1
        u = stack[n_stack]
        for a in range(node[u].first, node[u + 1].first):
            w = arc[a].head
            if arc[a].cap > 0 and labels[w >> 1] < 0:
                labels[w >> 1] = 1 - (w & 1)
                stack[n_stack] = w
                n_stack += 1
                n_open -= 1
    if n_open > 0:
        component = components(n, labels, node, arc)
        for v in range(n):
            if labels[v] < 0 and component[2 * v] != component[2 * v + 1]:
                labels[v] = component[2 * v] < component[2 * v + 1]


@njit(cache=True, nogil=True)
def components(n: int, labels: I32, node: Nodes, arc: Arcs) -> I64:
    """Return the strongly connected component of each node of an open variable (Tarjan 1972).

    Components are numbered against the arcs: residual arcs lead to the same or a smaller number.
    """
    index, low = np.full(2 * n, -1, np.int64), np.zeros(2 * n, np.int64)
    component, at = np.full(2 * n, -1, np.int64), np.zeros(2 * n, np.int64)
    stack, path = np.empty(2 * n, np.int64), np.empty(2 * n, np.int64)
    n_stack, count, n_components = 0, 0, 0
    for root in range(2 * n):
        if labels[root >> 1] >= 0 or index[root] >= 0:
            continue
        path[0], depth = root, 1
        while depth > 0:
            u = path[depth - 1]
            if index[u] < 0:
                index[u] = low[u] = count
                count += 1
                at[u] = node[u].first
                stack[n_stack] = u
                n_stack += 1
            deeper = False
            while at[u] < node[u + 1].first:
                w = arc[at[u]].head
                if arc[at[u]].cap > 0 and labels[w >> 1] < 0:
                    if index[w] < 0:
                        path[depth] = w
                        depth += 1
                        deeper = True
                        break
                    if component[w] < 0:
                        low[u] = min(low[u], low[w])
                at[u] += 1
            if deeper:
                continue
            depth -= 1
            if low[u] == index[u]:
                while True:
                    n_stack -= 1
                    component[stack[n_stack]] = n_components
                    if stack[n_stack] == u:
                        break
                n_components += 1
    return component


# -- The batch kernels of ``qpbo``: network, flow, persistent states and bound, example after example ----------------

#: The position in a batch: examples finished, whether the flow of the next one is under way, twice its constant and the
#: sum of its unary scores (a whole number), its scale, whether something of it is forbidden, waves before the search.
ROOF_STATE = np.dtype(
    [
        ("finished", np.int64), ("under_way", np.int64), ("twice", np.int64), ("scale", np.float64),
        ("forbidden", np.int64), ("waves", np.int64),
    ]
)  # fmt: skip
RoofState = NDArray[np.void]

#: Most waves before the search (see :mod:`ssvm_backends.cuts.maxflow`): on graphs of up to this number of
#: variables, and on those with more than this number of neighbours of a variable on average.
WAVES, TINY, DENSE = 32, 16, 8


class RoofBatch(NamedTuple):
    """Roof duality on some examples.

    Parameters
    ----------
    instance : Instance
        Pairs of variables of two states.
    ids : ndarray of int64, shape (n,)
        Examples.
    feasible : ndarray of bool, shape (n,)
        The others are left out: their bound is -inf.
    label_ptr : ndarray of int64, shape (n + 1,)
        Where their labels go.
    decided : ndarray of int32
        Result: the states that roof duality decides, -1 where it leaves a variable open.
    bound : ndarray of float64, shape (n,)
        Result: upper bounds, that of the example under way included.
    """

    instance: Instance
    ids: I64
    feasible: Bools
    label_ptr: I64
    decided: I32
    bound: F64


@njit(cache=True, nogil=True)
def _forbids(graph: Graph, score: F64, pool: F64, example: int) -> bool:
    """Whether a state or a joint state of an example is forbidden."""
    for s in range(graph.state_ptr[graph.var_ptr[example]], graph.state_ptr[graph.var_ptr[example + 1]]):
        if score[s] == -np.inf:
            return True
    for f in range(graph.factor_ptr[example], graph.factor_ptr[example + 1]):
        at = graph.table_ptr[f]
        if min(min(pool[at], pool[at + 1]), min(pool[at + 2], pool[at + 3])) == -np.inf:
            return True
    return False


@njit(cache=True, nogil=True)
def _bound(n: int, m: int, node: Nodes, twice: int, scale: float, const: float) -> float:
    """Return the bound that a flow, maximal or not, proves; ``twice`` is 2 const + sum_v e_v (see the module roof)."""
    for v in range(2 * n):
        twice += max(node[v].excess, np.int64(0))
    # rounding: half a unit for each score added up, and 53 binary digits for the sum itself
    bound = twice / (2 * scale) + (n + m + 64) / scale + const
    return bound + 2 * np.spacing(abs(bound))


@njit(cache=True, nogil=True)
def _flow(n: int, m: int, flow: Flow, queue: I64, state: RoofState, budget: int) -> tuple[bool, int]:
    """Continue a flow; return (whether it is maximal, the rest of the budget).

    Parameters
    ----------
    n, m : int
        Variables and factors of the example: 2 n nodes, 4 m arcs.
    flow : Flow
        It grows in place.
    queue : ndarray of int64, shape (at least 2 n,)
        Work space of the waves.
    state : ndarray of ROOF_STATE, shape (1,)
        How many waves are still to come is counted down.
    budget : int
        Number of arcs to visit, approximately.
    """
    while state[0].waves > 0:
        if budget <= 0:
            return False, budget
        budget -= 4 * m
        if push_along_shortest(flow.node, flow.arc, 2 * n, queue):
            return True, budget
        state[0].waves -= 1
        if state[0].waves == 0:
            start(flow.node, 2 * n, flow.control)
    done = budget > 0 and advance(flow.node, flow.arc, flow.control, budget)
    return done, budget - flow.control[0].time * (1 + 2 * m // n)


@njit(cache=True, nogil=True)
def roof_batch(batch: RoofBatch, whole: bool, flow: Flow, stack: I64, state: RoofState, budget: int) -> bool:
    """Continue a batch until it is done (return True), the budget is spent or ``whole`` is not true (False).

    Parameters
    ----------
    batch : RoofBatch
        ``decided`` and ``bound`` are written.
    whole : bool
        The caller says that nothing is forbidden; ``state.forbidden`` is set when that is wrong.
    flow, stack
        Work space for the largest example; ``stack`` has two numbers for each variable.
    state : ndarray of ROOF_STATE, shape (1,)
        The position in the batch, in and out; zeros at first.
    budget : int
        Number of arcs to visit, approximately.
    """
    instance, flow, stack, decided = borrow(batch.instance), borrow(flow), borrow(stack), borrow(batch.decided)
    graph, score, pool, const, at = instance.graph, instance.node, instance.pool, instance.const, state[0]
    ptr, bound = batch.label_ptr, batch.bound
    while at.finished < len(batch.ids):
        k = at.finished
        i = batch.ids[k]
        n = graph.var_ptr[i + 1] - graph.var_ptr[i]
        m = graph.factor_ptr[i + 1] - graph.factor_ptr[i]
        if n == 0 or not batch.feasible[k]:
            bound[k] = const[i] if batch.feasible[k] else -np.inf
            at.finished += 1
            continue
        if at.under_way == 0:
            if whole and _forbids(graph, score, pool, i):
                at.forbidden = 1
                return False
            at.scale = whole_scale(graph, score, pool, i)
            base, total = roof_network(graph, score, pool, i, at.scale, flow.node, flow.arc)
            at.under_way, at.twice = 1, 2 * base + total
            at.waves = WAVES if n <= TINY or 2 * m > DENSE * n else 0
            start(flow.node, 2 * n, flow.control)
            budget -= 4 * (n + m)
        done, budget = _flow(n, m, flow, stack, state, budget)
        bound[k] = _bound(n, m, flow.node, at.twice, at.scale, const[i])
        if not done:
            return False
        roof_labels(n, flow.node, flow.arc, decided[ptr[k] : ptr[k + 1]], stack)
        at.finished += 1
        at.under_way = 0
    return True


# -- The optimum of the local polytope, from the states that roof duality decides ------------------------------------
#
# Decided variables have their state, the others half of each.  A factor has half of (low, low) and (high, high) or half
# of (low, high) and (high, low), where an open variable is low in one state and high in the other: the better pair
# (Hammer, Hansen and Simeone 1984).  Where a variable is decided both pairs are the same.

_FRACTIONAL, _NONE, _INFEASIBLE = int(Primal.FRACTIONAL), int(Primal.NONE), int(Primal.INFEASIBLE)


class Halves:
    """Marginals of the examples of a program with two states for each variable (or one).

    Parameters
    ----------
    program : Program
    graph : Graph
        ``build_graph(program)``.
    """

    def __init__(self, program: Program, graph: Graph) -> None:
        self.program, self.graph, groups = program, graph, program.groups
        self.group, number = factor_origin(program)
        owner = np.repeat(np.arange(graph.n_examples), np.diff(graph.factor_ptr))
        first = np.array([one.ptr for one in groups], dtype=np.int64).reshape(len(groups), program.n_examples + 1)
        #: Where the table of a factor starts among those of its example and group.
        self.offset = (number - first[self.group, owner]) * graph.table_size
        #: Marginals of an example: of its variables, then of its factors by group.
        states = np.diff(program.state_ptr[program.var_ptr])
        self.sizes = np.stack([states, *(np.diff(one.ptr) * one.n_configs for one in groups)])

    def solution(
        self, theta: Theta, ids: I64, decided: I32, reached: NDArray[np.bool_], bound: F64
    ) -> tuple[Marginals, F64, NDArray[np.int8]]:
        """Return (marginals, scores, :class:`~ssvm_dsl.ir.Primal` values) of some examples.

        Parameters
        ----------
        ids : ndarray of int64, shape (n,)
        decided : ndarray of int32
            Packed states of these examples' variables, -1 where open.
        reached : ndarray of bool, shape (n,)
            The others have no score, and marginals of zero.
        bound : ndarray of float64, shape (n,)
            Upper bounds; those below the score by rounding are lifted to it, in place.
        """
        n = len(ids)
        ptr = pointers(self.sizes[:, ids].ravel())
        mu, score, primal = np.zeros(ptr[-1]), np.empty(n), np.empty(n, np.int8)
        out = HalfIntegral(ptr, mu, score, bound, primal)
        write_halves(Instance.of(self.graph, theta), self.group, self.offset, ids, decided, reached, out)
        ends = ptr[n::n].tolist() if n else [0] * len(self.sizes)
        parts = zip(ends[:-1], ends[1:], self.program.groups, strict=True)
        tables = tuple(mu[first:end].reshape(-1, one.n_configs) for first, end, one in parts)
        return Marginals(mu[: ends[0]], tables), score, primal


class HalfIntegral(NamedTuple):
    """The optima of n local polytopes.

    Parameters
    ----------
    ptr : ndarray of int64, shape (n + n_groups n + 1,)
        Where the marginals of the variables of each example start, then of its factors of the first group, and so on.
    mu : ndarray of float64
        Marginals; zero before.
    score, bound : ndarray of float64, shape (n,)
        Scores, and bounds that are lifted to them.
    primal : ndarray of int8, shape (n,)
    """

    ptr: I64
    mu: F64
    score: F64
    bound: F64
    primal: NDArray[np.int8]


@njit(cache=True, nogil=True)
def write_halves(
    instance: Instance, group: I64, offset: I64, ids: I64, decided: I32, reached: NDArray[np.bool_], out: HalfIntegral
) -> None:
    """Write marginals and scores, and lift bounds to them.

    Parameters
    ----------
    instance : Instance
        Factors of two variables.
    group, offset : ndarray of int64, shape (F,)
        See :class:`Halves`.
    ids : ndarray of int64, shape (n,)
    decided : ndarray of int32
        Packed over ``ids``.
    reached : ndarray of bool, shape (n,)
    out : HalfIntegral
        Written.
    """
    instance, group, offset, decided = borrow(instance), borrow(group), borrow(offset), borrow(decided)
    out = borrow(out)
    graph, node, pool, const = instance.graph, instance.node, instance.pool, instance.const
    ptr, mu, score, bound, primal = out.ptr, out.mu, out.score, out.bound, out.primal
    at, n = 0, len(ids)
    for k in range(n):
        i, to = ids[k], ptr[k]
        shift, total = at - graph.var_ptr[i], const[i]
        at += graph.var_ptr[i + 1] - graph.var_ptr[i]
        if not reached[k]:
            score[k], primal[k] = -np.inf, _INFEASIBLE if bound[k] == -np.inf else _NONE
            continue
        for v in range(graph.var_ptr[i], graph.var_ptr[i + 1]):
            a, s = decided[v + shift], graph.state_ptr[v]
            low, high = max(a, 0), (1 if a < 0 else a)
            mu[to + low] += 0.5
            mu[to + high] += 0.5
            total += 0.5 * (node[s + low] + node[s + high])
            to += graph.state_ptr[v + 1] - s
        for f in range(graph.factor_ptr[i], graph.factor_ptr[i + 1]):
            slot, table = graph.slot_ptr[f], graph.table_ptr[f]
            a, b = decided[graph.scope[slot] + shift], decided[graph.scope[slot + 1] + shift]
            step = graph.stride[slot]
            p, q = max(a, 0) * step + max(b, 0), (1 if a < 0 else a) * step + (1 if b < 0 else b)
            if a < 0 and b < 0 and pool[table] + pool[table + 3] < pool[table + 1] + pool[table + 2]:
                p, q = 1, 2
            to = ptr[(group[f] + 1) * n + k] + offset[f]
            mu[to + p] += 0.5
            mu[to + q] += 0.5
            total += 0.5 * (pool[table + p] + pool[table + q])
        score[k], bound[k], primal[k] = total, max(total, bound[k]), _FRACTIONAL
