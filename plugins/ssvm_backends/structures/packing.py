"""Constraints of a program as the two arrays of a compiled oracle, and how its kernel reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_backends.structures.literals import Literals
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import njit, pack, packed_flags, packed_ints, packed_longs
from ssvm_dsl.plugin_api import CompiledOracle

if TYPE_CHECKING:
    from ssvm_backends.structures.session import StructureSession

#: Arrays that come before those of the groups, and those of each group's literals.
SHARED, OF_LITERALS = 4, 5

#: Operations of a call that has next to nothing to do.
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
    arrays: list[Any] = [header, session.places.var_ptr, session.places.state_ptr, session.free]
    for literals, record in zip(session.literals, records, strict=True):
        arrays += [literals.ptr, literals.literal_ptr, literals.variable, literals.state, literals.negated, *record]
    return CompiledOracle(function, *pack(*arrays), 0, operations)


@njit
def n_groups_in(longs: I64) -> int:
    """Return the number of groups of constraints."""
    return int(packed_longs(longs, 0)[0])


@njit
def literals_in(ints: I32, longs: I64, first: int) -> Literals:
    """Return the literals of the group whose arrays begin at number ``first``."""
    return Literals(
        packed_longs(longs, 1),
        packed_longs(longs, 2),
        packed_longs(longs, first),
        packed_longs(longs, first + 1),
        packed_ints(ints, longs, first + 2),
        packed_ints(ints, longs, first + 3),
        packed_flags(ints, longs, first + 4),
    )


@njit
def places_in(ints: I32, longs: I64) -> Literals:
    """Return where the variables are, as a record of no literals."""
    none, nothing = longs[:0], ints[:0]
    flags = packed_flags(ints, longs, 3)[:0]
    return Literals(packed_longs(longs, 1), packed_longs(longs, 2), none, none, nothing, nothing, flags)


@njit
def free_in(ints: I32, longs: I64) -> Bools:
    """Return which variables are in no constraint."""
    return packed_flags(ints, longs, 3)


@njit
def score_of(places: Literals, example: int, node: F64, labels: I32) -> float:
    """Return the sum of the unary scores of a labelling."""
    total, lo = 0.0, places.var_ptr[example]
    for v in range(lo, places.var_ptr[example + 1]):
        total += node[places.state_ptr[v] + labels[v - lo]]
    return total
