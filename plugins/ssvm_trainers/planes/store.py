"""The store of block-coordinate methods: weights, and the planes that are kept of each example.

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
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, runs
from ssvm_dsl.kernels import FixedTables
from ssvm_dsl.plugin_api import Planes, TrainProblem
from ssvm_trainers.planes.bcfw_kernels import fill_vectors, make_room, visit_examples
from ssvm_trainers.planes.cache import SUMMED, Cache, DensePlanes, DualPoint, Fractional, Visits
from ssvm_trainers.shared.arrays import NO_FLOATS, NO_INTS, Work, fixed_arrays, follow_plane, work_space
from ssvm_trainers.shared.oracle_call import NO_INPUTS, OracleInputs, no_oracle
from ssvm_trainers.shared.resumable import COUNTS, NUMBERS, ROUNDING, Stateful, StateRule, require

#: Planes are kept as vectors up to this number of weights, and up to this number of entries in all (256 MiB).
MOST_WEIGHTS, MOST_NUMBERS = 256, 1 << 25

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


class DualState(Stateful):
    """Weights and planes of a block-coordinate method; at first all dual weight lies on the truths: ``w = 0``.

    Parameters
    ----------
    problem : TrainProblem
    tables : FixedTables, optional
        Scores of joint states without weights, which kernels that call an oracle read.

    Attributes
    ----------
    w, free : ndarray of float64, shape (dim,)
        The weights, and those without their lower bounds: one array where there are none.
    gap, gain : ndarray of float64, shape (n,)
        Duality gap before each example's last visit with a new plane, and gain of its last visit.
    fractional : Fractional or None
        ``None`` where planes are labellings.
    """

    def __init__(self, problem: TrainProblem, tables: FixedTables | None = None) -> None:
        n, dim, k = problem.n, problem.dim, FIRST_CAPACITY
        self.problem, self.fixed = problem, fixed_arrays(problem, tables)
        self.fractional, labels, values = None, NO_INTS, NO_FLOATS
        if not problem.relaxed:
            dense = dense_planes(problem, k)
            labels = np.zeros((k + 1) * problem.parameters.program.n_variables, np.int32)
        else:
            self.fractional = Fractional.of(problem)
            n_values = int(self.fractional.entries.ptr[-1])
            k = int(np.clip(MOST_NUMBERS // max(n * dim, 1) - 1, 2, MOST))
            dense = dense_planes(problem, k)
            if not dense.psi.size:
                k = int(np.clip(MOST_NUMBERS // max(n_values, 1), 2, MOST))
                values = np.zeros((k + 1) * n_values)
        self.cache = Cache(
            np.zeros(n, np.int32), np.zeros((n, k)), np.zeros((n, k)), np.zeros((n, k, k)), np.zeros((n, k), np.int32),
            labels, values, dense,
        )  # fmt: skip
        self.work, self.w, self.gap, self.gain = work_space(problem, k), np.zeros(dim), np.zeros(n), np.zeros(n)
        self.free = np.zeros(dim) if self.fixed.bounded.any() else self.w

    @property
    def capacity(self) -> int:
        """Planes an example can hold."""
        return self.cache.alpha.shape[1]

    def visit(
        self, visits: Visits, oracle: Any = no_oracle, inputs: OracleInputs = NO_INPUTS,
        point: DualPoint | None = None, work: Work | None = None,
    ) -> tuple[float, float]:  # fmt: skip
        """Visit examples, at the current weights or at another point, which move.

        Returns (gain of the dual, largest relative error of the scores that the oracle reported); see
        :func:`~ssvm_trainers.planes.bcfw_kernels.visit_examples`.
        """
        point = DualPoint(self.w, self.free, self.gap, self.gain) if point is None else point
        gain, full, off = visit_examples(
            visits, oracle, inputs, self.fixed, self.cache, self.fractional, self.work if work is None else work, point
        )
        if full:
            self.grow()
        return float(gain), float(off)

    def refresh(self) -> tuple[float, tuple[F64, float]]:
        """Recompute w from the dual weights (rounding errors do not add up); return (dual value, plane (v, b))."""
        weight = self.fixed.share[:, None] * self.cache.alpha
        b = float((weight * self.cache.loss).sum())
        if self.cache.dense.psi.size:
            v = np.einsum("ik,ikd->d", weight, self.cache.dense.psi[:, :-1])
        else:
            v = np.zeros(self.problem.dim)
            visits = Visits(SUMMED, np.arange(self.problem.n), *self.pack(None))
            self.visit(visits, point=DualPoint(v, v, self.gap, self.gain))
        follow_plane(self.problem, v, self.w, self.free)
        return self.problem.objective.dual(v, b), (v, b)

    def pack(self, planes: Planes | None) -> tuple[I32 | F64, F64]:
        """Return new planes one after the other, as kernels read them, and their losses; nothing without any."""
        if self.fractional is not None:
            return (NO_FLOATS, NO_FLOATS) if planes is None else (self.fractional.packed(planes), planes.loss)
        return (NO_INTS, NO_FLOATS) if planes is None else (planes.labels, planes.loss)

    def gap_estimate(self) -> float:
        """Return the gap summed over all examples, each at the weights of its last visit with a new plane."""
        return float(np.dot(self.fixed.share, self.gap))

    def make_room(self, oldest: int) -> None:
        """Drop planes without dual weight since before iteration ``oldest``: each example has space for one more."""
        make_room(self.fixed, self.cache, oldest)
        if self.cache.n_planes.max(initial=0) >= self.capacity:
            self.grow()

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
        if dense.psi.size and self.cache.dense.psi.size:
            dense.psi[:, : k + 1] = self.cache.dense.psi
        else:
            dense = dense_planes(self.problem, 0)
        self.cache = Cache(self.cache.n_planes, wide[0], wide[1], gram, wide[2], labels, NO_FLOATS, dense)
        self.work = work_space(self.problem, 2 * k, self.work)

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
                fill_vectors(self.fixed, self.cache, self.work)
        self.work.counter[0] = record.operations


def dense_planes(problem: TrainProblem, k: int) -> DensePlanes:
    """Return space for k planes of each example as vectors, if these are short enough, or there are few examples."""
    n, dim, objective = problem.n, problem.dim, problem.objective
    factors = sum(fmap.n_factors for fmap in problem.parameters.maps)
    if not k or dim > max(MOST_WEIGHTS, WORTH_FACTORS * factors // max(n, 1)) or n * (k + 1) * dim > MOST_NUMBERS:
        return DensePlanes(np.zeros((n, 1, 0)), NO_FLOATS, NO_FLOATS)
    return DensePlanes(np.zeros((n, k + 1, dim)), 1.0 / objective.scale, np.array(objective.lower))
