"""Minimum cuts as a compiled oracle, for trainers that call it inside their kernels.

A separate module, because numba compiles functions called by their address as soon as they are defined.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.cuts.graph import CutGraph
from ssvm_backends.cuts.kernels import CUT_STATE, CutBatch, cut_batch
from ssvm_backends.cuts.maxflow import ARC, CONTROL, NODE, Flow
from ssvm_backends.graphs.graph import Graph, Instance
from ssvm_backends.local.search import score_of
from ssvm_dsl.kernels import SIGNATURE, borrow, cfunc, packed_record

#: Fields of a :class:`~ssvm_backends.graphs.graph.Graph` that are packed, before those of the networks.
OF_GRAPH = ("var_ptr", "state_ptr", "factor_ptr", "slot_ptr", "scope", "table_ptr", "table_size", "stride")


#: How the scopes and tables of a graph, and its networks, are read.
graph_in, cut_in = packed_record(Graph, OF_GRAPH), packed_record(CutGraph)


@cfunc(SIGNATURE)
def cut_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Compiled oracle; returns the best score of one example, without the constant.

    ``nan`` where a table is not submodular.

    Parameters
    ----------
    ints, longs : ndarray of int32 and of int64
        Packed: :data:`OF_GRAPH`, and the fields of a :class:`~ssvm_backends.cuts.graph.CutGraph`.
    example : int
        The example.
    pool, node : ndarray of float64
        As in :class:`~ssvm_dsl.ir.Theta`, finite.
    labels : ndarray of int32, shape (at least the example's variables,)
        Written.
    work : ndarray of float64
        Not used.
    """
    ints, longs, pool, node, labels = borrow(ints), borrow(longs), borrow(pool), borrow(node), borrow(labels)
    graph, cut = graph_in(ints, longs, 0), cut_in(ints, longs, len(OF_GRAPH))
    lo, hi = cut.node_ptr[example], cut.node_ptr[example + 1]
    nodes, arcs = np.empty(hi - lo + 1, NODE), np.empty(cut.first[hi] - cut.first[lo], ARC)
    flow = Flow(nodes, arcs, np.zeros(1, CONTROL))
    state = np.zeros(1, CUT_STATE)
    state[0].refused = -1
    instance = Instance(graph, node, pool, node)  # nobody reads the constants
    batch = CutBatch(instance, cut, np.full(1, example), np.zeros(1, np.int64), labels, np.zeros(1))
    if cut_batch(batch, flow, state, np.int64(1) << 62):
        return score_of(graph, node, pool, example, labels)
    return np.nan
