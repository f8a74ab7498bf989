"""Cycles whose clusters lower a dual bound, in reparametrised scores that message passing has brought to rest.

Triangles, and squares without a chord, are listed.  Longer cycles are looked for among *frustrated* ones (Sontag, Choe
and Li, UAI 2012): each variable is split in two by a state, and an edge with table b wants both ends on the same side,
or on different ones, by

    w = max of b over joint states on the same side - max of b over the others .

A cycle with an odd number of edges that want to differ cannot please them all: a cluster takes at least the smallest
``|w|`` on it off the bound; :func:`~ssvm_backends.dual.clusters.kernels.cycle_gains` tells how much exactly.  In a
graph with two copies of each variable, which edges that want to differ cross, such a cycle is a path from a variable
to its other copy.  The largest threshold for ``|w|`` with such a path is found by bisection; half of it leaves more
cycles, of which breadth-first search finds a shortest one through each variable (or each of :data:`ROOTS` of them).

Where all variables are binary and messages have come to rest, only frustrated cycles lower the bound.  With more
states others may, too, however variables are split; there the fundamental cycles of breadth-first trees are candidates.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from ssvm_backends.graphs.deadline import UNLIMITED
from ssvm_dsl.ir import F64, I64, pointers
from ssvm_dsl.plugin_api import Clock

#: Triangles and squares that are looked at in one round, at most.
CANDIDATES = 100_000

#: Edges and variables between two checks of the clock, and those whose paths may be long.
LOOK_EVERY, LOOK_OFTEN = 1024, 64

#: Seconds for each joint state of an edge that it takes to make the graph of two copies, or to search it.
GRAPH_SECONDS = 4e-7

#: Variables through which longer cycles are looked for in one round, at most.
ROOTS = 50

#: Most joint states of an edge that is split in two.
MOST_SPLIT = 64


def short_cycles(
    pairs: list[tuple[int, int]], n: int, known: set[tuple[int, int, int]], clock: Clock = UNLIMITED
) -> list[tuple[int, ...]]:
    """Return triangles that are not known, and squares without a chord.

    Parameters
    ----------
    pairs : list of (int, int)
        The edges of a graph, ascending.
    n : int
        The number of variables.
    known : set of (int, int, int)
        Triangles to leave out, ascending.
    clock : Clock
        When time is up, the results so far are returned; so in all of this module.
    """
    near: list[set[int]] = [set() for _ in range(n)]
    for i, j in pairs:
        near[i].add(j)
        near[j].add(i)
    out: list[tuple[int, ...]] = []
    for number, (i, j) in enumerate(pairs):
        out += [(i, j, v) for v in near[i] & near[j] if v > j and (i, j, v) not in known]
        if len(out) > CANDIDATES or (number % LOOK_EVERY == 0 and clock.over):
            break
    for i in range(n):
        if i % LOOK_EVERY == 0 and clock.over:
            break
        two = {v for j in near[i] if j > i for v in near[j] if v > i and v not in near[i]}
        for v in sorted(two):
            between = sorted(w for w in near[i] & near[v] if w > i)  # i is the first of the cycle: each comes once
            out += [(i, j, v, u) for at, j in enumerate(between) for u in between[at + 1 :] if u not in near[j]]
        if len(out) > CANDIDATES:
            break
    return out


def frustrated_cycles(
    ends: I64, card: I64, edge_at: I64, edge: F64, least: float, clock: Clock = UNLIMITED
) -> list[tuple[int, ...]]:
    """Return short cycles of edges that want what cannot be had, each once; see the module.

    Parameters
    ----------
    ends : ndarray of int64, shape (m, 2)
        The variables of each edge.
    card : ndarray of int64, shape (n,)
    edge_at : ndarray of int64, shape (m + 1,)
        Where the scores of each edge start.
    edge : ndarray of float64
        Reparametrised scores.
    least : float
        The least fall of the bound by a cycle.
    clock : Clock
    """
    graph_seconds = GRAPH_SECONDS * float((card[ends[:, 0]] * card[ends[:, 1]]).sum())
    if clock.left <= graph_seconds:
        return []
    variable = np.repeat(np.arange(len(card)), np.where(card == 2, 1, card))
    tail, head, want = split_edges(ends, card, edge_at, edge)
    strong = np.abs(want) > least
    tail, head, want = tail[strong], head[strong], want[strong]
    sizes = np.unique(np.abs(want))
    low, high = 0, len(sizes)  # a path exists for the threshold at low - 1, none for that at high
    while low < high and clock.left > graph_seconds:
        middle = (low + high) // 2
        if len(torn(two_copies(tail, head, want, float(sizes[middle]), len(variable)))):
            low = middle + 1
        else:
            high = middle
    if low == 0 or clock.left <= graph_seconds:
        return []
    graph = two_copies(tail, head, want, 0.5 * float(sizes[low - 1]), len(variable))
    roots = torn(graph)
    roots = roots[np.linspace(0, len(roots) - 1, min(ROOTS, len(roots))).astype(np.int64)]
    cycles: dict[tuple[int, ...], None] = {}
    for root in roots.tolist():
        if clock.left <= graph_seconds:
            break
        _, before = breadth_first_order(graph, 2 * root)
        cycle = shortest_part(before, root)
        variables = [int(variable[k]) for k in cycle]
        if len(set(variables)) == len(variables) > 3:
            cycles[from_the_first(variables)] = None
    return list(cycles)


def fundamental_cycles(ends: I64, n: int, root: int, clock: Clock = UNLIMITED) -> list[tuple[int, ...]]:
    """Return the cycles of more than three variables that edges close with the breadth-first tree of a root.

    Parameters
    ----------
    ends : ndarray of int64, shape (m, 2)
        The edges.
    n : int
        The number of variables.
    root : int
    clock : Clock
    """
    graph = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))
    order, before = breadth_first_order(graph, root, directed=False)
    depth = np.full(n, -1)
    for v in order.tolist():
        depth[v] = 0 if v == root else depth[before[v]] + 1
    out = []
    for number, (i, j) in enumerate(ends[depth[ends[:, 0]] >= 0].tolist()):
        if number % LOOK_OFTEN == 0 and clock.over:
            break
        left, right = [i], [j]
        while left[-1] != right[-1]:
            side = left if depth[left[-1]] >= depth[right[-1]] else right
            side.append(int(before[side[-1]]))
        if len(left) + len(right) > 4:
            out.append(from_the_first(left + right[-2::-1]))
    return out


def split_edges(ends: I64, card: I64, edge_at: I64, edge: F64) -> tuple[I64, I64, F64]:
    """Return both split variables of each split edge, and its weight: w of the module.

    A variable of two states is split once, one of more states once for each: that state or another.
    """
    first = pointers(np.where(card == 2, 1, card))
    tails, heads, wants = [], [], []
    shapes, kind = np.unique(card[ends], axis=0, return_inverse=True)
    for k, (a, b) in enumerate(shapes.tolist()):
        if min(a, b) < 2 or a * b > MOST_SPLIT:
            continue
        mine = np.flatnonzero(kind.ravel() == k)
        table = edge[edge_at[mine][:, None] + np.arange(a * b)].reshape(-1, a, b)
        for s in range(1 if a == 2 else a):
            for t in range(1 if b == 2 else b):
                same = (np.arange(a) == s)[:, None] == (np.arange(b) == t)
                wants.append(table[:, same].max(axis=1) - table[:, ~same].max(axis=1))
                tails.append(first[ends[mine, 0]] + s)
                heads.append(first[ends[mine, 1]] + t)
    if not wants:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    return np.concatenate(tails), np.concatenate(heads), np.concatenate(wants)


def two_copies(tail: I64, head: I64, want: F64, threshold: float, n: int) -> csr_array:
    """Return the graph of two copies 2k and 2k + 1 of each of n split variables, with edges of ``|w| >= threshold``."""
    strong = np.abs(want) >= threshold
    tail, head, cross = 2 * tail[strong], 2 * head[strong], want[strong] < 0.0
    one, other = np.concatenate([tail, tail + 1]), np.concatenate([head + cross, head + 1 - cross])
    # both directions are written out: each search would turn the graph round once more
    rows, columns = np.concatenate([one, other]), np.concatenate([other, one])
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=(2 * n, 2 * n))


def torn(graph: csr_array) -> I64:
    """Return the split variables whose two copies are connected."""
    _, part = connected_components(graph, directed=False)
    return np.flatnonzero(part[0::2] == part[1::2]).astype(np.int64)


def shortest_part(before: I64, root: int) -> list[int]:
    """Return the shortest cycle on a path from a variable's first copy to its second, by predecessors on the way."""
    path = [2 * root + 1]
    while path[-1] != 2 * root:
        path.append(int(before[path[-1]]))
    seen: dict[int, int] = {}
    best = (0, len(path) - 1)
    for j, node in enumerate(path):
        i = seen.setdefault(node // 2, j)
        if i < j and j - i < best[1] - best[0]:
            best = (i, j)
    return [node // 2 for node in path[best[0] : best[1]]]


def from_the_first(cycle: list[int]) -> tuple[int, ...]:
    """Return a cycle as it is written: the smallest variable first, then the smaller of its neighbours."""
    at = cycle.index(min(cycle))
    turned = cycle[at:] + cycle[:at]
    return tuple(turned if turned[1] < turned[-1] else [turned[0], *turned[:0:-1]])
