"""Sums over all segmentations: log partitions and marginals, backward and forward over segments in O(n K (L + K)).

Backward, with sums of exponentials ::

    head[s, k]  = log sum_l exp(score[s, l, k] + exit[s + l + 1, k])
    exit[t, k'] = log sum_k exp(trans[t, k', k] + head[t, k])          (0 at the end)

and ``Z = sum_k exp head[0, k]``.  Forward, probabilities are handed on: a segment of class k that begins at s has the
length l + 1 with probability ``exp(score[s, l, k] + exit[s + l + 1, k] - head[s, k])``, and one of class k' that ends
at t is followed by class k with probability ``exp(trans[t, k', k] + head[t, k] - exit[t, k'])``.  Each is divided by
their sum, which differs from 1 where scores are so large that they absorb the logarithm of a number of ways.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.structures.segmentations.segment_scores import Segmented, SpanWork, gather, largest, work_space
from ssvm_dsl.ir import F64, I64, NEIGHBOURS, STARTS, SUCCESSIVE
from ssvm_dsl.kernels import borrow, njit


class Sums(NamedTuple):
    """Logarithms of sums, and probabilities, of one segmentation.

    Parameters
    ----------
    head, exit : ndarray of float64, shape (at least (n + 1) K,)
        Logarithms; see the module.
    begin, inside : ndarray of float64, shape (at least n K,)
        How likely a segment of each class begins at a position, or covers it from an earlier one on.
    ends : ndarray of float64, shape (at least (n + 1) K,)
        How likely a segment of each class ends before a position.
    """

    head: F64
    exit: F64
    begin: F64
    inside: F64
    ends: F64


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
def share_out(values: F64, n: int, log_total: float) -> None:
    """Turn logarithms whose sum has the logarithm ``log_total`` into probabilities that add up to 1."""
    whole = 0.0
    for j in range(n):
        values[j] = np.exp(values[j] - log_total)
        whole += values[j]
    for j in range(n):
        values[j] /= whole


@njit(cache=True, nogil=True)
def backward(n: int, k: int, longest: int, work: SpanWork, sums: Sums, terms: F64) -> float:
    """Write ``head`` and ``exit``; return ``log Z`` without ``base``."""
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
    return log_sum(sums.head, k)


@njit(cache=True, nogil=True)
def begin_segments(t: int, k: int, work: SpanWork, sums: Sums, log_z: float, terms: F64) -> None:
    """Write how likely a segment of each class begins at t, from how likely each class ends before it."""
    if t == 0:
        for b in range(k):
            sums.begin[b] = sums.head[b]
        share_out(sums.begin, k, log_z)
        return
    for a in range(k):
        if sums.ends[t * k + a] > 0.0:
            for b in range(k):
                terms[b] = work.trans[(t * k + a) * k + b] + sums.head[t * k + b]
            share_out(terms, k, sums.exit[t * k + a])
            for b in range(k):
                sums.begin[t * k + b] += sums.ends[t * k + a] * terms[b]


@njit(cache=True, nogil=True)
def write_marginals(
    seg: Segmented, i: int, c: int, work: SpanWork, sums: Sums, log_z: float, terms: F64, node: F64
) -> None:
    """Write how likely the states of the variables of segmentation c are; fill ``begin``, ``inside`` and ``ends``.

    Parameters
    ----------
    seg : Segmented
    i, c : int
        The example, and which segmentation.
    work : SpanWork
    sums : Sums
        With ``head`` and ``exit``.
    log_z : float
        Without ``base``.
    terms : ndarray of float64, shape (at least max(K, L),)
        Work space.
    node : ndarray of float64
        Marginals of the states of the example; written.
    """
    n, k, longest = seg.n[c], seg.n_classes[c], seg.longest[c]
    lo = seg.var_ptr[i]
    classes, begins = seg.state_ptr[lo + seg.first[c, 0]], seg.state_ptr[lo + seg.first[c, 1]]
    spans, base = seg.state_ptr[lo + seg.first[c, 2]], seg.state_ptr[lo]
    sums.begin[: n * k] = 0.0
    sums.inside[: n * k] = 0.0
    sums.ends[: (n + 1) * k] = 0.0
    for s in range(n):
        begin_segments(s, k, work, sums, log_z, terms)
        span = spans - base + s * longest * (k + 1)
        node[span : span + longest * (k + 1)] = 0.0
        m = min(longest, n - s)
        for b in range(k):
            if sums.begin[s * k + b] == 0.0:
                continue
            for l in range(m):
                terms[l] = work.score[(s * longest + l) * k + b] + sums.exit[(s + l + 1) * k + b]
            share_out(terms, m, sums.head[s * k + b])
            for l in range(m):
                p = sums.begin[s * k + b] * terms[l]
                node[span + l * (k + 1) + 1 + b] = p
                sums.ends[(s + l + 1) * k + b] += p
                if p > 0.0:
                    for t in range(s + 1, s + l + 1):
                        sums.inside[t * k + b] += p
        for l in range(longest):
            at = span + l * (k + 1)
            node[at] = max(1.0 - node[at + 1 : at + 1 + k].sum(), 0.0)
    for t in range(n):
        total = 0.0
        for b in range(k):
            node[classes - base + t * k + b] = sums.begin[t * k + b] + sums.inside[t * k + b]
            total += sums.begin[t * k + b]
        node[begins - base + 2 * t], node[begins - base + 2 * t + 1] = max(1.0 - total, 0.0), total


@njit(cache=True, nogil=True)
def write_tables(
    seg: Segmented, i: int, e: int, c: int, work: SpanWork, sums: Sums, terms: F64, answer: Answer
) -> None:
    """Write how likely the joint states of the factors of segmentation c are.

    Parameters
    ----------
    seg : Segmented
    i, e, c : int
        The example, its place in the answer, and which segmentation.
    work : SpanWork
    sums : Sums
        As :func:`write_marginals` has filled them.
    terms : ndarray of float64, shape (at least K,)
        Work space.
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
            before = sums.ends[t * k + a]
            terms[:k] = 0.0
            if before > 0.0:
                for b in range(k):
                    terms[b] = work.trans[(t * k + a) * k + b] + sums.head[t * k + b]
                share_out(terms, k, sums.exit[t * k + a])
            for b in range(k):
                ab, p = a * k + b, before * terms[b]
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
    sums = Sums(np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size))
    terms = np.empty(max(widest, far))
    for e in range(len(ids)):
        i = ids[e]
        for c in range(seg.ptr[i], seg.ptr[i + 1]):
            n, k, longest, total = seg.n[c], seg.n_classes[c], seg.longest[c], -np.inf
            base = gather(seg, pool, node, i, c, work)
            if n == 0:
                continue
            if base > -np.inf:
                total = backward(n, k, longest, work, sums, terms)
            log_z[e] += base + total
            if total == -np.inf:
                continue
            write_marginals(seg, i, c, work, sums, total, terms, answer.node[answer.start[e] :])
            write_tables(seg, i, e, c, work, sums, terms, answer)
