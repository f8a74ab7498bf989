"""Steps of (sub)gradient trainers: powers of risks, the weights at the start, and certificates of huge weights."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from test_every_trainer import fitted
from test_smooth import fitted as fitted_risk
from test_smooth import reference

import small
from combinations import crossed
from model_table import classifier
from optima import Reference
from small import Case, Word
from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import OptionError, TrainingError

Classes = classifier(5, 3)


CASES = [
    Case(Word, n=8, C=0.05),
    Case(Word, n=8, C=10.0),
    Case(small.Loopy, n=8, C=2.0, weighted=True),
    Case(small.Ties, n=8, C=2.0),
    Case(small.Single, n=8, C=3.0),
    Case(Word, n=8, regularization={"trans": 0.0}, tag="-free"),
]

#: Steps that are much too long for squared risks.
WILD = {"schedule": "1/(lam t)"}


def primal_and_dual(svm):
    return svm.report_.primal, svm.report_.dual


@pytest.mark.parametrize("C", [0.1, 1e3, 1e6])
def test_sums_of_squares_do_not_run_away(C):
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(60, 5)), rng.integers(3, size=60)
    found = {
        name: StructuredSVM(
            Classes, C=C, risk="squared-weston-watkins", trainer=name, tol=1e-3, max_passes=200, random_state=0
        ).fit(X, Y).report_.primal
        for name in ("lbfgs", "subgradient")
    }  # fmt: skip
    assert found["subgradient"] <= 1.3 * found["lbfgs"]


@pytest.mark.sensitive
@crossed(case=CASES, order=["stochastic", "batch"])
def test_squared_risks_come_close_by_default(case, order):
    data = case.make(1)
    best, _ = data.optimum(power=2)
    options = {"order": order, "averaging": "weighted", "evaluate_every": 20}
    passes = 60 if order == "stochastic" else 150
    svm = fitted(data, power=2, trainer="subgradient", tol=0.0, max_passes=passes, trainer_options=options)
    primal, dual = primal_and_dual(svm)
    assert primal == pytest.approx(data.objective(data.flat(svm.weights_), power=2))
    assert dual - 1e-7 <= best <= primal + 1e-7
    assert primal <= 1.1 * best


@pytest.mark.parametrize("risk", ["log", "softmax-margin"])
def test_squared_smooth_risks_come_close_by_default(risk):
    data = Case(Word, n=8, C=3.0).make(1)
    best = reference(data, risk, 2.0)
    svm = fitted_risk(data, risk, power=2.0, trainer="subgradient", tol=0.0, max_passes=60)
    primal, dual = primal_and_dual(svm)
    assert dual <= best + 1e-7
    assert best - 1e-7 <= primal <= 1.05 * best


def test_the_steps_of_squared_risks_are_those_of_the_definition():
    from test_subgradient_steps import iterates

    data = Case(Word, n=6, weighted=True).make(0)
    lam, w, reach, squares = 1.0 / 6, np.zeros(15), 0.0, 0.0
    problem = data.problem(power=2.0)
    for a, (losses, psi) in zip(data.weight, data.planes):
        risk, worst = float((losses - psi @ w).max()), int(np.argmax(losses - psi @ w))
        slope = -2.0 * a * risk * psi[worst]
        if reach == 0.0 and slope.any():
            reach = a * risk**2 / np.linalg.norm(slope)
        grad, reach = slope + lam * w, max(reach, np.linalg.norm(w))
        squares += grad @ grad
        w = w - (reach / np.sqrt(squares) * grad if squares else 0.0)
    found = iterates(problem, 1, None, order="incremental", averaging="none")[0]
    np.testing.assert_allclose(found, w, rtol=1e-9, atol=1e-12)


@crossed(case=CASES[:3], risk=["margin", "hm", "log", "slack"])
def test_long_steps_end_in_the_start_or_in_an_error_of_the_trainer(case, risk):
    data = case.make(2)
    options = {"trainer": "subgradient", "tol": 0.0, "max_passes": 20, "trainer_options": WILD}
    start = StructuredSVM(case.model, C=case.C, power=2, risk=risk, **options, random_state=0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start.fit(data.X, data.Y, sample_weight=data.weight)
    except TrainingError as err:
        told = str(err)
    else:
        told = ""
    if told:
        assert "trainer 'subgradient'" in told
        assert "step_size" in told
        return
    if risk == "log":
        best, at_zero = reference(data, risk, 2.0), Reference(data, risk, 2.0).objective(np.zeros(len(data.scale)))[0]
    elif risk == "margin":
        best, at_zero = data.optimum(risk, 2)[0], data.objective(np.zeros(len(data.scale)), risk, 2)
    else:
        return
    assert start.report_.dual <= best * (1 + 1e-9)
    assert best * (1 - 1e-7) <= start.report_.primal <= at_zero * (1 + 1e-9)


@pytest.mark.parametrize(
    ("trainer", "options"),
    [
        ("subgradient", {"schedule": "constant", "step_size": 30.0}),
        ("subgradient", {"schedule": "constant", "step_size": 30.0, "order": "batch"}),
        ("adam", {"step_size": 1e3}),
    ],
)
def test_nothing_worse_than_the_start_is_returned(trainer, options):
    data = Case(Word, n=6).make(0)
    settings = {"trainer": trainer, "tol": 0.0, "max_passes": 7, "trainer_options": options}
    svm = StructuredSVM(Word, C=1.0, random_state=0, **settings)
    with pytest.warns(ConvergenceWarning, match=f"'{trainer}' met no weights as good as those it started from"):
        svm.fit(data.X, data.Y)
    assert not svm.coef_.any()
    assert svm.report_.primal == pytest.approx(data.objective(np.zeros(15)))
    good = StructuredSVM(Word, C=1.0, tol=1e-6, warm_start=True, random_state=0).fit(data.X, data.Y)
    best = good.report_.primal
    good.set_params(**settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        good.fit(data.X, data.Y)
    assert good.report_.primal == pytest.approx(best, rel=1e-9)


def test_a_start_that_is_surely_worse_costs_no_pass():
    data = Case(Word, n=6).make(0)
    report = fitted(data, trainer="subgradient", tol=0.0, max_passes=400).report_
    assert 4.0 * report.gap <= report.primal
    assert report.n_passes == 400
    batch = fitted(data, trainer="subgradient", tol=0.0, max_passes=3, trainer_options={"order": "batch"}).report_
    assert batch.n_passes == 3 + 1  # two of steps, one for the average after them, one for the start
    newest = {"order": "batch", "averaging": "none"}
    assert fitted(data, trainer="subgradient", tol=0.0, max_passes=3, trainer_options=newest).report_.n_passes == 3


SUMS = ["weston-watkins", "smooth-hinge", "squared-weston-watkins"]


@pytest.mark.parametrize("risk", ["margin", "hm", "perceptron", "slack", "log", *SUMS])
@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_planes_of_huge_weights_are_still_below_the_risks(risk, power):
    data = Case(small.Single, n=6).make(0)
    problem, rng = data.problem(risk=risk, power=power), np.random.default_rng(0)
    for size in (1.0, 1e8, 1e13, 1e16):
        for _ in range(5):
            found = problem.gradient(size * rng.normal(size=problem.dim))
            for other in (np.zeros(problem.dim), rng.normal(size=problem.dim)):
                truth = float(np.sum(problem.objective.powered(problem.gradient(other).value)))
                below = found.offset + float(found.vector @ other)
                assert below <= truth + 1e-9 * max(1.0, abs(below))


@pytest.mark.parametrize("trainer", ["subgradient", "adam"])
def test_overflow_is_told_by_name(trainer):
    data = Case(Word, n=6).make(0)
    options = {"step_size": 1e300} | ({"schedule": "constant"} if trainer == "subgradient" else {})
    with pytest.raises(TrainingError, match=f"'{trainer}': its weights .*set .*step_size"):
        fitted(data, power=2, trainer=trainer, trainer_options=options, max_passes=50)
    with pytest.raises(OptionError, match="step_size"):
        fitted(data, trainer=trainer, trainer_options={"step_size": -1.0})


def test_svrg_undoes_rounds_that_overflow():
    data = Case(Word, n=2).make(0)  # hundreds of rounds, each with a step of half the length
    options = {"batch_size": 1, "step_size": 1e160}
    svm = fitted_risk(data, "log", power=2.0, trainer="svrg", tol=1e-2, max_passes=9000, trainer_options=options)
    assert svm.report_.converged
    assert svm.report_.primal == pytest.approx(reference(data, "log", 2.0), rel=1e-2)


@pytest.mark.parametrize("case", [Case(Word, n=8), Case(small.Ties, n=8), Case(small.Loopy, n=8)], ids=str)
def test_adam_comes_close_by_default(case):
    data = case.make(0)
    assert fitted(data, trainer="adam", tol=0.0, max_passes=120).report_.primal <= 1.01 * data.optimum()[0]
    smooth = fitted_risk(data, "log", trainer="adam", tol=0.0, max_passes=120)
    assert smooth.report_.primal <= 1.01 * reference(data, "log")
