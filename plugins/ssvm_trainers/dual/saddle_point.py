"""The saddle point of weights and marginals that the steps of ``extragradient`` are taken on."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Protocol

import numpy as np

from ssvm_dsl.ir import F64
from ssvm_dsl.plugin_api import Iterate, StopRule, TrainProblem
from ssvm_trainers.dual.polytope import Polytope
from ssvm_trainers.dual.projection.weight_metric import WeightMetric
from ssvm_trainers.shared.resumable import Run
from ssvm_trainers.shared.state_rules import COUNTS, NUMBERS, StateRule

#: Steps are shortened above this share of the longest length that is proved, and lengthened below the other.
LONG, SHORT = 0.9, 0.4

#: Seconds for each cell and for each feature of one that it takes to lay out equations, scores and their metric.
ENTRY_SECONDS = 8e-8


class SaddleOptions(Protocol):
    """The options that runs read."""

    method: str
    balance: float
    evaluate_every: int


class SaddleRun(Run):
    """One training run; w and x are the point that is certified: the weights, and marginals (one for each cell)."""

    w: Annotated[F64, NUMBERS]
    x: Annotated[F64, NUMBERS]
    step: Annotated[float, StateRule(least=1e-300)]  #: length of the next step
    n_steps: Annotated[int, COUNTS]
    passes: Annotated[float, COUNTS]

    def __init__(self, options: SaddleOptions, problem: TrainProblem, polytope: Polytope) -> None:
        self.options, self.problem, self.polytope = options, problem, polytope
        problem.pause(ENTRY_SECONDS * (polytope.n_cells + polytope.n_features()))
        objective = problem.objective
        self.share, self.loss = objective.weight / problem.n, polytope.score_loss()
        self.of_truth = polytope.truth_features(self.share)
        self.w, self.x = objective.weights(np.zeros(problem.dim)), np.zeros(polytope.n_cells)
        self.counts = polytope.mass(polytope.full(self.share[polytope.owner]))
        self.beta = float(np.abs(problem.loss.node).max(initial=0.0) or 1.0) / options.balance
        counts = self.counts / self.beta
        problem.pause()
        self.metric = WeightMetric(polytope.score_matrix(), counts, objective.lam * objective.scale, objective.lower)
        self.step, self.n_steps, self.passes = 1.0, 0, 0.0

    @abstractmethod
    def start_at(self, w: F64) -> None:
        """Begin with given weights."""

    @abstractmethod
    def advance(self) -> None:
        """Take one step: a prediction, and the correction by the gradient there."""

    def slope(self, w: F64, mass: F64) -> F64:
        """Return the gradient in w, for marginals added up by score."""
        objective = self.problem.objective
        return objective.lam * objective.scale * w - self.of_truth + self.polytope.score_features(mass)

    def bounded(self, w: F64) -> F64:
        """Return the closest weights that are allowed."""
        return np.maximum(w, self.problem.objective.lower)

    def iterate(self, stop: StopRule) -> Iterate:
        """Take some steps and certify where they led."""
        for _ in range(self.options.evaluate_every):
            self.problem.pause()
            self.advance()
            self.n_steps += 1
        self.passes += 1.0
        objective = self.problem.objective
        v, b = self.polytope.plane(self.x[self.polytope.kept], objective.weight)
        primal, upper = self.problem.value(self.w)
        extra = {"steps": float(self.n_steps), "step_size": float(self.step)}
        return Iterate(self.w, self.passes, primal, upper, objective.dual(v, b), extra=extra, plane=(v, b))
