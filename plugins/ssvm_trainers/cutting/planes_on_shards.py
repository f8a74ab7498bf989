"""The planes of ``one-slack`` where the examples are, on shards: exact passes that keep planes, and cuts from them.

Each shard has a cache of planes of its examples (:mod:`ssvm_trainers.cutting.kept_planes`), which stays there.  A pass
or a cut is one round of messages: the weights go to the shards, and an aggregated plane and a few numbers come back.
A shard that was opened again has lost its planes.  No cut is asked for then before all shards have kept theirs over a
whole pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ssvm_dsl.ir import F64
from ssvm_dsl.plugin_api import ShardSteps, TrainProblem
from ssvm_trainers.cutting.kept_planes import KeptPlanes

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
