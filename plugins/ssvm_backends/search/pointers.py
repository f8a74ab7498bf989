"""``pointed``: a tuple of arrays as a tuple of bare pointers, for kernels made of many small functions.

A numba function that is not inlined gets each array as seven numbers and counts references to it on the way in
and out; with thirty arrays that costs a microsecond for each call, measured, against 50 ns of work.  Pointers are
one number each and are not counted.  They index like one-dimensional arrays (``p[i]``, ``p[i] = x``) and know no
length.  As with :func:`ssvm_dsl.kernels.intrinsics.borrow`, the caller of the kernel keeps the arrays alive.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import lower_builtin, type_callable


def pointed(value: Any) -> Any:
    """Return a named tuple with its (contiguous) arrays replaced by pointers to their data; in Python, the tuple."""
    return value


@type_callable(pointed)
def _type(context: Any) -> Any:
    def kind(value: Any) -> Any:
        members = [types.CPointer(t.dtype) if isinstance(t, types.Array) else t for t in value.types]
        return types.NamedTuple(members, value.instance_class)

    return kind


@lower_builtin(pointed, types.BaseNamedTuple)
def _lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    parts = []
    for k, kind in enumerate(signature.args[0].types):
        part = builder.extract_value(args[0], k)
        if isinstance(kind, types.Array):
            part = context.make_array(kind)(context, builder, part).data
        parts.append(part)
    return context.make_tuple(builder, signature.return_type, parts)
