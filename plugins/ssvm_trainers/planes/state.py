"""The state of block-coordinate methods: weights and cached planes.

For each example a few planes are kept, each as a labelling with its loss, its dual weight, and its row of the
Gram matrix of joint-feature differences ``psi = Phi(x, y) - Phi(x, labelling)``.  The plane of the truth is
zero and implicit.  Memory is O(cached labels), whatever the number of weights; where there are few weights, planes are
kept as vectors, too, of at most 256 MiB in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, runs
from ssvm_dsl.plugin_api import TrainProblem
from ssvm_trainers.planes.cache import MOST_NUMBERS, MOST_WEIGHTS, Cache, DensePlanes, places
from ssvm_trainers.shared.arrays import NO_FLOATS, NO_INTS, Fixed, Work
from ssvm_trainers.shared.oracle_call import NO_INPUTS, no_oracle
from ssvm_trainers.shared.resumable import Stateful
from ssvm_trainers.shared.spaces import fixed_arrays, follow_plane, parts_space, plane_space, work_space
from ssvm_trainers.shared.state_rules import COUNTS, NUMBERS, ROUNDING, StateRule, require

#: Longer vectors are kept, too, up to this number of weights for each factor of an example.
WORTH_FACTORS = 32

#: Planes kept for an example at first; the cache grows when an example needs more at once.
FIRST_CAPACITY = 8


class SavedPlanes(NamedTuple):
    """The cached planes (:class:`~ssvm_trainers.planes.cache.Cache`), and quantities derived from them."""

    n_planes: Annotated[I32, StateRule(least=0, shape=("n",), dtype="int32")]
    alpha: Annotated[F64, StateRule(-ROUNDING, 1 + ROUNDING, shape=("n", "planes"))]
    loss: Annotated[F64, StateRule(shape=("n", "planes"))]
    gram: Annotated[F64, StateRule(shape=("n", "planes", "planes"))]
    age: Annotated[I32, StateRule(least=0, shape=("n", "planes"), dtype="int32")]
    labels: Annotated[I32, StateRule(least=0, shape=("labels",), dtype="int32")]
    w: Annotated[F64, NUMBERS]
    free: Annotated[F64, NUMBERS]
    gap: Annotated[F64, NUMBERS]
    gain: Annotated[F64, NUMBERS]
    operations: Annotated[int, COUNTS]


@dataclass(eq=False)
class DualState(Stateful):
    """Weights and planes of a block-coordinate method.

    ``free`` are the weights without their lower bounds: w itself when there are none.
    """

    problem: TrainProblem
    fixed: Fixed
    cache: Cache
    work: Work
    w: F64
    free: F64
    gap: F64
    gain: F64

    @property
    def capacity(self) -> int:
        """Planes an example can hold."""
        return self.cache.alpha.shape[1]

    def packed(self) -> SavedPlanes:
        """Return planes and dual variables as the arrays of a checkpoint, not copied."""
        return SavedPlanes(*self.cache[:-1], self.w, self.free, self.gap, self.gain, int(self.work.counter[0]))

    def check(self, state: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Refuse labels that are no states, and dual weights of an example that exceed 1."""
        n_planes, alpha, program = state["n_planes"], state["alpha"], self.problem.parameters.program
        k = sizes["planes"]
        doubled = k in [FIRST_CAPACITY << step for step in range(24)]
        require(doubled, "'alpha'", f"a capacity of {FIRST_CAPACITY} planes, or a multiple by a power of 2")
        require((n_planes <= k).all(), "'n_planes'", f"at most {k} planes of an example")
        there = np.arange(k) < n_planes[:, None]
        require(not alpha[~there].any(), "'alpha'", "dual weights of planes that are there")
        require((alpha.sum(axis=1) <= 1 + ROUNDING).all(), "'alpha'", "dual weights that add up to at most 1")
        sizes_of = np.diff(program.var_ptr)
        require(sizes["labels"] == (k + 1) * int(program.var_ptr[-1]), "'labels'", "labels of all planes")
        variable = runs(np.repeat(program.var_ptr[:-1], k + 1), np.repeat(sizes_of, k + 1))
        require((state["labels"] < program.card[variable]).all(), "'labels'", "states of the variables")
        if program.allowed is not None:
            allowed = program.allowed[program.state_ptr[variable] + state["labels"]]
            used = np.append(there, np.zeros((len(there), 1), dtype=bool), axis=1).ravel()
            used = np.repeat(used, np.repeat(sizes_of, k + 1))
            require(allowed[used].all(), "'labels'", "states that are not ruled out")

    def unpack(self, record: SavedPlanes) -> None:
        """Take over the planes; write to the other arrays, two of which may be one."""
        while self.capacity < record.alpha.shape[1]:
            self.grow()
        cached = record.n_planes, record.alpha, record.loss, record.gram, record.age, record.labels
        self.cache = Cache(*cached, self.cache.dense)
        self.w[:], self.free[:], self.gap[:], self.gain[:] = record.w, record.free, record.gap, record.gain
        if self.vectors.size:
            from ssvm_trainers.planes.plane_vectors import fill_vectors

            fill_vectors(self.fixed, self.cache, self.work)
        self.work.counter[0] = record.operations

    def grow(self) -> None:
        """Double the number of planes that each example can hold."""
        k, n = self.capacity, len(self.cache.n_planes)
        var_ptr = self.fixed.var_ptr
        labels = np.zeros((2 * k + 1) * int(var_ptr[-1]), dtype=np.int32)
        for lo, hi in pairwise(var_ptr):
            size = k * (hi - lo)
            labels[(2 * k + 1) * lo :][:size] = self.cache.labels[(k + 1) * lo :][:size]
        wide = [np.zeros((n, 2 * k), dtype=a.dtype) for a in (self.cache.alpha, self.cache.loss, self.cache.age)]
        for new, old in zip(wide, (self.cache.alpha, self.cache.loss, self.cache.age), strict=True):
            new[:, :k] = old
        gram = np.zeros((n, 2 * k, 2 * k))
        gram[:, :k, :k] = self.cache.gram
        dense = dense_planes(self.problem, 2 * k)
        if dense.psi.size and self.vectors.size:
            dense.psi[:, : k + 1] = self.cache.dense.psi
        else:
            dense = dense_planes(self.problem, 0)
        self.cache = Cache(self.cache.n_planes, wide[0], wide[1], gram, wide[2], labels, dense)
        self.work = self.work._replace(**plane_space(2 * k), parts=parts_space(self.problem, 2 * k))

    def make_room(self, oldest: int) -> None:
        """Drop planes without dual weight since before iteration ``oldest``: each example has space for one more."""
        from ssvm_trainers.planes.bcfw_kernels import make_room

        make_room(self.fixed, self.cache, oldest)
        if self.cache.n_planes.max(initial=0) >= self.capacity:
            self.grow()

    def aggregate(self) -> tuple[F64, float]:
        """Return the aggregated plane (v, b) of the dual weights, summed afresh."""
        weight = self.fixed.share[:, None] * self.cache.alpha
        b = float((weight * self.cache.loss).sum())
        if self.vectors.size:
            return np.einsum("ik,ikd->d", weight, self.vectors[:, :-1]), b
        from ssvm_trainers.planes.bcfw_kernels import SUMMED, DualPoint, VisitRule, Visits, visit_examples

        v, everything = np.zeros(self.problem.dim), np.arange(self.problem.n)
        point, visits = DualPoint(v, v, self.gap, self.gain), Visits(everything, NO_INTS, NO_FLOATS)
        visit_examples(VisitRule(SUMMED), no_oracle, NO_INPUTS, self.fixed, self.cache, self.work, visits, point)
        return v, b

    @property
    def kept_planes(self) -> Cache:
        """The planes."""
        return self.cache

    @property
    def vectors(self) -> F64:
        """The planes as vectors, and a spare one of each example, ``shape (n, K + 1, dim)``; empty where not kept."""
        return self.cache.dense.psi

    def rows(self) -> F64 | None:
        """Return the cached planes, example by example, as rows; ``None`` where they are not kept as vectors."""
        return self.vectors[:, :-1][places(self.cache)] if self.vectors.size else None

    def refresh(self) -> tuple[float, tuple[F64, float]]:
        """Recompute w from the dual weights (rounding errors do not add up); return (dual value, plane)."""
        v, b = self.aggregate()
        follow_plane(self.problem, v, self.w, self.free)
        return self.problem.objective.dual(v, b), (v, b)


