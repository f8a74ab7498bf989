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

from ssvm_backends.graphs.recursions import Lists, RowSources, list_rows, no_lists
from ssvm_backends.structures.literals import Batch, best_states
from ssvm_backends.structures.packing import places_in
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
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import SIGNATURE, borrow, cfunc, njit, packed_bytes, packed_flags, packed_ints, packed_longs


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
def add_transitions(scores: SpanScores, i: int, c: int, work: SpanWork, t: int) -> None:
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
            add_transitions(scores, i, c, work, t)
    if stop <= n:
        return 0.0
    best = work.end[:k].max()
    if best > -np.inf:
        trace(scores, i, c, work, labels)
    return work.base[0] + best


@njit(cache=True, nogil=True)
def best_segmentations(seg: Segmented, pool: F64, batch: Batch, worth: F64) -> None:
    """Write the labels of the best segmentations of some examples.

    Parameters
    ----------
    seg : Segmented
    pool : ndarray of float64
        All tables.
    batch : Batch
        Its labels are zeros before; an example is not feasible where there is no segmentation.
    worth : ndarray of float64, shape (m,)
        The scores of the segmentations are added to it, where there are any.
    """
    node, ids, ptr, labels, feasible = borrow(batch)
    scores = SpanScores(borrow(seg), borrow(pool), node)
    seg = scores.seg
    most, widest, far = largest(seg, ids)
    work = work_space(most, widest, far)
    for e in range(len(ids)):
        mine = labels[ptr[e] :]
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
    batch = Batch(node, np.full(1, example), np.zeros(1, np.int64), labels, np.ones(1, dtype=np.bool_))
    worth = np.zeros(1)
    seg, free = segmented_in(ints, longs), packed_flags(ints, longs, 0)
    lo, hi = seg.var_ptr[example], seg.var_ptr[example + 1]
    labels[: hi - lo] = 0
    best_states(places_in(ints, longs, 1), free, batch)
    best_segmentations(seg, pool, batch, worth)
    for v in range(lo, hi):
        if free[v]:
            worth[0] += node[seg.state_ptr[v] + labels[v - lo]]
    return worth[0] if batch.feasible[0] else -np.inf


# -- The k best segmentations: each item has a list ------------------------------------------------------------------


@njit(cache=True, nogil=True)
def kbest_segmentations(
    seg: Segmented, pool: F64, node: F64, ids: I64, label_ptr: I64, labels: I32, score: F64
) -> None:
    """Write the labels of the best segmentations of some examples of one segmentation each.

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
    labels : ndarray of int32, shape (r, size)
        Written, best first; zeros before.
    score : ndarray of float64, shape (r, m)
        Written, without the constant; ``-inf`` where there are fewer.
    """
    scores = SpanScores(borrow(seg), borrow(pool), borrow(node))
    seg = scores.seg
    most, widest, far = largest(seg, ids)
    work, r = work_space(most, widest, far), len(labels)
    lists = no_lists((2 * most + 1) * widest, r)
    for e in range(len(ids)):
        list_segmentations(scores, ids[e], work, lists, 0, 2 * most + 1, labels[:, label_ptr[e] :], score[:, e])


@njit(cache=True, nogil=True)
def list_segmentations(
    scores: SpanScores, i: int, work: SpanWork, lists: Lists, start: int, stop: int, labels: I32, score: F64
) -> None:
    """Make some rows of lists of an example; write its best segmentations once all are made.

    Parameters
    ----------
    scores : SpanScores
    i : int
        The example.
    work : SpanWork
        Written; the same for all rows.
    lists : Lists
        Likewise.
    start, stop : int
        Rows start to stop - 1, of 0 to 2 n, are made; all smaller ones were made before.
    labels : ndarray of int32, shape (r, size)
        Written with the last row, best first; zeros before.
    score : ndarray of float64, shape (r,)
        Written with the last row.
    """
    seg, c = scores.seg, scores.seg.ptr[i]
    score[:] = -np.inf
    if c == seg.ptr[i + 1]:
        score[0] = 0.0
        return
    n, k = seg.n[c], seg.n_classes[c]
    if start == 0:
        prepare(scores, i, c, work)
        lists.value[:k] = -np.inf
        lists.value[:k, 0] = 0.0
    if work.base[0] == -np.inf or n == 0:
        score[0] = work.base[0]
        return
    for row in range(max(start, 1), min(stop, 2 * n + 1)):
        fill_row(scores, i, c, work, row)
        list_rows(lists, row * k, segment_sources(n, k, seg.longest[c], row), work.row)
    if stop <= 2 * n:
        return
    for rank in range(len(score)):
        score[rank] = work.base[0] + lists.value[2 * n * k, rank]
        if score[rank] > -np.inf:
            trace_list(seg, c, lists, rank, labels[rank])


@njit(cache=True, nogil=True)
def trace_list(seg: Segmented, c: int, lists: Lists, entry: int, labels: I32) -> None:
    """Write the segmentation of an entry of the last list, its last segment first."""
    n, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
    row, b = 2 * n, 0
    while row > 0:
        sources, at = segment_sources(n, k, longest, row), row * k + b
        source, entry = lists.source[at, entry], lists.rank[at, entry]
        item = sources.of + source * sources.of_step + b * sources.of_each
        row, b = item // k, item % k
        if row % 2 == 0:
            write_segment(seg, c, row // 2, source, b, labels)
