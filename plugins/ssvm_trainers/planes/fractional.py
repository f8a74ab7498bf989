"""Block-coordinate ascent for the relaxed risk: the run of ``bcfw`` when planes are fractional labellings.

Except for the planes it equals :mod:`ssvm_trainers.planes.bcfw`.  Memory is O(capacity x scores), at most about
:data:`MEMORY` bytes unless two planes of every example need more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I64, pointers, runs
from ssvm_dsl.plugin_api import Planes, TrainProblem
from ssvm_trainers.planes.cache import MOST_NUMBERS, MOST_WEIGHTS
from ssvm_trainers.planes.fractional_kernels import aggregate, cached_pass, fractional_rows, pack, plane_pass
from ssvm_trainers.planes.fractional_records import (
    Entries,
    FractionalWorkspace,
    LastVisits,
    Metric,
    NewPlanes,
    PlaneWeights,
    Store,
)
from ssvm_trainers.shared.resumable import Stateful
from ssvm_trainers.shared.spaces import bounded_maps, follow_plane, map_scales, threshold
from ssvm_trainers.shared.state_rules import COUNTS, NUMBERS, ROUNDING, SHARES, require

if TYPE_CHECKING:
    from ssvm_dsl.ir import Program
    from ssvm_dsl.kernels import FlatMaps


#: Bytes that cached planes may take.
MEMORY = 1 << 28

#: Most planes kept for an example.
MOST = 12


class SavedFractional(NamedTuple):
    """The stored planes (:class:`~ssvm_trainers.planes.fractional_records.Store`), and quantities derived from them."""

    n_planes: Annotated[I64, COUNTS]
    alpha: Annotated[F64, SHARES]
    loss: Annotated[F64, NUMBERS]
    gram: Annotated[F64, NUMBERS]
    values: Annotated[F64, NUMBERS]
    w: Annotated[F64, NUMBERS]
    free: Annotated[F64, NUMBERS]
    gap: Annotated[F64, NUMBERS]
    gain: Annotated[F64, NUMBERS]
    operations: Annotated[I64, COUNTS]


class FractionalState(Stateful):
    """Weights and fractional planes.

    Parameters
    ----------
    problem : TrainProblem
        Its planes hold marginals.
    """

    def __init__(self, problem: TrainProblem) -> None:
        self.problem, n, dim = problem, problem.n, problem.dim
        parameters, objective = problem.parameters, problem.objective
        self.maps: FlatMaps = parameters.flat
        self.group_sizes = [np.diff(g.ptr) * g.n_configs for g in parameters.program.groups]
        self.entries = lay_out(problem)
        bounded = bounded_maps(problem)
        lower = np.array([m.block.lower_bound for m in parameters.maps])
        metric, share = 1.0 / map_scales(problem), objective.weight / n
        self.fixed = Metric(metric, bounded, lower, threshold(problem), share, float(objective.lam))
        total = max(int(self.entries.ptr[-1]), 1)
        k = 1 + int(np.clip(MEMORY // (8 * total), 2, MOST))
        self.store = Store(
            np.zeros(n, np.int64), np.zeros((n, k)), np.zeros((n, k)), np.zeros((n, k, k)), np.zeros(k * total)
        )
        self.work = self._work_space(k)
        self.w = np.zeros(dim)
        self.free = np.zeros(dim) if bounded.any() else self.w
        self.gap, self.gain = np.zeros(n), np.zeros(n)

    def _work_space(self, k: int) -> FractionalWorkspace:
        parameters = self.problem.parameters
        program, n_maps = parameters.program, len(parameters.maps)
        n_pool = sum(g.n_tables * g.n_configs for g in program.groups)
        flat = np.zeros(program.n_states + n_pool)
        return FractionalWorkspace(
            flat, flat[: program.n_states], flat[program.n_states :],
            direction=np.zeros(self.problem.dim),
            delta=np.zeros(int(np.diff(self.entries.ptr).max(initial=1))),
            slope=np.zeros(k + 1),
            before=np.zeros(k + 1),
            scores=np.zeros(max((m.n_basis for m in parameters.maps), default=1)),
            nothing=np.zeros(program.n_states),
            ones=np.ones(n_maps),
            unbounded=np.zeros(n_maps, np.int8),
            counter=np.zeros(1, np.int64),
        )  # fmt: skip

    def take(self, planes: Planes) -> float:
        """Visit the examples of new planes; return the gain of the dual."""
        assert planes.marginals is not None
        ids = planes.examples
        ptr = pointers(np.diff(self.entries.ptr)[ids])
        values = pack(self.entries, ids, ptr, self.group_sizes, planes.marginals.node, list(planes.marginals.tables))
        new, visits = NewPlanes(ids, ptr, values, planes.loss), LastVisits(self.gap, self.gain)
        weights = PlaneWeights(self.w, self.free)
        gain = plane_pass(self.maps, self.entries, self.fixed, self.store, self.work, new, weights, visits)
        return float(gain)

    def cached(self, order: I64, threshold: float) -> float:
        """Visit the listed examples whose last visit gained enough, without the oracle; return the gain of the dual."""
        often, weights = order[self.gain[order] >= threshold], PlaneWeights(self.w, self.free)
        gain = cached_pass(self.maps, self.entries, self.fixed, self.store, self.work, often, weights, self.gain)
        return float(gain)

    @property
    def kept_planes(self) -> Store:
        """The planes."""
        return self.store

    def rows(self) -> F64 | None:
        """Return the kept planes, example by example, as rows; ``None`` where they are too long, or too many."""
        n_kept, dim = int(self.store.n_planes.sum()), self.problem.dim
        if dim > MOST_WEIGHTS or n_kept * dim > MOST_NUMBERS:
            return None
        out = np.zeros((n_kept, dim))
        fractional_rows(self.maps, self.entries, self.fixed, self.store, self.work, out)
        return out

    def refresh(self) -> tuple[float, tuple[F64, float]]:
        """Recompute w from the dual weights (rounding errors do not add up); return (dual value, plane)."""
        v = np.zeros(self.problem.dim)
        aggregate(self.maps, self.entries, self.fixed, self.store, self.work, v)
        b = float((self.fixed.share[:, None] * self.store.alpha * self.store.loss).sum())
        follow_plane(self.problem, v, self.w, self.free)
        return self.problem.objective.dual(v, b), (v, b)

    def packed(self) -> SavedFractional:
        """Return the arrays, not copies."""
        return SavedFractional(*self.store, self.w, self.free, self.gap, self.gain, self.work.counter)

    def unpack(self, record: SavedFractional) -> None:
        """Write to the arrays: two of them may be one."""
        for mine, saved in zip(self.packed(), record, strict=True):
            mine[...] = saved

    def check(self, state: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Refuse dual weights of missing planes, and dual weights of an example that exceed 1."""
        n_planes, alpha = state["n_planes"], state["alpha"]
        k = alpha.shape[1]
        require((n_planes < k).all(), "'n_planes'", f"at most {k - 1} planes of an example")
        require(not alpha[np.arange(k) >= n_planes[:, None]].any(), "'alpha'", "dual weights of planes that are there")
        require((alpha.sum(axis=1) <= 1 + ROUNDING).all(), "'alpha'", "dual weights that add up to at most 1")


