"""What backends offer to trainers that stay inside one compiled kernel: functions, and the structure they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ssvm_dsl.array_types import F64, I32, I64


@dataclass(frozen=True, eq=False)
class CompiledOracle:
    """An oracle that trainers call inside their own compiled kernels, one example at a time.

    What a :class:`CompiledSession` returns; a ``numba.cfunc`` of the signature
    :data:`ssvm_dsl.kernels.SIGNATURE`::

        score = function(ints, longs, example, pool, node, labels, work)

    that writes the best labelling of one example to ``labels`` and returns its score (without the constant): ``-inf``
    where there is none, ``nan`` where it has no answer at these scores; then ``solve`` is asked, which says why.
    ``pool`` and ``node`` are those of a :class:`~ssvm_dsl.ir.Theta`, with ``-inf`` at states masks rule out.
    It may allocate arrays.  :func:`ssvm_dsl.kernels.pack` puts arrays of several types into ``ints`` and
    ``longs``.

    Parameters
    ----------
    function : numba cfunc
    ints : ndarray of int32
        Whatever structure the function needs.
    longs : ndarray of int64
        Likewise.
    work_size : int
        Floats of work space it needs.
    operations : float
        Multiply-adds, or what takes as long, of an average call, besides reading each score once.  Trainers decide by
        it how often to call, and when to read the clock.
    finite : bool
        Whether it takes finite scores only: it is not called where states or joint states are ruled out.
    """

    function: Any
    ints: I32
    longs: I64
    work_size: int
    operations: float = 0.0
    finite: bool = False


@dataclass(frozen=True, eq=False)
class CompiledMessages:
    """Message passing that trainers call inside their own compiled kernels, one example at a time.

    What a :class:`MessageSession` may return; without it trainers call ``solve`` and ``slope``.  It is a
    ``numba.cfunc`` of the signature :data:`ssvm_dsl.kernels.MESSAGE_SIGNATURE`::

        bound = function(ints, longs, reals, example, pool, node, passes, messages, choices, work)

    that improves the messages of one example in place, some passes over all of them, and returns the dual bound they
    give (without the constant).  It writes where the bound is attained to ``choices``: the state of each variable,
    then the joint state of each factor, one group of the program after the other.  ``pool`` and ``node`` are those of
    a :class:`~ssvm_dsl.ir.Theta` and finite.

    With ``soft`` the maxima of the bound are soft.  The function then has the signature
    :data:`ssvm_dsl.kernels.SOFT_MESSAGE_SIGNATURE` and writes the gradient of the bound in the
    scores in place of choices: numbers that sum to one for the states of each variable, then for the joint states of
    each factor.

    Parameters
    ----------
    function : numba cfunc
    ints : ndarray of int32
        Whatever structure the function needs.
    longs : ndarray of int64
        Likewise.
    reals : ndarray of float64
        Likewise.
    message_ptr : ndarray of int64, shape (B + 1,)
        Where the messages of each example start when all lie one after the other; zeros are a start.
    work_size : int
        Floats of work space it needs.
    soft : bool
        Whether maxima are soft.
    """

    function: Any
    ints: I32
    longs: I64
    reals: F64
    message_ptr: I64
    work_size: int
    soft: bool = False
