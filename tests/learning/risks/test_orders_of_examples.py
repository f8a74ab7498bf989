"""Trainers ask for examples in any order, and for some several times: each answer is that of its example."""

from __future__ import annotations

import numpy as np
import pytest

from model_table import tagger
from ssvm_dsl import Factor, Input, Label, Model, ZeroOne
from ssvm_dsl.datasets import make_chains
from ssvm_dsl.testing import training_problem

Word = tagger(5, 3)


class Flat(Model):
    x = Input(5)
    y = Label(3)
    emit = Factor(y, features=x)
    loss = ZeroOne(y)


N = 9
DRAWS = {
    "permuted": np.array([3, 1, 4, 0, 5, 8, 2, 6, 7]),
    "drawn with replacement": np.array([3, 1, 4, 1, 5, 8, 2, 6, 5]),
    "one of all": np.full(N, 2),
    "a few": np.array([7, 7, 0]),
    "none": np.zeros(0, dtype=np.int64),
}
RISKS = ("margin", "slack", "hm", "perceptron", "relaxed", "log", "softmax-margin")
FLAT_RISKS = ("weston-watkins", "margin")


def problems():
    X, Y = make_chains(N, n_features=5, n_states=3, length=(1, 5), noise=1.0, random_state=0)
    for risk in RISKS:
        yield pytest.param(Word, X, Y, risk, id=risk)
    flat = [x[0] for x in X], [int(y[0]) for y in Y]
    for risk in FLAT_RISKS:
        yield pytest.param(Flat, *flat, risk, id=f"{risk}, one label")


@pytest.mark.parametrize("draw", DRAWS.values(), ids=list(DRAWS))
@pytest.mark.parametrize(("model", "X", "Y", "risk"), list(problems()))
def test_each_example_has_its_own_answer(model, X, Y, risk, draw):
    problem, alone = (training_problem(model, X, Y, risk=risk) for _ in range(2))
    problem.objective.weight[:] = alone.objective.weight[:] = np.linspace(0.1, 3.0, N)
    rng = np.random.default_rng(1)
    w = rng.normal(size=problem.dim)
    found = problem.gradient(w, draw)
    each = [alone.gradient(w, np.array([i])) for i in draw]
    assert np.allclose(found.value, [one.value[0] for one in each])
    assert np.allclose(found.vector, sum((one.vector for one in each), np.zeros(problem.dim)))
    assert np.isclose(found.offset, sum(one.offset for one in each))
    assert np.isclose(problem.evaluation(w).estimate, alone.value(w)[0]), "the objective that is booked at w"
    assert np.allclose(problem.evaluation(w).value, alone.evaluation(w).value)
    if found.bound.size and hasattr(problem, "truth"):
        planes, coef = problem.oracle(w, draw), rng.normal(size=len(draw))
        assert np.array_equal(planes.examples, draw)
        assert np.allclose(planes.value, found.value)
        plane = sum(
            alone.accumulate(alone.oracle(w, np.array([i])), c[None], np.zeros(alone.dim))
            for i, c in zip(draw, coef, strict=True)
        )
        assert np.allclose(problem.accumulate(planes, coef, np.zeros(problem.dim)), plane)


def test_latent_states_are_completed_once_for_each_example():
    from ssvm_dsl.learning.risks.hinges.margin import CompletingProblem

    X, Y = make_chains(N, n_features=5, n_states=3, length=(1, 5), noise=1.0, random_state=0)
    made = training_problem(Word, X, Y)
    hidden = np.zeros(made.program.n_variables, dtype=bool)
    hidden[::2] = True
    first, second = CompletingProblem(made, hidden), CompletingProblem(training_problem(Word, X, Y), hidden)
    rng, draw = np.random.default_rng(1), DRAWS["drawn with replacement"]
    for _ in range(3):
        w = rng.normal(size=made.dim)
        found, once = first.oracle(w, draw), second.oracle(w, np.unique(draw))
        place = np.searchsorted(once.examples, draw)
        assert np.allclose(found.value, once.value[place])
        assert np.array_equal(first.truth, second.truth)
