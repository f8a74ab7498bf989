"""Relaxed training factor by factor: the optimum of training with an oracle, true bounds at any time, refusals."""

from __future__ import annotations

from copy import deepcopy
from itertools import islice

import numpy as np
import pytest

from ssvm_dsl import POTTS, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain, cliques, complete
from ssvm_dsl.errors import OptionError
from ssvm_dsl.plugin_api import StopRule
from ssvm_dsl.testing import training_problem
from ssvm_trainers.planes import factor_blocks
from ssvm_trainers.planes.bcfw import BCFW
from ssvm_trainers.planes.factor_blocks import FactorRun, suits

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Untied(Model):
    """All kinds of factors, none of which shares its weights."""

    K = Dim(4)
    x = Input(2)
    y = Label(K, 3)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge", features=x)
    same = Factor(complete(y), form=POTTS, per="edge", nonneg=True)
    triple = Factor(cliques(y, [(0, 1, 2), (3, 1, 2)]), per="edge")
    loss = Hamming(y)


class Binary(Model):
    """Two states, and tables that are more than weights of their own."""

    K = Dim(4)
    x = Input(2)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge", features=x)
    same = Factor(complete(y), form=POTTS, per="edge", nonneg=True)
    loss = Hamming(y)


class Tied(Model):
    """Examples of different lengths whose factors share everything."""

    T = Dim()
    x = Input(T, 2)
    y = Label(T, 3)
    unary = Factor(y, features=x)
    near = Factor(chain(y))
    same = Factor(chain(y), form=POTTS, nonneg=True)
    loss = Hamming(y)


def untied(n=8, seed=1):
    rng = np.random.default_rng(seed)
    return Untied, list(rng.normal(size=(n, 2))), list(rng.integers(3, size=(n, 4)))


def binary(n=8, seed=1):
    rng = np.random.default_rng(seed)
    return Binary, list(rng.normal(size=(n, 2))), list(rng.integers(2, size=(n, 4)))


def tied(seed=1):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(t, 2)) for t in (2, 1, 5, 3, 4, 3)]
    return Tied, X, [rng.integers(3, size=len(x)) for x in X]


CASES = {"untied": untied, "binary": binary, "tied": tied}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return CASES[request.param]()


def problem_of(model, X, Y, backend="ad3", weight=None, lam=0.05):
    return training_problem(
        model, X, Y, risk="relaxed", backend=backend, lam=lam, regularization={"unary": 0.5}, sample_weight=weight
    )


def certified(problem, blocks, tol, start=None, most=3000):
    """The first iterate with a small enough gap."""
    for one in islice(BCFW(blocks=blocks, random_state=0).steps(problem, StopRule(tol=tol), start), most):
        if np.isfinite(one.upper) and one.upper - one.dual <= tol * one.upper:
            return one
    raise AssertionError("the gap does not close")


def test_one_optimum_by_factors_and_by_examples(case):
    weight = np.linspace(0.0, 2.0, len(case[1]))
    exact = certified(problem_of(*case, "lp", weight), "examples", 1e-3)
    found = certified(problem_of(*case, "lp", weight), "factors", 1e-3)
    assert found.upper == pytest.approx(exact.upper, rel=2e-3)
    assert found.dual <= exact.upper
    assert exact.dual <= found.upper
    bounded = problem_of(*case).objective.lower > -np.inf
    assert bounded.any()
    assert (found.w[bounded] >= 0.0).all()


def test_bounds_are_true_at_any_time(case):
    problem = problem_of(*case, "lp")
    best = certified(problem_of(*case, "lp"), "examples", 1e-3)
    run = FactorRun(problem, 0, None)
    for _ in range(12):
        for _ in range(3):
            run.iterate(StopRule())
        one = run.certified()
        exact = problem.evaluate(one.w)
        assert one.dual <= best.upper + 1e-9
        assert one.upper >= exact[0] - 1e-7
        v, b = one.plane
        assert problem.objective.dual(v, b) == one.dual
        assert exact[1] >= problem.objective.regularizer(one.w) + b - v @ one.w - 1e-9  # the plane is below


def test_messages_in_single_precision(monkeypatch):
    monkeypatch.setattr(factor_blocks, "SINGLE", 0)
    problem = problem_of(*binary())
    run = FactorRun(problem, 0, None)
    assert run.messages.dtype == np.float32
    for _ in range(200):
        run.iterate(StopRule())
    one = run.certified()
    assert one.dual <= one.upper
    assert one.upper - one.dual <= 3e-3 * one.upper
    assert one.upper >= problem.evaluate(one.w)[0] - 1e-7
    again = FactorRun(problem, 0, None)
    again.restore(deepcopy(run.state()), {"dim": problem.dim, "n": problem.n})
    assert again.messages.dtype == np.float32
    np.testing.assert_array_equal(again.iterate(StopRule()).w, run.iterate(StopRule()).w)


def test_warm_starts(case):
    near = certified(problem_of(*case, "lp"), "factors", 1e-2).w
    first, second = islice(BCFW(blocks="factors", random_state=0).steps(problem_of(*case), StopRule(), near), 2)
    np.testing.assert_array_equal(first.w, near)
    assert 0.0 < first.dual <= first.primal
    assert second.n_passes == pytest.approx(1.1)
    assert certified(problem_of(*case, "lp"), "factors", 1e-2, near).upper > 0.0


def test_auto_takes_factors_where_weights_are_not_shared():
    assert suits(problem_of(*untied()))
    assert not suits(problem_of(*tied()))
    runs = [BCFW().begin(problem_of(*one), None) for one in (untied(), tied())]
    assert [isinstance(run, FactorRun) for run in runs] == [True, False]


def test_the_report_of_an_estimator():
    model, X, Y = untied()
    report = StructuredSVM(model, C=1.0, risk="relaxed", random_state=0, tol=1e-2).fit(X, Y).report_
    assert report.converged
    assert report.certified
    assert report.n_oracle_calls == 2 * len(X)  # one pass of the oracle to check the objective, one for tightness
    assert 0.0 <= report.tightness <= 1.0


def test_refusals():
    model, X, Y = untied()
    options = {"trainer_options": {"blocks": "factors"}, "max_passes": 2}
    with pytest.raises(OptionError, match="blocks='factors' is for the risk 'relaxed'"):
        StructuredSVM(model, **options).fit(X, Y)
