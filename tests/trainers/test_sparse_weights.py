"""L1 penalties: the bounds in closed form, optima against other solvers, trainers against each other, small files."""

from __future__ import annotations

import itertools

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

from ssvm_dsl import (
    Attributes,
    Dim,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    StructuredRegressor,
    StructuredSVM,
    chain,
    complete,
    regularization_path,
)
from ssvm_dsl.errors import FileFormatError, OptionError, TrainingError
from ssvm_dsl.io.arrays_file import read_arrays, write_arrays
from ssvm_dsl.learning.estimators.weights import Weights
from ssvm_dsl.learning.objective import RegularizedRisk, soft_threshold
from ssvm_dsl.models.crfsuite import CRF

N, P, K = 60, 8, 3


class Row(Model):
    x = Input(P)
    y = Label(K)
    score = Factor(y, features=x)
    loss = Hamming(y)


class Positive(Row):
    score = Factor(Row.y, features=Row.x, nonneg=True)
    bias = Factor(Row.y)


class Tagged(Model):
    T = Dim()
    t = Attributes(T)
    y = Label(T, ["a", "b", "c"])
    emit = Factor(y, features=t, weights="observed")
    trans = Factor(chain(y))
    loss = Hamming(y)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(N, P)), np.zeros((K, P))
    W[:, :3] = 2.0 * rng.normal(size=(K, 3))
    return X, np.argmax(X @ W.T + rng.normal(size=(N, K)), axis=1)


@pytest.fixture(scope="module")
def tagged():
    rng = np.random.default_rng(1)
    X = [[[f"w{k}" for k in rng.integers(12, size=2)] for _ in range(rng.integers(1, 6))] for _ in range(25)]
    return X, [[("a", "b", "c")[(int(one[0][1:]) + int(rng.random() < 0.2)) % 3] for one in x] for x in X]


def fit(model, X, Y, **options):
    options = {"tol": 1e-6, "max_passes": 2000, "n_threads": 1, "random_state": 0, **options}
    return StructuredSVM(model, **options).fit(list(X), list(Y))


# -- the bounds ------------------------------------------------------------------------------------------------


