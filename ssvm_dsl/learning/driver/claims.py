"""``Claims``: a trainer's statements about its iterates, checked before they are used.

* The objective of an iterate is the one that the training problem computed at these weights
  (:mod:`ssvm_dsl.learning.driver.evaluations`), never the trainer's number.
* Its lower bound is computed here from its plane ``b - v . w``, less what rounding may have added to it.  A lower bound
  without a plane is an estimate.
* The plane itself must be below the mean risk.  That is looked at wherever the mean risk is known: at the weights of
  all iterates that were evaluated, those that are returned included.  At others it rests with the trainer.

What turns out false once withdraws the certificate for the rest of the fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import PluginError, TrainingError
from ssvm_dsl.learning.driver.evaluations import Evaluation
from ssvm_dsl.learning.risks.base import BaseProblem
from ssvm_dsl.plugin_api.training import Iterate


@dataclass(frozen=True, eq=False)
class Checked:
    """An iterate and what is known of it.

    Parameters
    ----------
    iterate : Iterate
    evaluation : Evaluation or None
        The objective at its weights, where the problem computed it.
    dual : float
        The lower bound of the optimum that its plane proves, reduced by the possible rounding error.
    offset : float
        The b of the plane.
    rounding_margin : float
        The amount subtracted for rounding.
    """

    iterate: Iterate
    evaluation: Evaluation | None
    dual: float = -np.inf
    offset: float = np.nan
    rounding_margin: float = 0.0


class Claims:
    """Checks the iterates of one trainer on one problem.

    Parameters
    ----------
    problem : BaseProblem
    trainer : str
        Name, for messages.
    """

    def __init__(self, problem: BaseProblem, trainer: str) -> None:
        self.problem, self.trainer = problem, trainer
        self.false = ""  #: what turned out false, in words

    def check(self, claimed: Any, evaluate: bool = False) -> Checked:
        """Return the verified values of an iterate; ``evaluate`` asks for its objective, by a pass of the oracle.

        Raises
        ------
        PluginError
            It is no iterate of this problem.
        TrainingError
            Its weights are not finite.
        """
        iterate, problem, accuracy = self._iterate(claimed), self.problem, self.problem.accuracy
        evaluation = problem.evaluation(iterate.w) if evaluate else problem.evaluations.at(iterate.w)
        if evaluation is not None:
            accuracy.watch(problem.steepness(evaluation.value))
        if iterate.plane is None or self.false:
            return Checked(iterate, evaluation)
        v, b = self._plane(iterate.plane)
        with np.errstate(over="ignore", invalid="ignore"):
            value = problem.objective.bound(v, b)
            rounding_margin = accuracy.of_bound(v, b, value)
        if not np.isfinite(value - rounding_margin):
            return Checked(iterate, evaluation)
        if evaluation is not None and np.isfinite(evaluation.upper):
            self._compare(iterate.w, v, b, evaluation.upper)
        if value <= rounding_margin:  # no risk is negative: the plane that is 0 everywhere is always there
            return Checked(iterate, evaluation, 0.0, 0.0, max(value, 0.0))
        return Checked(iterate, evaluation, value - rounding_margin, b, rounding_margin)

    def _iterate(self, claimed: Any) -> Iterate:
        if not isinstance(claimed, Iterate):
            expected = "expected an Iterate(w, n_passes, ...) of ssvm_dsl.plugin_api from steps()"
            raise self._fault(f"{expected}, got {type(claimed).__name__}")
        w, dim = claimed.w, self.problem.dim
        if not (isinstance(w, np.ndarray) and w.dtype == np.float64 and w.shape == (dim,)):
            came = f"shape {w.shape}, {w.dtype}" if isinstance(w, np.ndarray) else type(w).__name__
            raise self._fault(f"the weights of an iterate must be an array of {dim} float64, got {came}")
        numbers = (claimed.n_passes, claimed.primal, claimed.upper, claimed.dual)
        if not all(isinstance(number, int | float | np.number) for number in numbers) or not claimed.n_passes >= 0.0:
            raise self._fault(f"n_passes, primal, upper and dual of an iterate are numbers, got {numbers}")
        if not np.isfinite(w).all():
            text = "its weights are no longer finite; set options that shorten its steps"
            raise TrainingError(f"trainer '{self.trainer}': {text}")
        return claimed

    def _fault(self, text: str) -> PluginError:
        return PluginError(f"trainer '{self.trainer}' broke its contract: {text}")

    def _plane(self, plane: Any) -> tuple[F64, float]:
        """Return (v, b) of a plane."""
        dim = self.problem.dim
        v, b = plane if isinstance(plane, tuple) and len(plane) == 2 else (None, None)
        if not (isinstance(v, np.ndarray) and v.shape == (dim,) and v.dtype == np.float64):
            raise self._fault(f"the plane of an iterate is (v, b) with {dim} float64 in v, got {type(plane).__name__}")
        if not isinstance(b, int | float | np.number):
            raise self._fault(f"the plane of an iterate is (v, b) with a number b, got {type(b).__name__}")
        return v, float(b)

    def _compare(self, w: F64, v: F64, b: float, upper: float) -> None:
        """Note a plane that is above the mean risk at weights whose objective is at most ``upper``."""
        risk, plane = upper - self.problem.objective.regularizer(w), b - float(np.dot(v, w))
        accuracy = self.problem.accuracy
        if plane - risk > 2.0 * accuracy.of_value(w, upper) + accuracy.error * abs(b):
            text = f"is {plane:.6g} where the mean risk is at most {risk:.6g}"
            self.false = f"the plane behind the lower bound of trainer '{self.trainer}' {text}"
