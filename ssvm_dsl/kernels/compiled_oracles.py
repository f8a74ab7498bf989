"""Compiled oracles: their signatures, the two arrays that they read, and how kernels call them.

A compiled oracle (:class:`~ssvm_dsl.plugin_api.CompiledOracle`) is called with one array of int32 and one of int64.
:func:`pack` puts any number of arrays into them.  Array k lies at ``longs[2 k] : longs[2 k + 1]`` of its own array:
``longs`` for int64, ``ints`` for int32.  Bytes (bool, int8) are in ``ints``, too, from ``longs[2 k]`` on;
``longs[2 k + 1]`` less this is their number, which :func:`packed_flags` and :func:`packed_bytes` know.
:func:`packed_record` makes the kernel that reads all arrays of a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numba import types
from numba.extending import lower_builtin, type_callable

from ssvm_dsl.array_types import F64, I8, I32, I64, Bools
from ssvm_dsl.kernels.compiling.jit import njit
from ssvm_dsl.kernels.flat import ScoreSpace

# -- signatures ----------------------------------------------------------------------------------------------------
#
# Of what trainers call inside their own kernels; see :class:`ssvm_dsl.plugin_api.CompiledOracle` and
# :class:`ssvm_dsl.plugin_api.CompiledMessages`.

_I32, _I64, _F64 = types.int32[::1], types.int64[::1], types.float64[::1]

#: score = function(ints, longs, example, pool, node, labels, work)
SIGNATURE = types.float64(_I32, _I64, types.int64, _F64, _F64, _I32, _F64)

#: bound = function(ints, longs, reals, example, pool, node, passes, messages, choices, work)
MESSAGE_SIGNATURE = types.float64(_I32, _I64, _F64, types.int64, _F64, _F64, types.int64, _F64, _I32, _F64)

#: bound = function(ints, longs, reals, example, pool, node, passes, messages, marginals, work)
SOFT_MESSAGE_SIGNATURE = types.float64(_I32, _I64, _F64, types.int64, _F64, _F64, types.int64, _F64, _F64, _F64)


# -- arrays of several types in two --------------------------------------------------------------------------------


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
        kind, length = flat.dtype.type, len(flat)
        if kind in (np.bool_, np.int8):
            flat = np.concatenate([flat.view(np.int8), np.zeros(-len(flat) % 4, dtype=np.int8)]).view(np.int32)
            kind = np.int32
        if kind not in at:
            raise TypeError(f"array {number} is of {flat.dtype}; int64, int32, int8 and bool can be packed")
        directory[number] = at[kind], at[kind] + length
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
    """Return a packed array of int8."""
    first, n = longs[2 * number], longs[2 * number + 1] - longs[2 * number]
    return ints[first : first + (n + 3) // 4].view(np.int8)[:n]


@njit
def packed_flags(ints: I32, longs: I64, number: int) -> Bools:
    """Return a packed array of bool."""
    first, n = longs[2 * number], longs[2 * number + 1] - longs[2 * number]
    return ints[first : first + (n + 3) // 4].view(np.bool_)[:n]


#: By letter the type of a field, that of its entries in compiled code, and what reads its array by number.
_KINDS: dict[str, tuple[Any, Any, Any]] = {
    "l": (I64, types.int64, lambda ints, longs, number: longs[longs[2 * number] : longs[2 * number + 1]]),
    "i": (I32, types.int32, packed_ints.py_func),
    "b": (I8, types.int8, packed_bytes.py_func),
    "f": (Bools, types.boolean, packed_flags.py_func),
}


def packed_record(record: type[Any], only: Sequence[str] = ()) -> Any:
    """Return a kernel ``(ints, longs, first)`` that reads a record whose packed arrays begin at number ``first``.

    Parameters
    ----------
    record : class of named tuples
        Its fields are flat arrays of int64, int32, int8 or bool, and annotated so: ``NDArray[np.int64]``.
    only : sequence of str, optional
        The fields that were packed, in this order; all others are empty.  By default all, in their own order.

    Raises
    ------
    TypeError
        A field is annotated with another type; names it.
    """
    letters = {kind: letter for letter, (kind, _, _) in _KINDS.items()}
    hints, order = get_type_hints(record), list(only or record._fields)
    if wrong := [name for name in record._fields if hints.get(name) not in letters]:
        known = ", ".join(f"NDArray[np.{kind}]" for kind in ("int64", "int32", "int8", "bool_"))
        raise TypeError(f"field '{wrong[0]}' of {record.__name__} must be annotated with one of {known}")
    fields = [(letters[hints[name]], str(order.index(name)) if name in order else "") for name in record._fields]
    layout = " ".join(map("".join, fields))

    def read(ints: I32, longs: I64, first: int) -> Any:
        return read_record(record, layout, ints, longs, first)

    read.__qualname__ = f"packed_record.{record.__qualname__}"
    return njit(read)


def read_record(record: Any, layout: str, ints: I32, longs: I64, first: int) -> Any:
    """Return a record of packed arrays; ``layout`` has a letter and, if it was packed, a number for each field."""
    fields = layout.split()
    return record(*(_KINDS[one[0]][2](ints, longs, first + int(one[1:])) if one[1:] else ints[:0] for one in fields))


@type_callable(read_record)
def _type(context: Any) -> Any:
    def kind_of(record: Any, layout: Any, ints: Any, longs: Any, first: Any) -> Any:
        if not isinstance(layout, types.StringLiteral):
            return None
        arrays = [types.Array(_KINDS[one[0]][1], 1, "C") for one in layout.literal_value.split()]
        return types.BaseTuple.from_types(arrays, record.instance_class)

    return kind_of


@lower_builtin(read_record, types.Any, types.Any, types.Array, types.Array, types.Any)
def _lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    (_, layout, *kinds), (*_, ints, longs, first), values = signature.args, args, []
    for one, array in zip(layout.literal_value.split(), signature.return_type.types, strict=True):
        if not one[1:]:
            values.append(context.get_constant_null(array))
            continue
        number = builder.add(first, context.get_constant(types.int64, int(one[1:])))
        call = array(kinds[0], kinds[1], types.int64)
        values.append(context.compile_internal(builder, _KINDS[one[0]][2], call, (ints, longs, number)))
    return context.make_tuple(builder, signature.return_type, values)


# -- calls from Python, as the kernels of trainers make them -------------------------------------------------------


class MessageData(NamedTuple):
    """Arguments of compiled message passing other than scores.

    Parameters
    ----------
    ints, longs, reals : ndarray of int32, of int64 and of float64
    """

    ints: I32
    longs: I64
    reals: F64


@njit
def call_oracle(
    function: Any, ints: Any, longs: Any, example: int, pool: Any, node: Any, labels: Any, work: Any
) -> float:
    """Call a compiled oracle (:class:`~ssvm_dsl.plugin_api.CompiledOracle`).

    Parameters
    ----------
    function : numba cfunc
    ints, longs : ndarray of int32 and of int64
        Arguments of the oracle other than scores.
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
    function: Any, inputs: MessageData, example: int, scores: ScoreSpace, passes: int, messages: Any, choices: Any
) -> float:
    """Call compiled message passing (:class:`~ssvm_dsl.plugin_api.CompiledMessages`).

    Parameters
    ----------
    function : numba cfunc
    inputs : MessageData
    example : int
    scores : ScoreSpace
        Read only, but for the work space.
    passes : int
        How often to go through all messages.
    messages : ndarray of float64
        Those of the example; improved in place.
    choices : ndarray of int32
        Written: the states and joint states where the bound is attained.
    """
    ints, longs, reals = inputs
    return function(ints, longs, reals, example, scores.pool, scores.node, passes, messages, choices, scores.work)
