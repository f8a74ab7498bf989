"""Sums over all segmentations: log partitions and marginals, forward and backward over segments in O(n K (L + K)).

The recursion: :mod:`ssvm_backends.structures.segmentations.best_segments`.  Its sweep down says how likely each segment
and each transition is, and with which class one begins at a position; what a position has inside a segment is added up
from the segments that end after it, the longest first.  All that reaches a position is known when its turn comes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.graphs.recursions import SHARE, SUM, Items, join_rows
from ssvm_backends.structures.segmentations.best_segments import segment_ways, sweep_up
from ssvm_backends.structures.segmentations.segment_scores import (
    Segmented,
    SpanScores,
    SpanWork,
    fill_row,
    largest,
    prepare,
    work_space,
)
from ssvm_dsl.ir import F64, I64, LENGTHS, NEIGHBOURS, STARTS, SUCCESSIVE
from ssvm_dsl.kernels import borrow, njit


class SegmentSums(NamedTuple):
    """Where marginals are written.

    Parameters
    ----------
    node : ndarray of float64
        A number for each state of the examples asked for.
    start : ndarray of int64, shape (at least m,)
        Where those of each example start.
    tables : ndarray of float64
        The tables of all groups, one group after the other.
    table_start : ndarray of int64, shape (G, at least m)
        Where those of the first factor of each group in each example start; of lengths the sums over all factors.
    """

    node: F64
    start: I64
    tables: F64
    table_start: I64


class PositionShares(NamedTuple):
    """What a sweep down has found of a position.

    Parameters
    ----------
    outer : ndarray of float64
        How likely each item is.
    inside : ndarray of float64, shape (n K,)
        How likely a segment of each class goes on at each position.
    work : SpanWork
        ``share`` has the transitions to the position.
    """

    outer: F64
    inside: F64
    work: SpanWork


@njit(cache=True, nogil=True)
def sweep_down(scores: SpanScores, i: int, e: int, c: int, work: SpanWork, items: Items, answer: SegmentSums) -> None:
    """Write the marginals of a segmentation, after a sweep up.

    Parameters
    ----------
    scores : SpanScores
    i, e, c : int
        The example, its place in the answer, and which segmentation.
    work : SpanWork
        ``row``, ``share`` and ``run`` are written.
    items : Items
        ``outer`` is written.
    answer : SegmentSums
        Written.
    """
    seg = scores.seg
    n, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
    items.outer[: 2 * n * k] = 0.0
    items.outer[2 * n * k] = 1.0
    inside = np.zeros(n * k)
    clear_tables(seg, i, e, c, answer)
    for row in range(2 * n, 0, -1):
        fill_row(scores, i, c, work, row)
        join_rows(SHARE, items, row * k, segment_ways(n, k, longest, row), work.row, work.share)
        if row % 2 == 1:
            add_inside((row + 1) // 2, k, longest, work, inside)
            write_segments(seg, i, e, c, (row + 1) // 2, work.share, answer)
        elif row < 2 * n:
            write_position(seg, i, e, c, row // 2, PositionShares(items.outer, inside, work), answer)
    write_position(seg, i, e, c, 0, PositionShares(items.outer, inside, work), answer)


@njit(cache=True, nogil=True)
def clear_tables(seg: Segmented, i: int, e: int, c: int, answer: SegmentSums) -> None:
    """Set tables that are added to, and the marginals of spans that reach beyond the end, to zero."""
    n, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
    for f in range(seg.start[seg.shape[i]], seg.start[seg.shape[i] + 1]):
        if seg.kind[f] == LENGTHS and seg.variable[f] == seg.first[c, 0]:
            at = answer.table_start[seg.group[f], e]
            answer.tables[at : at + k * longest] = 0.0
    if seg.first[c, 2] >= 0:
        lo = seg.var_ptr[i]
        span = answer.start[e] + seg.state_ptr[lo + seg.first[c, 2]] - seg.state_ptr[lo]
        for at in range(n * longest):
            answer.node[span + at * (k + 1)] = 1.0
            answer.node[span + at * (k + 1) + 1 : span + (at + 1) * (k + 1)] = 0.0


@njit(cache=True, nogil=True)
def add_inside(t: int, k: int, longest: int, work: SpanWork, inside: F64) -> None:
    """Add the probability that a segment that ends before position t contains a position, but does not begin there.

    Parameters
    ----------
    t, k, longest : int
        The position, the number of classes, and the length of the longest segment.
    work : SpanWork
        ``share`` has the probabilities of the segments, the shortest first; ``run`` is overwritten.
    inside : ndarray of float64, shape (at least n k,)
        The sums by position and class; added to.
    """
    run = work.run
    run[:k] = 0.0
    for l in range(min(longest, t) - 1, 0, -1):
        at = (t - l) * k
        for b in range(k):
            run[b] += work.share[l * k + b]
            inside[at + b] += run[b]


@njit(cache=True, nogil=True)
def write_segments(seg: Segmented, i: int, e: int, c: int, t: int, share: F64, answer: SegmentSums) -> None:
    """Write the probabilities of the segments that end before a position, and add them up by length.

    Parameters
    ----------
    seg : Segmented
    i, e, c : int
        The example, its place in the answer, and which segmentation.
    t : int
        The position.
    share : ndarray of float64, shape (at least L K,)
        Their probabilities, the shortest segments first.
    answer : SegmentSums
        Written.
    """
    k, longest = seg.n_classes[c], seg.longest[c]
    for f in range(seg.start[seg.shape[i]], seg.start[seg.shape[i] + 1]):
        if seg.variable[f] > seg.first[c, 0]:
            break
        if seg.kind[f] == LENGTHS and seg.variable[f] == seg.first[c, 0]:
            at = answer.table_start[seg.group[f], e]
            for b in range(k):
                for l in range(min(longest, t)):
                    answer.tables[at + b * longest + l] += share[l * k + b]
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
def write_position(seg: Segmented, i: int, e: int, c: int, t: int, found: PositionShares, answer: SegmentSums) -> None:
    """Write the probabilities of the states of a position and of the joint states of its factors.

    Parameters
    ----------
    seg : Segmented
    i, e, c : int
        The example, its place in the answer, and which segmentation.
    t : int
        The position.
    found : PositionShares
        All that reaches the position.
    answer : SegmentSums
        Written.
    """
    k, lo, out = seg.n_classes[c], seg.var_ptr[i], answer.tables
    base = answer.start[e] - seg.state_ptr[lo]
    classes = base + seg.state_ptr[lo + seg.first[c, 0] + t]
    begins = base + seg.state_ptr[lo + seg.first[c, 1] + t]
    begin, inside, share = found.outer[2 * t * k :], found.inside[t * k :], found.work.share
    total = 0.0
    for b in range(k):
        answer.node[classes + b] = begin[b] + inside[b]
        total += begin[b]
    answer.node[begins], answer.node[begins + 1] = max(1.0 - total, 0.0), total
    for f in range(found.work.factor[t], found.work.factor[t + 1]):
        kind, at = seg.kind[f], answer.table_start[seg.group[f], e]
        if kind == STARTS:
            at += seg.number[f] * 2 * k
            for b in range(k):
                out[at + 2 * b], out[at + 2 * b + 1] = inside[b], begin[b]
        elif kind != LENGTHS:
            at += seg.number[f] * (2 * k * k if kind == SUCCESSIVE else k * k)
            for a in range(k):
                for b in range(k):
                    ab, p, stays = a * k + b, share[a * k + b], inside[b] if a == b else 0.0
                    if kind == NEIGHBOURS:
                        out[at + ab] = p + stays
                    else:
                        out[at + 2 * ab], out[at + 2 * ab + 1] = stays, p


@njit(cache=True, nogil=True)
def sum_segmentations(seg: Segmented, pool: F64, node: F64, ids: I64, answer: SegmentSums, log_z: F64) -> None:
    """Write the marginals of the segmentations of some examples; add their log partitions.

    Parameters
    ----------
    seg : Segmented
    pool : ndarray of float64
        All tables.
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that are ruled out.
    ids : ndarray of int64, shape (m,)
        The examples.
    answer : SegmentSums
        Written.
    log_z : ndarray of float64, shape (m,)
        Added to; ``-inf`` where there is no segmentation.
    """
    scores, answer = SpanScores(borrow(seg), borrow(pool), borrow(node)), borrow(answer)
    seg = scores.seg
    most, widest, far = largest(seg, ids)
    work, size = work_space(most, widest, far), (2 * most + 1) * widest
    items = Items(np.empty(size), np.empty(size), np.empty(max(widest, far)), np.empty(0, np.int64))
    for e in range(len(ids)):
        i = ids[e]
        for c in range(seg.ptr[i], seg.ptr[i + 1]):
            n, k, total = seg.n[c], seg.n_classes[c], -np.inf
            base = prepare(scores, i, c, work)
            if n == 0:
                continue
            if base > -np.inf:
                sweep_up(SUM, scores, i, c, work, items, (0, 2 * seg.n[c] + 1))
                total = items.value[2 * n * k]
            log_z[e] += base + total
            if total > -np.inf:
                sweep_down(scores, i, e, c, work, items, answer)
