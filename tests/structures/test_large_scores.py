"""Marginals of structures stay probabilities where scores are so large that they absorb the logarithm of a count."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_backends.structures.spanning_trees.projective import sum_projective, tree_items
from ssvm_backends.structures.spanning_trees.spanning_trees import sum_arborescences
from ssvm_dsl import Arborescence, Dim, Factor, Hamming, Input, Label, Model, ProjectiveTree, StructuredSVM, chain


class Segments(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, "ab", segments=4)
    f = Factor(y, features=x)
    g = Factor(chain(y))
    loss = Hamming(y)


class Projective(Model):
    T = Dim()
    x = Input(T, T, 2)
    h = Label(T, over=T, null=True)
    f = Factor(h, features=x)
    t = ProjectiveTree(h)
    loss = Hamming(h)


class Tree(Model):
    T = Dim()
    x = Input(T, T, 2)
    h = Label(T, over=T, null=True)
    f = Factor(h, features=x)
    t = Arborescence(h)
    loss = Hamming(h)


@pytest.mark.parametrize(("model", "shape"), [(Segments, (9, 2)), (Projective, (6, 6, 2)), (Tree, (6, 6, 2))])
@pytest.mark.parametrize("seed", range(6))
def test_marginals_of_large_and_mixed_scores(model, shape, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * 10.0 ** rng.uniform(-5, 30, shape)
    x = np.sign(x) * 1e17 if seed < 2 else x  # many ties
    weights = {"f": np.ones((2, 2)) if model is Segments else np.ones(2)}
    weights |= {"g": np.array([[1e20, 0.0], [0.5, -1e18]])} if model is Segments else {}
    (found,) = StructuredSVM.from_weights(model, weights).predict_marginals([x])  # verified by the host
    assert np.allclose(found.sum(axis=1), 1.0)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("n", [1, 2, 5, 30])
@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e8, 1e18, 1e300])
def test_tied_arcs_share_their_probability(scale, n, single):
    """With equal scores arcs of equal length from the root's side are as likely as their mirror images."""
    w = np.full((n + 1, n + 1), scale)
    w[:, 0] = -np.inf
    np.fill_diagonal(w, -np.inf)
    for add_up in (sum_projective, sum_arborescences):
        probability = np.zeros((n + 1) ** 2)
        items = tree_items(n, True)
        total = add_up(n, single, w.ravel().copy(), items if add_up is sum_projective else probability)
        if add_up is sum_projective:
            probability = items.outer[(n + 1) ** 2 : 2 * (n + 1) ** 2]
        assert total == pytest.approx(n * scale, rel=1e-12, abs=4.0 * n)
        by_token = probability.reshape(n + 1, n + 1)[:, 1:].sum(axis=0)
        assert np.allclose(by_token, 1.0)
        if single:
            assert probability[: n + 1].sum() == pytest.approx(1.0)
