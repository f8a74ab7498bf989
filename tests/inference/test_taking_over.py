"""Training goes on where another backend takes over in the middle: with what it would have computed from the start."""

from __future__ import annotations

import numpy as np
import pytest
from test_layers import Strange, known_with, raising

from small import Loopy, Word
from ssvm_dsl import ground
from ssvm_dsl.inference.planning.planner import need_of, plan_program
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.inference.threads import Threads
from ssvm_dsl.ir import Guarantee
from ssvm_dsl.learning.objective import regularized_risk
from ssvm_dsl.learning.risks import base
from ssvm_dsl.learning.risks.kinds import find_risk
from ssvm_dsl.plugin_api import TrainerNeeds

RNG = np.random.default_rng(4)
WORDS = [RNG.normal(size=(n, 2)) for n in (4, 1, 6, 3)], [list(RNG.choice(list("abc"), n)) for n in (4, 1, 6, 3)]
UNITS = list(RNG.normal(size=(6, 3))), list(RNG.integers(2, size=(6, 3)))


def failing_at(number):
    """What runs out of memory in its call of this number, and afterwards."""
    calls = []

    def fail():
        calls.append(1)
        if len(calls) >= number:
            raise MemoryError("no room")

    return fail


def problem_of(model, data, risk, *, messages=False, **backends):
    """The problem of a trainer that `auto` finds a backend for: one of these."""
    grounded, found = ground(model, *data), find_risk(risk)
    objective = regularized_risk(grounded.parameters, 0.1, np.ones(grounded.n_examples), None, 1.0)
    needs = TrainerNeeds(messages=messages)
    tasks, abilities, *_ = found.asks(grounded.loss, needs)
    need = need_of(grounded.parameters, tasks, Guarantee.BOUND, abilities)
    known = known_with(True, **backends)
    session = open_plan(plan_program(grounded.program, need, plugins=known), grounded.program, known, outwards=False)
    return found.problem(grounded.parameters, grounded.loss, objective, session, Threads(1), needs)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_sums_of_marginals_begin_again(number, monkeypatch):
    """A backend that fails after it has added something, in any of several calls for one gradient."""
    monkeypatch.setattr(base, "PIECE_SCORES", 1)  # an example a call
    sound = problem_of(Word, WORDS, "log", spare=Strange("chain"))
    w = np.random.default_rng(0).normal(size=sound.dim)
    strange, spare = Strange("chain", "expect", failing_at(number)), Strange("chain", cost=1e-6)
    problem = problem_of(Word, WORDS, "log", strange=strange, spare=spare)
    expected = sound.gradient(w, None)
    for _ in range(2):
        found = problem.gradient(w, None)
        np.testing.assert_allclose(found.value, expected.value, rtol=1e-12)
        np.testing.assert_allclose(found.vector, expected.vector, rtol=1e-9, atol=1e-12)
    assert strange.calls.count("expect") == number
    assert problem.session.plan.backend == "spare"


@pytest.mark.parametrize("where", ["slope", "solve"])
def test_messages_of_a_backend_that_gave_up_are_not_given_to_the_next(where):
    """They are laid out otherwise: each backend has messages of its own."""
    strange = Strange("mplp", where, failing_at(2))
    spare = Strange("msd", cost=1e-6, soft=False)
    problem = problem_of(Loopy, UNITS, "relaxed", messages=True, strange=strange, spare=spare)
    sound = problem_of(Loopy, UNITS, "relaxed", messages=True, spare=Strange("msd", soft=False))
    w, first, second = np.random.default_rng(0).normal(size=sound.dim), np.array([0, 1, 2]), np.array([3, 4])
    _, warm = problem.dual_losses(w, first, None, 2)
    assert problem.session.plan.backend == "strange"
    for ids, start in ((second, None), (first, warm)):
        found, kept = problem.dual_losses(w, ids, start, 2)
        expected, _ = sound.dual_losses(w, ids, None, 2)
        np.testing.assert_allclose(found.value, expected.value, rtol=1e-12)
    assert problem.session.plan.backend == "spare"
    again, _ = problem.dual_losses(w, first, kept, 2)  # its own are
    assert (again.value <= found.value + 1e-12).all()


def test_a_compiled_oracle_that_cannot_be_made_leaves_training_to_the_next():
    strange = Strange("chain", "compiled", raising(MemoryError("no room")))
    problem = problem_of(Word, WORDS, "margin", strange=strange, spare=Strange("chain", cost=1e-6))
    assert problem.compiled() is not None
    assert problem.session.plan.backend == "spare"
