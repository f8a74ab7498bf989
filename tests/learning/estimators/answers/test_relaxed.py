"""``predict_relaxed`` against the linear program written out, and where a relaxation is tight."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from ssvm_dsl import Dim, Edges, Factor, Hamming, Input, Label, Model, StructuredSVM, along
from ssvm_dsl.errors import NoBackendError


class Graph(Model):
    N, M = Dim(), Dim()
    x, edges = Input(N, 2), Edges(M, over=N)
    y = Label(N, 2)
    node = Factor(y, features=x)
    pair = Factor(along(y, edges))
    loss = Hamming(y)


TRIANGLE = np.array([[0, 1], [1, 2], [2, 0]])


def best_fractional(unary, pair, edges):
    """Return the best value over the local polytope, and the shares of states."""
    n, m = unary.size, len(edges)
    rows, right = [], []
    for v in range(len(unary)):
        rows.append(np.r_[np.eye(n)[2 * v] + np.eye(n)[2 * v + 1], np.zeros(4 * m)])
        right.append(1.0)
    for k, ends in enumerate(edges):
        for axis, v in enumerate(ends):
            for s in range(2):
                table = np.zeros((m, 2, 2))
                table[(k, s, slice(None)) if axis == 0 else (k, slice(None), s)] = 1.0
                rows.append(np.r_[-np.eye(n)[2 * v + s], table.ravel()])
                right.append(0.0)
    found = linprog(-np.r_[unary.ravel(), np.tile(pair.ravel(), m)], A_eq=np.array(rows), b_eq=right, bounds=(0, 1))
    return -found.fun, found.x[:n].reshape(-1, 2)


@pytest.mark.parametrize("backend", ["lp", "ad3"])
@pytest.mark.parametrize("seed", range(6))
def test_shares_are_those_of_the_best_point_of_the_local_polytope(backend, seed):
    rng = np.random.default_rng(seed)
    x, w, pair = rng.normal(size=(3, 2)), rng.normal(size=(2, 2)), 2 * rng.normal(size=(2, 2))
    svm = StructuredSVM.from_weights(Graph, {"node": w, "pair": pair}, backend=backend)
    (found,) = svm.predict_relaxed([(x, TRIANGLE)])
    value, shares = best_fractional(x @ w.T, pair, TRIANGLE)
    np.testing.assert_allclose(found, shares, atol=2e-3)
    assert value >= svm.set_params(backend="combi").best_score([(x, TRIANGLE)])[0] - 1e-9


def test_known_labels_hold():
    svm = StructuredSVM.from_weights(Graph, {"node": np.zeros((2, 2)), "pair": 1 - np.eye(2)}, backend="lp")
    (free,) = svm.predict_relaxed([(np.zeros((3, 2)), TRIANGLE)])
    np.testing.assert_allclose(free, 0.5)
    (found,) = svm.predict_relaxed([(np.zeros((3, 2)), TRIANGLE)], given=[[0, None, None]])
    np.testing.assert_allclose(found[0], [1, 0])


def test_what_has_no_relaxation_says_what_has_one():
    svm = StructuredSVM.from_weights(Graph, {"node": np.zeros((2, 2)), "pair": np.eye(2)}, backend="combi")
    with pytest.raises(NoBackendError, match="these would fit: lp, ad3"):
        svm.predict_relaxed([(np.zeros((3, 2)), TRIANGLE)])
