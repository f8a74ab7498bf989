"""``joint_feature``, ``loss`` and ``loss_augmented`` of an estimator, against all labellings of small examples."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ssvm_dsl import Cost, Dim, Factor, Hamming, Input, Label, Latent, Model, StructuredSVM, chain, cross
from ssvm_dsl.errors import DataError, OptionError


class Tagger(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, "abc")
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y, weights=[1.0, 2.0, 0.5])


class Hidden(Model):
    T = Dim()
    x = Input(T, 2)
    h = Latent(T, 2)
    y = Label(T, 2)
    emit = Factor(h, features=x)
    both = Factor(cross(h, y))
    loss = Cost(y, [[0.0, 1.0], [3.0, 0.0]])


def given(model, **options):
    rng = np.random.default_rng(0)
    shapes = {one.name: one.weight_shape(2) for one in model.declaration.factors}
    return StructuredSVM.from_weights(model, {name: rng.normal(size=s) for name, s in shapes.items()}, **options)


X = np.random.default_rng(1).normal(size=(4, 2))


def test_scores_are_products_with_joint_features():
    svm, y = given(Tagger), list("abca")
    psi = svm.joint_feature(X, y)
    assert psi.shape == svm.coef_.shape
    assert psi @ svm.coef_ == pytest.approx(svm.best_score([X], [y])[0])
    emit = np.zeros((3, 2))
    np.add.at(emit, [0, 1, 2, 0], X)
    assert psi[:6].tolist() == pytest.approx(emit.ravel().tolist())


@pytest.mark.parametrize("risk", ["margin", "perceptron", "hm"])
def test_augmented_labels_attain_the_risk(risk):
    svm, y = given(Tagger, risk=risk), list("abca")
    labels, value = svm.loss_augmented(X, y, return_risk=True)
    others = [list(one) for one in product("abc", repeat=4)]
    margins = {"margin": svm.loss, "perceptron": lambda *_: 0.0, "hm": lambda x, a, b: 1.0}
    scores = svm.best_score([X] * len(others), others)
    allowed = [risk != "hm" or one != y for one in others]
    every = zip(others, scores, allowed, strict=True)
    worth = [margins[risk](X, y, one) + s if ok else -np.inf for one, s, ok in every]
    assert labels.tolist() == others[int(np.argmax(worth))]
    assert value == pytest.approx(max(worth) - svm.best_score([X], [y])[0])


def test_losses_are_those_declared():
    svm = given(Tagger)
    assert svm.loss(X, list("abca"), list("aaca")) == 2.0
    assert StructuredSVM(Tagger).loss(X, list("abca"), list("bbba")) == 1.5
    assert given(Hidden).loss(X, [0, 1, 1, 0], [1, 0, 1, 0]) == 4.0
    with pytest.raises(DataError, match="other: expected a class for each variable"):
        svm.loss(X, list("abca"), ["a", None, "c", "a"])


def test_latent_variables_and_unknown_labels_have_their_best_states():
    svm, y = given(Hidden), [0, 1, 1, 0]
    assert svm.joint_feature(X, y) @ svm.coef_ == pytest.approx(svm.best_score([X], [y])[0])
    partly = [0, None, 1, 0]
    assert svm.joint_feature(X, partly) @ svm.coef_ == pytest.approx(svm.best_score([X], [partly])[0])
    labels, value = svm.loss_augmented(X, y, return_risk=True)
    others = [list(one) for one in product(range(2), repeat=4)]
    worth = [svm.loss(X, y, one) + s for one, s in zip(others, svm.best_score([X] * 16, others), strict=True)]
    assert labels.tolist() == others[int(np.argmax(worth))]
    assert value == pytest.approx(max(worth) - svm.best_score([X], [y])[0])


def test_risks_that_are_no_maxima_have_no_such_labels():
    with pytest.raises(OptionError, match="no maximum over labellings"):
        given(Tagger, risk="log").loss_augmented(X, list("abca"))
    with pytest.raises(OptionError, match="no maximum over labellings"):
        given(Tagger, risk="relaxed").loss_augmented(X, list("abca"))


def test_events_have_models_while_a_fit_runs(tmp_path):
    files = []

    def keep(event):
        files.append(tmp_path / f"{event.iteration}.ssvm")
        event.model().save(files[-1])

    Y = [list("abca")] * 3
    svm = StructuredSVM(Tagger, callbacks=[keep], random_state=0).fit([X] * 3, Y)
    last = StructuredSVM.load(files[-1])
    assert len(files) == len(svm.report_.history)
    assert np.array_equal(last.coef_, svm.coef_)
    assert last.predict([X])[0].tolist() == svm.predict([X])[0].tolist()
    with pytest.raises(OptionError, match="not those of a history"):
        svm.report_.history[0].model()
