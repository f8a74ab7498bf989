"""Prices of joint states and given scores inside compiled passes: as without them, and what labellings are charged."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ssvm_dsl import Cost, Dim, Factor, Given, Hamming, Input, Label, Model, StructuredSVM, chain, cliques
from ssvm_dsl.kernels import fill_tables, tables_score
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem
from ssvm_dsl.plugin_api import fixed_tables
from ssvm_dsl.testing import training_problem


class Plain(Model):
    T = Dim()
    x = Input(T, 2)
    s = Input(T, 3)
    g = Input(T, 9)
    a = Input(T)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


class Boundaries(Plain):
    loss = Hamming(Plain.y) + 0.5 * Cost(chain(Plain.y), "boundary", normalize=True, node_weights=Plain.a)


class Pairs(Plain):
    """A table for each pair of each example, beside the weights."""

    known = Given(chain(Plain.y), scores=Plain.g)


class Shared(Plain):
    """One table for all, which is added to that of the weights."""

    known = Given(chain(Plain.y), np.arange(9.0).reshape(3, 3) / 5.0)


class Alone(Model):
    """One table for all, of pairs without weights."""

    T = Dim()
    x = Input(T, 2)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    known = Given(chain(y), np.arange(9.0).reshape(3, 3) / 5.0)
    loss = Hamming(y)


class Everything(Boundaries):
    known = Given(chain(Plain.y), scores=Plain.g)
    both = Given(chain(Plain.y), np.eye(3))
    own = Given(Plain.y, scores=Plain.s)


MODELS = [Boundaries, Pairs, Shared, Alone, Everything]


def data(model, n=12, seed=0):
    rng, X, Y = np.random.default_rng(seed), [], []
    for _ in range(n):
        t = int(rng.integers(0, 6))
        one = {"x": rng.normal(size=(t, 2)), "s": rng.normal(size=(t, 3)), "g": rng.normal(size=(t, 9))}
        one["a"] = rng.integers(0, 4, t) / 2.0
        X.append({name: one[name] for name in one if model.declaration.find(name) is not None})
        Y.append(rng.integers(0, 3, t))
    return (X if model is not Alone else [one["x"] for one in X]), Y


def problem_of(model, X, Y, risk="margin", backend="chain"):
    return training_problem(model, X, Y, risk=risk, backend=backend)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("predicted", [False, True])
def test_tables_hold_what_weights_do_not(model, predicted):
    """What is written to the pool is what the oracle sees; the sums are prices, and given scores less the truth's."""
    X, Y = data(model)
    problem, rng = problem_of(model, X, Y), np.random.default_rng(1)
    program, loss, constants = problem.program, problem.loss, problem.parameters.constants
    tables, theta = fixed_tables(problem.parameters, loss, predicted), problem.scores(np.zeros(problem.dim))
    pool = theta.pool.copy()
    if not predicted:
        loss.augment(program, theta, np.arange(problem.n))
    for i, size in enumerate(np.diff(program.var_ptr)):
        fill_tables(tables, i, pool)
        first, second, last = tables.ptr[2 * i : 2 * i + 3]
        ids, truth = np.array([i]), loss.truth[program.var_ptr[i] :][:size]
        labels = rng.integers(0, 3, size).astype(np.int32)
        states = program.state_ptr[program.var_ptr[i] :][:size]
        price = loss.value(program, labels, ids)[0] - loss.node[states + labels].sum()
        if predicted:
            assert tables_score(tables, second, last, labels) == pytest.approx(price, abs=1e-12)
            continue
        given = [0.0 if constants is None else constants.value(program, one, ids)[0] for one in (labels, truth)]
        found = tables_score(tables, first, last, labels) - tables.truth[i]
        assert found == pytest.approx(price + given[0] - given[1], abs=1e-12)
    weighted = {fmap.group for fmap in problem.parameters.maps}
    for g, table in enumerate(theta.tables):
        if g not in weighted:
            np.testing.assert_allclose(pool[theta.offsets[g] : theta.offsets[g + 1]], table.ravel())


def fitted(model, X, Y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StructuredSVM(model, C=0.5, random_state=0, n_threads=1, **options).fit(X, Y)


TRAINERS = [
    ("subgradient", {}),
    ("perceptron", {}),
    ("perceptron", {"update": "pa-i"}),
    ("perceptron", {"update": "pa-ii", "against": "prediction"}),
]


@pytest.mark.parametrize("model", [Boundaries, Shared, Everything])
def test_compiled_passes_are_those_of_batches(model, monkeypatch):
    """Each trainer goes the same way with the oracle in its kernel as without."""
    X, Y = data(model)
    assert problem_of(model, X, Y).compiled(tables=True) is not None
    assert problem_of(model, X, Y).compiled() is None  # kernels that know nothing of tables are not given it
    once = [fitted(model, X, Y, trainer=name, trainer_options=of, max_passes=2, tol=0.0) for name, of in TRAINERS]
    best, right = (fitted(model, X, Y, trainer=name, tol=1e-4).report_ for name in ("bcfw", "bundle"))
    assert best.converged
    assert best.primal == pytest.approx(right.primal, rel=2e-4)
    monkeypatch.setattr(MarginProblem, "compiled", lambda self, tables=False: None)
    for svm, (name, options) in zip(once, TRAINERS):
        again = fitted(model, X, Y, trainer=name, trainer_options=options, max_passes=2, tol=0.0)
        np.testing.assert_allclose(svm.coef_, again.coef_, atol=1e-9)
        np.testing.assert_allclose(svm.report_.primal, again.report_.primal, rtol=1e-9)
        np.testing.assert_allclose(svm.report_.dual, again.report_.dual, rtol=1e-9)


class Triples(Plain):
    """A loss that no chain answers: its backend has no compiled oracle."""

    K = Dim(4)
    z = Label(K, 2)
    zero = Factor(z)
    loss = Hamming(Plain.y) + Cost(cliques(z, [(0, 1), (1, 2), (0, 2)]), "boundary")


def test_backends_without_a_compiled_oracle_are_asked_as_before():
    X, Y = data(Plain, n=4)
    Y = [{"y": y, "z": [0, 1, 1, 0]} for y in Y]
    svm = fitted(Triples, X, Y, tol=1e-4)
    assert svm.report_.converged
    assert svm.report_.plan.backend != "chain"
