"""Constraints of a program as the two arrays of a compiled oracle, and how its kernel reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ssvm_backends.structures.literals import Literals, best_states
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import borrow, njit, pack, packed_flags, packed_longs, packed_record
from ssvm_dsl.plugin_api import CompiledOracle

if TYPE_CHECKING:
    from ssvm_backends.structures.session import StructureSession

#: Arrays that come before those of the groups, and those of each group's literals.
SHARED, OF_LITERALS = 4, len(Literals._fields)

#: How the literals of a group are read, and where the variables are, as a record of no literals.
literals_in, places_in = packed_record(Literals), packed_record(Literals, ("var_ptr", "state_ptr"))

#: Operations of a call with almost no work.
CALL = 2048.0


def structure_oracle(
    function: Callable[..., Any], session: StructureSession, records: Sequence[tuple[Any, ...]], operations: float
) -> CompiledOracle:
    """Return a compiled oracle of the constraints of a session.

    Parameters
    ----------
    function : numba cfunc
    session : StructureSession
    records : sequence of tuple of ndarray
        For each group of constraints what its kernel reads besides literals: the same arrays in all groups.
    operations : float
        Of an average call.
    """
    header = np.array([len(records)], dtype=np.int64)
    arrays: list[Any] = [header, session.free, session.places.var_ptr, session.places.state_ptr]
    for literals, record in zip(session.literals, records, strict=True):
        arrays += [*literals, *record]
    return CompiledOracle(function, *pack(*arrays), 0, operations)


class OracleCall(NamedTuple):
    """One call of a compiled oracle: one example as kernels of batches take it.

    Parameters
    ----------
    ints, longs : ndarray of int32 and of int64
        As :func:`structure_oracle` packs them.
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that are ruled out.
    ids, ptr : ndarray of int64, shape (1,)
        The example, and where its labels start.
    labels : ndarray of int32
        Written.
    feasible : ndarray of bool, shape (1,)
        Set to false where nothing satisfies a constraint.
    """

    ints: I32
    longs: I64
    node: F64
    ids: I64
    ptr: I64
    labels: I32
    feasible: Bools


@njit(inline="always")
def begin_call(ints: I32, longs: I64, example: int, node: F64, labels: I32) -> OracleCall:
    """Return the record of a call; the variables that are in no constraint have their best states already."""
    ints, longs, node, labels = borrow(ints), borrow(longs), borrow(node), borrow(labels)
    ids, ptr, feasible = np.full(1, example), np.zeros(1, np.int64), np.ones(1, dtype=np.bool_)
    best_states(places_in(ints, longs, 2), packed_flags(ints, longs, 1), node, ids, ptr, labels, feasible)
    return OracleCall(ints, longs, node, ids, ptr, labels, feasible)


@njit
def end_call(call: OracleCall) -> float:
    """Return the score of the labels, without the constant; ``-inf`` where a constraint is not satisfied."""
    total, places = 0.0, places_in(call.ints, call.longs, 2)
    lo = places.var_ptr[call.ids[0]]
    for v in range(lo, places.var_ptr[call.ids[0] + 1]):
        total += call.node[places.state_ptr[v] + call.labels[v - lo]]
    return total if call.feasible[0] else -np.inf


@njit(inline="always")
def group_arrays(longs: I64, n_arrays: int) -> range:
    """Return the number of the first array of each group of constraints, which has n arrays besides its literals."""
    size = OF_LITERALS + n_arrays
    return range(SHARED, SHARED + size * packed_longs(longs, 0)[0], size)