def lay_out(problem: TrainProblem) -> Entries:
    """Return where the entries of planes belong: by example its states, then its factors' joint states."""
    program, n = problem.parameters.program, problem.n
    starts, begin = program.state_ptr[program.var_ptr], kinds_of_entries(program)
    sizes, ptr = np.diff(begin, axis=0), pointers(begin[-1])
    where = np.empty(int(ptr[-1]), dtype=np.int64)
    problem.pause()
    where[runs(ptr[:-1], sizes[0])] = np.arange(program.n_states)
    problem.pause()
    owner = np.repeat(np.arange(n), np.diff(program.var_ptr))
    of, at = [owner], [program.state_ptr[:-1] + problem.loss.truth - starts[owner]]
    offset = program.n_states
    for k, group in enumerate(program.groups):
        problem.pause()
        cells = group.table_rows().astype(np.int64)[:, None] * group.n_configs + np.arange(group.n_configs)
        problem.pause()
        where[runs(ptr[:-1] + begin[k + 1], sizes[k + 1])] = offset + cells.ravel()
        problem.pause()
        offset += group.n_tables * group.n_configs
        owner = np.repeat(np.arange(n), np.diff(group.ptr))
        number = np.arange(group.n_factors) - group.ptr[owner]
        config = problem.loss.truth[group.shapes.variables()] @ group.strides
        of.append(owner)
        at.append(begin[k + 1][owner] + number * group.n_configs + config)
    problem.pause()
    owners = np.concatenate(of)
    truth = np.concatenate(at)[np.argsort(owners, kind="stable")].astype(np.int64)
    return Entries(
        ptr, where, pointers(np.bincount(owners, minlength=n)), truth, first_entries(problem, begin),
        program.var_ptr, program.state_ptr,
    )  # fmt: skip


def kinds_of_entries(program: Program) -> I64:
    """Return where within each example the states of variables start, then each group's, then the end."""
    states = np.diff(program.state_ptr[program.var_ptr])
    sizes = [np.zeros_like(states), states, *(np.diff(g.ptr) * g.n_configs for g in program.groups)]
    return np.cumsum(sizes, axis=0, dtype=np.int64)


def first_entries(problem: TrainProblem, begin: I64) -> I64:
    """Return where the entries of each map's factors start within an example (-1: variables); ``shape (M, n)``."""
    maps, nowhere = problem.parameters.maps, np.full(problem.n, -1, dtype=np.int64)
    return np.stack([begin[m.group + 1] if m.group >= 0 else nowhere for m in maps])
