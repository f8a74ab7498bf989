r"""Sums over the labellings of forests whose count is within bounds: marginals and log partition functions.

A variable's state grows by the count of its subtree: ``b_v(s, c) = log sum exp(score)`` over the labellings of the
subtree of v in which v has state s and c is counted.  Messages sum over s, and taking a message in is a convolution::

    m_v(t, c) = log sum_s exp(b_v(s, c) + table(s, t))
    b_p(t, c) = log sum_{d + e = c} exp(b_p'(t, e) + m_v(t, d)),         b_p' the belief before the message came

``above`` is the logarithm of the derivative of Z by the exponentials of beliefs: what all labellings outside a subtree
add, given its root's state and its count.  It starts at 0 for the counts that are allowed, and goes down by the same
convolutions, the last message first::

    above m_v(t, d) = log sum_e exp(b_p'(t, e) + above b_p(t, d + e))
    above b_p'(t, e) = log sum_d exp(m_v(t, d) + above b_p(t, d + e))
    P(s, t) = sum_c exp(b_v(s, c) + table(s, t) + above m_v(t, c) - log Z)

On a chain of T variables of L states with counts up to A that is time and memory O(T L^2 A) and O(T L A); it is the
chain whose states are pairs of a state and a partial sum, whose tables of (L A)^2 entries are never made.  Everything
is in logarithms: what the bounds leave may be e^1000 times less than what they rule out.
"""

from __future__ import annotations

from itertools import pairwise
from time import perf_counter
from typing import NamedTuple

import numpy as np

from ssvm_backends.trees.count import CountedBeliefs, lay_out, no_beliefs
from ssvm_backends.trees.forest import Forest
from ssvm_backends.trees.max_product import edge_table, extent
from ssvm_backends.trees.sum_product import SumOutput, edge_factor, log_sum, sum_message, write_marginals
from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import assign, borrow, njit

#: Exponentials between two looks at the clock, about, and variables from which on an example is summed in slices.
SLICE, LONG = 1e6, 2000


class CountedScores(NamedTuple):
    """Scores of forests, the counts of states, and the allowed counts.

    Parameters
    ----------
    pool, factor, shift : ndarray of float64
        Tables, their exponentials and subtracted maxima (:func:`ssvm_backends.trees.sum_product.exp_tables`).
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that masks rule out.
    counts : ndarray of int64, shape (S, 2)
        The count of each state, in the first column.
    rows, start : ndarray of int64, shape (n,)
        Of each listed example: the largest allowed count and one, 0 where there is none; and where its numbers start
        in ``offset``.
    offset : ndarray of float64
        0 for each count that is allowed, ``-inf`` for the others.
    """

    pool: F64
    factor: F64
    shift: F64
    node: F64
    counts: I64
    rows: I64
    start: I64
    offset: F64


class EdgeSpace(NamedTuple):
    """Work space for one edge whose variables have up to c states, with counts up to m - 1.

    Parameters
    ----------
    table, linear, joint : ndarray of float64, shape (c * c,)
    from_, to : ndarray of float64, shape (c,)
    row : ndarray of float64, shape (m,)
    sent : ndarray of float64, shape (c * m,)
    """

    table: F64
    linear: F64
    joint: F64
    from_: F64
    to: F64
    row: F64
    sent: F64


class VariableSlice(NamedTuple):
    """An example, and a range of the places of its variables in the order of elimination.

    Parameters
    ----------
    lo, hi : int
        Its first variable, and the one after the last.
    begin, end : int
    """

    lo: int
    hi: int
    begin: int
    end: int


@njit(cache=True, nogil=True)
def log_convolve(first: F64, second: F64, sign: int, out: F64) -> None:
    """Write ``out(c) = log sum_a exp(first(a) + second(c - sign a))`` for every count c of ``out``.

    Parameters
    ----------
    first, second : ndarray of float64
        Logarithms by count; counts beyond their ends have ``-inf``.
    sign : int
        1: counts add up; -1: the count in addition to that of ``first``.
    out : ndarray of float64
        Written; must not overlap the others.
    """
    n, most = len(second), len(first) - 1
    for c in range(len(out)):
        lo, hi = (max(0, c - n + 1), min(c, most)) if sign > 0 else (0, min(n - 1 - c, most))
        top = -np.inf
        for a in range(lo, hi + 1):
            top = max(top, first[a] + second[c - sign * a])
        out[c] = top
        if top > -np.inf:
            total = 0.0
            for a in range(lo, hi + 1):
                total += np.exp(first[a] + second[c - sign * a] - top)
            out[c] += np.log(total)


@njit(cache=True, nogil=True)
def read_edge(forest: Forest, scores: CountedScores, v: int, c_p: int, space: EdgeSpace) -> float:
    """Write the table on v's edge and its exponentials, and return their shift; zeros where v has no parent."""
    c_v = forest.card[v]
    if forest.parent[v] < 0:
        space.table[:c_v] = 0.0
    else:
        edge_table(forest, scores.pool, v, c_v, c_p, space.table)
    return edge_factor(forest, scores.factor, scores.shift, v, c_v, c_p, space.linear)


