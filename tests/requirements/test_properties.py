"""Properties of tables against their definitions, loop by loop, and what declarations guarantee."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ssvm_dsl import POTTS, Dim, Edges, Factor, Input, JointFeature, Label, Model, along, chain, cliques, ground, pairs
from ssvm_dsl.ir import Group, Program, Theta
from ssvm_dsl.requirements.properties import (
    BINARY,
    METRIC,
    SEMIMETRIC,
    SUBMODULAR,
    doubts,
    guaranteed_properties,
    table_properties,
)

ALL = {BINARY, SUBMODULAR, METRIC, SEMIMETRIC}
MANY = {METRIC, SEMIMETRIC}
INF = np.inf


def of_tables(*tables):
    """Properties of one example with a factor for each table."""
    cards, groups, rows = [], [], []
    for k, table in enumerate(tables):
        first = len(cards)
        cards += np.shape(table)
        scope = np.arange(first, len(cards), dtype=np.int32)[None]
        one, ends = np.zeros(1, np.int32), np.array([0, len(cards)])
        groups.append(Group.of(f"g{k}", np.shape(table), scope, np.array([0, 1]), one, 1, ends))
        rows.append(np.ravel(table)[None])
    program = Program(np.array([0, len(cards)]), np.array(cards, np.int32), tuple(groups)).validate()
    return table_properties(program, Theta.of(program, None, rows))


def naive(t):
    """The definitions of the module, as loops."""
    n, m = t.shape
    states = range(min(n, m))
    found = {BINARY} if max(n, m) <= 2 else set()
    monge = (t[a, b] + t[a + 1, b + 1] >= t[a, b + 1] + t[a + 1, b] for a in range(n - 1) for b in range(m - 1))
    if all(monge):
        found.add(SUBMODULAR)
    if all(t[a, b] + t[c, c] >= t[a, c] + t[c, b] for a in range(n) for b in range(m) for c in states):
        found.add(METRIC)
    if all(t[a, a] + t[b, b] >= t[a, b] + t[b, a] for a in states for b in states):
        found.add(SEMIMETRIC)
    return found


def test_random_tables_of_two_variables():
    rng, met = np.random.default_rng(0), set()
    for _ in range(3000):
        n, m = rng.integers(1, 4, 2)
        t = rng.integers(-1, 1, (n, m)).astype(float)
        t[np.arange(min(n, m)), np.arange(min(n, m))] += rng.integers(0, 2)
        found = of_tables(t)
        assert found == naive(t), t
        met.add(found)
    assert len(met) == 7  # all that can occur: submodular or metric tables are semimetric


def test_known_tables():
    at = np.arange(4)
    gap = np.abs(np.subtract.outer(at, at)).astype(float)
    assert of_tables(-gap) == {SUBMODULAR, METRIC, SEMIMETRIC}
    assert of_tables(-np.minimum(gap, 2)) == MANY
    assert of_tables(np.eye(4)) == MANY
    assert of_tables(-(gap**2)) == {SUBMODULAR, SEMIMETRIC}
    assert of_tables(gap) == set()
    assert of_tables(np.eye(2)) == ALL
    assert of_tables(1 - np.eye(2)) == {BINARY}
    assert of_tables(np.eye(2), -gap) == ALL - {BINARY}
    assert of_tables(np.eye(2), gap) == set()


def test_all_two_variable_properties_are_one_on_binary_tables():
    rng = np.random.default_rng(1)
    for _ in range(200):
        assert len(of_tables(rng.normal(size=(2, 2)))) in (1, 4)


def test_tables_of_three_variables():
    x = np.indices((2, 2, 2))
    both = x.prod(axis=0) + (1 - x).prod(axis=0)
    assert of_tables(both.astype(float)) == {BINARY, SUBMODULAR}
    assert of_tables(-both.astype(float)) == {BINARY}
    rng = np.random.default_rng(2)
    for _ in range(200):
        t = rng.integers(0, 2, (2, 2, 2)) + 2 * rng.integers(0, 2) * both
        lacks = any(min(s[0, 0] + s[1, 1] - s[0, 1] - s[1, 0] for s in np.moveaxis(t, k, 0)) < 0 for k in range(3))
        assert (SUBMODULAR in of_tables(t.astype(float))) != lacks


def test_forbidden_entries():
    assert of_tables([[0.0, -INF], [-INF, 0.0]]) == {BINARY, SUBMODULAR}
    assert of_tables([[0.0, -INF], [5.0, 0.0]]) == {BINARY, SUBMODULAR}
    assert of_tables([[-INF, 0.0], [0.0, 0.0]]) == {BINARY}
    assert of_tables(np.where(np.eye(3) > 0, 0.0, -INF)) == set()
    assert of_tables(np.where(np.indices((2, 2, 2)).sum(axis=0) == 1, -INF, 0.0)) == {BINARY}


def test_rows_that_no_factor_uses_do_not_count():
    scope = np.array([[0, 1]], np.int32)
    group = Group.of("g", (2, 2), scope, np.array([0, 1]), np.array([1], np.int32), 2, np.array([0, 2]))
    program = Program(np.array([0, 2]), np.full(2, 2, np.int32), (group,)).validate()
    assert table_properties(program, Theta.of(program, None, [[[0, 1, 1, 0], [1, 0, 0, 1]]])) == ALL


def test_no_factors_have_all_properties():
    program = Program(np.array([0, 1]), np.array([3], np.int32))
    assert table_properties(program, Theta.zeros(program)) == ALL - {BINARY}


def agree_at(x):
    table = np.zeros((len(x) - 1, 3, 3, 2))
    table[..., 0] = np.eye(3)
    table[..., 1] = -np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    return table


def model(card, make):
    """A grid model with one pairwise template."""

    class Grid(Model):
        H, W = Dim(), Dim()
        x = Input(H, W, 2)
        y = Label(H, W, card)
        data = Factor(y, features=x)
        pair = make(y, W)

    return Grid


def graph_model(nonneg):
    class Graph(Model):
        N, M = Dim(), Dim()
        x = Input(N, 2)
        e = Edges(M, over=N)
        f = Input(M, 2)
        y = Label(N, 3)
        edge = Factor(along(y, e), features=f, form=POTTS, nonneg=nonneg)

    return Graph


GRID = [np.random.default_rng(0).normal(size=(3, 4, 2))]


@pytest.mark.parametrize(
    ("card", "make", "expected"),
    [
        (2, lambda y, axis: Factor(pairs(y, axis), form=POTTS, nonneg=True), ALL),
        (5, lambda y, axis: Factor(pairs(y, axis), form=POTTS, nonneg=True), MANY),
        (2, lambda y, axis: Factor(pairs(y, axis), form=POTTS), {BINARY}),
        (2, lambda y, axis: Factor(pairs(y, axis)), {BINARY}),
        (2, lambda y, axis: Factor(pairs(y, axis), nonneg=True), {BINARY}),
        (3, lambda y, axis: Factor(pairs(y, axis), form=-np.abs(np.subtract.outer(range(3), range(3)))[None],
                                   nonneg=True), ALL - {BINARY}),
        # a score of one variable alone is modular: its negative is submodular too
        (3, lambda y, axis: Factor(pairs(y, axis), form=np.indices((3, 3))[:1]), ALL - {BINARY}),
    ],
)  # fmt: skip
def test_what_forms_and_bounds_guarantee(card, make, expected):
    grounded = ground(model(card, make), GRID)
    assert guaranteed_properties(grounded.parameters) == expected


def test_features_must_not_be_negative():
    edges = np.array([[0, 1], [1, 2]])
    for f, nonneg, expected in [
        (np.ones((2, 2)), True, MANY),
        (np.array([[1.0, 0.0], [0.0, -1e-9]]), True, set()),
        (np.ones((2, 2)), False, set()),
    ]:
        example = {"x": np.ones((3, 2)), "e": edges, "f": f}
        assert guaranteed_properties(ground(graph_model(nonneg), [example]).parameters) == expected


def test_doubts_do_not_depend_on_the_other_examples():
    """What a model guarantees is said of a chain, of an example without edges and of a cycle alike."""
    edges = [np.array([[0, 1], [1, 2]]), np.array([[0, 1], [1, 2], [2, 0]]), np.zeros((0, 2), int)]
    examples = [{"x": np.ones((3, 2)), "e": e, "f": np.ones((len(e), 2))} for e in edges]
    for nonneg in (True, False):
        parameters = [ground(graph_model(nonneg), some).parameters for some in ([examples[i]] for i in range(3))]
        parameters.append(ground(graph_model(nonneg), examples).parameters)
        assert all(doubts(one) == doubts(parameters[0]) for one in parameters)
        assert (set(doubts(parameters[0])) == {SUBMODULAR}) == nonneg
    examples[1]["f"][2, 1] = -0.5
    for some, number in ((examples, 1), (examples[1:2], 0), (examples[1:], 0)):
        told = doubts(ground(graph_model(True), some).parameters)
        assert told[METRIC].startswith("input 'f' of factor ")
        assert told[METRIC].endswith(f"is negative in example {number} (-0.5)")


def test_joint_features_are_looked_at_one_by_one():
    class Joint(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, 3)
        pair = Factor(chain(y), features=JointFeature(agree_at, width=2), nonneg=True)

    assert guaranteed_properties(ground(Joint, [np.ones((4, 2))]).parameters) == MANY

    def reversed_at_seven(x):
        return -agree_at(x) if x[0, 0] == 7.0 else agree_at(x)

    class Other(Joint):
        pair = Factor(chain(Joint.y), features=JointFeature(reversed_at_seven, width=2), nonneg=True)

    told = doubts(ground(Other, [np.ones((4, 2)), np.full((3, 2), 7.0)]).parameters, first=10)
    assert told[METRIC].endswith("not metric in example 11")


def test_a_triple_has_no_metric():
    class Triple(Model):
        K = Dim(3)
        x = Input(2)
        y = Label(K, 2)
        triple = Factor(cliques(y, [(0, 1, 2)]), form=POTTS, nonneg=True)

    assert guaranteed_properties(ground(Triple, [np.ones(2)]).parameters) == {BINARY, SUBMODULAR}


def test_guarantees_hold_for_random_weights_within_their_bounds():
    rng = np.random.default_rng(5)
    for card in (2, 4):
        grounded = ground(model(card, lambda y, axis: Factor(pairs(y, axis), form=POTTS, nonneg=True)), GRID)
        parameters = grounded.parameters
        for _ in range(20):
            w = np.maximum(rng.normal(size=parameters.dim), parameters.lower_bound)
            theta = parameters.scores(w)
            assert guaranteed_properties(parameters) <= table_properties(grounded.program, theta)


def test_every_combination_is_a_cone():
    rng, kept = np.random.default_rng(7), {name: [] for name in (SUBMODULAR, METRIC, SEMIMETRIC)}
    for _ in range(400):
        t = rng.normal(size=(3, 3)) + 1.5 * np.eye(3)
        for name in of_tables(t) & set(kept):
            kept[name].append(t)
    for name, tables in kept.items():
        assert len(tables) > 3
        for a, b in itertools.pairwise(tables[:20]):
            assert name in of_tables(rng.random() * a + rng.random() * b)
