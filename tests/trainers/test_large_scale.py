"""What training with millions of weights rests on: the dual value is kept on the way."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import small
from ssvm_dsl import Attributes, Cost, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.plugin_api import StopRule
from ssvm_dsl.testing import training_problem
from ssvm_trainers.planes.bcfw import BCFW


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


class Bags(Model):
    """Sparse columns, of which few are seen."""

    x = Input(400, sparse=True)
    y = Label(3)
    score = Factor(y, features=x)
    loss = Hamming(y)


def test_weights_of_columns_that_no_example_has_are_zero_and_the_rest_optimal():
    r = np.random.default_rng(0)
    seen = r.permutation(400)[:60]
    rows = np.zeros((40, 400))
    rows[:, seen] = r.random((40, 60)) * (r.random((40, 60)) < 0.2)
    X, Y = [sp.csr_matrix(one) for one in rows], r.integers(3, size=40).tolist()
    fit = StructuredSVM(Bags, risk="log", trainer="lbfgs", C=3.0, tol=1e-9).fit(X, Y)
    same = StructuredSVM(Bags, risk="log", trainer="bundle", C=3.0, tol=1e-7, max_passes=2000).fit(X, Y)
    assert fit.report_.certified
    assert fit.report_.primal == pytest.approx(same.report_.primal, rel=1e-6)
    unseen = ~rows.any(axis=0)
    assert not fit.coef_.reshape(400, 3)[unseen].any()  # the weights of a column lie together
    assert fit.coef_.any()
