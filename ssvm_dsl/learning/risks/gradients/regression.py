"""``RegressionProblem``: maximum margin structured regression (MMSR; Ratliff, Bagnell and Zinkevich 2007, section 3).

Example i has a value v_i besides its labelling y_i, and the score of the best labelling is to be that value,

    v_i - eps_below  <=  max_y s(y)  <=  v_i + eps_above ,          s(y) = w . Phi(x_i, y) .

The left side is not convex in w.  It follows from ``v_i - eps_below <= s(y_i)``, which is, and so the risk is their
equation (13), psi_i + phi_i with

    psi_i(w) = max(0, max_y s(y) - v_i - eps_above)      (8): no labelling may score too high
    phi_i(w) = max(0, v_i - s(y_i) - eps_below)          (9): the one given may not score too low

whose subgradient is ``[psi_i > 0] Phi(x_i, y*) - [phi_i > 0] Phi(x_i, y_i)`` with the best labelling y*.  (The paper's
Algorithm 2 prints its negative and leaves out both eps.)
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.inference.batch import split_examples
from ssvm_dsl.inference.planned import PlannedSession
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.ir.need import Guarantee
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, owners, positions
from ssvm_dsl.ir.solution import label_ptr, select
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.learning.risks.base import proved_share
from ssvm_dsl.learning.risks.ceilings import spreads
from ssvm_dsl.learning.risks.gradients.gradient import GradientProblem
from ssvm_dsl.plugin_api.protocols import Executor
from ssvm_dsl.plugin_api.training import RiskGradient
from ssvm_dsl.scores.labellings import score_labels
from ssvm_dsl.scores.parameter_map import ParameterMap


class RegressionProblem(GradientProblem):
    """The risk of structured regression over a data set.

    Parameters
    ----------
    parameters : ParameterMap
    loss : LossTerm
        Only its truth is used: the labellings y_i.
    objective : RegularizedRisk
    session : PlannedSession
        The planned backend, opened on the program.
    executor : Executor
        Where the parts of a batch run.
    values : ndarray of float64, shape (n,)
        The values v_i.
    epsilon : tuple (below, above)
        How far the score may be below and above the value for free.
    """

    def __init__(
        self,
        parameters: ParameterMap,
        loss: LossTerm,
        objective: RegularizedRisk,
        session: PlannedSession,
        executor: Executor,
        *,
        values: F64,
        epsilon: tuple[float, float],
    ) -> None:
        super().__init__(parameters, loss, objective, session, executor)
        self.values, (self.below, self.above) = values, epsilon

    def _gradient(self, w: F64, examples: I64 | None) -> RiskGradient:
        """Return the risks of the selected examples and a subgradient of their weighted sum."""
        start, ids = self.seconds(), select(self.program, examples)
        self.parameters.fill_shared(w, self._theta)
        parts = split_examples(self.program.state_ptr[self.program.var_ptr], ids)
        parts_found = self.executor.map(partial(self._part, w), parts)
        labels, best, bound, given = (np.concatenate(numbers) for numbers in zip(*parts_found, strict=True))
        high, low = best - self.values[ids] - self.above, self.values[ids] - given - self.below
        value = np.maximum(high, 0.0) + np.maximum(low, 0.0)
        most = np.maximum(bound - self.values[ids] - self.above, 0.0) + np.maximum(low, 0.0)
        coef = self.objective.slopes(value) * self.objective.weight[ids]
        vector = self.parameters.accumulate(labels, coef * (high > 0.0), np.zeros(self.dim), ids)
        truth = self.loss.truth[members(self.program.var_ptr, ids)]
        self.parameters.accumulate(truth, -coef * (low > 0.0), vector, ids)
        self.n_oracle_calls += len(ids)
        self.oracle_seconds += self.seconds() - start
        self._remember(w, ids, value, most)
        constants, of_truth, of_best = self.parameters.constants, np.zeros(len(ids)), np.zeros(len(ids))
        if constants is not None:
            of_truth = constants.value(self.program, truth, ids)
            of_best = constants.value(self.program, labels, ids)
        at_zero = np.where(low > 0.0, self.values[ids] - self.below - of_truth, 0.0)
        at_zero -= np.where(high > 0.0, self.values[ids] + self.above - of_best, 0.0)
        return RiskGradient.below(self.objective, ids, value, most, vector, at_zero)

    def _part(self, w: F64, ids: I64) -> tuple[I32, F64, F64, F64]:
        """Return (best labels, their scores, bounds, scores of the labellings given) of one part of a batch."""
        theta, program = self._theta, self.program
        self.parameters.fill_examples(w, theta, ids)
        truth = self.loss.truth[positions(program.var_ptr, ids)]
        given = score_labels(program, theta, truth, ids)
        solution = self.ask(Question(theta, ids), given, whole=True)
        worse = solution.score < given  # an inexact oracle may miss the labelling that is known
        labels = np.where(worse[owners(label_ptr(program, ids))], truth, solution.labels)
        best = np.maximum(solution.score, given)
        return labels.astype(np.int32), best, np.maximum(solution.bound, best), given

    def risks_at_zero(self) -> F64 | None:
        """Return the most that each risk is at weights of 0, where all scores are those without weights."""
        constants, of_truth, apart = self.parameters.constants, np.zeros(self.n), np.zeros(self.n)
        if constants is not None:
            of_truth, apart = constants.value(self.program, self.loss.truth), spreads(constants, self.program)
        high, low = of_truth + apart - self.values - self.above, self.values - of_truth - self.below
        return np.asarray(np.maximum(high, 0.0) + np.maximum(low, 0.0))

    def tightness(self, w: F64, ask: bool = True) -> float:
        """Return the share of examples whose risk at w is proved."""
        if self.session.guarantee is Guarantee.EXACT and not self.cut_short:
            return 1.0
        if not ask:
            return np.nan
        known = self.evaluation(w)
        return proved_share(known.value, known.bound)
