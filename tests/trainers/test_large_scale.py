"""What training with millions of weights rests on: sums kept on the way, closed forms, a guess of the curvature."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp

import small
from ssvm_dsl import Attributes, Cost, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.plugin_api import StopRule
from ssvm_dsl.testing import training_problem
from ssvm_trainers.gradient.lbfgs import LBFGS, inverse_curvature
from ssvm_trainers.planes.bcfw import BCFW, NEWEST
from ssvm_trainers.shared.lower_bound import best_share


class Tagger(Model):
    """Named features with values, prices of confusions, positions without a truth."""

    T = Dim()
    words = Attributes(T)
    x = Input(T, 2)
    y = Label(T, 4)
    emit = Factor(y, features=words)
    dense = Factor(y, features=x)
    trans = Factor(chain(y), features=x)
    loss = Cost(y, 1.5 - 1.5 * np.eye(4)) + 0.5 * Hamming(y, ignore=9)


def problem_of(model, X, Y, risk: str = "margin"):
    """The problem trainers see, C = 1."""
    return training_problem(model, X, Y, risk=risk, lam=1.0 / len(X))


def tagged():
    rng = np.random.default_rng(0)
    X, Y = [], []
    for size in (1, 3, 5, 5, 4, 2):
        words = [{f"n{k}": float(rng.normal()) for k in rng.integers(12, size=4)} for _ in range(size)]
        X.append({"words": words, "x": rng.normal(size=(size, 2))})
        Y.append(np.where(rng.random(size) < 0.2, 9, rng.integers(4, size=size)))
    return problem_of(Tagger, X, Y)


#: All but the one whose optimum is where training starts.
CASES = {
    str(case): lambda case=case: case.make(0).problem() for case in small.CASES if case.model is not small.Perceptron
} | {"tagger": tagged}


@pytest.mark.parametrize("name", CASES)
def test_the_dual_value_kept_on_the_way_is_that_of_the_planes(name):
    """Slopes come from scores written for the oracle, or factor by factor; a wrong one would show in the gains."""
    problem = CASES[name]()
    trainer = BCFW(random_state=0)
    steps, estimates = trainer.steps(problem, StopRule(1e-12)), 0
    for _ in range(12):
        iterate = next(steps)
        if "dual_estimate" in iterate.extra:
            estimates += 1
            kept, afresh = iterate.extra["dual_estimate"], trainer._run.planes.refresh()[0]
            if np.isfinite(problem.objective.lower).any():  # gains are lower bounds there
                assert afresh >= kept - 1e-10
            else:
                assert afresh == pytest.approx(kept, rel=1e-8, abs=1e-10)
    assert estimates


@pytest.mark.parametrize("tol", [0.2, 1e-3])
def test_the_certificate_is_that_of_the_moving_average_or_of_better_weights(monkeypatch, tol):
    # no joint steps: they bring weights of their own
    monkeypatch.setattr("ssvm_trainers.planes.joint_steps.LEAST_CUTS", np.inf)
    problem, trainer, met = tagged(), BCFW(random_state=0), []
    steps = trainer.steps(problem, StopRule(tol))
    first = next(steps)
    follow = trainer._run._follow
    trainer._run._follow = lambda: (follow(), met.append(trainer._run.planes.w.copy()))
    average, number = trainer._run.average.copy(), trainer._run.averaged
    while np.isnan(first.primal):
        first = next(steps)
    for w in met:
        number += 1
        average += max(1.0 / number, NEWEST) * (w - average)
    assert len(met) > 2
    if tol > 0.01:
        np.testing.assert_allclose(first.w, average, atol=1e-12)
    else:  # the newest weights, from which the average starts again
        assert problem.value(first.w)[0] < problem.value(average)[0]
        np.testing.assert_array_equal(first.w, trainer._run.average)
    assert first.primal == pytest.approx(problem.value(first.w)[0], rel=1e-12)


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_one_scale_is_many_equal_ones(scale):
    """The short cuts for a uniform regulariser give what the general formulas give."""
    rng = np.random.default_rng(0)
    v, w = rng.normal(size=(2, 40))
    ones = np.full(40, scale)
    plain = RegularizedRisk(0.1, 5, np.ones(5), ones, np.full(40, -np.inf))
    general = RegularizedRisk(0.1, 5, np.ones(5), np.r_[ones[:-1], 1e6], np.full(40, -np.inf))
    assert plain.plain == scale
    assert general.plain == 0.0
    w[-1] = v[-1] = 0.0
    np.testing.assert_allclose(plain.weights(v), general.weights(v), rtol=1e-14)
    assert plain.dual(v, 2.0) == pytest.approx(general.dual(v, 2.0), rel=1e-12)
    assert plain.regularizer(w) == pytest.approx(general.regularizer(w), rel=1e-12)


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_best_mixture_of_two_planes(bounded, seed):
    rng = np.random.default_rng(seed)
    lower = np.where(rng.random(6) < 0.5, 0.0, -np.inf) if bounded else np.full(6, -np.inf)
    objective = RegularizedRisk(0.5, 3, np.ones(3), rng.uniform(0.5, 2.0, size=6), lower)
    (v, other), (b, c) = rng.normal(size=(2, 6)), rng.normal(size=2)
    found = best_share(objective, v, other, c - b)
    values = [objective.dual(v + t * (other - v), b + t * (c - b)) for t in np.linspace(0, 1, 2001)]
    assert objective.dual(v + found * (other - v), b + found * (c - b)) >= max(values) - 1e-9


class Classes(Model):
    """One label: the guess of the curvature is exact at w = 0."""

    words = Attributes()
    x = Input(3)
    y = Label(5)
    named = Factor(y, features=words)
    dense = Factor(y, features=x)
    prior = Factor(y)
    loss = Hamming(y)


class Chain(Model):
    """A chain of one link: exact, too."""

    T = Dim()
    x = Input(T, 1)
    y = Label(T, 3)
    trans = Factor(chain(y))
    loss = Hamming(y)


@pytest.mark.parametrize("model", [Classes, Chain])
def test_the_guess_of_the_curvature(model):
    rng = np.random.default_rng(0)
    if model is Classes:
        X = [{"words": {f"n{k}": float(rng.normal()) for k in rng.integers(6, size=3)}, "x": rng.normal(size=3)}
             for _ in range(8)]  # fmt: skip
        Y = rng.integers(5, size=8).tolist()
    else:
        X, Y = [np.zeros((2, 1))] * 4, [rng.integers(3, size=2) for _ in range(4)]
    problem = problem_of(model, X, Y, "log")
    metric, lam, step = inverse_curvature(problem), problem.objective.lam, 1e-4
    for j in rng.choice(problem.dim, size=min(problem.dim, 12), replace=False):
        up, down = (problem.gradient(sign * step * np.eye(problem.dim)[j]).vector[j] for sign in (1, -1))
        assert 1.0 / metric[j] == pytest.approx(lam + (up - down) / (2 * step) / problem.n, rel=1e-5)


class Bags(Model):
    """Sparse columns, of which few are seen."""

    x = Input(400, sparse=True)
    y = Label(3)
    score = Factor(y, features=x)
    loss = Hamming(y)


def test_weights_of_columns_that_no_example_has_stay_out_of_the_curvature():
    r = np.random.default_rng(0)
    seen = r.permutation(400)[:60]
    rows = np.zeros((40, 400))
    rows[:, seen] = r.random((40, 60)) * (r.random((40, 60)) < 0.2)
    X, Y = [sp.csr_matrix(one) for one in rows], r.integers(3, size=40).tolist()
    problem = problem_of(Bags, X, Y, "log")
    run = LBFGS().begin(problem, None)
    columns = np.flatnonzero(rows.any(axis=0))
    w = np.zeros(problem.dim).reshape(400, 3)  # the weights of a column lie together
    w[columns] = 1.0
    some = run.bent
    assert some.tolist() == np.flatnonzero(w.ravel()).tolist()
    fit = StructuredSVM(Bags, risk="log", trainer="lbfgs", C=3.0, tol=1e-9).fit(X, Y)
    same = StructuredSVM(Bags, risk="log", trainer="bundle", C=3.0, tol=1e-7, max_passes=2000).fit(X, Y)
    assert fit.report_.certified
    assert fit.report_.primal == pytest.approx(same.report_.primal, rel=1e-6)
    assert not fit.coef_[w.ravel() == 0.0].any()


def test_pairs_of_a_checkpoint_are_of_the_weights_that_matter():
    r = np.random.default_rng(0)
    X = [sp.csr_matrix(r.normal(size=400) * (np.arange(400) < 9)) for _ in range(20)]
    problem = problem_of(Bags, X, r.integers(3, size=20).tolist(), "log")
    run, stop = LBFGS().begin(problem, None), StopRule(1e-9)
    for _ in range(3):
        run.iterate(stop)
    state, again = deepcopy(run.state()), LBFGS().begin(problem, None)
    again.restore(state, {"dim": problem.dim, "n": 20})
    assert np.array_equal(again.iterate(stop).w, run.iterate(stop).w)
    state["steps"], state["bends"] = state["steps"][:, :-1], state["bends"][:, :-1]
    with pytest.raises(FileFormatError, match="'steps'"):
        LBFGS().begin(problem, None).restore(state, {"dim": problem.dim, "n": 20})
