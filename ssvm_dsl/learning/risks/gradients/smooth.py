"""``SmoothProblem``: log-loss and softmax-margin, whose gradients are expectations.

    risk_i(w) = log sum_y exp(Delta(y) + w . Phi(x_i, y)) - w . Phi(x_i, y_i)

    d risk_i / dw = E_p Phi(x_i, y) - Phi(x_i, y_i),     p(y) ~ exp(Delta(y) + w . Phi(x_i, y))

with ``Delta = 0`` for the log-loss.  A gradient is the adjoint of the parameter map at the marginals minus the truth.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.errors import TrainingError
from ssvm_dsl.inference.batch import split_examples
from ssvm_dsl.ir.features import NODE
from ssvm_dsl.ir.need import Ability, Task
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import positions, slices
from ssvm_dsl.ir.solution import select
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.learning.risks.ceilings import labelling_logarithms, largest_losses
from ssvm_dsl.learning.risks.gradients.gradient import GradientProblem
from ssvm_dsl.memory import fresh_zeros
from ssvm_dsl.plugin_api.training import RiskGradient
from ssvm_dsl.scores.labellings import add_labels, score_labels
from ssvm_dsl.scores.marginals import add_marginals

#: Relative error of a difference of two scores, each a sum of at most some thousand products.
ROUNDING = 1e-12


class SmoothProblem(GradientProblem):
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

    def _prepare(self) -> None:
        program = self.program
        self._mu = Theta.zeros(program, fresh_zeros(program.n_states))
        self._shared = [False] * len(program.groups)  # groups whose tables are the same for all examples
        self._scored = np.zeros(program.n_variables, dtype=bool)  # variables whose states have scores with weights
        for fmap in self.parameters.maps:
            if fmap.group == NODE:
                self._scored[fmap.variables(None)[:, 0]] = True
            elif fmap.features is None:
                self._shared[fmap.group] = True

    def _gradient(self, w: F64, examples: I64 | None) -> RiskGradient:
        """Return the risks of the selected examples and the gradient of their weighted sum."""
        start = self.seconds()
        program, objective, ids = self.program, self.objective, select(self.program, examples)
        self.parameters.fill_shared(w, self._theta)
        parts = split_examples(program.state_ptr[program.var_ptr], ids)
        found = self.executor.map(partial(self._part, w), parts)
        risks, sums, sizes = zip(*found, strict=True)
        value = np.concatenate(risks)
        for number, table in enumerate(self._mu.tables):
            if self._shared[number]:
                table[...] = sums[0][number]
                for tables in sums[1:]:
                    table += tables[number]
        vector = self.parameters.adjoint(self._mu, examples=examples)
        self.n_oracle_calls += len(ids)
        self.oracle_seconds += self.seconds() - start
        self._remember(w, ids, value, value)
        made = RiskGradient.of(objective, ids, value, value, vector, w)
        # the offset is a difference of scores: a bound of its rounding error is taken off
        error = float(np.dot(objective.weight[ids] * objective.slopes(value), np.concatenate(sizes)))
        for part in slices(len(w)):
            error += float(np.dot(np.abs(vector[part]), np.abs(w[part])))
        return replace(made, offset=made.offset - ROUNDING * error)

    def risks_at_zero(self) -> F64 | None:
        """Return the most that each risk is at weights of 0: all labellings, each with the largest loss."""
        largest = largest_losses(self.loss, self.program, self.parameters.constants)
        return largest + labelling_logarithms(self.program)

    def _size(self, ids: I64) -> F64:
        """Return the most that scores of labellings of some examples are sums of, in absolute numbers."""
        theta, program = self._theta, self.program
        node = theta.node[positions(program.state_ptr[program.var_ptr], ids)]
        size = np.diff(program.var_ptr)[ids] * _largest(node)
        for group, table, shared in zip(program.groups, theta.tables, self._shared, strict=True):
            rows = table if shared else table[group.table_rows(ids)]
            size = size + group.shapes.counts[ids] * _largest(rows)
        return np.asarray(size, dtype=np.float64)

    def _part(self, w: F64, ids: I64) -> tuple[F64, list[F64], F64]:
        """Return (risks, sums for the shared tables, sizes of scores) of one part of a batch.

        Sums for what belongs to the examples alone go to ``_mu`` (parts are disjoint: safe in threads).
        """
        theta, mu, program = self._theta, self._mu, self.program
        self.parameters.fill_examples(w, theta, ids)
        truth = self.loss.truth[positions(program.var_ptr, ids)]
        of_truth = score_labels(program, theta, truth, ids)
        self.loss.augment(program, theta, ids)
        coef, shift, log_z, found = self.objective.weight[ids], self.loss.const[ids] - of_truth, None, None
        if self.objective.power == 1.0 and Ability.SUMMED_MARGINALS in self.session.abilities:
            tables = self._cleared(ids)
            log_z = self._expect(theta, ids, coef, tables, -shift)
        if log_z is None:
            tables = self._cleared(ids)  # again: a backend that ran out of memory may have added something
            found = self.ask(Question(theta, ids, Task.MARGINALS), -shift, whole=True)
            assert found.log_partition is not None
            log_z = found.log_partition
        risk = log_z + shift
        unknown = np.flatnonzero(~np.isfinite(risk))
        if len(unknown):
            text = "has no finite log-loss: the backend did not finish it, or the truth is ruled out"
            raise TrainingError(f"example {int(ids[unknown[0]])} {text}")
        risk = np.maximum(risk, 0.0)  # rounding aside, none is below
        if found is not None:
            coef = coef * self.objective.slopes(risk)
            add_marginals(program, found.needed_marginals(), coef, ids, mu.node, tables)
        add_labels(program, truth, -coef, ids, mu.node, tables)
        return risk, tables, self._size(ids)

    def _cleared(self, ids: I64) -> list[F64]:
        """Return where the sums for tables of some examples are added; these, and those for states, are zero."""
        mu, program, tables = self._mu, self.program, list[F64]()
        mu.node[positions(program.state_ptr[program.var_ptr], ids)] = 0.0
        for group, table, shared in zip(program.groups, mu.tables, self._shared, strict=True):
            if shared:
                tables.append(np.zeros_like(table))
            else:
                table[group.table_rows(ids)] = 0.0
                tables.append(table)
        return tables

    def _expect(self, theta: Theta, ids: I64, coef: F64, tables: list[F64], known: F64) -> F64 | None:
        """Let the session add weighted marginals, where it can; return log partitions."""
        found, at = [], 0
        for piece in self.pieces(ids):
            question = Question(theta, piece, Task.MARGINALS, variables=self._scored)
            here = slice(at, at + len(piece))
            log_z = self.session.expect(question, coef[here], self._mu.node, tables, known[here])
            if log_z is None:
                return None
            found.append(log_z)
            at += len(piece)
        return np.concatenate(found)


def _largest(scores: F64) -> float:
    """Return the largest finite size of a score."""
    sizes = np.abs(scores)
    return float(sizes.max(initial=0.0, where=sizes < np.inf))
