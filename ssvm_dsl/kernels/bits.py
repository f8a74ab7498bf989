"""Bits of words in compiled kernels: how many are set, and which is the first."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

_WORD, _FLAG = ir.IntType(64), ir.IntType(1)


@intrinsic
def count_bits(typingctx: Any, word: Any) -> Any:
    """Return how many bits of an int64 are set."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = builder.module.declare_intrinsic("llvm.ctpop", (_WORD,), ir.FunctionType(_WORD, (_WORD,)))
        return builder.call(function, args)

    return types.int64(types.int64), generate


@intrinsic
def first_bit(typingctx: Any, word: Any) -> Any:
    """Return the number of the lowest bit that is set in an int64 other than zero."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = builder.module.declare_intrinsic("llvm.cttz", (_WORD,), ir.FunctionType(_WORD, (_WORD, _FLAG)))
        return builder.call(function, (args[0], _FLAG(1)))

    return types.int64(types.int64), generate
