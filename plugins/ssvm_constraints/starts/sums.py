"""States whose values add up to a sum within bounds, near the best ones."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, owners
from ssvm_dsl.plugin_api import ConstraintScores

#: Entries of the table of partial sums at most.
MOST_ENTRIES = 2**22

#: Sums are multiples of one over one of these.
DENOMINATORS = (1, 2, 4, 5, 10, 100, 1000)

#: Sums may be off by this, relative to what they are sums of.
ROUNDING = 2e-10


def states_of_sum(scores: ConstraintScores, weight: F64, lower: float, upper: float) -> I32 | None:
    """Return states whose true literals have weights that add up to a sum within bounds; ``None`` if none are found.

    From the best states on, those are taken that cost least for what they change; where that misses the bounds and the
    sums are few, all of them are looked at.

    Parameters
    ----------
    scores : ConstraintScores
    weight : ndarray of float64, shape (l,)
        Of each literal.
    lower, upper : float
    """
    if not scores.n_variables:
        return np.zeros(0, np.int32) if lower <= 0.0 <= upper else None
    value = _values(scores, weight)
    slack = ROUNDING * float(np.abs(weight).sum())
    lower, upper = lower - slack, upper + slack
    states = scores.best()
    if (scores.score[scores.ptr[:-1] + states] == -np.inf).any():
        return None
    by_greed = _greedy(scores, value, states, lower, upper)
    return by_greed if by_greed is not None else _by_all_sums(scores, value, lower, upper)


def _values(scores: ConstraintScores, weight: F64) -> F64:
    """Return what each state adds to the sum; ``shape (s,)``."""
    value, negated = np.zeros(len(scores.score)), scores.negated
    np.add.at(value, scores.entry, np.where(negated, -weight, weight))
    always = np.bincount(scores.place[negated], weight[negated], scores.n_variables)
    return value + always[owners(scores.ptr)]


def _greedy(scores: ConstraintScores, value: F64, states: I32, lower: float, upper: float) -> I32 | None:
    """Change states, those first that cost least for each unit, until the sum is within the bounds."""
    first, owner = scores.ptr[:-1], owners(scores.ptr)
    now = first + states
    while True:
        total = float(value[now].sum())
        if lower <= total <= upper:
            return np.asarray(now - first, dtype=np.int32)
        sign = -1.0 if total > upper else 1.0
        far = (total - upper) if total > upper else (lower - total)
        slack = upper - lower + far  # a change beyond that misses the bounds on the other side
        step, cost = sign * (value - value[now][owner]), scores.score[now][owner] - scores.score
        able = np.flatnonzero((step > 0.0) & (step <= slack) & (cost < np.inf))
        able = able[np.lexsort((-step[able], np.maximum(cost[able], 0.0) / step[able]))]
        _, once = np.unique(owner[able], return_index=True)
        chosen = able[np.sort(once)]
        ends = np.cumsum(step[chosen])
        fitting = chosen[: int(np.searchsorted(ends, slack, side="right"))]
        if not len(fitting):
            return None
        enough = int(np.searchsorted(ends[: len(fitting)], far)) + 1  # the fewest that reach the nearer bound
        fitting = fitting[:enough]
        now = now.copy()
        now[owner[fitting]] = fitting


def _by_all_sums(scores: ConstraintScores, value: F64, lower: float, upper: float) -> I32 | None:
    """Return the best states of a sum within bounds, by the best score of each partial sum; ``None`` if too many."""
    unit = next((d for d in DENOMINATORS if np.allclose(value * d, np.rint(value * d), rtol=0.0, atol=1e-9)), 0)
    if not unit or np.abs(value).max() * unit > MOST_ENTRIES:
        return None
    whole = np.rint(value * unit).astype(np.int64)
    least = np.minimum.reduceat(whole, scores.ptr[:-1])
    most = np.maximum.reduceat(whole, scores.ptr[:-1])
    size = int((most - least).sum()) + 1
    if size * scores.n_variables > MOST_ENTRIES:
        return None
    best, taken = _partial_sums(scores, whole - least[owners(scores.ptr)], size)
    sums = np.arange(size) + int(least.sum())
    within = np.flatnonzero((sums >= lower * unit) & (sums <= upper * unit) & (best > -np.inf))
    if not len(within):
        return None
    at, states = int(within[best[within].argmax()]), np.zeros(scores.n_variables, dtype=np.int32)
    for v in range(scores.n_variables - 1, -1, -1):
        states[v] = taken[v, at]
        first = int(scores.ptr[v])
        at -= int(whole[first + states[v]] - least[v])
    return states


def _partial_sums(scores: ConstraintScores, whole: I64, size: int) -> tuple[F64, I32]:
    """Return (best score of each sum, the state that each variable takes in the best way to each partial sum)."""
    best = np.full(size, -np.inf)
    best[0] = 0.0
    taken = np.zeros((scores.n_variables, size), dtype=np.int32)
    for v in range(scores.n_variables):
        after = np.full(size, -np.inf)
        for state, at in enumerate(range(int(scores.ptr[v]), int(scores.ptr[v + 1]))):
            add = int(whole[at])
            reached = np.full(size, -np.inf)
            reached[add:] = best[: size - add] + scores.score[at]
            better = reached > after
            after[better], taken[v, better] = reached[better], state
        best = after
    return best, taken
