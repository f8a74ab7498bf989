"""One pass of single-example subgradient steps inside a compiled kernel.

The weights are ``s u`` with one number s (:mod:`ssvm_trainers.shared.scaled_weights`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import borrow, njit
from ssvm_dsl.plugin_api import CompiledOracle, TrainProblem, fixed_tables
from ssvm_trainers.shared.arrays import Fixed, Work, fixed_arrays, map_scales, work_space
from ssvm_trainers.shared.oracle_call import OracleInputs, ask, labelling_loss, oracle_inputs
from ssvm_trainers.shared.passes import chunks, count_calls, visit_cost
from ssvm_trainers.shared.products import collect_parts, move_parts
from ssvm_trainers.shared.scaled_weights import ScaledWeights, normalise


def applies(problem: TrainProblem) -> bool:
    """Whether the kernel covers a problem: one scale for all weights, and no bounds (a step ends with projecting)."""
    scale = problem.objective.scale
    plain = not problem.objective.l1 and not np.isfinite(problem.objective.lower).any()
    return bool((scale == scale[:1]).all() and plain)


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
    plane, loss, done = np.zeros(problem.dim), np.zeros(1), 0
    weights = ScaledWeights.of(w, add_to_average is not None)
    fixed = fixed_arrays(problem, fixed_tables(problem.parameters, problem.loss))
    work, inputs = work_space(problem, 1), oracle_inputs(problem, oracle, w)
    shrink = problem.objective.lam * float(map_scales(problem)[:1].sum())
    try:
        for chunk in chunks(problem, order, visit_cost(problem)):
            begin, here = problem.seconds(), slice(done, done + len(chunk))
            steps = StepSchedule(chunk, lengths[here], shares[here], problem.objective.weight, shrink)
            off = subgradient_steps(oracle.function, inputs, fixed, work, steps, weights, plane, loss)
            count_calls(problem, len(chunk), begin, off, w, np.sort(chunk), scale=float(weights.scale[0]))
            done += len(chunk)
    finally:  # the weights are whole again, whatever ended the pass
        weights.close()
        if add_to_average is not None:
            add_to_average(weights.v, float(shares[:done].sum()))
    return plane, float(loss[0])


def compiled_gradients(
    problem: TrainProblem, oracle: CompiledOracle, w: F64
) -> Callable[[I64], tuple[F64, float]]:
    """Return a function of examples: (subgradient of their weighted risks at w, as it is by then; its offset).

    The kernel takes steps of no length, and adds up the planes that it meets.
    """
    fixed = fixed_arrays(problem, fixed_tables(problem.parameters, problem.loss))
    fixed = fixed._replace(share=np.array(problem.objective.weight, dtype=np.float64))  # sums, not means
    work, inputs, weights = work_space(problem, 1), oracle_inputs(problem, oracle, w), ScaledWeights.of(w, False)

    def gradient(examples: I64) -> tuple[F64, float]:
        problem.pause()
        begin, plane, loss = problem.seconds(), np.zeros(problem.dim), np.zeros(1)
        none = np.zeros(len(examples))
        steps = StepSchedule(examples, none, none, problem.objective.weight, 0.0)
        off = subgradient_steps(oracle.function, inputs, fixed, work, steps, weights, plane, loss)
        count_calls(problem, len(examples), begin, off, w, examples)
        return np.negative(plane, out=plane), float(loss[0])

    return gradient


class StepSchedule(NamedTuple):
    """The steps of a pass; read only.

    Parameters
    ----------
    examples : ndarray of int64, shape (n_listed,)
    length, share : ndarray of float64, shape (n_listed,)
        Length of each step, and the share in the average of the iterate after it.
    weight : ndarray of float64, shape (n,)
        Weight of each example, not divided by n.
    shrink : float
        ``lam scale``, one number for all weights.
    """

    examples: I64
    length: F64
    share: F64
    weight: F64
    shrink: float


@njit(cache=True, nogil=True, borrowed=True)
def subgradient_steps(
    oracle: Any,
    inputs: OracleInputs,
    fixed: Fixed,
    work: Work,
    steps: StepSchedule,
    weights: ScaledWeights,
    plane: F64,
    loss: F64,
) -> float:
    """Take one step for each listed example, at the weights ``w = s u``.

    With ``psi = Phi(x_i, y_i) - Phi(x_i, y)`` for the y the oracle finds, a step of length eta is, as in Pegasos
    (Shalev-Shwartz, Singer and Srebro 2007),

        w <- (1 - eta lam scale) w + eta weight_i psi ,

    taken as ``s <- (1 - eta shrink) s`` and ``u <- u + (eta weight_i / s) psi``.  The sum of the iterates, each times
    its share, is ``c u - v``: a move of u by d adds ``c d`` to v, then the share times s goes to c.

    Parameters
    ----------
    oracle : compiled function
        Of the signature :data:`ssvm_dsl.kernels.SIGNATURE`.
    inputs : OracleInputs
    fixed : Fixed
        Read only.
    work : Work
        Work space for caches of capacity 1.
    steps : StepSchedule
    weights : ScaledWeights
        Changed in place.
    plane : ndarray of float64, shape (dim,)
        ``sum_i weight_i / n psi_i`` is added: the aggregated plane of the pass.
    loss : ndarray of float64, shape (1,)
        ``sum_i weight_i / n loss_i`` is added.

    Returns
    -------
    float
        Largest relative difference between a score that the oracle reported and the score of its labelling; ``nan``
        where it has no answer, which ends the pass.
    """
    inputs, fixed, work, steps, weights = borrow(inputs), borrow(fixed), borrow(work), borrow(steps), borrow(weights)
    metric, scales, off = work.metric, work.scales, 0.0
    zero, one, parts, ones, free = np.int64(0), np.int64(1), work.parts, work.ones, work.unbounded
    u, v = weights.u, weights.v
    for step in range(len(steps.examples)):
        i = steps.examples[step]
        scales[:] = weights.scale[0]
        _, off = ask(oracle, inputs, fixed, work, i, u, scales, off)
        if np.isnan(off):
            break
        weights.scale[0] *= 1.0 - steps.length[step] * steps.shrink
        normalise(weights)
        loss[0] += fixed.share[i] * labelling_loss(fixed, i, work.labels)
        collected = collect_parts(fixed, i, work.labels, zero, one, parts)
        work.delta[0] = fixed.share[i]
        move_parts(fixed, parts, collected, ones, free, work.delta, plane, plane)
        work.delta[0] = steps.length[step] * steps.weight[i]
        metric[:] = 1.0 / weights.scale[0]  # the step is one of w = s u
        move_parts(fixed, parts, collected, metric, free, work.delta, u, u)
        if len(v):
            metric[:] = weights.share[0] / weights.scale[0]  # c times what u has just moved by
            move_parts(fixed, parts, collected, metric, free, work.delta, v, v)
            weights.share[0] += steps.share[step] * weights.scale[0]
    return off
