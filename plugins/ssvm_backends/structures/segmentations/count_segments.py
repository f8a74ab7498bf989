"""Segmentations that are worth most by two counts, such as true and false positives: dynamic programming with counts.

The best scores of :mod:`ssvm_backends.structures.segmentations.best_segments` get two axes more: ``enter[t, k, a, b]``
is that of the divisions of the positions before t whose counts are a and b, with the transition to a segment of class k
that begins there.  A segment moves them by its own counts, which are found as its score is; a transition has none.
With largest counts A and B that is time O(n K (L + K) A B) and memory O(n K A B); counts grow along the sequence, so a
third of it in all.  On the way back, the segments that end at a position are looked at once more.

Losses such as 1 - F1 of segments ask for it: the construction of Joachims (A support vector method for multivariate
performance measures, ICML 2005) with the dynamic programming of Sarawagi and Cohen (2004) in place of sorting.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.graphs.batch_session import Wanted, best_counts
from ssvm_backends.structures.segmentations.segment_scores import (
    Segmented,
    SpanScores,
    SpanWork,
    fill_row,
    fill_segments,
    largest,
    prepare,
    work_space,
    write_segment,
)
from ssvm_dsl.ir import F64, I32, I64, SPAN, STARTS
from ssvm_dsl.kernels import assign, borrow, njit


class Counts(NamedTuple):
    """The counts of states and factors.

    Parameters
    ----------
    state : ndarray of int64, shape (S, 2)
        Two natural numbers for each state of each variable.
    table : ndarray of int64, shape (m, 2)
        Those of joint states: of the last tables of the program.
    first : int
        Where they start among all tables.
    """

    state: I64
    table: I64
    first: int


class CountWork(NamedTuple):
    """Work space for one segmentation.

    Parameters
    ----------
    begin, inside : ndarray of int64, shape (at least n K, 2)
        Counts of a position at which a segment of each class begins, or continues.
    row : ndarray of int64, shape (at least L K, 2)
        Counts of the segments that end before a position, the shortest first.
    run : ndarray of int64, shape (at least K, 2)
        Counts of the positions of a segment after its first one.
    reach : ndarray of int64, shape (at least n + 1, 2)
        The largest counts of the positions before each one.
    place : ndarray of int64, shape (at least n + 1,)
        Where the tables of each start in ``enter``, those of one class after the other.
    step : ndarray of float64, shape (at least K K,)
        What transitions to a position score.
    """

    begin: I64
    inside: I64
    row: I64
    run: I64
    reach: I64
    place: I64
    step: F64


@njit(cache=True, nogil=True)
def count_space(n: int, k: int, longest: int) -> CountWork:
    """Return work space for so many positions, classes, and positions of a segment."""
    return CountWork(
        np.empty((n * k, 2), np.int64), np.empty((n * k, 2), np.int64), np.empty((longest * k, 2), np.int64),
        np.empty((k, 2), np.int64), np.empty((n + 1, 2), np.int64), np.empty(n + 1, np.int64), np.empty(k * k),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def count_positions(seg: Segmented, counts: Counts, i: int, c: int, work: SpanWork, counted: CountWork) -> None:
    """Write what positions count, and spans that are variables where none of them is a segment.

    All counts of a segmentation are those of its segments, and none of these is negative.

    Parameters
    ----------
    seg : Segmented
    counts : Counts
    i, c : int
        The example, and which segmentation.
    work : SpanWork
        Prepared; read only.
    counted : CountWork
        ``begin`` and ``inside`` are written.
    """
    n, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
    lo, begin, inside, state = seg.var_ptr[i], counted.begin, counted.inside, counts.state
    classes, begins = seg.state_ptr[lo + seg.first[c, 0]], seg.state_ptr[lo + seg.first[c, 1]]
    compact = seg.first[c, 2] < 0
    spans = 0 if compact else seg.state_ptr[lo + seg.first[c, 2]]
    for t in range(n):
        for m in range(2):
            none = 0
            for l in range(0 if compact else longest):
                none += state[spans + (t * longest + l) * (k + 1), m]
            for b in range(k):
                inside[t * k + b, m] = state[classes + t * k + b, m] + state[begins + 2 * t, m] + none
                begin[t * k + b, m] = state[classes + t * k + b, m] + state[begins + 2 * t + 1, m] + none
        for f in range(work.factor[t], work.factor[t + 1]):
            at = seg.offset[seg.group[f]] - counts.first
            if seg.kind[f] != STARTS or at < 0:
                continue
            at += (seg.base[seg.group[f], i] + seg.row[f]) * 2 * k
            for b in range(k):
                for m in range(2):
                    inside[t * k + b, m] += counts.table[at + 2 * b, m]
                    begin[t * k + b, m] += counts.table[at + 2 * b + 1, m]


@njit(cache=True, nogil=True)
def count_row(seg: Segmented, counts: Counts, i: int, c: int, work: SpanWork, counted: CountWork, t: int) -> None:
    """Write the counts of the segments that end before a position, the shortest first.

    Parameters
    ----------
    seg : Segmented
    counts : Counts
    i, c, t : int
        The example, which segmentation, and the position.
    work : SpanWork
        Prepared; read only.
    counted : CountWork
        ``begin`` and ``inside`` are read, ``row`` is written.
    """
    k, longest, row, run = seg.n_classes[c], seg.longest[c], counted.row, counted.run
    compact = seg.first[c, 2] < 0
    spans = 0 if compact else seg.state_ptr[seg.var_ptr[i] + seg.first[c, 2]]
    run[:k] = 0
    for l in range(min(longest, t)):
        s = t - l - 1
        span = spans + (s * longest + l) * (k + 1)
        for b in range(k):
            for m in range(2):
                own = 0 if compact else counts.state[span + 1 + b, m] - counts.state[span, m]
                row[l * k + b, m] = counted.begin[s * k + b, m] + run[b, m] + own
                run[b, m] += counted.inside[s * k + b, m]
    for f in range(work.factor[t - 1], work.factor[t]):
        at = seg.offset[seg.group[f]] - counts.first
        if seg.kind[f] == SPAN and at >= 0 and seg.size[f] <= longest:
            at += (seg.base[seg.group[f], i] + seg.row[f]) * k
            for b in range(k):
                for m in range(2):
                    row[(seg.size[f] - 1) * k + b, m] += counts.table[at + b, m]


@njit(cache=True, nogil=True)
def lay_out_counts(
    seg: Segmented, counts: Counts, i: int, c: int, work: SpanWork, counted: CountWork, a_most: int, b_most: int
) -> tuple[int, int]:
    """Find the largest counts before every position, and where its tables go; return their size, and the largest.

    Parameters
    ----------
    seg : Segmented
    counts : Counts
    i, c : int
        The example, and which segmentation.
    work : SpanWork
        Prepared; read only.
    counted : CountWork
        ``reach`` and ``place`` are written.
    a_most, b_most : int
        Largest counts wanted.

    Returns
    -------
    total, most : int
        Numbers in the tables of all positions but the last one, and in those of one position.
    """
    n, k, longest, reach = seg.n[c], seg.n_classes[c], seg.longest[c], counted.reach
    reach[: n + 1] = 0
    total, most = k, k
    counted.place[0] = 0
    for t in range(1, n + 1):
        count_row(seg, counts, i, c, work, counted, t)
        for l in range(min(longest, t)):
            for b in range(k):
                at, s = l * k + b, t - l - 1
                reach[t, 0] = max(reach[t, 0], min(reach[s, 0] + counted.row[at, 0], a_most))
                reach[t, 1] = max(reach[t, 1], min(reach[s, 1] + counted.row[at, 1], b_most))
        size = k * (reach[t, 0] + 1) * (reach[t, 1] + 1)
        counted.place[t] = total
        total, most = total + (size if t < n else 0), max(most, size)
    return total, most


@njit(cache=True, nogil=True)
def raise_all(target: F64, at: int, source: F64, start: int, n: int, more: float) -> None:
    """Raise n numbers from a place on to others, and a number more, where these are larger."""
    target, source = target[at : at + n], source[start : start + n]
    for q in range(n):
        value = source[q] + more
        target[q] = value if value > target[q] else target[q]


@njit(cache=True, nogil=True)
def count_end(seg: Segmented, c: int, work: SpanWork, counted: CountWork, t: int, enter: F64, end: F64) -> None:
    """Write to ``end`` the best score of each class and pair of counts of the positions before t, row by row.

    Parameters
    ----------
    seg : Segmented
    c, t : int
        Which segmentation, and the position.
    work : SpanWork
        ``row`` has the scores of the segments that end before it; read only.
    counted : CountWork
        ``row`` has their counts; read only.
    enter : ndarray of float64
        Tables of the positions before it; read only.
    end : ndarray of float64
        Written: for each class of the last segment a table.
    """
    k, reach, wide = seg.n_classes[c], counted.reach, counted.reach[t, 1] + 1
    end[: k * (reach[t, 0] + 1) * wide] = -np.inf
    for l in range(min(seg.longest[c], t)):
        s = t - l - 1
        width = reach[s, 1] + 1
        for b in range(k):
            score, p_own, q_own = work.row[l * k + b], counted.row[l * k + b, 0], counted.row[l * k + b, 1]
            across = min(width, wide - q_own)
            if score == -np.inf or across <= 0:
                continue
            for p in range(min(reach[s, 0], reach[t, 0] - p_own) + 1):
                source = counted.place[s] + (b * (reach[s, 0] + 1) + p) * width
                raise_all(end, (b * (reach[t, 0] + 1) + p + p_own) * wide + q_own, enter, source, across, score)


@njit(cache=True, nogil=True)
def count_enter(k: int, counted: CountWork, t: int, enter: F64, end: F64) -> None:
    """Write the tables of position t: the best scores with which a segment of each class begins there."""
    size = (counted.reach[t, 0] + 1) * (counted.reach[t, 1] + 1)
    at = counted.place[t]
    enter[at : at + k * size] = -np.inf
    for a in range(k):
        for b in range(k):
            if counted.step[a * k + b] > -np.inf:
                raise_all(enter, at + b * size, end, a * size, size, counted.step[a * k + b])


@njit(cache=True, nogil=True)
def fill_steps(scores: SpanScores, i: int, c: int, work: SpanWork, counted: CountWork, t: int) -> None:
    """Write what transitions to position t score: nothing after the last one."""
    k = scores.seg.n_classes[c]
    fill_row(scores, i, c, work, 2 * t)
    assign(counted.step[: k * k], work.row[: k * k])


@njit(cache=True, nogil=True)
def trace_counts(
    scores: SpanScores, counts: Counts, i: int, c: int, work: tuple[SpanWork, CountWork], enter: F64,
    have: tuple[int, int], labels: I32,
) -> None:  # fmt: skip
    """Write the best segmentation of a pair of counts, its last segment first.

    Parameters
    ----------
    scores : SpanScores
    counts : Counts
    i, c : int
        The example, and which segmentation; it has a position.
    work : tuple of SpanWork and CountWork
        Prepared, and laid out.
    enter : ndarray of float64
        The tables of all positions but the last; read only.
    have : tuple of int
        The counts; there must be a segmentation of them.
    labels : ndarray of int32
        Written; zeros before.
    """
    seg, (plain, counted), (p, q) = scores.seg, work, have
    t, k, longest, following, reach = seg.n[c], seg.n_classes[c], seg.longest[c], -1, counted.reach
    while t > 0:
        fill_steps(scores, i, c, plain, counted, t)
        fill_segments(scores, i, c, plain, t)
        count_row(seg, counts, i, c, plain, counted, t)
        top, length, last = -np.inf, 0, 0
        for l in range(min(longest, t)):
            s = t - l - 1
            for b in range(k):
                at = l * k + b
                p_old, q_old = p - counted.row[at, 0], q - counted.row[at, 1]
                if p_old < 0 or q_old < 0 or p_old > reach[s, 0] or q_old > reach[s, 1]:
                    continue
                value = enter[counted.place[s] + (b * (reach[s, 0] + 1) + p_old) * (reach[s, 1] + 1) + q_old]
                value += plain.row[at] + (counted.step[b * k + following] if following >= 0 else 0.0)
                if value > top:
                    top, length, last = value, l, b
        p, q = p - counted.row[length * k + last, 0], q - counted.row[length * k + last, 1]
        t -= length + 1
        write_segment(seg, c, t, length, last, labels)
        following = last


@njit(cache=True, nogil=True)
def best_by_count(seg: Segmented, pool: F64, node: F64, counts: Counts, examples: I64, wanted: Wanted) -> None:
    """Write the best segmentation by its counts, and its value, for each listed example.

    The worth of a labelling of counts (a, b) is ``offset[a, b] + scale[a, b] * (score + const)``; as scales are not
    negative, only the best score of each pair of counts matters.

    Parameters
    ----------
    seg : Segmented
        With one segmentation in each example at most, and no other variables.
    pool, node : ndarray of float64
        Tables, and unary scores with ``-inf`` at states that masks rule out.
    counts : Counts
    examples : ndarray of int64, shape (m,)
    wanted : Wanted
        ``labels`` and ``worth`` are written.
    """
    scores, wanted = SpanScores(borrow(seg), borrow(pool), borrow(node)), borrow(wanted)
    counts = Counts(borrow(counts.state), borrow(counts.table), counts.first)
    seg, shape = scores.seg, wanted.shape
    n_most, widest, far = largest(seg, examples)
    work, counted = work_space(n_most, widest, far), count_space(n_most, widest, far)
    enter, end = np.empty(0), np.zeros(1)
    for e in range(len(examples)):
        i, n, k = examples[e], 0, 1
        if shape[e, 0] == 0 or shape[e, 1] == 0:
            continue
        base, c = wanted.const[i], seg.ptr[i]
        counted.reach[0], end[0] = 0, 0.0  # of an empty labelling
        if seg.ptr[i + 1] > c and seg.n[c] > 0:
            n, k = seg.n[c], seg.n_classes[c]
            base += prepare(scores, i, c, work)
            count_positions(seg, counts, i, c, work, counted)
            total, most = lay_out_counts(seg, counts, i, c, work, counted, shape[e, 0] - 1, shape[e, 1] - 1)
            enter = enter if len(enter) >= total else np.empty(total)
            end = end if len(end) >= most else np.empty(most)
            enter[:k] = 0.0
            for t in range(1, n + 1):
                fill_segments(scores, i, c, work, t)
                count_row(seg, counts, i, c, work, counted, t)
                count_end(seg, c, work, counted, t, enter, end)
                if t < n:
                    fill_steps(scores, i, c, work, counted, t)
                    count_enter(k, counted, t, enter, end)
        size = (counted.reach[n, 0] + 1) * (counted.reach[n, 1] + 1)
        for last in range(1, k):
            raise_all(end, 0, end, last * size, size, 0.0)
        p_best, q_best = best_counts(wanted, e, base, end[:size], counted.reach[n, 1] + 1)
        if p_best >= 0 and n > 0:
            mine = wanted.labels[wanted.label_ptr[e] :]
            trace_counts(scores, counts, i, c, (work, counted), enter, (p_best, q_best), mine)
