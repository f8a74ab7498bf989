r"""Sums over spanning arborescences by the matrix-tree theorem (Tutte 1984; Koo, Globerson, Carreras and Collins 2007).

With ``A[h, d] = exp(w[h, d])`` between tokens and ``rho[d] = exp(w[0, d])`` from the root, the Laplacian is
``L[d, d] = sum_h A[h, d]``, ``L[h, d] = -A[h, d]``.  The sum Z of all trees is the determinant of

    L + diag(rho)                                 several dependents of the root
    L with its first row replaced by rho          a single one

and with its inverse X the probability of an arc is, in the second case (Koo et al., section 3.2; 1 is the first
token)::

    p(0 -> d) = rho[d] X[d, 1]
    p(h -> d) = [d != 1] A[h, d] X[d, d] - [h != 1] A[h, d] X[d, h]

and ``p(0 -> d) = rho[d] X[d, d]``, ``p(h -> d) = A[h, d] (X[d, d] - X[d, h])`` in the first one.  Columns are scaled so
that their largest entry is 1, which changes neither X A nor, but for a known factor, Z.

These differences lose digits where trees with a cycle for a root would score much more: what is known of the inverse
is ``cond(L) eps``.  Sentences where ``cond(L) > MAX_CONDITION`` are solved otherwise, in logarithms, with sums of
positive numbers only.  The trees with h -> d are the forests rooted at 0 and d in which h is in the tree of 0.  The
weight of all such forests is the product of the pivots of Gaussian elimination without subtractions (Grassmann, Taksar
and Heyman 1985); the share of those in which h hangs below 0 is the probability that a random walk from h to heads
meets 0 before d, by substitution backwards.  This takes O(n^3) for each d.  A single dependent of the root is enforced
by taking ``shift`` off the scores of the root's arcs.  Trees with more of them then weigh less than ``exp(-40)`` of
those with one: with any head for each token all choices together weigh ``exp(U)``, ``U = sum_d log sum_h A[h, d]``, the
best single-rooted tree weighs ``exp(S)``, and ``shift = U - S + 40``.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.structures.spanning_trees.chu_liu_edmonds import best_arborescence
from ssvm_dsl.ir import F64
from ssvm_dsl.kernels import assign, njit

#: Condition number up to which the inverse is used: probabilities are right to about 1e-16 times as much.
MAX_CONDITION = 1e5

#: Trees that a shift rules out weigh less than ``exp(-NEGLIGIBLE)`` of the others.
NEGLIGIBLE = 40.0


@njit(cache=True, nogil=True)
def sum_arborescences(n: int, single: bool, w: F64, probability: F64) -> float:
    """Write the probability of each arc among arborescences; return the log partition (``-inf``: no tree).

    Parameters
    ----------
    n : int
        Number of tokens.
    single : bool
        Whether the root has a single dependent.
    w : ndarray of float64, shape (at least (n + 1)^2,)
        Scores of arcs, row by head, ``-inf`` where there is none.
    probability : ndarray of float64, shape (at least (n + 1)^2,)
        Written, row by head.
    """
    m = n + 1
    probability[: m * m] = 0.0
    if n == 0:
        return 0.0
    copy, heads, best = np.empty(m * m), np.empty(m, dtype=np.int32), 0.0
    assign(copy, w)
    if not best_arborescence(n, single, copy, heads):
        return -np.inf
    for d in range(1, m):
        best += w[heads[d] * m + d]
    top, any_head = np.empty(m), 0.0
    for d in range(1, m):
        top[d] = w[d]
        for h in range(m):
            if h != d:
                top[d] = max(top[d], w[h * m + d])
        total = 0.0
        for h in range(m):
            if h != d:
                total += np.exp(w[h * m + d] - top[d])
        any_head += top[d] + np.log(total)
    log_z = by_inverse(n, single, w, top, probability)
    if np.isnan(log_z):
        shift = max(any_head - best, 0.0) + NEGLIGIBLE if single else 0.0
        log_z = by_forests(n, w, shift, probability) + shift
    return log_z


@njit(cache=True, nogil=True)
def by_inverse(n: int, single: bool, w: F64, top: F64, probability: F64) -> float:
    """Write probabilities by the inverse of the Laplacian; return the log partition, ``nan`` where it is no use.

    Parameters
    ----------
    n, single, w, probability
        As for :func:`sum_arborescences`.
    top : ndarray of float64, shape (n + 1,)
        The best score of an arc to each token.
    """
    m = n + 1
    a, laplacian = np.zeros((m, m)), np.zeros((n, n))
    for d in range(1, m):
        for h in range(m):
            if h != d:
                a[h, d] = np.exp(w[h * m + d] - top[d])
    for d in range(1, m):
        for h in range(1, m):
            if h != d:
                laplacian[h - 1, d - 1] = -a[h, d]
                laplacian[d - 1, d - 1] += a[h, d]
        if not single:
            laplacian[d - 1, d - 1] += a[0, d]
    if single:
        for d in range(1, m):
            laplacian[0, d - 1] = a[0, d]
    norm, x = row_norm(laplacian), np.eye(n)
    log_det = invert(laplacian, x)
    if not norm * row_norm(x) <= MAX_CONDITION:  # true for nan as well
        return np.nan
    for d in range(1, m):
        log_det += top[d]
        for h in range(1, m):
            if h == d:
                continue
            p = 0.0
            if not single or d != 1:
                p += x[d - 1, d - 1]
            if not single or h != 1:
                p -= x[d - 1, h - 1]
            probability[h * m + d] = min(max(a[h, d] * p, 0.0), 1.0)
        p = a[0, d] * x[d - 1, 0 if single else d - 1]
        probability[d] = min(max(p, 0.0), 1.0)
    return log_det


@njit(cache=True, nogil=True)
def row_norm(matrix: F64) -> float:
    """Return the largest sum of absolute values in a row."""
    best = 0.0
    for row in matrix:
        best = max(best, np.abs(row).sum())
    return best


@njit(cache=True, nogil=True)
def invert(matrix: F64, inverse: F64) -> float:
    """Turn ``inverse``, given as the identity, into the inverse of a matrix; return ``log |det|``, ``nan`` if singular.

    Gauss-Jordan elimination with pivots by column; the matrix is destroyed.
    """
    n, log_det = len(matrix), 0.0
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(matrix[i, k]) > abs(matrix[pivot, k]):
                pivot = i
        value = matrix[pivot, k]
        if value == 0.0:
            inverse[0, 0] = np.inf
            return np.nan
        log_det += np.log(abs(value))
        for j in range(n):
            if pivot != k:
                matrix[k, j], matrix[pivot, j] = matrix[pivot, j], matrix[k, j]
                inverse[k, j], inverse[pivot, j] = inverse[pivot, j], inverse[k, j]
            matrix[k, j] /= value
            inverse[k, j] /= value
        for i in range(n):
            factor = matrix[i, k]
            if i != k and factor != 0.0:
                for j in range(k, n):
                    matrix[i, j] -= factor * matrix[k, j]
                for j in range(n):
                    inverse[i, j] -= factor * inverse[k, j]
    return log_det


@njit(cache=True, nogil=True)
def add(total: float, term: float) -> float:
    """Return ``log(exp(total) + exp(term))``."""
    if term == -np.inf:
        return total
    return np.logaddexp(total, term)


@njit(cache=True, nogil=True)
def by_forests(n: int, w: F64, shift: float, probability: F64) -> float:
    """Write probabilities by elimination in logarithms for each token; return the log partition.

    Parameters
    ----------
    n, w, probability
        As for :func:`sum_arborescences`.
    shift : float
        Subtracted from the scores of arcs from the root.
    """
    m, log_z = n + 1, -np.inf
    walk, pivots = np.empty(m), np.empty(m)
    for d in range(1, m):
        a = np.full((m, m), -np.inf)
        for v in range(1, m):
            for h in range(m):
                if h != v:
                    a[h, v] = w[h * m + v] - (shift if h == 0 else 0.0)
        forests = eliminate(a, d, pivots)
        walk[:] = -np.inf
        walk[0] = 0.0
        for v in range(m - 1, 0, -1):  # eliminated last, substituted first
            if v != d:
                for u in range(m):
                    if u == 0 or u > v or u == d:
                        walk[v] = add(walk[v], a[u, v] - pivots[v] + walk[u])
        log_z = -np.inf
        for h in range(m):
            log_z = add(log_z, a[h, d] + forests + walk[h])
        whole = 0.0
        for h in range(m):
            probability[h * m + d] = np.exp(a[h, d] + forests + walk[h] - log_z)
            whole += probability[h * m + d]
        for h in range(m):  # large scores absorb the logarithm of a number of trees
            probability[h * m + d] /= whole
    return log_z


@njit(cache=True, nogil=True)
def eliminate(a: F64, d: int, pivots: F64) -> float:
    """Eliminate all tokens but d, in order, from log weights; return the log weight of forests rooted at 0 and d.

    Parameters
    ----------
    a : ndarray of float64, shape (n + 1, n + 1)
        Log weights of arcs, row by head; changed, but for arcs to d.
    d : int
        The token that is a root.
    pivots : ndarray of float64, shape (n + 1,)
        Written: log weight of all arcs to each token when it is eliminated.
    """
    m, total = len(a), 0.0
    for e in range(1, m):
        if e == d:
            continue
        pivots[e] = -np.inf
        for u in range(m):
            if u == 0 or u > e or u == d:
                pivots[e] = add(pivots[e], a[u, e])
        total += pivots[e]
        if pivots[e] == -np.inf:
            return -np.inf
        for v in range(e + 1, m):
            if v != d and a[e, v] > -np.inf:
                for u in range(m):
                    if u != v and (u == 0 or u > e or u == d):
                        a[u, v] = add(a[u, v], a[u, e] + a[e, v] - pivots[e])
    return total