@st.composite
def planes(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim = draw(st.integers(1, 5))
    lower = np.where(rng.random(dim) < 0.3, 0.0, -np.inf)
    scale = rng.uniform(0.5, 2.0, dim)
    lam = draw(st.sampled_from([0.0, 1e-6, 0.1, 1.0]))
    objective = RegularizedRisk(lam, 1, np.ones(1), scale, lower, l1=draw(st.sampled_from([0.1, 1.0])))
    return objective, rng.normal(size=dim) * draw(st.sampled_from([0.1, 1.0, 10.0])), draw(st.floats(0.01, 10.0)), rng


@settings(max_examples=12, deadline=None)
@given(planes())
def test_bounds_are_those_of_planes_scaled_down(made):
    objective, v, b, rng = made
    found = objective.bound(v, b)
    shares = np.append(np.linspace(0.0, 1.0, 2001), found / b if not objective.lam else 0.5)
    values = [objective.dual(t * (1 - 1e-12) * v, t * b) for t in shares]
    assert max(values) <= found * (1 + 1e-9) + 1e-12  # no t does better
    assert found <= max(values) + 1e-3 * b + 1e-12  # and one does as well, as far as they are dense
    for w in rng.normal(size=(20, len(v))):  # below every objective above the plane and 0
        w = objective.project(w * rng.choice([0.1, 1.0, 10.0]))
        assert found <= objective.regularizer(w) + max(b - v @ w, 0.0) + 1e-12


@settings(max_examples=40, deadline=None)
@given(planes())
def test_weights_attain_the_dual(made):
    objective, v, b, rng = made
    if not objective.lam:
        assert objective.dual(v, b) in (b, -np.inf)
        return
    w = objective.weights(v)
    assert objective.dual(v, b) == pytest.approx(objective.regularizer(w) + b - v @ w, rel=1e-12)
    for other in w + rng.normal(size=(20, len(v))) * np.abs(w).max(initial=0.1):
        other = objective.project(other)
        assert objective.regularizer(other) - v @ other >= objective.regularizer(w) - v @ w - 1e-9
    assert ((w == 0.0) == (soft_threshold(v, objective.l1 * objective.scale) == 0.0))[objective.lower < 0].all()


# -- optima of other solvers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("lam", "l1"), [(0.0, 0.03), (0.02, 0.03), (0.001, 0.05)])
def test_log_loss_against_scikit_learn(rows, lam, l1):
    X, Y = rows
    strength = {"C": 1.0 / (N * (lam + l1)), "l1_ratio": l1 / (lam + l1)}
    peer = LogisticRegression(solver="saga", fit_intercept=False, tol=1e-10, max_iter=50_000, **strength).fit(X, Y)
    svm = fit(Row, X, Y, risk="log", trainer="lbfgs", lam=lam, l1=l1)
    scores = X @ peer.coef_.T
    mean = np.mean(logsumexp(scores, axis=1) - scores[np.arange(N), Y])
    best = mean + 0.5 * lam * np.sum(peer.coef_**2) + l1 * np.abs(peer.coef_).sum()
    assert svm.report_.certified
    assert svm.report_.dual <= best + 1e-9
    assert svm.report_.primal == pytest.approx(best, rel=1e-5)
    assert svm.report_.n_nonzero == np.count_nonzero(svm.coef_) == np.count_nonzero(peer.coef_)
    np.testing.assert_allclose(svm.weights_["score"], peer.coef_, atol=5e-3)


def margin_optimum(X, Y, lam, l1):
    """The least elastic-net objective of the multiclass hinge: a program over parts of weights and slacks."""
    d = K * P
    rows, right = [], []
    for i in range(N):
        for k in set(range(K)) - {Y[i]}:
            psi = np.zeros((K, P))
            psi[Y[i]], psi[k] = X[i], -X[i]
            slack = -np.eye(N)[i]
            rows.append(np.concatenate([-psi.ravel(), psi.ravel(), slack]))
            right.append(-1.0)
    A = sparse.vstack([sparse.csc_matrix(np.array(rows)), -sparse.eye(2 * d + N)], format="csc")
    square = np.zeros((2 * d + N, 2 * d + N))
    square[: 2 * d, : 2 * d] = lam * np.kron([[1.0, -1.0], [-1.0, 1.0]], np.eye(d))
    linear = np.concatenate([np.full(2 * d, l1), np.full(N, 1.0 / N)])
    options = clarabel.DefaultSettings()
    options.verbose = False
    cones = [clarabel.NonnegativeConeT(A.shape[0])]
    right = np.concatenate([right, np.zeros(2 * d + N)])
    found = clarabel.DefaultSolver(sparse.triu(square, format="csc"), linear, A, right, cones, options).solve()
    return found.obj_val


@pytest.mark.parametrize("trainer", ["bundle", "one-slack", "bcfw"])
def test_margins_against_a_quadratic_program(rows, trainer):
    best = margin_optimum(*rows, 0.02, 0.03)
    report = fit(Row, *rows, trainer=trainer, lam=0.02, l1=0.03).report_
    assert report.certified
    assert report.converged
    assert report.dual - 1e-7 <= best <= report.primal + 1e-7
    assert report.gap <= 2e-6 * report.primal


def test_margins_without_a_square(rows):
    best = margin_optimum(*rows, 0.0, 0.03)
    report = fit(Row, *rows, trainer="subgradient", lam=0.0, l1=0.03, tol=0.2, max_passes=400).report_
    assert report.certified
    assert report.converged
    assert report.dual - 1e-7 <= best <= report.primal + 1e-7


# -- trainers, parametrisations, kinds of weights ------------------------------------------------------------


def test_trainers_agree_on_positive_weights_and_weights_without_penalty(rows):
    X, Y = rows
    weight = np.linspace(0.5, 1.5, N)
    options = {"risk": "log", "lam": 0.02, "l1": 0.03, "regularization": {"bias": 0.1}, "tol": 1e-5}
    options |= {"n_threads": 1, "random_state": 0, "max_passes": 2000}
    made = {name: StructuredSVM(Positive, trainer=name, **options).fit(list(X), list(Y), weight)
            for name in ("lbfgs", "bundle")}  # fmt: skip
    values = [svm.report_.primal for svm in made.values()]
    assert values[0] == pytest.approx(values[1], rel=2e-5)
    for svm in made.values():
        assert svm.report_.certified
        assert (svm.weights_["score"] >= 0).all()
        assert (svm.weights_["score"] == 0).any()
    np.testing.assert_allclose(made["lbfgs"].coef_, made["bundle"].coef_, atol=2e-2)


class Ring(Model):
    """Every pair scored: relaxed inference is fractional."""

    x = Input(4)
    K = Dim(3)
    y = Label(K, 2)
    score = Factor(y, features=x, per=K)
    pair = Factor(complete(y), features=x, per="edge")
    loss = Hamming(y)


@pytest.mark.parametrize("case", ["vectors", "positive", "names", "relaxed"])
def test_block_coordinate_ascent_finds_the_optimum_of_bundles(monkeypatch, rows, tagged, case):
    """Planes as vectors with joint steps; without both; with weights of observed pairs; with fractional planes."""
    (X, Y), options = rows, {"lam": 0.02, "l1": 0.03, "tol": 1e-6}
    if case == "positive":
        monkeypatch.setattr("ssvm_trainers.planes.store.MOST_NUMBERS", 0)
        options |= {"regularization": {"bias": 0.1}, "model": Positive}
    elif case == "names":
        (X, Y), options = tagged, options | {"model": Tagged}
    elif case == "relaxed":
        X, Y = X[:30, :4], [[int(a > 0), int(b > 0.5), int(a + b > c)] for a, b, c in X[:30, 4:7]]
        options |= {"model": Ring, "risk": "relaxed"}
    model = options.pop("model", Row)
    ours, theirs = (fit(model, X, Y, trainer=name, **options).report_ for name in ("bcfw", "bundle"))
    assert ours.certified
    assert ours.relative_gap <= 1e-6
    assert ours.primal == pytest.approx(theirs.primal, rel=2e-6)
    assert ours.n_nonzero <= theirs.n_nonzero + 2 < ours.n_weights


def test_C_and_lam_say_the_same(rows):
    X, Y = rows
    one = fit(Row, X, Y, risk="log", trainer="lbfgs", C=0.5, l1=1.5)
    other = fit(Row, X, Y, risk="log", trainer="lbfgs", lam=1 / (0.5 * N), l1=1.5 / (0.5 * N))
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-4)
    assert one.report_.primal == pytest.approx(other.report_.primal * 0.5 * N, rel=1e-6)
    assert "l1 = 1.5" in str(one.report_)
    assert "of them not 0" in str(one.report_)
    assert one.certified_gap(0.5) == pytest.approx(one.report_.relative_gap, rel=1e-6, abs=1e-12)
    assert np.isnan(one.certified_gap(0.6))


