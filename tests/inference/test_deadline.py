"""Answers within a limit: loading inside a call counts against none, and what was found first is kept."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Caps, Guarantee, Primal, Question, Solution, Stop
from ssvm_dsl.loading import loading
from ssvm_dsl.plugin_api import BackendSpec, Verdict, hookimpl, score_labels
from ssvm_dsl.testing.problems import Recipe, seeded
from toy_backends import registered


class Loads:
    """Loads something in its first answer, which time cuts short; the answers are given."""

    loads, answers, asked = True, [], []

    @hookimpl
    def ssvm_backends(self):
        yield BackendSpec("loads", "test_deadline:Loads", caps=Caps(guarantee=Guarantee.BOUND, max_arity=9))

    def check(self, need):
        return Verdict(True, 1.0)

    def open(self, program, options):
        return self

    def solve(self, question):
        self.asked.append(question.limits.time)
        if self.loads and len(self.asked) == 1:
            with loading():
                time.sleep(0.01)
        return self.answers[len(self.asked) - 1]


@pytest.fixture
def asked(monkeypatch):
    """Ask the backend that gives these answers within a limit; return the answer, and what limits it was given."""

    def ask(problem, answers, loads=True):
        monkeypatch.setattr(Loads, "answers", answers)
        monkeypatch.setattr(Loads, "asked", [])
        monkeypatch.setattr(Loads, "loads", loads)
        with registered(Loads(), "loads"), within(Deadline(100.0)):
            session = open_plan(Plan("loads", "", ""), problem.program, outwards=False)
            return session.solve(Question(problem.theta)), Loads.asked

    return ask


def answer(problem, labels, stop=Stop.TIME, above=3.0):
    """Labels of all examples, ``None`` where there are none, with bounds so far above the scores of the first ones."""
    program = problem.program
    n = program.n_examples
    there = np.array([one is not None for one in labels])
    states = np.concatenate([
        np.zeros(size, np.int32) if one is None else np.full(size, one, np.int32)
        for one, size in zip(labels, np.diff(program.var_ptr), strict=True)
    ])  # fmt: skip
    score = np.where(there, score_labels(program, problem.theta, states), -np.inf)
    primal = np.where(there, Primal.FEASIBLE, Primal.NONE).astype(np.int8)
    return Solution(states, score, np.full(n, above), np.full(n, stop, np.int8), primal)


def test_a_second_answer_takes_nothing_from_the_first(asked):
    problem = seeded(Recipe(max_arity=2, masks=False, same_card=True), 0)
    program = problem.program
    n, owner = program.n_examples, np.repeat(np.arange(program.n_examples), np.diff(program.var_ptr))
    assert n >= 2
    of = [score_labels(program, problem.theta, np.full(program.n_variables, state, np.int32)) for state in (0, 1)]
    better = (of[1] > of[0]).astype(int)  # the state of all variables that is the better one
    first = answer(problem, [1 - k if i == 1 else k for i, k in enumerate(better)], above=500.0)
    second = answer(problem, [k if i == 1 else 1 - k for i, k in enumerate(better)], above=400.0)
    found, limits = asked(problem, [first, second])
    assert len(limits) == 2
    assert all(0.0 < one <= 100.0 for one in limits)
    np.testing.assert_array_equal(found.labels, better[owner])
    np.testing.assert_allclose(found.score, np.maximum(*of), rtol=1e-12)
    np.testing.assert_array_equal(found.bound, np.full(n, 400.0))
    assert (found.primal == Primal.FEASIBLE).all()


def test_without_loading_it_is_asked_once(asked):
    problem = seeded(Recipe(max_arity=2, masks=False), 0)
    _, limits = asked(problem, [answer(problem, [0] * problem.program.n_examples, above=500.0)], loads=False)
    assert len(limits) == 1


def test_one_that_has_finished_is_asked_once(asked):
    problem = seeded(Recipe(max_arity=2, masks=False), 0)
    done = answer(problem, [0] * problem.program.n_examples, Stop.FINISHED, above=500.0)
    assert len(asked(problem, [done])[1]) == 1
