"""``prefetch``: ask for memory before it is needed, for kernels that jump from one example to another.

Where examples are visited in random order, each of their arrays costs a wait for main memory, which processors cannot
foresee.  The address of the next example's is known long before.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, type_callable


def prefetch(array: Any, index: Any) -> None:
    """Begin to load the cache line of entry ``index`` of an array's memory; nothing is read, no index is wrong."""


@type_callable(prefetch)
def _type(context: Any) -> Any:
    return lambda array, index: types.void(array, types.intp)


@lower_builtin(prefetch, types.Array, types.intp)
def _lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    address = builder.bitcast(builder.gep(data, [args[1]]), pointer)
    kind = ir.FunctionType(ir.VoidType(), (pointer, number, number, number))
    function = builder.module.declare_intrinsic("llvm.prefetch", (pointer,), kind)
    builder.call(function, (address, number(0), number(3), number(1)))  # to read, into all levels, data
    return context.get_dummy_value()
