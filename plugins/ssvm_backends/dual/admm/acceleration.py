"""Anderson acceleration of AD3 under linear rows.

With the penalty fixed, an iteration maps a point u (marginals, and messages over the penalty) to g(u), and once it is
settled which ends its projections are at, the map is affine.  From the last m + 1 iterations, with ``f = g(u) - u``,

    gamma = argmin |f_k - sum_j gamma_j (f_j+1 - f_j)|,        u = g_k - sum_j gamma_j (g_j+1 - g_j)

is where the residual of the affine map is least (Anderson 1965; Walker and Ni, SIAM J. Numerical Analysis 2011).
As in SCS (O'Donoghue 2021) such a step is taken every few iterations, and taken back where the residual of the next
iteration is longer than the one before it.  Bounds hold for any messages, so that no step can make one wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import borrow, njit

#: Differences of iterations that a step combines; there is a step each time that so many are known.
MEMORY = 5

#: What is added to the diagonal of the normal equations, relative to their largest entry.
DAMPING = 1e-10


class History(NamedTuple):
    """The last iterations of some examples, each with the numbers of its point from ``ptr[i]`` on.

    Parameters
    ----------
    ptr : ndarray of int64, shape (n + 1,)
    point : ndarray of float64, shape (N,)
        u of the next iteration.
    reached, residual : ndarray of float64, shape (N,)
        g(u) and f(u) of the last one.
    moves, changes : ndarray of float64, shape (MEMORY, N)
        Differences of g and of f.
    known : ndarray of int64, shape (n,)
        How many iterations in a row are known, the last step's included; none at first, and as the penalty changes.
    before : ndarray of float64, shape (n,)
        The square of the residual before the step that led to ``point``; infinite where none did.
    """

    ptr: I64
    point: F64
    reached: F64
    residual: F64
    moves: F64
    changes: F64
    known: I64
    before: F64

    @classmethod
    def start(cls, sizes: I64) -> History:
        """Return no iterations of examples with points of these sizes."""
        ptr = np.append(0, np.cumsum(sizes))
        n, size = len(sizes), int(ptr[-1])
        return cls(
            ptr, np.zeros(size), np.zeros(size), np.zeros(size), np.zeros((MEMORY, size)), np.zeros((MEMORY, size)),
            np.zeros(n, np.int64), np.full(n, np.inf),
        )  # fmt: skip


@njit(cache=True, nogil=True)
def forget(history: History, i: int) -> None:
    """Begin anew: the iterations of example i known so far are those of another map."""
    history.known[i], history.before[i] = 0, np.inf


@njit(cache=True, nogil=True)
def next_point(history: History, i: int, now: F64) -> bool:
    """Take note of an iteration of example i, and write the next point; return whether it is not where that ended.

    Parameters
    ----------
    history : History
    i : int
    now : ndarray of float64, shape (N,)
        g(u) at the places of the example; read only.
    """
    h, now = borrow(history), borrow(now)
    lo, hi, n, total = h.ptr[i], h.ptr[i + 1], h.known[i], 0.0
    for e in range(lo, hi):
        total += (now[e] - h.point[e]) ** 2
    if h.before[i] < np.inf and not total <= h.before[i]:  # or nan: back to where the one before the step ended
        for e in range(lo, hi):
            h.point[e] = h.reached[e]
        forget(history, i)
        return True
    h.before[i] = np.inf
    for e in range(lo, hi):
        f = now[e] - h.point[e]
        if n > 0:
            h.moves[n - 1, e], h.changes[n - 1, e] = now[e] - h.reached[e], f - h.residual[e]
        h.residual[e], h.reached[e], h.point[e] = f, now[e], now[e]
    h.known[i] = min(n + 1, MEMORY)
    if n < MEMORY or total == 0.0:
        return False
    extrapolate(h, lo, hi)
    h.known[i], h.before[i] = 1, total
    return True


@njit(cache=True, nogil=True)
def extrapolate(history: History, lo: int, hi: int) -> None:
    """Write the point at some places where the residual of the affine map through the last iterations is least."""
    h = borrow(history)
    gram, x = np.zeros((MEMORY, MEMORY)), np.zeros(MEMORY)
    for j in range(MEMORY):
        for k in range(j + 1):
            for e in range(lo, hi):
                gram[j, k] += h.changes[j, e] * h.changes[k, e]
        for e in range(lo, hi):
            x[j] += h.changes[j, e] * h.residual[e]
    damping = 1e-300
    for j in range(MEMORY):
        damping = max(damping, DAMPING * gram[j, j])
    for j in range(MEMORY):  # by Cholesky; the right-hand side is substituted forwards on the way
        for k in range(j):
            for l in range(k):
                gram[j, k] -= gram[j, l] * gram[k, l]
            gram[j, k] /= gram[k, k]
            gram[j, j] -= gram[j, k] ** 2
            x[j] -= gram[j, k] * x[k]
        gram[j, j] = np.sqrt(max(gram[j, j], 0.0) + damping)
        x[j] /= gram[j, j]
    for j in range(MEMORY - 1, -1, -1):
        for k in range(j + 1, MEMORY):
            x[j] -= gram[k, j] * x[k]
        x[j] /= gram[j, j]
    for j in range(MEMORY):
        for e in range(lo, hi):
            h.point[e] -= x[j] * h.moves[j, e]
