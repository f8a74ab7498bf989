"""Dynamic programming on forests that keeps the best score for every pair of counts.

Each state has two counts (natural numbers: say, whether it is a true and whether it is a false positive); those of a
labelling are sums over its variables.  Beliefs get two axes of counts: ``b_v(s, a, b)`` is the best score of the
subtree of v with state s and counts a and b.  Messages maximise over s as usual; taking a message in is a (max, +)
convolution over both axes.

A table is as large as the counts its subtree can have.  On a chain of T variables of L states, with largest counts A
and B, that is time O(T A B L^2) and memory O(T A B L); tables grow along the chain, so a third of T A B in all.  Where
subtrees meet, a convolution costs the product of their sizes; all merges of a tree together O((A B)^2 L) when the
counts of states are 0 and 1.

What an edge brings is stored together with the belief it came to, so that the labelling of a pair of counts is found by
going down once: which part of the counts the child had, then which state.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.graphs.batch_session import Wanted, best_counts
from ssvm_backends.trees.forest import Forest
from ssvm_backends.trees.max_product import edge_table, extent
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import assign, borrow, njit


class CountTable(NamedTuple):
    """Scores by counts up to (a, b), row by row: ``b + 1`` entries each, ``-inf`` where nothing has these counts."""

    score: F64
    a: int
    b: int


@njit(cache=True, nogil=True)
def convolve(one: CountTable, other: CountTable, out: F64, a_most: int, b_most: int, width: int) -> None:
    """Write ``out(a, b) = max one(a - c, b - d) + other(c, d)`` for a, b up to ``a_most``, ``b_most``.

    The inner loop runs over the rows of ``other``, so it should be the larger one.  ``out``, whose rows are ``width``
    apart, must not overlap them.
    """
    (first, a1, b1), (second, a2, b2) = one, other
    for a in range(a_most + 1):
        out[a * width : a * width + b_most + 1] = -np.inf
    for a in range(min(a1, a_most) + 1):
        for b in range(min(b1, b_most) + 1):
            part = first[a * (b1 + 1) + b]
            if part == -np.inf:
                continue
            n = min(b2, b_most - b) + 1
            for c in range(min(a2, a_most - a) + 1):
                source = second[c * (b2 + 1) : c * (b2 + 1) + n]
                target = out[(a + c) * width + b : (a + c) * width + b + n]
                for d in range(n):
                    value = part + source[d]
                    target[d] = value if value > target[d] else target[d]


class CountedBeliefs(NamedTuple):
    """Tables of one example with n variables, and where they are (:func:`lay_out`).

    Parameters
    ----------
    reach : ndarray of int64, shape (at least n + 1, 2)
        The largest counts of each variable's subtree.  Row n is the virtual parent of one state that components end in.
    kept : ndarray of int64, shape (at least n, 2)
        The largest counts of the parent's belief before the variable's message comes.
    place : ndarray of int64, shape (at least n + 1, 3)
        Where belief, message and the parent's earlier belief start.
    belief, message, earlier : ndarray of float64
        Best scores, or logarithms of sums: of each variable, what it sends, and its parent before that comes.
    above : ndarray of float64
        Of the belief, laid out alike; only of sums.
    """

    reach: I64
    kept: I64
    place: I64
    belief: F64
    message: F64
    earlier: F64
    above: F64


@njit(cache=True, nogil=True)
def no_beliefs(n: int) -> CountedBeliefs:
    """Return a record for examples of up to n variables, without space for tables."""
    reach, kept, place = np.empty((n + 1, 2), np.int64), np.empty((n + 1, 2), np.int64), np.empty((n + 1, 3), np.int64)
    return CountedBeliefs(reach, kept, place, np.empty(0), np.empty(0), np.empty(0), np.empty(0))


@njit(cache=True, nogil=True)
def as_long(values: F64, n: int) -> F64:
    """Return an array of at least n numbers: the old one if it is as long."""
    return values if len(values) >= n else np.empty(n)


@njit(cache=True, nogil=True)
def lay_out(
    forest: Forest, variables: tuple[int, int], counts: I64, most: tuple[int, int], work: CountedBeliefs
) -> CountedBeliefs:
    """Find the largest counts of every subtree and where its tables go; return the record with space for them.

    Parameters
    ----------
    forest : Forest
        Structure; read only.
    variables : tuple of int
        First variable of the example, and the one after its last.
    counts : ndarray of int64, shape (S, 2)
        The two counts of each state.
    most : tuple of int
        Largest counts wanted.
    work : CountedBeliefs
        ``reach``, ``kept`` and ``place`` are written.
    """
    (lo, hi), (a_most, b_most), (reach, kept, place) = variables, most, work[:3]
    n = hi - lo
    reach[: n + 1] = 0
    for v in range(lo, hi):
        for x in range(forest.state_ptr[v], forest.state_ptr[v + 1]):
            if counts[x, 0] <= a_most and counts[x, 1] <= b_most:
                reach[v - lo, 0] = max(reach[v - lo, 0], counts[x, 0])
                reach[v - lo, 1] = max(reach[v - lo, 1], counts[x, 1])
    beliefs, messages, earlier = 0, 0, 0
    for position in range(lo, hi):
        v = forest.order[position]
        i, up, c_p = v - lo, n, 1
        if forest.parent[v] >= 0:
            up, c_p = forest.parent[v] - lo, forest.card[forest.parent[v]]
        size = (reach[i, 0] + 1) * (reach[i, 1] + 1)
        place[i, 0], place[i, 1], place[i, 2] = beliefs, messages, earlier
        kept[i, 0], kept[i, 1] = reach[up, 0], reach[up, 1]
        beliefs += forest.card[v] * size
        messages += c_p * size
        earlier += c_p * (kept[i, 0] + 1) * (kept[i, 1] + 1)
        reach[up, 0] = min(reach[up, 0] + reach[i, 0], a_most)
        reach[up, 1] = min(reach[up, 1] + reach[i, 1], b_most)
    place[n, 0] = beliefs
    beliefs += (reach[n, 0] + 1) * (reach[n, 1] + 1)
    belief, above = as_long(work.belief, beliefs), as_long(work.above, beliefs)
    message, before = as_long(work.message, messages), as_long(work.earlier, earlier)
    return CountedBeliefs(reach, kept, place, belief, message, before, above)


@njit(cache=True, nogil=True)
def take_in(belief: F64, above: I64, message: F64, below: I64, whole: I64, c_p: int, earlier: F64) -> None:
    """Take a message in: keep the parent's belief as it was in ``earlier``, then convolve.

    Parameters
    ----------
    belief : ndarray of float64
        The parent's table for each of its states, one after the other; large enough for all messages, so rows are
        ``whole[1] + 1`` apart, though only counts up to ``above`` can occur so far.  Changed in place.
    above : ndarray of int64, shape (2,)
        Largest counts of the belief before the message.
    message : ndarray of float64
        A table of largest counts ``below`` for each state of the parent.
    below : ndarray of int64, shape (2,)
        See ``message``.
    whole : ndarray of int64, shape (2,)
        Largest counts of the belief when all messages have come.
    c_p : int
        Number of states of the parent.
    earlier : ndarray of float64
        Written: the belief as it was, packed (rows ``above[1] + 1`` apart), for :func:`count_downwards`.
    """
    width, capacity = whole[1] + 1, (whole[0] + 1) * (whole[1] + 1)
    old, new = (above[0] + 1) * (above[1] + 1), (below[0] + 1) * (below[1] + 1)
    a_most, b_most = min(above[0] + below[0], whole[0]), min(above[1] + below[1], whole[1])
    for t in range(c_p):
        mine, target = earlier[t * old : (t + 1) * old], belief[t * capacity : (t + 1) * capacity]
        for a in range(above[0] + 1):
            assign(mine[a * (above[1] + 1) : (a + 1) * (above[1] + 1)], target[a * width :])
        child = CountTable(mine, above[0], above[1])
        other = CountTable(message[t * new : (t + 1) * new], below[0], below[1])
        if old <= new:  # the larger one second: its rows are the inner loop
            convolve(child, other, target, a_most, b_most, width)
        else:
            convolve(other, child, target, a_most, b_most, width)


@njit(cache=True, nogil=True)
def count_upwards(
    forest: Forest, lo: int, hi: int, pool: F64, node: F64, counts: I64, work: CountedBeliefs, scratch: F64
) -> None:
    """Send all messages; the belief of the virtual parent gets the best score of each pair of counts.

    ``message(t, a, b) = max_s belief(s, a, b) + table(s, t)``: edges have no counts.

    Parameters
    ----------
    forest : Forest
        Structure; read only.
    lo, hi : int
        First variable of the example, and the one after its last.
    pool, node : ndarray of float64
        Tables and unary scores, without the constant.
    counts : ndarray of int64, shape (S, 2)
        The two counts of each state.
    work : CountedBeliefs
        Laid out; beliefs, messages and earlier beliefs are written.
    scratch : ndarray of float64, shape (at least widest ** 2,)
        Work space: the table of an edge.
    """
    n, (reach, kept, place, beliefs, messages, earlier, _) = hi - lo, work
    beliefs[: place[n, 0] + (reach[n, 0] + 1) * (reach[n, 1] + 1)] = -np.inf
    beliefs[place[n, 0]] = 0.0  # the virtual parent: counts (0, 0) before any component
    for v in range(lo, hi):
        most, first = reach[v - lo], forest.state_ptr[v]
        for s in range(forest.card[v]):
            a, b = counts[first + s, 0], counts[first + s, 1]
            if a <= most[0] and b <= most[1]:
                at = s * (most[0] + 1) * (most[1] + 1) + a * (most[1] + 1) + b
                beliefs[place[v - lo, 0] + at] = node[first + s]
    for position in range(lo, hi):
        v = forest.order[position]
        i, parent, c_v = v - lo, forest.parent[v], forest.card[v]
        up, c_p = n, 1
        if parent >= 0:
            up, c_p = parent - lo, forest.card[parent]
        size = (reach[i, 0] + 1) * (reach[i, 1] + 1)
        if parent >= 0:
            edge_table(forest, pool, v, c_v, c_p, scratch)
        else:
            scratch[:c_v] = 0.0
        message = messages[place[i, 1] : place[i, 1] + c_p * size]
        message[:] = -np.inf
        for s in range(c_v):
            source = beliefs[place[i, 0] + s * size : place[i, 0] + (s + 1) * size]
            for t in range(c_p):
                score = scratch[s * c_p + t]
                if score == -np.inf:
                    continue
                target = message[t * size : (t + 1) * size]
                for c in range(size):
                    value = source[c] + score
                    target[c] = value if value > target[c] else target[c]
        take_in(beliefs[place[up, 0] :], kept[i], message, reach[i], reach[up], c_p, earlier[place[i, 2] :])


@njit(cache=True, nogil=True)
def count_downwards(
    forest: Forest, lo: int, hi: int, pool: F64, have: tuple[int, int], work: CountedBeliefs, left: I64, labels: I32
) -> None:
    """Write the best labelling of a pair of counts, variable by variable from the last root down.

    The counts still to be shared out at a parent are split between this variable's message and the parent's belief
    before it came (``earlier``): messages are undone in the opposite order, so the rest is right for the one before.

    Parameters
    ----------
    forest, lo, hi, pool, work
        As for :func:`count_upwards`, after it; read only.
    have : tuple of int
        Counts of the labelling; there must be one.
    left : ndarray of int64, shape (at least hi - lo + 1, 2)
        Work space: the counts to be shared out in the subtree of each variable, without children already visited.
    labels : ndarray of int32, shape (hi - lo,)
        Written.
    """
    n, (reach, kept, place, beliefs, messages, earlier, _) = hi - lo, work
    left[n, 0], left[n, 1] = have
    for position in range(hi - 1, lo - 1, -1):
        v = forest.order[position]
        i, parent, c_v = v - lo, forest.parent[v], forest.card[v]
        up, c_p, t = n, 1, 0
        if parent >= 0:
            up, c_p, t = parent - lo, forest.card[parent], labels[parent - lo]
        width, wide = reach[i, 1] + 1, kept[i, 1] + 1
        size = (reach[i, 0] + 1) * width
        came, old = place[i, 1] + t * size, place[i, 2] + t * (kept[i, 0] + 1) * wide
        top, have_a, have_b = -np.inf, left[up, 0], left[up, 1]
        left[i, 0], left[i, 1] = 0, 0
        for c in range(max(0, have_a - kept[i, 0]), min(have_a, reach[i, 0]) + 1):
            for d in range(max(0, have_b - kept[i, 1]), min(have_b, reach[i, 1]) + 1):
                value = messages[came + c * width + d] + earlier[old + (have_a - c) * wide + have_b - d]
                if value > top:
                    top, left[i, 0], left[i, 1] = value, c, d
        left[up, 0], left[up, 1] = have_a - left[i, 0], have_b - left[i, 1]
        best, top = 0, -np.inf
        for s in range(c_v):
            value = beliefs[place[i, 0] + s * size + left[i, 0] * width + left[i, 1]]
            for e in range(forest.entry_ptr[v], forest.entry_ptr[v + 1]):
                value += pool[forest.entry_offset[e] + (t * c_v + s if forest.entry_flip[e] else s * c_p + t)]
            if value > top:
                best, top = s, value
        labels[v - lo] = best


@njit(cache=True, nogil=True)
def best_by_count(forest: Forest, pool: F64, node: F64, counts: I64, examples: I64, wanted: Wanted) -> None:
    """Write the labelling that is worth most by its counts, and what it is worth, for each listed example.

    The worth of a labelling of counts (a, b) is ``offset[a, b] + scale[a, b] * (score + const)``; as scales are not
    negative, only the best score of each pair of counts matters.

    Parameters
    ----------
    forest : Forest
        Structure; read only.
    pool, node : ndarray of float64
        Tables, and unary scores with ``-inf`` at states that masks rule out.
    counts : ndarray of int64, shape (S, 2)
        The two counts of each state.
    examples : ndarray of int64, shape (n,)
        The examples.
    wanted : Wanted
        ``labels`` and ``worth`` are written.
    """
    forest, pool, node, wanted = borrow(forest), borrow(pool), borrow(node), borrow(wanted)
    longest, _, widest = extent(forest, examples)
    work, left, scratch = no_beliefs(longest), np.empty((longest + 1, 2), np.int64), np.empty(widest * widest)
    for k in range(len(examples)):
        lo, hi = forest.var_ptr[examples[k]], forest.var_ptr[examples[k] + 1]
        if wanted.shape[k, 0] == 0 or wanted.shape[k, 1] == 0:
            continue
        work = lay_out(forest, (lo, hi), counts, (wanted.shape[k, 0] - 1, wanted.shape[k, 1] - 1), work)
        count_upwards(forest, lo, hi, pool, node, counts, work, scratch)
        root, width = work.place[hi - lo, 0], work.reach[hi - lo, 1] + 1
        best = work.belief[root : root + (work.reach[hi - lo, 0] + 1) * width]
        have = best_counts(wanted, k, wanted.const[examples[k]], best, width)
        if have[0] >= 0:
            mine = wanted.labels[wanted.label_ptr[k] : wanted.label_ptr[k + 1]]
            count_downwards(forest, lo, hi, pool, have, work, left, mine)
