"""Minimum cuts as a compiled oracle, for trainers that call it inside their kernels.

A separate module, because numba compiles functions called by their address as soon as they are defined.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.cuts.graph import CutGraph
from ssvm_backends.cuts.kernels import CUT_STATE, CutBatch, cut_batch
from ssvm_backends.cuts.maxflow import ARC, CONTROL, NODE, Flow
from ssvm_backends.graphs.graph import Graph, Instance
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import SIGNATURE, borrow, cfunc, njit, packed_ints, packed_longs

#: Fields of a :class:`~ssvm_backends.graphs.graph.Graph` that are packed, before those of the networks.
OF_GRAPH = ("var_ptr", "state_ptr", "factor_ptr", "slot_ptr", "scope", "table_ptr", "table_size")


@njit
def graph_in(ints: I32, longs: I64) -> Graph:
    """Return a graph of which kernels find scopes and tables; the rest is empty."""
    none, nothing = longs[:0], ints[:0]
    return Graph(
        packed_longs(longs, 0),
        packed_longs(longs, 1),
        nothing,
        packed_longs(longs, 2),
        packed_longs(longs, 3),
        packed_ints(ints, longs, 4),
        packed_longs(longs, 5),
        packed_longs(longs, 6),
        none,
        none,
        none,
        none,
        none,
    )


@njit
def cut_in(ints: I32, longs: I64) -> CutGraph:
    """Return the networks of a graph."""
    return CutGraph(
        packed_longs(longs, 7),
        packed_longs(longs, 8),
        packed_longs(longs, 9),
        packed_longs(longs, 10),
        packed_longs(longs, 11),
        packed_longs(longs, 12),
        packed_ints(ints, longs, 13),
        packed_longs(longs, 14),
        packed_ints(ints, longs, 15),
        packed_ints(ints, longs, 16),
    )


@njit
def labelling_score(graph: Graph, example: int, node: F64, pool: F64, labels: I32) -> float:
    """Return the score of a labelling of binary variables."""
    total, lo = 0.0, graph.var_ptr[example]
    for v in range(lo, graph.var_ptr[example + 1]):
        total += node[graph.state_ptr[v] + labels[v - lo]]
    for f in range(graph.factor_ptr[example], graph.factor_ptr[example + 1]):
        at = 0
        for k in range(graph.slot_ptr[f], graph.slot_ptr[f + 1]):
            at = 2 * at + labels[graph.scope[k] - lo]
        total += pool[graph.table_ptr[f] + at]
    return total


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
    graph, cut = graph_in(ints, longs), cut_in(ints, longs)
    lo, hi = cut.node_ptr[example], cut.node_ptr[example + 1]
    nodes, arcs = np.empty(hi - lo + 1, NODE), np.empty(cut.first[hi] - cut.first[lo], ARC)
    flow = Flow(nodes, arcs, np.zeros(1, CONTROL))
    state = np.zeros(1, CUT_STATE)
    state[0].refused = -1
    instance = Instance(graph, node, pool, node)  # nobody reads the constants
    batch = CutBatch(instance, cut, np.full(1, example), np.zeros(1, np.int64), labels, np.zeros(1))
    if cut_batch(batch, flow, state, np.int64(1) << 62):
        return labelling_score(graph, example, node, pool, labels)
    return np.nan
