"""Best segmentations as a compiled oracle, for trainers that call it inside their kernels.

A separate module, because numba compiles functions called by their address as soon as they are defined.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.structures.literals import Literals, best_states
from ssvm_backends.structures.segmentations.best_segments import best_segmentations
from ssvm_backends.structures.segmentations.segment_scores import Segmented
from ssvm_dsl.kernels import SIGNATURE, borrow, cfunc, packed_flags, packed_record

#: How the segmentations of a program are read.
segmented_in = packed_record(Segmented, first=3, base="shape")


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
    seg, free = segmented_in(ints, longs, 1), packed_flags(ints, longs, 0)
    lo, hi = seg.var_ptr[example], seg.var_ptr[example + 1]
    labels[: hi - lo] = 0
    none, nothing = longs[:0], ints[:0]
    places = Literals(seg.var_ptr, seg.state_ptr, none, none, nothing, nothing, free[:0])
    best_states(places, free, node, ids, ptr, labels, feasible)
    best_segmentations(seg, pool, node, ids, ptr, labels, feasible, worth)
    for v in range(lo, hi):
        if free[v]:
            worth[0] += node[seg.state_ptr[v] + labels[v - lo]]
    return worth[0] if feasible[0] else -np.inf
