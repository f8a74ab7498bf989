"""Minibatch trainers and exponentiated gradient against the optimum of smooth risks."""

from __future__ import annotations

import numpy as np
import pytest
from test_every_trainer import check_certificate
from test_every_trainer import fitted as fitted_margin
from test_smooth import check_optimal, fitted, reference

import small
from small import Case, Word
from ssvm_dsl.errors import TrainingError
from ssvm_dsl.plugin_api import StopRule
from ssvm_trainers.dual import eg
from ssvm_trainers.gradient.adam import Adam
from ssvm_trainers.gradient.svrg import SVRG

CASES = [
    Case(Word, n=7),
    Case(Word, C=3.0, n=7, weighted=True, regularization={"trans": 0.3}, tag="-weighted"),
    Case(small.Ties, n=6),
    Case(small.Tree, ragged=(4,), n=4),
    Case(small.Loopy),
    Case(small.Joint, ignore=9, n=6),
]

each_case = pytest.mark.parametrize("case", CASES, ids=str)


@pytest.mark.parametrize(("trainer", "risk"), [("eg", "log"), ("svrg", "softmax-margin"), ("lbfgs", "log")])
@each_case
def test_all_meet_at_one_optimum(case, trainer, risk):
    data = case.make(0)
    options = {"trainer_options": {"batch_size": 2}} if trainer == "svrg" else {}
    svm = fitted(data, risk, trainer=trainer, tol=1e-5, max_passes=6000, **options)
    check_optimal(data, risk, svm, rel=1e-5)
    assert svm.report_.converged


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_svrg_starts_anywhere_and_with_any_step(power):
    data = Case(Word, n=9).make(1)
    for step_size in (0.01, 1.0, 100.0):
        options = {"batch_size": 3, "step_size": step_size}
        svm = fitted(data, "log", power=power, trainer="svrg", tol=1e-4, max_passes=6000, trainer_options=options)
        check_optimal(data, "log", svm, power, rel=1e-4)


def test_the_first_round_of_svrg_is_that_of_the_definition():
    data = Case(Word, n=4).make(0)
    problem = data.problem("log")
    steps = SVRG(batch_size=2, random_state=0).steps(problem, StopRule())
    first, second = next(steps), next(steps)
    length = second.extra["step"] / 1.1
    lam, w0 = problem.objective.lam, first.w

    def mean(w, ids=None):
        found = problem.gradient(w, ids)
        return lam * w + found.vector / len(found.value)

    order, w = np.random.default_rng(0).permutation(4), w0.copy()
    for batch in (np.sort(order[:2]), np.sort(order[2:])):
        w = w - length * (mean(w, batch) - mean(w0, batch) + mean(w0))
    np.testing.assert_allclose(second.w, w, rtol=1e-10, atol=1e-12)
    assert second.n_passes == 5  # two full gradients at the start, a round of two, its end


def test_the_first_pass_of_adam_is_that_of_the_definition():
    data = Case(small.Bounded, n=6).make(0)
    problem = data.problem()
    start = 0.1 * np.abs(np.random.default_rng(2).normal(size=problem.dim))
    iterate = next(Adam(batch_size=2, step_size=0.3, random_state=0).steps(problem, StopRule(max_passes=99), start))
    w, mean, square, lower = start.copy(), 0.0, 0.0, problem.objective.lower
    order = np.random.default_rng(0).permutation(6)
    for t, lo in enumerate((0, 2, 4), 1):
        found = problem.gradient(w, np.sort(order[lo : lo + 2]))
        grad = problem.objective.lam * w + found.vector / 2
        mean, square = 0.9 * mean + 0.1 * grad, 0.999 * square + 0.001 * grad**2
        w = np.maximum(w - 0.3 * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8), lower)
    np.testing.assert_allclose(iterate.w, w, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("case", [Case(Word, n=8), Case(small.Ties, n=8), Case(small.Loopy)], ids=str)
def test_adam_comes_close_with_true_bounds(case):
    data = case.make(0)
    best, _ = data.optimum()
    options = {"batch_size": 2, "step_size": 0.05}
    svm = fitted_margin(data, trainer="adam", tol=0.0, max_passes=100, trainer_options=options)
    check_certificate(data, svm, best)
    assert svm.report_.primal <= 1.05 * best
    assert svm.report_.dual >= 0.8 * best
    smooth = fitted(data, "log", trainer="adam", tol=0.0, max_passes=100, trainer_options=options)
    best = reference(data, "log")
    assert smooth.report_.dual <= best + 1e-8
    assert smooth.report_.primal <= 1.05 * best


def test_minibatches_take_work_of_their_own_size_only(monkeypatch):
    """A step looks at the scores and sums of its examples, not of all."""
    data = Case(small.Joint, n=40, ragged=(3,), ignore=9).make(0)
    problem, rng = data.problem("log"), np.random.default_rng(0)
    w, ids = rng.normal(size=problem.dim), np.array([3, 17])
    expected = problem.gradient(w, ids)
    others = np.setdiff1d(np.arange(40), ids)
    states = np.concatenate([np.arange(*problem.program.state_ptr[problem.program.var_ptr[i : i + 2]]) for i in others])
    problem._mu.node[states] = 1e9  # what is left there by others must not matter
    problem._theta.node[states] = np.nan
    again = problem.gradient(w, ids)
    np.testing.assert_array_equal(again.vector, expected.vector)
    assert np.isnan(problem._theta.node[states]).all()


def test_eg_refuses_what_does_not_fit_in_memory(monkeypatch):
    monkeypatch.setattr(eg, "MAX_NUMBERS", 100)
    monkeypatch.setattr(eg, "MAX_CELLS", 0)
    with pytest.raises(TrainingError, match=r"two vectors of 15 weights for each of 5 examples.*lbfgs"):
        fitted(Case(Word).make(0), "log", trainer="eg")
