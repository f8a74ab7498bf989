"""Best matchings, also of columns that hold any number, as a compiled oracle for kernels of trainers.

A module of its own, because numba compiles what is called by its address as soon as it is defined.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.structures.literals import best_states
from ssvm_backends.structures.matchings.best_matchings import assign_all
from ssvm_backends.structures.matchings.matching_kernels import N_ARRAYS, matchings_in, take_rows_alone
from ssvm_backends.structures.packing import (
    OF_LITERALS,
    SHARED,
    free_in,
    literals_in,
    n_groups_in,
    places_in,
    score_of,
)
from ssvm_dsl.kernels import SIGNATURE, borrow, cfunc


@cfunc(SIGNATURE)
def rows_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Compiled oracle; returns the best score of one example, without the constant.

    Parameters
    ----------
    ints, longs : ndarray of int32 and of int64
        As :func:`~ssvm_backends.structures.packing.structure_oracle` packs them.
    example : int
        The example.
    pool, node : ndarray of float64
        As in :class:`~ssvm_dsl.ir.Theta`, with ``-inf`` at states that masks rule out.
    labels : ndarray of int32, shape (at least the example's variables,)
        Written.
    work : ndarray of float64
        Not used.
    """
    ints, longs, node, labels = borrow(ints), borrow(longs), borrow(node), borrow(labels)
    ids, ptr, feasible = np.full(1, example), np.zeros(1, np.int64), np.ones(1, dtype=np.bool_)
    places, first = places_in(ints, longs), SHARED
    best_states(places, free_in(ints, longs), node, ids, ptr, labels, feasible)
    for _ in range(n_groups_in(longs)):
        literals = literals_in(ints, longs, first)
        matchings = matchings_in(ints, longs, first + OF_LITERALS)
        assign_all(literals, matchings, node, ids, ptr, labels, feasible)
        take_rows_alone(literals, matchings, node, ids, ptr, labels, feasible)
        first += OF_LITERALS + N_ARRAYS
    return score_of(places, example, node, labels) if feasible[0] else -np.inf
