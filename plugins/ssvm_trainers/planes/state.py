"""The state of block-coordinate methods: weights, and the planes that are kept of each example.

Each plane has its loss, its dual weight, and its row of the Gram matrix of joint-feature differences
``psi = Phi(x, y) - Phi(x, plane)``.  The plane of the truth is zero and implicit.  Planes are labellings, or for the
risk ``relaxed`` vectors of marginals: memory is O(cached labels) or O(cached marginals), whatever the number of
weights.  Where there are few weights, planes are kept as vectors psi (besides labellings, instead of marginals), of at
most 256 MiB in all.

Labellings without dual weight are dropped, and an example that needs more gets more room.  Of marginals each example
has room for :data:`MOST` or for fewer, as memory allows; the two of least dual weight are mixed when it is full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, runs
from ssvm_dsl.plugin_api import Planes, TrainProblem
from ssvm_trainers.planes.cache import MOST_NUMBERS, MOST_WEIGHTS, Cache, DensePlanes, Fractional, places
from ssvm_trainers.shared.arrays import NO_FLOATS, NO_INTS, Fixed, Work
from ssvm_trainers.shared.oracle_call import NO_INPUTS, no_oracle
from ssvm_trainers.shared.resumable import Stateful
from ssvm_trainers.shared.spaces import fixed_arrays, follow_plane, work_space
from ssvm_trainers.shared.state_rules import COUNTS, NUMBERS, ROUNDING, StateRule, require

#: Longer vectors are kept, too, up to this number of weights for each factor of an example.
WORTH_FACTORS = 32

#: Labellings kept for an example at first; the cache grows when an example needs more at once.
FIRST_CAPACITY = 8

#: Most planes of marginals kept for an example.
MOST = 12


class SavedPlanes(NamedTuple):
    """The arrays of a :class:`Cache` (``values`` are the vectors where these stand for marginals), and of the state."""

    n_planes: Annotated[I32, StateRule(least=0, shape=("n",), dtype="int32")]
    alpha: Annotated[F64, StateRule(-ROUNDING, 1 + ROUNDING, shape=("n", "planes"))]
    loss: Annotated[F64, StateRule(shape=("n", "planes"))]
    gram: Annotated[F64, StateRule(shape=("n", "planes", "planes"))]
    age: Annotated[I32, StateRule(least=0, shape=("n", "planes"), dtype="int32")]
    labels: Annotated[I32, StateRule(least=0, shape=("labels",), dtype="int32")]
    values: Annotated[F64, NUMBERS]
    w: Annotated[F64, NUMBERS]
    free: Annotated[F64, NUMBERS]
    gap: Annotated[F64, NUMBERS]
    gain: Annotated[F64, NUMBERS]
    operations: Annotated[int, COUNTS]


@dataclass(eq=False)
class DualState(Stateful):
    """Weights and planes of a block-coordinate method.

    ``free`` are the weights without their lower bounds: w itself when there are none.  ``fractional`` is ``None`` where
    planes are labellings.
    """

    problem: TrainProblem
    fixed: Fixed
    cache: Cache
    fractional: Fractional | None
    work: Work
    w: F64
    free: F64
    gap: F64
    gain: F64

    @property
    def capacity(self) -> int:
        """Planes an example can hold."""
        return self.cache.alpha.shape[1]

    @property
    def vectors(self) -> F64:
        """The planes as vectors, and a spare one of each example, ``shape (n, K + 1, dim)``; empty where not kept."""
        return self.cache.dense.psi

    def packed(self) -> SavedPlanes:
        """Return planes and dual variables as the arrays of a checkpoint, not copied."""
        cached: list[Any]
        *cached, values, dense = self.cache
        values = dense.psi if self.fractional is not None and dense.psi.size else values
        return SavedPlanes._make([*cached, values, self.w, self.free, self.gap, self.gain, int(self.work.counter[0])])

    def check(self, state: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Refuse labels that are no states, and dual weights of an example that exceed 1."""
        n_planes, alpha, program = state["n_planes"], state["alpha"], self.problem.parameters.program
        k, grows = sizes["planes"], self.fractional is None
        doubled = k in [FIRST_CAPACITY << step for step in range(24)]
        text = f"a capacity of {FIRST_CAPACITY} planes, or a multiple by a power of 2"
        fits, text = (doubled, text) if grows else (k == self.capacity, f"a capacity of {self.capacity} planes")
        require(fits, "'alpha'", text)
        require((n_planes <= k).all(), "'n_planes'", f"at most {k} planes of an example")
        there = np.arange(k) < n_planes[:, None]
        require(not alpha[~there].any(), "'alpha'", "dual weights of planes that are there")
        require((alpha.sum(axis=1) <= 1 + ROUNDING).all(), "'alpha'", "dual weights that add up to at most 1")
        sizes_of = np.diff(program.var_ptr)
        n_labels = (k + 1) * int(program.var_ptr[-1]) if grows else 0
        require(sizes["labels"] == n_labels, "'labels'", "labels of all planes")
        if not grows:
            return
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
        dense = self.cache.dense
        if self.fractional is not None and dense.psi.size:
            dense.psi[...] = record.values
        values = self.cache.values if dense.psi.size else record.values
        self.cache = Cache(*record[:6], values, dense)
        self.w[:], self.free[:], self.gap[:], self.gain[:] = record.w, record.free, record.gap, record.gain
        if self.fractional is None and dense.psi.size:
            from ssvm_trainers.planes.bcfw_kernels import fill_vectors

            fill_vectors(self.fixed, self.cache, self.work)
        self.work.counter[0] = record.operations

    def grow(self) -> None:
        """Double the number of labellings that each example can hold."""
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
        self.cache = Cache(self.cache.n_planes, wide[0], wide[1], gram, wide[2], labels, NO_FLOATS, dense)
        self.work = work_space(self.problem, 2 * k, self.work)

    def make_room(self, oldest: int) -> None:
        """Drop planes without dual weight since before iteration ``oldest``: each example has space for one more."""
        from ssvm_trainers.planes.bcfw_kernels import make_room

        make_room(self.fixed, self.cache, oldest)
        if self.cache.n_planes.max(initial=0) >= self.capacity:
            self.grow()

    def new_planes(self, planes: Planes | None) -> I32 | F64:
        """Return new planes one after the other, as kernels read them; nothing where there are none."""
        if self.fractional is not None:
            return NO_FLOATS if planes is None else self.fractional.packed(planes)
        return NO_INTS if planes is None else planes.labels

    def aggregate(self) -> tuple[F64, float]:
        """Return the aggregated plane (v, b) of the dual weights, summed afresh."""
        weight = self.fixed.share[:, None] * self.cache.alpha
        b = float((weight * self.cache.loss).sum())
        if self.vectors.size:
            return np.einsum("ik,ikd->d", weight, self.vectors[:, :-1]), b
        from ssvm_trainers.planes.bcfw_kernels import SUMMED, DualPoint, Visits, visit_examples

        v = np.zeros(self.problem.dim)
        visits = Visits(SUMMED, np.arange(self.problem.n), self.new_planes(None), NO_FLOATS)
        point = DualPoint(v, v, self.gap, self.gain)
        visit_examples(visits, no_oracle, NO_INPUTS, self.fixed, self.cache, self.fractional, self.work, point)
        return v, b

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
    fractional, labels, values = None, NO_INTS, NO_FLOATS
    if not problem.relaxed:
        dense = dense_planes(problem, k)
        labels = np.zeros((k + 1) * problem.parameters.program.n_variables, np.int32)
    else:
        fractional = Fractional.of(problem)
        n_values = int(fractional.entries.ptr[-1])
        k = int(np.clip(MOST_NUMBERS // max(n * dim, 1) - 1, 2, MOST))
        dense = dense_planes(problem, k)
        if not dense.psi.size:
            k = int(np.clip(MOST_NUMBERS // max(n_values, 1), 2, MOST))
            values = np.zeros((k + 1) * n_values)
    cache = Cache(
        np.zeros(n, np.int32), np.zeros((n, k)), np.zeros((n, k)), np.zeros((n, k, k)), np.zeros((n, k), np.int32),
        labels, values, dense,
    )  # fmt: skip
    w, fixed = np.zeros(dim), fixed_arrays(problem)
    return DualState(
        problem,
        fixed,
        cache,
        fractional,
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
