"""Moves of many variables at once, each a minimum cut (Boykov, Veksler and Zabih, PAMI 2001).

A move offers each variable two states, ``zero`` and ``one``.  *Expansion* of label alpha: keep the state or take alpha.
*Swap* of alpha and beta: those that have one of them choose again between the two.  The best of all (exponentially
many) outcomes is a binary problem in which every table must be submodular; for expansion that is the metric
inequality ``t(a, b) + t(alpha, alpha) >= t(a, alpha) + t(alpha, b)``, for swap the semimetric one
``t(alpha, alpha) + t(beta, beta) >= t(alpha, beta) + t(beta, alpha)``.  It is checked wherever a move relies on it.

Moves go round until none of them improves the labelling.  Scores are whole numbers (:func:`whole_scale`), so every
accepted move is a true improvement and the search ends.

Measured on the 4-label Potts grid of 100 x 100 variables (``make bench ARGS=cuts``): expansion takes 1.1 to 1.4 times
as long as gco.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.cuts.graph import CutGraph, add_pair, whole
from ssvm_backends.cuts.maxflow import Arcs, Nodes, advance, load, on_source_side, start
from ssvm_backends.graphs.graph import Graph
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import assign, borrow, njit

#: Numbers of ``state``: whether a flow is under way, the move, moves since the last improvement, score (whole number),
#: moves tried, offending factor or -1.
STATE_SIZE = 6


@njit(cache=True, nogil=True)
def whole_score(graph: Graph, score: F64, pool: F64, example: int, labels: I32, scale: float) -> int:
    """Return the score of a labelling of one example as a whole number."""
    lo, total = graph.var_ptr[example], 0
    for v in range(lo, graph.var_ptr[example + 1]):
        total += whole(score[graph.state_ptr[v] + labels[v - lo]], scale)
    for f in range(graph.factor_ptr[example], graph.factor_ptr[example + 1]):
        k = graph.slot_ptr[f]
        p, q = graph.scope[k] - lo, graph.scope[k + 1] - lo
        total += whole(pool[graph.table_ptr[f] + labels[p] * graph.stride[k] + labels[q]], scale)
    return total


@njit(cache=True, nogil=True)
def forbidding(graph: Graph, pool: F64, example: int) -> int:
    """Return a factor of one example whose table holds ``-inf``, -1 without one."""
    for f in range(graph.factor_ptr[example], graph.factor_ptr[example + 1]):
        for c in range(graph.table_ptr[f], graph.table_ptr[f] + graph.table_size[f]):
            if pool[c] == -np.inf:
                return f
    return -1


@njit(cache=True, nogil=True)
def _offer(place: I32, labels: I32, alpha: int, beta: int, zero: I32, one: I32) -> int:
    """Write the two states a move offers (``one`` is -1 where there is no choice); return how many may choose."""
    count = 0
    for v in range(len(labels)):
        now, a = labels[v], place[v, alpha]
        zero[v], one[v] = now, -1
        if beta < 0:
            if a >= 0 and a != now:
                one[v] = a
        else:
            b = place[v, beta]
            if a >= 0 and b >= 0 and now in (a, b):
                zero[v], one[v] = a, b
        count += one[v] >= 0
    return count


@njit(cache=True, nogil=True)
def _price(
    graph: Graph, cut: CutGraph, score: F64, pool: F64, example: int, zero: I32, one: I32, scale: float,
    node: Nodes, arc: Arcs,
) -> int:  # fmt: skip
    """Write the network of a move; return a factor that is not submodular, -1 when all are.

    Side 1 of a variable (that of the source) stands for the state ``one``, side 0 for ``zero``.  Tables of which one
    variable has no choice become unary scores.

    Parameters
    ----------
    graph, cut : Graph, CutGraph
        Structure; read only.  All factors are pairs, so nodes are variables.
    score, pool : ndarray of float64
        Scores of states and tables, all finite.
    example : int
        The example.
    zero, one : ndarray of int32, shape (n,)
        The two states offered to each variable of the example; ``one`` is -1 where there is no choice.
    scale : float
        Power of two that makes scores whole numbers, the same for all moves.
    node, arc : ndarray of NODE, ndarray of ARC
        Written: the network, its nodes and arcs numbered from 0.
    """
    lo, hi = graph.var_ptr[example], graph.var_ptr[example + 1]
    base = cut.first[lo]
    load(cut.first, cut.head, cut.sister, lo, hi, node, arc)
    table = np.empty(4)
    for v in range(lo, hi):
        if one[v - lo] >= 0:
            s = graph.state_ptr[v]
            node[v - lo].excess = whole(score[s + one[v - lo]], scale) - whole(score[s + zero[v - lo]], scale)
    for f in range(graph.factor_ptr[example], graph.factor_ptr[example + 1]):
        k, t = graph.slot_ptr[f], graph.table_ptr[f]
        p, q, step = graph.scope[k] - lo, graph.scope[k + 1] - lo, graph.stride[k]
        t00 = t + zero[p] * step + zero[q]
        if one[p] >= 0 and one[q] >= 0:
            t10 = t + one[p] * step
            table[0], table[1] = pool[t00], pool[t + zero[p] * step + one[q]]
            table[2], table[3] = pool[t10 + zero[q]], pool[t10 + one[q]]
            if add_pair(node, arc, cut.number[cut.edge_ptr[f]] - base, p, q, table, scale) < 0:
                return f
        elif one[p] >= 0:
            node[p].excess += whole(pool[t + one[p] * step + zero[q]], scale) - whole(pool[t00], scale)
        elif one[q] >= 0:
            node[q].excess += whole(pool[t + zero[p] * step + one[q]], scale) - whole(pool[t00], scale)
    return -1


@njit(cache=True, nogil=True)
def improve_by_moves(
    graph: Graph, cut: CutGraph, score: F64, pool: F64, example: int, scale: float, place: I32, moves: I32,
    labels: I32, zero: I32, one: I32, node: Nodes, arc: Arcs, control: I64, state: I64, most: int,
    budget: int,
) -> bool:  # fmt: skip
    """Go on until no move helps (return True), the budget is spent or a table is not submodular (return False).

    Parameters
    ----------
    graph, cut : Graph, CutGraph
        Structure; read only.
    score, pool : ndarray of float64
        Scores of states and tables (pairs only, all finite).
    example : int
        The example.
    scale : float
        ``whole_scale(graph, score, pool, example)``.
    place : ndarray of int32, shape (n, L)
        For each variable of the example and each label the state that stands for it, -1 without one.
    moves : ndarray of int32, shape (m, 2)
        Labels (alpha, beta); beta is -1 for expansions.
    labels : ndarray of int32, shape (n,)
        The states to improve, in place.
    zero, one : ndarray of int32, shape (n,)
        Work space: the move under way.
    node, arc, control
        Work space of :mod:`ssvm_backends.cuts.maxflow`; between calls it holds the flow that is under way.
    state : ndarray of int64, shape (STATE_SIZE,)
        Where the search is, in and out.  At first zeros, but for the score of ``labels`` and a last -1.
    most : int
        Moves to try at most.
    budget : int
        About how many arcs to look at.
    """
    graph, cut, score, pool = borrow(graph), borrow(cut), borrow(score), borrow(pool)
    node, arc, labels, zero, one = borrow(node), borrow(arc), borrow(labels), borrow(zero), borrow(one)
    n = len(labels)
    while state[2] < len(moves):
        if state[0] == 0:
            if state[4] >= most:
                return False
            state[4] += 1
            budget -= n
            if _offer(place, labels, moves[state[1], 0], moves[state[1], 1], zero, one) == 0:
                state[1] = (state[1] + 1) % len(moves)
                state[2] += 1
                continue
            state[5] = _price(graph, cut, score, pool, example, zero, one, scale, node, arc)
            if state[5] >= 0:
                return False
            budget -= 2 * (cut.first[graph.var_ptr[example + 1]] - cut.first[graph.var_ptr[example]])
            start(node, n, control)
            state[0] = 1
        if not advance(node, arc, control, max(budget, 1000)):
            return False
        budget -= 2 * control[0]
        state[0] = 0
        state[1] = (state[1] + 1) % len(moves)
        state[2] += 1
        _accept(graph, score, pool, example, scale, labels, zero, one, node, state)
        if budget < 0:
            return state[2] >= len(moves)
    return True


@njit(cache=True, nogil=True)
def _accept(
    graph: Graph, score: F64, pool: F64, example: int, scale: float, labels: I32, zero: I32, one: I32, node: Nodes,
    state: I64,
) -> None:  # fmt: skip
    """Take the outcome of a finished move if it is better.

    Parameters
    ----------
    graph, score, pool, example, scale
        As for :func:`improve_by_moves`.
    labels : ndarray of int32, shape (n,)
        The labelling, replaced by the outcome if that has a higher score.
    zero : ndarray of int32, shape (n,)
        In: the states offered; out: the outcome of the move.
    one : ndarray of int32, shape (n,)
        The other states offered, -1 where there is no choice; read only.
    node : ndarray of NODE
        The network after its flow; read only.
    state : ndarray of int64, shape (STATE_SIZE,)
        On success the score and the number of moves since the last improvement are written.
    """
    changed = False
    for v in range(len(labels)):
        if one[v] >= 0 and on_source_side(node, v):
            zero[v] = one[v]
        changed = changed or zero[v] != labels[v]
    if changed:
        total = whole_score(graph, score, pool, example, zero, scale)
        if total > state[3]:
            assign(labels, zero)
            state[2], state[3] = 1, total  # 1: the move itself, which cannot help again before another one does
