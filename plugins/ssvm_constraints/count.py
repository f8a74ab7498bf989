"""``count``: bounds on how many literals are true."""

from __future__ import annotations

import numpy as np

from ssvm_constraints.explaining import bounds_words
from ssvm_constraints.small_problem import SmallProblem
from ssvm_constraints.starts.sums import states_of_sum
from ssvm_dsl.ir import I32, Bools, ConstraintGroup, Program, Theta
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
