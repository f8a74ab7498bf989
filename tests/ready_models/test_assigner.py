"""``Assigner`` and ``Matcher``: limits from examples, parameters and labels; what is learnt where links are noisy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Matching, Model, StructuredSVM
from ssvm_dsl.errors import DataError, InfeasibleError, OptionError
from ssvm_dsl.models import Assigner, Matcher


class Truth(Model):
    I, J = Dim(), Dim()
    x = Input(I, J)
    need, capacity = Input(I), Input(J)
    y = Label(I, J, 2)
    worth = Factor(y.is_(1), features=x)
    best = Matching(y.is_(1), rows=I, cols=J, row_limit=need, row_least=need, col_limit=capacity)
    loss = Hamming(y)


def reviews(n, noise=1.0, seed=0, sizes=(12, 8)):
    """Papers and reviewers: two of these for each paper, by similarity and chance, within their capacities."""
    rng, X, Y = np.random.default_rng(seed), [], []
    for _ in range(n):
        x = rng.normal(size=(*sizes, 3)) * [1.0, 1.0, 100.0]
        capacity, need = rng.integers(3, 6, sizes[1]), np.full(sizes[0], 2)
        worth = x @ [1.5, 1.0, 0.0] + noise * rng.gumbel(size=sizes)
        svm = StructuredSVM.from_weights(Truth, {"worth": 1.0})
        Y.append(svm.predict([{"x": worth, "need": need, "capacity": capacity}])[0])
        X.append({"x": x, "col_limit": capacity})
    return X, Y


def f1(Y, found):
    both = sum(int((y * one).sum()) for y, one in zip(Y, found))
    return 2 * both / sum(int(one.sum()) for side in (Y, found) for one in side)


def test_capacities_come_with_the_examples_and_fixed_counts_from_the_labels():
    X, Y = reviews(4)
    assigner = Assigner(random_state=0).fit(X, Y)
    text = "Matching(y.is_(1), rows=I, cols=J, row_limit=2, row_least=2, col_limit=col_limit)"
    assert repr(assigner.model_.limits) == text
    assert assigner.risk_ == "log"
    for one, y in zip(X, assigner.predict(X)):
        assert (y.sum(axis=1) == 2).all()
        assert (y.sum(axis=0) <= one["col_limit"]).all()


def test_it_is_as_good_as_logistic_regression_and_a_linear_program():
    X, Y = reviews(6)
    X_test, Y_test = reviews(6, seed=1)
    found = Assigner(random_state=0).fit(X, Y).predict(X_test)
    rows = np.concatenate([one["x"].reshape(-1, 3) for one in X]) / [1.0, 1.0, 100.0]
    plain = LogisticRegression().fit(rows, np.concatenate([y.ravel() for y in Y]))
    worth = [one["x"] / [1.0, 1.0, 100.0] @ plain.coef_[0] for one in X_test]
    program = StructuredSVM.from_weights(Truth, {"worth": 1.0}).predict([
        {"x": w, "need": np.full(12, 2), "capacity": one["col_limit"]} for w, one in zip(worth, X_test)
    ])  # fmt: skip
    assert f1(Y_test, found) >= f1(Y_test, program) - 0.02


def test_limits_of_both_sides_as_parameters_or_with_examples_mean_the_same():
    X, Y = reviews(3)
    bare = [one["x"] for one in X]
    given = [{"x": x, "row_limit": 2, "row_least": np.full(len(x), 2), "col_limit": 5} for x in bare]
    first = Assigner(row_limit=2, row_least=2, col_limit=5, col_least=0, random_state=0).fit(bare, Y)
    second = Assigner(col_least=0, random_state=0).fit(given, Y)
    for a, b in zip(first.predict(bare), second.predict(given)):
        np.testing.assert_array_equal(a, b)
    free = Assigner(row_limit=None, row_least=0, col_limit=None, col_least=0, random_state=0).fit(bare, Y)
    assert free.model_.limits.arguments()[1].get("row_limit", 1) is None


def test_saved_copied_and_fitted_again(tmp_path):
    X, Y = reviews(3)
    assigner = clone(Assigner(random_state=0, warm_start=True)).fit(X, Y)
    found = assigner.predict(X)
    assigner.save(tmp_path / "a.ssvm")
    for a, b in zip(found, Assigner.load(tmp_path / "a.ssvm").predict(X)):
        np.testing.assert_array_equal(a, b)
    again = assigner.fit(X, Y)
    assert again.model_.limits.kind == "transport"
    assert "limits" in str(Assigner.declare(X, Y))


def test_margins_learn_under_all_limits():
    X, Y = reviews(3, noise=0.01)
    svm = Assigner(risk="margin", C=10.0, random_state=0).fit(X, Y)
    assert svm.report_.plan.backend == "assignment"
    assert f1(Y, svm.predict(X)) > 0.9


def test_noisy_links_are_found_where_the_margin_finds_none():
    X, Y = reviews(6)
    bare = [one["x"] for one in X]
    with pytest.warns(UserWarning, match="nearest feasible"):
        matcher = Matcher(infeasible="nearest", random_state=0).fit(bare, Y)
    assert matcher.risk_ == "log"
    assert re.search(r"the margin finds \d+ of 144 links", " ".join(str(matcher.report_).split()))
    assert sum(int(one.sum()) for one in matcher.predict(bare)) > 0
    assert all((one.sum(axis=0) <= 1).all() and (one.sum(axis=1) <= 1).all() for one in matcher.predict(bare))


def test_labels_and_capacities_that_do_not_fit_are_named():
    X, Y = reviews(3)
    X[1] = {**X[1], "col_limit": np.ones(8)}
    with pytest.raises(DataError, match=r"Y, example 1: .* column 0 has"):
        Assigner().fit(X, Y)
    with pytest.warns(UserWarning, match="left out"):
        assigner = Assigner(infeasible="drop", random_state=0).fit(X, Y)
    with pytest.raises(InfeasibleError, match="the rows need 24 in all, the columns take 8 at most"):
        assigner.predict(X[1:2])
    with pytest.raises(DataError, match="a dict with x and some of row_limit"):
        Assigner().fit([{"x": X[0]["x"], "capacity": 3}], Y[:1])
    with pytest.raises(OptionError, match="row_limit is a number, None or 'auto', got 'all'"):
        Assigner(row_limit="all").fit(X[:1], Y[:1])