def test_slopes_at_the_optimum_of_chains(tagged):
    """At weights that are not 0 the slope of the smooth part is -l1 sign(w); at others it is within l1."""
    lam, l1 = 0.01, 0.02
    svm = fit(Tagged, *tagged, risk="log", trainer="lbfgs", lam=lam, l1=l1, tol=1e-8)
    w = svm.coef_
    step, slope = 1e-5, np.zeros(len(w))
    smooth = fit_value(*tagged, svm)
    for j in range(len(w)):
        up, down = w.copy(), w.copy()
        up[j], down[j] = w[j] + step, w[j] - step
        slope[j] = (smooth(up) - smooth(down)) / (2 * step)
    slope += lam * w
    assert 0 < np.count_nonzero(w) < len(w)
    np.testing.assert_allclose(slope[w != 0], -l1 * np.sign(w[w != 0]), atol=2e-5)
    assert (np.abs(slope[w == 0]) <= l1 + 2e-5).all()


def fit_value(X, Y, svm):
    """The mean log-loss at weights, over all labellings of these short chains."""
    place = {name: k for k, name in enumerate(svm.weights_.names("emit")[1])}

    def smooth(w):
        at = Weights(w, svm.fitted_.blocks, svm.model.declaration, svm.fitted_.learnt)
        table, trans = np.asarray(sparse.csr_array(at["emit"]).todense()), at["trans"]
        total = 0.0
        for x, y in zip(X, Y, strict=True):
            node = np.array([sum(table[:, place[name]] for name in token) for token in x])

            def score(labels, node=node):
                pairs = sum(trans[a, b] for a, b in itertools.pairwise(labels))
                return sum(node[t, k] for t, k in enumerate(labels)) + pairs

            every = logsumexp([score(labels) for labels in itertools.product(range(3), repeat=len(x))])
            total += every - score(["abc".index(one) for one in y])
        return total / len(X)

    return smooth


