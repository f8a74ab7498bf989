"""What whole segments score: unary scores and tables of an example, written for dynamic programming over segments.

With n positions, K classes and segments of up to L positions, a segmentation scores ::

    base + sum over segments (s, l, k) of score[s, l, k] + sum over successive ones of trans[t, k', k]

where t is the start of the second one, and l + 1 the length.  The score of a segment is what its positions score, what
tables of classes and lengths do, and, where spans are variables, what its own variable scores above "no segment";
``base`` is the sum of the latter over all spans.

Scores of segments are never all there: whoever goes over them has those that end at one position, in O(L K), summed up
anew from those of positions (:func:`fill_row`).  So working memory is O(n K + L K).

A span that has to be a segment (masks and clamps say so) rules out that segments begin within it, and that none begins
at its start and after its end: then nothing else is left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import F64, I8, I32, I64, LENGTHS, NEIGHBOURS, SPAN, STARTS, SUCCESSIVE, Bools
from ssvm_dsl.kernels import assign, njit


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
        First variable of the classes, the beginnings and the spans, counted from the first one of the example; -1 where
        spans are no variables.
    shape : ndarray of int32, shape (B,)
        The shape of each example.
    start : ndarray of int64, shape (S + 1,)
        Factors ``start[s]:start[s + 1]`` are those of shape s, by variable; f in all.
    kind : ndarray of int8, shape (f,)
        The variables of each factor: ``NEIGHBOURS``, ``SUCCESSIVE``, ``STARTS``, ``LENGTHS`` or ``SPAN`` of
        :mod:`ssvm_dsl.ir`.
    variable : ndarray of int32, shape (f,)
        The class of its (second) position, counted from the first variable of the example.
    group : ndarray of int32, shape (f,)
        Its group.
    row, number : ndarray of int32, shape (f,)
        Its table row, counted from ``base``, and its number among those of the group in the example.
    size : ndarray of int32, shape (f,)
        How many positions the span has that the factor scores, which ends with its position; 0 of all other kinds.
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
    size: I32
    base: I64
    offset: I64


class SpanScores(NamedTuple):
    """What segmentations are found for.

    Parameters
    ----------
    seg : Segmented
    pool : ndarray of float64
        All tables, as of :class:`~ssvm_dsl.ir.Theta`.
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that are ruled out.
    """

    seg: Segmented
    pool: F64
    node: F64


class SpanWork(NamedTuple):
    """Work space for one segmentation.

    Parameters
    ----------
    begin, inside : ndarray of float64, shape (at least n K,)
        Scores of a position at which a segment of each class begins, or continues.  A sweep up adds to ``begin`` what
        the positions before it are worth.
    length : ndarray of float64, shape (at least L K,)
        Scores of segments by length (first axis) and class.
    before : ndarray of int16, shape (at least n K,)
        The best class before a segment of each class that begins at a position.
    factor : ndarray of int64, shape (at least n + 1,)
        The factors ``factor[t]:factor[t + 1]`` are those of position t.
    row : ndarray of float64, shape (at least max(L, K) K,)
        Scores of one row of items: of the segments that end before a position, the shortest first; or of a segment of a
        class (the last axis) that begins there after one of another.
    share : ndarray of float64, as long as ``row``
        How likely the segments are that end before a position.
    run : ndarray of float64, shape (at least K,)
        Scores of the positions of a segment after its first one.
    end : ndarray of float64, shape (at least K,)
        The best score of the positions before one whose last segment has each class.
    base : ndarray of float64, shape (1,)
        The score of spans that are no segments.
    has_span_scores : ndarray of bool, shape (1,)
        Whether single spans have scores of their own, by tables or by variables.
    """

    begin: F64
    inside: F64
    length: F64
    before: NDArray[np.int16]
    factor: I64
    row: F64
    share: F64
    run: F64
    end: F64
    base: F64
    has_span_scores: Bools


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
    row = max(longest, k) * k
    return SpanWork(
        np.empty(n * k), np.empty(n * k), np.empty(longest * k), np.empty(n * k, np.int16), np.empty(n + 1, np.int64),
        np.empty(row), np.empty(row), np.empty(k), np.empty(k), np.zeros(1), np.zeros(1, np.bool_),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def prepare(scores: SpanScores, i: int, c: int, work: SpanWork) -> float:
    """Write the scores of positions and lengths; return that of spans that are no segments, ``-inf`` if infeasible.

    Parameters
    ----------
    scores : SpanScores
    i, c : int
        The example, and which segmentation.
    work : SpanWork
        ``begin``, ``inside``, ``length``, ``factor``, ``base`` and ``has_span_scores`` are written.
    """
    seg, node = scores.seg, scores.node
    n, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
    work.base[0], work.has_span_scores[0] = 0.0, seg.first[c, 2] >= 0
    if n == 0:
        return 0.0
    lo = seg.var_ptr[i]
    classes, begins = seg.state_ptr[lo + seg.first[c, 0]], seg.state_ptr[lo + seg.first[c, 1]]
    for t in range(n):
        for b in range(k):
            work.inside[t * k + b] = node[classes + t * k + b] + node[begins + 2 * t]
            work.begin[t * k + b] = node[classes + t * k + b] + node[begins + 2 * t + 1]
    work.length[: longest * k] = 0.0
    add_positions(scores, i, c, work)
    if seg.first[c, 2] >= 0:
        work.base[0] = keep_forced(seg, node, i, c, work)
    return work.base[0]


@njit(cache=True, nogil=True)
def add_positions(scores: SpanScores, i: int, c: int, work: SpanWork) -> None:
    """Find the factors of positions; add their tables, those of transitions apart, to what positions score."""
    seg, pool = scores.seg, scores.pool
    n, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
    f, last = seg.start[seg.shape[i]], seg.start[seg.shape[i] + 1]
    while f < last and seg.variable[f] < seg.first[c, 0]:
        f += 1
    for t in range(n):
        work.factor[t] = f
        while f < last and seg.variable[f] == seg.first[c, 0] + t:
            kind, row = seg.kind[f], seg.base[seg.group[f], i] + seg.row[f]
            at = seg.offset[seg.group[f]]
            for b in range(k):
                if kind == STARTS:
                    work.inside[t * k + b] += pool[at + (row * k + b) * 2]
                    work.begin[t * k + b] += pool[at + (row * k + b) * 2 + 1]
                elif kind == NEIGHBOURS:
                    work.inside[t * k + b] += pool[at + (row * k + b) * k + b]
                elif kind == SUCCESSIVE:
                    work.inside[t * k + b] += pool[at + ((row * k + b) * k + b) * 2]
                elif kind == LENGTHS and t == 0:  # all factors of lengths share a table
                    for l in range(longest):
                        work.length[l * k + b] += pool[at + (row * k + b) * longest + l]
            work.has_span_scores[0] |= seg.size[f] > 0
            f += 1
    work.factor[n] = f


@njit(cache=True, nogil=True)
def keep_forced(seg: Segmented, node: F64, i: int, c: int, work: SpanWork) -> float:
    """Rule out spans that contradict required segments; return the score of spans that are no segments.

    ``-inf`` is returned where a span has to be a segment that does not end within the sequence.
    """
    n, k, longest, base = seg.n[c], seg.n_classes[c], seg.longest[c], 0.0
    first = seg.state_ptr[seg.var_ptr[i] + seg.first[c, 2]]
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
def fill_row(scores: SpanScores, i: int, c: int, work: SpanWork, row: int) -> None:
    """Write the scores of a row of items: in odd rows of the segments that end before (row + 1) / 2, else of
    transitions to the segment that begins at row / 2.
    """
    seg = scores.seg
    if row % 2 == 1:
        fill_segments(scores, i, c, work, (row + 1) // 2)
        return
    k, t = seg.n_classes[c], row // 2
    work.row[: k * k] = 0.0
    for f in range(work.factor[t], work.factor[t + 1] if t < seg.n[c] else work.factor[t]):
        at = seg.offset[seg.group[f]] + (seg.base[seg.group[f], i] + seg.row[f]) * k * k
        if seg.kind[f] == NEIGHBOURS:
            for ab in range(k * k):
                work.row[ab] += scores.pool[at + ab]
        elif seg.kind[f] == SUCCESSIVE:
            at = 2 * at - seg.offset[seg.group[f]]  # two entries for each pair of classes
            for ab in range(k * k):
                work.row[ab] += scores.pool[at + 2 * ab + 1]


@njit(cache=True, nogil=True)
def fill_segments(scores: SpanScores, i: int, c: int, work: SpanWork, t: int) -> None:
    """Write the scores of the segments that end before position t, the shortest first."""
    k, begin, inside, row, run = scores.seg.n_classes[c], work.begin, work.inside, work.row, work.run
    fill_spans(scores, i, c, work, t)
    run[:k] = 0.0
    for l in range(min(scores.seg.longest[c], t)):
        s, at = (t - l - 1) * k, l * k
        for b in range(k):
            row[at + b] += begin[s + b] + run[b]
            run[b] += inside[s + b]


@njit(cache=True, nogil=True)
def fill_spans(scores: SpanScores, i: int, c: int, work: SpanWork, t: int) -> None:
    """Write the scores of the spans that end before position t, by length and as single spans."""
    seg, node, row = scores.seg, scores.node, work.row
    k, longest = seg.n_classes[c], seg.longest[c]
    assign(row[: min(longest, t) * k], work.length)
    if not work.has_span_scores[0]:
        return
    for f in range(work.factor[t - 1], work.factor[t]):
        if seg.kind[f] == SPAN and seg.size[f] <= longest:
            at = seg.offset[seg.group[f]] + (seg.base[seg.group[f], i] + seg.row[f]) * k
            to = (seg.size[f] - 1) * k
            for b in range(k):
                row[to + b] += scores.pool[at + b]
    if seg.first[c, 2] < 0:
        return
    spans = seg.state_ptr[seg.var_ptr[i] + seg.first[c, 2]]
    for l in range(min(longest, t)):
        span = spans + ((t - l - 1) * longest + l) * (k + 1)
        off = node[span] if node[span] > -np.inf else 0.0
        for b in range(k):
            row[l * k + b] += node[span + 1 + b] - off


@njit(cache=True, nogil=True)
def write_segment(seg: Segmented, c: int, s: int, l: int, b: int, labels: I32) -> None:
    """Write the states of a segment of class b from s that is l + 1 long to the labels of its example."""
    for t in range(s, s + l + 1):
        labels[seg.first[c, 0] + t] = b
        labels[seg.first[c, 1] + t] = t == s
    if seg.first[c, 2] >= 0:
        labels[seg.first[c, 2] + s * seg.longest[c] + l] = b + 1
