"""Connected components of an instance of one example."""

from __future__ import annotations

import numpy as np

from ssvm_backends.graphs.graph import Graph, Instance, make_graph
from ssvm_dsl.ir import F64, I64, pointers, runs

#: Entries from which on a table is copied as a whole.
LARGE_TABLES = 64


def split(instance: Instance) -> list[tuple[Instance, I64]]:
    """Return the components with the variables of each, small ones first; their constants are zero."""
    label = components(instance.graph)
    n_parts = int(label.max()) + 1
    if n_parts == 1:
        return [(instance, np.arange(len(label), dtype=np.int64))]
    parts = [_take(instance, label, part) for part in range(n_parts)]
    return sorted(parts, key=lambda part: len(part[0].node))


def components(graph: Graph) -> I64:
    """Return the number of the component of each variable."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n, first = graph.n_variables, graph.scope[graph.slot_ptr[:-1]]
    rows = np.repeat(first, np.diff(graph.slot_ptr))
    matrix = coo_array((np.ones(len(rows), np.int8), (rows, graph.scope)), shape=(n, n))
    return np.asarray(connected_components(matrix, directed=False)[1], dtype=np.int64)


def _take(instance: Instance, label: I64, part: int) -> tuple[Instance, I64]:
    g = instance.graph
    variables = np.flatnonzero(label == part)
    factors = np.flatnonzero(label[g.scope[g.slot_ptr[:-1]]] == part)
    new = np.zeros(g.n_variables, dtype=np.int32)
    new[variables] = np.arange(len(variables))
    arity = np.diff(g.slot_ptr)[factors]
    graph = make_graph(
        np.array([0, len(variables)], dtype=np.int64),
        g.card[variables],
        np.array([0, len(factors)], dtype=np.int64),
        pointers(arity),
        new[g.scope[runs(g.slot_ptr[factors], arity)]],
    )
    pool = _tables(instance.pool, g.table_ptr[factors], g.table_size[factors])
    node = instance.node[runs(g.state_ptr[variables], g.card[variables])]
    return Instance(graph, node, pool, np.zeros(1)), variables


def _tables(pool: F64, start: I64, size: I64) -> F64:
    """Return tables one after the other; large ones are copied as they are, without a list of their entries."""
    if size.sum() <= LARGE_TABLES * len(size):
        return pool[runs(start, size)]
    return np.concatenate([pool[a : a + n] for a, n in zip(start.tolist(), size.tolist(), strict=True)])


def single(instance: Instance, example: int) -> Instance:
    """Return one example of an instance by itself, its tables in the order of its factors.

    That is the instance itself when it is the only one and has its tables in that order.
    """
    g = instance.graph
    if g.n_examples == 1 and np.array_equal(np.diff(g.table_ptr, append=len(instance.pool)), g.table_size):
        return instance
    label = np.repeat(np.arange(g.n_examples), np.diff(g.var_ptr))
    alone, _ = _take(instance, label, example)
    return Instance(alone.graph, alone.node, alone.pool, instance.const[example : example + 1])
