"""The batch kernels of ``qpbo``: network, flow, persistent states and bound, example after example."""

from __future__ import annotations

import numpy as np

from ssvm_backends.cuts.graph import whole_scale
from ssvm_backends.cuts.maxflow import Arcs, Nodes, advance, start, wave
from ssvm_backends.cuts.roof import roof_labels, roof_network
from ssvm_backends.graphs.graph import Graph
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import borrow, njit

#: Numbers of ``state``: examples finished, whether the flow of the next one is under way, twice its constant and the
#: sum of its unary scores (a whole number), whether something of it is forbidden, waves before the search.
STATE_SIZE = 5
FINISHED, _UNDER_WAY, _TWICE, FORBIDDEN, _WAVES = range(STATE_SIZE)

#: So many waves at most before the search (see :mod:`ssvm_backends.cuts.maxflow`), on graphs of up to so many
#: variables, and on those where a variable has more than so many neighbours on average.
WAVES, TINY, DENSE = 32, 16, 8


@njit(cache=True, nogil=True)
def _forbids(graph: Graph, score: F64, pool: F64, example: int) -> bool:
    """Whether a state or a joint state of an example is forbidden."""
    for s in range(graph.state_ptr[graph.var_ptr[example]], graph.state_ptr[graph.var_ptr[example + 1]]):
        if score[s] == -np.inf:
            return True
    for f in range(graph.factor_ptr[example], graph.factor_ptr[example + 1]):
        at = graph.table_ptr[f]
        if min(min(pool[at], pool[at + 1]), min(pool[at + 2], pool[at + 3])) == -np.inf:
            return True
    return False


@njit(cache=True, nogil=True)
def _bound(n: int, m: int, node: Nodes, twice: int, scale: float, const: float) -> float:
    """Return the bound that a flow, maximal or not, proves; ``twice`` is 2 const + sum_v e_v (see the module roof)."""
    for v in range(2 * n):
        twice += max(node[v].excess, np.int64(0))
    # rounding: half a unit for each score added up, and 53 binary digits for the sum itself
    bound = twice / (2 * scale) + (n + m + 64) / scale + const
    return bound + 2 * np.spacing(abs(bound))


@njit(cache=True, nogil=True)
def _flow(
    n: int, m: int, node: Nodes, arc: Arcs, queue: I64, control: I64, state: I64, budget: int
) -> tuple[bool, int]:
    """Go on with a flow; return (whether it is maximal, what is left of the budget).

    Parameters
    ----------
    n, m : int
        Variables and factors of the example: 2 n nodes, 4 m arcs.
    node, arc : ndarray of NODE, ndarray of ARC
        The network; its flow grows in place.
    queue : ndarray of int64, shape (at least 2 n,)
        Work space of the waves.
    control : ndarray of int64, shape (CONTROL_SIZE,)
        Where the search is, see :mod:`ssvm_backends.cuts.maxflow`; in and out.
    state : ndarray of int64, shape (STATE_SIZE,)
        How many waves are still to come is counted down.
    budget : int
        About how many arcs to look at.
    """
    while state[_WAVES] > 0:
        if budget <= 0:
            return False, budget
        budget -= 4 * m
        if wave(node, arc, 2 * n, queue):
            return True, budget
        state[_WAVES] -= 1
        if state[_WAVES] == 0:
            start(node, 2 * n, control)
    done = budget > 0 and advance(node, arc, control, budget)
    return done, budget - control[0] * (1 + 2 * m // n)


@njit(cache=True, nogil=True)
def roof_batch(
    graph: Graph, score: F64, pool: F64, const: F64, ids: I64, feasible: Bools, whole: bool, ptr: I64, decided: I32,
    bound: F64, node: Nodes, arc: Arcs, stack: I64, control: I64, state: I64, scale: F64, budget: int,
) -> bool:  # fmt: skip
    """Go on with a batch until it is done (return True), the budget is spent or ``whole`` is not true (False).

    Parameters
    ----------
    graph : Graph
        Structure; pairs only.
    score, pool, const : ndarray of float64
        Scores; every variable has two states.
    ids : ndarray of int64, shape (n,)
        Examples.
    feasible : ndarray of bool, shape (n,)
        The others are left out: their bound is -inf.
    whole : bool
        The caller says that nothing is forbidden; ``state[FORBIDDEN]`` is set when that is wrong.
    ptr : ndarray of int64, shape (n + 1,)
        Where their labels go.
    decided : ndarray of int32
        Result: the states that roof duality decides, -1 where it leaves a variable open.
    bound : ndarray of float64, shape (n,)
        Result: upper bounds, that of the example under way included.
    node, arc, control, stack
        Work space for the largest example, see :mod:`ssvm_backends.cuts.maxflow`; ``stack`` has two numbers for each
        variable.
    state : ndarray of int64, shape (STATE_SIZE,)
        Where the batch is, in and out; zeros at first.
    scale : ndarray of float64, shape (1,)
        Of the example under way.
    budget : int
        About how many arcs to look at.
    """
    graph, score, pool = borrow(graph), borrow(score), borrow(pool)
    node, arc, decided, stack = borrow(node), borrow(arc), borrow(decided), borrow(stack)
    while state[FINISHED] < len(ids):
        k = state[FINISHED]
        i = ids[k]
        n = graph.var_ptr[i + 1] - graph.var_ptr[i]
        m = graph.factor_ptr[i + 1] - graph.factor_ptr[i]
        if n == 0 or not feasible[k]:
            bound[k] = const[i] if feasible[k] else -np.inf
            state[FINISHED] += 1
            continue
        if state[_UNDER_WAY] == 0:
            if whole and _forbids(graph, score, pool, i):
                state[FORBIDDEN] = 1
                return False
            scale[0] = whole_scale(graph, score, pool, i)
            base, total = roof_network(graph, score, pool, i, scale[0], node, arc)
            state[_UNDER_WAY], state[_TWICE] = 1, 2 * base + total
            state[_WAVES] = WAVES if n <= TINY or 2 * m > DENSE * n else 0
            start(node, 2 * n, control)
            budget -= 4 * (n + m)
        done, budget = _flow(n, m, node, arc, stack, control, state, budget)
        bound[k] = _bound(n, m, node, state[_TWICE], scale[0], const[i])
        if not done:
            return False
        roof_labels(n, node, arc, decided[ptr[k] : ptr[k + 1]], stack)
        state[FINISHED] += 1
        state[_UNDER_WAY] = 0
    return True
