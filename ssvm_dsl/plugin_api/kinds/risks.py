"""The interface of risks of plug-ins, and their arguments (``RiskSpec``)."""

from __future__ import annotations

from typing import Protocol

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.training import Objective, Planes, RiskGradient
from ssvm_dsl.scores.parameter_map import ParameterMap


class RiskContext(Protocol):
    """The arguments of a risk: the data, the objective, and the backend."""

    @property
    def parameters(self) -> ParameterMap:
        """The map from weights to scores, with the program (``parameters.program``)."""

    @property
    def loss(self) -> LossTerm:
        """The loss that ``RiskSpec.loss`` names, with the truth."""

    @property
    def objective(self) -> Objective:
        """The objective: weights of examples, and the power that each risk is raised to."""

    def scores(self, w: F64, examples: I64 | None = None) -> Theta:
        """Return ``Phi w`` of the selected examples, in a buffer that is the receiver's until the next call."""

    def ask(self, question: Question) -> Solution:
        """Return the backend's answer, which ends with the time of the fit."""

    def pause(self) -> None:
        """Raise :class:`~ssvm_dsl.errors.OutOfTime` when the fit's time is up, as :meth:`ask` also does."""


class GradientRisk(Protocol):
    """A convex risk, of no example below zero, known by values and subgradients."""

    def gradient(self, w: F64, examples: I64) -> RiskGradient:
        """Return the risks of some examples and a subgradient of the weighted sum of their powers.

        The host checks shapes, that no risk is negative, and that the plane touches at w.

        Parameters
        ----------
        w : ndarray of float64, shape (dim,)
        examples : ndarray of int64, shape (m,)
            Distinct examples.
        """


class PlaneRisk(Protocol):
    """A risk that is a maximum over labellings, known by its most violated planes."""

    def oracle(self, w: F64, examples: I64) -> Planes:
        """Return the most violated plane of each example, that of the truth (of value 0) where no other is above it.

        The host computes ``value`` from loss, scale and labels again, and checks that it is not negative and not above
        ``bound``.

        Parameters
        ----------
        w : ndarray of float64, shape (dim,)
        examples : ndarray of int64, shape (m,)
            Distinct examples.
        """
