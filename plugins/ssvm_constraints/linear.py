"""``linear``: bounds on a weighted sum of literals."""

from __future__ import annotations

import numpy as np

from ssvm_constraints.explaining import bounds_words
from ssvm_constraints.small_problem import SmallProblem
from ssvm_constraints.starts.sums import states_of_sum
from ssvm_dsl.ir import F64, I32, Bools, ConstraintGroup, Program, Theta
from ssvm_dsl.plugin_api import ConstraintScores, LinearRows

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