@njit(cache=True, nogil=True)
def first_beliefs(forest: Forest, lo: int, hi: int, scores: CountedScores, work: CountedBeliefs) -> None:
    """Write the beliefs of variables lo..hi-1 and of the virtual parent before any message."""
    forest, scores, work = borrow(forest), borrow(scores), borrow(work)
    n, belief = hi - lo, work.belief
    belief[: work.place[n, 0] + work.reach[n, 0] + 1] = -np.inf
    belief[work.place[n, 0]] = 0.0
    for v in range(lo, hi):
        size = work.reach[v - lo, 0] + 1
        for s in range(forest.card[v]):
            x = forest.state_ptr[v] + s
            if scores.counts[x, 0] < size:
                belief[work.place[v - lo, 0] + s * size + scores.counts[x, 0]] = scores.node[x]


@njit(cache=True, nogil=True)
def sum_upwards(
    forest: Forest, example: VariableSlice, scores: CountedScores, work: CountedBeliefs, space: EdgeSpace
) -> None:
    """Send the messages of some variables of an example; the virtual parent gets the sum of each count in the end.

    Parameters
    ----------
    forest, scores
        Read only.
    example : VariableSlice
    work : CountedBeliefs
        Beliefs, messages and earlier beliefs are written.
    space : EdgeSpace
    """
    forest, scores, work, space = borrow(forest), borrow(scores), borrow(work), borrow(space)
    lo, hi = example.lo, example.hi
    n, belief = hi - lo, work.belief
    for position in range(example.begin, example.end):
        v = forest.order[position]
        i, up, c_v, c_p = v - lo, n, forest.card[v], 1
        if forest.parent[v] >= 0:
            up, c_p = forest.parent[v] - lo, forest.card[forest.parent[v]]
        size, whole, old = work.reach[i, 0] + 1, work.reach[up, 0] + 1, work.kept[i, 0] + 1
        shift = read_edge(forest, scores, v, c_p, space)
        message = work.message[work.place[i, 1] : work.place[i, 1] + c_p * size]
        for c in range(size):
            for s in range(c_v):
                space.from_[s] = belief[work.place[i, 0] + s * size + c]
            sum_message(space.from_, space.table, space.linear, shift, c_v, c_p, np.bool_(True), space.to)
            for t in range(c_p):
                message[t * size + c] = space.to[t]
        for t in range(c_p):
            mine = work.earlier[work.place[i, 2] + t * old : work.place[i, 2] + (t + 1) * old]
            target = belief[work.place[up, 0] + t * whole : work.place[up, 0] + (t + 1) * whole]
            assign(mine, target)
            log_convolve(mine, message[t * size : (t + 1) * size], 1, target[: min(old + size - 1, whole)])


@njit(cache=True, nogil=True)
def sum_downwards(
    forest: Forest, example: VariableSlice, scores: CountedScores, work: CountedBeliefs, space: EdgeSpace,
    out: SumOutput, k: int,
) -> None:  # fmt: skip
    """Write marginals of the example listed at place k, the last root first; see the module for the equations.

    Parameters
    ----------
    forest, scores
        Read only.
    example : VariableSlice
        Those after it are done.
    work : CountedBeliefs
        Those of :func:`sum_upwards`, with ``above`` of the virtual parent; the rest of ``above`` is written.
    space : EdgeSpace
    out : SumOutput
        Marginals are written; log Z is read.
    k : int
    """
    forest, scores, work, space, out = borrow(forest), borrow(scores), borrow(work), borrow(space), borrow(out)
    lo, hi = example.lo, example.hi
    n, log_z, belief, above, first = hi - lo, out.log_z[k], work.belief, work.above, forest.state_ptr[lo]
    for position in range(example.end - 1, example.begin - 1, -1):
        v = forest.order[position]
        i, up, c_v, c_p = v - lo, n, forest.card[v], 1
        if forest.parent[v] >= 0:
            up, c_p = forest.parent[v] - lo, forest.card[forest.parent[v]]
        size, whole, old = work.reach[i, 0] + 1, work.reach[up, 0] + 1, work.kept[i, 0] + 1
        mine, at = work.place[i, 0], out.ptr[k] + forest.state_ptr[v] - first
        shift = read_edge(forest, scores, v, c_p, space)
        for t in range(c_p):
            earlier = work.earlier[work.place[i, 2] + t * old : work.place[i, 2] + (t + 1) * old]
            message = work.message[work.place[i, 1] + t * size : work.place[i, 1] + (t + 1) * size]
            over = above[work.place[up, 0] + t * whole : work.place[up, 0] + t * whole + min(old + size - 1, whole)]
            log_convolve(earlier, over, -1, space.sent[t * size : (t + 1) * size])
            log_convolve(message, over, -1, space.row[:old])
            assign(over[:old], space.row)
        space.joint[: c_v * c_p] = 0.0
        out.node[at : at + c_v] = 0.0
        for c in range(size):
            for t in range(c_p):
                space.from_[t] = space.sent[t * size + c]
            sum_message(space.from_, space.table, space.linear, shift, c_p, c_v, np.bool_(False), space.to)
            for s in range(c_v):
                above[mine + s * size + c] = space.to[s]
                out.node[at + s] += np.exp(belief[mine + s * size + c] + space.to[s] - log_z)
                for t in range(c_p):
                    whole_score = belief[mine + s * size + c] + space.table[s * c_p + t] + space.from_[t]
                    space.joint[s * c_p + t] += np.exp(whole_score - log_z)
        normalise(out.node, at, c_v)
        normalise(space.joint, 0, c_v * c_p)
        write_marginals(forest, v, c_v, c_p, space.joint, out, k)


