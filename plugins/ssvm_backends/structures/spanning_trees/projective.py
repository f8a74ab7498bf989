r"""Projective trees: Eisner (1996), best ones and sums over all of them, in O(n^3).

``arc[h, x]`` is the best score of a span from h to x with an arc h -> x whose inner words are done, ``span[h, x]`` that
of a span with head h in which all words up to x are done (x on either side of h)::

    inner(i, j)  = max_k      span[i, k] + span[j, k + 1]              i <= k < j
    arc[i, j]    = inner(i, j) + w[i, j],     arc[j, i] = inner(i, j) + w[j, i]
    span[i, j]   = max_k      arc[i, k] + span[k, j]                   i < k <= j,  likewise to the left

With several dependents of the root the result is ``span[0, n]`` over words 0..n; with a single one the words 1..n are
combined first: ``max_r span[r, 1] + span[r, n] + w[0, r]``.

Sums (inside) have log-sum-exp for max.  The outside pass sends probabilities down: an item that occurs with probability
p gives each of its ways to be built ``p exp(score of the way - score of the item)``; nothing is ever subtracted but
logarithms.  The probability of ``arc[h, x]`` is the marginal.  Scores above ``LARGE`` absorb the logarithm of the
number of ways, so that the shares would not add up to p: these are divided by their sum.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import njit

#: A sum of scores of this size is off by 1e-7: shares of probabilities are then normalised.
LARGE = 1e9


@njit(cache=True, nogil=True, inline="always")
def combine(total: float, score: float, soft: bool) -> float:
    """Return the maximum of two scores, or the logarithm of the sum of their exponentials."""
    if not soft:
        return max(total, score)
    if score == -np.inf:
        return total
    return np.logaddexp(total, score)


@njit(cache=True, nogil=True)
def fill_spans(first: int, n: int, w: F64, soft: bool, span: F64, arc: F64) -> None:
    """Fill the tables for words ``first..n``.

    Parameters
    ----------
    first, n : int
        First and last word; first is 0 (with the root) or 1.
    w : ndarray of float64, shape (at least (n + 1)^2,)
        Scores of arcs, row by head, ``-inf`` where there is none.
    soft : bool
        Whether to sum exponentials.
    span, arc : ndarray of float64, shape (at least (n + 1)^2,)
        Written; row by head.
    """
    m = n + 1
    for i in range(first, m):
        span[i * m + i] = 0.0
    for width in range(1, m - first):
        for i in range(first, m - width):
            j, inner = i + width, -np.inf
            for k in range(i, j):
                inner = combine(inner, span[i * m + k] + span[j * m + k + 1], soft)
            arc[i * m + j], arc[j * m + i] = inner + w[i * m + j], inner + w[j * m + i]
            right, left = -np.inf, -np.inf
            for k in range(i + 1, j + 1):
                right = combine(right, arc[i * m + k] + span[k * m + j], soft)
                left = combine(left, arc[j * m + k - 1] + span[(k - 1) * m + i], soft)
            span[i * m + j], span[j * m + i] = right, left


@njit(cache=True, nogil=True)
def best_projective(n: int, single: bool, w: F64, span: F64, arc: F64, heads: I32) -> bool:
    """Write the heads of the best projective tree; return whether there is one.

    Parameters
    ----------
    n : int
        Number of tokens.
    single : bool
        Whether the root has a single dependent.
    w : ndarray of float64, shape (at least (n + 1)^2,)
        Scores of arcs, row by head, ``-inf`` where there is none.
    span, arc : ndarray of float64, shape (at least (n + 1)^2,)
        Work space.
    heads : ndarray of int32, shape (at least n + 1,)
        Written.
    """
    heads[0] = -1
    if n == 0:
        return True
    m, stack, top = n + 1, np.empty((4 * n + 4, 2), dtype=np.int64), 0
    if single:
        fill_spans(1, n, w, False, span, arc)
        best, root = -np.inf, 0
        for r in range(1, m):
            score = span[r * m + 1] + span[r * m + n] + w[r]
            if score > best:
                best, root = score, r
        if best == -np.inf:
            return False
        heads[root] = 0
        stack[0, 0], stack[0, 1], stack[1, 0], stack[1, 1] = root, 1, root, n
        top = 2
    else:
        fill_spans(0, n, w, False, span, arc)
        if span[n] == -np.inf:
            return False
        stack[0, 0], stack[0, 1] = 0, n
        top = 1
    unfold(m, span, arc, stack, top, heads)
    return True


@njit(cache=True, nogil=True)
def unfold(m: int, span: F64, arc: F64, stack: I64, top: int, heads: I32) -> None:
    """Write the heads of the words in the spans on the stack, by finding each maximum again.

    Parameters
    ----------
    m : int
        Number of rows of the tables.
    span, arc : ndarray of float64
        As filled by :func:`fill_spans`.
    stack : ndarray of int64, shape (at least 4 m, 2)
        Spans (head, last word).
    top : int
        How many there are.
    heads : ndarray of int32
        Written.
    """
    while top > 0:
        top -= 1
        h, x = stack[top, 0], stack[top, 1]
        if h == x:
            continue
        step = 1 if x > h else -1
        k, best = h + step, -np.inf
        for c in range(h + step, x + step, step):
            if arc[h * m + c] + span[c * m + x] > best:
                k, best = c, arc[h * m + c] + span[c * m + x]
        heads[k] = h
        low, high, cut, best = min(h, k), max(h, k), -1, -np.inf
        for c in range(low, high):
            if span[low * m + c] + span[high * m + c + 1] > best:
                cut, best = c, span[low * m + c] + span[high * m + c + 1]
        stack[top, 0], stack[top, 1] = k, x
        stack[top + 1, 0], stack[top + 1, 1] = low, cut
        stack[top + 2, 0], stack[top + 2, 1] = high, cut + 1
        top += 3


@njit(cache=True, nogil=True)
def sum_projective(n: int, single: bool, w: F64, work: F64, probability: F64) -> float:
    """Write the probability of each arc among projective trees; return the log partition (``-inf``: no tree).

    Parameters
    ----------
    n : int
        Number of tokens.
    single : bool
        Whether the root has a single dependent.
    w : ndarray of float64, shape (at least (n + 1)^2,)
        Scores of arcs, row by head, ``-inf`` where there is none.
    work : ndarray of float64, shape (3, at least (n + 1)^2)
        Work space.
    probability : ndarray of float64, shape (at least (n + 1)^2,)
        Written, row by head.
    """
    m = n + 1
    span, arc, outer = work[0], work[1], work[2]
    probability[: m * m], outer[: m * m] = 0.0, 0.0
    if n == 0:
        return 0.0
    largest = 0.0
    for at in range(m * m):
        if w[at] > -np.inf:
            largest = max(largest, abs(w[at]))
    large = not n * largest <= LARGE
    if not single:
        fill_spans(0, n, w, True, span, arc)
        total, outer[n] = span[n], 1.0
        if total > -np.inf:
            send_down(0, n, w, span, arc, large, outer, probability)
        return total
    fill_spans(1, n, w, True, span, arc)
    total = -np.inf
    for r in range(1, m):
        total = combine(total, span[r * m + 1] + span[r * m + n] + w[r], True)
    if total == -np.inf:
        return total
    whole = 0.0
    for r in range(1, m):
        probability[r] = np.exp(span[r * m + 1] + span[r * m + n] + w[r] - total)
        whole += probability[r]
    for r in range(1, m):
        probability[r] /= whole
        outer[r * m + 1] += probability[r]
        outer[r * m + n] += probability[r]
    send_down(1, n, w, span, arc, large, outer, probability)
    return total


@njit(cache=True, nogil=True)
def send_down(first: int, n: int, w: F64, span: F64, arc: F64, large: bool, outer: F64, probability: F64) -> None:
    """Pass the probabilities of spans down to their parts, widest spans first.

    Parameters
    ----------
    first, n, w, span, arc
        As for :func:`fill_spans`, which has filled the tables with sums.
    large : bool
        Whether shares are divided by their sum.
    outer : ndarray of float64
        Probabilities of spans; those of the whole sentence are given, the others written.
    probability : ndarray of float64
        Probabilities of arcs; written.
    """
    m = n + 1
    for width in range(n - first, 0, -1):
        for i in range(first, m - width):
            j = i + width
            split_span(m, i, j, span, arc, large, outer, probability)
            split_span(m, j, i, span, arc, large, outer, probability)
            whole = 1.0
            if large:
                whole = 0.0
                for k in range(i, j):
                    whole += share_inside(m, i, j, k, w, span, arc, probability)
                if whole == 0.0:
                    continue
                whole /= probability[i * m + j] + probability[j * m + i]
            for k in range(i, j):
                p = share_inside(m, i, j, k, w, span, arc, probability) / whole
                outer[i * m + k] += p
                outer[j * m + k + 1] += p


@njit(cache=True, nogil=True, inline="always")
def share_inside(m: int, i: int, j: int, k: int, w: F64, span: F64, arc: F64, probability: F64) -> float:
    """Return the probability that words i and j are joined by an arc, and meet between k and k + 1.

    Parameters
    ----------
    m : int
        Number of rows of the tables.
    i, j, k : int
        Words, ``i <= k < j``.
    w, span, arc, probability
        As for :func:`send_down`.
    """
    parts, p = span[i * m + k] + span[j * m + k + 1], 0.0
    if probability[i * m + j] > 0.0:
        p += probability[i * m + j] * np.exp(parts + w[i * m + j] - arc[i * m + j])
    if probability[j * m + i] > 0.0:
        p += probability[j * m + i] * np.exp(parts + w[j * m + i] - arc[j * m + i])
    return p


@njit(cache=True, nogil=True)
def split_span(m: int, h: int, x: int, span: F64, arc: F64, large: bool, outer: F64, probability: F64) -> None:
    """Pass the probability of the span from head h to x on to the arcs and spans that it can be made of.

    Parameters
    ----------
    m : int
        Number of rows of the tables.
    h, x : int
        Head and last word of the span.
    span, arc, large, outer, probability
        As for :func:`send_down`.
    """
    p = outer[h * m + x]
    if p == 0.0:
        return
    step = 1 if x > h else -1
    if large:
        whole = 0.0
        for k in range(x, h, -step):
            score = arc[h * m + k] + span[k * m + x] - span[h * m + x]
            if score > -np.inf:
                whole += np.exp(score)
        p /= whole
    for k in range(x, h, -step):
        score = arc[h * m + k] + span[k * m + x] - span[h * m + x]
        if score > -np.inf:
            share = p * np.exp(score)
            probability[h * m + k] += share
            outer[k * m + x] += share
