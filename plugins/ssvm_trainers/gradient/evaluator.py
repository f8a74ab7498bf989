"""The objective with its gradient at one w, and the best lower bound from all evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from ssvm_dsl.ir import F64, slices
from ssvm_dsl.plugin_api import Iterate, TrainProblem
from ssvm_trainers.shared.lower_bound import PlaneHull
from ssvm_trainers.shared.resumable import COUNTS, NUMBERS, OPEN, PART, Stateful, StateRule, require


@dataclass(eq=False)
class Point(Stateful):
    """Weights with the objective, its certified upper bound (or nan), and a subgradient of it."""

    w: Annotated[F64, NUMBERS]
    primal: Annotated[float, OPEN] = np.nan
    upper: Annotated[float, OPEN] = np.nan
    grad: Annotated[F64, StateRule(shape=("gradient",))] = field(default_factory=lambda: np.zeros(0))

    def check(self, state: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Refuse a gradient of another length."""
        require(sizes["gradient"] in (0, len(self.w)), "'grad'", "a number for each weight")


class Evaluator(Stateful):
    """Evaluates the objective; each evaluation gives an aggregated plane, and their mixture a lower bound.

    Parameters
    ----------
    problem : TrainProblem
    """

    hull: Annotated[PlaneHull, PART]
    n_calls: Annotated[int, COUNTS]  #: evaluations so far
    dual: Annotated[float, OPEN]  #: the best lower bound

    def __init__(self, problem: TrainProblem) -> None:
        self.problem, self.hull = problem, PlaneHull(problem.objective)
        self.n_calls, self.dual = 0, -np.inf

    def __call__(self, w: F64) -> Point:
        """Return objective and (sub)gradient at w."""
        objective, n = self.problem.objective, self.problem.n
        risk = self.problem.gradient(w)
        self.n_calls += 1
        grad = risk.vector
        grad /= -n
        self.dual = self.hull.add(grad, risk.offset / n)
        for part in slices(len(grad)):
            grad[part] = objective.lam * objective.scale[part] * w[part] - grad[part]
        return Point(w, objective.primal(w, risk.value), objective.primal(w, risk.bound), grad)

    def iterate(self, point: Point, n_passes: float, **extra: float) -> Iterate:
        """Return the iterate of a point."""
        plane = self.hull.plane
        return Iterate(point.w, n_passes, point.primal, point.upper, self.dual, extra=extra, plane=plane)
