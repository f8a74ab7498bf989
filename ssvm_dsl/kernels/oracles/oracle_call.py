"""Calls of compiled oracles and compiled message passing from Python, as the kernels of trainers make them.

The signatures are those of :mod:`ssvm_dsl.kernels.oracles.signatures`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.kernels.compiling.jit import njit
from ssvm_dsl.kernels.flat import ScoreSpace


class MessageData(NamedTuple):
    """Arguments of compiled message passing other than scores.

    Parameters
    ----------
    ints, longs, reals : ndarray of int32, of int64 and of float64
    """

    ints: I32
    longs: I64
    reals: F64


@njit
def call_oracle(
    function: Any, ints: Any, longs: Any, example: int, pool: Any, node: Any, labels: Any, work: Any
) -> float:
    """Call a compiled oracle (:class:`~ssvm_dsl.plugin_api.CompiledOracle`).

    Parameters
    ----------
    function : numba cfunc
    ints, longs : ndarray of int32 and of int64
        Arguments of the oracle other than scores.
    example : int
    pool, node : ndarray of float64
        Scores, as in :class:`~ssvm_dsl.ir.Theta`; read only.
    labels : ndarray of int32
        Written: the best labelling.
    work : ndarray of float64
        Its work space.
    """
    return function(ints, longs, example, pool, node, labels, work)


@njit
def call_messages(
    function: Any, inputs: MessageData, example: int, scores: ScoreSpace, passes: int, messages: Any, choices: Any
) -> float:
    """Call compiled message passing (:class:`~ssvm_dsl.plugin_api.CompiledMessages`).

    Parameters
    ----------
    function : numba cfunc
    inputs : MessageData
    example : int
    scores : ScoreSpace
        Read only, but for the work space.
    passes : int
        How often to go through all messages.
    messages : ndarray of float64
        Those of the example; improved in place.
    choices : ndarray of int32
        Written: the states and joint states where the bound is attained.
    """
    ints, longs, reals = inputs
    return function(ints, longs, reals, example, scores.pool, scores.node, passes, messages, choices, scores.work)
