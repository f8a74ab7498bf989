"""Segmentations that are worth most by two counts, such as true and false positives: dynamic programming with counts.

The best scores of :mod:`ssvm_backends.structures.segmentations.best_segments` get two axes more: ``best[t, k, a, b]``
is that of the divisions of the positions before t whose last segment has class k and whose counts are a and b.  A
segment moves them by its own counts, which are gathered as its score is; a transition has none.  With largest counts
A and B that is time O(n K (L + K) A B) and memory O(n K A B); counts grow along the sequence, so a third of it in all.

Losses such as 1 - F1 of segments ask for it: the construction of Joachims (A support vector method for multivariate
performance measures, ICML 2005) with the dynamic programming of Sarawagi and Cohen (2004) in place of sorting.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.graphs.best_counts import CountArrays, CountedLabels, best_pair
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
from ssvm_dsl.kernels import assign, borrow, njit


class AllScores(NamedTuple):
    """The scores of all segments and transitions of one segmentation.

    Parameters
    ----------
    trans : ndarray of float64, shape (at least n K K,)
        What it scores that a segment of a class (the last axis) begins at t after one of another (the middle axis).
    score : ndarray of float64, shape (at least n L K,)
        What each segment scores that ends within the sequence, by its start and its length.
    """

    trans: F64
    score: F64


class SegmentCounts(NamedTuple):
    """The counts of the segments of one segmentation, and where its tables go.

    Parameters
    ----------
    whole : ndarray of int64, shape (at least n L K, 2)
        Those of segments that end within the sequence, by their start, length and class.
    reach : ndarray of int64, shape (at least n + 1, 2)
        The largest counts of the positions before each one.
    place : ndarray of int64, shape (at least n + 1,)
        Where the tables of each start, those of one class after the other.
    """

    whole: I64
    reach: I64
    place: I64


@njit(cache=True, nogil=True)
def gather(scores: SpanScores, i: int, c: int, work: SpanWork, found: AllScores) -> float:
    """Write the scores of all segments and transitions of segmentation c of example i; return ``base``."""
    base = prepare(scores, i, c, work)
    n, k, longest = scores.seg.n[c], scores.seg.n_classes[c], scores.seg.longest[c]
    for row in range(1, 2 * n):
        fill_row(scores, i, c, work, row)
        t = (row + 1) // 2
        if row % 2 == 0:
            assign(found.trans[t * k * k : (t + 1) * k * k], work.row[: k * k])
            continue
        for l in range(min(longest, t)):
            at = ((t - l - 1) * longest + l) * k
            assign(found.score[at : at + k], work.row[l * k : (l + 1) * k])
    return base


@njit(cache=True, nogil=True)
def gather_counts(seg: Segmented, counts: I64, i: int, c: int, begin: I64, inside: I64, whole: I64) -> None:
    """Write the two counts of whole segments.

    They are those of the classes and beginnings of its positions, of its own span, and of all other spans from its
    positions, which are then none: all counts of a segmentation are those of its segments, and none is negative.

    Parameters
    ----------
    seg : Segmented
    counts : ndarray of int64, shape (S, 2)
        Two natural numbers for each state of each variable.
    i, c : int
        The example, and which segmentation.
    begin, inside : ndarray of int64, shape (at least n K, 2)
        Work space: what a position counts that a segment of each class begins at, or goes on at.
    whole : ndarray of int64, shape (at least n L K, 2)
        Written, for spans that end within the sequence.
    """
    n, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
    lo = seg.var_ptr[i]
    classes, begins = seg.state_ptr[lo + seg.first[c, 0]], seg.state_ptr[lo + seg.first[c, 1]]
    compact = seg.first[c, 2] < 0
    spans = 0 if compact else seg.state_ptr[lo + seg.first[c, 2]]
    for t in range(n):
        for m in range(2):
            none = 0
            for l in range(0 if compact else longest):
                none += counts[spans + (t * longest + l) * (k + 1), m]
            for b in range(k):
                inside[t * k + b, m] = counts[classes + t * k + b, m] + counts[begins + 2 * t, m] + none
                begin[t * k + b, m] = counts[classes + t * k + b, m] + counts[begins + 2 * t + 1, m] + none
    for s in range(n):
        for l in range(min(longest, n - s)):
            at, span = (s * longest + l) * k, spans + (s * longest + l) * (k + 1)
            for b in range(k):
                for m in range(2):
                    if l > 0:
                        begin[s * k + b, m] += inside[(s + l) * k + b, m]
                    own = 0 if compact else counts[span + 1 + b, m] - counts[span, m]
                    whole[at + b, m] = begin[s * k + b, m] + own


@njit(cache=True, nogil=True)
def lay_out_counts(
    n: int, k: int, longest: int, counts: SegmentCounts, a_most: int, b_most: int
) -> tuple[int, int]:
    """Find the largest counts before every position, and where its tables go; return their size, and the largest.

    Parameters
    ----------
    n, k, longest : int
        Positions, classes, most positions of a segment.
    counts : SegmentCounts
        ``whole`` as :func:`gather_counts` wrote it; the others are written.
    a_most, b_most : int
        Largest counts wanted.

    Returns
    -------
    total, most : int
        Numbers in all tables, and in those of one position.
    """
    whole, reach, place = counts
    reach[: n + 1] = 0
    total, most = 0, 0
    for s in range(n + 1):
        place[s] = total
        size = k * (reach[s, 0] + 1) * (reach[s, 1] + 1)
        total, most = total + size, max(most, size)
        for l in range(min(longest, n - s)):
            for b in range(k):
                at = (s * longest + l) * k + b
                reach[s + l + 1, 0] = max(reach[s + l + 1, 0], min(reach[s, 0] + whole[at, 0], a_most))
                reach[s + l + 1, 1] = max(reach[s + l + 1, 1], min(reach[s, 1] + whole[at, 1], b_most))
    return total, most


@njit(cache=True, nogil=True)
def count_ends(
    n: int, k: int, longest: int, work: AllScores, counts: SegmentCounts, best: F64, enter: F64
) -> None:
    """Write the best score of each class and pair of counts of the positions before each one.

    Parameters
    ----------
    n, k, longest : int
        Positions, classes, most positions of a segment.
    work : AllScores
        Read only.
    counts : SegmentCounts
        As :func:`gather_counts` and :func:`lay_out_counts` wrote it; read only.
    best : ndarray of float64
        Written: for each position from 0 to n the tables of each class of the segment that ends before it, row by row.
    enter : ndarray of float64
        Work space for the tables of one position: the best scores with which a segment of each class begins there.
    """
    whole, reach, place = counts
    best[: place[n] + k * (reach[n, 0] + 1) * (reach[n, 1] + 1)] = -np.inf
    for s in range(n):
        width = reach[s, 1] + 1
        size = (reach[s, 0] + 1) * width
        enter[: k * size] = 0.0 if s == 0 else -np.inf
        for a in range(k if s > 0 else 0):
            source = best[place[s] + a * size : place[s] + (a + 1) * size]
            for b in range(k):
                step = work.trans[(s * k + a) * k + b]
                if step == -np.inf:
                    continue
                target = enter[b * size : (b + 1) * size]
                for q in range(size):
                    value = source[q] + step
                    target[q] = value if value > target[q] else target[q]
        for l in range(min(longest, n - s)):
            t = s + l + 1
            for b in range(k):
                at = (s * longest + l) * k + b
                score, wide = work.score[at], reach[t, 1] + 1
                across = min(width, wide - whole[at, 1])
                if score == -np.inf or across <= 0:
                    continue
                for p in range(min(reach[s, 0], reach[t, 0] - whole[at, 0]) + 1):
                    source = enter[b * size + p * width : b * size + p * width + across]
                    to = place[t] + (b * (reach[t, 0] + 1) + p + whole[at, 0]) * wide + whole[at, 1]
                    target = best[to : to + across]
                    for q in range(across):
                        value = source[q] + score
                        target[q] = value if value > target[q] else target[q]


@njit(cache=True, nogil=True)
def trace_counts(
    seg: Segmented, c: int, work: AllScores, counts: SegmentCounts, best: F64, have_a: int, have_b: int, labels: I32
) -> None:
    """Write the best segmentation of a pair of counts, its last segment first.

    Parameters
    ----------
    seg : Segmented
    c : int
        Which segmentation; it has a position.
    work, counts, best
        As for :func:`count_ends`, after it; read only.
    have_a, have_b : int
        The counts; there must be a segmentation of them.
    labels : ndarray of int32
        Written; zeros before.
    """
    t, k, longest, b, (whole, reach, place) = seg.n[c], seg.n_classes[c], seg.longest[c], -1, counts
    while t > 0:
        top, length, last, before = -np.inf, 0, b, -1
        for one in range(k):  # the class of the last segment is open; those before it are known
            if b >= 0 and one != b:
                continue
            for l in range(min(longest, t)):
                s = t - l - 1
                at = (s * longest + l) * k + one
                p, q = have_a - whole[at, 0], have_b - whole[at, 1]
                if p < 0 or q < 0 or p > reach[s, 0] or q > reach[s, 1]:
                    continue
                for a in range(k if s > 0 else 1):
                    value = work.score[at]
                    if s > 0:
                        old = place[s] + (a * (reach[s, 0] + 1) + p) * (reach[s, 1] + 1) + q
                        value += best[old] + work.trans[(s * k + a) * k + one]
                    if value > top:
                        top, length, last, before = value, l, one, a
        t -= length + 1
        at = (t * longest + length) * k + last
        have_a, have_b = have_a - whole[at, 0], have_b - whole[at, 1]
        write_segment(seg, c, t, length, last, labels)
        b = before


@njit(cache=True, nogil=True)
def best_by_count(
    seg: Segmented, pool: F64, node: F64, const: F64, tables: CountArrays, found: CountedLabels
) -> None:
    """Write the segmentation that is worth most by its counts, and what it is worth, for each listed example.

    Parameters
    ----------
    seg : Segmented
        With one segmentation in each example at most, and no other variables.
    pool, node : ndarray of float64
        Tables, and unary scores with ``-inf`` at states that masks rule out.
    const : ndarray of float64, shape (B,)
        Constants of all examples.
    tables : CountArrays
        Read only.
    found : CountedLabels
        Written.
    """
    scores, labels = SpanScores(borrow(seg), borrow(pool), borrow(node)), borrow(found.labels)
    seg, examples, shape = scores.seg, found.ids, tables.shape
    n_most, widest, far = largest(seg, examples)
    work = work_space(n_most, widest, far)
    every = AllScores(np.empty(n_most * widest * widest), np.empty(n_most * far * widest))
    begin, inside = np.empty((n_most * widest, 2), np.int64), np.empty((n_most * widest, 2), np.int64)
    whole = np.empty((n_most * far * widest, 2), np.int64)
    reach, place = np.empty((n_most + 1, 2), np.int64), np.empty(n_most + 1, np.int64)
    counts = SegmentCounts(whole, reach, place)
    best, enter = np.zeros(1), np.empty(1)
    for e in range(len(examples)):
        i, n, k = examples[e], 0, 1
        if shape[e, 0] == 0 or shape[e, 1] == 0:
            continue
        base, c = const[i], seg.ptr[i]
        if seg.ptr[i + 1] > c:
            n, k = seg.n[c], seg.n_classes[c]
            base += gather(scores, i, c, work, every)
        if n == 0:  # an empty labelling
            reach[0], place[0], best[0] = 0, 0, 0.0
        else:
            gather_counts(seg, tables.counts, i, c, begin, inside, whole)
            total, most = lay_out_counts(n, k, seg.longest[c], counts, shape[e, 0] - 1, shape[e, 1] - 1)
            best = best if len(best) >= total else np.empty(total)
            enter = enter if len(enter) >= most else np.empty(most)
            count_ends(n, k, seg.longest[c], every, counts, best, enter)
        size = (reach[n, 0] + 1) * (reach[n, 1] + 1)
        for cell in range(size):
            enter[cell] = -np.inf
            for last in range(k if n > 0 else 1):
                enter[cell] = max(enter[cell], best[place[n] + last * size + cell])
        a_best, b_best = best_pair(tables, found, e, reach[n], enter, base)
        if a_best >= 0 and n > 0:
            trace_counts(seg, c, every, counts, best, a_best, b_best, labels[found.ptr[e] :])
