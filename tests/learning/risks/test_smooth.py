"""Smooth risks: values and gradients against sums over all labellings, optima against a general minimiser."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from test_objective import as_shown, in_blocks

import small
from combinations import crossed
from optima import Reference
from small import CASES, Case, Data, Word
from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import OptionError, TrainingError
from ssvm_dsl.inference.checked import CheckedSession
from ssvm_dsl.ir import Question, Task
from ssvm_dsl.plugin_api import StopRule
from ssvm_trainers.gradient.lbfgs import LBFGS

RISKS = ("log", "softmax-margin")
SMOOTH_CASES = [case for case in CASES if case.model not in small.LOSS_OF_WHOLE]

each_risk = pytest.mark.parametrize("risk", RISKS)


@cache
def reference(data: Data, risk: str, power: float = 1.0) -> float:
    """The optimum, by scipy's L-BFGS-B."""
    return Reference(data, risk, power).optimum()[1]


def fitted(data: Data, risk: str, **options) -> StructuredSVM:
    case = data.case
    settings = {"C": case.C, "regularization": case.regularization, "random_state": 0, "n_threads": 1, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StructuredSVM(case.model, risk=risk, **settings).fit(data.X, data.Y, data.weight)


def check_optimal(data: Data, risk: str, svm: StructuredSVM, power: float = 1.0, rel: float = 1e-6) -> None:
    report, best, w = svm.report_, reference(data, risk, power), data.flat(svm.weights_)
    slack = 1e-8 * max(1.0, best)
    assert report.primal == pytest.approx(Reference(data, risk, power).objective(w)[0], rel=1e-9)
    assert report.dual - slack <= best <= report.primal + slack
    assert report.primal <= best + rel * max(best, 0.1)
    assert (w[data.nonneg] >= 0).all()
    assert report.certified
    assert report.gap == pytest.approx(report.primal - report.dual + report.rounding, abs=1e-12)


# -- values and gradients ----------------------------------------------------------------------------------


@crossed(2, case=SMOOTH_CASES, risk=RISKS, fast=[True, False])
def test_values_and_gradients_are_sums_over_all_labellings(case, risk, fast, monkeypatch):
    if not fast:
        monkeypatch.setattr(CheckedSession, "expect", lambda *args: None)
    data = case.make(1)
    problem, rng = data.problem(risk), np.random.default_rng(0)
    for size in (0.0, 0.5, 5.0):
        flat = as_shown(data, size * rng.normal(size=problem.dim))
        values, gradients = Reference(data, risk).risks(flat)
        for ids in (None, np.array([2, 0]), np.array([1, 2, 3])):
            found = problem.gradient(in_blocks(data, flat), ids)
            chosen = slice(None) if ids is None else ids
            weight = problem.objective.weight[chosen]
            expected = in_blocks(data, weight @ gradients[chosen])
            np.testing.assert_allclose(found.value, values[chosen], rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(found.vector, expected, rtol=1e-8, atol=1e-8)
            assert found.offset + found.vector @ in_blocks(data, flat) == pytest.approx(weight @ values[chosen])
        primal, upper = problem.value(in_blocks(data, flat))
        assert primal == upper
        assert primal / problem.objective.lam == pytest.approx(Reference(data, risk).objective(flat)[0], rel=1e-9)


def test_the_cases_use_the_fast_sums_and_the_plain_ones():
    offers = {}
    for case in SMOOTH_CASES:
        problem = case.make(0).problem("log")
        theta = problem.scores(np.zeros(problem.dim))
        mu = [np.zeros_like(table) for table in theta.tables]
        question = Question(theta, task=Task.MARGINALS)
        found = problem.session.expect(question, np.ones(problem.n), np.zeros_like(theta.node), mu)
        offers[str(case)] = found is not None
    assert offers["Word"]
    assert offers["Joint"]  # with a mask, and a table for each factor
    assert not offers["Tree"]
    assert not offers["Loopy"]


@pytest.mark.parametrize("power", [1.5, 2.0])
@each_risk
def test_gradients_of_powers_are_those_of_finite_differences(risk, power):
    for case in (Case(Word), Case(small.Tree, ragged=(4,), n=4), Case(small.Loopy)):
        problem, rng = case.make(0).problem(risk, power), np.random.default_rng(1)
        w = rng.normal(size=problem.dim)
        grad = problem.objective.lam * w + problem.gradient(w).vector / problem.n
        for _ in range(5):
            step = rng.normal(size=problem.dim)
            rise = problem.value(w + 1e-5 * step)[0] - problem.value(w - 1e-5 * step)[0]
            assert rise / 2e-5 == pytest.approx(float(grad @ step), rel=1e-6, abs=1e-8)


@each_risk
def test_scores_too_far_apart_for_doubles_are_still_summed(risk):
    """Scores that differ by thousands: their exponentials underflow, logarithms do not."""
    for case in (Case(Word, n=8), Case(small.Joint, ignore=9, n=6), Case(small.Tree, ragged=(4,), n=4)):
        data = case.make(2)
        problem, rng = data.problem(risk), np.random.default_rng(3)
        for size in (60.0, 300.0, 3000.0):
            flat = size * rng.normal(size=problem.dim)
            values, gradients = Reference(data, risk).risks(flat)
            found = problem.gradient(in_blocks(data, flat))
            np.testing.assert_allclose(found.value, values, rtol=1e-9, atol=1e-7)
            expected = in_blocks(data, problem.objective.weight @ gradients)
            np.testing.assert_allclose(found.vector, expected, rtol=1e-6, atol=1e-6)


def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    monkeypatch.setattr("ssvm_dsl.inference.batch.PART_STATES", 30)
    data = Case(Word, n=40, ragged=(1, 3, 5)).make(0)
    w = np.random.default_rng(0).normal(size=15)
    one, two = (data.problem("log", n_threads=k).gradient(w) for k in (1, 2))
    np.testing.assert_array_equal(one.vector, two.vector)
    np.testing.assert_array_equal(one.value, two.value)
    flat = data.flat({block.name: block.view(w) for block in data.grounded.parameters.blocks})
    values, gradients = Reference(data, "log").risks(flat)
    np.testing.assert_allclose(one.vector, in_blocks(data, gradients.sum(axis=0)), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(one.value, values, rtol=1e-9)


# -- the optimum ----------------------------------------------------------------------------------------------


@crossed(case=SMOOTH_CASES, risk=RISKS)
def test_lbfgs_reaches_the_optimum(case, risk):
    data = case.make(3)
    svm = fitted(data, risk, trainer="lbfgs", tol=1e-7, max_passes=3000)
    check_optimal(data, risk, svm)
    assert svm.report_.converged


@crossed(case=[Case(Word, C=0.3), Case(small.Ties), Case(small.Loopy)], power=[1.5, 2.0])
def test_lbfgs_minimises_powers(case, power):
    data = case.make(0)
    svm = fitted(data, "log", power=power, trainer="lbfgs", tol=1e-7, max_passes=3000)
    check_optimal(data, "log", svm, power)


@pytest.mark.parametrize("memory", [1, 3, 50])
def test_lbfgs_with_any_memory(memory):
    data = Case(small.Ties, C=5.0).make(1)
    svm = fitted(data, "log", trainer="lbfgs", tol=1e-7, max_passes=5000, trainer_options={"memory": memory})
    check_optimal(data, "log", svm)


def test_every_bound_on_the_way_is_true_and_the_objective_only_falls():
    for case in (Case(Word, C=20.0), Case(small.Ties, C=20.0)):
        data = case.make(0)
        best = reference(data, "log")
        events = fitted(data, "log", trainer="lbfgs", tol=1e-8, max_passes=500).report_.history
        primals = [event.primal for event in events]
        assert primals == sorted(primals, reverse=True)
        assert all(event.best_dual <= best + 1e-8 * best <= event.primal + 2e-8 * best for event in events)
        assert len(events) > 5


def test_weights_that_are_not_regularised_have_no_bound_and_end_by_themselves():
    data = Case(small.Single, n=12, C=0.5, regularization={"bias": 0.0}).make(0)
    svm = fitted(data, "log", trainer="lbfgs", tol=1e-6, max_passes=5000)
    w = data.flat(svm.weights_)
    assert svm.report_.reason == "ended"
    assert not svm.report_.converged
    assert svm.report_.dual == -np.inf
    assert svm.report_.primal <= reference(data, "log") * (1 + 1e-9)
    assert np.abs(Reference(data, "log").objective(w)[1]).max() < 1e-5


def test_the_limit_of_passes_counts_every_evaluation():
    data = Case(Word, n=6, C=50.0).make(0)
    problem = data.problem("log")
    for number, iterate in enumerate(LBFGS().steps(problem, StopRule())):
        assert problem.n_oracle_calls == 6 * iterate.n_passes
        if number == 8:
            break
    svm = fitted(data, "log", trainer="lbfgs", tol=0.0, max_passes=7)
    assert 7 <= svm.report_.n_passes <= 10
    assert svm.report_.reason == "passes"


def test_lbfgs_goes_on_from_weights_it_is_given():
    data = Case(Word, n=6).make(3)
    problem = data.problem("log")
    optimum = fitted(data, "log", trainer="lbfgs", tol=1e-9).coef_
    first = next(LBFGS().steps(problem, StopRule(), start=optimum))
    np.testing.assert_array_equal(first.w, optimum)
    assert first.primal - first.dual <= 1e-8


# -- refusals ----------------------------------------------------------------------------------------------------


def test_softmax_margin_needs_a_loss_that_adds_up():
    data = Case(small.AllOrNothing).make(0)
    with pytest.raises(OptionError, match="softmax-margin"):
        StructuredSVM(small.AllOrNothing, risk="softmax-margin", trainer="lbfgs").fit(data.X, data.Y)
    fitted(data, "log", trainer="lbfgs")  # the log-loss does not look at the loss


def test_smooth_risks_have_no_planes():
    problem = Case(Word).make(0).problem("log")
    for call in (problem.oracle, problem.evaluate):
        with pytest.raises(TrainingError, match="no planes"):
            call(np.zeros(problem.dim))
