"""The batch kernel of ``graph-cut``: network, flow and labels, example after example."""

from __future__ import annotations

import numpy as np

from ssvm_backends.cuts.graph import CutGraph, add_pair, add_triple, whole, whole_scale
from ssvm_backends.cuts.maxflow import Arcs, Nodes, advance, load, on_source_side, start
from ssvm_backends.graphs.graph import Graph
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import borrow, njit

#: Numbers of ``state``: examples finished, whether the flow of the next one is under way, offending factor or -1.
STATE_SIZE = 3


@njit(cache=True, nogil=True)
def price(graph: Graph, cut: CutGraph, score: F64, pool: F64, example: int, node: Nodes, arc: Arcs, lost: F64) -> int:
    """Write one example's capacities; return a factor that is not submodular, -1 when all are.

    Parameters
    ----------
    graph, cut : Graph, CutGraph
        Structure; read only.
    score, pool : ndarray of float64
        Scores of states (two for each variable) and tables.
    example : int
        The example.
    node, arc : ndarray of NODE, ndarray of ARC
        Written: the network, its nodes and arcs numbered from 0.
    lost : ndarray of float64, shape (1,)
        Written: what the scores of labellings may be above those of the network.  Not touched when a factor is refused.
    """
    lo, nodes = graph.var_ptr[example], cut.node_ptr[example]
    base = cut.first[nodes]
    load(cut.first, cut.head, cut.sister, nodes, cut.node_ptr[example + 1], node, arc)
    scale = whole_scale(graph, score, pool, example)
    for v in range(lo, graph.var_ptr[example + 1]):
        s = graph.state_ptr[v]
        node[cut.var_node[v] - nodes].excess = whole(score[s + 1], scale) - whole(score[s], scale)
    x, edge, total = np.empty(3, np.int64), np.empty(6, np.int32), np.int64(0)
    for f in range(graph.factor_ptr[example], graph.factor_ptr[example + 1]):
        k, t, e = graph.slot_ptr[f], graph.table_ptr[f], cut.edge_ptr[f]
        if cut.extra[f] < 0:
            u, v = cut.var_node[graph.scope[k]] - nodes, cut.var_node[graph.scope[k + 1]] - nodes
            a = cut.number[e] - base
            less = add_pair(node, arc, a, u, v, pool[t : t + 4], scale)
        else:
            for i in range(3):
                x[i] = cut.var_node[graph.scope[k + i]] - nodes
            for i in range(6):
                edge[i] = cut.number[e + i] - base
            less = add_triple(node, arc, edge, x, cut.extra[f] - nodes, pool[t : t + 8], scale)
        if less < 0:
            return f
        total += less
    lost[0] = total / scale
    return -1


@njit(cache=True, nogil=True)
def cut_batch(
    graph: Graph, cut: CutGraph, score: F64, pool: F64, ids: I64, ptr: I64, labels: I32, lost: F64,
    node: Nodes, arc: Arcs, control: I64, state: I64, budget: int,
) -> bool:  # fmt: skip
    """Go on with a batch until it is done (return True), the budget is spent or a table is not submodular (False).

    Parameters
    ----------
    graph, cut : Graph, CutGraph
        Structure; read only.
    score, pool : ndarray of float64
        Scores of states and tables; every variable has two states.
    ids : ndarray of int64, shape (n,)
        Examples.
    ptr : ndarray of int64, shape (n + 1,)
        Where their labels go.
    labels : ndarray of int32
        Result.
    lost : ndarray of float64, shape (n,)
        Result: how far the best score may be above that of the labels, where tables miss submodularity by rounding.
    node, arc, control
        Work space for the largest example, see :mod:`ssvm_backends.cuts.maxflow`; between calls it holds the flow that
        is under way.
    state : ndarray of int64, shape (STATE_SIZE,)
        Where the batch is, in and out; zeros and a last -1 at first.
    budget : int
        About how many arcs to look at.
    """
    graph, cut, score, pool = borrow(graph), borrow(cut), borrow(score), borrow(pool)
    node, arc = borrow(node), borrow(arc)
    while state[0] < len(ids):
        i = ids[state[0]]
        n = cut.node_ptr[i + 1] - cut.node_ptr[i]
        if state[1] == 0:
            state[2] = price(graph, cut, score, pool, i, node, arc, lost[state[0] : state[0] + 1])
            if state[2] >= 0:
                return False
            start(node, n, control)
            state[1] = 1
            budget -= 2 * n
        if budget <= 0 or not advance(node, arc, control, budget):
            return False
        budget -= control[0]
        at, first = ptr[state[0]], graph.var_ptr[i]
        for v in range(first, graph.var_ptr[i + 1]):
            labels[at + v - first] = on_source_side(node, cut.var_node[v] - cut.node_ptr[i])
        state[0] += 1
        state[1] = 0
    return True
