"""Calls of compiled oracles and compiled message passing from Python, as the kernels of trainers make them.

The signatures are those of :mod:`ssvm_dsl.kernels.oracles.signatures`.
"""

from __future__ import annotations

from typing import Any

from ssvm_dsl.kernels.compiling.jit import njit


@njit
def call_oracle(
    function: Any, ints: Any, longs: Any, example: int, pool: Any, node: Any, labels: Any, work: Any
) -> float:
    """Call a compiled oracle (:class:`~ssvm_dsl.plugin_api.CompiledOracle`).

    Parameters
    ----------
    function : numba cfunc
    ints, longs : ndarray of int32 and of int64
        What it reads besides scores.
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
    function: Any, ints: Any, longs: Any, reals: Any, example: int, pool: Any, node: Any, passes: int, messages: Any,
    choices: Any, work: Any,
) -> float:  # fmt: skip
    """Call compiled message passing (:class:`~ssvm_dsl.plugin_api.CompiledMessages`).

    Parameters
    ----------
    function : numba cfunc
    ints, longs, reals : ndarray of int32, of int64 and of float64
        What it reads besides scores.
    example : int
    pool, node : ndarray of float64
        Scores, as in :class:`~ssvm_dsl.ir.Theta`; read only.
    passes : int
        How often to go through all messages.
    messages : ndarray of float64
        Those of the example; improved in place.
    choices : ndarray of int32
        Written: the states and joint states where the bound is attained.
    work : ndarray of float64
        Its work space.
    """
    return function(ints, longs, reals, example, pool, node, passes, messages, choices, work)
