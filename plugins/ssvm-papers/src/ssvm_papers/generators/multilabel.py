"""Labels of complete graphs, as Meshi et al. (2010) generated them."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I64


def make_multilabel(
    n: int = 100,
    n_labels: int = 20,
    n_states: int = 4,
    *,
    sweeps: int = 20,
    random_state: int | np.random.Generator = 0,
) -> tuple[list[F64], list[I64]]:
    """Return examples of a complete graph of labels, labelled by iterated conditional modes.

    The set of Meshi et al. (2010), Figure 1d: label i sees one number x_i, with a weight for each of its states, and
    each pair of labels has a table.  All weights and numbers are standard normal; labels start at the best states
    alone and move one at a time to their best state given the others, until none moves.

    Parameters
    ----------
    n : int
        Number of examples.
    n_labels, n_states : int
    sweeps : int
        Most passes over the labels of an example.
    random_state : int or Generator

    Returns
    -------
    X : list of ndarray, shape (n_labels,)
    Y : list of ndarray of int64, shape (n_labels,)
    """
    rng = np.random.default_rng(random_state)
    weights = rng.normal(size=(n_labels, n_states))
    tables = rng.normal(size=(n_labels, n_labels, n_states, n_states))
    tables = np.triu(np.ones((n_labels, n_labels)), 1)[:, :, None, None] * tables
    tables += tables.transpose(1, 0, 3, 2)  # table [i, j] holds the scores of (y_i, y_j); none of i with itself
    everyone = np.arange(n_labels)
    X, Y = [], []
    for _ in range(n):
        x = rng.normal(size=n_labels)
        unary = weights * x[:, None]
        y = unary.argmax(axis=1)
        for _ in range(sweeps):
            before = y.copy()
            for i in range(n_labels):
                y[i] = (unary[i] + tables[i, everyone, :, y].sum(axis=0)).argmax()
            if (y == before).all():
                break
        X.append(x)
        Y.append(y.astype(np.int64))
    return X, Y
