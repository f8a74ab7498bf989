"""``SmoothProblem``: log-loss and softmax-margin, whose gradients are expectations.

    risk_i(w) = log sum_y exp(Delta(y) + w . Phi(x_i, y)) - w . Phi(x_i, y_i)

    d risk_i / dw = E_p Phi(x_i, y) - Phi(x_i, y_i),     p(y) ~ exp(Delta(y) + w . Phi(x_i, y))

with ``Delta = 0`` for the log-loss.  Expectations are the adjoint of the parameter map at the marginals.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.inference.batch import join_solutions, split_examples
from ssvm_dsl.inference.session import PlannedSession
from ssvm_dsl.ir.features import Block
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.parameters import ParameterMap
from ssvm_dsl.ir.ragged import members, positions
from ssvm_dsl.ir.solution import Marginals, Solution, score_labels, select
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.plugin_api.protocols import CompiledOracle, Executor, Planes, RiskGradient

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


class SmoothProblem:
    """Log-sum-exp risks over a data set.

    Parameters
    ----------
    parameters : ParameterMap
    loss : LossTerm
        What is added to the scores (zero for the log-loss).
    objective : RegularizedRisk
    session : PlannedSession
        The planned backend, opened on the program.
    executor : Executor
        Where the parts of a batch run.
    """

    smooth = True

    def __init__(
        self,
        parameters: ParameterMap,
        loss: LossTerm,
        objective: RegularizedRisk,
        session: PlannedSession,
        executor: Executor,
    ) -> None:
        self.parameters, self.loss, self.objective = parameters, loss, objective
        self.session, self.executor = session, executor
        self.program = parameters.program
        self.dim: int = parameters.dim
        self.n: int = self.program.n_examples
        self.blocks: tuple[Block, ...] = parameters.blocks
        self.n_oracle_calls = 0
        self.oracle_seconds = 0.0
        self._theta = Theta.zeros(self.program)

    def scores(self, w: F64, examples: I64 | None = None) -> Theta:
        """Return ``Phi w`` of the selected examples, in a buffer that the next call overwrites."""
        return self.parameters.scores(w, examples, out=self._theta)

    def compiled(self) -> CompiledOracle | None:
        """Return ``None``: there is no best labelling to ask for."""
        return None

    def value(self, w: F64) -> tuple[float, float]:
        """Return (objective, certified upper bound) at w."""
        primal = self.objective.primal(w, self.gradient(w).value)
        return primal, primal

    def oracle(self, w: F64, examples: I64 | None = None) -> Planes:
        """Raise: a smooth risk has no planes."""
        raise _no_planes()

    def accumulate(self, planes: Planes, coef: F64, out: F64) -> F64:
        """Raise: a smooth risk has no planes."""
        raise _no_planes()

    def evaluate(self, w: F64) -> tuple[float, float, Planes]:
        """Raise: a smooth risk has no planes."""
        raise _no_planes()

    def gradient(self, w: F64, examples: I64 | None = None) -> RiskGradient:
        """Return the risks of the selected examples and the gradient of their weighted sum."""
        start = perf_counter()
        program, ids = self.program, select(self.program, examples)
        self.parameters.fill_shared(w, self._theta)
        parts = split_examples(program.state_ptr[program.var_ptr], ids)
        found = self.executor.map(lambda part: self._part(w, part), parts)
        value = np.concatenate([risk for risk, _ in found])
        solution = join_solutions([one for _, one in found])
        assert solution.marginals is not None
        coef = self.objective.slopes(value) * self.objective.weight[ids]
        vector = self._expectation(solution.marginals, coef, ids)
        self.parameters.accumulate(self.loss.truth[members(program.var_ptr, ids)], -coef, vector, ids)
        self.n_oracle_calls += len(ids)
        self.oracle_seconds += perf_counter() - start
        return RiskGradient.of(self.objective, ids, value, value, vector, w)

    def _part(self, w: F64, ids: I64) -> tuple[F64, Solution]:
        """Return (risks, answer) of one part of a batch."""
        theta, program = self._theta, self.program
        self.parameters.fill_examples(w, theta, ids)
        of_truth = score_labels(program, theta, self.loss.truth[positions(program.var_ptr, ids)], ids)
        states = positions(program.state_ptr[program.var_ptr], ids)
        theta.node[states] += self.loss.node[states]
        solution = self.session.solve(theta, examples=ids, task=Task.MARGINALS)
        assert solution.log_partition is not None
        risk = solution.log_partition + self.loss.const[ids] - of_truth
        if not np.isfinite(risk).all():
            bad = int(ids[np.flatnonzero(~np.isfinite(risk))[0]])
            raise TrainingError(f"example {bad} has no partition function: the backend did not finish it")
        return np.maximum(risk, 0.0), solution

    def _expectation(self, marginals: Marginals, coef: F64, ids: I64) -> F64:
        """Return ``sum_i coef_i E_i Phi(x_i, y)``."""
        program, mu = self.program, Theta.zeros(self.program)
        starts = program.state_ptr[program.var_ptr]
        per_state = np.repeat(coef, starts[ids + 1] - starts[ids])
        mu.node[positions(starts, ids)] = per_state * marginals.node
        for group, table, given in zip(program.groups, mu.tables, marginals.tables, strict=True):
            factors = members(group.ptr, ids)
            rows = given * np.repeat(coef, np.diff(group.ptr)[ids])[:, None]
            if group.n_tables == 1:
                table[0] = rows.sum(axis=0)
            else:
                np.add.at(table, group.table[factors], rows)
        return self.parameters.adjoint(mu)


def _no_planes() -> TrainingError:
    return TrainingError("a smooth risk has no planes; the trainer must use value and gradient")
