"""Kernels of ``cycles``: updates of edges and of clusters of three edges, and the resulting bound.

Scores are kept reparametrised: those of a variable hold the messages of its edges, those of an edge are without them
and without what its clusters hold.  With ``b`` the reparametrised scores the bound is

    sum_v max b_v + sum_e max b_e + sum_c max over x_c of sum_{e in c} b_ce(x_e) .
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from ssvm_backends.graphs.deadline import UNLIMITED
from ssvm_dsl.ir import F64, I64, pointers
from ssvm_dsl.kernels import assign, borrow, njit
from ssvm_dsl.plugin_api import Clock


class ClusterGraph(NamedTuple):
    """Variables, edges and clusters of one example.

    Parameters
    ----------
    ends : ndarray of int64, shape (m, 2)
        The variables of each edge, ascending.
    card : ndarray of int64, shape (n,)
        Numbers of states.
    node_at, edge_at, lam_at : ndarray of int64
        Where the scores of variables and edges, and the messages of edges to both variables, start.
    edges : ndarray of int64, shape (c, 3)
        Edges (a, b), (a, d), (b, d) of each cluster of variables a < b < d.
    share_at : ndarray of int64, shape (c, 3)
        Where what it holds of them starts.
    """

    ends: I64
    card: I64
    node_at: I64
    edge_at: I64
    lam_at: I64
    edges: I64
    share_at: I64


class ClusterState(NamedTuple):
    """Messages, and the scores that they reparametrise; all are changed in place.

    Parameters
    ----------
    node, edge : ndarray of float64
        Reparametrised scores.
    lam : ndarray of float64
        Messages: the amounts that each edge has added to its variables.
    share : ndarray of float64
        What clusters hold of their edges.
    work : ndarray of float64, shape (at least 4 max(card)^2,)
        Work space.
    """

    node: F64
    edge: F64
    lam: F64
    share: F64
    work: F64


@njit(cache=True, nogil=True)
def sweep(graph: ClusterGraph, state: ClusterState, n: int) -> None:
    """Update every edge, then every cluster, forwards and backwards in turn; no update raises the bound.

    An edge shares its best scores with its variables (Globerson and Jaakkola 2007): with ``A = b_e + b_i + b_j``,

        b_i <- 1/2 max over x_j of A ,    b_j <- 1/2 max over x_i of A ,    b_e <- A - b_i - b_j ;

    a cluster with its edges: with B the sum of its three edges and what it holds of them,

        b_e <- 1/3 max over the third variable of B ,    b_ce <- b_ce + b_e(before) - b_e .
    """
    graph, state = borrow(graph), borrow(state)
    m, c = len(graph.ends), len(graph.edges)
    for number in range(n):
        for step in range(m):
            update_edge(graph, state, step if number % 2 == 0 else m - 1 - step)
        for step in range(c):
            update_cluster(graph, state, step if number % 2 == 0 else c - 1 - step)


@njit(cache=True, nogil=True)
def update_edge(graph: ClusterGraph, state: ClusterState, e: int) -> None:
    """Update the messages of edge e; see :func:`sweep`."""
    (node, edge, lam, _, work), at, lam_at = state, graph.edge_at[e], graph.lam_at[e]
    i, j = graph.ends[e, 0], graph.ends[e, 1]
    ni, nj, hi, hj = graph.card[i], graph.card[j], graph.node_at[i], graph.node_at[j]
    work[: ni + nj] = -np.inf
    for a in range(ni):
        for b in range(nj):
            edge[at + a * nj + b] += node[hi + a] + node[hj + b]
            work[a] = max(work[a], 0.5 * edge[at + a * nj + b])
            work[ni + b] = max(work[ni + b], 0.5 * edge[at + a * nj + b])
    for a in range(ni):
        lam[lam_at + a] += work[a] - node[hi + a]
        node[hi + a] = work[a]
        for b in range(nj):
            edge[at + a * nj + b] -= work[a] + work[ni + b]
    for b in range(nj):
        lam[lam_at + ni + b] += work[ni + b] - node[hj + b]
        node[hj + b] = work[ni + b]


@njit(cache=True, nogil=True)
def update_cluster(graph: ClusterGraph, state: ClusterState, k: int) -> None:
    """Update the messages of cluster k; see :func:`sweep`."""
    (_, edge, _, cl, work), edges, at = state, graph.edges[k], graph.share_at[k]
    na, nb, nd = cluster_cards(graph, k)
    p, q, r = graph.edge_at[edges[0]], graph.edge_at[edges[1]], graph.edge_at[edges[2]]
    second, third = na * nb, na * nb + na * nd
    work[: third + nb * nd] = -np.inf
    for a in range(na):
        for b in range(nb):
            ab = edge[p + a * nb + b] + cl[at[0] + a * nb + b]
            for d in range(nd):
                ad, bd = a * nd + d, b * nd + d
                total = ab + edge[q + ad] + cl[at[1] + ad] + edge[r + bd] + cl[at[2] + bd]
                work[a * nb + b] = max(work[a * nb + b], total / 3.0)
                work[second + ad] = max(work[second + ad], total / 3.0)
                work[third + bd] = max(work[third + bd], total / 3.0)
    give(edge, p, cl, at[0], work, 0, na * nb)
    give(edge, q, cl, at[1], work, second, na * nd)
    give(edge, r, cl, at[2], work, third, nb * nd)


@njit(cache=True, nogil=True)
def cluster_cards(graph: ClusterGraph, k: int) -> tuple[int, int, int]:
    """Return the numbers of states of the three variables of a cluster."""
    ends, edges = graph.ends, graph.edges[k]
    return graph.card[ends[edges[0], 0]], graph.card[ends[edges[0], 1]], graph.card[ends[edges[1], 1]]


@njit(cache=True, nogil=True)
def give(edge: F64, at: int, cl: F64, cl_at: int, new: F64, new_at: int, n: int) -> None:
    """Set n scores of an edge to new ones; the cluster holds the difference.

    Parameters
    ----------
    edge, cl : ndarray of float64
        Changed in place from ``at`` and ``cl_at`` on.
    at, cl_at, new_at : int
    new : ndarray of float64
        The new scores, from ``new_at`` on.
    n : int
    """
    for k in range(n):
        cl[cl_at + k] += edge[at + k] - new[new_at + k]
        edge[at + k] = new[new_at + k]


@njit(cache=True, nogil=True)
def refresh(graph: ClusterGraph, score: F64, edge_score: F64, state: ClusterState) -> None:
    """Recompute reparametrised scores from the scores of variables and edges, and messages."""
    ends, card, node_at, edge_at, lam_at, cl_edges, cl_at = graph
    node, edge, lam, cl, _ = state
    assign(node, score)
    assign(edge, edge_score)
    for k in range(len(cl_edges)):
        for part in range(3):
            e = cl_edges[k, part]
            for s in range(edge_at[e + 1] - edge_at[e]):
                edge[edge_at[e] + s] -= cl[cl_at[k, part] + s]
    for e in range(len(ends)):
        i, j = ends[e]
        for a in range(card[i]):
            node[node_at[i] + a] += lam[lam_at[e] + a]
            for b in range(card[j]):
                edge[edge_at[e] + a * card[j] + b] -= lam[lam_at[e] + a] + lam[lam_at[e] + card[i] + b]
        for b in range(card[j]):
            node[node_at[j] + b] += lam[lam_at[e] + card[i] + b]


@njit(cache=True, nogil=True)
def dual_bound(graph: ClusterGraph, state: ClusterState) -> float:
    """Return the bound of reparametrised scores; see the module."""
    node, edge, _, cl, _ = state
    node_at, edge_at, cl_at, total = graph.node_at, graph.edge_at, graph.share_at, 0.0
    for v in range(len(graph.card)):
        total += node[node_at[v] : node_at[v + 1]].max()
    for e in range(len(graph.ends)):
        total += edge[edge_at[e] : edge_at[e + 1]].max()
    for k in range(len(graph.edges)):
        (na, nb, nd), best = cluster_cards(graph, k), -np.inf
        for a in range(na):
            for b in range(nb):
                for d in range(nd):
                    here = cl[cl_at[k, 0] + a * nb + b] + cl[cl_at[k, 1] + a * nd + d] + cl[cl_at[k, 2] + b * nd + d]
                    best = max(best, here)
        total += best
    return total


@njit(cache=True, nogil=True)
def cycle_gains(ptr: I64, path: I64, edges: I64, graph: ClusterGraph, state: ClusterState) -> F64:
    """Return the certain fall of the bound by a cluster for each cycle: sum of maxima less maximum of the sum.

    The maximum of the sum is found by going around: for each state of the first variable and each of the one that was
    reached, the best sum on the way.

    Parameters
    ----------
    ptr : ndarray of int64, shape (k + 1,)
        Where the variables of each cycle start.
    path : ndarray of int64
        The variables of the cycles in order, three or more each.
    edges : ndarray of int64
        For each of them the edge to the next one, for the last one of a cycle that to its first.
    graph, state : ClusterGraph, ClusterState
        Read only, but for the work space.
    """
    card, edge_at, edge, work = graph.card, graph.edge_at, state.edge, state.work
    n_cycles = len(ptr) - 1
    gains = np.zeros(n_cycles)
    for k in range(n_cycles):
        lo, last = ptr[k], ptr[k + 1] - 1
        origin, now, after = card[path[lo]], 0, len(work) // 2
        for step in range(lo, last + 1):
            u, v, at = path[step], path[lo if step == last else step + 1], edge_at[edges[step]]
            along, across = (card[v], 1) if u < v else (1, card[u])
            gains[k] += edge[at : edge_at[edges[step] + 1]].max()
            for a in range(origin):
                for t in range(card[v]):
                    best = -np.inf
                    if step == lo:
                        best = edge[at + a * along + t * across]
                    else:
                        for s in range(card[u]):
                            best = max(best, work[now + a * card[u] + s] + edge[at + s * along + t * across])
                    work[after + a * card[v] + t] = best
            now, after = after, now
        best = -np.inf
        for a in range(origin):
            best = max(best, work[now + a * origin + a])
        gains[k] -= best
    return gains


# --------------------------------------------------------------------------------------------------------------------
# Cycles whose clusters lower a dual bound, in reparametrised scores that message passing has brought to rest.
#
# Triangles, and squares without a chord, are listed.  Longer cycles are looked for among *frustrated* ones (Sontag,
# Choe and Li, UAI 2012): each variable is split in two by a state, and an edge with table b wants both ends on the same
# side, or on different ones, by
#
#     w = max of b over joint states on the same side - max of b over the others .
#
# A cycle with an odd number of edges that want to differ cannot please them all: a cluster takes at least the smallest
# ``|w|`` on it off the bound; :func:`cycle_gains` tells how much exactly.  In a
# graph with two copies of each variable, which edges that want to differ cross, such a cycle is a path from a variable
# to its other copy.  The largest threshold for ``|w|`` with such a path is found by bisection; half of it leaves more
# cycles, of which breadth-first search finds a shortest one through each variable (or each of :data:`ROOTS` of them).
#
# Where all variables are binary and messages have come to rest, only frustrated cycles lower the bound.  With more
# states others may, too, however variables are split; there the fundamental cycles of breadth-first trees are
# candidates.

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
        if len(connected_copies(two_copies(tail, head, want, float(sizes[middle]), len(variable)))):
            low = middle + 1
        else:
            high = middle
    if low == 0 or clock.left <= graph_seconds:
        return []
    graph = two_copies(tail, head, want, 0.5 * float(sizes[low - 1]), len(variable))
    roots = connected_copies(graph)
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


def connected_copies(graph: csr_array) -> I64:
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
