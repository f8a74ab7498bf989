"""Components of one problem answered by different backends: the same answers as brute force on the whole."""

from __future__ import annotations

import numpy as np
import pytest

from combinations import crossed
from ssvm_dsl.inference.checked import CheckedSession
from ssvm_dsl.inference.component_session import ComponentSession
from ssvm_dsl.inference.planning.components import component_groups
from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Group, Guarantee, Limits, Primal, Program, Question, Stop, Task, Theta, Topology
from ssvm_dsl.plugin_api import program_need
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.problems import Recipe, seeded

TASKS = (Task.MAP, Task.MAP_CLAMPED, Task.MARGINALS)


def mixed_problem(seed):
    """Examples with chains, trees, single variables and cycles side by side."""
    recipe = Recipe(
        max_arity=3, n_examples=4, max_variables=8, max_card=2, density=0.3, masks=seed % 2 == 0,
        forbidden=seed % 3 == 0, tied=seed % 2 == 1, empty=True,
    )  # fmt: skip
    return seeded(recipe, seed)


def by_hand(program):
    """A plan that gives every part to its own kind of backend."""
    names = {Topology.CHAIN: "chain", Topology.FOREST: "tree", Topology.LOOPY: "brute-force"}
    parts = component_groups(program)
    plans = tuple(Plan(names[part.program.hardest_topology], "", "") for part in parts)
    return Plan("+".join(one.backend for one in plans), "", "", components=plans), parts


@crossed(task=TASKS, seed=range(25))
def test_parts_answer_like_the_whole(seed, task):
    problem = mixed_problem(seed)
    program, theta, rng = problem.program, problem.theta, np.random.default_rng(seed)
    theta.const[:] = rng.normal(size=program.n_examples)
    plan, parts = by_hand(program)
    assert sum(part.program.n_variables for part in parts) == program.n_variables
    clamp = None
    if task is Task.MAP_CLAMPED:
        clamp = np.where(rng.random(program.n_variables) < 0.3, 0, -1).astype(np.int32)
    ids = rng.permutation(program.n_examples)[: rng.integers(1, program.n_examples + 1)].astype(np.int64)
    for examples in (None, ids):
        question = Question(theta, examples, task, clamp)
        mine = ComponentSession(plan, program, registry()).solve(question)
        right = CheckedSession(Plan("brute-force", "", ""), program, registry()).solve(question)
        if task is Task.MARGINALS:
            np.testing.assert_allclose(mine.log_partition, right.log_partition, rtol=1e-9)
            possible = np.isfinite(right.log_partition).all()
            pairs = [(mine.marginals.node, right.marginals.node)]
            for a, b in [*pairs, *zip(mine.marginals.tables, right.marginals.tables)]:
                assert a.shape == b.shape
                assert not possible or np.allclose(a, b, atol=1e-9)
        else:
            np.testing.assert_array_equal(mine.primal == Primal.INFEASIBLE, right.primal == Primal.INFEASIBLE)
            np.testing.assert_allclose(mine.score, right.score, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(mine.bound, right.bound, rtol=1e-12, atol=1e-12)


def chain_beside_a_cycle():
    """Example 0: a long chain; example 1: a chain and a cycle of six."""
    chain = [(v, v + 1) for v in range(39)] + [(40 + v, 41 + v) for v in range(29)]
    cycle = [(70 + v, 70 + (v + 1) % 6) for v in range(6)]
    scope = np.array(chain + cycle, np.int32)
    group = Group.of("t", (2, 2), scope, np.array([0, 39, 74]), np.zeros(74, np.int32), 1, np.array([0, 40, 76]))
    program = Program(np.array([0, 40, 76]), np.full(76, 2, np.int32), (group,)).validate()
    rng = np.random.default_rng(0)
    return program, Theta.of(program, rng.normal(size=152), [rng.normal(size=(1, 4))])


def test_auto_gives_parts_to_different_backends():
    program, theta = chain_beside_a_cycle()
    plan = plan_program(program, program_need(program))
    assert plan.components[0].backend == "chain"
    assert plan.components[1].backend != "chain"
    assert "2 components to chain" in plan.reason
    assert Plan.of_summary(plan.summary()).summary() == plan.summary()
    session = open_plan(plan, program)
    assert session.guarantee is Guarantee.EXACT
    assert session.compiled() is None
    told = []
    solution = session.solve(Question(theta, limits=Limits(time=20.0, progress=lambda *state: told.append(state))))
    assert solution.optimal().all()
    assert told == [] or np.isfinite(told[-1]).all()


@pytest.mark.parametrize("task", [Task.MAP, Task.MARGINALS])
def test_after_ctrl_c_the_other_parts_are_not_searched(task, monkeypatch):
    """A backend may take Ctrl-C for the end of its search; the others then show starting labellings."""
    problem = next(one for one in map(mixed_problem, range(99)) if len(component_groups(one.program)) > 1)
    plan, _ = by_hand(problem.program)
    session, asked = ComponentSession(plan, problem.program, registry()), []
    first, *others = [one.inner for one in session.sessions]
    solve = first.solve

    def pressed(question):
        found = solve(question)
        found.stop[:] = Stop.INTERRUPTED
        return found

    monkeypatch.setattr(first, "solve", pressed)
    for one in others:
        monkeypatch.setattr(one, "solve", asked.append)
    found = session.solve(Question(problem.theta, task=task))
    assert not asked
    assert (found.stop == Stop.INTERRUPTED).any()
    if task is Task.MARGINALS:
        np.testing.assert_array_equal(np.isnan(found.log_partition), found.stop != Stop.FINISHED)
    else:
        finite = found.primal == Primal.FEASIBLE
        assert finite.any()
        assert (found.score <= found.bound + 1e-9)[finite].all()