# -- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"trainer": "n-slack", "l1": 0.1}, "'n-slack' takes no L1 penalty.*these do: .*bundle"),
        ({"trainer": "adam", "l1": 0.1}, "'adam' takes no L1 penalty"),
        ({"trainer": "bundle", "lam": 0.0, "l1": 0.1}, "'bundle' needs lam above 0 beside l1.*subgradient"),
        ({"trainer": "bcfw", "lam": 0.0, "l1": 0.1}, "'bcfw' needs lam above 0 beside l1.*subgradient"),
        ({"trainer": "bundle", "lam": 0.0, "l1": 0.1, "risk": "log"}, "to one that does not: .*lbfgs"),
    ],
)
def test_refusals_of_trainers(rows, options, text):
    with pytest.raises(TrainingError, match=text):
        fit(Row, *rows, **options)


@pytest.mark.parametrize("l1", [-1.0, np.inf, np.nan, "x", None, True])
def test_refusals_of_strengths(rows, l1):
    with pytest.raises(OptionError, match="l1 must be a non-negative number"):
        fit(Row, *rows, l1=l1)


def test_other_refusals(rows):
    X, Y = rows
    with pytest.raises(OptionError, match="lam must be a positive number"):
        fit(Row, X, Y, lam=0.0)
    with pytest.raises(OptionError, match="with an L1 penalty certificates hold for one C"):
        regularization_path(StructuredSVM(Row, l1=0.1), X, Y, 0.1, 1.0)


def test_a_huge_penalty_leaves_nothing(rows):
    for options in ({"lam": 0.0}, {"lam": 1e-8}, {}):
        svm = fit(Row, *rows, risk="log", trainer="lbfgs", l1=1e6, **options)
        assert not svm.coef_.any()
        assert svm.report_.relative_gap <= 1e-9
        assert svm.report_.converged


def test_values_of_examples(rows):
    X, Y = rows
    values = X[:, 0] - 0.5 * X[:, 1]
    dense = StructuredRegressor(Row, lam=0.01, tol=1e-4, n_threads=1).fit(list(X), values, list(Y))
    thin = StructuredRegressor(Row, lam=0.01, l1=0.05, tol=1e-4, n_threads=1).fit(list(X), values, list(Y))
    assert thin.report_.certified
    assert np.count_nonzero(thin.coef_) < np.count_nonzero(dense.coef_)


# -- files -------------------------------------------------------------------------------------------------------


def test_files_hold_the_weights_that_are_not_0(tagged, tmp_path):
    X, Y = tagged
    svm = fit(Tagged, X, Y, risk="log", trainer="lbfgs", lam=0.0, l1=0.1, tol=1e-3)
    assert 2 * np.count_nonzero(svm.coef_) < len(svm.coef_)
    svm.save(tmp_path / "thin.ssvm")
    again = StructuredSVM.load(tmp_path / "thin.ssvm")
    np.testing.assert_array_equal(again.coef_, svm.coef_)
    assert again.report_.n_nonzero == svm.report_.n_nonzero
    assert again.l1 == 0.1
    assert [list(one) for one in again.predict(X)] == [list(one) for one in svm.predict(X)]
    content, arrays = read_arrays(tmp_path / "thin.ssvm", "a saved model")
    assert "coef" not in arrays
    for places in (arrays["coef_places"][::-1], arrays["coef_places"] + len(svm.coef_), arrays["coef_places"][:-1]):
        write_arrays(tmp_path / "bad.ssvm", content, arrays | {"coef_places": np.ascontiguousarray(places)})
        with pytest.raises(FileFormatError, match="expected places"):
            StructuredSVM.load(tmp_path / "bad.ssvm")


# -- CRFsuite ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("c1", "c2"), [(1.0, 0.0), (0.5, 0.1), (1.0, 0.001)])
def test_crfsuite(tagged, c1, c2):
    X, Y = tagged
    crf = CRF(c1=c1, c2=c2, all_possible_transitions=True, epsilon=1e-8, delta=1e-8).fit(X, Y)
    value, n_weights = PEER[c1, c2]
    unit = len(X) if c2 == 0 else 2 * c2
    assert crf.report_.primal * unit == pytest.approx(value, rel=1e-4)
    assert crf.report_.certified
    assert crf.report_.relative_gap <= 1e-2
    assert crf.report_.n_nonzero == pytest.approx(n_weights, rel=0.02, abs=1)
    assert len(crf.state_features_) + len(crf.transition_features_) == crf.report_.n_nonzero


#: What python-crfsuite 0.9.12 reaches on the same data with epsilon=1e-9, delta=1e-12, feature.possible_transitions:
#: its objective, and its weights that are not 0, by (c1, c2).
PEER = {(1.0, 0.0): (61.022004, 19), (0.5, 0.1): (54.420093, 28), (1.0, 0.001): (61.041168, 19)}
