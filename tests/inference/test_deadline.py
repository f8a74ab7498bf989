"""Answers within a limit: loading inside a call counts against none, and what was found first is kept."""

from __future__ import annotations

import time

import numpy as np

from ssvm_dsl.inference.deadline import Deadline, answer_within
from ssvm_dsl.ir import Primal, Question, Solution, Stop
from ssvm_dsl.plugin_api.hosting.loading import loading
from ssvm_dsl.testing.problems import Recipe, seeded


class Loads:
    """Loads something in its first answer, which time cuts short; the answers are given."""

    def __init__(self, program, answers):
        self.program, self.answers, self.asked = program, list(answers), []

    def solve(self, question, known=None):
        self.asked.append(question.limits.time)
        if len(self.asked) == 1:
            with loading():
                time.sleep(0.01)
        return self.answers[len(self.asked) - 1]


def answer(program, state, score, bound):
    n = program.n_examples
    stop, primal = np.full(n, Stop.TIME, np.int8), np.where(np.isneginf(score), Primal.NONE, Primal.FEASIBLE)
    labels = np.full(program.n_variables, state, np.int32)
    return Solution(labels, np.array(score), np.array(bound), stop, primal.astype(np.int8))


def test_a_second_answer_takes_nothing_from_the_first():
    problem = seeded(Recipe(max_arity=2), 0)
    program = problem.program
    n = program.n_examples
    assert n >= 2
    good, bad = np.zeros(n), np.full(n, -1.0)
    first, second = good.copy(), bad.copy()
    first[1], second[1] = -np.inf, -2.0  # the second one has what the first lacks
    session = Loads(program, [answer(program, 0, first, good + 3.0), answer(program, 1, second, good + 4.0)])
    found = answer_within(session, Deadline(100.0), Question(problem.theta))
    assert len(session.asked) == 2
    owner = np.repeat(np.arange(n), np.diff(program.var_ptr))
    np.testing.assert_array_equal(found.labels, owner == 1)
    np.testing.assert_array_equal(found.score, np.where(np.arange(n) == 1, -2.0, 0.0))
    np.testing.assert_array_equal(found.bound, good + 3.0)
    assert (found.primal == Primal.FEASIBLE).all()


def test_without_loading_it_is_asked_once():
    problem = seeded(Recipe(max_arity=2), 0)
    score = np.zeros(problem.program.n_examples)
    session = Loads(problem.program, [None, answer(problem.program, 0, score, score)])
    session.asked.append(0.0)  # the loading call is over
    answer_within(session, Deadline(100.0), Question(problem.theta))
    assert len(session.asked) == 2
