"""The arrays of a problem that kernels of trainers read, and their work space."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I8
from ssvm_dsl.kernels import FixedTables
from ssvm_dsl.plugin_api import TrainProblem
from ssvm_trainers.shared.arrays import Fixed, Parts, Work, no_tables


def fixed_arrays(problem: TrainProblem, tables: FixedTables | None = None) -> Fixed:
    """Return the constant arrays of training; without tables, joint states have scores by weights only."""
    parameters, objective = problem.parameters, problem.objective
    program = parameters.program
    return Fixed(
        maps=parameters.flat,
        var_ptr=program.var_ptr,
        state_ptr=program.state_ptr,
        truth=problem.loss.truth,
        metric=1.0 / map_scales(problem),
        bounded=bounded_maps(problem),
        lower=np.array([m.block.lower_bound for m in parameters.maps]),
        threshold=threshold(problem),
        share=objective.weight / problem.n,
        lam=float(objective.lam),
        node_loss=problem.loss.node,
        bonus=problem.loss.node if program.allowed is None else np.where(program.allowed, problem.loss.node, -np.inf),
        tables=no_tables(problem.n) if tables is None else tables,
    )


def map_scales(problem: TrainProblem) -> F64:
    """Return the relative regularisation of each map's weights; ``shape (M,)``."""
    scale = problem.objective.scale
    return np.array([scale[m.block.offset] if m.block.size else 1.0 for m in problem.parameters.maps])


def bounded_maps(problem: TrainProblem) -> I8:
    """Return which maps move free weights, ``shape (M,)``: all, where any has a lower bound, or an L1 penalty; or none.

    Free weights are averaged, so that they are kept for all maps or for none.
    """
    objective = problem.objective
    any_bounded = objective.l1 > 0.0 or bool((objective.lower > -np.inf).any())
    return np.full(len(problem.parameters.maps), any_bounded, dtype=np.int8)


def threshold(problem: TrainProblem) -> float:
    """Return ``l1 / lam``, how far the L1 penalty moves weights towards 0; 0 without one, or where weights are free."""
    objective = problem.objective
    return float(objective.l1 / objective.lam) if objective.l1 and objective.lam else 0.0


def follow_plane(problem: TrainProblem, v: F64, w: F64, free: F64) -> None:
    """Write the weights of the sum ``v`` of the dual, and the free ones, unless they are the same array."""
    objective = problem.objective
    w[:] = objective.weights(v)
    if free is not w:
        free[:] = v / (objective.lam * objective.scale)


def work_space(problem: TrainProblem, k: int, before: Work | None = None) -> Work:
    """Return work space for caches of capacity k, with that for the parts of k + 1 labellings of any example.

    That of another capacity ``before`` leaves it the counter, and the vector of all weights.
    """
    maps, factors = problem.parameters.maps, np.zeros(problem.n, np.int64)
    for fmap in maps:
        factors += fmap.shapes.counts
    most = int(factors.max(initial=1))
    longest = int(np.diff(problem.parameters.program.var_ptr).max(initial=1))
    return Work(
        slope=np.zeros(k + 1),
        delta=np.zeros(k + 1),
        counter=np.zeros(1, np.int64) if before is None else before.counter,
        labels=np.zeros(longest, np.int32),
        loss=np.zeros(1),
        unit=np.zeros(k + 1),
        unbounded=np.zeros(len(maps), np.int8),
        ones=np.ones(len(maps)),
        metric=np.ones(len(maps)),
        scales=np.ones(len(maps)),
        direction=np.zeros(problem.dim) if before is None else before.direction,
        parts=Parts(
            map=np.zeros(most * (k + 2), np.int32),
            factor=np.zeros(most * (k + 2), np.int32),
            config=np.zeros(most * (k + 2), np.int32),
            number=np.zeros(most * (k + 2)),
            first=np.zeros(most, np.int32),
            which=np.zeros(most * (k + 1), np.int32),
            joint=np.zeros(k + 1, np.int32),
            example=np.zeros(1, np.int64),
        ),
    )


def basis_space(problem: TrainProblem) -> F64:
    """Return work space of the scoring kernel."""
    return np.zeros(max((m.n_basis for m in problem.parameters.maps), default=1))
