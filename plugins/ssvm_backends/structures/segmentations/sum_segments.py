"""Sums over all segmentations: log partitions and marginals, forward and backward over segments in O(n K (L + K)).

The recursion: :mod:`ssvm_backends.structures.segmentations.best_segments`.  The sweep up keeps one number for each
position and class.  The sweep down works out anew what the segments that end at a position contribute; it says how
likely each of them and each transition is, and with which class one begins at a position.  What a position has inside a
segment is added up from the segments that end after it, the longest first.  All that reaches a position is known when
its turn comes, so that this is kept for a window of positions as long as the longest segment.

Shares are divided by their sum: scores may be so large that they absorb the logarithm of the number of segments.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.structures.segmentations.segment_scores import (
    Segmented,
    SpanScores,
    SpanWork,
    fill_row,
    fill_spans,
    largest,
    prepare,
    work_space,
)
from ssvm_dsl.ir import F64, I64, LENGTHS, NEIGHBOURS, SPAN, STARTS, SUCCESSIVE
from ssvm_dsl.kernels import borrow, exp_all, njit


class SegmentSums(NamedTuple):
    """Where marginals are written.

    Parameters
    ----------
    example : ndarray of int64, shape (m,)
        The examples asked for.
    node : ndarray of float64
        A number for each state of these examples.
    start : ndarray of int64, shape (at least m,)
        Where those of each example start.
    tables : ndarray of float64
        The tables of all groups, one group after the other.
    table_start : ndarray of int64, shape (G, at least m)
        Where those of the first factor of each group in each example start; of lengths the sums over all factors.
        Without columns, tables are those of the program: factors that share a row are added up.
    coef : ndarray of float64, shape (at least m,)
        The factors of each example's tables.
    """

    example: I64
    node: F64
    start: I64
    tables: F64
    table_start: I64
    coef: F64


@njit(cache=True, nogil=True, borrowed=True)
def table_place(seg: Segmented, i: int, e: int, f: int, size: int, answer: SegmentSums) -> int:
    """Return where the table of factor f of an example is, of so many entries."""
    g = seg.group[f]
    if answer.table_start.shape[1] == 0:
        return seg.offset[g] + (seg.base[g, i] + seg.row[f]) * size
    return answer.table_start[g, e] + seg.number[f] * size


class SpanWindow(NamedTuple):
    """Results of a sweep down for the last positions: as many as the longest segment has, and one more.

    Parameters
    ----------
    outer, inside : ndarray of float64, shape (at least (L + 1) K,)
        How likely a segment of each class begins at each of them, or continues there; position t is at t modulo L + 1.
    total : ndarray of float64, shape (at least L K,)
        The expected number of segments of each length and class.
    """

    outer: F64
    inside: F64
    total: F64


@njit(cache=True, nogil=True)
def window(k: int, longest: int) -> SpanWindow:
    """Return an empty window."""
    return SpanWindow(np.zeros((longest + 1) * k), np.zeros((longest + 1) * k), np.zeros(longest * k))


@njit(cache=True, nogil=True, borrowed=True)
def sum_ends(k: int, t: int, most: int, spans: F64, work: SpanWork) -> None:
    """Write ``end`` of the positions before t: logarithms of sums over those whose last segment has each class.

    Parameters
    ----------
    k, t, most : int
        Classes, the position, and positions of a segment that ends before it at most.
    spans : ndarray of float64, shape (at least most K,)
        Scores of segments as such, the shortest first.
    work : SpanWork
        ``end`` is written; so are ``share``, what each segment contributes to the sum of its class, and ``run``, the
        sum itself.
    """
    begin, inside, share, run, end = work.begin, work.inside, work.share, work.run, work.end
    for b in range(k):
        run[b], end[b] = 0.0, -np.inf
    for l in range(most):
        s, at = (t - l - 1) * k, l * k
        for b in range(k):
            x = begin[s + b] + run[b] + spans[at + b]
            share[at + b] = x
            end[b] = x if x > end[b] else end[b]
            run[b] += inside[s + b]
    for b in range(k):
        run[b] = end[b] if end[b] > -np.inf else 0.0
    for l in range(most):
        for b in range(k):
            share[l * k + b] -= run[b]
    exp_all(share, most * k)
    run[:k] = 0.0
    for l in range(most):
        for b in range(k):
            run[b] += share[l * k + b]
    for b in range(k):
        end[b] += np.log(run[b]) if run[b] > 0.0 else 0.0


@njit(cache=True, nogil=True, borrowed=True)
def sum_over(values: F64, at: int, step: int, n: int) -> float:
    """Replace numbers by their shares of the sum of their exponentials; return the logarithm of that sum."""
    top, whole = -np.inf, 0.0
    for a in range(n):
        top = max(top, values[at + a * step])
    if top == -np.inf:
        for a in range(n):
            values[at + a * step] = 0.0
        return top
    for a in range(n):
        values[at + a * step] = np.exp(values[at + a * step] - top)
        whole += values[at + a * step]
    for a in range(n):
        values[at + a * step] /= whole
    return top + np.log(whole)


@njit(cache=True, nogil=True)
def sweep_up(scores: SpanScores, i: int, c: int, work: SpanWork, start: int, stop: int) -> float:
    """Go over the ends of segments at positions start to stop - 1, of 1 to n; return log Z after the last one.

    Parameters are those of :func:`~ssvm_backends.structures.segmentations.best_segments.make_ends`.
    """
    n, k = scores.seg.n[c], scores.seg.n_classes[c]
    if start == 1:
        prepare(scores, i, c, work)
    if work.base[0] == -np.inf or n == 0:
        return work.base[0]
    for t in range(start, stop):
        sums_before(scores, i, c, work, t)
        if t < n:
            for b in range(k):
                work.begin[t * k + b] += sum_over(work.row, b, k, k)
    return 0.0 if stop <= n else work.base[0] + sum_over(work.end, 0, 1, k)


@njit(cache=True, nogil=True)
def sums_before(scores: SpanScores, i: int, c: int, work: SpanWork, t: int) -> None:
    """Write ``end`` and what goes with it, and to ``row`` the sums that a transition to position t is added to."""
    n, k, longest = scores.seg.n[c], scores.seg.n_classes[c], scores.seg.longest[c]
    has_span_scores = work.has_span_scores[0]
    if has_span_scores:
        fill_spans(scores, i, c, work, t)
    sum_ends(k, t, min(longest, t), work.row if has_span_scores else work.length, work)
    if t < n:
        fill_row(scores, i, c, work, 2 * t)
        for a in range(k):
            for b in range(k):
                work.row[a * k + b] += work.end[a]


@njit(cache=True, nogil=True)
def sweep_down(
    scores: SpanScores, e: int, c: int, work: SpanWork, start: int, stop: int, near: SpanWindow, answer: SegmentSums
) -> None:
    """Write the marginals of a segmentation, after a sweep up.

    Parameters
    ----------
    scores : SpanScores
    e, c : int
        The place of the example in the answer, and which segmentation.
    work : SpanWork
        As the sweep up left it.
    start, stop : int
        The ends of segments to go over, from stop - 1 down to start; all larger ones were gone over before.
    near : SpanWindow
        Empty at first.
    answer : SegmentSums
        Written.
    """
    seg, i = scores.seg, answer.example[e]
    n, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
    if stop > n:
        clear_spans(seg, i, e, c, answer)
    for t in range(stop - 1, start - 1, -1):
        sums_before(scores, i, c, work, t)
        slot = t % (longest + 1) * k
        if t == n:
            sum_over(work.end, 0, 1, k)
        else:
            for b in range(k):
                sum_over(work.row, b, k, k)
            work.end[:k] = 0.0
            for a in range(k):
                for b in range(k):
                    work.row[a * k + b] *= near.outer[slot + b]
                    work.end[a] += work.row[a * k + b]
            write_position(seg, i, e, c, t, near, work, answer)
        likely = False
        for b in range(k):
            likely |= work.end[b] > 0.0
            work.end[b] /= max(work.run[b], 1.0)  # the largest share is 1, unless there is none
        near.outer[slot : slot + k] = near.inside[slot : slot + k] = 0.0
        if likely:
            share_segments(k, t, min(longest, t), longest, work, near)
            write_segments(seg, i, e, c, t, work, answer)
    if start == 1:
        write_position(seg, i, e, c, 0, near, work, answer)
        write_lengths(seg, i, e, c, near.total, answer)


@njit(cache=True, nogil=True)
def share_segments(k: int, t: int, most: int, longest: int, work: SpanWork, near: SpanWindow) -> None:
    """Share out the probabilities of classes that end before position t among the segments that do.

    Parameters
    ----------
    k, t, most, longest : int
        The number of classes, the position, the most positions of a segment that ends before it, and of any.
    work : SpanWork
        ``share`` has what each segment contributes, ``end`` what to multiply it by; ``run`` is overwritten.
    near : SpanWindow
        Added to.
    """
    share, run, end = work.share, work.run, (longest + 1) * k
    slot = (t - most) % (longest + 1) * k
    run[:k] = 0.0
    for l in range(most - 1, -1, -1):  # of a position inside, all longer segments
        at = l * k
        for b in range(k):
            p = share[at + b] * work.end[b]
            share[at + b] = p
            near.total[at + b] += p
            near.outer[slot + b] += p
            near.inside[slot + b] += run[b]
            run[b] += p
        slot += k
        slot = 0 if slot == end else slot


@njit(cache=True, nogil=True)
def clear_spans(seg: Segmented, i: int, e: int, c: int, answer: SegmentSums) -> None:
    """Set the marginals of spans that are variables to those of no segment."""
    n, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
    if seg.first[c, 2] >= 0:
        lo = seg.var_ptr[i]
        span = answer.start[e] + seg.state_ptr[lo + seg.first[c, 2]] - seg.state_ptr[lo]
        for at in range(n * longest):
            answer.node[span + at * (k + 1)] = 1.0
            answer.node[span + at * (k + 1) + 1 : span + (at + 1) * (k + 1)] = 0.0


@njit(cache=True, nogil=True)
def write_lengths(seg: Segmented, i: int, e: int, c: int, total: F64, answer: SegmentSums) -> None:
    """Write the expected number of segments by length and class."""
    k, longest = seg.n_classes[c], seg.longest[c]
    for f in range(seg.start[seg.shape[i]], seg.start[seg.shape[i] + 1]):
        if seg.variable[f] > seg.first[c, 0]:
            break
        if seg.kind[f] == LENGTHS and seg.variable[f] == seg.first[c, 0]:
            at = table_place(seg, i, e, f, k * longest, answer)
            for b in range(k):
                for l in range(longest):
                    answer.tables[at + b * longest + l] += answer.coef[e] * total[l * k + b]


@njit(cache=True, nogil=True)
def write_segments(seg: Segmented, i: int, e: int, c: int, t: int, work: SpanWork, answer: SegmentSums) -> None:
    """Write the probabilities of the segments that end before a position.

    Parameters
    ----------
    seg : Segmented
    i, e, c : int
        The example, its place in the answer, and which segmentation.
    t : int
        The position.
    work : SpanWork
        ``share`` has their probabilities, the shortest segments first.
    answer : SegmentSums
        Written.
    """
    k, longest, share = seg.n_classes[c], seg.longest[c], work.share
    if not work.has_span_scores[0]:
        return
    for f in range(work.factor[t - 1], work.factor[t]):
        if seg.kind[f] == SPAN and seg.size[f] <= longest:
            at, first_share = table_place(seg, i, e, f, k, answer), (seg.size[f] - 1) * k
            for b in range(k):
                answer.tables[at + b] += answer.coef[e] * share[first_share + b]
    if seg.first[c, 2] < 0:
        return
    lo = seg.var_ptr[i]
    span = answer.start[e] + seg.state_ptr[lo + seg.first[c, 2]] - seg.state_ptr[lo]
    for l in range(min(longest, t)):
        at, total = span + ((t - l - 1) * longest + l) * (k + 1), 0.0
        for b in range(k):
            answer.node[at + 1 + b] = share[l * k + b]
            total += share[l * k + b]
        answer.node[at] = max(1.0 - total, 0.0)


@njit(cache=True, nogil=True)
def write_position(
    seg: Segmented, i: int, e: int, c: int, t: int, near: SpanWindow, work: SpanWork, answer: SegmentSums
) -> None:
    """Write the probabilities of the states of a position and of the joint states of its factors.

    Parameters
    ----------
    seg : Segmented
    i, e, c : int
        The example, its place in the answer, and which segmentation.
    t : int
        The position.
    near : SpanWindow
        All that reaches the position.
    work : SpanWork
        ``row`` has the probabilities of transitions to it.
    answer : SegmentSums
        Written.
    """
    k, lo, out = seg.n_classes[c], seg.var_ptr[i], answer.tables
    base = answer.start[e] - seg.state_ptr[lo]
    classes = base + seg.state_ptr[lo + seg.first[c, 0] + t]
    begins = base + seg.state_ptr[lo + seg.first[c, 1] + t]
    slot, share = t % (seg.longest[c] + 1) * k, work.row
    begin, inside = near.outer[slot:], near.inside[slot:]
    total = 0.0
    for b in range(k):
        answer.node[classes + b] = begin[b] + inside[b]
        total += begin[b]
    answer.node[begins], answer.node[begins + 1] = max(1.0 - total, 0.0), total
    coef = answer.coef[e]
    for f in range(work.factor[t], work.factor[t + 1]):
        kind = seg.kind[f]
        if kind == STARTS:
            at = table_place(seg, i, e, f, 2 * k, answer)
            for b in range(k):
                out[at + 2 * b] += coef * inside[b]
                out[at + 2 * b + 1] += coef * begin[b]
        elif kind in (SUCCESSIVE, NEIGHBOURS):
            step = 2 if kind == SUCCESSIVE else 1
            at = table_place(seg, i, e, f, step * k * k, answer)
            for ab in range(k * k):  # that of segments that continue, and of those that begin, in one place or two
                out[at + step * ab + step - 1] += coef * share[ab]
            for b in range(k):
                out[at + step * (b * k + b)] += coef * inside[b]


@njit(cache=True, nogil=True)
def sum_segmentations(seg: Segmented, pool: F64, node: F64, answer: SegmentSums, log_z: F64) -> None:
    """Write the marginals of the segmentations of some examples; add their log partitions.

    Parameters
    ----------
    seg : Segmented
    pool : ndarray of float64
        All tables.
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that are ruled out.
    answer : SegmentSums
        Written.
    log_z : ndarray of float64, shape (m,)
        Added to; ``-inf`` where there is no segmentation.
    """
    scores, answer = SpanScores(borrow(seg), borrow(pool), borrow(node)), borrow(answer)
    seg = scores.seg
    most, widest, far = largest(seg, answer.example)
    work = work_space(most, widest, far)
    for e in range(len(answer.example)):
        i = answer.example[e]
        for c in range(seg.ptr[i], seg.ptr[i + 1]):
            n, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
            total = sweep_up(scores, i, c, work, 1, n + 1)
            log_z[e] += total
            if total > -np.inf and n > 0:
                sweep_down(scores, e, c, work, 1, n + 1, window(k, longest), answer)
