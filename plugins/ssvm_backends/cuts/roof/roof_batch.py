"""The batch kernels of ``qpbo``: network, flow, persistent states and bound, example after example."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.cuts.graph import whole_scale
from ssvm_backends.cuts.maxflow import Flow, Nodes, advance, start, wave
from ssvm_backends.cuts.roof.roof import roof_labels, roof_network
from ssvm_backends.graphs.graph import Graph, Instance
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import borrow, njit

#: The position in a batch: examples finished, whether the flow of the next one is under way, twice its constant and the
#: sum of its unary scores (a whole number), its scale, whether something of it is forbidden, waves before the search.
ROOF_STATE = np.dtype(
    [
        ("finished", np.int64), ("under_way", np.int64), ("twice", np.int64), ("scale", np.float64),
        ("forbidden", np.int64), ("waves", np.int64),
    ]
)  # fmt: skip
RoofState = NDArray[np.void]

#: Most waves before the search (see :mod:`ssvm_backends.cuts.maxflow`): on graphs of up to this number of
#: variables, and on those with more than this number of neighbours of a variable on average.
WAVES, TINY, DENSE = 32, 16, 8


class RoofBatch(NamedTuple):
    """Roof duality on some examples.

    Parameters
    ----------
    instance : Instance
        Pairs of variables of two states.
    ids : ndarray of int64, shape (n,)
        Examples.
    feasible : ndarray of bool, shape (n,)
        The others are left out: their bound is -inf.
    label_ptr : ndarray of int64, shape (n + 1,)
        Where their labels go.
    decided : ndarray of int32
        Result: the states that roof duality decides, -1 where it leaves a variable open.
    bound : ndarray of float64, shape (n,)
        Result: upper bounds, that of the example under way included.
    """

    instance: Instance
    ids: I64
    feasible: Bools
    label_ptr: I64
    decided: I32
    bound: F64


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
def _flow(n: int, m: int, flow: Flow, queue: I64, state: RoofState, budget: int) -> tuple[bool, int]:
    """Continue a flow; return (whether it is maximal, the rest of the budget).

    Parameters
    ----------
    n, m : int
        Variables and factors of the example: 2 n nodes, 4 m arcs.
    flow : Flow
        It grows in place.
    queue : ndarray of int64, shape (at least 2 n,)
        Work space of the waves.
    state : ndarray of ROOF_STATE, shape (1,)
        How many waves are still to come is counted down.
    budget : int
        Number of arcs to visit, approximately.
    """
    while state[0].waves > 0:
        if budget <= 0:
            return False, budget
        budget -= 4 * m
        if wave(flow.node, flow.arc, 2 * n, queue):
            return True, budget
        state[0].waves -= 1
        if state[0].waves == 0:
            start(flow.node, 2 * n, flow.control)
    done = budget > 0 and advance(flow.node, flow.arc, flow.control, budget)
    return done, budget - flow.control[0].time * (1 + 2 * m // n)


@njit(cache=True, nogil=True)
def roof_batch(batch: RoofBatch, whole: bool, flow: Flow, stack: I64, state: RoofState, budget: int) -> bool:
    """Continue a batch until it is done (return True), the budget is spent or ``whole`` is not true (False).

    Parameters
    ----------
    batch : RoofBatch
        ``decided`` and ``bound`` are written.
    whole : bool
        The caller says that nothing is forbidden; ``state.forbidden`` is set when that is wrong.
    flow, stack
        Work space for the largest example; ``stack`` has two numbers for each variable.
    state : ndarray of ROOF_STATE, shape (1,)
        The position in the batch, in and out; zeros at first.
    budget : int
        Number of arcs to visit, approximately.
    """
    instance, flow, stack, decided = borrow(batch.instance), borrow(flow), borrow(stack), borrow(batch.decided)
    graph, score, pool, const, at = instance.graph, instance.node, instance.pool, instance.const, state[0]
    ptr, bound = batch.label_ptr, batch.bound
    while at.finished < len(batch.ids):
        k = at.finished
        i = batch.ids[k]
        n = graph.var_ptr[i + 1] - graph.var_ptr[i]
        m = graph.factor_ptr[i + 1] - graph.factor_ptr[i]
        if n == 0 or not batch.feasible[k]:
            bound[k] = const[i] if batch.feasible[k] else -np.inf
            at.finished += 1
            continue
        if at.under_way == 0:
            if whole and _forbids(graph, score, pool, i):
                at.forbidden = 1
                return False
            at.scale = whole_scale(graph, score, pool, i)
            base, total = roof_network(graph, score, pool, i, at.scale, flow.node, flow.arc)
            at.under_way, at.twice = 1, 2 * base + total
            at.waves = WAVES if n <= TINY or 2 * m > DENSE * n else 0
            start(flow.node, 2 * n, flow.control)
            budget -= 4 * (n + m)
        done, budget = _flow(n, m, flow, stack, state, budget)
        bound[k] = _bound(n, m, flow.node, at.twice, at.scale, const[i])
        if not done:
            return False
        roof_labels(n, flow.node, flow.arc, decided[ptr[k] : ptr[k + 1]], stack)
        at.finished += 1
        at.under_way = 0
    return True
