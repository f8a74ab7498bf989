"""``Progress``: what is known of a fit while it runs; and a trainer's statements, checked before they are used.

* The objective of an iterate is the one that the training problem computed at these weights
  (:mod:`ssvm_dsl.learning.risks.base`), never the trainer's number.
* Its lower bound is computed here from its plane ``b - v . w``, less what rounding may have added to it.  A lower bound
  without a plane is an estimate.
* The plane itself must be below the mean risk.  That is looked at wherever the mean risk is known: at the weights of
  all iterates that were evaluated, those that are returned included.  At others it rests with the trainer.

What turns out false once withdraws the certificate for the rest of the fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import PluginError, TrainingError
from ssvm_dsl.learning.risks.base import BaseProblem, Evaluation
from ssvm_dsl.plugin_api.training import Iterate, TrainingEvent


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
        :class:`LowerBound` has them.
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

    def keep(self, w: F64, evaluation: Evaluation | None, problem: BaseProblem) -> None:
        """Keep weights, with their objective; ``None`` where it is not known."""
        if w is not self.w:
            np.copyto(self.w, w)
        if evaluation is None:
            self.primal, self.estimate, self.n_late = np.nan, np.nan, 0
            return
        self.primal, self.estimate, self.n_late = evaluation.upper, evaluation.estimate, evaluation.n_late
        self.rounding = float(problem.accuracy.of_value(w, evaluation.estimate))

    def withdraw(self, why: str) -> None:
        """Give up the lower bound."""
        (self.dual, self.offset, self.rounding_margin), self.withdrawn = LowerBound(), why

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


def relative(gap: float, primal: float) -> float:
    """Return ``gap / |primal|`` (0 when both are 0)."""
    if not np.isfinite(primal) or np.isnan(gap):
        return np.nan
    return gap / max(abs(primal), 1e-300) if gap > 0.0 else 0.0


class LowerBound(NamedTuple):
    """What a plane proves of the optimum.

    Parameters
    ----------
    dual : float
        The lower bound, reduced by the possible rounding error; ``-inf`` where nothing is proved.
    offset : float
        The b of the plane; ``nan`` without one.
    rounding_margin : float
        The amount subtracted for rounding.
    """

    dual: float = -np.inf
    offset: float = np.nan
    rounding_margin: float = 0.0


def check_iterate(claimed: Any, dim: int, trainer: str) -> Iterate:
    """Return what a trainer yielded, an iterate of a problem with so many weights.

    Raises
    ------
    PluginError
        It is none.
    TrainingError
        Its weights are not finite.
    """
    fault = f"trainer '{trainer}' broke its contract: "
    if not isinstance(claimed, Iterate):
        expected = "expected an Iterate(w, n_passes, ...) of ssvm_dsl.plugin_api from steps()"
        raise PluginError(f"{fault}{expected}, got {type(claimed).__name__}")
    w, plane = claimed.w, claimed.plane
    if not _is_vector(w, dim):
        came = f"shape {w.shape}, {w.dtype}" if isinstance(w, np.ndarray) else type(w).__name__
        raise PluginError(f"{fault}the weights of an iterate must be an array of {dim} float64, got {came}")
    numbers = (claimed.n_passes, claimed.primal, claimed.upper, claimed.dual)
    for number in numbers:
        if not isinstance(number, int | float | np.number) or not claimed.n_passes >= 0.0:
            raise PluginError(f"{fault}n_passes, primal, upper and dual of an iterate are numbers, got {numbers}")
    if plane is not None:
        v, b = plane if isinstance(plane, tuple) and len(plane) == 2 else (None, None)
        if not _is_vector(v, dim):
            expected = f"the plane of an iterate is (v, b) with {dim} float64 in v"
            raise PluginError(f"{fault}{expected}, got {type(plane).__name__}")
        if not isinstance(b, int | float | np.number):
            expected = "the plane of an iterate is (v, b) with a number b"
            raise PluginError(f"{fault}{expected}, got {type(b).__name__}")
    if not np.isfinite(w).all():
        text = "its weights are no longer finite; set options that shorten its steps"
        raise TrainingError(f"trainer '{trainer}': {text}")
    return claimed


def _is_vector(v: Any, dim: int) -> bool:
    return isinstance(v, np.ndarray) and v.dtype == np.float64 and v.shape == (dim,)


def lower_bound(plane: tuple[F64, float], problem: BaseProblem) -> LowerBound:
    """Return what the plane (v, b) of an iterate proves of the optimum."""
    v, b = plane[0], float(plane[1])
    with np.errstate(over="ignore", invalid="ignore"):
        value = problem.objective.bound(v, b)
        rounding_margin = problem.accuracy.of_bound(v, b, value)
    if not np.isfinite(value - rounding_margin):
        return LowerBound()
    if value <= rounding_margin:  # no risk is negative: the plane that is 0 everywhere is always there
        return LowerBound(0.0, 0.0, max(value, 0.0))
    return LowerBound(value - rounding_margin, b, rounding_margin)


def contradiction(plane: tuple[F64, float], w: F64, upper: float, problem: BaseProblem, trainer: str) -> str:
    """Return in words how a plane is above the mean risk at w, where the objective is at most ``upper``; else empty."""
    v, b = plane[0], float(plane[1])
    risk, height = upper - problem.objective.regularizer(w), b - float(np.dot(v, w))
    if not height - risk > 2.0 * problem.accuracy.of_value(w, upper) + problem.accuracy.error * abs(b):
        return ""
    text = f"is {height:.6g} where the mean risk is at most {risk:.6g}"
    return f"the plane behind the lower bound of trainer '{trainer}' {text}"
