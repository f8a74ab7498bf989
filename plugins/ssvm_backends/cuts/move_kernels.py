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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.cuts.graph import CutGraph, add_pair, whole
from ssvm_backends.cuts.maxflow import UNBOUNDED, Flow, Nodes, advance, load, on_source_side, start
from ssvm_backends.graphs.graph import Graph, Instance
from ssvm_dsl.ir import F64, I32
from ssvm_dsl.kernels import assign, borrow, njit

#: The state of a search: whether a flow is under way, the move, moves since the last gain, the score (whole number),
#: moves tried, the factor that is refused or -1.
MOVE_STATE = np.dtype(
    [
        ("under_way", np.int64), ("move", np.int64), ("idle", np.int64), ("score", np.int64), ("tried", np.int64),
        ("refused", np.int64),
    ]
)  # fmt: skip
MoveState = NDArray[np.void]


class MoveProblem(NamedTuple):
    """One example to be searched by moves.

    Parameters
    ----------
    instance : Instance
        Pairs only, all scores finite.
    cut : CutGraph
        Its structure; the first nodes are variables.
    example : int
    scale : float
        Power of two that makes scores whole numbers: ``whole_scale(graph, node, pool, example)``.
    place : ndarray of int32, shape (n, L)
        For each variable of the example and each label the state that stands for it, -1 without one.
    free : ndarray of int32, shape (n,)
        The free state of auxiliary variables, which have two nodes; -1 for others.
    moves : ndarray of int32, shape (m, 2)
        Labels (alpha, beta); beta is -1 for expansions.
    """

    instance: Instance
    cut: CutGraph
    example: int
    scale: float
    place: I32
    free: I32
    moves: I32


class Move(NamedTuple):
    """The states that a move offers the variables of an example.

    Parameters
    ----------
    zero : ndarray of int32, shape (n,)
        The state on side 0; after the move, the outcome.
    mid : ndarray of int32, shape (n,)
        The third choice, -1 where there are two.
    one : ndarray of int32, shape (n,)
        The state on side 1, -1 where there is no choice.
    """

    zero: I32
    mid: I32
    one: I32


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
        As for :func:`whole_score`.
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
def _offer(problem: MoveProblem, number: int, labels: I32, move: Move) -> int:
    """Write the two or three states that a move (by its number) offers; return how many variables may choose."""
    place, free, zero, mid, one = problem.place, problem.free, move.zero, move.mid, move.one
    alpha, beta = problem.moves[number, 0], problem.moves[number, 1]
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
def _price(problem: MoveProblem, move: Move, flow: Flow) -> int:
    """Write the network of a move; return a factor that is not submodular, -1 when all are.

    Side 1 of a variable (that of the source) stands for the state ``one``, side 0 for ``zero``.  Tables of which one
    variable has no choice become unary scores.  Of a variable with a third choice m and nodes u, s the table with y is

        t(zero, y) + s (t(m, y) - t(zero, y)) + u (t(one, y) - t(m, y)),    u <= s,

    two tables less ``t(m, y)``.
    """
    graph, score, pool, cut = problem.instance.graph, problem.instance.node, problem.instance.pool, problem.cut
    example, scale, node, arc = problem.example, problem.scale, flow.node, flow.arc
    zero, mid, one = move.zero, move.mid, move.one
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
    problem: MoveProblem, labels: I32, move: Move, flow: Flow, state: MoveState, most: int, budget: int
) -> bool:
    """Continue until no move helps (return True), the budget is spent or a table is not submodular (return False).

    Parameters
    ----------
    problem : MoveProblem
        Read only.
    labels : ndarray of int32, shape (n,)
        The states to improve, in place; auxiliary variables are settled (:func:`settle_auxiliary`).
    move, flow
        Work space: the move and the flow that are under way between two calls.
    state : ndarray of MOVE_STATE, shape (1,)
        State of the search, in and out.  At first zeros, but for the score of ``labels`` and a refused factor of -1.
    most : int
        Moves to try at most.
    budget : int
        Number of arcs to visit, approximately.
    """
    p, move, flow, labels, at = borrow(problem), borrow(move), borrow(flow), borrow(labels), state[0]
    cut, n_moves = p.cut, len(p.moves)
    nodes, beyond = cut.node_ptr[p.example], cut.node_ptr[p.example + 1]
    n = beyond - nodes
    while at.idle < n_moves:
        if at.under_way == 0:
            if at.tried >= most:
                return False
            at.tried += 1
            budget -= n
            if _offer(p, at.move, labels, move) == 0:
                at.move = (at.move + 1) % n_moves
                at.idle += 1
                continue
            at.refused = _price(p, move, flow)
            if at.refused >= 0:
                return False
            budget -= 2 * (cut.first[beyond] - cut.first[nodes])
            start(flow.node, n, flow.control)
            at.under_way = 1
        if not advance(flow.node, flow.arc, flow.control, max(budget, 1000)):
            return False
        budget -= 2 * flow.control[0].time
        at.under_way = 0
        at.move = (at.move + 1) % n_moves
        at.idle += 1
        _accept(p, labels, move, flow.node, state)
        if budget < 0:
            return at.idle >= n_moves
    return True


@njit(cache=True, nogil=True)
def _accept(problem: MoveProblem, labels: I32, move: Move, node: Nodes, state: MoveState) -> None:
    """Take the outcome of a finished move if it is better.

    Parameters
    ----------
    problem : MoveProblem
        Read only.
    labels : ndarray of int32, shape (n,)
        The labelling, replaced by the outcome if that has a higher score.
    move : Move
        ``zero`` becomes the outcome.
    node : ndarray of NODE
        The network after its flow; read only.
    state : ndarray of MOVE_STATE, shape (1,)
        On success the score and the number of moves since the last improvement are written.
    """
    instance, cut, zero, example = problem.instance, problem.cut, move.zero, problem.example
    changed, lo = False, instance.graph.var_ptr[example]
    for v in range(len(labels)):
        if move.one[v] >= 0 and on_source_side(node, v):
            zero[v] = move.one[v]
        elif move.mid[v] >= 0 and on_source_side(node, cut.second[lo + v] - cut.node_ptr[example]):
            zero[v] = move.mid[v]
        changed = changed or zero[v] != labels[v]
    if changed:
        total = whole_score(instance.graph, instance.node, instance.pool, example, zero, problem.scale)
        if total > state[0].score:
            assign(labels, zero)
            state[0].idle, state[0].score = 1, total  # 1: the move itself, which cannot help before another one does
