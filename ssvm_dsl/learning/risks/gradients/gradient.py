"""``GradientProblem``: what problems share whose risks give values and gradients, but no planes of labellings."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.errors import TrainingError
from ssvm_dsl.learning.risks.base import BaseProblem, in_rounds
from ssvm_dsl.plugin_api.protocols import CompiledOracle
from ssvm_dsl.plugin_api.training import Planes, RiskGradient


class GradientProblem(BaseProblem, ABC):
    """A risk known by its values and (sub)gradients.

    Parameters are those of :class:`~ssvm_dsl.learning.risks.base.BaseProblem`.
    """

    def value(self, w: F64) -> tuple[float, float]:
        """Return (objective, certified upper bound or nan) at w."""
        risk = self.gradient(w)
        return self.objective.primal(w, risk.value), self.objective.primal(w, risk.bound)

    def risks(self, w: F64, ids: I64) -> tuple[F64, F64]:
        """Return (risks of some examples with the answers found, certified upper bounds or nan) at w."""
        risk = self.gradient(w, ids)
        return risk.value, risk.bound

    def gradient(self, w: F64, examples: I64 | None = None) -> RiskGradient:
        """Return the risks of the selected examples and a subgradient of their weighted sum.

        Parameters
        ----------
        w : ndarray of float64, shape (dim,)
        examples : ndarray of int64, optional
            In any order; one that is there several times counts as often in the sum.  All by default.
        """
        if examples is None or (np.diff(examples) > 0).all():
            return self._gradient(w, examples)
        value, bound = np.empty(len(examples)), np.empty(len(examples))
        vector, offset = np.zeros(self.dim), 0.0
        for mine in in_rounds(examples):
            risk = self._gradient(w, examples[mine])
            value[mine], bound[mine] = risk.value, risk.bound
            vector += risk.vector
            offset += risk.offset
        return RiskGradient(value, bound, vector, offset)

    @abstractmethod
    def _gradient(self, w: F64, examples: I64 | None) -> RiskGradient:
        """Return the same of examples in ascending order, each once."""

    def tightness(self, w: F64, ask: bool = True) -> float:
        """Return the share of the oracle's answers at w that are proved best; ``nan`` where nothing is maximised."""
        return np.nan

    def compiled(self, tables: bool = False) -> CompiledOracle | None:
        """Return ``None``: there is no most violated labelling to ask for."""
        return None

    def oracle(self, w: F64, examples: I64 | None = None) -> Planes:
        """Raise: there are no planes."""
        raise _no_planes()

    def accumulate(self, planes: Planes, coef: F64, out: F64) -> F64:
        """Raise: there are no planes."""
        raise _no_planes()

    def evaluate(self, w: F64) -> tuple[float, float, Planes]:
        """Raise: there are no planes."""
        raise _no_planes()


def _no_planes() -> TrainingError:
    return TrainingError("this risk has no planes of labellings; the trainer must use value and gradient")
