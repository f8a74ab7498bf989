"""The runs that gain most, by dynamic programming over where runs end."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I64, Bools
from ssvm_dsl.kernels import njit


@njit(cache=True, nogil=True)
def best_runs(
    gain: F64, position: I64, kind: I64, least: I64, most: I64, n: int, cut: bool, true: Bools
) -> bool:  # fmt: skip
    """Write which literals are true in the best runs; return whether any runs respect the fixed literals.

    Parameters
    ----------
    gain : ndarray of float64, shape (l,)
        ``inf`` where a literal must be true, ``-inf`` where it must be false.
    position, kind, least, most : ndarray of int64, shape (l,)
        Of each literal: its position, its class, and the bounds of the runs of its class.
    n : int
        Number of positions.
    cut : bool
        Whether runs at the ends may be shorter than ``least``.
    true : ndarray of bool, shape (l,)
        False; written.
    """
    at, best = np.full(n, -1), np.empty(n + 2)
    total, length = np.empty(n + 1), np.empty(n + 2, np.int64)
    for first in range(len(gain)):  # of each class, its first literal
        if (kind[:first] == kind[first]).any():
            continue
        at[:] = -1
        for literal in range(first, len(gain)):
            if kind[literal] == kind[first]:
                at[position[literal]] = literal
        total[0], best[0] = 0.0, 0.0
        for t in range(n):
            total[t + 1] = total[t] + (gain[at[t]] if at[t] >= 0 and abs(gain[at[t]]) < np.inf else 0.0)
        # best[t + 1] is that of the first t positions if position t is false, after a run of length[t + 1]
        for t in range(n + 1):
            best[t + 1], length[t + 1] = -np.inf, 0
            if t < n and at[t] >= 0 and gain[at[t]] == np.inf:
                continue
            for run in range(min(t, most[first]) + 1):
                start = t - run
                if run and (at[start] < 0 or gain[at[start]] == -np.inf):
                    break
                if 0 < run < least[first] and not (cut and (start == 0 or t == n)):
                    continue
                value = best[start] + total[t] - total[start]
                if value > best[t + 1]:
                    best[t + 1], length[t + 1] = value, run
        if best[n + 1] == -np.inf:
            return False
        t = n
        while t >= 0:
            for place in range(t - length[t + 1], t):
                true[at[place]] = True
            t -= length[t + 1] + 1
    return True
