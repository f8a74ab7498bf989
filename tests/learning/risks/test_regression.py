"""Structured regression: risks by loops, the optimum of the quadratic program, scikit-learn's regression, the API."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import LinearSVR
from test_objective import in_blocks

import naive
import small
from combinations import crossed
from optima import Reference
from small import Case, Data, Word
from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredRegressor, StructuredSVM, chain
from ssvm_dsl.errors import DataError, FileFormatError, OptionError, TrainingError
from ssvm_dsl.inference.threads import Threads
from ssvm_dsl.learning.risks.kinds import regression_risk

EPSILON = (0.3, 0.1)

CASES = [
    Case(Word),
    Case(Word, C=0.3, weighted=True, regularization={"trans": 0.3}, tag="-weighted"),
    Case(small.Tree, ragged=(1, 4), n=4),
    Case(small.Loopy),
    Case(small.Single, n=8),
    Case(small.Layers, ragged=(1, 2), n=4),
    Case(small.Ties),
    Case(small.Bounded, C=3.0),
    Case(small.Tokens),
    Case(small.Joint),
]

each_case = pytest.mark.parametrize("case", CASES, ids=str)


def values_of(data: Data) -> np.ndarray:
    return np.random.default_rng(len(data.X)).normal(scale=2.0, size=len(data.X))


def joint(data: Data) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Joint features of the truth and of all labellings, by loops."""
    declaration, of_truth = data.case.model.declaration, []
    for x, y in zip(data.inputs, data.labels, strict=True):
        of_truth.append(naive.joint_features(declaration, x, y, data.grounded.fitted, data.shapes))
    return of_truth, [one - psi for one, (_, psi) in zip(of_truth, data.planes, strict=True)]


def reference(data: Data, power: float = 1.0) -> Reference:
    """The objective by all labellings."""
    return Reference(data, "regression", power, values_of(data), EPSILON)


