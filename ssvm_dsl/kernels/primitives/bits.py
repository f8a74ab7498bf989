"""Bits of words in compiled kernels: how many are set, and which is the first.  They are functions of Python, too."""

from __future__ import annotations

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
