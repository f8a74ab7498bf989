"""``one-slack``: cutting planes with one slack variable for the whole data set, and a cache of planes.

Joachims, Finley and Yu (2009): the planes of all examples add up to one, so that the dual has one variable for each
pass over the data, however many examples there are.  Planes of single examples are kept (their section 5.2), and
cuts are made from them as long as they close much of the gap: with them, an exact pass comes only when the problem
over the kept planes is nearly solved.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.plugin_api import Iterate, Planes, StopRule, TrainProblem
from ssvm_trainers._aggregated_qp import INNER, AggregatedModel, Way
from ssvm_trainers._kept_planes import KeptPlanes

F64 = NDArray[np.float64]

#: Cuts from the cache end when the gap over the kept planes is this share of the certified gap.
ENOUGH = 0.3

#: The best point over the kept planes is asked for if the model there is below the objective by this share of the gap.
LEAST = 0.1


class OneSlack:
    """The one-slack cutting-plane method.

    Parameters
    ----------
    cache : int
        Planes kept for an example; 0 for none.
    max_cached_cuts : int
        Most cuts from the cache between two exact passes.
    keep : int
        Solves of the dual a plane may stay without weight before it is dropped.
    random_state : int or None
        Not used: the method is deterministic.
    """

    def __init__(
        self, cache: int = 50, max_cached_cuts: int = 20, keep: int = 50, random_state: int | None = None
    ) -> None:
        self.cache, self.max_cached_cuts, self.keep = cache, max_cached_cuts, keep

    def steps(self, problem: TrainProblem, stop: StopRule, start: F64 | None = None) -> Iterator[Iterate]:
        """Yield an iterate after each exact pass; see :class:`~ssvm_dsl.plugin_api.Trainer`."""
        model, kept = AggregatedModel(problem.objective, self.keep), KeptPlanes(problem, self.cache)
        w, passes, lowest, cuts = model.w if start is None else start, 0.0, np.inf, 0
        while True:
            primal, upper, planes = problem.evaluate(w)
            passes += 1.0
            lowest = min(lowest, primal)
            model.add(*aggregated(problem, w, planes))
            model.solve(INNER * (lowest - model.dual))
            after = model.w
            if self.cache > 0:
                kept.add(planes)
                after, more = self._cached_cuts(model, kept, w, lowest)
                cuts += more
            yield Iterate(w, passes, primal, upper, model.dual, extra={"planes": float(len(model)), "cuts": cuts})
            w = after

    def _cached_cuts(self, model: AggregatedModel, kept: KeptPlanes, w: F64, lowest: float) -> tuple[F64, int]:
        """Add cuts from the cache; return (point for the next exact pass, number of cuts)."""
        way, made = Way(stabilise=True), 0
        while made < self.max_cached_cuts:
            value, v, b = kept.cut(w)
            made += 1
            model.add(v, b)
            model.solve(INNER * (way.lowest - model.dual))
            w = way.next(w, value, model.w)
            if way.lowest - model.dual <= ENOUGH * (lowest - model.dual):
                break
        # the plane found next must cut something off: the model must be well below the objective there
        useful = way.best is not None and lowest - model.bound(way.best) >= LEAST * (lowest - model.dual)
        return way.best if useful and way.best is not None else model.w, made


def aggregated(problem: TrainProblem, w: F64, planes: Planes) -> tuple[F64, float]:
    """Return the aggregated plane (v, b) of the planes of all examples that touch their risks at w."""
    objective = problem.objective
    coef = objective.slopes(planes.value) * objective.weight[planes.examples] / problem.n
    v = problem.accumulate(planes, coef, np.zeros(problem.dim))
    mean = float(np.dot(objective.weight[planes.examples], objective.powered(planes.value))) / problem.n
    return v, mean + float(np.dot(v, w))
