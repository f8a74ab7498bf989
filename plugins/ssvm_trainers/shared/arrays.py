"""The arrays that kernels of several trainers work on: constant arrays of training, and work space."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I8, I32, I64
from ssvm_dsl.kernels import FixedTables, FlatMaps
from ssvm_dsl.plugin_api import TrainProblem

#: Multiply-adds that cost as much as a random access to memory: the numbers of a cache line.
CACHE_LINE = 8

#: Placeholder for arrays that a kernel does not read.
NO_INTS, NO_LONGS, NO_FLOATS = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64), np.zeros(0)


def no_tables(n: int) -> FixedTables:
    """Return tables of no factors of n examples."""
    none = np.zeros((0, 5), np.int64), NO_FLOATS, np.zeros((0, 2), np.int64), NO_FLOATS
    return FixedTables(np.zeros(2 * n + 1, np.int64), *none, np.zeros(n))


class Fixed(NamedTuple):
    """Arrays that stay constant during training.

    Parameters
    ----------
    maps : FlatMaps
        The features.
    var_ptr, state_ptr : ndarray of int64
    truth : ndarray of int32, shape (V,)
    metric : ndarray of float64, shape (M,)
        ``1 / scale`` of each map's weights.
    bounded : ndarray of int8, shape (M,)
        Maps whose weights have a lower bound or an L1 penalty.
    lower : ndarray of float64, shape (M,)
        Lower bound of each map's weights.
    threshold : float
        ``l1 / lam``: how far weights are moved towards 0 by the L1 penalty.
    share : ndarray of float64, shape (n,)
        ``weight_i / n``.
    lam : float
    node_loss, bonus : ndarray of float64, shape (S,)
        Loss of each state; the same with ``-inf`` where masks rule it out.
    tables : FixedTables
        Scores of joint states without weights; kernels that call no oracle do not read them.
    """

    maps: FlatMaps
    var_ptr: I64
    state_ptr: I64
    truth: I32
    metric: F64
    bounded: I8
    lower: F64
    threshold: float
    share: F64
    lam: float
    node_loss: F64
    bonus: F64
    tables: FixedTables


class Parts(NamedTuple):
    """The parts of a few labellings of one example: each factor on which one differs from the truth, in a joint state.

    Work space for one thread; K is the capacity of the cache, F the most factors of an example.  The parts of one
    factor follow each other, the truth's first.

    Parameters
    ----------
    map, factor, config : ndarray of int32, shape (F (K + 2),)
        Feature map, factor (of the example's shape) and joint state of each part.
    number : ndarray of float64, shape (F (K + 2),)
        Product of each part with some weights, or its coefficient.
    first : ndarray of int32, shape (F,)
        The truth's part of each factor.
    which : ndarray of int32, shape (F (K + 1),)
        The part each labelling has of each factor.
    joint : ndarray of int32, shape (K + 1,)
        Joint states of one factor.
    example : ndarray of int64, shape (1,)
        Whose parts they are.
    """

    map: I32
    factor: I32
    config: I32
    number: F64
    first: I32
    which: I32
    joint: I32
    example: I64


class Collected(NamedTuple):
    """Sizes of the last collection of parts.

    Parameters
    ----------
    n_factors : int
        Factors on which some labelling differs from the truth; -1 where no parts were collected.
    n_parts, n : int
        Parts, and labellings.
    """

    n_factors: int
    n_parts: int
    n: int


class Work(NamedTuple):
    """Work space of the kernels, for one thread; K is the capacity of the cache.

    Parameters
    ----------
    slope, delta : ndarray of float64, shape (K + 1,)
        Slope of each plane; how far its dual weight moves.
    counter : ndarray of int64, shape (1,)
        Operations so far, in multiply-adds.
    labels, loss : ndarray
        The candidate plane.
    unit : ndarray of float64, shape (K + 1,)
        Zero between visits.
    unbounded : ndarray of int8, shape (M,)
        Zeros.
    ones, metric, scales : ndarray of float64, shape (M,)
        Ones; the others are overwritten.
    direction : ndarray of float64, shape (dim,)
        Zero between visits.
    parts : Parts
        Parts of the planes of one example.
    """

    slope: F64
    delta: F64
    counter: I64
    labels: I32
    loss: F64
    unit: F64
    unbounded: I8
    ones: F64
    metric: F64
    scales: F64
    direction: F64
    parts: Parts


# -- The arrays of a problem that kernels of trainers read, and their work space -------------------------------------


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
