"""The estimator: scikit-learn's conventions, what prediction returns, parameters, weights of examples, threads."""

from __future__ import annotations

import copy
import itertools
import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

import model_table
import naive
import small
from small import Case, Word
from ssvm_dsl import Cost, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, ZeroOne, chain, pairs
from ssvm_dsl.datasets import make_chains
from ssvm_dsl.errors import DataError, OptionError, PluginError, TrainingError
from ssvm_dsl.inference import batch
from ssvm_dsl.learning.estimators import structured


class Sequence(Model):
    T = Dim()
    x = Input(T, 5)
    y = Label(T, ["sun", "rain", "snow"])
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


X, STATES = make_chains(n=60, n_states=3, n_features=5, length=(2, 7), noise=1.5, random_state=3)
Y = [np.array(Sequence.y.classes)[states] for states in STATES]


def fit(model=Sequence, X=X, Y=Y, sample_weight=None, **options) -> StructuredSVM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return StructuredSVM(model, **{"C": 0.1, "random_state": 0, **options}).fit(X, Y, sample_weight)


@cache
def trained() -> StructuredSVM:
    """Return a model that is fitted once, when a test needs it."""
    return fit()


# -- scikit-learn ----------------------------------------------------------------------------------------------


def test_parameters_can_be_read_set_and_cloned():
    svm = StructuredSVM(Sequence, C=3.0, trainer_options={"keep": 1}, regularization={Sequence.trans: 0.5}, tol=0.1)
    parameters = svm.get_params()
    assert parameters["model"] is Sequence
    assert (parameters["C"], parameters["tol"], parameters["trainer"]) == (3.0, 0.1, "auto")
    assert svm.set_params(C=2.0, random_state=7) is svm
    assert (svm.C, svm.random_state) == (2.0, 7)
    with pytest.raises(ValueError, match="Invalid parameter 'c'"):
        svm.set_params(c=1)
    same = clone(svm.fit(X[:5], Y[:5]))
    assert same.get_params() == svm.get_params()
    assert not hasattr(same, "coef_")
    np.testing.assert_array_equal(same.fit(X[:5], Y[:5]).coef_, svm.coef_)
    assert "C=2.0" in repr(svm)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_grid_search(n_jobs):
    svm = StructuredSVM(Sequence, random_state=0, n_threads=1, tol=1e-2)
    grid = {"C": [1e-4, 1e-2, 1.0]}
    search = GridSearchCV(svm, grid, cv=2, n_jobs=n_jobs, error_score="raise").fit(X[:40], Y[:40])
    by_hand = []
    for C in grid["C"]:
        halves = [(slice(20, 40), slice(0, 20)), (slice(0, 20), slice(20, 40))]
        scores = [clone(svm).set_params(C=C).fit(X[a], Y[a]).score(X[b], Y[b]) for a, b in halves]
        by_hand.append(np.mean(scores))
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], by_hand)
    assert search.best_params_["C"] == grid["C"][int(np.argmax(by_hand))]
    assert search.score(X[40:], Y[40:]) == search.best_estimator_.score(X[40:], Y[40:])


@pytest.mark.sensitive
def test_cross_validation():
    scores = cross_val_score(StructuredSVM(Sequence, C=0.1, random_state=0, tol=1e-2), X, Y, cv=3)
    assert scores.shape == (3,)
    assert (scores > 0.5).all()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda svm: pickle.loads(pickle.dumps(svm))], ids=["deep", "pickle"])
