"""The batch kernel of ``graph-cut``: network, flow and labels, example after example."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.cuts.graph import CutGraph, add_pair, add_triple, whole, whole_scale
from ssvm_backends.cuts.maxflow import Flow, advance, load, on_source_side, start
from ssvm_backends.graphs.graph import Instance
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import borrow, njit

#: The position in a batch: examples finished, whether the flow of the next one is under way, the refused factor or -1.
CUT_STATE = np.dtype([("finished", np.int64), ("under_way", np.int64), ("refused", np.int64)])


class CutBatch(NamedTuple):
    """Minimum cuts of some examples.

    Parameters
    ----------
    instance : Instance
        Every variable has two states.
    cut : CutGraph
    ids : ndarray of int64, shape (n,)
        Examples.
    label_ptr : ndarray of int64, shape (n + 1,)
        Where their labels go.
    labels : ndarray of int32
        Result.
    lost : ndarray of float64, shape (n,)
        Result: how far the best score may be above that of the labels, where tables miss submodularity by rounding.
    """

    instance: Instance
    cut: CutGraph
    ids: I64
    label_ptr: I64
    labels: I32
    lost: F64


def cut_state() -> NDArray[np.void]:
    """Return the state of a batch that has not begun."""
    state = np.zeros(1, CUT_STATE)
    state["refused"] = -1
    return state


@njit(cache=True, nogil=True)
def price(instance: Instance, cut: CutGraph, example: int, flow: Flow, lost: F64) -> int:
    """Write one example's capacities; return a factor that is not submodular, -1 when all are.

    Parameters
    ----------
    instance, cut
        As for :class:`CutBatch`; read only.
    example : int
        The example.
    flow : Flow
        Written: the network, its nodes and arcs numbered from 0.
    lost : ndarray of float64, shape (1,)
        Written: how far scores of labellings may be above those of the network.  Not touched when a factor is refused.
    """
    graph, score, pool, node, arc = instance.graph, instance.node, instance.pool, flow.node, flow.arc
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
def cut_batch(batch: CutBatch, flow: Flow, state: NDArray[np.void], budget: int) -> bool:
    """Continue a batch until it is done (return True), the budget is spent or a table is not submodular (False).

    Parameters
    ----------
    batch : CutBatch
        ``labels`` and ``lost`` are written.
    flow : Flow
        Work space for the largest example; between calls it holds the flow that is under way.
    state : ndarray of CUT_STATE, shape (1,)
        The position in the batch, in and out.
    budget : int
        Number of arcs to visit, approximately.
    """
    instance, cut, flow = borrow(batch.instance), borrow(batch.cut), borrow(flow)
    graph, at = instance.graph, state[0]
    while at.finished < len(batch.ids):
        k = at.finished
        i = batch.ids[k]
        n = cut.node_ptr[i + 1] - cut.node_ptr[i]
        if at.under_way == 0:
            at.refused = price(instance, cut, i, flow, batch.lost[k : k + 1])
            if at.refused >= 0:
                return False
            start(flow.node, n, flow.control)
            at.under_way = 1
            budget -= 2 * n
        if budget <= 0 or not advance(flow.node, flow.arc, flow.control, budget):
            return False
        budget -= flow.control[0].time
        to, first = batch.label_ptr[k], graph.var_ptr[i]
        for v in range(first, graph.var_ptr[i + 1]):
            batch.labels[to + v - first] = on_source_side(flow.node, cut.var_node[v] - cut.node_ptr[i])
        at.finished += 1
        at.under_way = 0
    return True
