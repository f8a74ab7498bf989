"""One pass of single-example subgradient steps inside a compiled kernel.

The weights are ``s u`` with one number s, so that the shrinking of a step costs one multiplication, not one for
each weight.  The sum of the iterates, each times its share, is ``c u - v`` with two running quantities: c, the
sum of share times s so far, and v, which takes c times each change of u.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ssvm_dsl.ir.borrow import borrow
from ssvm_dsl.ir.flat import FlatMaps
from ssvm_dsl.ir.kernels import score_example
from ssvm_dsl.ir.stretches import stretches
from ssvm_dsl.plugin_api import CompiledOracle, TrainProblem
from ssvm_trainers._certify import count_calls
from ssvm_trainers._pieces import pieces, visit_cost
from ssvm_trainers._plane_arrays import Fixed, Parts, Work
from ssvm_trainers._plane_products import collect_parts, labels_score, move_parts
from ssvm_trainers._planes import fixed_arrays, map_scales, parts_space, work_space

if TYPE_CHECKING:
    from ssvm_trainers.subgradient import Descent

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

#: A scale below this is multiplied into the weights again.
SMALL = 1e-9


def applies(problem: TrainProblem) -> bool:
    """Whether the kernel covers a problem: one scale for all weights, and no bounds (a step ends with projecting)."""
    scale = problem.objective.scale
    return bool((scale == scale[:1]).all() and not np.isfinite(problem.objective.lower).any())


def compiled_pass(descent: Descent, problem: TrainProblem, oracle: CompiledOracle, order: I64) -> tuple[F64, float]:
    """Step through the examples in order, calling the compiled oracle for each at the newest weights.

    Returns the aggregated plane of the pass.
    """
    averaging = descent.options.averaging != "none"
    theta = problem.scores(descent.w, np.zeros(0, np.int64))  # room for the scores of one example after the other
    lengths, shares = descent.next_steps(len(order), problem)
    v, plane, state, done = np.zeros(problem.dim), np.zeros(problem.dim), np.array([1.0, 0.0, 0.0]), 0
    fixed, work, parts = fixed_arrays(problem), work_space(problem, 1), parts_space(problem, 1)
    oracle_work, shrink = np.empty(oracle.work_size), problem.objective.lam * float(map_scales(problem)[:1].sum())
    try:
        for piece in pieces(problem, order, visit_cost(problem)):
            begin, here = problem.seconds(), slice(done, done + len(piece))
            off = subgradient_steps(
                oracle.function, oracle.ints, oracle.longs, oracle_work, theta.node, theta.pool,
                problem.parameters.flat, fixed, work, parts, piece, problem.objective.weight, lengths[here],
                shares[here], shrink, descent.w, v, plane, state, averaging,
            )  # fmt: skip
            count_calls(problem, len(piece), begin, off)
            done += len(piece)
    finally:  # the weights are whole again, whatever ended the pass
        if averaging:
            for part in stretches(problem.dim):
                v[part] = state[1] * descent.w[part] - v[part]
            descent.add_to_average(v, float(shares[:done].sum()))
        descent.w *= state[0]
    return plane, float(state[2])


@njit(cache=True, nogil=True)
def fold(state: F64, u: F64, v: F64) -> float:
    """Multiply a small scale ``s = state[0]`` into u, and take ``c = state[1]`` times u from v; return what s was.

    v is not touched where no average is kept (c = 0).  Returns 1 when the scale is not small.
    """
    s, c = state[0], state[1]
    if abs(s) >= SMALL:
        return 1.0
    for p in range(len(u)):
        if c != 0.0:
            v[p] -= c * u[p]
        u[p] *= s
    state[0], state[1] = 1.0, 0.0
    return float(s)


@njit(cache=True, nogil=True)
def subgradient_steps(
    oracle: Any,
    ints: I32,
    longs: I64,
    oracle_work: F64,
    node: F64,
    pool: F64,
    maps: FlatMaps,
    fixed: Fixed,
    work: Work,
    parts: Parts,
    examples: I64,
    weight: F64,
    lengths: F64,
    shares: F64,
    shrink: float,
    u: F64,
    v: F64,
    plane: F64,
    state: F64,
    averaging: bool,
) -> float:
    """Take one step for each listed example; ``state`` holds (s, c, b), ``plane`` and b the aggregated plane.

    Returns the largest relative difference between a score the oracle reported and that of its labelling.
    """
    maps, fixed, work, parts = borrow(maps), borrow(fixed), borrow(work), borrow(parts)
    ints, longs, oracle_work, node, pool = borrow(ints), borrow(longs), borrow(oracle_work), borrow(node), borrow(pool)
    metric, scales, off = np.ones(len(maps.desc)), np.ones(len(maps.desc)), 0.0
    zero, one = np.int64(0), np.int64(1)
    for step in range(len(examples)):
        i = examples[step]
        lo, hi = fixed.var_ptr[i], fixed.var_ptr[i + 1]
        scales[:] = state[0]
        score_example(maps, i, lo, hi, fixed.state_ptr, fixed.bonus, u, scales, work.scores, node, pool)
        score = oracle(ints, longs, i, pool, node, work.labels, oracle_work)
        own = labels_score(maps, i, fixed.state_ptr, work.labels, lo, hi, node, pool)
        off = max(off, abs(score - own) / (1.0 + abs(own)))
        state[0] *= 1.0 - lengths[step] * shrink
        fold(state, u, v)
        for j in range(lo, hi):
            state[2] += fixed.share[i] * fixed.node_loss[fixed.state_ptr[j] + work.labels[j - lo]]
        n_factors, n_parts = collect_parts(maps, fixed, i, work.labels, zero, one, parts)
        ones, free = work.ones, work.unbounded
        work.delta[0] = fixed.share[i]
        move_parts(maps, fixed, parts, n_factors, n_parts, one, ones, free, work.delta, plane, plane)
        work.delta[0] = lengths[step] * weight[i]
        metric[:] = 1.0 / state[0]
        move_parts(maps, fixed, parts, n_factors, n_parts, one, metric, free, work.delta, u, u)
        if averaging:
            metric[:] = state[1] / state[0]
            move_parts(maps, fixed, parts, n_factors, n_parts, one, metric, free, work.delta, v, v)
            state[1] += shares[step] * state[0]
    return off
