"""``ad3`` under hard constraints: projections, certified bounds, the relaxation of ``lp``, feasible labellings.

Directed trees are one factor, whose relaxation is that of all trees: the marginals are mixtures of them.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import nnls

from constraints import few_runs
from constraints.constraint_cases import group_of, random_constraints, unlinked, with_pairs
from ssvm_backends.dual.admm.acceleration import MEMORY, History, next_point
from ssvm_backends.dual.admm.constrained_steps import project_row, project_simplex, row_bound
from ssvm_backends.dual.admm.factor import FactorTask, solve_two_by_two
from ssvm_backends.dual.admm.rows import RowFactors
from ssvm_backends.graphs.graph import build_graph
from ssvm_dsl.errors import NoBackendError
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir import Group, Guarantee, Limits, Need, Primal, Program, Question, Task, Terms, Theta
from ssvm_dsl.plugin_api import ConstraintSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.testing import open_session
from ssvm_dsl.testing.brute_force import BruteForceSession
from ssvm_dsl.testing.problems import Recipe, Scores, seeded
from structures.test_decompose import dense

KINDS = ("matching", "transport", "arborescence", "projective-tree", "path", "circuit", "segmentation")
TREES = ("arborescence", "projective-tree")
RECIPES = (
    Recipe(max_variables=5, n_examples=3, masks=True, empty=True),
    Recipe(max_variables=4, max_arity=3, forbidden=True, scores=Scores.INTEGER),
    Recipe(max_arity=1, max_variables=7, max_card=2, scores=Scores.MIXED),
)


def asked(program, question, backend="ad3", **options):
    return open_session(program, backend, {question.task}, options=options).solve(question)


def one_row(coefficient, lower, upper, least, most):
    n = len(coefficient)
    ends, columns = np.array([0, n]), np.arange(n)
    return RowFactors(
        np.array([0, 1]), ends, columns, coefficient, least, most, np.array([lower]), np.array([upper]),
        np.array([0, 0]), np.arange(n + 1), columns,
    )  # fmt: skip


def random_row(rng):
    """A budget, a knapsack or an equation that some point of the box keeps."""
    n = int(rng.integers(1, 9))
    scale = 10.0 ** rng.integers(-3, 4)
    coefficient = scale * (rng.choice([-1.0, 1.0], n) if rng.random() < 0.5 else rng.normal(size=n))
    least, most = np.zeros(n), np.where(rng.random(n) < 0.2, 3.0, 1.0)
    inside = float(coefficient @ rng.uniform(least, most))
    lower = rng.choice([-np.inf, inside - scale * rng.random(), inside])
    upper = rng.choice([np.inf, inside + scale * rng.random(), inside])
    return one_row(coefficient, lower, upper, least, most)


def test_factors_of_two_by_two_states_are_solved_in_closed_form():
    """Optimal: a distribution whose joint states of positive weight are those of the largest slope."""
    rng, states = np.random.default_rng(0), np.array([2, 2], dtype=np.int32)
    ptr, scope = np.array([0, 2]), np.array([[0, 1]], dtype=np.int32)
    group = Group.of("pair", (2, 2), scope, np.array([0, 1]), np.zeros(1, np.int32), 1, ptr)
    graph, sizes = build_graph(Program(ptr, states, (group,), ()).validate()), set()
    for _ in range(200):
        table, pull = rng.normal(size=4) * rng.choice([0.1, 1.0, 10.0]), rng.normal(size=4)
        active, weight, q = np.zeros(4, np.int64), np.zeros(4), np.full(4, np.nan)
        task = FactorTask(graph, table, 0, 0.5, pull, 0, 0, active, weight, q, np.empty(0), np.empty(0))
        count = solve_two_by_two.py_func(task)
        full = np.zeros(4)
        full[active[:count]] = weight[:count]
        shown = full.reshape(2, 2)
        np.testing.assert_allclose(q, np.concatenate([shown.sum(axis=1), shown.sum(axis=0)]), atol=1e-12)
        slope = (0.5 * table).reshape(2, 2) + (pull - q)[:2, None] + (pull - q)[None, 2:]
        assert full.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(slope.ravel()[active[:count]], slope.max(), atol=1e-9)
        sizes.add(count)
    assert sizes == {1, 2, 3}


@pytest.mark.parametrize("seed", range(4))
def test_projections_are_those_of_quadratic_programs(seed):
    import clarabel
    from scipy.sparse import csc_array, eye_array

    rng = np.random.default_rng(seed)
    for _ in range(10):
        row, z = random_row(rng), np.empty(9)
        n = len(row.coefficient)
        c = rng.normal(size=n) * rng.choice([1.0, 10.0])
        level = project_row(row, 0, c, rng.normal(), z)
        again = z.copy()
        assert project_row(row, 0, c, level, again) == pytest.approx(level, rel=1e-9, abs=1e-9)
        rows, ends = [np.eye(n), -np.eye(n)], [row.most, -row.least]
        for sign, bound in ((1.0, row.upper[0]), (-1.0, -row.lower[0])):
            if np.isfinite(bound):
                size = np.abs(row.coefficient).max()
                rows.append(sign * row.coefficient[None] / size)
                ends.append(np.array([bound / size]))
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.tol_gap_abs, settings.tol_gap_rel, settings.tol_feas = False, 1e-12, 1e-12, 1e-12
        ends = np.concatenate(ends)
        cones = [clarabel.NonnegativeConeT(len(ends))]
        half, matrix = csc_array(eye_array(n)), csc_array(np.concatenate(rows))
        nearest = clarabel.DefaultSolver(half, -c, matrix, ends, cones, settings).solve().x
        np.testing.assert_allclose(z[:n], np.array(nearest), atol=2e-5)
        total, size = row.coefficient @ z[:n], np.abs(row.coefficient) @ np.abs(row.most)
        assert row.lower[0] - 1e-12 * size <= total <= row.upper[0] + 1e-12 * size


@pytest.mark.parametrize("seed", range(4))
def test_what_rows_add_to_the_bound_is_the_best_of_a_linear_program(seed):
    from scipy.optimize import linprog

    rng = np.random.default_rng(seed)
    for _ in range(20):
        row = random_row(rng)
        message = np.round(rng.normal(size=len(row.coefficient)), int(rng.integers(0, 4)))  # ties, too
        matrix, ends = [], []
        for sign, bound in ((1.0, row.upper[0]), (-1.0, -row.lower[0])):
            if np.isfinite(bound):
                matrix.append(sign * row.coefficient)
                ends.append(bound)
        box = np.stack([row.least, row.most], axis=1)
        best = linprog(message, *((np.array(matrix), np.array(ends)) if ends else ()), bounds=box)
        assert best.status == 0
        value, _ = row_bound(row, 0, message)
        assert value == pytest.approx(-best.fun, rel=1e-6, abs=1e-6)


def test_distributions_are_projected_onto():
    rng = np.random.default_rng(0)
    for scale in (1.0, 1e-6, 1e6, 1e17, 1e300):
        for n in (1, 2, 7):
            x = scale * rng.normal(size=n)
            p = x.copy()
            project_simplex(p, 0, n)
            assert p.min() >= 0.0
            assert p.sum() == pytest.approx(1.0)
            # the nearest point: moving along any edge of the simplex does not lead nearer
            slope = x - p
            assert (slope.max() - slope[p > 0.0] <= 1e-9 * max(1.0, scale)).all()


def problem(seed):
    made, rng = seeded(RECIPES[seed % 3], seed), np.random.default_rng(seed)
    kinds = (["count"], ["linear"], ["count", "linear"])[seed // 3 % 3]
    groups = tuple(random_constraints(rng, made.program, kind) for kind in kinds)
    return with_rules(replace(made.program, constraints=groups).validate(), registry()), made.theta, rng


def kind_problem(kind, seed):
    rng = np.random.default_rng(seed)
    if kind == "few-runs":
        program, theta = few_runs.FewRuns().problem(rng)
        groups = tuple(replace(group, rules=few_runs.FewRuns()) for group in program.constraints)
        program = replace(program, constraints=groups)
    else:
        program, theta = registry().load(registry().find(ConstraintSpec, kind))().problem(rng)
    return with_pairs(program, theta, rng) if seed % 2 else (with_rules(program, registry()), theta)


def mixtures_of_trees(program, node, known):
    """Assert that the probabilities of the literals of each tree are a mixture of trees, written one by one."""
    for group in program.constraints:
        for k in np.flatnonzero(known[group.example_of]):
            part, first = group.literals(k), program.var_ptr[group.example_of[k]]
            share = node[program.state_ptr[first + group.variable[part]] + group.state[part]]
            share = np.where(group.negated[part], 1.0 - share, share)
            tokens = np.arange(1, group.meta["n"][k] + 1)
            choices = [np.flatnonzero(group.literal_meta["dependent"][part] == d) for d in tokens]
            true, trees = np.zeros(len(group.variable), dtype=bool), [np.zeros(len(share))]
            for literals in itertools.product(*choices):
                true[part] = np.isin(np.arange(len(share)), literals)
                if not group.rules.violated(group, true)[k]:
                    trees.append(true[part].astype(float))
            matrix = np.vstack([np.stack(trees[1:], axis=1), np.ones(len(trees) - 1)])
            assert nnls(matrix, np.append(share, 1.0))[1] < 1e-4


def holds(program, question):
    """Compare labellings and bounds with every labelling, and the relaxation with that of ``lp`` or of all trees."""
    best, found = BruteForceSession(program).solve(question), asked(program, question)
    there = best.primal != Primal.INFEASIBLE
    size = Terms.of(program, question.theta, question.ids(program)).size
    assert (found.primal[~there] == Primal.INFEASIBLE).all()  # by the rows and tables alone, if need be
    assert (found.primal[there] == Primal.FEASIBLE).all()
    assert (found.bound >= best.score - 1e-12 * size)[there].all()
    assert (found.score <= best.score + 1e-12 * size)[there].all()
    relaxed = question.replace(task=Task.RELAXED, clamp=None)
    ours, theirs = (asked(program, relaxed, name) for name in ("ad3", "lp"))
    none = theirs.primal == Primal.INFEASIBLE
    assert (ours.primal[none] == Primal.INFEASIBLE).all()
    of_trees = any(group.kind in TREES for group in program.constraints)
    known, off = ~none & (ours.stop == 0), 1e-5 * (1e-9 + size)
    if of_trees:
        known &= ours.primal != Primal.INFEASIBLE
        assert (ours.bound <= theirs.bound + off)[known].all()
        mixtures_of_trees(program, ours.marginals.node, known)
    right = (ours.score, ours.bound) if of_trees else (theirs.bound, theirs.score)
    for mine, other in zip((ours.bound, ours.score), right, strict=True):
        assert (np.abs(mine[known] - other[known]) <= off[known]).all()
    return np.mean(ours.stop == 0), np.mean(found.score >= best.score - 1e-9 * size)


def test_sums_of_random_literals():
    done = []
    for seed in range(18):
        program, theta, rng = problem(seed)
        done.append(holds(program, Question(theta)))
        holds(program, Question(theta, rng.permutation(program.n_examples)[:2].astype(np.int64)))
        clamp = np.where(rng.random(program.n_variables) < 0.3, rng.integers(0, program.card), -1).astype(np.int32)
        question = Question(theta, task=Task.MAP_CLAMPED, clamp=clamp)
        best, found = BruteForceSession(program).solve(question), asked(program, question)
        assert ((found.primal == Primal.INFEASIBLE) == (best.primal == Primal.INFEASIBLE)).all()
        assert (found.bound >= best.score - 1e-9).all()
    assert np.mean(done, axis=0).min() > 0.97


@pytest.mark.parametrize("kind", [*KINDS, "few-runs"])
def test_structures_by_their_rows(kind):
    done = [holds(program, Question(theta)) for program, theta in (kind_problem(kind, seed) for seed in range(5))]
    assert np.mean(done, axis=0).min() > 0.9


def test_steps_of_several_iterations_solve_affine_maps_and_are_taken_back():
    rng, n = np.random.default_rng(0), MEMORY
    turn, shift = np.linalg.qr(rng.normal(size=(n, n)))[0], rng.normal(size=n)
    slow = turn @ np.diag(np.linspace(-0.6, 0.8, n)) @ turn.T
    fixed, history = np.linalg.solve(np.eye(n) - slow, shift), History.start(np.array([2, n]))
    place = history.point[2:]
    taken = [next_point(history, 1, np.append([0.0, 0.0], slow @ place + shift)) for _ in range(n + 1)]
    assert taken == [False] * n + [True]
    np.testing.assert_allclose(place, fixed, rtol=1e-4)
    assert not history.point[:2].any()  # those of another example
    reached = history.reached[2:].copy()
    history.before[1] = 1.0
    assert next_point(history, 1, history.point + np.array([0.0, 0.0, np.nan, 1.0, 1.0, 1.0, 1.0]))
    np.testing.assert_array_equal(place, reached)
    history.before[1] = 1.0
    assert next_point(history, 1, history.point + 100.0)  # a map of another kind there
    np.testing.assert_array_equal(place, reached)
    assert history.known[1] == 0


def test_matchings_without_tables_are_whole():
    n = 4
    literals = [(n * r + c, 1, False, r, c) for r in range(n) for c in range(n)]
    limits = {"n_rows": [n], "n_cols": [n], "row_least": [1], "row_most": [1], "col_least": [1], "col_most": [1]}
    group = group_of("matching", [[literals]], literal_meta=("row", "col"), **limits)
    program = with_rules(unlinked([[2] * n * n], group), registry())
    theta = Theta.of(program, np.random.default_rng(0).normal(size=program.n_states))
    found = asked(program, Question(theta))
    assert found.optimal().all()
    relaxed = asked(program, Question(theta, task=Task.RELAXED))
    whole = relaxed.marginals.node.reshape(-1, 2).argmax(axis=1)
    assert whole.tolist() == found.labels.tolist()
    assert relaxed.marginals.node.max(axis=0) == pytest.approx(1.0, abs=1e-4)


def test_limits_warm_starts_and_scales():
    program, theta = dense(np.random.default_rng(1), 3, 10, 3)
    best = asked(program, Question(theta), "ilp").score
    for limits in (Limits(iterations=1), Limits(iterations=30), Limits(time=1e-9)):
        found = asked(program, Question(theta, limits=limits))
        known = ~np.isnan(found.bound)
        assert (found.bound[known] >= best[known]).all()
        assert (found.score <= best + 1e-9).all()
    cold = asked(program, Question(theta, task=Task.RELAXED))
    warm = asked(program, Question(theta, task=Task.RELAXED, warm=cold.warm))
    np.testing.assert_allclose(warm.bound, cold.bound, rtol=1e-5)
    nothing = asked(program, Question(theta, task=Task.RELAXED, warm=cold.warm, limits=Limits(iterations=1)))
    assert (nothing.bound <= cold.bound + 1e-9 * np.abs(cold.bound)).all()  # the messages that were kept prove it
    assert (nothing.bound >= best).all()
    for scale in (1e-9, 1e9, 1e100):
        scaled = Theta.of(program, scale * theta.node, [scale * one for one in theta.tables])
        found = asked(program, Question(scaled, task=Task.RELAXED))
        np.testing.assert_allclose(found.bound, scale * cold.bound, rtol=1e-4)


def test_an_odd_cycle_of_rows_has_no_labelling():
    # half of everything is in the relaxation, so only all rows together prove it
    pairs = [[(0, 1), (1, 1)], [(1, 1), (2, 1)], [(0, 1), (2, 1)], [(0, 1), (1, 1), (2, 1)]]
    program = unlinked([[2, 2, 2]], group_of("count", [pairs], lower=[0, 0, 0, 1], upper=[1, 1, 1, 3]))
    group = program.constraints[0]
    tight = replace(program, constraints=(replace(group, meta={**group.meta, "lower": np.array([1, 1, 1, 0])}),))
    theta = Theta.zeros(program)
    assert asked(program, Question(theta)).primal.tolist() == [Primal.FEASIBLE]
    assert asked(tight, Question(theta)).primal.tolist() == [Primal.INFEASIBLE]
    assert asked(tight, Question(theta, task=Task.RELAXED)).primal.tolist() == [Primal.FRACTIONAL]


def test_what_has_no_rows_is_refused():
    need = replace(Need(), constraint_kinds=frozenset({"custom"}), without_rows=True, guarantee=Guarantee.BOUND)
    with pytest.raises(NoBackendError, match="takes constraints by their linear rows, and a Custom has none"):
        plan(need, "ad3", {})


def test_parts_of_large_batches_are_independent():
    program, theta = dense(np.random.default_rng(2), 40, 8, 2)
    together = asked(program, Question(theta, task=Task.RELAXED))
    some = np.array([7, 3, 39])
    alone = asked(program, Question(theta, some, task=Task.RELAXED))
    np.testing.assert_allclose(alone.bound, together.bound[some], rtol=1e-9)
