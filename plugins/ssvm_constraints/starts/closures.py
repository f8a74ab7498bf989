"""Transitive relations of high score: pairs are added with all that follows, items taken out and put back."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I64, Bools
from ssvm_dsl.kernels import njit


@njit(cache=True, nogil=True)
def add_pair(holds: Bools, gain: F64, a: int, b: int, least: float) -> tuple[bool, int]:
    """Add a pair and all that follows from it if that gains; return (whether it was added, number of pairs seen).

    Parameters
    ----------
    holds : ndarray of bool, shape (n, n)
        A transitive relation; changed.
    gain : ndarray of float64, shape (n, n)
        Of each pair that holds.
    """
    n = len(holds)
    before, behind, n_before, n_behind = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), 0, 0
    for v in range(n):
        if v == a or holds[v, a]:
            before[n_before], n_before = v, n_before + 1
        if v == b or holds[b, v]:
            behind[n_behind], n_behind = v, n_behind + 1
    total = 0.0
    for i in range(n_before):
        for j in range(n_behind):
            if not holds[before[i], behind[j]]:
                total += gain[before[i], behind[j]]
    if total <= least:
        return False, 2 * n + n_before * n_behind
    for i in range(n_before):
        for j in range(n_behind):
            holds[before[i], behind[j]] = True
    return True, 2 * n + 2 * n_before * n_behind


@njit(cache=True, nogil=True)
def transitive(holds: Bools, gain: F64, tail: I64, head: I64, fixed: Bools, least: float, most_looks: int) -> Bools:
    """Return the best transitive relation found.

    Parameters
    ----------
    holds : ndarray of bool, shape (n, n)
        A transitive relation to begin with.
    gain : ndarray of float64, shape (n, n)
    tail, head : ndarray of int64
        The pairs that gain something, the best first.
    fixed : ndarray of bool, shape (n,)
        Items that are not taken out.
    least : float
        Smaller gains count as none.
    most_looks : int
        Pairs to look at, about: a budget in operations.
    """
    n, looks, best = len(holds), 0, holds.copy()
    for a in range(len(tail)):
        if looks < most_looks and not best[tail[a], head[a]]:
            looks += add_pair(best, gain, tail[a], head[a], least)[1]
    better = True
    while better and looks < most_looks:
        better = False
        for v in range(n):
            if fixed[v] or looks >= most_looks:
                continue
            now, lost, gained = best.copy(), 0.0, 0.0
            now[v, :], now[:, v] = False, False
            for a in range(len(tail)):  # those of the item first, then what has become possible
                if (tail[a] == v or head[a] == v) and not now[tail[a], head[a]]:
                    looks += add_pair(now, gain, tail[a], head[a], least)[1]
            looks += 4 * n * n + len(tail)
            for a in range(n):
                for b in range(n):
                    if best[a, b] and not now[a, b]:
                        lost += gain[a, b]
                    elif now[a, b] and not best[a, b]:
                        gained += gain[a, b]
            if gained > lost + least:
                best, better = now, True
    return best
