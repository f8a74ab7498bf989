"""Dynamic programming on forests that keeps the best score for every count.

Each state has a count (a natural number: say, 1 where it is wrong); the count of a labelling is the sum over its
variables.  Beliefs get an axis of counts: ``b_v(s, c)`` is the best score of the subtree of v with state s and
count c.  Messages maximise over s as usual; taking a message in is a (max, +) convolution over counts, kept short
by the largest count of each subtree, so that a chain of T variables with counts 0 and 1 costs O(T^2 L^2).

What an edge brings is stored together with the belief it came to, so that the labelling of every count is found
by going down once: which part of the count the child had, then which state.  Memory is O(V L C) for one example.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ssvm_backends._trees.forest import F64, I32, I64, Forest
from ssvm_backends._trees.max_product import edge_table
from ssvm_dsl.ir.borrow import borrow


@njit(cache=True, nogil=True)
def take_in(belief: F64, reach: int, message: F64, more: int, width: int, n_states: int, out: F64) -> int:
    """Write ``out(t, c) = max_d belief(t, c - d) + message(t, d)``; return the largest count there is."""
    both = min(reach + more, width - 1)
    for t in range(n_states):
        row = t * width
        for c in range(width):
            out[row + c] = -np.inf
        for d in range(min(more, both) + 1):
            part = message[row + d]
            if part == -np.inf:
                continue
            for c in range(min(reach, both - d) + 1):
                value = belief[row + c] + part
                if value > out[row + c + d]:
                    out[row + c + d] = value
    return both


@njit(cache=True, nogil=True)
def count_upwards(
    forest: Forest, lo: int, hi: int, pool: F64, node: F64, counts: I64, width: int,
    beliefs: F64, before: F64, messages: F64, place: I64, reach: I64, scratch: F64, total: F64,
) -> int:  # fmt: skip
    """Send all messages; ``total`` gets the best score of each count of the example; return the largest count.

    ``before`` and ``messages`` keep, for each variable, its parent's belief before its message came, and the message;
    ``place`` tells where (components end in a virtual parent of one state, whose belief is ``total``).
    """
    first, end, overall = forest.state_ptr[lo], 0, 0
    total[:] = -np.inf
    total[0] = 0.0
    for v in range(lo, hi):
        at = (forest.state_ptr[v] - first) * width
        reach[v - lo] = 0
        for s in range(forest.card[v]):
            beliefs[at + s * width : at + (s + 1) * width] = -np.inf
            c = counts[forest.state_ptr[v] + s]
            if c < width:
                beliefs[at + s * width + c] = node[forest.state_ptr[v] + s]
                reach[v - lo] = max(reach[v - lo], c)
    for position in range(lo, hi):
        v = forest.order[position]
        at, c_v, parent = (forest.state_ptr[v] - first) * width, forest.card[v], forest.parent[v]
        belief = beliefs[at : at + c_v * width]
        c_p = forest.card[parent] if parent >= 0 else 1
        place[v - lo] = end
        message, kept = messages[end : end + c_p * width], before[end : end + c_p * width]
        end += c_p * width
        if parent >= 0:
            edge_table(forest, pool, v, c_v, c_p, scratch)
        else:
            scratch[:c_v] = 0.0
        message[:] = -np.inf
        for s in range(c_v):
            for t in range(c_p):
                score = scratch[s * c_p + t]
                for c in range(reach[v - lo] + 1):
                    value = belief[s * width + c] + score
                    if value > message[t * width + c]:
                        message[t * width + c] = value
        if parent >= 0:
            above = (forest.state_ptr[parent] - first) * width
            target = beliefs[above : above + c_p * width]
            kept[:] = target
            reach[parent - lo] = take_in(kept, reach[parent - lo], message, reach[v - lo], width, c_p, target)
        else:
            kept[:] = total
            overall = take_in(kept, overall, message, reach[v - lo], width, 1, total)
    return overall


@njit(cache=True, nogil=True)
def count_downwards(
    forest: Forest, lo: int, hi: int, pool: F64, count: int, width: int,
    beliefs: F64, before: F64, messages: F64, place: I64, left: I64, labels: I32,
) -> None:  # fmt: skip
    """Write the best labelling of one count; ``left`` holds what is left of the count of each variable's subtree."""
    first, left_over = forest.state_ptr[lo], count
    for position in range(hi - 1, lo - 1, -1):
        v = forest.order[position]
        c_v, parent, start = forest.card[v], forest.parent[v], place[v - lo]
        t = labels[parent - lo] if parent >= 0 else 0
        c_p = forest.card[parent] if parent >= 0 else 1
        have = left[parent - lo] if parent >= 0 else left_over
        mine, top = 0, -np.inf
        for d in range(have + 1):
            value = before[start + t * width + have - d] + messages[start + t * width + d]
            if value > top:
                mine, top = d, value
        if parent >= 0:
            left[parent - lo] = have - mine
        else:
            left_over = have - mine
        left[v - lo] = mine
        at, best, top = (forest.state_ptr[v] - first) * width, 0, -np.inf
        for s in range(c_v):
            value = beliefs[at + s * width + mine]
            for e in range(forest.entry_ptr[v], forest.entry_ptr[v + 1]):
                value += pool[forest.entry_offset[e] + (t * c_v + s if forest.entry_flip[e] else s * c_p + t)]
            if value > top:
                best, top = s, value
        labels[v - lo] = best


@njit(cache=True, nogil=True)
def best_by_count(
    forest: Forest, pool: F64, node: F64, counts: I64, examples: I64, label_ptr: I64, labels: I32, score: F64
) -> None:
    """Write the best labelling and score of each count (rows of ``labels`` and ``score``) of each listed example."""
    forest, pool, node, counts = borrow(forest), borrow(pool), borrow(node), borrow(counts)
    width, widest, states, edges, longest = len(score), 1, 1, 1, 1
    for i in examples:
        lo, hi = forest.var_ptr[i], forest.var_ptr[i + 1]
        longest = max(longest, hi - lo)
        states = max(states, forest.state_ptr[hi] - forest.state_ptr[lo])
        size = 0
        for v in range(lo, hi):
            widest = max(widest, forest.card[v])
            size += forest.card[forest.parent[v]] if forest.parent[v] >= 0 else 1
        edges = max(edges, size)
    beliefs, before, messages = np.empty(states * width), np.empty(edges * width), np.empty(edges * width)
    place, reach, left = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(longest, np.int64)
    scratch, total = np.empty(widest * widest), np.empty(width)
    for k in range(len(examples)):
        lo, hi = forest.var_ptr[examples[k]], forest.var_ptr[examples[k] + 1]
        overall = count_upwards(
            forest, lo, hi, pool, node, counts, width, beliefs, before, messages, place, reach, scratch, total
        )
        for c in range(overall + 1):
            score[c, k] = total[c]
            if total[c] > -np.inf:
                mine = labels[c, label_ptr[k] : label_ptr[k + 1]]
                count_downwards(forest, lo, hi, pool, c, width, beliefs, before, messages, place, left, mine)
