"""Models with hidden states: several for each label, or of hidden nodes."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl import Cost, Dim, Hamming, Label, ModelBuilder
from ssvm_pystruct.clusters import kmeans_init, neighbour_clusters
from ssvm_pystruct.models.base import agreed, n_classes
from ssvm_pystruct.models.graphs import DirectionalGridCRF, EdgeFeatureGraphCRF, GraphCRF, GridCRF
from ssvm_pystruct.parameters import Parameters, named
from ssvm_pystruct.utils import make_grid_edges


class HiddenStates(Parameters):
    """What models share whose learners see hidden states ``h`` in place of labels."""

    n_features: Any
    n_labels: Any
    completing = False

    def initialize(self, X: Any, Y: Any) -> None:
        """Take the numbers of features and labels from data."""
        self.n_features = agreed(self.n_features, self._get_features(X[0]).shape[1], "features")
        self.n_labels = agreed(self.n_labels, n_classes(Y), "labels")

    def loss(self, h: Any, h_hat: Any) -> float:
        """Return the loss of the labels of hidden states."""
        if isinstance(h_hat, tuple):
            return self.continuous_loss(h, h_hat[0])
        return self.base_loss(self.label_from_latent(h), self.label_from_latent(h_hat))

    def latent(self, x: Any, y: Any, w: Any) -> Any:
        """Return the best hidden states that have the given labels."""
        return self.batch_latent([x], [y], w)[0]

    def batch_latent(self, X: Any, Y: Any, w: Any) -> list[Any]:
        """Return the best hidden states of each example that have its labels."""
        model = copy(self)
        model.completing = True
        examples = [model._example(x) | {"allowed": self._allowed(x, y)} for x, y in zip(X, Y, strict=True)]
        return [self._restored(x, h) for x, h in zip(X, model._estimator(w).predict(examples), strict=True)]

    def _mask(self, m: ModelBuilder, N: Dim) -> Any:
        """Return the input that says which states nodes may have, where that is asked for."""
        return m.input("allowed", N, self.n_states) if self.completing else None

    def _sizes(self) -> tuple[Any, ...]:
        return *super()._sizes(), self.completing  # type: ignore[misc]  # of the model that this is mixed into


class LatentGraphCRF(HiddenStates, GraphCRF):
    """Each label of a node has some hidden states, ``n_states_per_label``."""

    defaults = named(n_labels=None, n_features=None, n_states_per_label=2, inference_method=None)

    @property
    def n_states(self) -> Any:
        """The number of all hidden states."""
        return None if self.n_labels is None else len(self._states_map)

    @property
    def _states_map(self) -> NDArray[np.int64]:
        """The label of each hidden state."""
        return np.repeat(np.arange(self.n_labels), np.broadcast_to(self.n_states_per_label, self.n_labels))

    def _loss(self, y: Label) -> Any:
        return Cost(y, (self._states_map[:, None] != self._states_map).astype(float).tolist())

    def label_from_latent(self, h: Any) -> Any:
        """Return the labels of hidden states."""
        return self._states_map[h]

    def init_latent(self, X: Any, Y: Any) -> Any:
        """Return hidden states by clusters of nodes of each label: features, and shares of labels among neighbours."""
        counts = np.broadcast_to(self.n_states_per_label, self.n_labels)
        directed, edges = isinstance(self, EdgeFeatureGraphCRF), [self._edge_kinds(x) for x in X]
        H = kmeans_init([self._get_features(x) for x in X], Y, edges, self.n_labels, counts, not directed)
        found = [np.reshape(h, np.shape(y)) for h, y in zip(H, Y, strict=True)]
        return np.array(found) if len({one.shape for one in found}) == 1 else found

    def _edge_kinds(self, x: Any) -> list[Any]:
        return [self._get_edges(x)]

    def _allowed(self, x: Any, y: Any) -> NDArray[np.float64]:
        return (self._states_map == np.ravel(y)[:, None]).astype(float)

    def continuous_loss(self, y: Any, y_hat: Any) -> float:
        """Return the expected loss of marginals of hidden states."""
        of_labels = np.reshape(y_hat, (np.size(y), -1)) @ np.eye(self.n_labels)[self._states_map]
        return super().continuous_loss(self.label_from_latent(y), of_labels)


class LatentGridCRF(LatentGraphCRF, GridCRF):
    """A grid of labels with hidden states."""

    defaults = named(**LatentGraphCRF.defaults, neighborhood=4)


class LatentDirectionalGridCRF(LatentGridCRF, DirectionalGridCRF):
    """A grid of labels with hidden states, and a table for each direction."""

    def _edge_kinds(self, x: Any) -> list[Any]:
        return make_grid_edges(x, self.neighborhood, return_lists=True)


class LatentNodeCRF(HiddenStates, GraphCRF):
    """Hidden nodes, with states of their own, after the labelled ones: ``x = (features, edges, number of them)``."""

    defaults = named(
        n_labels=None, n_features=None, n_hidden_states=2, inference_method=None, class_weight=None,
        latent_node_features=False,
    )  # fmt: skip
    completing = True  # always: hidden nodes have states of their own

    @property
    def n_states(self) -> Any:
        """The number of labels and of states of hidden nodes."""
        return None if self.n_labels is None else self.n_labels + self.n_hidden_states

    def _n_node_weights(self) -> int:
        return (self.n_states if self.latent_node_features else self.n_labels) * self.n_features

    def _loss(self, y: Label) -> Any:
        return Hamming(y, weights=[*self._price(np.arange(self.n_labels)), *[0.0] * self.n_hidden_states])

    def _example(self, x: Any) -> Any:
        features, n_hidden = np.asarray(x[0], dtype=np.float64), int(x[-1])
        if not self.latent_node_features:
            features = np.vstack([features, np.zeros((n_hidden, features.shape[1]))])
        return super()._example(x) | {"x": features, "allowed": self._allowed(x)}

    def _allowed(self, x: Any, y: Any = None) -> NDArray[np.float64]:
        n = len(x[0]) - int(x[-1]) * self.latent_node_features
        hidden, states = np.arange(n + int(x[-1])) >= n, np.arange(self.n_states)
        allowed = hidden[:, None] == (states >= self.n_labels)
        if y is not None:
            allowed[:n] = states == np.asarray(y)[:, None]
        return allowed.astype(float)

    def _node_form(self) -> Any:
        return np.eye(self.n_states)[: self._n_node_weights() // self.n_features]

    def label_from_latent(self, h: Any) -> Any:
        """Return the labels of the labelled nodes."""
        return np.asarray(h)[np.asarray(h) < self.n_labels]

    def init_latent(self, X: Any, Y: Any) -> list[Any]:
        """Return states of hidden nodes by clusters of the shares of labels among their neighbours."""
        edges = [self._get_edges(x) for x in X]
        return neighbour_clusters(Y, edges, [int(x[-1]) for x in X], self.n_labels, self.n_hidden_states)

    def max_loss(self, h: Any) -> float:
        """Return the largest loss that there is for true labels."""
        return super().max_loss(self.label_from_latent(h))

    def continuous_loss(self, y: Any, y_hat: Any) -> float:
        """Return the expected loss of the marginals of labelled nodes."""
        y = self.label_from_latent(y)
        return super().continuous_loss(y, np.asarray(y_hat)[: len(y), : self.n_labels])


class EdgeFeatureLatentNodeCRF(LatentNodeCRF, EdgeFeatureGraphCRF):
    """Hidden nodes and features of edges: ``x = (features, edges, edge features, number of hidden nodes)``."""

    defaults = named(
        n_labels=2, n_features=None, n_edge_features=1, n_hidden_states=2, inference_method=None,
        class_weight=None, latent_node_features=False, symmetric_edge_features=(),
        antisymmetric_edge_features=(),
    )  # fmt: skip

    def _start(self) -> None:
        super()._start()
        self.n_features = self.n_labels if self.n_features is None else self.n_features

    initialize = HiddenStates.initialize
