"""The k best segmentations: each best score of :mod:`ssvm_backends.structures.segmentations.best_segments` is a list.

Lists are sorted, best first; those of a position and class are merged from those that they come from, by always taking
the best of their heads.
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
from ssvm_backends.trees.kbest import best_of_lists
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import assign, borrow, njit


@njit(cache=True, nogil=True)
def end_lists(
    n: int, k: int, longest: int, work: SpanWork, ends: F64, enter: F64, came: I32, rank: I32, length: I32, place: I32
) -> None:
    """Write the lists of the best scores of the positions before each one, and where their entries come from.

    Parameters
    ----------
    n, k, longest : int
        Positions, classes, most positions of a segment.
    work : SpanWork
        ``trans`` and ``score`` are read.
    ends, enter : ndarray of float64, shape (at least n + 1, at least k, r)
        Written: the r best scores that end before a position with a class, and with which one begins there.
    came, rank : ndarray of int32, shape (at least n + 1, at least k, r)
        Written: of entries of ``enter``, the class before, and which entry of its list.
    length, place : ndarray of int32, shape (at least n + 1, at least k, r)
        Written: of entries of ``ends``, the length of the last segment less 1, and which entry of ``enter`` it is.
    """
    lists, table = np.empty((longest, ends.shape[2])), np.empty(longest)
    for t in range(n + 1):
        for b in range(k):
            if t == 0:
                enter[t, b] = -np.inf
                enter[t, b, 0] = 0.0
                continue
            m = min(longest, t)
            for l in range(m):
                s = t - l - 1
                assign(lists[l], enter[s, b])
                table[l] = work.score[(s * longest + l) * k + b]
            best_of_lists(lists, table, m, 1, 0, ends[t, b], length[t, b], place[t, b])
        if 0 < t < n:
            for b in range(k):
                best_of_lists(ends[t], work.trans[t * k * k :], k, k, b, enter[t, b], came[t, b], rank[t, b])


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
    seg, pool, node = borrow(seg), borrow(pool), borrow(node)
    most, widest, far = largest(seg, ids)
    work, r = work_space(most, widest, far), len(labels)
    shape = (most + 1, widest, r)
    ends, enter = np.full(shape, -np.inf), np.full(shape, -np.inf)
    came, rank = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
    length, place = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
    last, which, zeros = np.zeros(r, dtype=np.int32), np.zeros(r, dtype=np.int32), np.zeros(widest)
    worth = np.empty(r)
    for e in range(len(ids)):
        score[:, e] = -np.inf
        if seg.ptr[ids[e]] == seg.ptr[ids[e] + 1]:
            score[0, e] = 0.0
            continue
        c = seg.ptr[ids[e]]
        n, k = seg.n[c], seg.n_classes[c]
        base = gather(seg, pool, node, ids[e], c, work)
        if base == -np.inf:
            continue
        if n == 0:
            score[0, e] = base
            continue
        end_lists(n, k, seg.longest[c], work, ends, enter, came, rank, length, place)
        best_of_lists(ends[n], zeros, k, 1, 0, worth, last, which)
        for one in range(r):
            score[one, e] = base + worth[one]
            if worth[one] == -np.inf:
                continue
            t, b, at = n, last[one], which[one]
            while t > 0:
                l, entry = length[t, b, at], place[t, b, at]
                t -= l + 1
                write_segment(seg, c, t, l, b, labels[one, label_ptr[e] :])
                b, at = came[t, b, entry], rank[t, b, entry]
