"""Bits of words in compiled kernels: how many are set, which is the first, and those of numbers.

They are functions of Python, too.
"""

from __future__ import annotations

from struct import pack, unpack
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, type_callable

_WORD, _FLAG = ir.IntType(64), ir.IntType(1)


def count_bits(word: Any) -> int:
    """Return how many bits of an int64 are set."""
    return (int(word) & (1 << 64) - 1).bit_count()


def first_bit(word: Any) -> int:
    """Return the number of the lowest bit that is set in an int64 other than zero."""
    return (int(word) & -int(word)).bit_length() - 1


@type_callable(count_bits)
@type_callable(first_bit)
def _of_a_word(context: Any) -> Any:
    return lambda word: types.int64(types.int64)


@lower_builtin(count_bits, types.int64)
def _count_bits(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    function = builder.module.declare_intrinsic("llvm.ctpop", (_WORD,), ir.FunctionType(_WORD, (_WORD,)))
    return builder.call(function, args)


@lower_builtin(first_bit, types.int64)
def _first_bit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    function = builder.module.declare_intrinsic("llvm.cttz", (_WORD,), ir.FunctionType(_WORD, (_WORD, _FLAG)))
    return builder.call(function, (args[0], _FLAG(1)))


def bits_of(number: Any) -> int:
    """Return the bits of a float64 as an int64."""
    return int(unpack("=q", pack("=d", number))[0])


def number_of(bits: Any) -> float:
    """Return the float64 that has the bits of an int64."""
    return float(unpack("=d", pack("=q", bits))[0])


@type_callable(bits_of)
def _bits_type(context: Any) -> Any:
    return lambda number: types.int64(types.float64)


@type_callable(number_of)
def _number_type(context: Any) -> Any:
    return lambda bits: types.float64(types.int64)


@lower_builtin(bits_of, types.float64)
def _bits_of(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.bitcast(args[0], _WORD)


@lower_builtin(number_of, types.int64)
def _number_of(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.bitcast(args[0], ir.DoubleType())
