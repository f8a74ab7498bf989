"""Beginnings of hidden states: clusters of nodes by their features and the labels around them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_pystruct.inference import as_edges


def _counts(y: Any, edges: Any, n: int, n_labels: int) -> NDArray[np.float64]:
    """Return how many neighbours of each label the first end of edges has, where the label is known."""
    a, b = as_edges(edges).T
    found, seen = np.zeros((n, n_labels)), b < len(y)
    np.add.at(found, (a[seen], np.asarray(y)[b[seen]]), 1.0)
    return found


def _shares(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)


def _clusters(rows: Any, k: int) -> Any:
    from sklearn.cluster import KMeans

    return KMeans(k, n_init=10, random_state=0).fit_predict(rows)


def kmeans_init(
    X: Any, Y: Any, all_edges: Any, n_labels: int, n_states_per_label: Any, symmetric: bool = True
) -> list[Any]:
    """Return a hidden state for each node, by clusters of the nodes of each label.

    Parameters
    ----------
    X : list of ndarray, shape (n, features)
    Y : list of ndarray of int, shape (n,)
    all_edges : list of lists of edges
        One list for each kind of edges.
    n_labels : int
    n_states_per_label : sequence of int
    symmetric : bool
        Whether both ends of an edge count alike.
    """
    rows, flat = [], [np.ravel(y) for y in Y]
    for x, y, kinds in zip(X, flat, all_edges, strict=True):
        ends = [(_counts(y, e, len(y), n_labels), _counts(y, e[:, ::-1], len(y), n_labels)) for e in kinds]
        counts = np.hstack([one for a, b in ends for one in ([a + b] if symmetric else [a, b])])
        rows.append(np.hstack([x, _shares(counts)]))
    all_rows, labels = np.vstack(rows), np.hstack(flat)
    first, states = np.cumsum([0, *n_states_per_label]), np.zeros(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        mine = labels == label
        states[mine] = first[label] + _clusters(all_rows[mine], int(n_states_per_label[label]))
    return np.split(states, np.cumsum([len(y) for y in flat])[:-1])


def neighbour_clusters(Y: Any, edges: Any, n_hidden: list[int], n_labels: int, n_hidden_states: int) -> list[Any]:
    """Return the labels of each example followed by states of its hidden nodes, numbered after the labels."""
    rows = []
    for y, one, n in zip(Y, edges, n_hidden, strict=True):
        counts = _counts(y, one, len(y) + n, n_labels) + _counts(y, one[:, ::-1], len(y) + n, n_labels)
        rows.append(_shares(counts[len(y) :]))
    found = np.zeros(0, dtype=np.int64)
    if sum(n_hidden):
        found = _clusters(np.vstack(rows), n_hidden_states) + n_labels
    parts = np.split(found, np.cumsum(n_hidden)[:-1])
    return [np.hstack([y, h]).astype(np.int64) for y, h in zip(Y, parts, strict=True)]
