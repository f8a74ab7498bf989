"""The best combination of planes: each part of the data has a few planes, whose shares add up to 1."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from ssvm_dsl.ir import F64
from ssvm_dsl.plugin_api import Objective
from ssvm_trainers.shared.lower_bound import is_plain

#: Most sweeps over the parts in one search for the best combination; a sweep that gains less than this share ends it.
MOST_SWEEPS, LEAST_GAIN = 20, 1e-3

#: A slope that is this share of the one at the start is 0; tries to find it by secants, and by halves after them.
EXACT, SECANTS, BISECTIONS = 1e-14, 12, 50


def combine(objective: Objective, planes: F64, weight: F64) -> None:
    """Raise the dual value of the combination of planes of all parts, by exact searches between pairs of planes.

    Parameters
    ----------
    objective : Objective
    planes : ndarray of float64, shape (P, m, dim + 1)
        Vectors, and their offsets last.
    weight : ndarray of float64, shape (P, m)
        Shares of the planes of each part, which add up to 1; changed.
    """
    total = np.einsum("sm,smd->d", weight, planes)
    worth = objective.dual(total[:-1], float(total[-1]))
    first = np.nan
    for _ in range(MOST_SWEEPS):
        before = worth
        for mine, share in zip(planes, weight, strict=True):
            for i, j in combinations(range(len(share)), 2):
                _search(objective, total, mine[j] - mine[i], share, i, j)
        worth = objective.dual(total[:-1], float(total[-1]))
        first = worth - before if np.isnan(first) else first
        if worth - before <= LEAST_GAIN * first:
            break


def _search(objective: Objective, total: F64, direction: F64, share: F64, i: int, j: int) -> None:
    """Move share from plane i to plane j, or back, to where the dual value is largest; ``total`` follows."""
    low, high = -float(share[j]), float(share[i])
    if high - low <= 0.0 or not direction.any():
        return
    v, d, rise = total[:-1], direction[:-1], float(direction[-1])
    t = best_step(objective, v, d, rise, low, high)
    total += t * direction
    share[i], share[j] = share[i] - t, share[j] + t
    if t in (low, high):
        share[j if t == low else i] = 0.0


def best_step(objective: Objective, v: F64, d: F64, rise: float, low: float, high: float) -> float:
    """Return the t from ``low`` to ``high`` that maximises ``D(v + t d, b + t rise)``, which is concave."""

    def slope(t: float) -> float:
        return rise - float(np.dot(d, objective.weights(v + t * d)))

    at_low = slope(low)
    if at_low <= 0.0:
        return low
    at_high = slope(high)
    if at_high >= 0.0:
        return high
    if is_plain(objective):  # the slope is linear
        return low + (high - low) * at_low / (at_low - at_high)
    return _root(slope, low, high, at_low, at_high)


def _root(slope: Callable[[float], float], low: float, high: float, at_low: float, at_high: float) -> float:
    """Return where a falling function is 0 that is linear between a few points, and may jump there.

    Regula falsi with the weights of Illinois (Dowell and Jarratt 1971) is exact once both ends are on the piece of the
    root: 5 values in place of 50.  Where it is not soon there, the interval is halved.
    """
    enough, before, middle = EXACT * (at_low - at_high), 0, low
    for step in range(SECANTS + BISECTIONS):
        share = at_low / (at_low - at_high) if step < SECANTS else 0.5
        middle = low + (high - low) * share
        value = slope(middle)
        if abs(value) <= enough or not low < middle < high:
            break
        if value > 0.0:
            low, at_low, at_high = middle, value, at_high * (0.5 if before > 0 else 1.0)
        else:
            high, at_high, at_low = middle, value, at_low * (0.5 if before < 0 else 1.0)
        before = 1 if value > 0.0 else -1
    return middle
