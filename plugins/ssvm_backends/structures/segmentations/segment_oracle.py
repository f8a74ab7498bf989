"""Best segmentations as a compiled oracle, for trainers that call it inside their kernels.

A separate module, because numba compiles functions called by their address as soon as they are defined.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.structures.literals import best_states
from ssvm_backends.structures.packing import places_in
from ssvm_backends.structures.segmentations.best_segments import best_segmentations
from ssvm_backends.structures.segmentations.segment_scores import Segmented
from ssvm_dsl.ir import I32, I64
from ssvm_dsl.kernels import SIGNATURE, borrow, cfunc, njit, packed_bytes, packed_flags, packed_ints, packed_longs


@njit
def segmented_in(ints: I32, longs: I64) -> Segmented:
    """Return the segmentations of a program; the arrays of their fields follow that of free variables."""
    offset = packed_longs(longs, 17)
    n_groups, n_examples = len(offset) - 1, len(packed_longs(longs, 1)) - 1
    return Segmented(
        packed_longs(longs, 1),
        packed_longs(longs, 2),
        packed_longs(longs, 3),
        packed_longs(longs, 4),
        packed_longs(longs, 5),
        packed_longs(longs, 6),
        packed_longs(longs, 7).reshape((-1, 3)),
        packed_ints(ints, longs, 8),
        packed_longs(longs, 9),
        packed_bytes(ints, longs, 10),
        packed_ints(ints, longs, 11),
        packed_ints(ints, longs, 12),
        packed_ints(ints, longs, 13),
        packed_ints(ints, longs, 14),
        packed_ints(ints, longs, 15),
        packed_longs(longs, 16).reshape((n_groups, n_examples)),
        packed_longs(longs, 17),
    )


@cfunc(SIGNATURE)
def segment_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Compiled oracle; returns the best score of one example, without the constant.

    Parameters
    ----------
    ints, longs : ndarray of int32 and of int64
        Packed: which variables are in no segmentation, and the fields of a
        :class:`~ssvm_backends.structures.segmentations.segment_scores.Segmented`.
    example : int
        The example.
    pool, node : ndarray of float64
        As in :class:`~ssvm_dsl.ir.Theta`, with ``-inf`` at states that masks rule out.
    labels : ndarray of int32, shape (at least the example's variables,)
        Written.
    work : ndarray of float64
        Not used.
    """
    ints, longs, pool, node, labels = borrow(ints), borrow(longs), borrow(pool), borrow(node), borrow(labels)
    ids, ptr, worth, feasible = np.full(1, example), np.zeros(1, np.int64), np.zeros(1), np.ones(1, dtype=np.bool_)
    seg, free = segmented_in(ints, longs), packed_flags(ints, longs, 0)
    lo, hi = seg.var_ptr[example], seg.var_ptr[example + 1]
    labels[: hi - lo] = 0
    best_states(places_in(ints, longs, 1), free, node, ids, ptr, labels, feasible)
    best_segmentations(seg, pool, node, ids, ptr, labels, feasible, worth)
    for v in range(lo, hi):
        if free[v]:
            worth[0] += node[seg.state_ptr[v] + labels[v - lo]]
    return worth[0] if feasible[0] else -np.inf