def test_copies_predict_the_same(copied):
    svm = fit(callbacks=None)
    again = copied(svm)
    assert again is not svm
    assert again.report_.summary() == svm.report_.summary()
    for one, other in zip(again.predict(X), svm.predict(X), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(again.weights_[Sequence.trans], svm.weights_["trans"])
    again.coef_[:] = 0.0
    assert svm.coef_.any()
    stream = fit(trainer="subgradient", max_passes=1).partial_fit(X[:20], Y[:20])
    both = [copied(stream).partial_fit(X[20:], Y[20:]), stream.partial_fit(X[20:], Y[20:])]
    np.testing.assert_array_equal(both[0].coef_, both[1].coef_)


@pytest.mark.parametrize("ask", ["predict", "score", "best_score", "predict_marginals", "weights_", "save"])
def test_nothing_can_be_asked_before_fitting(ask, tmp_path):
    svm = StructuredSVM(Sequence)
    given = {"score": (X, Y), "weights_": (), "save": (tmp_path / "x",)}.get(ask, (X,))
    with pytest.raises(NotFittedError, match="call fit first"):
        getattr(svm, ask)(*given)
    assert not list(tmp_path.iterdir())


# -- parameters that cannot be used ----------------------------------------------------------------------------

WRONG = [
    *[({"C": value}, "C must be a positive number") for value in (0, -1.0, np.nan, -np.inf, True, "1", None, [1.0])],
    *[({"lam": value}, "lam must be a positive number") for value in (0, -1.0, np.nan, np.inf, "1")],
    *[({"tol": value}, "tol must be a non-negative number") for value in (-1e-3, np.nan, None, "small")],
    *[({"max_passes": value}, "max_passes must be a positive number") for value in (0, -3, None, "many")],
    *[({"max_seconds": value}, "max_seconds must be a positive number") for value in (0, -3.0, "1 h")],
    *[({"n_threads": value}, "n_threads must be None or an int") for value in (0, -1, 1.5, True, "all")],
    *[({"random_state": value}, "random_state must be None or an int") for value in (-1, 0.5, True, "seed")],
    ({"C": 5.0, "lam": 0.1}, r"C = 5.0 and lam = 0.1 say the same thing .*; leave one out"),
    ({"trainer_options": [1]}, r"trainer_options is None or a dict of options by name, .*, got \[1\]"),
    ({"backend": "chain", "backend_options": "fast"}, "backend_options is None or a dict of options by name"),
    ({"regularization": 2.0}, "regularization is None or a dict of numbers by factor, .*, got 2.0"),
    ({"callbacks": print}, r"callbacks must be None or a list .*: write callbacks=\[...\] for a single one"),
    ({"callbacks": [print, 3]}, "callbacks must be None or a list of functions of a TrainingEvent, got 3"),
    ({"callbacks": 3}, "callbacks must be None or a list of functions of a TrainingEvent, got 3"),
    ({"model": "Sequence"}, "model must be a Model class"),
    ({"model": Sequence.declaration}, "model must be a Model class"),
    ({"regularization": {"emmit": 1.0}}, "the factors emit, trans; got 'emmit'"),
    ({"regularization": {"emit": -1.0}}, "regularization: non-negative numbers"),
    ({"regularization": {"emit": np.nan}}, "regularization: non-negative numbers"),
    ({"regularization": {"emit": np.inf}}, "regularization: non-negative numbers"),
    ({"regularization": {"emit": "strong"}}, "regularization: non-negative numbers"),
    ({"trainer_options": {"samplin": "gap"}}, "'bcfw' has no option 'samplin'; its options are: sampling"),
    ({"trainer_options": {"sampling": "all"}}, "option 'sampling' of 'bcfw' must be one of .*'gap'"),
    ({"trainer": "subgradient", "trainer_options": {"keep": 1}}, "'subgradient' has no option 'keep'"),
    ({"backend": "chain", "backend_options": {"beam": 3}}, "'chain' has no option 'beam'; its options are: none"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=lambda value: str(value)[:60])
def test_wrong_parameters_are_named(options, message):
    svm = StructuredSVM(**{"model": Sequence, **options})
    with pytest.raises(OptionError, match=message):
        svm.fit(X[:3], Y[:3])
    assert not hasattr(svm, "coef_")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trainer": "bcwf"}, "no trainer 'bcwf'; did you mean 'bcfw'"),
        ({"trainer": "magic"}, "known: bcfw"),
        ({"backend": "chains"}, "no backend 'chains'; did you mean 'chain'"),
        ({"backend_options": {"beam": 3}}, "options belong to one backend"),
    ],
)
def test_unknown_plugins_come_with_suggestions(options, message):
    with pytest.raises(PluginError, match=message):
        StructuredSVM(Sequence, **options).fit(X[:3], Y[:3])


@pytest.mark.parametrize("trainer", ["bcfw", "perceptron", "subgradient"])
def test_there_must_be_something_to_learn(trainer):
    empty = [np.zeros((0, 5))] * 2, [[], []]
    with pytest.raises(DataError, match="X: expected at least one example with something to label, found 2 empty"):
        fit(X=empty[0], Y=empty[1], trainer=trainer)
    assert [len(y) for y in trained().predict(empty[0])] == [0, 0]


def test_labels_are_needed():
    score, stream = trained().score, StructuredSVM(Sequence, trainer="subgradient").partial_fit
    for call in (score, StructuredSVM(Sequence).fit, stream):
        hint = "score" if call == score else "fit"
        with pytest.raises(DataError, match=rf"Y: expected a list with .*, found None\n.*call {hint}\(X, Y\)"):
            call(X, None)