@njit(cache=True, nogil=True)
def normalise(values: F64, at: int, n: int) -> None:
    """Divide the ``n`` values from ``at`` on by their sum.

    Parameters
    ----------
    values : ndarray of float64, shape (at + n or more,)
        Those from ``at`` on are written; their sum is not 0.
    at, n : int
    """
    total = 0.0
    for k in range(at, at + n):
        total += values[k]
    for k in range(at, at + n):
        values[k] /= total


@njit(cache=True, nogil=True)
def edge_space(widest: int, most: int) -> EdgeSpace:
    """Return work space for variables of some states, and some counts."""
    squares, few = np.empty((3, widest * widest)), np.empty((2, widest))
    return EdgeSpace(squares[0], squares[1], squares[2], few[0], few[1], np.empty(most), np.empty(widest * most))


@njit(cache=True, nogil=True)
def total_of(scores: CountedScores, work: CountedBeliefs, n: int, k: int) -> float:
    """Return log Z of the example listed at place k, of n variables whose messages are sent; ``above`` begins."""
    root, counted = work.place[n, 0], work.reach[n, 0] + 1
    for c in range(counted):
        work.above[root + c] = scores.offset[scores.start[k] + c]
    return log_sum(work.belief[root : root + counted] + work.above[root : root + counted])


@njit(cache=True, nogil=True)
def sum_by_count(forest: Forest, scores: CountedScores, examples: I64, out: SumOutput) -> None:
    """Write marginals and log partition (without constant) of each listed example, within the bounds of its count.

    Parameters
    ----------
    forest : Forest
        Structure; read only.
    scores : CountedScores
    examples : ndarray of int64, shape (n,)
        The examples.
    out : SumOutput
        Written; log Z is ``-inf``, and the marginals are left alone, where there is no labelling.
    """
    longest, _, widest = extent(forest, examples)
    most = 1
    for n_rows in scores.rows:
        most = max(most, n_rows)
    work, space = no_beliefs(longest), edge_space(widest, most)
    for k in range(len(examples)):
        lo, hi = forest.var_ptr[examples[k]], forest.var_ptr[examples[k] + 1]
        out.log_z[k] = -np.inf
        if scores.rows[k] == 0:
            continue
        work = lay_out(forest, (lo, hi), scores.counts, (scores.rows[k] - 1, 0), work)
        whole = VariableSlice(lo, hi, lo, hi)
        first_beliefs(forest, lo, hi, scores, work)
        sum_upwards(forest, whole, scores, work, space)
        out.log_z[k] = total_of(scores, work, hi - lo, k)
        if out.log_z[k] > -np.inf:
            sum_downwards(forest, whole, scores, work, space, out, k)


def sum_in_slices(forest: Forest, scores: CountedScores, example: int, out: SumOutput, end: float) -> bool:
    """Do the same for one example, a slice of its variables at a time; return whether there was time.

    Parameters
    ----------
    forest, scores, out
        As for :func:`sum_by_count`, of this example alone.
    example : int
    end : float
        When to give up, by :func:`time.perf_counter`.
    """
    lo, hi = (int(v) for v in forest.var_ptr[example : example + 2])
    n, most, widest = hi - lo, int(scores.rows[0]), int(forest.card[lo:hi].max(initial=1))
    work, space = lay_out(forest, (lo, hi), scores.counts, (most - 1, 0), no_beliefs(n)), edge_space(widest, most)
    each = max(int(SLICE / (widest * most * (widest + most))), 1)
    cuts = [*range(lo, hi, each), hi]
    first_beliefs(forest, lo, hi, scores, work)
    for begin, stop in pairwise(cuts):
        if perf_counter() > end:
            return False
        sum_upwards(forest, VariableSlice(lo, hi, begin, stop), scores, work, space)
    out.log_z[0] = total_of(scores, work, n, 0)
    for stop, begin in pairwise(reversed(cuts) if out.log_z[0] > -np.inf else ()):
        if perf_counter() > end:
            return False
        sum_downwards(forest, VariableSlice(lo, hi, begin, stop), scores, work, space, out, 0)
    return True
