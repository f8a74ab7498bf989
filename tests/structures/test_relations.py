"""Clusterings and orders beyond the kit: other solvers with all triangles, missing pairs, bounds, limits, mixtures."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from ortools.sat.python import cp_model
from scipy.optimize import linprog

from ssvm_backends.structures.relations.clusters import pair_bound, partition_rows
from ssvm_dsl import testing
from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir import ConstraintGroup, Group, Limits, Program, Stop, Task, Theta
from ssvm_dsl.plugin_api import Clock, program_need
from ssvm_dsl.registry import registry


def program(kind, n, pairs, factors=(), more=()):
    """One relation over variables of two states, one for each pair; factors of two variables with a table each."""
    m = len(pairs)
    first, second = (np.array([pair[side] for pair in pairs], dtype=np.int32) for side in (0, 1))
    group = ConstraintGroup(
        kind, "relation", np.array([0, 1]), np.array([0, m]), np.arange(m, dtype=np.int32), np.ones(m, np.int32),
        np.zeros(m, bool), {"n_items": np.array([n])}, {"first": first, "second": second},
    )  # fmt: skip
    ptr, scope = np.array([0, m]), np.array(factors, dtype=np.int32).reshape(-1, 2)
    groups = ()
    if len(scope):
        ends = np.array([0, len(scope)])
        groups = (Group.of("pairs", (2, 2), scope, ends, np.arange(len(scope), dtype=np.int32), len(scope), ptr),)
    made = Program(ptr, np.full(m, 2, np.int32), groups, (group, *more))
    return with_rules(made.validate(), registry())


def scores(program, gain, tables=None):
    node = np.stack([np.zeros(len(gain)), gain], axis=1)
    return Theta.of(program, node.ravel(), () if tables is None else (tables.reshape(-1, 4),))


def solve(program, theta, backend, task=Task.MAP, options=None, **limits):
    return testing.solve(program, theta, backend, task, options=options, limits=Limits(**limits), k=4)


def triangles(kind, n):
    """All rows ``sum of signed pairs <= most`` of a relation whose pairs are all there, written out by hand."""
    rows = []
    for a, b, c in itertools.combinations(range(n), 3):
        if kind == "equivalence":
            sides = [(a, b), (b, c), (a, c)]
            rows += [({sides[i]: 1, sides[j]: 1, sides[k]: -1}, 1) for i, j, k in ((0, 1, 2), (0, 2, 1), (1, 2, 0))]
        elif kind == "linear-order":
            rows += [({(a, b): 1, (b, c): 1, (a, c): -1}, 1), ({(a, b): -1, (b, c): -1, (a, c): 1}, 0)]
        else:
            rows += [({(x, y): 1, (y, z): 1, (x, z): -1}, 1) for x, y, z in itertools.permutations((a, b, c))]
    return rows


def pairs_of(kind, n):
    return list(itertools.permutations(range(n), 2) if kind == "transitive" else itertools.combinations(range(n), 2))


def by_all_triangles(kind, n, gain):
    """The optimum by CP-SAT on the plain model."""
    model, pairs = cp_model.CpModel(), pairs_of(kind, n)
    x = {pair: model.new_bool_var("") for pair in pairs}
    for row, most in triangles(kind, n):
        model.add(sum(sign * x[pair] for pair, sign in row.items()) <= most)
    model.maximize(sum(int(g) * x[pair] for pair, g in zip(pairs, gain)))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return solver.objective_value


@pytest.mark.parametrize("backend", ["relations", "ilp", "decompose"])
@pytest.mark.parametrize(("kind", "n"), [("equivalence", 11), ("linear-order", 11), ("transitive", 8)])
def test_optima_are_those_of_a_plain_model_with_all_triangles(kind, n, backend):
    for seed in range(2):
        pairs = pairs_of(kind, n)
        gain = np.random.default_rng(seed).integers(-20, 21, len(pairs)).astype(float)
        made = program(kind, n, pairs)
        found = solve(made, scores(made, gain), backend)
        assert found.score[0] == found.bound[0] == by_all_triangles(kind, n, gain)


@pytest.mark.parametrize("kind", ["equivalence", "linear-order", "transitive"])
def test_relaxations_are_those_of_all_triangles(kind):
    n = 9
    pairs = pairs_of(kind, n)
    number = {pair: i for i, pair in enumerate(pairs)}
    gain = np.random.default_rng(0).normal(size=len(pairs))
    rows = triangles(kind, n)
    matrix = np.zeros((len(rows), len(pairs)))
    for r, (row, _) in enumerate(rows):
        for pair, sign in row.items():
            matrix[r, number[pair]] = sign
    best = -linprog(-gain, A_ub=matrix, b_ub=[most for _, most in rows], bounds=(0, 1)).fun
    made = program(kind, n, pairs)
    relaxed = solve(made, scores(made, gain), "lp", Task.RELAXED)
    assert relaxed.score[0] == pytest.approx(best, abs=1e-3)
    assert best - 1e-9 <= relaxed.bound[0] <= best + 1e-3
    ascended = solve(made, scores(made, gain), "relations", options={"max_conflicts": 0})
    exact = solve(made, scores(made, gain), "relations")
    assert max(exact.score[0], best - 1e-9) <= ascended.bound[0] or ascended.stop[0] == Stop.FINISHED
    assert ascended.bound[0] <= best + 0.01 * abs(best)


def rings(n):
    """The pairs of a ring of n items, in alternating directions."""
    return [(i, (i + 1) % n) if i % 2 else ((i + 1) % n, i) for i in range(n)]


@pytest.mark.parametrize("backend", ["relations", "ilp", "lp", "decompose"])
def test_rings_without_triangles(backend):
    n = 9
    ring = program("equivalence", n, rings(n))
    gain = np.ones(n)
    gain[4] = -0.5  # all together but one pair: that one is together as well, or another is apart
    assert solve(ring, scores(ring, gain), backend).score[0] == pytest.approx(n - 1.5)
    gain[4] = -3.0
    assert solve(ring, scores(ring, gain), backend).score[0] == pytest.approx(n - 2)
    for kind in ("linear-order", "acyclic"):
        ordered = program(kind, n, [(i, (i + 1) % n) for i in range(n)])
        assert solve(ordered, scores(ordered, np.ones(n)), backend).score[0] == pytest.approx(n - 1)
    chain = program("transitive", n, [*((i, i + 1) for i in range(n - 1)), (0, n - 1)])
    gain = np.ones(n)
    gain[-1] = -2.5
    assert solve(chain, scores(chain, gain), backend).score[0] == pytest.approx(n - 2)


def planted(n, n_clusters, seed, spread=1.188):
    """Pairs, noisy gains (a fifth of all have the wrong sign), and the clusters that they are about."""
    rng, pairs = np.random.default_rng(seed), np.array(list(itertools.combinations(range(n), 2)))
    of = np.arange(n) % n_clusters
    together = of[pairs[:, 0]] == of[pairs[:, 1]]
    return pairs, np.where(together, 1.0, -1.0) + spread * rng.normal(size=len(pairs)), together


def test_planted_clusters_are_found_and_proved():
    pairs, gain, together = planted(60, 3, 0)
    assert 0.15 < ((gain > 0) != together).mean() < 0.25
    made = program("equivalence", 60, pairs)
    found = solve(made, scores(made, gain), "relations", options={"max_conflicts": 0})
    assert found.labels.tolist() == together.astype(int).tolist()
    assert found.bound[0] <= found.score[0] * (1 + 1e-6)
    assert found.stats == {}


def test_limits_leave_a_labelling_and_a_bound():
    rng = np.random.default_rng(0)
    for kind, n in (("equivalence", 24), ("linear-order", 24), ("transitive", 14), ("acyclic", 16)):
        pairs = list(itertools.permutations(range(n), 2)) if kind in ("transitive", "acyclic") else pairs_of(kind, n)
        made = program(kind, n, pairs)
        theta = scores(made, rng.normal(size=len(pairs)))
        for backend, options, limits in (
            ("relations", {"max_conflicts": 0}, {}),
            ("relations", {}, {"iterations": 1}),
            ("ilp", {}, {"iterations": 1}),
        ):  # fmt: skip
            found = solve(made, theta, backend, options=options, **limits)
            assert -np.inf < found.score[0] <= found.bound[0] < np.inf
            assert not made.constraints[0].broken(found.labels, made.var_ptr).any()


@pytest.mark.parametrize("kind", ["equivalence", "linear-order", "transitive", "acyclic"])
@pytest.mark.parametrize("backend", ["ilp", "decompose"])
def test_mixtures_with_factors_and_counts(kind, backend):
    rng = np.random.default_rng(3)
    pairs = [pair for pair in pairs_of("transitive" if kind == "acyclic" else kind, 4) if rng.random() < 0.8]
    m = len(pairs)
    count = ConstraintGroup(
        "count", "few", np.array([0, 1]), np.array([0, m]), np.arange(m, dtype=np.int32), np.ones(m, np.int32),
        np.zeros(m, bool), {"lower": np.array([1.0]), "upper": np.array([3.0])},
    )  # fmt: skip
    made = program(kind, 4, pairs, [(a, b) for a in range(m) for b in range(a + 1, m) if rng.random() < 0.4], (count,))
    theta = scores(made, rng.normal(size=m), rng.normal(size=(made.groups[0].n_factors, 4)))
    expected = solve(made, theta, "brute-force")
    np.testing.assert_allclose(solve(made, theta, backend).score, expected.score, atol=1e-6)
    if backend == "ilp":
        ranked, right = (solve(made, theta, one, Task.KBEST) for one in (backend, "brute-force"))
        np.testing.assert_allclose(ranked.score, right.score, atol=1e-6)
        relaxed = solve(made, theta, "lp", Task.RELAXED)
        assert relaxed.bound[0] >= expected.score[0] - 1e-9


def test_auto_takes_the_oracle_of_relations():
    made = program("equivalence", 12, pairs_of("equivalence", 12))
    assert plan_program(made, program_need(made)).backend == "relations"
    ranked = plan_program(made, program_need(made, frozenset({Task.KBEST})))
    assert ranked.backend == "ilp"


def clusterings(n):
    """All clusterings of n items, one a row: the number of each item's cluster, numbered as they first occur."""
    found = [()]
    for _ in range(n):
        found = [(*one, c) for one in found for c in range(max(one, default=-1) + 2)]
    return np.array(found)