def test_a_model_without_a_loss_is_refused():
    class Mute(Model):
        T = Dim()
        x = Input(T, 5)
        y = Label(T, 3)
        emit = Factor(y, features=x)

    given = StructuredSVM.from_weights(Mute, {"emit": np.eye(3, 5)})
    for call in (StructuredSVM(Mute).fit, StructuredSVM(Mute, trainer="subgradient").partial_fit, given.score):
        with pytest.raises(TrainingError, match=r"Mute declares no loss; add e.g. loss = Hamming"):
            call(X, STATES)
    assert all((y == x[:, :3].argmax(axis=1)).all() for x, y in zip(X, given.predict(X), strict=True))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(3), "sample_weight: expected 60 numbers.*found shape \\(3,\\)"),
        (np.where(np.arange(60) == 4, -1.0, 1.0), "sample_weight, example 4: expected a finite non-negative.*-1.0"),
        (np.where(np.arange(60) == 7, np.nan, 1.0), "sample_weight, example 7"),
        (np.zeros(60), "sample_weight: expected at least one weight above 0, found zeros only"),
        ("balanced", r"expected 60 numbers, one for each example, found 'balanced'\n.*: Hamming\(y, weights="),
    ],
)
def test_wrong_sample_weights_are_named(weight, message):
    with pytest.raises(DataError, match=message):
        fit(sample_weight=weight)
    with pytest.raises(DataError, match=message):
        trained().score(X, Y, sample_weight=weight)


# -- weights of examples ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("trainer", ["bcfw", "subgradient"])
def test_weight_two_is_the_example_twice_and_weight_zero_none_at_all(trainer):
    options = {"C": 0.3, "tol": 1e-7, "max_passes": 2000}
    if trainer == "subgradient":  # its batch steps are the same, one by one
        order = {"order": "batch", "averaging": "none", "best_iterate": False}
        options = {"C": 0.3, "tol": 0.0, "max_passes": 20, "trainer": trainer, "trainer_options": order}
    weight = np.array([2.0, 0.0, 1.0, 2.0, 1.0, 0.0, 3.0, 1.0])
    weighted = fit(X=X[:8], Y=Y[:8], sample_weight=weight, **options)
    copies = [i for i in range(8) for _ in range(int(weight[i]))]
    repeated = fit(X=[X[i] for i in copies], Y=[Y[i] for i in copies], **options)
    assert weighted.report_.primal == pytest.approx(repeated.report_.primal, rel=1e-6)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=2e-3 if trainer == "bcfw" else 1e-9)
    ones, none = fit(sample_weight=np.ones(60)), fit()
    np.testing.assert_array_equal(ones.coef_, none.coef_)


# -- the same results on any machine ---------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["chain", "brute-force"])
@pytest.mark.parametrize("trainer", ["bcfw", "subgradient"])
def test_threads_change_nothing(trainer, backend, monkeypatch):
    monkeypatch.setattr(batch, "PART_STATES", 40)
    monkeypatch.setattr(structured, "CHUNK", 25)
    options = {"trainer": trainer, "backend": backend, "max_passes": 6}
    options["trainer_options"] = {"order": "batch"} if trainer == "subgradient" else {}
    one, *others = [fit(n_threads=n, **options) for n in (1, 3, None)]
    for other in others:
        np.testing.assert_array_equal(one.coef_, other.coef_)
        assert one.report_.primal == other.report_.primal
        np.testing.assert_array_equal(one.best_score(X), other.best_score(X))
        for a, b in zip(one.predict(X), other.predict(X), strict=True):
            np.testing.assert_array_equal(a, b)


