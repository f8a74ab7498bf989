"""Problems from networkx graphs: nodes carry scores, edges carry tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import DataError
from ssvm_dsl.io.graph_problem import FactorList, GraphProblem, assemble

F64 = NDArray[np.float64]


def from_networkx(graph: Any, scores: str = "scores", table: str = "table") -> GraphProblem:
    """Return the problem of a networkx graph, scores to be maximised.

    Parameters
    ----------
    graph : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
        Its nodes are the variables, in the order of ``graph.nodes``.
    scores : str
        The node attribute with one score for each state; ``-inf`` forbids a state.
    table : str
        The edge attribute with a table of scores: a row for each state of one end, a column for each of the other.
        Rows belong to the tail of a directed edge, and to the end that comes first in ``graph.nodes`` of an
        undirected one.

    Returns
    -------
    GraphProblem

    Raises
    ------
    DataError
        An attribute is missing, has the wrong shape, or holds nan or +inf; an edge joins a node with itself.
    """
    nodes = list(graph.nodes)
    number = {node: k for k, node in enumerate(nodes)}
    unary = [_array(graph.nodes[node], scores, f"node {node!r}", 1) for node in nodes]
    card = np.array([len(one) for one in unary], dtype=np.int64)
    factors = FactorList()
    for k, one in enumerate(unary):
        factors.add(np.array([k]), one)
    for tail, head, attributes in graph.edges(data=True):
        what, ends = f"edge {(tail, head)!r}", np.array([number[tail], number[head]])
        if tail == head:
            raise DataError(what, expected="two different nodes", found="an edge from a node to itself")
        ordered = ends if graph.is_directed() else np.sort(ends)
        values = _array(attributes, table, what, 2)
        shape = tuple(card[ordered].tolist())
        if values.shape != shape:
            raise DataError(what, expected=f"attribute '{table}' of shape {shape}", found=f"shape {values.shape}")
        factors.add(ordered, values)
    return assemble(card, factors.flat(), "networkx graph", names=tuple(map(str, nodes)))


def _array(attributes: dict[str, Any], key: str, what: str, n_axes: int) -> F64:
    """Return an attribute as an array of scores."""
    if key not in attributes:
        raise DataError(what, expected=f"attribute '{key}'", found=f"{', '.join(map(repr, attributes)) or 'none'}")
    try:
        values = np.array(attributes[key], dtype=np.float64)
    except (TypeError, ValueError) as err:
        raise DataError(what, expected=f"attribute '{key}' of numbers", found=str(err)) from err
    if values.ndim != n_axes or values.size == 0:
        raise DataError(what, expected=f"attribute '{key}' with {n_axes} axes", found=f"shape {values.shape}")
    if np.isnan(values).any() or (values == np.inf).any():
        raise DataError(what, expected=f"attribute '{key}' of numbers or -inf", found="nan or +inf")
    return values