def start_state(problem: TrainProblem) -> DualState:
    """Return the state in which every example's dual weight lies on its truth: w = 0; call ``refresh`` next."""
    n, dim, k = problem.n, problem.dim, FIRST_CAPACITY
    cache = Cache(
        np.zeros(n, np.int32), np.zeros((n, k)), np.zeros((n, k)), np.zeros((n, k, k)), np.zeros((n, k), np.int32),
        np.zeros((k + 1) * problem.parameters.program.n_variables, np.int32), dense_planes(problem, k),
    )  # fmt: skip
    w, fixed = np.zeros(dim), fixed_arrays(problem)
    return DualState(
        problem,
        fixed,
        cache,
        work_space(problem, k),
        w=w,
        free=np.zeros(dim) if fixed.bounded.any() else w,
        gap=np.zeros(n),
        gain=np.zeros(n),
    )


def dense_planes(problem: TrainProblem, k: int) -> DensePlanes:
    """Return space for k planes of each example as vectors, if these are short enough, or there are few examples."""
    n, dim, objective = problem.n, problem.dim, problem.objective
    factors = sum(fmap.n_factors for fmap in problem.parameters.maps)
    if not k or dim > max(MOST_WEIGHTS, WORTH_FACTORS * factors // max(n, 1)) or n * (k + 1) * dim > MOST_NUMBERS:
        return DensePlanes(np.zeros((n, 1, 0)), NO_FLOATS, NO_FLOATS)
    return DensePlanes(np.zeros((n, k + 1, dim)), 1.0 / objective.scale, np.array(objective.lower))
