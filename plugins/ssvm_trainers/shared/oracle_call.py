"""Calls of compiled oracles within the kernels of trainers: scores, the call, and the check of the reported score.

The scores of one example are written, the oracle finds the best labelling, and its score is compared with that of the
labelling.  Tables without weights are written in advance, and subtracted afterwards.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import (
    SIGNATURE,
    FixedTables,
    ScoreSpace,
    StateScores,
    cfunc,
    fill_tables,
    njit,
    score_example,
    tables_score,
)
from ssvm_dsl.plugin_api import CompiledOracle, TrainProblem
from ssvm_trainers.shared.arrays import NO_FLOATS, NO_INTS, NO_LONGS, Fixed, Work, basis_space
from ssvm_trainers.shared.products import labels_score, larger_error


class OracleInputs(NamedTuple):
    """The input of a compiled oracle, and space for scores.

    The oracle itself is a separate argument: numba would look up the types of a record that holds a function again for
    each call.

    Parameters
    ----------
    ints, longs : ndarray of int32 and of int64
        Its input other than scores.
    work : ndarray of float64
        Its work space.
    scores : ScoreSpace
        The scores of one example after the other.
    """

    ints: I32
    longs: I64
    work: F64
    scores: ScoreSpace


@cfunc(SIGNATURE)
def no_oracle(ints: I32, longs: I64, example: int, pool: F64, node: F64, labels: I32, work: F64) -> float:
    """Replace a compiled oracle where planes are given: it is passed to the kernel and never called.

    Parameters
    ----------
    ints, longs, example, pool, node, labels, work
        Those of :data:`ssvm_dsl.kernels.SIGNATURE`; not used.

    Returns
    -------
    float
        ``nan``.
    """
    return np.nan


#: Placeholder where no oracle is called.
NO_INPUTS = OracleInputs(NO_INTS, NO_LONGS, NO_FLOATS, ScoreSpace(NO_FLOATS, NO_FLOATS, NO_FLOATS))


def oracle_inputs(problem: TrainProblem, oracle: CompiledOracle, w: F64) -> OracleInputs:
    """Return the arguments of kernels for a compiled oracle; tables that no weight fills are there."""
    theta = problem.scores(w, np.zeros(0, np.int64))
    scores = ScoreSpace(theta.node, theta.pool, basis_space(problem))
    return OracleInputs(oracle.ints, oracle.longs, np.empty(oracle.work_size), scores)


@njit(cache=True, nogil=True, borrowed=True)
def ask(
    oracle: Any, inputs: OracleInputs, fixed: Fixed, work: Work, i: int, w: F64, scales: F64, off: float
) -> tuple[float, float]:
    """Write the best labelling of example i at weights w to ``work.labels``; return (its score, off).

    The loss is added where ``fixed.bonus`` has it.

    Parameters
    ----------
    oracle : compiled function
        Of the signature :data:`ssvm_dsl.kernels.SIGNATURE`.
    inputs : OracleInputs
        Its scores are written.
    fixed : Fixed
        Read only.
    work : Work
        ``labels`` is written.
    i : int
        The example.
    w, scales : ndarray of float64, shape (dim,) and (M,)
        The weights of map m are ``scales[m]`` times those in w; read only.
    off : float
        The largest relative difference so far between a reported score and the one of its labelling.  The returned
        value is nan where the oracle has no answer.
    """
    states, scores = StateScores(fixed.var_ptr, fixed.state_ptr, fixed.bonus), inputs.scores
    score_example(fixed.maps, states, i, w, scales, scores)
    fill_tables(fixed.tables, i, scores.pool)
    score = oracle(inputs.ints, inputs.longs, i, scores.pool, scores.node, work.labels, inputs.work)
    own = table_prices(fixed.tables, i, work.labels) + labels_score(fixed, scores, i, work.labels)
    return own, larger_error(off, score, own)


@njit(cache=True, nogil=True, borrowed=True)
def table_prices(tables: FixedTables, i: int, labels: I32) -> float:
    """Return the score of a labelling of example i in tables without weights."""
    return tables_score(tables, tables.ptr[2 * i], tables.ptr[2 * i + 1], labels)


@njit(cache=True, nogil=True, borrowed=True)
def labelling_loss(fixed: Fixed, i: int, labels: I32) -> float:
    """Return the loss of a labelling of example i, the states of its variables."""
    tables, lo = fixed.tables, fixed.var_ptr[i]
    loss = tables_score(tables, tables.ptr[2 * i], tables.ptr[2 * i + 2], labels) - tables.truth[i]
    for v in range(fixed.var_ptr[i + 1] - lo):
        loss += fixed.node_loss[fixed.state_ptr[lo + v] + labels[v]]
    return loss