def fit(data: Data, values=None, **options) -> StructuredRegressor:
    case = data.case
    settings = {"C": case.C, "regularization": case.regularization, "n_threads": 1, "epsilon": EPSILON, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = StructuredRegressor(case.model, **settings)
        return made.fit(data.X, values_of(data) if values is None else values, data.Y, data.weight)


def check(data: Data, reg: StructuredRegressor, best: float, power: int = 1) -> None:
    """The report holds the objective of the weights, by loops, and true bounds of the optimum."""
    w = data.flat(reg.weights_)
    primal = reference(data, power).objective(w)[0]
    assert reg.report_.primal == pytest.approx(primal, rel=1e-9, abs=1e-9)
    assert reg.report_.dual - 1e-7 * max(1.0, best) <= best <= primal + 1e-7 * max(1.0, best)
    assert reg.report_.certified
    assert (w[data.nonneg] >= 0).all()


# -- the risk ---------------------------------------------------------------------------------------------------


@each_case
def test_risks_and_subgradients_are_those_of_equation_13(case):
    data, rng = case.make(1), np.random.default_rng(0)
    values, plain = values_of(data), data.problem()
    made = regression_risk(values, EPSILON)
    problem = made.problem(plain.parameters, plain.loss, plain.objective, plain.session, Threads(1))
    of_truth, every = joint(data)
    for size in (0.0, 0.5, 5.0):
        flat = size * rng.normal(size=problem.dim)
        psi = np.array([max(0.0, (one @ flat).max() - v - 0.1) for one, v in zip(every, values)])
        phi = np.array([max(0.0, v - one @ flat - 0.3) for one, v in zip(of_truth, values)])
        for ids in (None, np.array([2, 0])):
            found = problem.gradient(in_blocks(data, flat), ids)
            chosen = slice(None) if ids is None else ids
            np.testing.assert_allclose(found.value, (psi + phi)[chosen], rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(found.bound, found.value, rtol=1e-12)
            if size:  # at 0 several labellings are best
                best = np.array([one[np.argmax(one @ flat)] for one in every])
                rows = best * (psi > 0)[:, None] - np.array(of_truth) * (phi > 0)[:, None]
                expected = problem.objective.weight[chosen] @ rows[chosen]
                np.testing.assert_allclose(found.vector, in_blocks(data, expected), atol=1e-9)


def test_a_heuristic_never_misses_the_labelling_that_is_known():
    data = Case(small.Loopy, n=6).make(0)
    plain, values = data.problem(backend="icm"), values_of(data)
    problem = regression_risk(values, EPSILON).problem(
        plain.parameters, plain.loss, plain.objective, plain.session, Threads(1)
    )
    w = np.random.default_rng(1).normal(size=problem.dim)
    found = problem.gradient(w)
    given = plain.parameters.dot(w, plain.truth)
    assert (found.value >= np.maximum(given - values - 0.1, 0.0) - 1e-12).all()
    assert np.isnan(found.bound).all()
    assert np.isnan(problem.tightness(w))


def test_bounds_of_relaxations_certify():
    data = Case(small.Loopy, n=6, C=0.5).make(0)
    best = reference(data).optimum()[1]
    report = fit(data, backend="trws", guarantee="bound", tol=1e-6, max_passes=200).report_
    assert report.certified
    assert report.dual - 1e-7 <= best <= report.primal + report.inference_gap + 1e-7
    assert 0.0 <= report.tightness <= 1.0


# -- the optimum ------------------------------------------------------------------------------------------------


@crossed(case=CASES, power=[1, 2])
def test_the_optimum_is_that_of_the_quadratic_program_over_all_labellings(case, power):
    data = case.make(0)
    _, best, w = reference(data, power).optimum()
    reg = fit(data, power=power, tol=1e-7, max_passes=2000)
    check(data, reg, best, power)
    assert reg.report_.converged
    assert reg.report_.primal <= best + 1e-6 * max(best, 0.1)
    distance = np.sqrt(np.sum(data.scale * (data.flat(reg.weights_) - w) ** 2))
    assert distance <= 2 * np.sqrt(2 * (reg.report_.gap + 1e-8 * max(best, 1.0))) + 1e-5


@pytest.mark.parametrize("trainer", ["subgradient", "adam"])
def test_other_trainers_come_close_with_true_bounds(trainer):
    data = Case(Word, n=7).make(0)
    best = reference(data).optimum()[1]
    options = {"adam": {"step_size": 0.05, "batch_size": 2}}.get(trainer, {})
    reg = fit(data, trainer=trainer, tol=0.0, max_passes=300, random_state=0, trainer_options=options)
    check(data, reg, best)
    assert reg.report_.primal <= 1.05 * best


class Line(Model):
    """One labelling: plain linear regression."""

    x = Input(4)
    y = Label(1)
    score = Factor(y, features=x)


@crossed(C=[0.01, 1.0, 10.0], power=[1, 2])
def test_with_one_labelling_it_is_support_vector_regression(C, power):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    v, weight = X @ [1.0, 2.0, -1.0, 0.5] + 0.3 * rng.normal(size=50), rng.random(50)
    reg = StructuredRegressor(Line, epsilon=0.2, C=C, power=power, tol=1e-9, max_passes=2000)
    reg.fit(list(X), v, [0] * 50, sample_weight=weight)
    loss = {1: "epsilon_insensitive", 2: "squared_epsilon_insensitive"}[power]
    other = LinearSVR(epsilon=0.2, C=C, fit_intercept=False, tol=1e-10, max_iter=10**6, loss=loss)
    other.fit(X, v, sample_weight=weight)
    np.testing.assert_allclose(reg.coef_, other.coef_, atol=1e-4)
    np.testing.assert_allclose(reg.predict(list(X)), other.predict(X), atol=1e-3)
    assert reg.score(list(X), v) == pytest.approx(other.score(X, v), abs=1e-4)


# -- as an estimator ----------------------------------------------------------------------------------------------


class Route(Model):
    """Stages on the way, each taken in one of two ways, whose worths add up; ``z`` goes into the value alone."""

    T = Dim()
    x = Input(T, 3)
    z = Input(2)
    y = Label(T, ["low", "high"])
    one = Label(1)
    step = Factor(y, features=x)
    turn = Factor(chain(y))
    fee = Factor(one, features=z)
    loss = Hamming(y)


def routes(n: int, seed: int, noise: float = 0.0):
    """Examples whose values are scores of best labellings of a known model."""
    rng, w = np.random.default_rng(seed), np.random.default_rng(99).normal(size=12)
    X = [{"x": rng.normal(size=(rng.integers(2, 6), 3)), "z": rng.normal(size=2)} for _ in range(n)]
    known = StructuredRegressor(Route, max_passes=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known.fit(X, np.zeros(n), [{"y": ["low"] * len(one["x"]), "one": 0} for one in X])
    known.coef_[:] = w[: len(known.coef_)]
    return X, known.predict(X) + noise * rng.normal(size=n), known.predict_labels(X)


X, VALUES, Y = routes(80, 0)
X_NEW, VALUES_NEW, Y_NEW = routes(40, 1)
REG = StructuredRegressor(Route, epsilon=0.01, C=10.0).fit(X, VALUES, Y)


@pytest.mark.sensitive
def test_values_of_a_model_are_learnt_from_its_labellings():
    assert REG.report_.converged
    assert REG.score(X_NEW, VALUES_NEW) > 0.99
    right = [np.mean(a["y"] == b["y"]) for a, b in zip(REG.predict_labels(X_NEW), Y_NEW)]
    assert np.mean(right) > 0.95
    np.testing.assert_array_equal(REG.predict(X_NEW), REG.best_score(X_NEW))
    assert REG.score(X_NEW, VALUES_NEW) == r2_score(VALUES_NEW, REG.predict(X_NEW))
    weight = np.arange(40.0)
    assert REG.score(X_NEW, VALUES_NEW, weight) == r2_score(VALUES_NEW, REG.predict(X_NEW), sample_weight=weight)


@pytest.mark.sensitive
def test_scikit_learn_takes_it():
    assert is_regressor(REG)
    same = clone(REG)
    assert same.get_params() == REG.get_params()
    assert not hasattr(same, "coef_")
    np.testing.assert_array_equal(same.fit(X, VALUES, Y).coef_, REG.coef_)
    grid = {"C": [1e-3, 1.0], "epsilon": [0.01, (0.1, 0.2)]}
    search = GridSearchCV(clone(REG), grid, cv=2, error_score="raise").fit(X, VALUES, Y=Y)
    assert search.best_params_["C"] == 1.0
    assert search.score(X_NEW, VALUES_NEW) > 0.9
    by_hand = clone(REG).set_params(**search.best_params_).fit(X[40:], VALUES[40:], Y[40:]).score(X[:40], VALUES[:40])
    assert search.cv_results_["split0_test_score"][search.best_index_] == pytest.approx(by_hand)
    scores = cross_val_score(clone(REG), X, VALUES, cv=2, params={"Y": Y})
    assert (scores > 0.9).all()


def test_files_hold_it(tmp_path):
    REG.save(tmp_path / "reg.ssvm")
    again = StructuredRegressor.load(tmp_path / "reg.ssvm")
    np.testing.assert_array_equal(again.predict(X_NEW), REG.predict(X_NEW))
    assert again.report_.summary() == REG.report_.summary()
    assert again.epsilon == 0.01
    with pytest.raises(FileFormatError, match="unknown parameters epsilon of StructuredSVM; a file is loaded by"):
        StructuredSVM.load(tmp_path / "reg.ssvm")


@pytest.mark.sensitive
def test_examples_held_out_end_training():
    options = {"epsilon": 0.0, "C": 100.0, "tol": 0.0, "patience": 1, "max_passes": 400}
    reg = StructuredRegressor(Route, **options).fit(X, VALUES, Y, validation=(X_NEW, VALUES_NEW))
    assert reg.report_.reason == "validation"
    assert reg.score(X_NEW, VALUES_NEW) > 0.9


@pytest.mark.sensitive
def test_streams():
    steps = {"schedule": "1/sqrt(t)", "step_size": 0.1}
    reg = StructuredRegressor(Route, trainer="subgradient", lam=1e-3, random_state=0, trainer_options=steps)
    for lo in range(0, 80, 20):
        reg.partial_fit(X[lo : lo + 20], VALUES[lo : lo + 20], Y[lo : lo + 20])
    assert reg.report_.reason == "stream"
    assert reg.score(X_NEW, VALUES_NEW) > 0.5


def test_a_checkpoint_of_other_values_is_refused(tmp_path):
    file = str(tmp_path / "fit.ckpt")

    def begun(values, passes=3, epsilon=0.1):
        reg = StructuredRegressor(
            Route, epsilon=epsilon, trainer="subgradient", random_state=0, tol=1e-9, max_passes=passes,
            checkpoint=file, checkpoint_seconds=0.0,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return reg.fit(X, values, Y)

    begun(VALUES)
    for values, epsilon in ((VALUES + 1.0, 0.1), (VALUES, 0.2)):
        with pytest.raises(TrainingError, match="checkpoint of another fit"):
            begun(values, epsilon=epsilon)
    assert begun(VALUES, passes=6).report_.n_passes > 3


WRONG = [
    (lambda: REG.fit(X, VALUES), DataError, r"Y: expected a list with the labelling of each example, found None"),
    (lambda: REG.fit(X, VALUES[:-1], Y), DataError, r"values: expected 80 numbers.*found shape \(79,\)"),
    (lambda: REG.fit(X, ["much"] * 80, Y), DataError, "values, example 0: expected a finite number, found 'much'"),
    (lambda: REG.fit(X, "much", Y), DataError, "values: expected 80 numbers.*'much'"),
    (lambda: REG.fit(X, None, Y), DataError, "values: expected 80 numbers.*found None"),
    (lambda: REG.fit([], [], []), DataError, "X: expected at least one example"),
    (lambda: REG.fit(X, [{"y": y} for y in Y], VALUES), DataError, r"(?s)values, example 0: .*fit\(X, values, Y\)"),
    (lambda: REG.score(X, ["much"] * 80), DataError, "values, example 0: expected a finite number, found 'much'"),
    (lambda: REG.fit(X, np.append(VALUES[:-1], np.nan), Y), DataError, "values, example 79: expected a finite.*nan"),
    (lambda: StructuredRegressor(Route, epsilon=-1.0).fit(X, VALUES, Y), OptionError, "epsilon must be.*-1"),
    (lambda: StructuredRegressor(Route, epsilon=(1, 2, 3)).fit(X, VALUES, Y), OptionError, "or two of them"),
    (lambda: StructuredRegressor(Route, C=0).fit(X, VALUES, Y), OptionError, "C must be a positive number"),
    (
        lambda: StructuredRegressor(Route, trainer="bcfw").fit(X, VALUES, Y),
        *(TrainingError, "'bcfw' does not minimise risk 'regression'; these do: bundle, adam, subgradient"),
    ),
    (lambda: StructuredSVM(Route, risk="regression").fit(X, Y), OptionError, "needs values to fit; use StructuredReg"),
    (lambda: StructuredRegressor(Route).predict(X), NotFittedError, "this StructuredRegressor is not fitted yet"),
]


@pytest.mark.parametrize(("call", "error", "text"), WRONG, ids=[text[:30] for *_, text in WRONG])
def test_mistakes_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_labellings_must_be_whole():
    data = Case(small.Joint, ignore=9, n=6).make(0)
    i = next(k for k, y in enumerate(data.Y) if (np.asarray(y) == 9).any())
    with pytest.raises(DataError, match=f"Y, example {i}: expected a labelling of all variables, found ignored ones"):
        fit(data)
