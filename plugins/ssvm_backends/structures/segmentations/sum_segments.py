"""Sums over all segmentations: log partitions and marginals, forward and backward over segments in O(n K (L + K)).

The recursion: :mod:`ssvm_backends.structures.segmentations.best_segments`.  Its sweep down says how likely each segment
and each transition is, and with which class one begins at a position; what a position has inside a segment follows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.graphs.recursions import SHARE, SUM, Items
from ssvm_backends.structures.segmentations.best_segments import sweep_segments
from ssvm_backends.structures.segmentations.segment_scores import Segmented, SpanWork, gather, largest, work_space
from ssvm_dsl.ir import F64, I64, NEIGHBOURS, STARTS, SUCCESSIVE
from ssvm_dsl.kernels import assign, borrow, njit


class Answer(NamedTuple):
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
        Where those of the first factor of each group in each example start.
    """

    node: F64
    start: I64
    tables: F64
    table_start: I64


@njit(cache=True, nogil=True)
def write_marginals(seg: Segmented, i: int, c: int, outer: F64, shares: SpanWork, node: F64) -> None:
    """Write how likely the states of the variables of segmentation c are; fill ``begin`` and ``inside`` of shares.

    Parameters
    ----------
    seg : Segmented
    i, c : int
        The example, and which segmentation.
    outer : ndarray of float64
        How likely each item is.
    shares : SpanWork
        How likely each score is part of the segmentation.
    node : ndarray of float64
        Marginals of the states of the example; written.
    """
    n, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
    lo = seg.var_ptr[i]
    classes, begins = seg.state_ptr[lo + seg.first[c, 0]], seg.state_ptr[lo + seg.first[c, 1]]
    spans, base = seg.state_ptr[lo + seg.first[c, 2]], seg.state_ptr[lo]
    shares.inside[: n * k] = 0.0
    for s in range(n):
        assign(shares.begin[s * k : (s + 1) * k], outer[2 * s * k : (2 * s + 1) * k])
        span = spans - base + s * longest * (k + 1)
        node[span : span + longest * (k + 1)] = 0.0
        for l in range(min(longest, n - s)):
            for b in range(k):
                p = shares.score[(s * longest + l) * k + b]
                node[span + l * (k + 1) + 1 + b] = p
                if p > 0.0:
                    for t in range(s + 1, s + l + 1):
                        shares.inside[t * k + b] += p
        for l in range(longest):
            at = span + l * (k + 1)
            node[at] = max(1.0 - node[at + 1 : at + 1 + k].sum(), 0.0)
    for t in range(n):
        total = 0.0
        for b in range(k):
            node[classes - base + t * k + b] = shares.begin[t * k + b] + shares.inside[t * k + b]
            total += shares.begin[t * k + b]
        node[begins - base + 2 * t], node[begins - base + 2 * t + 1] = max(1.0 - total, 0.0), total


@njit(cache=True, nogil=True)
def write_tables(seg: Segmented, i: int, e: int, c: int, shares: SpanWork, answer: Answer) -> None:
    """Write how likely the joint states of the factors of segmentation c are.

    Parameters
    ----------
    seg : Segmented
    i, e, c : int
        The example, its place in the answer, and which segmentation.
    shares : SpanWork
        As :func:`write_marginals` has filled it.
    answer : Answer
        ``tables`` are written.
    """
    k, out = seg.n_classes[c], answer.tables
    for f in range(seg.start[seg.shape[i]], seg.start[seg.shape[i] + 1]):
        t = seg.variable[f] - seg.first[c, 0]
        if t < 0 or t >= seg.n[c]:
            continue
        kind, at = seg.kind[f], answer.table_start[seg.group[f], e]
        if kind == STARTS:
            at += seg.number[f] * 2 * k
            for b in range(k):
                out[at + 2 * b], out[at + 2 * b + 1] = shares.inside[t * k + b], shares.begin[t * k + b]
            continue
        at += seg.number[f] * (2 * k * k if kind == SUCCESSIVE else k * k)
        for a in range(k):
            for b in range(k):
                ab, p = a * k + b, shares.trans[(t * k + a) * k + b]
                stays = shares.inside[t * k + b] if a == b else 0.0
                if kind == NEIGHBOURS:
                    out[at + ab] = p + stays
                else:
                    out[at + 2 * ab], out[at + 2 * ab + 1] = stays, p


@njit(cache=True, nogil=True)
def sum_segmentations(seg: Segmented, pool: F64, node: F64, ids: I64, answer: Answer, log_z: F64) -> None:
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
    answer : Answer
        Written.
    log_z : ndarray of float64, shape (m,)
        Added to; ``-inf`` where there is no segmentation.
    """
    seg, pool, node, answer = borrow(seg), borrow(pool), borrow(node), borrow(answer)
    most, widest, far = largest(seg, ids)
    work, shares, size = work_space(most, widest, far), work_space(most, widest, far), (2 * most + 1) * widest
    items = Items(np.empty(size), np.empty(size), np.empty(max(widest, far)), np.empty(0, np.int64))
    for e in range(len(ids)):
        i = ids[e]
        for c in range(seg.ptr[i], seg.ptr[i + 1]):
            n, k, longest, total = seg.n[c], seg.n_classes[c], seg.longest[c], -np.inf
            base = gather(seg, pool, node, i, c, work)
            if n == 0:
                continue
            if base > -np.inf:
                sweep_segments(SUM, n, k, longest, work, items, shares)
                total = items.value[2 * n * k]
            log_z[e] += base + total
            if total == -np.inf:
                continue
            items.outer[: 2 * n * k] = 0.0
            items.outer[2 * n * k] = 1.0
            sweep_segments(SHARE, n, k, longest, work, items, shares)
            write_marginals(seg, i, c, items.outer, shares, answer.node[answer.start[e] :])
            write_tables(seg, i, e, c, shares, answer)
