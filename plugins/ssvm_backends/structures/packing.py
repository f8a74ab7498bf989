"""Constraints of a program as the two arrays of a compiled oracle, and how its kernel reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ssvm_backends.structures.literals import Batch, Literals, best_states
from ssvm_dsl.ir import F64, I32, I64
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
    batch : Batch
        The example.
    """

    ints: I32
    longs: I64
    batch: Batch


@njit(inline="always")
def begin_call(ints: I32, longs: I64, example: int, node: F64, labels: I32) -> OracleCall:
    """Return the record of a call; the variables that are in no constraint have their best states already."""
    ints, longs, node, labels = borrow(ints), borrow(longs), borrow(node), borrow(labels)
    batch = Batch(node, np.full(1, example), np.zeros(1, np.int64), labels, np.ones(1, dtype=np.bool_))
    best_states(places_in(ints, longs, 2), packed_flags(ints, longs, 1), batch)
    return OracleCall(ints, longs, batch)


@njit
def end_call(call: OracleCall) -> float:
    """Return the score of the labels, without the constant; ``-inf`` where a constraint is not satisfied."""
    total, places, batch = 0.0, places_in(call.ints, call.longs, 2), call.batch
    lo = places.var_ptr[batch.ids[0]]
    for v in range(lo, places.var_ptr[batch.ids[0] + 1]):
        total += batch.node[places.state_ptr[v] + batch.labels[v - lo]]
    return total if batch.feasible[0] else -np.inf


@njit(inline="always")
def group_arrays(longs: I64, n_arrays: int) -> range:
    """Return the number of the first array of each group of constraints, which has n arrays besides its literals."""
    size = OF_LITERALS + n_arrays
    return range(SHARED, SHARED + size * packed_longs(longs, 0)[0], size)
