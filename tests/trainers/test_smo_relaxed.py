"""Structural SMO on the relaxed dual of graphs with cycles: the optimum of others, fractional points, resumed fits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from test_dual_losses import AGREE, MODELS

from combinations import crossed
from ssvm_dsl import AtMost, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, cliques, complete
from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir import labelling_marginals
from ssvm_dsl.plugin_api import StopRule
from ssvm_dsl.testing import training_problem
from ssvm_trainers.dual.smo.smo import SMO

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Triples(Model):
    """Factors of three variables, and two on one pair."""

    K = Dim(4)
    x = Input(2)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), features=x)
    again = Factor(complete(y))
    triple = Factor(cliques(y, [(0, 1, 2), (1, 2, 3)]), per="edge")
    loss = Hamming(y)


class Fixed(Model):
    """Tables that are all one weight."""

    K = Dim(3)
    x = Input(2)
    y = Label(K, 3)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), form=AGREE, nonneg=True)
    loss = Hamming(y, weights=[1.0, 2.0, 0.5])


def of(model, n, k, states):
    def make(rng):
        return list(rng.normal(size=(n, 2))), list(rng.integers(states, size=(n, k)))

    return model, make


CASES = MODELS | {"triples": of(Triples, 6, 4, 2), "fixed": of(Fixed, 5, 3, 3)}


def data(name, seed):
    model, make = CASES[name]
    X, Y = make(np.random.default_rng(seed))
    weight = np.random.default_rng(seed).choice([0.0, 0.5, 2.0], len(X)) if seed % 2 else np.ones(len(X))
    return model, X, Y, weight if weight.any() else None


def fit(name, seed, trainer="smo", backend="lp", **options):
    model, X, Y, weight = data(name, seed)
    svm = StructuredSVM(
        model, lam=0.25, risk="relaxed", trainer=trainer, backend=backend, guarantee="bound", random_state=seed,
        **{"tol": 3e-7, "max_passes": 400} | options,
    )  # fmt: skip
    return svm.fit(X, Y, sample_weight=weight)


@crossed(name=CASES, seed=range(2), backend=["lp", "ad3"])
def test_it_reaches_the_relaxed_optimum(name, seed, backend):
    report = fit(name, seed, backend=backend).report_
    joint = fit(name, seed, "lp-dual-qp", tol=1e-9).report_.primal
    assert report.primal == pytest.approx(joint, rel=1e-6)
    assert report.dual == pytest.approx(joint, rel=1e-6)
    assert report.dual <= joint * (1 + 1e-8)
    assert "relaxation" in report.marginals


def test_points_are_fractional_and_stay_in_the_polytope():
    model, X, Y, _ = data("full", 0)
    problem = training_problem(model, X, Y, risk="relaxed", trainer="smo", backend="lp", lam=0.05)
    trainer = SMO(random_state=0)
    for _ in itertools.islice(trainer.steps(problem, StopRule(tol=1e-9)), 12):
        state, program = trainer.state(), problem.program
        mu, at = state["marginals.mu"], program.n_states
        assert mu.min() >= 0.0
        for group in program.groups:
            tables = mu[at : at + group.n_factors * group.n_configs].reshape(-1, *group.cards)
            at += tables.size
            for table, scope in zip(tables, group.shapes.variables(), strict=True):
                for k, v in enumerate(scope):
                    others = tuple(a for a in range(len(scope)) if a != k)
                    mine = mu[program.state_ptr[v] : program.state_ptr[v + 1]]
                    np.testing.assert_allclose(table.sum(axis=others), mine, atol=1e-9)
    vertices = state["marginals.vertices"]
    assert ((vertices > 0.1) & (vertices < 0.9)).any()  # no mixtures of labellings alone
    assert not np.array_equal(mu, labelling_marginals(program, problem.loss.truth))


class Few(MODELS["full"][0]):
    budget = AtMost(2, MODELS["full"][0].y.is_(1))


def test_hard_constraints_are_refused():
    X, _ = CASES["full"][1](np.random.default_rng(0))
    svm = StructuredSVM(Few, risk="relaxed", trainer="smo", backend="lp")
    with pytest.raises(TrainingError, match=r"trainer 'smo'.*hard constraints"):
        svm.fit(X, [np.eye(4, dtype=int)[k % 4] for k in range(len(X))])


def test_too_much_memory_is_refused(monkeypatch):
    monkeypatch.setattr("ssvm_trainers.dual.smo.smo_relaxed.MAX_NUMBERS", 1000)
    with pytest.raises(TrainingError, match=r"'smo' keeps vertices of the relaxation.*too much memory"):
        fit("full", 0)
