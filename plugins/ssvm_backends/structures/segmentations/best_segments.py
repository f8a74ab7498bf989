"""Best segmentations by dynamic programming over segments (Sarawagi and Cohen 2004), in O(n K (L + K)).

With ``best[t, k]`` for the best score of all divisions of the positions before t whose last segment has class k::

    enter[t, k] = max_k' best[t, k'] + trans[t, k', k]                 (0 at the first position)
    best[t, k]  = max_l enter[t - l - 1, k] + score[t - l - 1, l, k]

Transitions do not depend on lengths, so that they cost O(n K^2) and not O(n L K^2).  What a segment scores is worked
out once for all lengths of a start (:mod:`ssvm_backends.structures.segmentations.segment_scores`).

Published packages for segmentations (pytorch-struct, flash-semicrf) run on PyTorch and were not measured.  Beside
``chain`` of this package, 25 positions in batches of 256, one thread: 12 classes and segments of one position take
8.9 us where the same chain takes 2.1 us; segments of up to 8 positions take 15.4 us, BIO tags (23 states) 4.0 us.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.structures.segmentations.segment_scores import (
    Segmented,
    SpanWork,
    gather,
    largest,
    work_space,
    write_segment,
)
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import borrow, njit


@njit(cache=True, nogil=True)
def enter_best(k: int, best: F64, trans: F64, enter: F64) -> None:
    """Write the best scores with which a segment of each class begins after one of any class."""
    enter[:k] = -np.inf
    for a in range(k):
        before = best[a]
        for b in range(k):
            enter[b] = max(enter[b], before + trans[a * k + b])


@njit(cache=True, nogil=True)
def best_ends(n: int, k: int, longest: int, work: SpanWork, best: F64, back: I32) -> None:
    """Write the best scores of the positions before each one, and how long the last segment is then.

    Parameters
    ----------
    n, k, longest : int
        Positions, classes, most positions of a segment.
    work : SpanWork
        ``trans`` and ``score`` are read.
    best : ndarray of float64, shape (at least (n + 1) k,)
        Written: for each position from 1 to n and each class of the segment that ends before it.
    back : ndarray of int32, shape (at least (n + 1) k,)
        Written: that segment's length, less 1.
    """
    best[: (n + 1) * k] = -np.inf
    enter = np.zeros(k)
    for s in range(n):
        if s > 0:
            enter_best(k, best[s * k :], work.trans[s * k * k :], enter)
        for l in range(min(longest, n - s)):
            to, at = (s + l + 1) * k, (s * longest + l) * k
            for b in range(k):
                value = enter[b] + work.score[at + b]
                if value > best[to + b]:
                    best[to + b], back[to + b] = value, l


@njit(cache=True, nogil=True)
def best_segmentations(
    seg: Segmented, pool: F64, node: F64, ids: I64, label_ptr: I64, labels: I32, feasible: Bools, worth: F64
) -> None:
    """Write the labels of the best segmentations of some examples.

    Parameters
    ----------
    seg : Segmented
    pool : ndarray of float64
        All tables.
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that are ruled out.
    ids : ndarray of int64, shape (m,)
        The examples.
    label_ptr : ndarray of int64, shape (at least m,)
        Where the labels of each start.
    labels : ndarray of int32
        Written; zeros before.
    feasible : ndarray of bool, shape (m,)
        Set to false where there is no segmentation.
    worth : ndarray of float64, shape (m,)
        The scores of the segmentations are added to it, where there are any.
    """
    seg, pool, node, labels = borrow(seg), borrow(pool), borrow(node), borrow(labels)
    most, widest, far = largest(seg, ids)
    work = work_space(most, widest, far)
    best, back = np.empty((most + 1) * widest), np.zeros((most + 1) * widest, dtype=np.int32)
    for e in range(len(ids)):
        mine = labels[label_ptr[e] :]
        for c in range(seg.ptr[ids[e]], seg.ptr[ids[e] + 1]):
            n, k = seg.n[c], seg.n_classes[c]
            base = gather(seg, pool, node, ids[e], c, work)
            if base == -np.inf:
                feasible[e] = False
                continue
            if n == 0:
                continue
            best_ends(n, k, seg.longest[c], work, best, back)
            value = best[n * k : (n + 1) * k].max()
            if value == -np.inf:
                feasible[e] = False
                continue
            worth[e] += base + value
            trace(seg, c, work, best, back, mine)


@njit(cache=True, nogil=True)
def trace(seg: Segmented, c: int, work: SpanWork, best: F64, back: I32, labels: I32) -> None:
    """Write the best segmentation, its last segment first."""
    t, k = seg.n[c], seg.n_classes[c]
    b = int(np.argmax(best[t * k : (t + 1) * k]))
    while True:
        l = back[t * k + b]
        t -= l + 1
        write_segment(seg, c, t, l, b, labels)
        if t == 0:
            return
        found, worth = 0, -np.inf
        for a in range(k):
            value = best[t * k + a] + work.trans[(t * k + a) * k + b]
            if value > worth:
                found, worth = a, value
        b = found
