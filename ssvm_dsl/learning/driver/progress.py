"""``Progress``: what is known of a fit while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.learning.driver.claims import Checked
from ssvm_dsl.learning.driver.evaluations import Evaluation
from ssvm_dsl.learning.risks.base import BaseProblem
from ssvm_dsl.plugin_api.training import TrainingEvent

#: The share of the tolerance that is nothing beside it.
LEFT = 0.1


@dataclass(eq=False)
class Progress:
    """The state of training, with values of the objective in lam convention.

    Parameters
    ----------
    w : ndarray of float64, shape (dim,)
        The weights that are kept.
    primal : float
        Their objective (or a certified upper bound of it), ``nan`` while it is not known.
    estimate : float
        The objective with the labellings that were found: ``primal`` with an exact oracle, else at most that.
    rounding : float
        What rounding may add to ``primal``.
    dual, offset, rounding_margin : float
        The lower bound, the b of its plane, and what was taken off for rounding, as
        :class:`~ssvm_dsl.learning.driver.claims.Checked` has them.
    n_passes, own_passes : float
        Passes over the data, and those among them that the driver asked for.
    at_start : float
        The objective of the weights at the start, ``nan`` while it is not known.
    from_start : bool
        Whether these are the weights kept, because all others are worse.
    withdrawn : str
        The reason why there is no certificate although bounds are known.
    tightness : float
        Share of the oracle's answers at the weights that are proved best.
    interrupted_twice : bool
        Whether Ctrl-C came again during the last evaluation of the weights.
    unsettled : str
        The reason why latent variables were not completed once more although they still changed.
    n_late : int
        Examples whose answers at the weights time cut short, or came before.
    oracle_seconds, evaluation_seconds, earlier_seconds : float
        Of the seconds, those of oracle calls while training, those of the last look at the weights, and those of the
        interrupted runs before.
    """

    w: F64
    primal: float = np.nan
    estimate: float = np.nan
    rounding: float = 0.0
    dual: float = -np.inf
    n_passes: float = 0.0
    reason: str = "passes"
    seconds: float = 0.0
    history: list[TrainingEvent] = field(default_factory=list)
    offset: float = np.nan
    rounding_margin: float = 0.0
    own_passes: float = 0.0
    at_start: float = np.nan
    from_start: bool = False
    withdrawn: str = ""
    tightness: float = np.nan
    interrupted_twice: bool = False
    unsettled: str = ""
    n_late: int = 0
    oracle_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    earlier_seconds: float = 0.0

    def take(self, checked: Checked, keep_best: bool, problem: BaseProblem) -> None:
        """Take an iterate: the lower bound only rises, the weights follow the best objective.

        They follow the newest iterate where the best is not asked for, and where no objective is certified: an oracle
        that may miss the best labellings shows small values for weights at which it misses much.
        """
        self.n_passes = checked.iterate.n_passes + self.own_passes
        evaluation = checked.evaluation
        if checked.dual > self.dual:
            self.dual, self.offset, self.rounding_margin = checked.dual, checked.offset, checked.rounding_margin
        better = evaluation is not None and evaluation.upper < self.primal
        if better or not keep_best or np.isnan(self.primal):
            np.copyto(self.w, checked.iterate.w)
            self.value(evaluation, problem)

    def value(self, evaluation: Evaluation | None, problem: BaseProblem) -> None:
        """Set the objective of the weights kept; ``None`` where it is not known."""
        if evaluation is None:
            self.primal, self.estimate, self.n_late = np.nan, np.nan, 0
            return
        self.primal, self.estimate, self.n_late = evaluation.upper, evaluation.estimate, evaluation.n_late
        self.rounding = float(problem.accuracy.of_value(self.w, evaluation.estimate))

    def withdraw(self, why: str) -> None:
        """Give up the lower bound."""
        self.dual, self.offset, self.rounding_margin, self.withdrawn = -np.inf, np.nan, 0.0, why

    def compare_bounds(self, false: str, tol: float) -> None:
        """Compare both bounds after training; ``false`` names a wrong claim of the trainer.

        Where time came before a plane of the trainer, the lower bound is that no risk is negative.
        """
        if self.dual == -np.inf and self.reason in ("seconds", "interrupt"):
            self.dual, self.offset, self.rounding_margin = 0.0, 0.0, 0.0
        above = self.dual - self.primal
        if false:
            self.withdraw(false)
        elif above > self.rounding + self.rounding_margin:
            text = "the lower bound of the optimum came out above the objective of the weights returned"
            self.withdraw(f"{text}, by {above:.2g}, which is more than rounding explains")
        elif above > 0.0:
            self.dual = self.primal
        if self.reason == "tolerance" and not self.relative_gap <= tol:
            self.reason = "withdrawn" if self.withdrawn else "ended"

    def compare_start(self, start: F64 | None, problem: BaseProblem) -> None:
        """Keep the weights of the start where they are better; a pass, unless it is known that they are not.

        They are not where their objective was evaluated; where they are 0 and the objective is at most the offset of
        a plane (its value at 0); and where they are far away.  With the regulariser r and the optimum w*,

            P(start) >= P(w*) + r(start - w*) ,        P(w) <= P(w*) + gap ,        r(w - w*) <= gap ,

        and ``sqrt(r)`` is a norm, so that ``r(w - start) >= 4 gap`` is enough.
        """
        origin = np.zeros(len(self.w)) if start is None else start
        cold = start is None and self.primal <= self.offset
        if not np.isnan(self.at_start) or cold or np.isnan(self.primal):
            return
        if np.isfinite(self.gap) and 4.0 * self.gap <= problem.objective.regularizer(self.w - origin):
            return
        evaluation = problem.evaluation(origin)
        self.at_start = evaluation.upper
        self.n_passes += 1.0
        if self.at_start < self.primal:
            self.w, self.from_start = origin.copy(), True
            self.value(evaluation, problem)

    def compare_zero(self, problem: BaseProblem, tol: float) -> None:
        """Take no weights where their objective is 0, by what the data tell.

        The optimum is theirs alone, where all weights are regularised: no relative gap of any others is small.
        """
        if self.relative_gap <= tol or np.isnan(self.primal) or not self.w.any():
            return
        at_zero = problem.risks_at_zero()
        if at_zero is None:
            return
        w, upper = np.zeros(len(self.w)), problem.objective.primal(np.zeros(len(self.w)), at_zero)
        if upper > 0.0:
            return
        self.w, self.from_start = w, False
        self.value(Evaluation(upper, upper, at_zero, at_zero.copy()), problem)
        if self.relative_gap <= tol:
            self.reason = "tolerance"

    @property
    def comparable(self) -> float:
        """The objective with the labellings found; its bound where time left answers open."""
        return self.primal if self.n_late and np.isfinite(self.primal) else self.estimate

    @property
    def gap(self) -> float:
        """Certified gap of the kept weights, with what rounding may add; ``nan`` without an upper bound."""
        return self.primal - self.dual + self.rounding

    @property
    def relative_gap(self) -> float:
        """Certified gap over the size of the objective."""
        return relative(self.gap, self.primal)

    @property
    def relative_estimate(self) -> float:
        """Relative gap to the objective with the labellings found, of a backend without bounds; else ``nan``.

        It is what is left to learn from such a backend: at a gap of 0 the labellings it finds violate nothing more
        than the planes do (Finley and Joachims, ICML 2008, section 3.1: undergenerating oracles).
        """
        if not np.isnan(self.primal):
            return np.nan
        return relative(self.estimate - self.dual + self.rounding, self.estimate)

    def at_bounds(self, newest: Evaluation | None, tol: float) -> bool:
        """Whether bounds of the backend above its answers are the gap, at the newest weights.

        The labellings found there violate nothing that planes do not know: at most a tenth of the tolerance is left to
        learn from them.
        """
        if newest is None or not newest.upper - newest.estimate > tol * abs(newest.upper):
            return False
        return bool(newest.estimate - self.dual <= LEFT * tol * abs(newest.upper))

    def at_rounding(self, tol: float) -> bool:
        """Whether rounding alone keeps the gap above the tolerance, and the rest of it is no larger than that."""
        lost, enough = self.rounding + self.rounding_margin, tol * abs(self.primal)
        return bool(np.isfinite(self.gap) and lost > enough and self.gap - lost <= max(enough, lost))


def relative(gap: float, primal: float) -> float:
    """Return ``gap / |primal|`` (0 when both are 0)."""
    if not np.isfinite(primal) or np.isnan(gap):
        return np.nan
    return gap / max(abs(primal), 1e-300) if gap > 0.0 else 0.0
