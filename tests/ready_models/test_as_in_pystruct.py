"""What ``docs/coming_from/pystruct.md`` says of models and their C, against sums written out and other solvers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from ssvm_dsl import (
    SYMMETRIC,
    Dim,
    Factor,
    Hamming,
    Input,
    Label,
    Latent,
    Model,
    StructuredSVM,
    cliques,
    grid,
)
from ssvm_dsl.models import ChainTagger, Classifier, GraphLabeller, GridSegmenter, LatentGraph, MultiLabel

PLAIN = {"scale": False, "risk": "margin", "random_state": 0}
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3)) + np.array([0.5, 0.0, -0.3])
Y = rng.integers(2, size=60)
GRAPH = [(X[:4], np.array([[0, 1], [1, 2], [2, 3], [3, 0]]))] * 2, [[0, 1, 0, 1]] * 2


def hinge(w, X, signs, C):
    return w @ w / 2 + C * np.maximum(0, 1 - signs * (X @ w)).sum()


def best(C, signs):
    """Return the least value of ``hinge``."""
    found = LinearSVC(loss="hinge", fit_intercept=False, C=C, tol=1e-10, max_iter=10**6).fit(X, signs)
    return hinge(found.coef_.ravel(), X, signs, C)


def test_a_binary_classifier_has_half_the_c():
    svm = Classifier(bias=False, C=0.5, tol=1e-6, **PLAIN).fit(X, Y)
    w = svm.coef_[3:] - svm.coef_[:3]  # PyStruct's: the difference of both
    assert hinge(w, X, 2 * Y - 1, 1.0) == pytest.approx(best(1.0, 2 * Y - 1), rel=1e-4)


def test_labels_that_are_not_there_have_no_score():
    """PyStruct's label scores -u or u: its w is half of ours, its objective a quarter, at a quarter of the C."""
    labels = np.c_[Y, 1 - Y[::-1]]
    svm = MultiLabel(together=False, bias=False, C=0.4, tol=1e-6, **PLAIN).fit(X, labels)
    for w, signs in zip(svm.coef_.reshape(2, 3) / 2, 2 * labels.T - 1, strict=True):
        theirs = w @ w / 2 + 0.1 * np.maximum(0, 1 - 2 * signs * (X @ w)).sum()
        assert theirs == pytest.approx(best(0.4, signs) / 4, rel=1e-4)

    class Theirs(Model):
        K = Dim(2)
        x = Input(3)
        y = Label(K, 2)
        node = Factor(y, features=x, per=K, form=[[-1, 1]])
        pair = Factor(cliques(y, [(0, 1)]), per="edge")
        loss = Hamming(y)

    assert {f.name: f.weight_shape(3) for f in Theirs.declaration.factors} == {"node": (2, 1, 3), "pair": (1, 2, 2)}


def test_ready_models_without_a_bias():
    graphs, classes = GRAPH
    images = [x.reshape(2, 2, 3) for x, _ in graphs], [np.reshape(y, (2, 2)) for y in classes]
    cases = [
        (MultiLabel, (X, np.c_[Y, 1 - Y])),
        (GraphLabeller, GRAPH),
        (GridSegmenter, images),
        (ChainTagger, ([X[:5]] * 2, [[0, 1, 1, 0, 1]] * 2)),
    ]
    for kind, data in cases:
        plain = [f.name for f in kind(bias=False).declare(*data).declaration.factors]
        assert [f.name for f in kind().declare(*data).declaration.factors] == [*plain[:1], "bias", *plain[1:]]


def test_a_segmenter_cannot_learn_checkers_and_a_symmetric_table_can():
    class Grid(Model):
        H, W = Dim(), Dim()
        x = Input(H, W, 2)
        y = Label(H, W, 2)
        data = Factor(y, features=x)
        both = Factor(grid(y), form=SYMMETRIC)
        loss = Hamming(y)

    truth = np.indices((6, 7)).sum(axis=0) % 2
    images = [np.eye(2)[truth] + 0.8 * np.random.default_rng(i).normal(size=(6, 7, 2)) for i in range(6)]
    labels = [truth] * 6
    symmetric = StructuredSVM(Grid, C=0.1, random_state=0).fit(images, labels).score(images, labels)
    agreeing = GridSegmenter(bias=False, C=0.1, **PLAIN).fit(images, labels).score(images, labels)
    assert symmetric == 1.0
    assert agreeing < 0.95


def test_hidden_states_of_the_ready_model_are_tied_to_no_label():
    model = LatentGraph.declare(GRAPH[0], GRAPH[1]).declaration
    assert model.latents
    assert isinstance(model.latents[0], Latent)
    assert not model.constraints


def test_a_graph_is_the_declared_one():
    declared = GraphLabeller(bias=False, associative=False, directed=True).declare(*GRAPH).declaration
    assert {one.name: one.weight_shape(3) for one in declared.factors} == {"node": (2, 3), "pair": (2, 2)}
