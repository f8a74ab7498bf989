"""The oracles of single structures against brute force, on the problems of the kit."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl.inference.planner import plan_program
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Need, Question, Task, Theta
from ssvm_dsl.plugin_api import ConstraintSpec
from ssvm_dsl.registry import registry

ORACLES = {"matching": "assignment", "arborescence": "arborescence", "projective-tree": "eisner"}


def problem(kind, seed):
    return registry().load(registry().find(ConstraintSpec, kind))().problem(np.random.default_rng(seed))


def asked(program, backend, *questions):
    tasks = frozenset(question.task for question in questions)
    session = open_plan(plan_program(program, Need.of(program, tasks), backend), program)
    return [session.solve(question) for question in questions]


def same(first, second):
    np.testing.assert_allclose(first.score, second.score, atol=1e-9)
    assert first.primal.tolist() == second.primal.tolist()


@pytest.mark.parametrize("kind", ORACLES)
def test_best_labellings(kind):
    seen = set()
    for seed in range(60):
        program, theta = problem(kind, seed)
        rng = np.random.default_rng(seed)
        loss = Theta.of(program, theta.node + rng.integers(0, 2, program.n_states))
        clamp = np.where(rng.random(program.n_variables) < 0.2, 0, -1).astype(np.int32)
        if program.allowed is not None:
            clamp[~program.allowed[program.state_ptr[:-1]]] = -1
        some = rng.permutation(program.n_examples)[:2]
        questions = [Question(theta), Question(loss), Question(theta, some),
                     Question(theta, task=Task.MAP_CLAMPED, clamp=clamp)]  # fmt: skip
        right = asked(program, "brute-force", *questions)
        for mine, yours in zip(asked(program, ORACLES[kind], *questions), right):
            same(mine, yours)
            seen.update(mine.primal.tolist())
    assert seen == {0, 3}  # feasible and infeasible ones


@pytest.mark.parametrize("kind", ["arborescence", "projective-tree"])
def test_marginals(kind):
    for seed in range(40):
        program, theta = problem(kind, seed)
        question = Question(theta, task=Task.MARGINALS)
        (mine,), (right,) = asked(program, ORACLES[kind], question), asked(program, "brute-force", question)
        np.testing.assert_allclose(mine.log_partition, right.log_partition, atol=1e-9)
        np.testing.assert_allclose(mine.marginals.node, right.marginals.node, atol=1e-9)


@pytest.mark.parametrize("kind", ORACLES)
def test_auto_takes_the_oracle(kind):
    program, _ = problem(kind, 1)
    assert plan_program(program, Need.of(program), "auto").backend == ORACLES[kind]


@pytest.mark.parametrize("name", ORACLES.values())
def test_conformance(name, backend_conformance):
    backend_conformance(name, n_problems=8, seed=1)
