"""A ragged axis that only hidden variables have: its size comes with each example."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest

from ssvm_dsl import Dim, Edges, Factor, Hamming, Input, Label, Latent, Model, StructuredSVM, along, instances
from ssvm_dsl.cli.explain.examples import make_examples
from ssvm_dsl.errors import DataError, ModelError
from ssvm_dsl.scoring import Scorer


class Hidden(Model):
    N, K, M = Dim(), Dim(), Dim()
    x = Input(N, 2)
    e = Edges(M, over=(N, K))
    y = Label(N, 2)
    h = Latent(K, 3)
    node = Factor(y, features=x)
    pair = Factor(along((y, h), e))
    loss = Hamming(y)


class WithInput(Model):
    """The same model, whose axis has an input that says nothing."""

    N, K, M = Dim(), Dim(), Dim()
    x = Input(N, 2)
    e = Edges(M, over=(N, K))
    nothing = Input(K)
    y = Label(N, 2)
    h = Latent(K, 3)
    node = Factor(y, features=x)
    pair = Factor(along((y, h), e))
    loss = Hamming(y)


def made(seed: int = 0, n: int = 8):
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        nodes, hidden = rng.integers(1, 5, size=2)
        e = np.c_[np.arange(nodes), rng.integers(hidden, size=nodes)]
        X.append({"x": rng.normal(size=(nodes, 2)), "e": e, "K": int(hidden)})
        Y.append(rng.integers(2, size=nodes))
    return X, Y


def with_input(X):
    return [{"x": x["x"], "e": x["e"], "nothing": np.zeros(x["K"])} for x in X]


def test_fits_and_answers_are_those_of_a_model_whose_input_has_the_axis():
    X, Y = made()
    options = {"C": 1.0, "risk": "log", "trainer": "lbfgs", "latent_options": {"init": "random"}}
    ours, theirs = StructuredSVM(Hidden, **options).fit(X, Y), StructuredSVM(WithInput, **options).fit(with_input(X), Y)
    assert ours.report_.primal == pytest.approx(theirs.report_.primal, rel=1e-6)
    for a, b in zip(ours.predict_marginals(X), theirs.predict_marginals(with_input(X)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_the_best_labels_are_the_best_of_all():
    X, _ = made(1)
    rng = np.random.default_rng(0)
    node, pair = rng.normal(size=(2, 2)), rng.normal(size=(2, 3))
    svm = StructuredSVM.from_weights(Hidden, {"node": node, "pair": pair})
    for x, found in zip(X, svm.predict([(x["x"], x["e"], x["K"]) for x in X]), strict=True):

        def worth(y, x=x):
            states = product(range(3), repeat=x["K"])
            of_pairs = max(sum(pair[y[a], h[b]] for a, b in x["e"].tolist()) for h in states)
            return sum(node[s] @ row for s, row in zip(y, x["x"], strict=True)) + of_pairs

        best = max(map(worth, product(range(2), repeat=len(x["x"]))))
        assert worth(tuple(found.tolist())) == pytest.approx(best)


def test_sizes_of_one_example_do_not_reach_another():
    x = {"x": np.ones((1, 2)), "e": np.array([[0, 3]]), "K": 4}
    svm = StructuredSVM.from_weights(Hidden, {"node": np.eye(2), "pair": np.eye(2, 3)})
    assert [len(svm.predict([dict(x, K=size)])) for size in (4, 9, np.int64(5), 4)] == [1] * 4
    with pytest.raises(DataError, match=r"\(K=2\), found edge \(0, 3\)"):
        svm.predict([x, dict(x, K=2)])
    nobody = {"x": np.ones((1, 2)), "e": np.zeros((0, 2), dtype=int), "K": 0}
    assert len(svm.predict([nobody])[0]) == 1


@pytest.mark.parametrize("wrong", ["2", 2.5, -1, True, None, [3], np.array([3]), 2**40])
def test_what_is_no_size_is_refused_by_the_name_of_the_axis(wrong):
    X, Y = made()
    with pytest.raises(DataError, match="size of axis 'K', example 3: expected an int from 0"):
        StructuredSVM(Hidden, C=1.0).fit([*X[:3], dict(X[3], K=wrong)], Y[:4])


def test_a_size_that_is_missing_is_asked_for():
    X, Y = made()
    bare = [{"x": x["x"], "e": x["e"]} for x in X]
    with pytest.raises(DataError, match="found no K") as found:
        StructuredSVM(Hidden, C=1.0).fit(bare, Y)
    assert "no input has the axis K: its size comes with each example, {'K': 5}" in str(found.value)


def test_a_model_goes_through_pickle_and_plain_data(tmp_path):
    X, Y = made()
    svm = StructuredSVM(Hidden, C=1.0, max_passes=5).fit(X, Y)
    svm.save(tmp_path / "hidden.ssvm")
    again = [pickle.loads(pickle.dumps(svm)), StructuredSVM.load(tmp_path / "hidden.ssvm")]
    for one in again:
        assert [y.tolist() for y in one.predict(X)] == [y.tolist() for y in svm.predict(X)]


def test_a_scorer_takes_sizes_as_lengths():
    (x, *_), _ = made()
    node, pair = np.ones((1, len(x["x"]), 2)), np.zeros((1, len(x["e"]), 2, 3))
    scorer, scores = Scorer(Hidden), {"node": node, "pair": pair}
    found = scorer.answer(scores, data={"e": [x["e"]]}, lengths={"K": [x["K"]]}, task="log_z")
    assert found.log_z[0] == pytest.approx(len(x["x"]) * (1 + np.log(2)) + x["K"] * np.log(3))
    with pytest.raises(DataError, match="the size of axis K in each example"):
        scorer.answer(scores, data={"e": [x["e"]]})


def test_made_up_examples_have_sizes():
    (x,) = make_examples(Hidden.declaration, 1, {"K": 3})
    assert x["K"] == 3
    assert x["e"].shape[1] == 2


def test_instances_are_listed():
    (x, *_), _ = made()
    assert len(instances(Hidden, "pair", x)) == len(x["e"])


def test_axes_of_labels_must_still_have_an_input():
    with pytest.raises(ModelError, match="y: no input has the ragged axis K"):

        class Both(Model):
            N, K = Dim(), Dim()
            x = Input(N, 2)
            z = Label(N, 2)
            y = Label(K, 2)
            h = Latent(K, 3)
            node = Factor(z, features=x)
