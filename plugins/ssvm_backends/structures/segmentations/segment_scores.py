"""What whole segments score: unary scores and tables of an example, gathered for dynamic programming over segments.

With n positions, K classes and segments of up to L positions, a segmentation scores ::

    base + sum over segments (s, l, k) of score[s, l, k] + sum over successive ones of trans[t, k', k]

where t is the start of the second one, and l + 1 the length.  ``score`` holds what all positions of the segment score,
and what its own variable scores above "no segment"; ``base`` is the sum of the latter over all spans.

A span that has to be a segment (masks and clamps say so) rules out that segments begin within it, and that none begins
at its start and after its end: then nothing else is left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I8, I32, I64, NEIGHBOURS, STARTS, SUCCESSIVE
from ssvm_dsl.kernels import njit


class Segmented(NamedTuple):
    """The segmentations of a program, and its factors.

    Parameters
    ----------
    var_ptr, state_ptr : ndarray of int64
        As of :class:`~ssvm_dsl.ir.Program`.
    ptr : ndarray of int64, shape (B + 1,)
        Segmentations ``ptr[i]:ptr[i + 1]`` are those of example i; m in all.
    n, n_classes, longest : ndarray of int64, shape (m,)
        Positions n, classes K, and most positions of a segment L.
    first : ndarray of int64, shape (m, 3)
        First variable of the classes, the beginnings and the spans, counted from the first one of the example.
    shape : ndarray of int32, shape (B,)
        The shape of each example.
    start : ndarray of int64, shape (S + 1,)
        Factors ``start[s]:start[s + 1]`` are those of shape s; f in all.
    kind : ndarray of int8, shape (f,)
        What each factor joins: ``NEIGHBOURS``, ``SUCCESSIVE`` or ``STARTS`` of :mod:`ssvm_dsl.ir`.
    variable : ndarray of int32, shape (f,)
        The class of its (second) position, counted from the first variable of the example.
    group : ndarray of int32, shape (f,)
        Its group.
    row, number : ndarray of int32, shape (f,)
        Its table row, counted from ``base``, and its number among those of the group in the example.
    base : ndarray of int64, shape (G, B)
        First table row of each group in each example.
    offset : ndarray of int64, shape (G,)
        Where the tables of each group start in ``theta.pool``.
    """

    var_ptr: I64
    state_ptr: I64
    ptr: I64
    n: I64
    n_classes: I64
    longest: I64
    first: I64
    shape: I32
    start: I64
    kind: I8
    variable: I32
    group: I32
    row: I32
    number: I32
    base: I64
    offset: I64


class SpanWork(NamedTuple):
    """Work space for one segmentation.

    Parameters
    ----------
    begin, inside : ndarray of float64, shape (at least n K,)
        What a position scores that a segment of each class begins at, or goes on at.
    trans : ndarray of float64, shape (at least n K K,)
        What it scores that a segment of a class (the last axis) begins at t after one of another (the middle axis).
    score : ndarray of float64, shape (at least n L K,)
        What each whole segment scores; of spans that end within the sequence only.
    """

    begin: F64
    inside: F64
    trans: F64
    score: F64


@njit(cache=True, nogil=True)
def largest(seg: Segmented, ids: I64) -> tuple[int, int, int]:
    """Return the most positions, classes, and positions of a segment, of the segmentations of some examples."""
    n, k, longest = 0, 1, 1
    for i in ids:
        for c in range(seg.ptr[i], seg.ptr[i + 1]):
            n, k, longest = max(n, seg.n[c]), max(k, seg.n_classes[c]), max(longest, seg.longest[c])
    return n, k, longest


@njit(cache=True, nogil=True)
def work_space(n: int, k: int, longest: int) -> SpanWork:
    """Return work space for so many positions, classes, and positions of a segment."""
    return SpanWork(np.empty(n * k), np.empty(n * k), np.empty(n * k * k), np.empty(n * longest * k))


@njit(cache=True, nogil=True)
def add_factors(seg: Segmented, pool: F64, i: int, c: int, work: SpanWork) -> None:
    """Add the tables of the factors of segmentation c of example i to ``begin``, ``inside`` and ``trans``."""
    n, k = seg.n[c], seg.n_classes[c]
    for f in range(seg.start[seg.shape[i]], seg.start[seg.shape[i] + 1]):
        t = seg.variable[f] - seg.first[c, 0]
        if t < 0 or t >= n:
            continue
        kind, row = seg.kind[f], seg.base[seg.group[f], i] + seg.row[f]
        if kind == STARTS:
            at = seg.offset[seg.group[f]] + row * 2 * k
            for b in range(k):
                work.inside[t * k + b] += pool[at + 2 * b]
                work.begin[t * k + b] += pool[at + 2 * b + 1]
        elif kind == NEIGHBOURS:
            at = seg.offset[seg.group[f]] + row * k * k
            for ab in range(k * k):
                work.trans[t * k * k + ab] += pool[at + ab]
            for b in range(k):
                work.inside[t * k + b] += pool[at + b * k + b]
        elif kind == SUCCESSIVE:
            at = seg.offset[seg.group[f]] + row * 2 * k * k
            for ab in range(k * k):
                work.trans[t * k * k + ab] += pool[at + 2 * ab + 1]
            for b in range(k):
                work.inside[t * k + b] += pool[at + 2 * (b * k + b)]


@njit(cache=True, nogil=True)
def keep_forced(seg: Segmented, node: F64, i: int, c: int, work: SpanWork) -> float:
    """Rule out what spans that have to be segments leave no room for; return what spans score that are none.

    ``-inf`` is returned where a span has to be a segment that does not end within the sequence.
    """
    n, k, longest, base = seg.n[c], seg.n_classes[c], seg.longest[c], 0.0
    first = seg.state_ptr[seg.var_ptr[i] + seg.first[c, 2]] if n else 0
    for s in range(n):
        for l in range(longest):
            off = node[first + (s * longest + l) * (k + 1)]
            if off > -np.inf:
                base += off
                continue
            stop = s + l + 1
            if stop > n:
                return -np.inf
            work.inside[s * k : (s + 1) * k] = -np.inf
            work.begin[(s + 1) * k : stop * k] = -np.inf
            if stop < n:
                work.inside[stop * k : (stop + 1) * k] = -np.inf
    return base


@njit(cache=True, nogil=True)
def gather(seg: Segmented, pool: F64, node: F64, i: int, c: int, work: SpanWork) -> float:
    """Write the scores of all segments, and of successive ones; return ``base``, ``-inf`` if there is no segmentation.

    Parameters
    ----------
    seg : Segmented
    pool : ndarray of float64
        All tables, as of :class:`~ssvm_dsl.ir.Theta`.
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that are ruled out.
    i, c : int
        The example, and which segmentation.
    work : SpanWork
        ``trans`` and ``score`` are written.
    """
    n, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
    if n == 0:
        return 0.0
    lo = seg.var_ptr[i]
    classes, begins = seg.state_ptr[lo + seg.first[c, 0]], seg.state_ptr[lo + seg.first[c, 1]]
    spans = seg.state_ptr[lo + seg.first[c, 2]]
    for t in range(n):
        for b in range(k):
            work.inside[t * k + b] = node[classes + t * k + b] + node[begins + 2 * t]
            work.begin[t * k + b] = node[classes + t * k + b] + node[begins + 2 * t + 1]
    work.trans[: n * k * k] = 0.0
    add_factors(seg, pool, i, c, work)
    base = keep_forced(seg, node, i, c, work)
    for s in range(n):
        run = work.begin[s * k : (s + 1) * k]
        for l in range(min(longest, n - s)):
            at, span = (s * longest + l) * k, spans + (s * longest + l) * (k + 1)
            off = node[span] if node[span] > -np.inf else 0.0
            if l > 0:
                for b in range(k):
                    run[b] += work.inside[(s + l) * k + b]
            for b in range(k):
                work.score[at + b] = run[b] + node[span + 1 + b] - off
    return base


@njit(cache=True, nogil=True)
def write_segment(seg: Segmented, c: int, s: int, l: int, b: int, labels: I32) -> None:
    """Write the states of a segment of class b from s that is l + 1 long to the labels of its example."""
    for t in range(s, s + l + 1):
        labels[seg.first[c, 0] + t] = b
        labels[seg.first[c, 1] + t] = t == s
    labels[seg.first[c, 2] + s * seg.longest[c] + l] = b + 1
