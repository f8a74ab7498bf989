"""Max-product, iterated conditional modes and the local search they share: honest, deterministic, good enough."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from lp_problems import complete, grid

from ssvm_backends.elimination.junction_tree import JunctionTree
from ssvm_backends.graphs.graph import build_graph
from ssvm_backends.local.icm import ICM
from ssvm_backends.local.max_product import MaxProduct
from ssvm_backends.local.search import improve
from ssvm_dsl.errors import OptionError
from ssvm_dsl.ir import Limits, Primal, Question, Stop, Task, Topology
from ssvm_dsl.ir.ragged import members
from ssvm_dsl.plugin_api import score_labels
from ssvm_dsl.testing.brute_force import BruteForce
from ssvm_dsl.testing.problems import Recipe, Scores, seeded

DEFAULTS = {
    ICM: {"restarts": 9, "pairs": True, "seed": 0},
    MaxProduct: {"damping": 0.3, "sweeps": 100, "local_search": True},
}


def session(kind, problem, **options):
    return kind().open(problem.program, DEFAULTS[kind] | options)


def exact(problem):
    session = JunctionTree().open(problem.program, {"max_entries": 2**26, "marginals": "all"})
    return session.solve(Question(problem.theta)).score


def naive_best_move(program, theta, example, labels):
    """The best score that one variable, or two of a factor, can reach from a labelling."""
    variables = range(*program.var_ptr[example : example + 2])
    lo = variables.start
    together = {(v,) for v in variables}
    for g in program.groups:
        for scope in g.scope[g.ptr[example] : g.ptr[example + 1]]:
            together |= {tuple(sorted(pair)) for pair in itertools.combinations(scope.tolist(), 2)}
    best = -np.inf
    for move in together:
        for states in itertools.product(*(range(program.card[v]) for v in move)):
            tried = labels.copy()
            tried[[v - lo for v in move]] = states
            best = max(best, score_labels(program, theta, tried, np.array([example]))[0])
    return best


@pytest.mark.parametrize("seed", range(12))
def test_local_search_ends_where_no_move_helps(seed):
    recipe = Recipe(max_arity=3, max_variables=6, tied=seed % 2 == 0, forbidden=seed % 3 == 0)
    problem = seeded(recipe, seed)
    program, theta = problem.program, problem.theta
    ids = np.random.default_rng(seed).permutation(program.n_examples).astype(np.int64)
    labels = np.random.default_rng(seed).integers(0, program.card).astype(np.int32)[members(program.var_ptr, ids)]
    before = score_labels(program, theta, labels, ids)
    score = improve(build_graph(program), theta.node, theta.pool, ids, labels) + theta.const[ids]
    np.testing.assert_allclose(score, score_labels(program, theta, labels, ids), rtol=1e-12)
    assert (score >= before).all()
    at = 0
    for i, e in enumerate(ids):
        n = int(program.var_ptr[e + 1] - program.var_ptr[e])
        if score[i] > -np.inf:
            assert naive_best_move(program, theta, int(e), labels[at : at + n]) <= score[i] + 1e-9
        at += n


def test_local_search_repairs_forbidden_labellings():
    problem = seeded(Recipe(max_variables=5, forbidden=True, scores=Scores.INTEGER), 4)
    program, theta = problem.program, problem.theta
    best = BruteForce().open(program, {}).solve(Question(theta))
    ids = np.flatnonzero(best.primal == Primal.FEASIBLE)
    repaired = started = 0
    for seed in range(40):
        labels = np.random.default_rng(seed).integers(0, program.card).astype(np.int32)[members(program.var_ptr, ids)]
        broken = score_labels(program, theta, labels, ids) == -np.inf
        score = improve(build_graph(program), theta.node, theta.pool, ids, labels)
        started += broken.sum()
        repaired += (broken & (score > -np.inf)).sum()
    assert started > 20
    assert repaired > 0.8 * started


@pytest.mark.parametrize("seed", range(5))
def test_max_product_is_exact_on_forests(seed):
    recipe = Recipe(Topology.FOREST, max_variables=9, max_card=4, n_examples=5, repeats=False)
    problem = seeded(recipe, seed)
    found = session(MaxProduct, problem, local_search=False).solve(Question(problem.theta))
    best = BruteForce().open(problem.program, {}).solve(Question(problem.theta))
    np.testing.assert_allclose(found.score, best.score, rtol=1e-9)
    assert (found.stop == Stop.FINISHED).all()
    assert np.isnan(found.bound).all()


def test_quality_on_graphs_with_cycles():
    """How far from the optimum, on average over random problems (both are deterministic)."""
    gap = {ICM: [], MaxProduct: []}
    for seed in range(10):
        for problem in (grid(10, 10, 3, seed), complete(8, 3, seed)):
            best = exact(problem)[0]
            for kind, gaps in gap.items():
                found = session(kind, problem).solve(Question(problem.theta))
                assert np.isnan(found.bound).all()
                assert found.score[0] <= best + 1e-9
                gaps.append((best - found.score[0]) / best)
    assert np.mean(gap[ICM]) < 0.03
    assert np.mean(gap[MaxProduct]) < 0.02


def test_restarts_pairs_and_seed_do_what_they_say():
    problems = [complete(14, 2, seed) for seed in range(12)]

    def total(**options):
        return sum(session(ICM, p, **options).solve(Question(p.theta)).score[0] for p in problems)

    alone = total(restarts=0, pairs=False)
    assert alone < total(restarts=0) < total(restarts=20)
    assert alone < total(restarts=20, pairs=False)
    hard = complete(40, 3)
    seeds = [0, 1, 2, 3, 4, 0]
    runs = [session(ICM, hard, seed=seed, restarts=2).solve(Question(hard.theta)).score[0] for seed in seeds]
    assert runs[0] == runs[-1]
    assert len({round(x, 9) for x in runs}) > 1


@pytest.mark.parametrize("kind", [ICM, MaxProduct])
def test_warm_starts_never_end_below_where_they_start(kind):
    problem = grid(15, 15, 3)
    one = session(kind, problem)
    first = one.solve(Question(problem.theta))
    options = {"restarts": 0} if kind is ICM else {"sweeps": 1}
    again = session(kind, problem, **options).solve(Question(problem.theta, warm=first.warm))
    assert again.score[0] >= first.score[0] - 1e-9
    clamp = np.full(225, -1, np.int32)
    clamp[:5] = (first.labels[:5] + 1) % 3
    clamped = one.solve(Question(problem.theta, task=Task.MAP_CLAMPED, clamp=clamp, warm=first.warm))
    np.testing.assert_array_equal(clamped.labels[:5], clamp[:5])


def test_limits_on_iterations_are_reported():
    problem = complete(10, 3)
    found = session(MaxProduct, problem).solve(Question(problem.theta, limits=Limits(iterations=1)))
    assert found.stop[0] == Stop.ITERATIONS
    assert session(ICM, problem).solve(Question(problem.theta, limits=Limits(iterations=1))).stop[0] == Stop.ITERATIONS
    assert session(ICM, problem).solve(Question(problem.theta)).stop[0] == Stop.FINISHED


def test_damping_is_checked():
    problem = grid(2, 2, 2)
    with pytest.raises(OptionError, match="damping"):
        session(MaxProduct, problem, damping=1.0)
