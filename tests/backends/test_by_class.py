"""Rounding class after class: what is proved of associative networks (Taskar, Chatalbashev and Koller 2004)."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from ssvm_backends.programs.lp import rounded
from ssvm_dsl.ir import Group, Program, Question, Task, Theta
from ssvm_dsl.testing import solve
from ssvm_dsl.testing.brute_force import BruteForceSession


def associative(seed, c, n=8, n_states=4):
    """Cliques of c variables, each of which likes equal states; scores of states are not below 0."""
    rng = np.random.default_rng(seed)
    every = np.array(list(combinations(range(n), c)), dtype=np.int32)
    scope = np.sort(every[rng.permutation(len(every))[: 3 * n]], axis=1)
    ptr, states = np.array([0, n]), np.full(n, n_states, np.int32)
    m = len(scope)
    group = Group.of("equal", (n_states,) * c, scope, np.array([0, m]), np.arange(m, dtype=np.int32), m, ptr)
    program = Program(ptr, states, (group,))
    theta = Theta.zeros(program)
    favourites = np.argsort(rng.random((n, n_states)), axis=1) < 2  # what variables share, no state is for all
    theta.node[:] = (3.0 * c * favourites + 0.1 * rng.random((n, n_states))).ravel()
    table = np.zeros((m, *(n_states,) * c))
    for s in range(n_states):
        table[(slice(None), *(s,) * c)] = 1.0
    theta.tables[0][...] = table.reshape(m, -1)
    return program, theta


def relaxed(program, theta):
    found = solve(program, theta, "lp", Task.RELAXED)
    return float(found.bound[0]), found.marginals


def rounded_score(program, theta, rule):
    return float(solve(program, theta, "lp", options={"rounding": rule}).score[0])


def proved(program, theta, marginals, c):
    """The variables' part of the relaxation, and 1/c of the factors'."""
    (group,) = program.groups
    n_states = int(program.card[0])
    node = marginals.node.reshape(-1, n_states)
    equal = theta.tables[0].reshape(-1, *(n_states,) * c)
    each = np.stack([equal[(slice(None), *(s,) * c)] for s in range(n_states)], axis=1)
    kept = (each * node[group.scope].min(axis=1)).sum()
    return float((theta.node * marginals.node).sum()) + float(kept) / c


@pytest.mark.parametrize(("c", "n_seeds"), [(2, 12), (3, 12), (4, 24)])
def test_it_is_never_below_what_is_proved(c, n_seeds):
    kept, others = [], []
    for seed, (n, n_states) in product(range(n_seeds), [(8, 4), (10, 3), (9, 5)]):
        program, theta = associative(seed, c, n, n_states)
        bound, marginals = relaxed(program, theta)
        if np.abs(marginals.node - np.rint(marginals.node)).max() < 1e-3:
            continue
        score, part = rounded_score(program, theta, "by-class"), float((theta.node * marginals.node).sum())
        assert score >= proved(program, theta, marginals, c) - 1e-6
        assert score <= bound + 1e-6
        kept.append((score - part) / (bound - part))
        others.append((score, rounded_score(program, theta, "conditional")))
    assert len(kept) >= 5
    assert min(kept) >= 1.0 / c
    assert np.mean(others, axis=0)[0] >= np.mean(others, axis=0)[1]


def test_it_finds_the_optimum_of_small_problems_often():
    best = 0
    for seed in range(20):
        program, theta = associative(seed, 2, n=5, n_states=3)
        optimum = float(BruteForceSession(program).solve(Question(theta)).score[0])
        score = rounded_score(program, theta, "by-class")
        assert score <= optimum + 1e-9
        best += score >= optimum - 1e-9
    assert best >= 15


def test_the_gap_of_three_classes():
    """A triangle of three classes where each variable misses another one: the relaxation takes halves."""
    ptr = np.array([0, 3])
    scope = np.array([[0, 1], [1, 2], [0, 2]], dtype=np.int32)
    group = Group.of("equal", (3, 3), scope, np.array([0, 3]), np.zeros(3, np.int32), 1, ptr)
    program = Program(ptr, np.full(3, 3, np.int32), (group,))
    theta = Theta.zeros(program)
    node = np.zeros((3, 3))
    node[np.arange(3), np.arange(3)] = -100.0
    theta.node[:] = node.ravel()
    theta.tables[0][...] = np.eye(3).ravel()
    bound, marginals = relaxed(program, theta)
    assert bound == pytest.approx(1.5)
    np.testing.assert_allclose(marginals.node.reshape(3, 3), 0.5 * (1 - np.eye(3)), atol=1e-6)
    assert rounded_score(program, theta, "by-class") == pytest.approx(1.0)  # the best there is: two are equal
    assert rounded_score(program, theta, "by-class") >= bound / 2


@pytest.mark.parametrize("seed", range(5))
def test_any_tables_and_sizes_give_a_labelling(seed):
    rng = np.random.default_rng(seed)
    ptr, card = np.array([0, 5]), rng.integers(1, 5, 5).astype(np.int32)
    groups, tables = [], []
    for a, b in combinations(range(5), 2):
        scope = np.array([[a, b]], dtype=np.int32)
        cards = (int(card[a]), int(card[b]))
        groups.append(Group.of(f"g{a}{b}", cards, scope, np.array([0, 1]), np.zeros(1, np.int32), 1, ptr))
        tables.append(np.where(rng.random(cards) < 0.1, -np.inf, rng.normal(size=cards)))
    program = Program(ptr, card, tuple(groups))
    theta = Theta.zeros(program)
    theta.node[:] = rng.normal(size=theta.node.size)
    for out, table in zip(theta.tables, tables, strict=True):
        out[...] = table.ravel()
    best = float(BruteForceSession(program).solve(Question(theta)).score[0])
    if best > -np.inf:
        assert rounded_score(program, theta, "by-class") <= best + 1e-9


def test_all_rules_are_named():
    assert rounded.__doc__ is not None
    assert "by-class" in rounded.__doc__
