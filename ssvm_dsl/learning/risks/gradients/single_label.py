"""Risks of models with one label: sums of hinges over the wrong classes.

With ``z_y = Delta(y) + s(y) - s(y_i)`` for every class y but the truth,

    weston-watkins           sum_y max(0, z_y)        Weston and Watkins 1999
    smooth-hinge             sum_y h(z_y)             Rennie and Srebro 2005: h(z) = 0, z^2/2, z - 1/2
                                                      on z < 0, [0, 1], > 1
    squared-weston-watkins   sum_y max(0, z_y)^2      Schmidt 2009, footnote 2: a squared slack for each wrong class

``weston-watkins`` with ``power=2`` is another risk, the square of the sum: ``(sum_y max(0, z_y))^2``.

With two classes these are the binary hinge, the smooth hinge and the squared one of the difference of scores.  Unlike
the margin risk (which for one label is that of Crammer and Singer 2001), they are not a maximum over labellings, so
that trainers get values and gradients, not planes.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.ir.loss import ADDITIVE, ZERO_ONE, LossTerm
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.solution import select
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.learning.risks.ceilings import spreads
from ssvm_dsl.learning.risks.gradients.gradient import GradientProblem
from ssvm_dsl.plugin_api.training import RiskGradient


def is_one_label(program: Program, loss: LossTerm) -> bool:
    """Return whether each example has one variable, without constraints, and a loss that is a number for each class."""
    plain = (np.diff(program.var_ptr) == 1).all() and program.uniform_card and not program.constraints
    return bool(plain) and not program.groups and loss.kind in (ADDITIVE, ZERO_ONE)


class WestonWatkins(GradientProblem):
    """The sum of the hinges of all wrong classes; for problems that :func:`is_one_label` is true of.

    Parameters
    ----------
    parameters : ParameterMap
    loss : LossTerm
    objective : RegularizedRisk
    session : PlannedSession
        Not used: all classes are enumerated.
    executor : Executor
        Likewise.
    """

    def _prepare(self) -> None:
        program, loss = self.program, self.loss
        self._mu = Theta.zeros(program)
        c = program.uniform_card
        self.reach = 2.0 * c
        self._wrong = np.arange(c) != loss.truth[:, None]
        if program.allowed is not None:
            self._wrong &= program.allowed.reshape(-1, c)
        self._price = loss.node.reshape(-1, c) + loss.const[:, None] + (loss.kind == ZERO_ONE) * loss.weight

    def _gradient(self, w: F64, examples: I64 | None) -> RiskGradient:
        """Return the risks of the selected examples and a subgradient of their weighted sum."""
        self.pause()
        start, ids = self.seconds(), select(self.program, examples)
        every, truth = np.arange(len(ids)), self.loss.truth[ids]
        scores = self.scores(w, examples).node.reshape(self._wrong.shape)[ids]
        above = self._price[ids] + scores - scores[every, truth][:, None]
        hinges, slopes = self._hinge(np.where(self._wrong[ids], above, -np.inf))
        value, at_zero = hinges.sum(axis=1), (slopes * self._price[ids] - self._bend(slopes)).sum(axis=1)
        slopes *= (self.objective.slopes(value) * self.objective.weight[ids])[:, None]
        slopes[every, truth] = -slopes.sum(axis=1)
        self._mu.node.reshape(self._wrong.shape)[ids] = slopes
        vector = self.parameters.adjoint(self._mu, examples=examples)
        self.n_oracle_calls += len(ids)
        self.oracle_seconds += self.seconds() - start
        self._remember(w, ids, value, value)
        return RiskGradient.below(self.objective, ids, value, value, vector, at_zero)

    def risks_at_zero(self) -> F64 | None:
        """Return the most that each risk is at weights of 0: the sum of the losses of the wrong classes."""
        constants, wrong = self.parameters.constants, self._wrong.sum(axis=1)
        total = np.maximum(np.where(self._wrong, self._price, 0.0), 0.0).sum(axis=1)
        return np.asarray(total if constants is None else total + wrong * spreads(constants, self.program))

    def _hinge(self, above: F64) -> tuple[F64, F64]:
        """Return (hinges, slopes)."""
        return np.maximum(above, 0.0), (above > 0.0).astype(np.float64)

    def _bend(self, slopes: F64) -> F64:
        """Return how far the tangents of these slopes are below 0 at 0."""
        return np.zeros_like(slopes)


class SmoothHinge(WestonWatkins):
    """The sum of the smooth hinges of all wrong classes."""

    smooth = True

    def _hinge(self, above: F64) -> tuple[F64, F64]:
        slope = np.clip(above, 0.0, 1.0)
        return np.where(above > 1.0, above - 0.5, 0.5 * slope**2), slope

    def _bend(self, slopes: F64) -> F64:
        """Return how far the tangents of these slopes are below 0 at 0."""
        return 0.5 * slopes**2


class SquaredHinges(WestonWatkins):
    """The sum of the squared hinges of all wrong classes."""

    smooth = True
    degree = 2.0  # its root is a norm of the hinges

    def risks_at_zero(self) -> F64 | None:
        """Return the most that each risk is at weights of 0."""
        constants, most = self.parameters.constants, np.maximum(self._price, 0.0)
        if constants is not None:
            most = most + spreads(constants, self.program)[:, None]
        return np.asarray(np.where(self._wrong, most**2, 0.0).sum(axis=1))

    def steepness(self, risks: F64) -> F64:
        """Return the largest slope in a hinge that examples of some risks may have: ``2 max_y z_y``, at most this."""
        return super().steepness(risks) * 2.0 * np.sqrt(risks)

    def _hinge(self, above: F64) -> tuple[F64, F64]:
        hinges = np.maximum(above, 0.0)
        return hinges**2, 2.0 * hinges

    def _bend(self, slopes: F64) -> F64:
        """Return how far the tangents of these slopes are below 0 at 0."""
        return 0.25 * slopes**2
