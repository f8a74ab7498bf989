"""Graphs, chains and grids, with and without features of edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl import FULL, Dim, Edges, Label, ModelBuilder, along, chain
from ssvm_pystruct.models.base import CRF, F64, agreed
from ssvm_pystruct.parameters import named
from ssvm_pystruct.utils import edge_list_to_features, make_grid_edges


class GraphCRF(CRF):
    """Nodes with features, ``x = (features, edges)``; one table for all edges, symmetric unless ``directed``."""

    defaults = named(
        n_states=None, n_features=None, inference_method=None, class_weight=None, directed=False,
    )  # fmt: skip
    directed = False

    def _example(self, x: Any) -> Any:
        return {"x": self._get_features(x), "edges": self._get_edges(x)}

    def _declare(self, m: ModelBuilder) -> Label:
        N, M = m.dim("N"), m.dim("M")
        y = self._nodes(m, N)
        self._pairs(m, along(y, m.add("edges", Edges(M, over=N))), M)
        return y

    def _nodes(self, m: ModelBuilder, N: Dim) -> Label:
        y = m.label("y", N, self.n_states, allowed=self._mask(m, N))
        m.factor("node", y, features=m.input("x", N, self.n_features), form=self._node_form())
        return y

    def _mask(self, m: ModelBuilder, N: Dim) -> Any:
        """Return the input that says which states nodes may have, where there is one."""
        return None

    def _node_form(self) -> Any:
        """Return which states of nodes have weights."""
        return FULL

    def _pairs(self, m: ModelBuilder, target: Any, M: Dim) -> None:
        for name, part in self._split().items():
            m.factor(name, target, form=self._sign(name) * self._basis()[part], nonneg=name == "negative")

    def _basis(self) -> NDArray[np.float64]:
        """Return the table that each weight of edges fills, in the order of ``w``."""
        k = self.n_states
        if self.directed:
            return np.eye(k * k).reshape(-1, k, k)
        rows, columns = np.tril_indices(k)  # the lower triangle, row by row
        one = np.zeros((len(rows), k, k))
        one[np.arange(len(rows)), rows, columns] = one[np.arange(len(rows)), columns, rows] = 1.0
        return one

    def _split(self) -> dict[str, NDArray[np.int64]]:
        """Return which weights of edges are free, and which are not to be positive (``negativity_constraint``)."""
        held = np.array([one - self._n_node_weights() for one in self.negative or ()], dtype=np.int64)
        if held.min(initial=0) < 0:
            raise ValueError("negativity_constraint is for weights of edges, which come after those of nodes")
        parts = {"pair": np.setdiff1d(np.arange(len(self._basis())), held), "negative": held}
        return {name: part for name, part in parts.items() if len(part)}

    def _n_node_weights(self) -> int:
        return self.n_states * self.n_features

    def _places(self) -> dict[str, Any]:
        n = self._n_node_weights()
        return {"node": np.arange(n).reshape(-1, self.n_features)} | {k: n + v for k, v in self._split().items()}


class ChainCRF(GraphCRF):
    """A chain, ``x`` of shape (n, features); the table of neighbours is not symmetric unless ``directed=False``."""

    defaults = GraphCRF.defaults | named(inference_method="max-product", directed=True)

    def _get_features(self, x: Any) -> F64:
        return np.asarray(x)

    def _get_edges(self, x: Any) -> NDArray[np.int64]:
        return np.c_[np.arange(len(x) - 1), np.arange(1, len(x))]

    def _example(self, x: Any) -> Any:
        return np.asarray(x)

    def _declare(self, m: ModelBuilder) -> Label:
        T = m.dim("T")
        y = self._nodes(m, T)
        self._pairs(m, chain(y), T)
        return y


class EdgeFeatureGraphCRF(GraphCRF):
    """``x = (features, edges, edge features)``; a table for each feature of edges, symmetric or antisymmetric ones too.

    A symmetric table has, as in PyStruct, a weight for each of its entries, and scores with the mean of both halves.
    """

    defaults = named(
        n_states=None, n_features=None, n_edge_features=None, inference_method=None, class_weight=None,
        symmetric_edge_features=(), antisymmetric_edge_features=(),
    )  # fmt: skip
    symmetric_edge_features: Any = ()
    antisymmetric_edge_features: Any = ()
    n_edge_features: Any

    def initialize(self, X: Any, Y: Any) -> None:
        """Take the numbers of features and states from data."""
        self.n_edge_features = agreed(self.n_edge_features, self._get_edge_features(X[0]).shape[1], "edge features")
        super().initialize(X, Y)

    def _sizes(self) -> tuple[Any, ...]:
        return *super()._sizes(), self.n_edge_features

    def _get_edge_features(self, x: Any) -> F64:
        return np.asarray(x[2], dtype=np.float64)

    def _columns(self) -> dict[str, list[int]]:
        """Return the features of edges by the form of their tables."""
        sym: list[int] = list(self.symmetric_edge_features or ())
        anti: list[int] = list(self.antisymmetric_edge_features or ())
        every = range(self.n_edge_features)
        if set(sym) & set(anti) or not {*sym, *anti} <= set(every):
            text = f"features of edges are 0 to {every[-1]}, symmetric or antisymmetric"
            raise ValueError(f"{text}, got {sym} and {anti}")
        forms = {"symmetric": sym, "antisymmetric": anti, "pair": sorted({*every} - {*sym, *anti})}
        return {name: columns for name, columns in forms.items() if columns}

    def _example(self, x: Any) -> Any:
        features = self._get_edge_features(x)
        return super()._example(x) | {f"f_{name}": features[:, columns] for name, columns in self._columns().items()}

    def _pairs(self, m: ModelBuilder, target: Any, M: Dim) -> None:
        if self.negative:
            raise ValueError("negativity_constraint: not for features of edges")
        same = np.eye(self.n_states**2).reshape(-1, self.n_states, self.n_states)
        turned = same.transpose(0, 2, 1)
        forms: dict[str, Any] = {
            "symmetric": {"form": (same + turned) / 2},
            "antisymmetric": {"form": (same - turned) / 2},
        }
        for name, columns in self._columns().items():
            m.factor(name, target, features=m.input(f"f_{name}", M, len(columns)), **forms.get(name, {}))

    def _places(self) -> dict[str, Any]:
        k, n = self.n_states, self._n_node_weights()
        places = {"node": np.arange(n).reshape(-1, self.n_features)}
        for name, columns in self._columns().items():
            found = n + np.array(columns) * k * k + np.arange(k * k)[:, None]
            places[name] = found.reshape(k, k, -1) if name == "pair" else found
        return places


class GridCRF(GraphCRF):
    """A grid, ``x`` of shape (height, width, features); one symmetric table for all neighbours, 4 or 8 of them."""

    defaults = named(n_states=None, n_features=None, inference_method=None, neighborhood=4)

    def _get_features(self, x: Any) -> F64:
        if np.ndim(x) != 3:
            raise ValueError(f"expected a grid of features, shape (height, width, features), got {np.shape(x)}")
        return np.reshape(x, (-1, np.shape(x)[-1]))

    def _labels(self, x: Any, y: Any) -> Any:
        if np.shape(y) != np.shape(x)[:2]:
            raise ValueError(f"expected labels of shape {np.shape(x)[:2]}, as the grid has, got {np.shape(y)}")
        return np.ravel(y)

    def _get_edges(self, x: Any) -> NDArray[np.int64]:
        return make_grid_edges(x, self.neighborhood)

    def _restored(self, x: Any, y: Any) -> Any:
        shape = np.shape(x)[:2]
        return (np.reshape(y[0], (*shape, -1)), y[1]) if isinstance(y, tuple) else np.reshape(y, shape)


class DirectionalGridCRF(GridCRF, EdgeFeatureGraphCRF):
    """A grid with a table for each direction: right, down, and with 8 neighbours both diagonals."""

    @property
    def n_edge_features(self) -> int:
        """The number of directions."""
        return self.neighborhood // 2

    initialize = GridCRF.initialize

    def _get_edge_features(self, x: Any) -> F64:
        return edge_list_to_features(make_grid_edges(x, self.neighborhood, return_lists=True))
