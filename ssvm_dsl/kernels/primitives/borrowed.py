"""``borrow``: arrays without reference counts, for the inner loops of compiled kernels.

Numba counts references to arrays with atomic operations whenever one is sliced, unpacked from a tuple or passed
on, which costs more than the arithmetic of small factors (measured: 50 ns against 4 ns for one table
look-up).  A borrowed array is the same memory without an owner, so counting it is free.  It is safe inside a
kernel because the caller holds the arrays until the kernel returns; a borrowed array must never be returned.  What a
kernel made itself must not be borrowed within it: it is freed where its own name is used for the last time.

In Python it returns its argument.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable


def borrow(value: Any) -> Any:
    """Return an array (or a tuple of arrays, numbers and such tuples) without its owner."""
    return value


@type_callable(borrow)
def _type(context: Any) -> Any:
    return lambda value: value


@lower_builtin(borrow, types.Any)
def _lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
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
