"""One-label models and chains against the linear models of scikit-learn and CRFsuite.

Conventions.  scikit-learn minimises ``1/2 |w|^2 + C sum_i risk_i``, as we do.  A factor on one of two classes has the
one weight vector of a binary classifier; a factor on both has w_0 = -w_1 = -w/2 at the optimum, so that |w|^2 counts
half and C does, too.  CRFsuite minimises ``c2 |w|^2 + sum_i risk_i``: C = 1 / (2 c2), and its objective is 1/C of ours.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from optima import least_over_planes
from small import Case, Single
from ssvm_dsl import Attributes, Cost, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, ZeroOne, chain
from ssvm_dsl.errors import TrainingError

C = 0.7
TIGHT = {"tol": 1e-9, "max_passes": 20000, "n_threads": 1, "random_state": 0}
LIBLINEAR = {"fit_intercept": False, "C": C, "tol": 1e-10, "max_iter": 1_000_000, "random_state": 0}


class Binary(Model):
    """One weight vector: the score of the second class."""

    x = Input(4)
    y = Label(["no", "yes"])
    score = Factor(y.is_("yes"), features=x)
    loss = Hamming(y)


class TwoVectors(Model):
    x = Input(4)
    y = Label(["no", "yes"])
    score = Factor(y, features=x)
    loss = Hamming(y)


class Many(Model):
    x = Input(4)
    y = Label(["a", "b", "c", "d"])
    score = Factor(y, features=x)
    loss = Hamming(y)


class ManyZeroOne(Many):
    loss = ZeroOne(Many.y)


@pytest.fixture(scope="module")
def binary():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    Y = np.where(X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=60) > 0, "yes", "no")
    return X, Y


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 4))
    Y = np.array(list("abcd"))[np.argmax(X + rng.normal(size=X.shape), axis=1)]
    return X, Y


def fit(model, X, Y, **options) -> StructuredSVM:
    svm = StructuredSVM(model, **{"C": C, **TIGHT, **options}).fit(list(X), list(Y))
    assert svm.report_.relative_gap <= 1e-8
    return svm


def signs(Y) -> np.ndarray:
    return np.where(Y == "yes", 1.0, -1.0)


@pytest.mark.parametrize("risk", ["margin", "hm", "weston-watkins"])
def test_binary_hinge(binary, risk):
    X, Y = binary
    peer = LinearSVC(loss="hinge", **LIBLINEAR).fit(X, Y).coef_[0]
    trainer = {"trainer": "bundle"} if risk == "weston-watkins" else {}
    svm = fit(Binary, X, Y, risk=risk, **trainer)
    np.testing.assert_allclose(svm.weights_["score"].ravel(), peer, atol=1e-4)
    value = 0.5 * peer @ peer + C * np.maximum(0.0, 1.0 - signs(Y) * (X @ peer)).sum()
    assert svm.report_.primal == pytest.approx(value, rel=1e-4)
    both = fit(TwoVectors, X, Y, C=C / 2, risk=risk, **trainer).weights_["score"]
    np.testing.assert_allclose(both[1] - both[0], peer, atol=1e-4)


def test_squared_hinge(binary):
    X, Y = binary
    peer = LinearSVC(loss="squared_hinge", **LIBLINEAR).fit(X, Y).coef_[0]
    svm = fit(Binary, X, Y, power=2.0, trainer="bundle")
    np.testing.assert_allclose(svm.weights_["score"].ravel(), peer, atol=1e-4)
    value = 0.5 * peer @ peer + C * (np.maximum(0.0, 1.0 - signs(Y) * (X @ peer)) ** 2).sum()
    assert svm.report_.primal == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("model", [Many, ManyZeroOne])
def test_crammer_singer(many, model):
    X, Y = many
    peer = LinearSVC(multi_class="crammer_singer", **LIBLINEAR).fit(X, Y)
    svm = fit(model, X, Y)
    np.testing.assert_allclose(svm.weights_["score"], peer.coef_, atol=1e-4)
    scores, truth = X @ peer.coef_.T, np.searchsorted(peer.classes_, Y)
    margins = scores + 1.0 - np.eye(4)[truth]
    value = 0.5 * np.sum(peer.coef_**2) + C * np.sum(margins.max(axis=1) - scores[np.arange(len(Y)), truth])
    assert svm.report_.primal == pytest.approx(value, rel=1e-4)
    predicted = np.searchsorted(peer.classes_, svm.predict(list(X)))
    assert (scores[np.arange(len(Y)), predicted] >= scores.max(axis=1) - 1e-3).all()  # the same class, or a tie


def test_binary_logistic_regression(binary):
    X, Y = binary
    peer = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10000).fit(X, Y)
    svm = fit(Binary, X, Y, risk="log", trainer="lbfgs")
    np.testing.assert_allclose(svm.weights_["score"].ravel(), peer.coef_[0], atol=1e-4)
    value = 0.5 * np.sum(peer.coef_**2) - C * np.log(expit(signs(Y) * (X @ peer.coef_[0]))).sum()
    assert svm.report_.primal == pytest.approx(value, rel=1e-4)
    marginals = np.array([np.ravel(p) for p in svm.predict_marginals(list(X))])
    np.testing.assert_allclose(marginals, peer.predict_proba(X), atol=1e-4)


def test_multinomial_logistic_regression(many):
    X, Y = many
    peer = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10000).fit(X, Y)
    svm = fit(Many, X, Y, risk="log", trainer="lbfgs")
    np.testing.assert_allclose(svm.weights_["score"], peer.coef_, atol=1e-4)
    np.testing.assert_allclose([np.ravel(p) for p in svm.predict_marginals(list(X))], peer.predict_proba(X), atol=1e-4)


class Tagged(Model):
    T = Dim()
    t = Attributes(T)
    y = Label(T, ["a", "b", "c"])
    emit = Factor(y, features=t)
    trans = Factor(chain(y))
    loss = Hamming(y)


class Observed(Tagged):
    emit = Factor(Tagged.y, features=Tagged.t, weights="observed")


@pytest.mark.parametrize(("model", "c2"), [(Tagged, 0.1), (Tagged, 2.0), (Observed, 0.1), (Observed, 2.0)])
def test_the_log_loss_of_chains_is_the_objective_of_crfsuite(model, c2, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 7, 30)
    X = [[[f"f{k}" for k in np.flatnonzero(rng.random(6) < 0.5)] or ["f0"] for _ in range(n)] for n in lengths]
    X = [[[*token, f"rare{rng.integers(40)}"] for token in x] for x in X]
    Y = [[("a", "b", "c")[(len(token) + int(rng.integers(2))) % 3] for token in x] for x in X]
    peer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for x, y in zip(X, Y):
        peer.append(x, y)
    wide = {"feature.possible_states": model is Tagged, "feature.possible_transitions": True}
    peer.set_params({"c1": 0.0, "c2": c2, "max_iterations": 5000, "epsilon": 1e-9, "delta": 1e-12, **wide})
    peer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    theirs = tagger.info()
    svm = StructuredSVM(model, C=1 / (2 * c2), risk="log", trainer="lbfgs", **TIGHT).fit(X, Y)
    assert svm.report_.primal * 2 * c2 == pytest.approx(peer.logparser.last_iteration["loss"], rel=1e-4)
    trans = [[theirs.transitions.get((a, b), 0.0) for b in "abc"] for a in "abc"]
    np.testing.assert_allclose(svm.weights_["trans"], trans, atol=2e-3)
    if model is Observed:
        stored = {(one.feature, one.states[0]) for one in svm.weights_.top("emit", k=None)}
        assert stored == set(theirs.state_features)
    for x in X[:5]:
        tagger.set(x)
        (probabilities,) = svm.predict_marginals([x])
        expected = [[tagger.marginal(label, t) for label in "abc"] for t in range(len(x))]
        np.testing.assert_allclose(probabilities, expected, atol=1e-3)


# -- sums of hinges over wrong classes --------------------------------------------------------------------------


class Priced(Single):
    loss = Cost(Single.y, [[0, 1, 2, 1], [3, 0, 1, 1], [1, 1, 0, 0.5], [2, 2, 2, 0]])


@pytest.mark.parametrize("model", [Single, Priced])
def test_weston_watkins_against_a_quadratic_program(model):
    data = Case(model, n=10, C=0.8, weighted=True).make(0)
    pairs, weight = [], []
    for (losses, psi), share in zip(data.planes, data.weight):
        for price, row in zip(losses, psi):  # a hinge of its own for every class (that of the truth is zero)
            pairs.append((np.array([0.0, price]), np.stack([np.zeros_like(row), row])))
            weight.append(share)
    best, w_best = least_over_planes(pairs, 0.8, weight)
    svm = StructuredSVM(model, **{**TIGHT, "C": 0.8, "tol": 1e-7}, risk="weston-watkins", trainer="bundle")
    svm.fit(data.X, data.Y, data.weight)
    assert svm.report_.dual - 1e-7 * best <= best <= svm.report_.primal + 1e-7 * best
    assert svm.report_.primal <= best * (1 + 1e-6)
    np.testing.assert_allclose(data.flat(svm.weights_), w_best, atol=1e-3)


def test_the_smooth_hinge_is_smooth_and_minimised():
    data = Case(Single, n=10, C=0.8).make(0)
    svm = StructuredSVM(Single, **{**TIGHT, "C": 0.8}, risk="smooth-hinge", trainer="lbfgs").fit(data.X, data.Y)
    w, eye = data.flat(svm.weights_), np.eye(len(data.nonneg))

    def objective(w):
        above = np.concatenate([losses - psi @ w for losses, psi in data.planes])
        return 0.5 * w @ w + 0.8 * np.where(above > 1, above - 0.5, 0.5 * np.clip(above, 0, 1) ** 2).sum()

    assert svm.report_.converged
    assert svm.report_.primal == pytest.approx(objective(w), rel=1e-12)
    slopes = [(objective(w + 1e-5 * e) - objective(w - 1e-5 * e)) / 2e-5 for e in eye]
    np.testing.assert_allclose(slopes, 0.0, atol=1e-3)


@pytest.mark.parametrize("trainer", ["lbfgs", "bundle", "svrg"])
@pytest.mark.parametrize("model", [Single, Priced])
def test_squared_hinges_against_scipy(model, trainer):
    """Footnote 2 of Schmidt (2009): a squared slack for each wrong class."""
    data = Case(model, n=10, C=0.8, weighted=True).make(0)

    def objective(w):
        above = [np.maximum(losses - psi @ w, 0.0) for losses, psi in data.planes]  # that of the truth is zero
        return 0.5 * w @ w + 0.8 * sum(share * (z**2).sum() for z, share in zip(above, data.weight))

    best = minimize(objective, np.zeros(len(data.nonneg)), tol=1e-12)
    settings = {**TIGHT, "C": 0.8, "tol": 1e-6, "max_passes": 5000, "random_state": 0}
    svm = StructuredSVM(model, **settings, risk="squared-weston-watkins", trainer=trainer)
    svm.fit(data.X, data.Y, data.weight)
    w, report = data.flat(svm.weights_), svm.report_
    assert report.converged
    assert report.primal == pytest.approx(objective(w), rel=1e-12)
    assert report.dual <= best.fun * (1.0 + 1e-9)
    assert objective(w) <= best.fun * (1.0 + 2e-6)
    np.testing.assert_allclose(w, best.x, atol=5e-3)


def test_a_power_of_weston_watkins_is_that_of_the_sum():
    data = Case(Single, n=10, C=0.8).make(0)
    settings = {**TIGHT, "C": 0.8, "tol": 1e-4, "max_passes": 5000}
    svm = StructuredSVM(Single, **settings, risk="weston-watkins", power=2, trainer="bundle").fit(data.X, data.Y)
    w = data.flat(svm.weights_)
    sums = np.array([np.maximum(losses - psi @ w, 0.0).sum() for losses, psi in data.planes])
    assert svm.report_.primal == pytest.approx(0.5 * w @ w + 0.8 * (sums**2).sum(), rel=1e-12)


@pytest.mark.parametrize("risk", ["weston-watkins", "smooth-hinge", "squared-weston-watkins"])
def test_sums_over_classes_are_for_one_label(risk):
    others = "these risks take this model: margin, slack, hm, perceptron, relaxed, log, softmax-margin"
    with pytest.raises(TrainingError, match=f"risk '{risk}' is for models of one label .*; {others}"):
        StructuredSVM(Tagged, risk=risk, trainer="subgradient").fit([[["a"], ["b"]]], [["a", "b"]])
    with pytest.raises(TrainingError, match=r"these do: .*subgradient"):
        StructuredSVM(Tagged, risk="weston-watkins", trainer="bcfw").fit([[["a"], ["b"]]], [["a", "b"]])
