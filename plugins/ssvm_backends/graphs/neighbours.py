"""Scores of states while all other variables keep their labels."""

from __future__ import annotations

from ssvm_backends.graphs.graph import Graph
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import borrow, njit


@njit(cache=True, nogil=True)
def given_others(graph: Graph, node: F64, pool: F64, ids: I64, labels: I32, out: F64) -> None:
    """Write the score of each state while all other variables keep their labels: unary, plus its factors'.

    Parameters
    ----------
    graph : Graph
        Read only.
    node, pool : ndarray of float64
        Scores.
    ids : ndarray of int64, shape (n,)
        The examples.
    labels : ndarray of int32, shape (V,)
        Of the whole batch.
    out : ndarray of float64, shape (S,)
        Written for the states of these examples.
    """
    g, node, pool, labels, out = borrow(graph), borrow(node), borrow(pool), borrow(labels), borrow(out)
    for i in ids:
        for s in range(g.state_ptr[g.var_ptr[i]], g.state_ptr[g.var_ptr[i + 1]]):
            out[s] = node[s]
        for f in range(g.factor_ptr[i], g.factor_ptr[i + 1]):
            at = g.table_ptr[f]
            for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
                at += g.stride[k] * labels[g.scope[k]]
            for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
                v = g.scope[k]
                start = at - g.stride[k] * labels[v]
                for s in range(g.card[v]):
                    out[g.state_ptr[v] + s] += pool[start + g.stride[k] * s]
