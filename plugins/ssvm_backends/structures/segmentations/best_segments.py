"""The recursion over segments (Sarawagi and Cohen 2004), in O(n K (L + K)), and best segmentations by it.

With ``end[t, k]`` for all divisions of the positions before t whose last segment has class k::

    enter[t, k] = plus_k' end[t, k'] + trans[t, k', k]                 (0 at the first position)
    end[t, k]   = plus_l  enter[t - l - 1, k] + score[t - l - 1, l, k]
    last        = plus_k  end[n, k]

Transitions do not depend on lengths, so that they cost O(n K^2) and not O(n L K^2).  What segments score is worked out
for those that end at a position, where it is needed (:mod:`ssvm_backends.structures.segmentations.segment_scores`).
Best segmentations and sums keep ``enter`` alone, added to what beginnings score: one number for each position and class
beside what positions score.  On the way back the lengths of the best segments, or ``end``, are recomputed.  The k
best keep lists of all items: rows of them stand in the order in which they are made, ``enter[0], end[1], enter[1] ..
last``.

Published packages for segmentations (pytorch-struct, flash-semicrf) run on PyTorch and were not measured.  Beside
``chain`` of this package, 25 positions in batches of 256, one thread: 12 classes and segments of one position take
8.9 us where the same chain takes 2.1 us; segments of up to 8 positions take 15.4 us, BIO tags (23 states) 4.0 us.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.graphs.recursions import RowSources
from ssvm_backends.structures.segmentations.segment_scores import (
    Segmented,
    SpanScores,
    SpanWork,
    fill_row,
    fill_spans,
    largest,
    prepare,
    work_space,
    write_segment,
)
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import borrow, njit


@njit(cache=True, nogil=True, borrowed=True)
def segment_sources(n: int, k: int, longest: int, row: int) -> RowSources:
    """Return the ways of a row of items other than the first; their scores stand at the start of a row of scores.

    Parameters
    ----------
    n, k, longest : int
        Positions, classes, most positions of a segment.
    row : int
        From 1 to 2 n.
    """
    before = (row - 1) * k
    if row % 2 == 1:
        t = (row + 1) // 2
        return RowSources(min(longest, t), k, before, -2 * k, 1, 0, k)
    if row < 2 * n:
        return RowSources(k, k, before, 1, 0, 0, k)
    return RowSources(k, 1, before, 1, 0, 0, k)  # transitions to the first position score 0


@njit(cache=True, nogil=True, borrowed=True)
def best_ends(k: int, t: int, most: int, spans: F64, work: SpanWork) -> None:
    """Write ``end`` of the positions before t: the best scores of those whose last segment has each class.

    Parameters
    ----------
    k, t, most : int
        Classes, the position, and positions of a segment that ends before it at most.
    spans : ndarray of float64, shape (at least most K,)
        Scores of segments as such, the shortest first.
    work : SpanWork
        ``end`` is written.
    """
    begin, inside = work.begin, work.inside
    for b in range(k):
        top, run, s = -np.inf, 0.0, (t - 1) * k + b
        for l in range(most):
            x = begin[s - l * k] + run + spans[l * k + b]
            top = x if x > top else top
            run += inside[s - l * k]
        work.end[b] = top


@njit(cache=True, nogil=True, borrowed=True)
def find_length(k: int, t: int, most: int, spans: F64, work: SpanWork, b: int) -> int:
    """Return the length less 1 of the best segment of class b that ends before position t; see :func:`best_ends`."""
    best, top, run, s = 0, -np.inf, 0.0, (t - 1) * k + b
    for l in range(most):
        x = work.begin[s - l * k] + run + spans[l * k + b]
        if x > top:
            best, top = l, x
        run += work.inside[s - l * k]
    return best


@njit(cache=True, nogil=True, borrowed=True)
def enter(scores: SpanScores, i: int, c: int, work: SpanWork, t: int) -> None:
    """Add ``enter[t, k] = max_k' end[t, k'] + trans[t, k', k]`` to ``begin``; write the best k' to ``before``."""
    k, run = scores.seg.n_classes[c], work.run
    before = work.before[t * k : (t + 1) * k]
    fill_row(scores, i, c, work, 2 * t)
    run[:k], before[:] = -np.inf, 0
    for a in range(k):
        for b in range(k):
            x = work.end[a] + work.row[a * k + b]
            before[b] = a if x > run[b] else before[b]
            run[b] = x if x > run[b] else run[b]
    for b in range(k):
        work.begin[t * k + b] += run[b]


@njit(cache=True, nogil=True)
def make_ends(scores: SpanScores, i: int, c: int, work: SpanWork, start: int, stop: int, labels: I32) -> float:
    """Go over the ends of segments at positions start to stop - 1, of 1 to n; return the best score after the last.

    Parameters
    ----------
    scores : SpanScores
    i, c : int
        The example, and which segmentation.
    work : SpanWork
        Written; the same for all ends of a segmentation.
    start, stop : int
        Later parts of the same segmentation begin where the one before stopped.
    labels : ndarray of int32
        The labels of the example: written with the last end.

    Returns
    -------
    float
        0 before the last end; ``-inf`` if there is no segmentation.
    """
    n, k, longest = scores.seg.n[c], scores.seg.n_classes[c], scores.seg.longest[c]
    if start == 1:
        prepare(scores, i, c, work)
    if work.base[0] == -np.inf or n == 0:
        return work.base[0]
    has_span_scores = work.has_span_scores[0]
    spans = work.row if has_span_scores else work.length
    for t in range(start, stop):
        if has_span_scores:
            fill_spans(scores, i, c, work, t)
        best_ends(k, t, min(longest, t), spans, work)
        if t < n:
            enter(scores, i, c, work, t)
    if stop <= n:
        return 0.0
    best = work.end[:k].max()
    if best > -np.inf:
        trace(scores, i, c, work, labels)
    return work.base[0] + best


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
    scores, labels = SpanScores(borrow(seg), borrow(pool), borrow(node)), borrow(labels)
    seg = scores.seg
    most, widest, far = largest(seg, ids)
    work = work_space(most, widest, far)
    for e in range(len(ids)):
        mine = labels[label_ptr[e] :]
        for c in range(seg.ptr[ids[e]], seg.ptr[ids[e] + 1]):
            best = make_ends(scores, ids[e], c, work, 1, seg.n[c] + 1, mine)
            feasible[e] &= best > -np.inf
            worth[e] += best


@njit(cache=True, nogil=True)
def trace(scores: SpanScores, i: int, c: int, work: SpanWork, labels: I32) -> None:
    """Write the best segmentation, its last segment first; ``end`` is that of the last one."""
    seg = scores.seg
    t, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
    has_span_scores, b = work.has_span_scores[0], np.int64(work.end[: seg.n_classes[c]].argmax())
    spans = work.row if has_span_scores else work.length
    while t > 0:
        if has_span_scores:
            fill_spans(scores, i, c, work, t)
        l = find_length(k, t, min(longest, t), spans, work, b)
        t -= l + 1
        write_segment(seg, c, t, l, b, labels)
        b = np.int64(work.before[t * k + b]) if t > 0 else b
