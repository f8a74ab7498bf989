"""One pass of single-example subgradient steps inside a compiled kernel.

The weights are ``s u`` with one number s, so that the shrinking of a step costs one multiplication, not one for
each weight.  The sum of the iterates, each times its share, is ``c u - v`` with two running quantities: c, the
sum of share times s so far, and v, which takes c times each change of u.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, fixed_tables, slices
from ssvm_dsl.kernels import FlatMaps, borrow, fill_tables, njit, score_example, tables_score
from ssvm_dsl.plugin_api import CompiledOracle, TrainProblem
from ssvm_trainers.shared.arrays import Fixed, Parts, Work
from ssvm_trainers.shared.certify import count_calls
from ssvm_trainers.shared.chunks import chunks, visit_cost
from ssvm_trainers.shared.products import collect_parts, labels_score, move_parts, worse
from ssvm_trainers.shared.spaces import fixed_arrays, map_scales, parts_space, work_space

#: A scale below this is multiplied into the weights again.
SMALL = 1e-9


def applies(problem: TrainProblem) -> bool:
    """Whether the kernel covers a problem: one scale for all weights, and no bounds (a step ends with projecting)."""
    scale = problem.objective.scale
    return bool((scale == scale[:1]).all() and not np.isfinite(problem.objective.lower).any())


def compiled_pass(
    problem: TrainProblem, oracle: CompiledOracle, order: I64, w: F64, lengths: F64, shares: F64,
    add_to_average: Callable[[F64, float], None] | None,
) -> tuple[F64, float]:  # fmt: skip
    """Step through the examples in order, calling the compiled oracle for each at the newest weights.

    Parameters
    ----------
    problem : TrainProblem
    oracle : CompiledOracle
    order : ndarray of int64, shape (n,)
    w : ndarray of float64, shape (dim,)
        Changed in place.
    lengths, shares : ndarray of float64, shape (n,)
        Length of each step, and its share in the average.
    add_to_average : callable, optional
        Takes the sum of the iterates, each times its share, and the sum of the shares, whatever ends the pass.

    Returns
    -------
    plane, offset : ndarray of float64, shape (dim,), and float
        The aggregated plane of the pass.
    """
    averaging = add_to_average is not None
    theta = problem.scores(w, np.zeros(0, np.int64))  # work space for the scores of one example after the other
    v, plane, state, done = np.zeros(problem.dim), np.zeros(problem.dim), np.array([1.0, 0.0, 0.0]), 0
    fixed = fixed_arrays(problem, fixed_tables(problem.parameters, problem.loss))
    work, parts = work_space(problem, 1), parts_space(problem, 1)
    oracle_work, shrink = np.empty(oracle.work_size), problem.objective.lam * float(map_scales(problem)[:1].sum())
    try:
        for chunk in chunks(problem, order, visit_cost(problem)):
            begin, here = problem.seconds(), slice(done, done + len(chunk))
            off = subgradient_steps(
                oracle.function, oracle.ints, oracle.longs, oracle_work, theta.node, theta.pool,
                problem.parameters.flat, fixed, work, parts, chunk, problem.objective.weight, lengths[here],
                shares[here], shrink, w, v, plane, state, averaging,
            )  # fmt: skip
            count_calls(problem, len(chunk), begin, off, w, np.sort(chunk), scale=float(state[0]))
            done += len(chunk)
    finally:  # the weights are whole again, whatever ended the pass
        if add_to_average is not None:
            for part in slices(problem.dim):
                v[part] = state[1] * w[part] - v[part]
            add_to_average(v, float(shares[:done].sum()))
        w *= state[0]
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
    """Take one step for each listed example, at the weights ``w = s u``.

    With ``psi = Phi(x_i, y_i) - Phi(x_i, y)`` for the y the oracle finds, a step of length eta is, as in Pegasos
    (Shalev-Shwartz, Singer and Srebro 2007),

        w <- (1 - eta lam scale) w + eta weight_i psi ,

    taken as ``s <- (1 - eta shrink) s`` and ``u <- u + (eta weight_i / s) psi``.  The sum of the iterates, each times
    its share, is ``c u - v`` (see the module): a move of u by d adds ``c d`` to v, then the share times s goes to c.

    Parameters
    ----------
    oracle : compiled function
        Of the signature :data:`ssvm_dsl.kernels.oracles.signatures.SIGNATURE`.
    ints, longs : ndarray of int32 and of int64
        What the oracle reads besides scores.
    oracle_work : ndarray of float64
        Its work space.
    node : ndarray of float64, shape (S,)
    pool : ndarray of float64
        Work space for the scores that the oracle reads, as in :class:`~ssvm_dsl.ir.Theta`.
    maps, fixed : FlatMaps, Fixed
        The features, and what stays the same while training; read only.
    work, parts : Work, Parts
        Work space for caches of capacity 1.
    examples : ndarray of int64, shape (n_listed,)
    weight : ndarray of float64, shape (n,)
        Weight of each example, not divided by n; read only.
    lengths, shares : ndarray of float64, shape (n_listed,)
        Length of each step, and its share in the average.
    shrink : float
        ``lam scale``, one number for all weights.
    u : ndarray of float64, shape (dim,)
        The weights over s; changed in place.
    v : ndarray of float64, shape (dim,)
        See above; changed in place with ``averaging``, else not touched.
    plane : ndarray of float64, shape (dim,)
        ``sum_i weight_i / n psi_i`` is added: the aggregated plane of the pass.
    state : ndarray of float64, shape (3,)
        (s, c, b), changed in place; to b, ``sum_i weight_i / n loss_i`` is added.
    averaging : bool
        Whether v and c are kept.

    Returns
    -------
    float
        Largest relative difference between a score that the oracle reported and the score of its labelling; ``nan``
        where it has no answer, which ends the pass.
    """
    maps, fixed, work, parts = borrow(maps), borrow(fixed), borrow(work), borrow(parts)
    ints, longs, oracle_work, node, pool = borrow(ints), borrow(longs), borrow(oracle_work), borrow(node), borrow(pool)
    metric, scales, off = np.ones(len(maps.desc)), np.ones(len(maps.desc)), 0.0
    zero, one, tables = np.int64(0), np.int64(1), fixed.tables
    for step in range(len(examples)):
        i = examples[step]
        lo, hi = fixed.var_ptr[i], fixed.var_ptr[i + 1]
        scales[:] = state[0]
        score_example(maps, i, lo, hi, fixed.state_ptr, fixed.bonus, u, scales, work.scores, node, pool)
        fill_tables(tables, i, pool)
        score = oracle(ints, longs, i, pool, node, work.labels, oracle_work)
        first, second, last = tables.ptr[2 * i], tables.ptr[2 * i + 1], tables.ptr[2 * i + 2]
        priced = tables_score(tables, first, second, work.labels)
        own = priced + labels_score(maps, i, fixed.state_ptr, work.labels, lo, hi, node, pool)
        off = worse(off, score, own)
        if np.isnan(off):
            break
        state[0] *= 1.0 - lengths[step] * shrink
        fold(state, u, v)
        state[2] += fixed.share[i] * (priced + tables_score(tables, second, last, work.labels) - tables.truth[i])
        for j in range(lo, hi):
            state[2] += fixed.share[i] * fixed.node_loss[fixed.state_ptr[j] + work.labels[j - lo]]
        n_factors, n_parts = collect_parts(maps, fixed, i, work.labels, zero, one, parts)
        ones, free = work.ones, work.unbounded
        work.delta[0] = fixed.share[i]
        move_parts(maps, fixed, parts, n_factors, n_parts, one, ones, free, work.delta, plane, plane)
        work.delta[0] = lengths[step] * weight[i]
        metric[:] = 1.0 / state[0]  # the step is one of w = s u
        move_parts(maps, fixed, parts, n_factors, n_parts, one, metric, free, work.delta, u, u)
        if averaging:
            metric[:] = state[1] / state[0]  # c times what u has just moved by
            move_parts(maps, fixed, parts, n_factors, n_parts, one, metric, free, work.delta, v, v)
            state[1] += shares[step] * state[0]
    return off
