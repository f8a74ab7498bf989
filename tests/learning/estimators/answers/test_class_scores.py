"""Scores of single classes: max-marginals by brute force, scikit-learn's scorers, refusals elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score

from ssvm_dsl import (
    Dim,
    Factor,
    Forbid,
    Given,
    Hamming,
    Input,
    Label,
    Latent,
    Model,
    StructuredRegressor,
    StructuredSVM,
    chain,
    cross,
)
from ssvm_dsl.errors import OptionError


class Two(Model):
    x = Input(3)
    y = Label(["no", "yes"])
    f = Factor(y, features=x)
    b = Factor(y)
    loss = Hamming(y)


class Prior(Model):
    x = Input(3)
    p = Input(4)
    y = Label([10, 20, 30, 40])
    f = Factor(y, features=x)
    g = Given(y, scores=p)
    never = Forbid(y, [30])
    loss = Hamming(y)


class Parts(Model):
    T = Dim()
    x = Input(T, 2)
    h = Latent(T, 2)
    y = Label(3)
    emit = Factor(h, features=x)
    joint = Factor(cross(h, y))
    loss = Hamming(y)


class Words(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, 2)
    f = Factor(y, features=x)
    t = Factor(chain(y))
    loss = Hamming(y)


RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.where(X[:, 0] + 0.5 * RNG.normal(size=60) > 0, "yes", "no")


def test_two_classes_have_a_signed_score():
    w = {"f": RNG.normal(size=(2, 3)), "b": RNG.normal(size=2)}
    svm = StructuredSVM.from_weights(Two, w)
    expected = X @ (w["f"][1] - w["f"][0]) + w["b"][1] - w["b"][0]
    np.testing.assert_allclose(svm.decision_function(X), expected, atol=1e-12)
    assert svm.classes_.tolist() == ["no", "yes"]
    assert svm.predict(X) == svm.classes_[(svm.decision_function(X) > 0).astype(int)].tolist()


def test_more_classes_have_a_column_each():
    w = RNG.normal(size=(4, 3))
    data = [{"x": x, "p": RNG.normal(size=4)} for x in X[:7]]
    svm = StructuredSVM.from_weights(Prior, {"f": w})
    scores = svm.decision_function(data)
    expected = np.array([w @ one["x"] + one["p"] for one in data])
    expected[:, 2] = -np.inf
    np.testing.assert_allclose(scores, expected, atol=1e-12)
    assert svm.predict(data) == svm.classes_[scores.argmax(axis=1)].tolist()
    np.testing.assert_allclose(scores.max(axis=1), svm.best_score(data))


def test_latent_variables_are_at_their_best():
    emit, joint = RNG.normal(size=(2, 2)), RNG.normal(size=(2, 3))
    svm = StructuredSVM.from_weights(Parts, {"emit": emit, "joint": joint})
    data = [RNG.normal(size=(t, 2)) for t in (1, 2, 4)]
    expected = [[(x @ emit.T + joint[:, c]).max(axis=1).sum() for c in range(3)] for x in data]
    np.testing.assert_allclose(svm.decision_function(data), expected, atol=1e-12)


def test_a_class_that_some_examples_rule_out():
    class Masked(Parts):
        ok = Input(3)
        y = Label(3, allowed=ok)
        joint = Factor(cross(Parts.h, y))
        loss = Hamming(y)

    svm = StructuredSVM.from_weights(Masked, {"emit": np.zeros((2, 2)), "joint": RNG.normal(size=(2, 3))})
    data = [{"x": np.zeros((2, 2)), "ok": ok} for ok in ([1, 1, 1], [1, 0, 1])]
    assert np.isneginf(svm.decision_function(data)).tolist() == [[False] * 3, [False, True, False]]


def test_scorers_of_scikit_learn():
    svm = StructuredSVM(Two, tol=1e-2, random_state=0)
    assert is_classifier(svm)
    assert cross_val_score(svm, X, Y, cv=3, scoring="roc_auc").mean() > 0.85
    fitted = svm.fit(X, Y)
    scores = fitted.decision_function(X)
    search = GridSearchCV(svm, {"C": [1.0]}, cv=2, scoring="roc_auc", error_score="raise").fit(X, Y)
    assert search.score(X, Y) == pytest.approx(roc_auc_score(Y, search.best_estimator_.decision_function(X)))
    assert average_precision_score(Y == "yes", scores) > 0.85
    watched = StructuredSVM(Two, scoring="roc_auc", max_passes=3, random_state=0).fit(X, Y, validation=(X, Y))
    assert watched.report_.validation_score > 0.85


def test_other_models_refuse():
    words = [RNG.normal(size=(4, 3)) for _ in range(12)]
    labels = [(x[:, 0] > 0).astype(int) for x in words]
    svm = StructuredSVM(Words, max_passes=2, tol=1.0)
    assert not is_classifier(svm)
    assert not hasattr(svm, "classes_")
    with pytest.raises(OptionError, match=r"the output of Words is y = Label\(T, 2\): best_score\(X\)"):
        svm.fit(words, labels).decision_function(words)
    with pytest.raises(ValueError, match="decision_function"):  # OptionError; before 1.7 scikit-learn's own
        cross_val_score(svm, words, labels, cv=2, scoring="roc_auc", error_score="raise")
    assert not hasattr(StructuredRegressor(Two), "decision_function")


def test_before_fitting():
    with pytest.raises(NotFittedError):
        StructuredSVM(Two).decision_function(X)
    assert not hasattr(StructuredSVM(Two), "classes_")  # NotFittedError is an AttributeError
