"""Graphs whose nodes are of several types."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ssvm_dsl import Edges, Hamming, Label, ModelBuilder, along
from ssvm_pystruct.inference import as_edges
from ssvm_pystruct.models.base import CRF
from ssvm_pystruct.parameters import named


class NodeTypeEdgeFeatureGraphCRF(CRF):
    """Nodes of several types, with states and features of their own, and features of edges for each pair of types.

    ``x`` is (features by type, edges by pair of types, edge features by pair of types); ``y`` has the states of all
    types in one range, type after type.
    """

    defaults = named(
        n_types=..., l_n_states=..., l_n_features=..., a_n_edge_features=..., inference_method="ad3",
        l_class_weight=None,
    )  # fmt: skip

    a_n_edge_features: Any

    def _start(self) -> None:
        super()._start()
        self.a_n_edge_features, n = np.array(self.a_n_edge_features), self.n_types
        if self.a_n_edge_features.shape != (n, n) or not (self.a_n_edge_features == self.a_n_edge_features.T).all():
            raise ValueError(f"expected a symmetric array of numbers of edge features, shape ({n}, {n})")
        for given in (self.l_n_states, self.l_n_features, self.l_class_weight):
            if given is not None and len(given) != n:
                raise ValueError(f"expected an entry for each of {n} types of nodes, got {given}")
        self.n_states, self.n_features = sum(self.l_n_states), sum(self.l_n_features)
        self.class_weight = None if self.l_class_weight is None else np.hstack(self.l_class_weight)
        self._first = np.cumsum([0, *self.l_n_states])
        self._kinds = list(product(range(n), repeat=2))
        self._there = [number for number, kind in enumerate(self._kinds) if self.a_n_edge_features[kind]]

    def initialize(self, X: Any, Y: Any = None) -> None:
        """Refuse labels that are not states of their type."""
        for x, y in zip(X, Y, strict=True) if isinstance(X, list) else [(X, Y)] if Y is not None else []:
            for one, k in zip(self.unflattenY(x, y), self.l_n_states, strict=True):
                if one.min(initial=0) < 0 or one.max(initial=0) >= k:
                    raise ValueError(f"states of types begin at {self._first[:-1]}, got {y}")

    def setInferenceException(self, raises: bool) -> bool:
        """Set whether a fractional solution is an error."""
        self.inference_exception = raises
        return raises

    def _sizes(self) -> tuple[Any, ...]:
        return *self.l_n_states, *self.l_n_features, *self.a_n_edge_features.ravel().tolist()

    def _types(self) -> list[int]:
        return list(self.l_n_states)

    def _pair_of(self, group: int) -> int:
        return self._there[group]

    def _graph(self, x: Any) -> list[tuple[int, int, Any]]:
        listed = x[1] or [None] * len(self._kinds)
        return [(a, b, as_edges(() if e is None else e)) for (a, b), e in zip(self._kinds, listed, strict=True)]

    def _type_of_nodes(self, x: Any) -> Any:
        return np.repeat(np.arange(self.n_types), self._counts(x))

    def _counts(self, x: Any) -> list[int]:
        return [0 if one is None else len(one) for one in x[0]]

    def _declare(self, m: ModelBuilder) -> Label:
        dims = [m.dim(f"N{t}") for t in range(self.n_types)]
        labels = [m.label(f"y{t}", dim, k) for t, (dim, k) in enumerate(zip(dims, self.l_n_states, strict=True))]
        for t, label in enumerate(labels):
            m.factor(f"node{t}", label, features=m.input(f"x{t}", dims[t], self.l_n_features[t]))
        for number in self._there:
            (a, b), M = self._kinds[number], m.dim(f"M{number}")
            edges = m.add(f"edges{number}", Edges(M, over=dims[a] if a == b else (dims[a], dims[b])))
            features = m.input(f"f{number}", M, int(self.a_n_edge_features[a, b]))
            m.factor(f"pair{number}", along(labels[a] if a == b else (labels[a], labels[b]), edges), features=features)
        return labels  # type: ignore[return-value]

    def _loss(self, y: Any) -> Any:
        prices = self.l_class_weight or [None] * self.n_types
        return sum(Hamming(one, weights=None if p is None else list(p)) for one, p in zip(y, prices, strict=True))

    def _places(self) -> dict[str, Any]:
        nodes = zip(self.l_n_states, self.l_n_features, strict=True)
        kinds: list[tuple[str, Any]] = [(f"node{t}", shape) for t, shape in enumerate(nodes)]
        for number in self._there:
            a, b = self._kinds[number]
            shape = int(self.a_n_edge_features[a, b]), self.l_n_states[a], self.l_n_states[b]
            kinds.append((f"pair{number}", shape))
        sizes = [int(np.prod(shape)) for _, shape in kinds]
        places = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        found = {name: one.reshape(shape) for (name, shape), one in zip(kinds, places, strict=True)}
        return {name: one if one.ndim == 2 else one.transpose(1, 2, 0) for name, one in found.items()}

    def _example(self, x: Any) -> Any:
        none = [np.zeros((0, f)) for f in self.l_n_features]
        found = {f"x{t}": none[t] if one is None else one for t, one in enumerate(x[0])}
        for number in self._there:
            a, b, edges = self._graph(x)[number]
            empty = np.zeros((0, self.a_n_edge_features[a, b]))
            found |= {f"edges{number}": edges, f"f{number}": np.asarray(x[2][number]) if len(edges) else empty}
        return found

    def _labels(self, x: Any, y: Any) -> Any:
        return {f"y{t}": one for t, one in enumerate(self.unflattenY(x, y))} if self.n_types > 1 else np.asarray(y)

    def _restored(self, x: Any, y: Any) -> Any:
        return self.flattenY([y[f"y{t}"] for t in range(self.n_types)]) if isinstance(y, dict) else y

    def _unwrapped(self, found: Any) -> Any:
        return found if isinstance(found, tuple) else self.flattenY(found)

    def flattenY(self, lY_by_typ: Any) -> Any:
        """Return labels of each type, from 0, in the range of all states."""
        return np.hstack([np.asarray(y) + first for y, first in zip(lY_by_typ, self._first, strict=False)])

    def unflattenY(self, X: Any, flatY: Any) -> list[Any]:
        """Return labels by type, each from 0."""
        counts = self._counts(X)
        if np.shape(flatY) != (sum(counts),):
            raise ValueError(f"expected a label for each of {sum(counts)} nodes, got {np.shape(flatY)}")
        parts = np.split(np.asarray(flatY), np.cumsum(counts)[:-1])
        return [part - first for part, first in zip(parts, self._first, strict=False)]

    def _get_unary_potentials(self, x: Any, w: Any) -> Any:
        return self._scored(x, w)[0]

    def _get_pairwise_potentials(self, x: Any, w: Any) -> Any:
        return self._scored(x, w)[1]

    def continuous_loss(self, y: Any, y_hat: Any) -> float:
        """Return the expected loss of marginals by type."""
        whole = np.zeros((len(y), self.n_states))
        for mu, t, first in zip(y_hat, np.cumsum([0, *map(len, y_hat)]), self._first, strict=False):
            whole[t : t + len(mu), first : first + mu.shape[1]] = mu
        return super().continuous_loss(y, whole)
