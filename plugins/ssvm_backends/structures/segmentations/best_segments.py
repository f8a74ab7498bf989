"""The recursion over segments (Sarawagi and Cohen 2004), in O(n K (L + K)), and best segmentations by it.

With ``end[t, k]`` for all divisions of the positions before t whose last segment has class k::

    enter[t, k] = plus_k' end[t, k'] + trans[t, k', k]                 (0 at the first position)
    end[t, k]   = plus_l  enter[t - l - 1, k] + score[t - l - 1, l, k]
    last        = plus_k  end[n, k]

Transitions do not depend on lengths, so that they cost O(n K^2) and not O(n L K^2).  What segments score is worked out
for those that end at a position, where it is needed (:mod:`ssvm_backends.structures.segmentations.segment_scores`).
Rows of items stand in the order in which they are made: ``enter[0], end[1], enter[1] .. end[n], last``.  How best
segmentations, the k best and sums share the recursion: :mod:`ssvm_backends.graphs.recursions`.

Published packages for segmentations (pytorch-struct, flash-semicrf) run on PyTorch and were not measured.  Beside
``chain`` of this package, 25 positions in batches of 256, one thread: 12 classes and segments of one position take
8.9 us where the same chain takes 2.1 us; segments of up to 8 positions take 15.4 us, BIO tags (23 states) 4.0 us.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.graphs.recursions import BEST, Items, Ways, best_way_of, join_rows
from ssvm_backends.structures.segmentations.segment_scores import (
    Segmented,
    SpanScores,
    SpanWork,
    fill_row,
    largest,
    prepare,
    work_space,
    write_segment,
)
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import borrow, njit


@njit(cache=True, nogil=True, borrowed=True)
def segment_ways(n: int, k: int, longest: int, row: int) -> Ways:
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
        return Ways(min(longest, t), k, before, -2 * k, 1, 0, k)
    if row < 2 * n:
        return Ways(k, k, before, 1, 0, 0, k)
    return Ways(k, 1, before, 1, 0, 0, k)  # transitions to the first position score 0


@njit(cache=True, nogil=True, borrowed=True)
def sweep_up(
    task: int, scores: SpanScores, i: int, c: int, work: SpanWork, items: Items, rows: tuple[int, int]
) -> None:
    """Make items, from the first row on or where it was left.

    Parameters
    ----------
    task : int
        ``BEST`` or ``SUM``.
    scores : SpanScores
    i, c : int
        The example, and which segmentation.
    work : SpanWork
        As :func:`~ssvm_backends.structures.segmentations.segment_scores.prepare` has written it.
    items : Items
        At least (2 n + 1) k.
    rows : tuple of int
        The first row to make, and the one after the last; ``(0, 2 n + 1)`` for all.
    """
    n, k, longest = scores.seg.n[c], scores.seg.n_classes[c], scores.seg.longest[c]
    if rows[0] == 0:
        items.value[:k] = 0.0
    for row in range(max(rows[0], 1), rows[1]):
        fill_row(scores, i, c, work, row)
        join_rows(task, items, row * k, segment_ways(n, k, longest, row), work.row, work.share)


@njit(cache=True, nogil=True)
def make_rows(
    scores: SpanScores, i: int, c: int, work: SpanWork, items: Items, rows: tuple[int, int], labels: I32
) -> float:
    """Make some rows of items; return the best score once all are made, ``-inf`` as soon as there is no segmentation.

    Parameters
    ----------
    scores : SpanScores
    i, c : int
        The example, and which segmentation.
    work : SpanWork
        Written; the same for all rows of a segmentation.
    items : Items
        Likewise.
    rows : tuple of int
        As of :func:`sweep_up`.
    labels : ndarray of int32
        The labels of the example: written once all rows are made.
    """
    n, k, base = scores.seg.n[c], scores.seg.n_classes[c], work.base
    if rows[0] == 0:
        base[0] = prepare(scores, i, c, work)
    if base[0] == -np.inf or n == 0:
        return base[0]
    sweep_up(BEST, scores, i, c, work, items, rows)
    if rows[1] <= 2 * n:
        return 0.0
    if items.value[2 * n * k] > -np.inf:
        trace(scores, i, c, work, items.value, labels)
    return base[0] + items.value[2 * n * k]


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
    none = np.empty(0)
    items = Items(np.empty((2 * most + 1) * widest), none, none, np.empty(0, np.int64))
    for e in range(len(ids)):
        mine = labels[label_ptr[e] :]
        for c in range(seg.ptr[ids[e]], seg.ptr[ids[e] + 1]):
            n = seg.n[c]
            best = make_rows(scores, ids[e], c, work, items, (0, 2 * n + 1), mine)
            feasible[e] &= best > -np.inf
            worth[e] += best


@njit(cache=True, nogil=True)
def trace(scores: SpanScores, i: int, c: int, work: SpanWork, value: F64, labels: I32) -> None:
    """Write the best segmentation, its last segment first."""
    seg = scores.seg
    n, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
    row, b = 2 * n, 0
    while row > 0:
        ways = segment_ways(n, k, longest, row)
        fill_row(scores, i, c, work, row)
        way = best_way_of(value, b, ways, work.row)
        item = ways.of + way * ways.of_step + b * ways.of_each
        row, b = item // k, item % k
        if row % 2 == 0:
            write_segment(seg, c, row // 2, way, b, labels)
