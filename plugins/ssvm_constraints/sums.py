"""``count`` and ``linear``: bounds on the number of true literals, and on weighted sums of them."""

from __future__ import annotations

import numpy as np

from ssvm_constraints.explaining import bounds_words
from ssvm_constraints.small_problems import SmallProblem
from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, Program, Theta, owners
from ssvm_dsl.plugin_api import ConstraintScores, LinearRows


class Count:
    """``lower <= number of true literals <= upper``; both are int64, and bounds that no count reaches mean none."""

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Return which constraints are broken (see :class:`~ssvm_dsl.plugin_api.ConstraintKind`)."""
        total = group.true_counts(true)
        return np.asarray((total < group.meta["lower"]) | (total > group.meta["upper"]))

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return one row of ones."""
        n = int(group.literal_ptr[k + 1] - group.literal_ptr[k])
        return LinearRows.one(np.ones(n), float(group.meta["lower"][k]), float(group.meta["upper"][k]))

    def hull(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return the row (see :class:`~ssvm_dsl.plugin_api.IntegralKind`): one row of ones leaves no gaps."""
        return self.rows(group, k)

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return states that cost least (see :class:`~ssvm_dsl.plugin_api.StartingKind`)."""
        lower, upper = float(group.meta["lower"][k]), float(group.meta["upper"][k])
        return states_of_sum(scores, np.ones(len(scores.place)), lower, upper)

    def explain(self, group: ConstraintGroup, k: int, true: Bools) -> str:
        """Return how many literals are true, and how many may be (see :class:`~ssvm_dsl.plugin_api.ExplainingKind`)."""
        lower, upper = int(group.meta["lower"][k]), int(group.meta["upper"][k])
        wanted = bounds_words(lower if lower > 0 else -np.inf, upper if upper < len(true) or lower == upper else np.inf)
        return f"{int(true.sum())} of its {len(true)} literals true, {wanted} may be"

    def problem(self, rng: np.random.Generator) -> tuple[Program, Theta]:
        """Return bounds near the middle on random literals, some of which nothing satisfies."""
        small = SmallProblem.draw(rng)
        lower = rng.integers(-1, 2 + small.sizes // 2)
        upper = lower + rng.integers(0, 2 + small.sizes // 2)
        return small.closed("count", {"lower": lower.astype(np.int64), "upper": upper.astype(np.int64)})


# -- ``linear``: bounds on a weighted sum of literals ----------------------------------------------------------------

#: Sums may be off by this, relative to what they are sums of.
ROUNDING = 1e-9


class LinearKind:
    """``lower <= sum of the coefficients of true literals <= upper``, up to rounding."""

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Return which constraints are broken (see :class:`~ssvm_dsl.plugin_api.ConstraintKind`)."""
        coefficient = group.literal_meta["coefficient"]
        total = np.bincount(group.constraint_of, coefficient * true, group.n_constraints)
        slack = ROUNDING * np.bincount(group.constraint_of, np.abs(coefficient), group.n_constraints)
        lower, upper = group.meta["lower"], group.meta["upper"]
        return np.asarray((total < lower - slack) | (total > upper + slack))

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return the one row that it is."""
        coefficient: F64 = group.literal_meta["coefficient"][group.literals(k)]
        return LinearRows.one(coefficient, float(group.meta["lower"][k]), float(group.meta["upper"][k]))

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return states that cost least (see :class:`~ssvm_dsl.plugin_api.StartingKind`)."""
        lower, upper = float(group.meta["lower"][k]), float(group.meta["upper"][k])
        return states_of_sum(scores, group.literal_meta["coefficient"][group.literals(k)], lower, upper)

    def explain(self, group: ConstraintGroup, k: int, true: Bools) -> str:
        """Return the sum, and what it may be (see :class:`~ssvm_dsl.plugin_api.ExplainingKind`)."""
        total = float(group.literal_meta["coefficient"][group.literals(k)] @ true)
        wanted = bounds_words(float(group.meta["lower"][k]), float(group.meta["upper"][k]))
        return f"a sum of {total:g}, where {wanted} is allowed"

    def problem(self, rng: np.random.Generator) -> tuple[Program, Theta]:
        """Return random sums of small whole numbers or tenths, bounded on one side or both."""
        small = SmallProblem.draw(rng)
        unit = rng.choice([1.0, 0.1])
        coefficient = unit * rng.integers(-4, 5, int(small.sizes.sum()))
        middle, width = rng.integers(-4, 6, len(small.sizes)), rng.integers(0, 5, len(small.sizes))
        lower = np.where(rng.random(len(small.sizes)) < 0.5, -np.inf, unit * middle)
        upper = np.where(rng.random(len(small.sizes)) < 0.3, np.inf, unit * (middle + width))
        return small.closed("linear", {"lower": lower, "upper": upper}, {"coefficient": coefficient})


# -- States whose values add up to a sum within bounds, near the best ones -------------------------------------------

#: Entries of the table of partial sums at most.
MOST_ENTRIES = 2**22

#: Sums are multiples of one over one of these.
DENOMINATORS = (1, 2, 4, 5, 10, 100, 1000)

#: Sums may be off by this, relative to what they are sums of.
STATES_ROUNDING = 2e-10


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
    slack = STATES_ROUNDING * float(np.abs(weight).sum())
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
