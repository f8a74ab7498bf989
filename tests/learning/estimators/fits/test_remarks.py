"""Warnings of fits that went well by their certificates: features of very different sizes, classes never predicted."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, Standardized, StructuredSVM, chain
from ssvm_dsl.learning.estimators.fitting.fit_warnings import column_sizes


def table(width, standard=False, weights=None):
    class Table(Model):
        x = Input(width)
        y = Label(["no", "yes"])
        score = Factor(y, features=Standardized(x) if standard else x)
        bias = Factor(y)
        loss = Hamming(y, weights=weights)

    return Table


def told(model, X, Y, **settings):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        StructuredSVM(model, **{"random_state": 0, "tol": 0.01, **settings}).fit(X, Y)
    return "\n".join(str(one.message) for one in caught)


def rows(n=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0.0, "yes", "no")


# -- sizes of columns ------------------------------------------------------------------------------------------


def test_columns_of_very_different_sizes_are_told_with_the_cure():
    X, Y = rows()
    X = X * [1.0, 1000.0]
    text = told(table(2), X, Y)
    assert "features of input 'x' differ in size by 981 times (x[1] is about 988, x[0] 1.01)" in text
    assert "trainer 'bcfw' is slow on them" in text
    assert "Standardized" in text
    assert "differ in size" in told(table(2), X, Y, trainer="bundle")


def test_nothing_is_told_where_nothing_is_slow():
    X, Y = rows()
    uneven = X * [1.0, 1000.0]
    assert told(table(2), X * [1.0, 90.0], Y) == ""
    assert told(table(2, standard=True), uneven, Y) == ""
    assert told(table(2), uneven, Y, risk="log") == ""  # lbfgs divides by a guess of the curvature
    rare = np.c_[X, np.arange(len(X)) == 7]
    assert told(table(3), rare, Y) == told(table(3, standard=True), rare, Y) == ""


def test_lbfgs_takes_about_as_many_passes_whatever_the_sizes():
    X, Y = rows()
    passes = []
    for size in (1.0, 1e4):
        svm = StructuredSVM(table(2), risk="log", tol=1e-3).fit(X * [1.0, size], Y)
        passes.append(svm.report_.n_passes)
    assert passes[1] <= 3.0 * passes[0]


def test_sizes_are_those_of_numbers_that_are_not_zero():
    X = np.random.default_rng(0).normal(size=(1000, 3))
    X[::2, 1] = 0.0
    X[:, 2] = 0.0
    expected = [np.sqrt(np.mean(X[:, 0] ** 2)), np.sqrt(np.mean(X[1::2, 1] ** 2)), 0.0]
    assert column_sizes(X) == pytest.approx(expected)


# -- classes that are never predicted --------------------------------------------------------------------------


def events(n=60, length=20):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(length, 2)) for _ in range(n)]
    return X, [(x[:, 0] + rng.normal(size=length) > 2.2).astype(int) for x in X]


class Events(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, ["O", "EV"])
    emit = Factor(y, features=x)
    bias = Factor(y)
    trans = Factor(chain(y))
    loss = Hamming(y)


def test_a_margin_that_predicts_one_class_is_told_with_the_cure():
    X, Y = events()
    Y = [np.array(["O", "EV"])[y] for y in Y]
    text = told(Events, X, Y)
    assert "label 'y', on the training data: only 'O' is predicted, never 'EV' (" in text
    assert "set risk='log'" in text
    assert told(Events, X, Y, risk="log") == ""


def test_only_known_labels_count():
    class Partly(Events):
        y = Label(Events.T, ["O", "EV"], unknown="?")
        emit = Factor(y, features=Events.x)
        bias = Factor(y)
        trans = Factor(chain(y))
        loss = Hamming(y)

    X, Y = events()
    known = [np.array(["O", "EV"])[y] for y in Y]
    assert "never 'EV'" in told(Partly, X, [np.where(np.arange(20) < 10, y, "?") for y in known])
    assert "predicted" not in told(Partly, X, [np.where(y == "EV", "?", y) for y in known])


def test_one_class_of_several_that_is_never_predicted_is_told():
    class Three(Model):
        x = Input(2)
        y = Label(3)
        score = Factor(y, features=x)
        loss = Hamming(y)

    rng = np.random.default_rng(0)
    X = np.r_[rng.normal([3, 0], 1, (150, 2)), rng.normal([-3, 0], 1, (150, 2)), rng.normal([-3, 0.1], 1, (20, 2))]
    text = told(Three, X, np.repeat([0, 1, 2], [150, 150, 20]))
    assert "on the training data: 2 (6% of the labels) is never predicted" in text
    assert told(Three, X[:300], np.repeat([0, 1], 150)) == ""  # nobody asks for a class without examples


def test_slack_rescaling_with_weights_of_classes_is_a_cure():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    Y = np.where(X[:, 0] + rng.normal(size=400) > 2.2, "yes", "no")
    assert "only 'no' is predicted" in told(table(2), X, Y)
    assert told(table(2, weights=[1.0, 5.0]), X, Y, risk="slack") == ""


def test_fits_that_were_cut_short_say_nothing_about_classes():
    X, Y = events()
    Y = [np.array(["O", "EV"])[y] for y in Y]
    assert "predicted" not in told(Events, X, Y, callbacks=[lambda event: True])
