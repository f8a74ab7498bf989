"""Sums over all segmentations: log partitions and marginals, forward and backward over segments in O(n K (L + K)).

The recurrences are those of :mod:`ssvm_backends.structures.segmentations.best_segments` with sums of exponentials in
place of maxima; backward, ::

    head[s, k]  = log sum_l exp(score[s, l, k] + exit[s + l + 1, k])
    exit[t, k'] = log sum_k exp(trans[t, k', k] + head[t, k])          (0 at the end)

A segment (s, l, k) then has the probability ``exp(enter[s, k] + score[s, l, k] + exit[s + l + 1, k] - log Z)``, and two
successive ones that meet at t ``exp(ends[t, k'] + trans[t, k', k] + head[t, k] - log Z)``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.structures.segmentations.segment_scores import Segmented, Work, gather, largest, work_space
from ssvm_dsl.ir import F64, I64, NEIGHBOURS, STARTS, SUCCESSIVE
from ssvm_dsl.kernels import borrow, njit


class Sums(NamedTuple):
    """Logarithms of sums, and probabilities, of one segmentation.

    Parameters
    ----------
    ends, enter, head, exit : ndarray of float64, shape (at least (n + 1) K,)
        See the module.
    begin, inside : ndarray of float64, shape (at least n K,)
        How likely a segment of each class begins at a position, or goes on there.
    """

    ends: F64
    enter: F64
    head: F64
    exit: F64
    begin: F64
    inside: F64


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
def log_sum(values: F64, n: int) -> float:
    """Return ``log sum exp`` of the first n values."""
    top = -np.inf
    for j in range(n):
        top = max(top, values[j])
    if top == -np.inf:
        return -np.inf
    total = 0.0
    for j in range(n):
        total += np.exp(values[j] - top)
    return top + np.log(total)


@njit(cache=True, nogil=True)
def forward(n: int, k: int, longest: int, work: Work, sums: Sums, terms: F64) -> float:
    """Write ``ends`` and ``enter``; return ``log Z`` without ``base``."""
    sums.enter[:k] = 0.0
    for t in range(1, n + 1):
        for b in range(k):
            m = min(longest, t)
            for l in range(m):
                s = t - l - 1
                terms[l] = sums.enter[s * k + b] + work.score[(s * longest + l) * k + b]
            sums.ends[t * k + b] = log_sum(terms, m)
        if t < n:
            for b in range(k):
                for a in range(k):
                    terms[a] = sums.ends[t * k + a] + work.trans[(t * k + a) * k + b]
                sums.enter[t * k + b] = log_sum(terms, k)
    return log_sum(sums.ends[n * k :], k)


@njit(cache=True, nogil=True)
def backward(n: int, k: int, longest: int, work: Work, sums: Sums, terms: F64) -> None:
    """Write ``head`` and ``exit``."""
    sums.exit[n * k : (n + 1) * k] = 0.0
    for s in range(n - 1, -1, -1):
        for b in range(k):
            m = min(longest, n - s)
            for l in range(m):
                terms[l] = work.score[(s * longest + l) * k + b] + sums.exit[(s + l + 1) * k + b]
            sums.head[s * k + b] = log_sum(terms, m)
        if s > 0:
            for a in range(k):
                for b in range(k):
                    terms[b] = work.trans[(s * k + a) * k + b] + sums.head[s * k + b]
                sums.exit[s * k + a] = log_sum(terms, k)


@njit(cache=True, nogil=True)
def write_marginals(seg: Segmented, i: int, c: int, work: Work, sums: Sums, log_z: float, node: F64) -> None:
    """Write how likely the states of the variables of segmentation c are; fill ``begin`` and ``inside``.

    Parameters
    ----------
    seg : Segmented
    i, c : int
        The example, and which segmentation.
    work : Work
    sums : Sums
    log_z : float
        Without ``base``.
    node : ndarray of float64
        Marginals of the states of the example; written.
    """
    n, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
    lo = seg.var_ptr[i]
    classes, begins = seg.state_ptr[lo + seg.first[c, 0]], seg.state_ptr[lo + seg.first[c, 1]]
    spans, base = seg.state_ptr[lo + seg.first[c, 2]], seg.state_ptr[lo]
    sums.begin[: n * k] = 0.0
    sums.inside[: n * k] = 0.0
    for s in range(n):
        for l in range(longest):
            at, span = (s * longest + l) * k, spans - base + (s * longest + l) * (k + 1)
            node[span] = 1.0
            for b in range(k):
                p = 0.0
                if s + l < n:
                    p = np.exp(sums.enter[s * k + b] + work.score[at + b] + sums.exit[(s + l + 1) * k + b] - log_z)
                node[span + 1 + b] = p
                node[span] -= p
                if p > 0.0:
                    sums.begin[s * k + b] += p
                    for t in range(s + 1, s + l + 1):
                        sums.inside[t * k + b] += p
            node[span] = max(node[span], 0.0)
    for t in range(n):
        total = 0.0
        for b in range(k):
            node[classes - base + t * k + b] = sums.begin[t * k + b] + sums.inside[t * k + b]
            total += sums.begin[t * k + b]
        node[begins - base + 2 * t], node[begins - base + 2 * t + 1] = max(1.0 - total, 0.0), total


@njit(cache=True, nogil=True)
def write_tables(seg: Segmented, i: int, e: int, c: int, work: Work, sums: Sums, log_z: float, answer: Answer) -> None:
    """Write how likely the joint states of the factors of segmentation c are.

    Parameters
    ----------
    seg : Segmented
    i, e, c : int
        The example, its place in the answer, and which segmentation.
    work : Work
    sums : Sums
        With ``begin`` and ``inside``.
    log_z : float
        Without ``base``.
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
                out[at + 2 * b], out[at + 2 * b + 1] = sums.inside[t * k + b], sums.begin[t * k + b]
            continue
        at += seg.number[f] * (2 * k * k if kind == SUCCESSIVE else k * k)
        for a in range(k):
            for b in range(k):
                ab = a * k + b
                p = np.exp(sums.ends[t * k + a] + work.trans[t * k * k + ab] + sums.head[t * k + b] - log_z)
                stays = sums.inside[t * k + b] if a == b else 0.0
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
    work, size = work_space(most, widest, far), (most + 1) * widest
    sums = Sums(np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size))
    terms = np.empty(max(widest, far))
    for e in range(len(ids)):
        i = ids[e]
        for c in range(seg.ptr[i], seg.ptr[i + 1]):
            n, k, longest, total = seg.n[c], seg.n_classes[c], seg.longest[c], -np.inf
            base = gather(seg, pool, node, i, c, work)
            if n == 0:
                continue
            if base > -np.inf:
                total = forward(n, k, longest, work, sums, terms)
            log_z[e] += base + total
            if total == -np.inf:
                continue
            backward(n, k, longest, work, sums, terms)
            write_marginals(seg, i, c, work, sums, total, answer.node[answer.start[e] :])
            write_tables(seg, i, e, c, work, sums, total, answer)
