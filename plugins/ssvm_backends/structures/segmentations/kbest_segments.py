"""The k best segmentations: each item of :mod:`ssvm_backends.structures.segmentations.best_segments` has a list."""

from __future__ import annotations

import numpy as np

from ssvm_backends.graphs.recursions import Lists, list_rows, no_lists
from ssvm_backends.structures.segmentations.best_segments import segment_sources
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
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import borrow, njit


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
