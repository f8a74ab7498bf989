"""Marginals of a selection of examples: scores and sums against explicit loops, and when they are left alone."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl.ir import Marginals, Theta
from ssvm_dsl.learning.risks.hinges.relaxed import marginals_of
from ssvm_dsl.plugin_api import add_labels, add_marginals, consistent, score_marginals
from ssvm_dsl.scores.marginals import agree
from ssvm_dsl.testing.problems import Recipe, seeded

SEEDS = pytest.mark.parametrize("seed", range(4))


def problem_of(seed):
    recipe = Recipe(n_examples=4, max_variables=5, max_arity=3, max_card=3, tied=seed % 2 == 0)
    return seeded(recipe, seed), np.array([3, 0, 2])


def random_labels(program, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0, program.card).astype(np.int32)


def terms(program, marginals, ids):
    """Each entry: (place of its example, (None, state) or (group, row, joint state), marginal)."""
    at = 0
    for k, i in enumerate(ids):
        for s in range(*program.state_ptr[program.var_ptr[i : i + 2]]):
            yield k, (None, s), marginals.node[at]
            at += 1
    for g, group in enumerate(program.groups):
        at = 0
        for k, i in enumerate(ids):
            for f in range(*group.ptr[i : i + 2]):
                for c in range(group.n_configs):
                    yield k, (g, group.table[f], c), marginals.tables[g][at, c]
                at += 1


def mixture(program, ids, seed):
    """Exact halves of two labellings."""
    one, two = (marginals_of(program, random_labels(program, s), ids) for s in (seed, seed + 100))
    tables = tuple(0.5 * a + 0.5 * b for a, b in zip(one.tables, two.tables))
    return Marginals(0.5 * one.node + 0.5 * two.node, tables)


@SEEDS
def test_scores_are_sums_over_all_entries(seed):
    problem, ids = problem_of(seed)
    program, theta, mu = problem.program, problem.theta.copy(), mixture(problem.program, ids, seed)
    expected = theta.const[ids].copy()
    for k, (g, *place), share in terms(program, mu, ids):
        expected[k] += share * (theta.node[place[0]] if g is None else theta.tables[g][tuple(place)])
    np.testing.assert_allclose(score_marginals(program, theta, mu, ids), expected, rtol=1e-12, atol=1e-12)
    unused = np.ones(theta.node.size, bool)
    unused[[place[0] for _, (g, *place), share in terms(program, mu, ids) if g is None and share > 0]] = False
    theta.node[unused] = -np.inf  # where nothing is chosen
    np.testing.assert_allclose(score_marginals(program, theta, mu, ids), expected, rtol=1e-12, atol=1e-12)


@SEEDS
def test_sums_of_marginals_and_of_labellings(seed):
    problem, ids = problem_of(seed)
    program, mu, coef = problem.program, mixture(problem.program, ids, seed), np.array([0.5, -2.0, 3.0])
    found, expected = Theta.zeros(program), Theta.zeros(program)
    add_marginals(program, mu, coef, ids, found.node, found.tables)
    for k, (g, *place), share in terms(program, mu, ids):
        target = expected.node if g is None else expected.tables[g]
        target[tuple(place)] += coef[k] * share
    np.testing.assert_allclose(found.node, expected.node, atol=1e-14)
    np.testing.assert_allclose(found.pool, expected.pool, atol=1e-14)
    labels, again = random_labels(program, seed), Theta.zeros(program)
    packed = np.concatenate([labels[program.var_ptr[i] : program.var_ptr[i + 1]] for i in ids])
    add_labels(program, packed, coef, ids, again.node, again.tables)
    expected = Theta.zeros(program)
    add_marginals(program, marginals_of(program, labels, ids), coef, ids, expected.node, expected.tables)
    np.testing.assert_array_equal(again.node, expected.node)
    np.testing.assert_allclose(again.pool, expected.pool, atol=1e-14)


@SEEDS
def test_exact_points_of_the_polytope_are_left_alone_and_others_are_not(seed):
    problem, ids = problem_of(seed)
    program, mu = problem.program, mixture(problem.program, ids, seed)
    assert agree(program, mu, ids)
    assert consistent(program, mu, ids) is mu
    zeros = Marginals(0.0 * mu.node, tuple(0.0 * table for table in mu.tables))
    assert consistent(program, zeros, ids) is zeros
    for part in (mu.node, *mu.tables):
        for number in range(0, part.size, max(1, part.size // 4)):
            for wrong in (-0.5, 1e-9, np.nan):
                kept, part.ravel()[number] = part.ravel()[number], part.ravel()[number] + wrong
                assert not agree(program, mu, ids)
                if not np.isnan(wrong):
                    rounded = consistent(program, mu, ids)
                    for group, table in zip(program.groups, rounded.tables):
                        np.testing.assert_allclose(table.reshape(-1, group.n_configs).sum(axis=1), 1.0, atol=1e-12)
                part.ravel()[number] = kept
    assert agree(program, mu, ids)
