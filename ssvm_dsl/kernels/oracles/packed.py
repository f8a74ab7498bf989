"""Arrays of several types in the two arrays that compiled oracles read, and how kernels find them there again.

A compiled oracle (:class:`~ssvm_dsl.plugin_api.CompiledOracle`) is called with one array of int32 and one of int64.
:func:`pack` puts any number of arrays into them.  Array k lies at ``longs[2 k] : longs[2 k + 1]`` of its own array:
``longs`` for int64, ``ints`` for int32 and for bytes (bool, int8), which :func:`packed_flags` and :func:`packed_bytes`
read.  :func:`packed_record` makes the kernel that reads all arrays of a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_type_hints

import numpy as np

from ssvm_dsl.array_types import I8, I32, I64, Bools
from ssvm_dsl.kernels.compiling.jit import njit


def pack(*arrays: Any) -> tuple[I32, I64]:
    """Return (ints, longs) with all arrays; kernels find array k by its number.

    Parameters
    ----------
    *arrays : ndarray of int64, int32, int8 or bool
        Those of more axes are read as flat ones.

    Raises
    ------
    TypeError
        An array is of another type.
    """
    directory, ints, longs = np.zeros((len(arrays), 2), dtype=np.int64), list[I32](), list[I64]()
    at = {np.int32: 0, np.int64: 2 * len(arrays)}
    for number, array in enumerate(arrays):
        flat = np.ascontiguousarray(array).ravel()
        kind = flat.dtype.type
        if kind in (np.bool_, np.int8):
            flat = np.concatenate([flat.view(np.int8), np.zeros(-len(flat) % 4, dtype=np.int8)]).view(np.int32)
            kind = np.int32
        if kind not in at:
            raise TypeError(f"array {number} is of {flat.dtype}; int64, int32, int8 and bool can be packed")
        directory[number] = at[kind], at[kind] + len(flat)
        at[kind] += len(flat)
        (longs if kind is np.int64 else ints).append(flat)
    none = np.zeros(0, dtype=np.int32)
    return np.concatenate([none, *ints]), np.concatenate([directory.ravel(), *longs])


@njit
def packed_longs(longs: I64, number: int) -> I64:
    """Return a packed array of int64."""
    return longs[longs[2 * number] : longs[2 * number + 1]]


@njit
def packed_ints(ints: I32, longs: I64, number: int) -> I32:
    """Return a packed array of int32."""
    return ints[longs[2 * number] : longs[2 * number + 1]]


@njit
def packed_bytes(ints: I32, longs: I64, number: int) -> I8:
    """Return a packed array of int8; up to three zeros follow it."""
    return ints[longs[2 * number] : longs[2 * number + 1]].view(np.int8)


@njit
def packed_flags(ints: I32, longs: I64, number: int) -> Bools:
    """Return a packed array of bool; up to three that are false follow it."""
    return ints[longs[2 * number] : longs[2 * number + 1]].view(np.bool_)


#: How a field of a record is read, and what it is where it was not packed, by its type.
_READ = {
    I64: ("packed_longs(longs, first + {})", "longs[:0]"),
    I32: ("packed_ints(ints, longs, first + {})", "ints[:0]"),
    I8: ("packed_bytes(ints, longs, first + {})", "ints[:0].view(np.int8)"),
    Bools: ("packed_flags(ints, longs, first + {})", "ints[:0].view(np.bool_)"),
}


def packed_record(record: type[Any], only: Sequence[str] = (), **columns: int | str) -> Any:
    """Return a kernel ``(ints, longs, first)`` that reads a record whose packed arrays begin at number ``first``.

    The kernel is written field by field, because numba compiles no loop over arrays of different types.

    Parameters
    ----------
    record : class of named tuples
        Its fields are arrays of int64, int32, int8 or bool.
    only : sequence of str, optional
        The fields that were packed, in this order; all others are empty.  By default all, in their own order.
    **columns : int or str
        The number of columns of fields with two axes, or the name of a field that is as long.
    """
    kinds, packed = get_type_hints(record), tuple(only) or record._fields
    read = {name: _READ[kinds[name]][name not in packed] for name in record._fields}
    read |= {name: read[name].format(number) for number, name in enumerate(packed)}
    for name, n in columns.items():
        read[name] += f".reshape((-1, {f'len({read[n]})' if isinstance(n, str) else n}))"
    name = f"{record.__name__}_in"
    text = f"def {name}(ints, longs, first):\n    return {record.__name__}({', '.join(read.values())})\n"
    known = {**globals(), "__name__": record.__module__, record.__name__: record}
    exec(compile(text, __file__, "exec"), known)
    return njit(known[name])
