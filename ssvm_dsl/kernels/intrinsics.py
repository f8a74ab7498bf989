"""What compiled kernels can do beyond numba's Python: borrow arrays, load memory ahead of its use, count bits.

All are functions of Python, too: there ``borrow`` returns its argument, and ``prefetch`` does nothing.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable

# -- borrow -------------------------------------------------------------------------------------------------------
#
# ``borrow``: arrays without reference counts.  Numba counts references to arrays with atomic operations whenever one is
# sliced, unpacked from a tuple or passed on, which costs more than the arithmetic of small factors (measured: 50 ns
# against 4 ns for one table look-up).  A borrowed array is the same memory without an owner, so counting it is free.
# It is safe inside a kernel because the caller holds the arrays until the kernel returns; a borrowed array must never
# be returned.  What a kernel made itself must not be borrowed within it: it is freed where its own name is used for the
# last time.


def borrow(value: Any) -> Any:
    """Return an array (or a tuple of arrays, numbers and such tuples) without its owner."""
    return value


@type_callable(borrow)
def _type_of_borrow(context: Any) -> Any:
    return lambda value: value


@lower_builtin(borrow, types.Any)
def _lower_borrow(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _borrowed(context, builder, signature.args[0], args[0])


def _disown(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return an array value with its owner set to null."""
    array = context.make_array(kind)(context, builder, value)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    return array._getvalue()


def _borrowed(context: Any, builder: Any, kind: Any, whole: Any) -> Any:
    """Return a value whose arrays have no owners."""
    if isinstance(kind, types.Array):
        return _disown(context, builder, kind, whole)
    for k, part in enumerate(getattr(kind, "types", ())):
        member = _borrowed(context, builder, part, builder.extract_value(whole, k))
        whole = builder.insert_value(whole, member, k)
    return whole


# -- prefetch ------------------------------------------------------------------------------------------------------
#
# ``prefetch``: ask for memory before it is needed, for kernels that jump from one example to another.
#
# Where examples are visited in random order, each of their arrays costs a wait for main memory, which processors cannot
# foresee.  The address of the next example's is known long before.


def prefetch(array: Any, index: Any) -> None:
    """Begin to load the cache line of entry ``index`` of an array's memory; nothing is read, no index is wrong."""


@type_callable(prefetch)
def _type_of_prefetch(context: Any) -> Any:
    return lambda array, index: types.void(array, types.intp)


@lower_builtin(prefetch, types.Array, types.intp)
def _lower_prefetch(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    address = builder.bitcast(builder.gep(data, [args[1]]), pointer)
    kind = ir.FunctionType(ir.VoidType(), (pointer, number, number, number))
    function = builder.module.declare_intrinsic("llvm.prefetch", (pointer,), kind)
    builder.call(function, (address, number(0), number(3), number(1)))  # to read, into all levels, data
    return context.get_dummy_value()


# -- bits of words -------------------------------------------------------------------------------------------------
#
# How many are set, and which is the first.

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
