"""Weighted sums of marginals on chains against the enumeration of all labellings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssvm_backends.trees.chain import Chain, ViterbiSession
from ssvm_dsl.ir import Group, Program, Question, Task, Theta, Topology
from ssvm_dsl.plugin_api import add_marginals
from ssvm_dsl.testing.brute_force import BruteForce
from ssvm_dsl.testing.problems import Problem, Recipe, Scores, seeded


@st.composite
def plain_chains(draw) -> Problem:
    """Chains of equal cardinality in natural order, with one table or several, masks, ``-inf``, wild scores."""
    recipe = Recipe(
        topology=Topology.CHAIN,
        n_examples=draw(st.integers(1, 4)),
        max_variables=draw(st.integers(1, 6)),
        max_card=draw(st.integers(1, 4)),
        n_templates=1,
        density=draw(st.sampled_from([1.0, 0.6])),
        same_card=True,
        shuffled=False,
        turned=False,
        repeats=False,
        tied=draw(st.booleans()),
        masks=draw(st.booleans()),
        forbidden=draw(st.booleans()),
        empty=draw(st.booleans()),
        scores=draw(st.sampled_from([Scores.NORMAL, Scores.MIXED, Scores.HUGE])),
    )
    return seeded(recipe, draw(st.integers(0, 2**16)))


def check(problem: Problem, ids: np.ndarray, coef: np.ndarray) -> bool | None:
    """Compare; returns whether the session made the offer."""
    program, theta = problem.program, problem.theta
    session = Chain().open(program, {})
    if not isinstance(session, ViterbiSession):
        return None
    rng = np.random.default_rng(0)
    before = rng.normal(size=program.n_states), [rng.normal(size=t.shape) for t in theta.tables]
    node, tables = before[0].copy(), [t.copy() for t in before[1]]
    log_z = session.expect(Question(theta, ids, Task.MARGINALS), coef, node, tables)
    if log_z is None:
        for mine, given in zip([node, *tables], [before[0], *before[1]], strict=True):
            np.testing.assert_array_equal(mine, given)
        return False
    exact = BruteForce().open(program, {}).solve(Question(theta, examples=ids, task=Task.MARGINALS))
    np.testing.assert_allclose(log_z, exact.log_partition, rtol=1e-9, atol=1e-9)
    there = np.isfinite(exact.log_partition)
    expected = before[0].copy(), [t.copy() for t in before[1]]
    add_marginals(program, exact.marginals, np.where(there, coef, 0.0), ids, *expected)
    np.testing.assert_allclose(node, expected[0], atol=1e-8)
    for mine, table in zip(tables, expected[1], strict=True):
        np.testing.assert_allclose(mine, table, atol=1e-8)
    return True


@settings(max_examples=120)
@given(plain_chains(), st.booleans(), st.randoms(use_true_random=False))
def test_sums_are_those_of_enumeration(problem, part, random):
    n = problem.program.n_examples
    ids = np.array(sorted(random.sample(range(n), (n + 1) // 2)) if part else range(n), dtype=np.int64)
    check(problem, ids, np.array([random.uniform(-1, 3) for _ in ids]))


@pytest.mark.parametrize("gap", [1.0, 150.0, 250.0, 1e4])
@pytest.mark.parametrize("where", ["node", "table"])
def test_paths_that_exponentials_would_lose_are_found(where, gap):
    """A path that looks hopeless at first wins in the end, when exponentials would have lost it long before."""
    recipe = Recipe(
        topology=Topology.CHAIN, n_examples=1, max_variables=6, max_card=2, n_templates=1, density=1.0, same_card=True,
        shuffled=False, turned=False, repeats=False, tied=True,
    )  # fmt: skip
    problem = next(p for p in (seeded(recipe, k) for k in range(200)) if np.diff(p.program.var_ptr)[0] == 6)
    node, table = problem.theta.node.reshape(-1, 2), problem.theta.tables[0].reshape(-1, 2, 2)
    node[...], table[...] = 0.0, [[0.0, -np.inf], [-np.inf, 0.0]]
    if where == "node":
        node[:5, 1], node[5, 1] = -gap, 5 * gap + 1.0
    else:
        node[0, 1], node[5, 1], table[:, 1, 1] = -gap, 6 * gap + 1.0, -gap
    assert check(problem, np.array([0]), np.array([2.0]))


def test_long_chains_keep_their_work_space():
    """Vectors of megabytes go back to the system when they are freed: writing to them would end the process."""
    n, rng = 100_000, np.random.default_rng(0)
    scope = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1).astype(np.int32)
    group = Group.of("pair", (2, 2), scope, np.array([0, n - 1]), np.zeros(n - 1, np.int32), 1, np.array([0, n]))
    program = Program(np.array([0, n]), np.full(n, 2, np.int32), (group,)).validate()
    theta = Theta.of(program, rng.normal(size=2 * n), [rng.normal(size=(1, 4))])
    node, tables = np.zeros(2 * n), [np.zeros((1, 4))]
    assert Chain().open(program, {}).expect(Question(theta, None, Task.MARGINALS), np.ones(1), node, tables) is not None
    assert tables[0].sum() == pytest.approx(n - 1)
    np.testing.assert_allclose(node.reshape(n, 2).sum(axis=1), 1.0)
