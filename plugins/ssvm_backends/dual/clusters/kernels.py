"""Kernels of ``cycles``: updates of edges and of clusters of three edges, and the resulting bound.

Scores are kept reparametrised: those of a variable hold the messages of its edges, those of an edge are without them
and without what its clusters hold.  With ``b`` the reparametrised scores the bound is

    sum_v max b_v + sum_e max b_e + sum_c max over x_c of sum_{e in c} b_ce(x_e) .
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import assign, njit


@njit(cache=True, nogil=True)
def sweep(
    ends: I64, card: I64, node_at: I64, node: F64, edge_at: I64, edge: F64, lam_at: I64, lam: F64, cl_edges: I64,
    cl_at: I64, cl: F64, work: F64, n: int,
) -> None:  # fmt: skip
    """Update every edge, then every cluster, forwards and backwards in turn; no update raises the bound.

    An edge shares its best scores with its variables (Globerson and Jaakkola 2007): with ``A = b_e + b_i + b_j``,

        b_i <- 1/2 max over x_j of A ,    b_j <- 1/2 max over x_i of A ,    b_e <- A - b_i - b_j ;

    a cluster with its edges: with B the sum of its three edges and what it holds of them,

        b_e <- 1/3 max over the third variable of B ,    b_ce <- b_ce + b_e(before) - b_e .

    Parameters
    ----------
    ends : ndarray of int64, shape (m, 2)
        The variables of each edge, ascending.
    card : ndarray of int64, shape (n,)
        Numbers of states.
    node_at, edge_at, lam_at : ndarray of int64
        Where the scores of variables and edges, and the messages of edges to both variables, start.
    node, edge : ndarray of float64
        Reparametrised scores; changed in place.
    lam : ndarray of float64
        Messages: the amounts that each edge has added to its variables; changed in place.
    cl_edges : ndarray of int64, shape (c, 3)
        Edges (a, b), (a, d), (b, d) of each cluster of variables a < b < d.
    cl_at : ndarray of int64, shape (c, 3)
        Where what it holds of them starts.
    cl : ndarray of float64
        What clusters hold; changed in place.
    work : ndarray of float64, shape (at least 4 max(card)^2,)
        Work space.
    n : int
        How often.
    """
    m, c = len(ends), len(cl_edges)
    for number in range(n):
        for step in range(m):
            e = step if number % 2 == 0 else m - 1 - step
            update_edge(ends[e, 0], ends[e, 1], card, node_at, node, edge, edge_at[e], lam, lam_at[e], work)
        for step in range(c):
            k = step if number % 2 == 0 else c - 1 - step
            update_cluster(ends, card, edge_at, edge, cl_edges[k], cl_at[k], cl, work)


@njit(cache=True, nogil=True)
def update_edge(
    i: int, j: int, card: I64, node_at: I64, node: F64, edge: F64, at: int, lam: F64, lam_at: int, work: F64
) -> None:
    """Update the messages of one edge; see :func:`sweep`.

    Parameters
    ----------
    i, j : int
        Its variables.
    card, node_at, node, edge, lam, work
        As of :func:`sweep`.
    at, lam_at : int
        Where its scores and messages start.
    """
    ni, nj, hi, hj = card[i], card[j], node_at[i], node_at[j]
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
def update_cluster(ends: I64, card: I64, edge_at: I64, edge: F64, edges: I64, at: I64, cl: F64, work: F64) -> None:
    """Update the messages of one cluster; see :func:`sweep`.

    Parameters
    ----------
    ends, card, edge_at, edge, cl, work
        As of :func:`sweep`.
    edges, at : ndarray of int64, shape (3,)
        The edges of the cluster, and where what it holds of them starts.
    """
    na, nb, nd = card[ends[edges[0], 0]], card[ends[edges[0], 1]], card[ends[edges[1], 1]]
    p, q, r = edge_at[edges[0]], edge_at[edges[1]], edge_at[edges[2]]
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
def refresh(
    ends: I64, card: I64, node_at: I64, score: F64, node: F64, edge_at: I64, edge_score: F64, edge: F64, lam_at: I64,
    lam: F64, cl_edges: I64, cl_at: I64, cl: F64,
) -> None:  # fmt: skip
    """Recompute reparametrised scores from scores and messages.

    Parameters
    ----------
    score, edge_score : ndarray of float64
        Scores of variables and edges.
    node, edge : ndarray of float64
        Written.
    ends, card, node_at, edge_at, lam_at, lam, cl_edges, cl_at, cl
        As of :func:`sweep`; read only.
    """
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
def dual_bound(
    ends: I64, card: I64, node_at: I64, node: F64, edge_at: I64, edge: F64, cl_edges: I64, cl_at: I64, cl: F64
) -> float:
    """Return the bound of reparametrised scores; see the module.

    Parameters
    ----------
    ends, card, node_at, node, edge_at, edge, cl_edges, cl_at, cl
        As of :func:`sweep`; read only.
    """
    total = 0.0
    for v in range(len(card)):
        total += node[node_at[v] : node_at[v + 1]].max()
    for e in range(len(ends)):
        total += edge[edge_at[e] : edge_at[e + 1]].max()
    for k in range(len(cl_edges)):
        na, nb = card[ends[cl_edges[k, 0], 0]], card[ends[cl_edges[k, 0], 1]]
        nd, best = card[ends[cl_edges[k, 1], 1]], -np.inf
        for a in range(na):
            for b in range(nb):
                for d in range(nd):
                    here = cl[cl_at[k, 0] + a * nb + b] + cl[cl_at[k, 1] + a * nd + d] + cl[cl_at[k, 2] + b * nd + d]
                    best = max(best, here)
        total += best
    return total


@njit(cache=True, nogil=True)
def cycle_gains(ptr: I64, path: I64, edges: I64, card: I64, edge_at: I64, edge: F64, work: F64) -> F64:
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
    card, edge_at, edge, work
        As of :func:`sweep`.
    """
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


@njit(cache=True, nogil=True)
def improve(
    ends: I64, card: I64, node_at: I64, node: F64, edge_at: I64, edge: F64, order: I64, start: I64, labels: I64
) -> None:
    """Move one variable at a time to a better state until none is, at most 100 times over all.

    Parameters
    ----------
    ends, card, node_at, edge_at
        As of :func:`sweep`.
    node, edge : ndarray of float64
        Scores; read only.
    order, start : ndarray of int64
        The edges of variable v are ``order[start[v]:start[v + 1]]``.
    labels : ndarray of int64, shape (n,)
        Changed in place.
    """
    for _ in range(100):
        moved = False
        for v in range(len(card)):
            best, choice, old = -np.inf, labels[v], labels[v]
            before = -np.inf
            for s in range(card[v]):
                here = node[node_at[v] + s]
                for k in range(start[v], start[v + 1]):
                    e = order[k]
                    i, j = ends[e]
                    a, b = (s, labels[j]) if i == v else (labels[i], s)
                    here += edge[edge_at[e] + a * card[j] + b]
                if here > best:
                    best, choice = here, s
                if s == old:
                    before = here
            if choice != old and best > before:
                labels[v], moved = choice, True
        if not moved:
            return
