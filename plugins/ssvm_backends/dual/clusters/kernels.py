"""Kernels of ``cycles``: updates of edges and of clusters of three edges, and the resulting bound.

Scores are kept reparametrised: those of a variable hold the messages of its edges, those of an edge are without them
and without what its clusters hold.  With ``b`` the reparametrised scores the bound is

    sum_v max b_v + sum_e max b_e + sum_c max over x_c of sum_{e in c} b_ce(x_e) .
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import assign, borrow, njit


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
