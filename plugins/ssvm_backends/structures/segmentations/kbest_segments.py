"""The k best segmentations: each item of :mod:`ssvm_backends.structures.segmentations.best_segments` has a list."""

from __future__ import annotations

import numpy as np

from ssvm_backends.graphs.recursions import Lists, list_rows, no_lists
from ssvm_backends.structures.segmentations.best_segments import segment_ways
from ssvm_backends.structures.segmentations.segment_scores import (
    Segmented,
    SpanScores,
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
        score[:, e] = -np.inf
        if seg.ptr[ids[e]] == seg.ptr[ids[e] + 1]:
            score[0, e] = 0.0
            continue
        c = seg.ptr[ids[e]]
        n, k = seg.n[c], seg.n_classes[c]
        base = prepare(scores, ids[e], c, work)
        if base == -np.inf:
            continue
        if n == 0:
            score[0, e] = base
            continue
        lists.value[:k] = -np.inf
        lists.value[:k, 0] = 0.0
        for row in range(1, 2 * n + 1):
            fill_row(scores, ids[e], c, work, row)
            list_rows(lists, row * k, segment_ways(n, k, seg.longest[c], row), work.row)
        for one in range(r):
            score[one, e] = base + lists.value[2 * n * k, one]
            if score[one, e] > -np.inf:
                trace_list(seg, c, lists, one, labels[one, label_ptr[e] :])


@njit(cache=True, nogil=True)
def trace_list(seg: Segmented, c: int, lists: Lists, entry: int, labels: I32) -> None:
    """Write the segmentation of an entry of the last list, its last segment first."""
    n, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
    row, b = 2 * n, 0
    while row > 0:
        ways, at = segment_ways(n, k, longest, row), row * k + b
        way, entry = lists.way[at, entry], lists.rank[at, entry]
        item = ways.of + way * ways.of_step + b * ways.of_each
        row, b = item // k, item % k
        if row % 2 == 0:
            write_segment(seg, c, row // 2, way, b, labels)
