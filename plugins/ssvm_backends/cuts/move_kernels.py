"""Moves of many variables at once, each a minimum cut (Boykov, Veksler and Zabih, PAMI 2001).

A move offers each variable two states, ``zero`` and ``one``.  *Expansion* of label alpha: keep the state or take alpha.
*Swap* of alpha and beta: those that have one of them choose again between the two.  The best of all (exponentially
many) outcomes is a binary problem in which every table must be submodular; for expansion that is the metric
inequality ``t(a, b) + t(alpha, alpha) >= t(a, alpha) + t(alpha, b)``, for swap the semimetric one
``t(alpha, alpha) + t(beta, beta) >= t(alpha, beta) + t(beta, alpha)``.  It is checked wherever a move relies on it.

*Auxiliary variables* of P^n Potts factors (their last state is "free") take part with a third choice: in an expansion
to go from the state k that all variables of their factor have to free or to alpha, in a swap any of alpha, free and
beta.  They have two nodes, u for "one" and s for "not zero", with a link that forbids u without s, so that a move is
the best of all outcomes under the P^n potentials themselves (Kohli, Kumar and Torr, CVPR 2007).

Moves go round until none of them improves the labelling.  Scores are whole numbers (:func:`whole_scale`), so every
accepted move is a true improvement and the search ends.

Measured on the 4-label Potts grid of 100 x 100 variables (``make bench ARGS=cuts``): expansion takes 1.1 to 1.4 times
as long as gco.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.cuts.graph import CutGraph, add_pair, whole
from ssvm_backends.cuts.maxflow import UNBOUNDED, Arcs, Nodes, advance, load, on_source_side, start
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
def settle_auxiliary(graph: Graph, score: F64, pool: F64, example: int, free: I32, labels: I32) -> None:
    """Write the best states of auxiliary variables, given the others.

    Parameters
    ----------
    graph, score, pool, example
        As for :func:`improve_by_moves`.
    free : ndarray of int32, shape (n,)
        The free state of auxiliary variables, -1 for others.
    labels : ndarray of int32, shape (n,)
        The labelling, changed in place.
    """
    lo = graph.var_ptr[example]
    for v in range(len(labels)):
        if free[v] < 0:
            continue
        best = -np.inf
        for s in range(graph.card[lo + v]):
            total = score[graph.state_ptr[lo + v] + s]
            for t in range(graph.touch_ptr[lo + v], graph.touch_ptr[lo + v + 1]):
                k = graph.touch_slot[t]
                row = graph.table_ptr[graph.slot_factor[k]] + s * graph.stride[k]
                total += pool[row + labels[graph.scope[k + 1] - lo]]
            if total > best:
                best, labels[v] = total, s


@njit(cache=True, nogil=True)
def _offer(
    place: I32, free: I32, labels: I32, alpha: int, beta: int, zero: I32, mid: I32, one: I32
) -> int:
    """Write the two or three states a move offers; return how many variables may choose.

    Parameters
    ----------
    place, free, labels
        As for :func:`improve_by_moves`.
    alpha, beta : int
        The labels of the move; beta is -1 for expansions.
    zero, mid, one : ndarray of int32, shape (n,)
        Written: the states; ``one`` is -1 where there is no choice, ``mid`` where there are two.
    """
    count = 0
    for v in range(len(labels)):
        now, a = labels[v], place[v, alpha]
        zero[v], mid[v], one[v] = now, -1, -1
        if free[v] >= 0:
            low, high = (now, a) if beta < 0 else (a, place[v, beta])
            if low >= 0 and high >= 0 and high != free[v] and low != high and now in (low, high, free[v]):
                zero[v], one[v] = low, high
                if low != free[v]:
                    mid[v] = free[v]
        elif beta < 0:
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
    graph: Graph, cut: CutGraph, score: F64, pool: F64, example: int, zero: I32, mid: I32, one: I32, scale: float,
    node: Nodes, arc: Arcs,
) -> int:  # fmt: skip
    """Write the network of a move; return a factor that is not submodular, -1 when all are.

    Side 1 of a variable (that of the source) stands for the state ``one``, side 0 for ``zero``.  Tables of which one
    variable has no choice become unary scores.  Of a variable with a third choice m and nodes u, s the table with y is

        t(zero, y) + s (t(m, y) - t(zero, y)) + u (t(one, y) - t(m, y)),    u <= s,

    two tables less ``t(m, y)``.

    Parameters
    ----------
    graph, cut : Graph, CutGraph
        Structure; read only.  All factors are pairs, so that the first nodes are variables.
    score, pool : ndarray of float64
        Scores of states and tables, all finite.
    example : int
        The example.
    zero, mid, one : ndarray of int32, shape (n,)
        The states offered to each variable of the example, see :func:`_offer`.
    scale : float
        Power of two that makes scores whole numbers, the same for all moves.
    node, arc : ndarray of NODE, ndarray of ARC
        Written: the network, its nodes and arcs numbered from 0.
    """
    lo, hi, nodes = graph.var_ptr[example], graph.var_ptr[example + 1], cut.node_ptr[example]
    base = cut.first[nodes]
    load(cut.first, cut.head, cut.sister, nodes, cut.node_ptr[example + 1], node, arc)
    table = np.empty(4)
    for v in range(lo, hi):
        s, low, third, high = graph.state_ptr[v], zero[v - lo], mid[v - lo], one[v - lo]
        if third >= 0:
            node[cut.second[v] - nodes].excess = whole(score[s + third], scale) - whole(score[s + low], scale)
            arc[cut.number[cut.own_edge[v]] - base].cap = UNBOUNDED
            low = third
        if high >= 0:
            node[v - lo].excess = whole(score[s + high], scale) - whole(score[s + low], scale)
    for f in range(graph.factor_ptr[example], graph.factor_ptr[example + 1]):
        k, t = graph.slot_ptr[f], graph.table_ptr[f]
        p, q, step = graph.scope[k] - lo, graph.scope[k + 1] - lo, graph.stride[k]
        low = zero[p]
        if mid[p] >= 0:
            # the table of s and y first, then on with that of u and y as if the third choice was zero
            other, low = cut.second[lo + p] - nodes, mid[p]
            a, b = t + zero[p] * step, t + low * step
            if one[q] >= 0:
                table[0], table[1], table[2], table[3] = (
                    pool[a + zero[q]], pool[a + one[q]], pool[b + zero[q]], pool[b + one[q]]
                )  # fmt: skip
                if add_pair(node, arc, cut.number[cut.edge_ptr[f] + 1] - base, other, q, table, scale) < 0:
                    return f
                node[q].excess -= whole(table[3], scale) - whole(table[2], scale)
            else:
                node[other].excess += whole(pool[b + zero[q]], scale) - whole(pool[a + zero[q]], scale)
        t00 = t + low * step + zero[q]
        if one[p] >= 0 and one[q] >= 0:
            t10 = t + one[p] * step
            table[0], table[1] = pool[t00], pool[t + low * step + one[q]]
            table[2], table[3] = pool[t10 + zero[q]], pool[t10 + one[q]]
            if add_pair(node, arc, cut.number[cut.edge_ptr[f]] - base, p, q, table, scale) < 0:
                return f
        elif one[p] >= 0:
            node[p].excess += whole(pool[t + one[p] * step + zero[q]], scale) - whole(pool[t00], scale)
        elif one[q] >= 0:
            node[q].excess += whole(pool[t + low * step + one[q]], scale) - whole(pool[t00], scale)
    return -1


@njit(cache=True, nogil=True)
def improve_by_moves(
    graph: Graph, cut: CutGraph, score: F64, pool: F64, example: int, scale: float, place: I32, free: I32,
    moves: I32, labels: I32, zero: I32, mid: I32, one: I32, node: Nodes, arc: Arcs, control: I64, state: I64,
    most: int, budget: int,
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
    free : ndarray of int32, shape (n,)
        The free state of auxiliary variables, which have two nodes; -1 for others.
    moves : ndarray of int32, shape (m, 2)
        Labels (alpha, beta); beta is -1 for expansions.
    labels : ndarray of int32, shape (n,)
        The states to improve, in place; auxiliary variables are settled (:func:`settle_auxiliary`).
    zero, mid, one : ndarray of int32, shape (n,)
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
    mid, free = borrow(mid), borrow(free)
    nodes, beyond = cut.node_ptr[example], cut.node_ptr[example + 1]
    n = beyond - nodes
    while state[2] < len(moves):
        if state[0] == 0:
            if state[4] >= most:
                return False
            state[4] += 1
            budget -= n
            if _offer(place, free, labels, moves[state[1], 0], moves[state[1], 1], zero, mid, one) == 0:
                state[1] = (state[1] + 1) % len(moves)
                state[2] += 1
                continue
            state[5] = _price(graph, cut, score, pool, example, zero, mid, one, scale, node, arc)
            if state[5] >= 0:
                return False
            budget -= 2 * (cut.first[beyond] - cut.first[nodes])
            start(node, n, control)
            state[0] = 1
        if not advance(node, arc, control, max(budget, 1000)):
            return False
        budget -= 2 * control[0]
        state[0] = 0
        state[1] = (state[1] + 1) % len(moves)
        state[2] += 1
        _accept(graph, cut, score, pool, example, scale, labels, zero, mid, one, node, state)
        if budget < 0:
            return state[2] >= len(moves)
    return True


@njit(cache=True, nogil=True)
def _accept(
    graph: Graph, cut: CutGraph, score: F64, pool: F64, example: int, scale: float, labels: I32, zero: I32,
    mid: I32, one: I32, node: Nodes, state: I64,
) -> None:  # fmt: skip
    """Take the outcome of a finished move if it is better.

    Parameters
    ----------
    graph, cut, score, pool, example, scale
        As for :func:`improve_by_moves`.
    labels : ndarray of int32, shape (n,)
        The labelling, replaced by the outcome if that has a higher score.
    zero : ndarray of int32, shape (n,)
        In: the states offered; out: the outcome of the move.
    mid, one : ndarray of int32, shape (n,)
        The other states offered, -1 where there is no choice; read only.
    node : ndarray of NODE
        The network after its flow; read only.
    state : ndarray of int64, shape (STATE_SIZE,)
        On success the score and the number of moves since the last improvement are written.
    """
    changed, lo = False, graph.var_ptr[example]
    for v in range(len(labels)):
        if one[v] >= 0 and on_source_side(node, v):
            zero[v] = one[v]
        elif mid[v] >= 0 and on_source_side(node, cut.second[lo + v] - cut.node_ptr[example]):
            zero[v] = mid[v]
        changed = changed or zero[v] != labels[v]
    if changed:
        total = whole_score(graph, score, pool, example, zero, scale)
        if total > state[3]:
            assign(labels, zero)
            state[2], state[3] = 1, total  # 1: the move itself, which cannot help again before another one does
