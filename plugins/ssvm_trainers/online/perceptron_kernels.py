"""One pass of perceptron or passive-aggressive updates inside a compiled kernel.

Measured beside CRFsuite (python-crfsuite 0.9.12) on 6173 words of the OCR letters, one thread: a pass of ``perceptron``
takes 75 ms and one of ``pa-i`` 121 ms; averaged perceptron and passive-aggressive of CRFsuite 269 and 284 ms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, fixed_tables
from ssvm_dsl.kernels import FlatMaps, borrow, fill_tables, njit, score_example, tables_score
from ssvm_dsl.plugin_api import CompiledOracle, TrainProblem
from ssvm_trainers.shared.arrays import Fixed, Parts, Work
from ssvm_trainers.shared.certify import count_calls
from ssvm_trainers.shared.chunks import chunks, visit_cost
from ssvm_trainers.shared.products import clear_parts, collect_parts, labels_score, move_parts, part_dots, worse
from ssvm_trainers.shared.spaces import fixed_arrays, parts_space, work_space

#: Numbers of the updates in the kernel.
UPDATES = {"perceptron": 0, "pa": 1, "pa-i": 2, "pa-ii": 3}


def compiled_pass(
    problem: TrainProblem, oracle: CompiledOracle, order: I64, w: F64, moved: F64, t: int, update: str,
    predicted: bool, limit: F64,
) -> int:  # fmt: skip
    """Visit the examples in order, each with the newest weights; return how many changed them.

    Parameters
    ----------
    problem : TrainProblem
    oracle : CompiledOracle
    order : ndarray of int64, shape (n,)
    w, moved, t, predicted, limit
        As for :func:`online_steps`.
    update : str
        A name in :data:`UPDATES`.
    """
    theta = problem.scores(w, np.zeros(0, np.int64))  # work space for the scores of one example after the other
    fixed = fixed_arrays(problem, fixed_tables(problem.parameters, problem.loss, predicted))
    work, parts = work_space(problem, 1), parts_space(problem, 1)
    if predicted:
        given = 0.0 if problem.loss.given is None else problem.loss.given
        bonus = np.where(fixed.bonus > -np.inf, given, -np.inf)
        fixed = fixed._replace(bonus=bonus, node_loss=fixed.node_loss - given)
    oracle_work, total = np.empty(oracle.work_size), 0
    for chunk in chunks(problem, order, visit_cost(problem)):
        begin = problem.seconds()
        changes, off = online_steps(
            oracle.function, oracle.ints, oracle.longs, oracle_work, theta.node, theta.pool, problem.parameters.flat,
            fixed, work, parts, chunk, problem.objective.weight, limit, UPDATES[update], predicted,
            t, w, moved,
        )  # fmt: skip
        count_calls(problem, len(chunk), begin, off, w, np.sort(chunk), predicted)
        t, total = t + len(chunk), total + int(changes)
    return total


@njit(cache=True, nogil=True)
def online_steps(
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
    limit: F64,
    update: int,
    predicted: bool,
    t: int,
    w: F64,
    moved: F64,
) -> tuple[int, float]:
    """Update w with each listed example, and ``moved`` with each change times the number of examples before it.

    With ``psi = Phi(x_i, y_i) - Phi(x_i, y)`` for the y the oracle finds and ``risk = loss(y_i, y) - w . psi``, it is
    ``w <- w + tau psi``, where tau is the weight of the example for ``perceptron``, and otherwise (Crammer et al. 2006)

        pa : risk / |psi|^2      pa-i : min(limit, risk / |psi|^2)      pa-ii : risk / (|psi|^2 + 1 / (2 limit)) .

    The average of the weights over the first T examples is ``w - moved / T``.

    Parameters
    ----------
    oracle, ints, longs, oracle_work, node, pool
        As for :func:`ssvm_trainers.online.subgradient_kernels.subgradient_steps`.
    maps, fixed : FlatMaps, Fixed
        Read only.  ``fixed.bonus`` is what the oracle sees besides the scores: the loss, or zeros with ``predicted``
        (-inf in either where masks rule a state out).
    work, parts : Work, Parts
        Work space for caches of capacity 1.
    examples : ndarray of int64, shape (n_listed,)
    weight, limit : ndarray of float64, shape (n,)
        Weight of each example, and its C, the bound of tau; read only.
    update : int
        The number in :data:`UPDATES`.
    predicted : bool
        Whether the oracle predicts, so that the loss has to be added to find the risk.
    t : int
        Examples met before the first listed one.
    w, moved : ndarray of float64, shape (dim,)
        Changed in place, at the features of what is wrong only.

    Returns
    -------
    changes : int
        How many examples changed the weights.
    off : float
        Largest relative difference between a score that the oracle reported and the score of its labelling; ``nan``
        where it has no answer, which ends the pass.
    """
    maps, fixed, work, parts = borrow(maps), borrow(fixed), borrow(work), borrow(parts)
    ints, longs, oracle_work, node, pool = borrow(ints), borrow(longs), borrow(oracle_work), borrow(node), borrow(pool)
    changes, off = 0, 0.0
    ones, free, zero, one, tables = work.ones, work.unbounded, np.int64(0), np.int64(1), fixed.tables
    for number in range(len(examples)):
        i = examples[number]
        lo, hi = fixed.var_ptr[i], fixed.var_ptr[i + 1]
        score_example(maps, i, lo, hi, fixed.state_ptr, fixed.bonus, w, work.ones, work.scores, node, pool)
        fill_tables(tables, i, pool)
        score = oracle(ints, longs, i, pool, node, work.labels, oracle_work)
        first, second, last = tables.ptr[2 * i], tables.ptr[2 * i + 1], tables.ptr[2 * i + 2]
        own = labels_score(maps, i, fixed.state_ptr, work.labels, lo, hi, node, pool)
        own += tables_score(tables, first, second, work.labels)
        off = worse(off, score, own)
        if np.isnan(off):
            break
        same = True
        for v in range(lo, hi):
            same &= work.labels[v - lo] == fixed.truth[v]
        if same or weight[i] == 0.0:
            continue
        n_factors, n_parts = collect_parts(maps, fixed, i, work.labels, zero, one, parts)
        tau = weight[i]
        if update > 0:
            direction, work.delta[0] = work.direction, 1.0
            move_parts(maps, fixed, parts, n_factors, n_parts, one, ones, free, work.delta, direction, direction)
            part_dots(maps, parts, n_factors, n_parts, one, direction, work.slope)
            clear_parts(maps, parts, n_factors, one, zero, direction)  # zeros again, for the next example
            square = work.slope[0]
            if square <= 0.0:  # another labelling with the same features: there is nothing to move along
                continue
            truth = fixed.truth[lo:hi]
            risk = own - labels_score(maps, i, fixed.state_ptr, truth, lo, hi, node, pool)
            risk -= tables_score(tables, first, second, truth)
            if predicted:  # scores are without the loss, which is nothing at the truth
                risk += tables_score(tables, second, last, work.labels)
            for v in range(lo, hi if predicted else lo):
                first = fixed.state_ptr[v]
                risk += fixed.node_loss[first + work.labels[v - lo]] - fixed.node_loss[first + fixed.truth[v]]
            risk = max(risk, 0.0)
            tau = risk / (square + 0.5 / limit[i]) if update == 3 else risk / square
            tau = min(tau, limit[i]) if update == 2 else tau
        work.delta[0] = tau
        move_parts(maps, fixed, parts, n_factors, n_parts, one, ones, free, work.delta, w, w)
        work.delta[0] = tau * (t + number)
        move_parts(maps, fixed, parts, n_factors, n_parts, one, ones, free, work.delta, moved, moved)
        changes += tau > 0.0
    return changes, off