@pytest.mark.parametrize("most", [3, 5, 8])
@pytest.mark.parametrize("backend", ["relations", "ilp"])
def test_one_item_is_with_one_of_many_that_are_apart(backend, most):
    # triangles alone allow one half with each
    pairs = list(itertools.combinations(range(most + 1), 2))
    gain = np.array([1.0 if a == 0 else -1.0 for a, _ in pairs])
    made = program("equivalence", most + 1, pairs)
    found = solve(made, scores(made, gain), backend)
    assert found.score[0] <= 1.0 + 1e-9
    assert found.bound[0] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_semidefinite_bounds_hold_for_all_clusterings(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    a, b = np.triu_indices(n, 1)
    gain = rng.normal(size=len(a)) * 10.0 ** rng.integers(-9, 10)
    if seed % 3 == 0:
        gain = np.sign(gain) * np.exp(6.0 * rng.normal(size=len(a)))
    if seed % 4 == 0:
        gain = rng.integers(-2, 3, len(a)).astype(float)
    high = (rng.random(len(a)) < 0.8).astype(float)
    each = clusterings(n)
    true = each[:, a] == each[:, b]
    true = true[(true <= high).all(axis=1)]
    value, size = true @ gain, np.abs(gain).sum()
    rules = program("equivalence", n, list(zip(a.tolist(), b.tolist()))).constraints[0]
    separate = partial(rules.rules.violated_rows, rules, 0)
    for floor in (value.max(), value.max() - size, -np.inf):
        found = pair_bound(separate, n, gain, high, floor, Clock.start(Limits()))
        assert found.bound >= value.max() - 1e-13 * size
        # a pair at its other end loses as much of the bound
        lost = np.where(true, np.maximum(-found.reduced, 0.0), np.maximum(found.reduced * high, 0.0)).max(axis=1)
        assert (value <= found.bound - lost + 1e-9 * size).all()


def test_semidefinite_bounds_end_at_once_where_time_is_up_or_nothing_gains():
    def never(point, least):
        raise AssertionError("no rows are asked for")

    gain = np.ones(3)
    late = pair_bound(never, 3, gain, gain, 0.0, Clock(0.0, Limits()))
    assert late.bound == 3.0
    assert pair_bound(never, 3, np.zeros(3), gain, 0.0, Clock.start(Limits())).bound == 0.0
    assert pair_bound(never, 3, gain, np.zeros(3), 0.0, Clock.start(Limits())).bound == 0.0


@pytest.mark.parametrize(("n", "forced"), [(7, 0), (7, 3), (8, 2)])
@pytest.mark.parametrize("seed", range(6))
def test_clusterings_are_the_best_of_all(n, forced, seed):
    rng = np.random.default_rng(seed)
    pairs = list(itertools.combinations(range(n), 2))
    a, b = np.array(pairs).T
    gain = rng.normal(size=len(pairs)) + 0.2
    node = np.stack([np.zeros(len(pairs)), gain], axis=1)
    fixed, state = rng.choice(len(pairs), forced, replace=False), rng.integers(0, 2, forced)
    node[fixed, 1 - state] = -np.inf
    made, each = program("equivalence", n, pairs), clusterings(n)
    true = (each[:, a] == each[:, b]).astype(int)
    best = node[np.arange(len(pairs)), true].sum(axis=1).max()
    found = solve(made, Theta.of(made, node.ravel()), "relations")
    assert found.score[0] == pytest.approx(best, abs=1e-9)
    assert found.bound[0] == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize(("n", "n_clusters"), [(40, 8), (60, 10), (120, 10)])
def test_many_clusters_in_noise_are_proved(n, n_clusters):
    rng = np.random.default_rng(0)
    pairs = pairs_of("equivalence", n)
    a, b = np.array(pairs).T
    gain = np.where(a % n_clusters == b % n_clusters, 1.0, -1.0) + 1.188 * rng.normal(size=len(pairs))
    made = program("equivalence", n, pairs)
    found = solve(made, scores(made, gain), "relations")
    assert found.stop[0] == Stop.FINISHED
    assert found.bound[0] == pytest.approx(found.score[0], rel=1e-9)
    assert found.score[0] >= gain[a % n_clusters == b % n_clusters].sum() - 1e-9
    rules = made.constraints[0]
    assert not rules.rules.violated(rules, found.labels == 1).any()


def test_a_search_for_clusters_ends_after_so_many_parts():
    n = 34
    rng, pairs = np.random.default_rng(0), pairs_of("equivalence", n)
    gain = rng.normal(size=len(pairs))
    made = program("equivalence", n, pairs)
    short = solve(made, scores(made, gain), "relations", options={"max_conflicts": 0})
    longer = solve(made, scores(made, gain), "relations", options={"max_conflicts": 8})
    assert short.stop[0] == longer.stop[0] == Stop.ITERATIONS
    assert short.score[0] <= longer.score[0] <= longer.bound[0] <= short.bound[0]
    assert (short.bound[0] - short.score[0]) / short.score[0] < 0.3


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_sets_hold_for_all_clusterings(seed):
    rng, n = np.random.default_rng(seed), 8
    a, b = np.triu_indices(n, 1)
    point = np.where(rng.random(len(a)) < 0.6, 0.5, 0.0)
    rows = partition_rows(n, point, 0.01)
    matrix = np.zeros((rows.n_rows, len(a)))
    np.add.at(matrix, (np.repeat(np.arange(rows.n_rows), np.diff(rows.ptr)), rows.column), rows.coefficient)
    each = clusterings(n)
    assert ((each[:, a] == each[:, b]) @ matrix.T >= rows.lower).all()
    assert (matrix @ point <= rows.lower - 0.01 + 1e-12).all()
    # an item that is half together with three that are apart
    star = np.where(a == 0, 0.5, 0.0)
    assert partition_rows(n, star, 0.4).n_rows
    assert not partition_rows(n, (each[seed][a] == each[seed][b]).astype(np.float64), 0.4).n_rows
