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

import numpy as np

from ssvm_backends.trees.forest import Forest
from ssvm_backends.trees.max_product import edge_table
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import assign, borrow, njit


@njit(cache=True, nogil=True)
def convolve(
    first: F64, a1: int, b1: int, second: F64, a2: int, b2: int, out: F64, a_most: int, b_most: int, width: int
) -> None:
    """Write ``out(a, b) = max first(a - c, b - d) + second(c, d)`` for a, b up to ``a_most``, ``b_most``.

    Parameters
    ----------
    first, second : ndarray of float64
        Tables of scores, row by row, of largest counts (a1, b1) and (a2, b2); ``-inf`` where nothing has these counts.
    a1, b1 : int
        Largest counts of ``first``; its rows have ``b1 + 1`` entries.
    a2, b2 : int
        Likewise of ``second``.  The inner loop runs over its rows, so it should be the larger one.
    out : ndarray of float64
        Written.  Must not overlap the others.
    a_most, b_most : int
        Largest counts wanted; what goes beyond is dropped.
    width : int
        Distance between the rows of ``out``.
    """
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


@njit(cache=True, nogil=True)
def lay_out(
    forest: Forest, lo: int, hi: int, counts: I64, a_most: int, b_most: int, reach: I64, kept: I64, place: I64
) -> tuple[int, int, int]:
    """Find the largest counts of every subtree and where its tables go; return their memory (in numbers).

    Parameters
    ----------
    forest : Forest
        Structure; read only.
    lo, hi : int
        First variable of the example, and the one after its last.
    counts : ndarray of int64, shape (S, 2)
        The two counts of each state.
    a_most, b_most : int
        Largest counts wanted.
    reach : ndarray of int64, shape (at least hi - lo + 1, 2)
        Written: the largest counts of each variable's subtree.  Row ``hi - lo`` is the virtual parent of one state that
        components end in.
    kept : ndarray of int64, shape (at least hi - lo, 2)
        Written: the largest counts of the parent's belief before the variable's message comes.
    place : ndarray of int64, shape (at least hi - lo + 1, 3)
        Written: where belief, message and the parent's earlier belief start.

    Returns
    -------
    beliefs, messages, earlier : int
        Numbers in all tables of each kind.
    """
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
    return beliefs + (reach[n, 0] + 1) * (reach[n, 1] + 1), messages, earlier


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
        came = message[t * new : (t + 1) * new]
        if old <= new:  # the larger one second: its rows are the inner loop
            convolve(mine, above[0], above[1], came, below[0], below[1], target, a_most, b_most, width)
        else:
            convolve(came, below[0], below[1], mine, above[0], above[1], target, a_most, b_most, width)