def test_parts_change_nothing_but_rounding(monkeypatch):
    svm = trained()
    whole = svm.predict(X), svm.best_score(X), svm.predict_marginals(X), svm.predict_kbest(X, 2), svm.score(X, Y)
    monkeypatch.setattr(batch, "PART_STATES", 30)
    monkeypatch.setattr(structured, "CHUNK", 7)
    for a, b in zip(whole[0], trained().predict(X), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(trained().best_score(X), whole[1], rtol=1e-12)
    for a, b in zip(whole[2], trained().predict_marginals(X), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    for a, b in zip(whole[3], trained().predict_kbest(X, 2), strict=True):
        assert [score for _, score in a] == pytest.approx([score for _, score in b])
    assert trained().score(X, Y) == pytest.approx(whole[4])


@pytest.mark.parametrize("trainer", ["bcfw", "subgradient"])
def test_the_seed_decides_everything(trainer):
    options = {"trainer": trainer, "max_passes": 4, "tol": 0.0}
    np.random.seed(1)  # noqa: NPY002 (the global state must not matter)
    first = fit(random_state=5, **options)
    np.random.seed(2)  # noqa: NPY002
    second, other = fit(random_state=np.int64(5), **options), fit(random_state=6, **options)
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert [e.best_dual for e in first.report_.history] == [e.best_dual for e in second.report_.history]
    assert (first.coef_ != other.coef_).any()


# -- what is learnt and predicted ------------------------------------------------------------------------------


def test_weights_by_factor_and_by_name():
    w = trained().weights_
    assert w[Sequence.emit].shape == w["emit"].shape == (3, 5)
    assert w[Sequence.trans].shape == (3, 3)
    assert list(w) == ["emit", "trans"]
    assert len(w) == 2
    assert repr(w) == "Weights(emit[3, 5], trans[3, 3])"
    np.testing.assert_array_equal(np.concatenate([w["emit"].ravel(), w["trans"].ravel()]), trained().coef_)
    with pytest.raises(KeyError, match="no factor 'bias'; the factors are emit, trans"):
        w["bias"]


def test_tied_factors_show_the_same_weights():
    data = Case(small.Ties).make(0)
    svm = fit(small.Ties, data.X, data.Y, max_passes=3)
    assert list(svm.weights_) == ["emit", "near", "agree", "step", "again"]
    np.testing.assert_array_equal(svm.weights_[small.Ties.again], svm.weights_[small.Ties.near])
    assert (svm.weights_["agree"] >= 0).all()


def enumerated(case: Case, data, svm, i: int):
    """All labellings of example i with their scores by explicit loops, best first."""
    declaration = case.model.declaration
    names = [y.name for y in declaration.labels]
    spots = [(name, p) for name in names for p in np.ndindex(np.shape(data.labels[i][name]))]
    out = []
    for states in itertools.product(*(range(declaration.find(name).n_states) for name, _ in spots)):
        labels = {name: np.array(data.labels[i][name]) for name in names}
        for (name, p), state in zip(spots, states):
            labels[name][p] = state
        score = naive.naive_score(declaration, svm.weights_, data.inputs[i], labels, data.grounded.fitted)
        out.append((score, labels))
    return sorted(out, key=lambda pair: -pair[0])


ASKED = [Case(Word), Case(small.Tree, ragged=(1, 4), n=4), Case(small.Layers, ragged=(1, 2), n=3), Case(small.Single)]


@pytest.mark.parametrize("case", [*ASKED, Case(small.Loopy), Case(small.Joint)], ids=str)
def test_answers_are_those_of_all_labellings(case):
    data = case.make(0)
    svm = fit(case.model, data.X, data.Y, C=1.0, max_passes=20)
    declaration = case.model.declaration
    predicted, marginals, best = svm.predict(data.X), svm.predict_marginals(data.X), svm.best_score(data.X)
    ranked = svm.predict_kbest(data.X, 5)
    of_truth = svm.best_score(data.X, data.Y)
    for i in range(case.n):
        every = enumerated(case, data, svm, i)
        scores = np.array([score for score, _ in every])
        assert best[i] == pytest.approx(scores[0], rel=1e-9, abs=1e-9)
        truth = naive.naive_score(declaration, svm.weights_, data.inputs[i], data.labels[i], data.grounded.fitted)
        assert of_truth[i] == pytest.approx(truth, rel=1e-9, abs=1e-9)
        assert same(predicted[i], model_table.user_labels(case.model, every[0][1]))
        assert [score for _, score in ranked[i]] == pytest.approx(list(scores[:5]), rel=1e-9, abs=1e-9)
        for (given, _), (_, labels) in zip(ranked[i], every):
            assert same(given, model_table.user_labels(case.model, labels))
        chance = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        for label in declaration.labels:
            table = marginals[i][label.name] if len(declaration.labels) > 1 else marginals[i]
            states = [labels[label.name] for _, labels in every]
            expected = np.einsum("k,k...s->...s", chance, np.eye(label.n_states)[np.array(states)])
            np.testing.assert_allclose(table, expected, atol=1e-9)


def same(a, b) -> bool:
    if isinstance(b, dict):
        return set(a) == set(b) and all(same(a[key], b[key]) for key in b)
    return np.array_equal(np.asarray(a), np.asarray(b))


def test_predictions_come_in_the_users_form():
    words = trained().predict(X[:3])
    assert isinstance(words, list)
    assert all(isinstance(word, np.ndarray) and word.dtype.kind == "U" for word in words)
    assert [len(word) for word in words] == [len(x) for x in X[:3]]
    assert set(np.concatenate(words)) <= {"sun", "rain", "snow"}
    single = Case(small.Single).make(0)
    assert all(type(one) is str for one in fit(small.Single, single.X, single.Y).predict(single.X))
    layers = Case(small.Layers, n=3).make(0)
    for one, x in zip(fit(small.Layers, layers.X, layers.Y).predict(layers.X), layers.X):
        assert set(one) == {"a", "b", "c"}
        assert one["a"].shape == one["b"].shape == (len(x),)
        assert isinstance(one["c"], int)


def test_grids_keep_their_shape():
    class Grid(Model):
        H, W = Dim(), Dim()
        x = Input(H, W, 2)
        y = Label(H, W, 2)
        data = Factor(y, features=x)
        row = Factor(pairs(y, W))
        loss = Hamming(y)

    rng = np.random.default_rng(0)
    images = [rng.normal(size=(h, w, 2)) for h, w in [(2, 3), (1, 4), (3, 1)]]
    svm = fit(Grid, images, [(image[..., 0] > 0).astype(int) for image in images])
    assert [one.shape for one in svm.predict(images)] == [(2, 3), (1, 4), (3, 1)]
    assert [one.shape for one in svm.predict_marginals(images)] == [(2, 3, 2), (1, 4, 2), (3, 1, 2)]


def test_kbest_gives_fewer_where_there_are_fewer():
    ranked = trained().predict_kbest([np.zeros((1, 5)), X[0]], 7)
    assert len(ranked[0]) == 3
    assert len(ranked[1]) == 7


@pytest.mark.sensitive
def test_what_is_learnt_is_worth_something():
    rest, _ = make_chains(n=1, n_states=3, n_features=5, random_state=3)
    assert trained().score(X, Y) > 0.75
    assert trained().score(X, Y) == pytest.approx(share_right(trained().predict(X), Y))
    assert len(rest) == 1


def share_right(predicted, truth) -> float:
    return float(np.concatenate([a == b for a, b in zip(predicted, truth)]).mean())


# -- score -----------------------------------------------------------------------------------------------------


class Prices(Sequence):
    loss = Cost(Sequence.y, [[0, 1, 4], [2, 0, 1], [1, 1, 0]])


class Whole(Sequence):
    loss = 3.0 * ZeroOne(Sequence.y)


class Share(Sequence):
    loss = Hamming(Sequence.y, normalize=True)


class Partly(Sequence):
    loss = Hamming(Sequence.y, weights=[1, 2, 3], ignore="?")


def test_score_is_one_minus_the_share_of_the_largest_loss():
    rng = np.random.default_rng(0)
    weight = rng.random(60)
    masks = [rng.random(len(y)) < 0.3 for y in Y]
    hidden = [np.where(mask, "?", y) for mask, y in zip(masks, Y)]
    index = {"sun": 0, "rain": 1, "snow": 2}
    matrix, price = Prices.loss.prices(), np.array([1, 2, 3])
    states = [np.array([index[name] for name in y]) for y in Y]
    for model in (Sequence, Prices, Whole, Share, Partly):
        truth = hidden if model is Partly else Y
        svm = fit(model, X, truth, max_passes=5)
        found = [np.array([index[name] for name in y]) for y in svm.predict(X)]
        if model is Prices:
            lost, most = zip(*[(matrix[a, b].sum(), matrix[a].max(axis=1).sum()) for a, b in zip(states, found)])
        elif model is Whole:
            lost, most = zip(*[(3.0 * (a != b).any(), 3.0) for a, b in zip(states, found)])
        elif model is Share:
            lost, most = zip(*[((a != b).mean(), 1.0) for a, b in zip(states, found)])
        elif model is Partly:
            lost, most = zip(
                *[((price[a] * (a != b))[~m].sum(), price[a][~m].sum()) for a, b, m in zip(states, found, masks)]
            )
        else:
            lost, most = zip(*[((a != b).sum(), len(a)) for a, b in zip(states, found)])
        assert svm.score(X, truth) == pytest.approx(1 - np.sum(lost) / np.sum(most)), model.__name__
        expected = 1 - np.dot(weight, lost) / np.dot(weight, most)
        assert svm.score(X, truth, sample_weight=weight) == pytest.approx(expected), model.__name__
    assert trained().score(X, trained().predict(X)) == 1.0