@njit(cache=True, nogil=True)
def count_upwards(
    forest: Forest, lo: int, hi: int, pool: F64, node: F64, counts: I64,
    reach: I64, kept: I64, place: I64, beliefs: F64, messages: F64, earlier: F64, scratch: F64,
) -> None:  # fmt: skip
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
    reach, kept, place : ndarray of int64
        The layout, see :func:`lay_out`; read only.
    beliefs, messages, earlier : ndarray of float64
        Written: tables of every variable, of what it sends, and of its parent before it takes that in.
    scratch : ndarray of float64, shape (at least widest ** 2,)
        Work space: the table of an edge.
    """
    n = hi - lo
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
    forest: Forest, lo: int, hi: int, pool: F64, a: int, b: int,
    reach: I64, kept: I64, place: I64, beliefs: F64, messages: F64, earlier: F64, left: I64, labels: I32,
) -> None:  # fmt: skip
    """Write the best labelling of counts (a, b), variable by variable from the last root down.

    The counts still to be shared out at a parent are split between this variable's message and the parent's belief
    before it came (``earlier``): messages are undone in the opposite order, so the rest is right for the one before.

    Parameters
    ----------
    forest, lo, hi, pool, reach, kept, place, beliefs, messages, earlier
        As for :func:`count_upwards`, after it; read only.
    a, b : int
        Counts of the labelling; there must be one.
    left : ndarray of int64, shape (at least hi - lo + 1, 2)
        Work space: the counts to be shared out in the subtree of each variable, without children already visited.
    labels : ndarray of int32, shape (hi - lo,)
        Written.
    """
    n = hi - lo
    left[n, 0], left[n, 1] = a, b
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
def best_by_count(
    forest: Forest, pool: F64, node: F64, const: F64, counts: I64, shape: I64, start: I64, offset: F64, scale: F64,
    examples: I64, label_ptr: I64, labels: I32, worth: F64,
) -> None:  # fmt: skip
    """Write the best labelling by its counts, and its value, for each listed example.

    The worth of a labelling of counts (a, b) is ``offset[a, b] + scale[a, b] * (score + const)``; as scales are not
    negative, only the best score of each pair of counts matters.

    Parameters
    ----------
    forest : Forest
        Structure; read only.
    pool, node : ndarray of float64
        Tables, and unary scores with ``-inf`` at states that masks rule out.
    const : ndarray of float64, shape (B,)
        Constants of all examples.
    counts, shape, start, offset, scale
        As in :class:`~ssvm_dsl.ir.CountTables`, for the n listed examples.
    examples : ndarray of int64, shape (n,)
        The examples.
    label_ptr : ndarray of int64, shape (n + 1,)
        Where the labels of each listed example start.
    labels : ndarray of int32
        Written; left alone where no labelling is wanted.
    worth : ndarray of float64, shape (n,)
        ``-inf`` on entry; raised where a labelling is found.
    """
    forest, pool, node, const = borrow(forest), borrow(pool), borrow(node), borrow(const)
    longest, widest = 0, 1
    for i in examples:
        longest = max(longest, forest.var_ptr[i + 1] - forest.var_ptr[i])
        for v in range(forest.var_ptr[i], forest.var_ptr[i + 1]):
            widest = max(widest, forest.card[v])
    reach, kept = np.empty((longest + 1, 2), np.int64), np.empty((longest + 1, 2), np.int64)
    place, left = np.empty((longest + 1, 3), np.int64), np.empty((longest + 1, 2), np.int64)
    beliefs, messages, earlier = np.empty(0), np.empty(0), np.empty(0)
    scratch = np.empty(widest * widest)
    for k in range(len(examples)):
        lo, hi = forest.var_ptr[examples[k]], forest.var_ptr[examples[k] + 1]
        if shape[k, 0] == 0 or shape[k, 1] == 0:
            continue
        sizes = lay_out(forest, lo, hi, counts, shape[k, 0] - 1, shape[k, 1] - 1, reach, kept, place)
        beliefs = beliefs if len(beliefs) >= sizes[0] else np.empty(sizes[0])
        messages = messages if len(messages) >= sizes[1] else np.empty(sizes[1])
        earlier = earlier if len(earlier) >= sizes[2] else np.empty(sizes[2])
        count_upwards(forest, lo, hi, pool, node, counts, reach, kept, place, beliefs, messages, earlier, scratch)
        a_best, b_best, width = -1, -1, reach[hi - lo, 1] + 1
        for a in range(reach[hi - lo, 0] + 1):
            for b in range(width):
                score = beliefs[place[hi - lo, 0] + a * width + b]
                at = start[k] + a * shape[k, 1] + b
                if score > -np.inf and offset[at] > -np.inf:
                    value = offset[at] + scale[at] * (score + const[examples[k]])
                    if value > worth[k]:
                        worth[k], a_best, b_best = value, a, b
        if a_best >= 0:
            count_downwards(
                forest, lo, hi, pool, a_best, b_best, reach, kept, place, beliefs, messages, earlier, left,
                labels[label_ptr[k] : label_ptr[k + 1]],
            )  # fmt: skip
