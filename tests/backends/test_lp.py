"""The LP backend against a naive dense formulation, brute force, and its three solvers against each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from lp_problems import (
    complete,
    eight_wide,
    grid,
    grid_edges,
    naive_relaxation,
    noisy,
    pairwise,
)

from naive import proved
from ssvm_backends.programs.local_polytope import build_polytope
from ssvm_backends.programs.lp import LP, rounded
from ssvm_dsl.ir import Limits, Need, Primal, Question, Stop, Task, Topology
from ssvm_dsl.plugin_api import score_labels
from ssvm_dsl.testing.brute_force import BruteForce
from ssvm_dsl.testing.problems import Recipe, Scores, catalogue, seeded

SOLVERS = ["glop", "pdlp", "highs"]
ROUNDINGS = ["argmax", "threshold", "conditional", "by-class"]
LOOPY = [seeded(Recipe(max_arity=3, density=1.0, tied=k % 2 == 0, masks=k % 3 == 0), k) for k in range(8)]
HARD = [seeded(Recipe(max_arity=4, forbidden=True, max_variables=6), k) for k in range(6)]
CLASH = catalogue()["tables contradict each other"]
#: PDLP stops at a relative gap of 1e-6; the bound its duals prove is a few times that off.
TOLERANCE = {"glop": 1e-8, "highs": 1e-7, "pdlp": 2e-5}


def session(problem, solver="glop", rounding="none"):
    return LP().open(problem.program, {"solver": solver, "rounding": rounding})


def best(problem, **question):
    return BruteForce().open(problem.program, {}).solve(Question(problem.theta, **question)).score


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("problem", [*LOOPY, *HARD], ids=range(len(LOOPY) + len(HARD)))
def test_bound_is_the_naive_relaxation_and_above_brute_force(problem, solver):
    solution = session(problem, solver).solve(Question(problem.theta, task=Task.RELAXED))
    naive = np.array([naive_relaxation(problem, i) for i in range(problem.program.n_examples)])
    np.testing.assert_allclose(solution.bound, naive, rtol=TOLERANCE[solver], atol=10 * TOLERANCE[solver])
    assert (solution.bound >= best(problem) - 1e-9).all()
    there = solution.primal != Primal.INFEASIBLE
    np.testing.assert_array_equal(~there, naive == -np.inf)
    np.testing.assert_allclose(solution.score[there], naive[there], rtol=TOLERANCE[solver], atol=10 * TOLERANCE[solver])


@pytest.mark.parametrize("topology", [Topology.CHAIN, Topology.FOREST])
@pytest.mark.parametrize("seed", range(4))
def test_trees_are_solved_exactly(topology, seed):
    problem = seeded(Recipe(topology=topology, max_variables=7, max_card=4), seed)
    solution = session(problem).solve(Question(problem.theta))
    assert proved(problem, solution).all()
    np.testing.assert_allclose(solution.score, best(problem), rtol=1e-12)


def test_fractional_answers_are_called_fractional_unless_rounding_is_named():
    problem = catalogue()["frustrated triangle"]
    optimum = best(problem)
    solution = session(problem).solve(Question(problem.theta))
    assert solution.primal.tolist() == [Primal.FRACTIONAL]
    assert solution.score.tolist() == [-np.inf]
    assert solution.bound[0] > optimum[0] + 0.5
    for rule in ROUNDINGS:
        answer = session(problem, rounding=rule).solve(Question(problem.theta))
        assert answer.primal.tolist() == [Primal.FEASIBLE]
        assert answer.bound[0] == solution.bound[0]
        np.testing.assert_allclose(score_labels(problem.program, problem.theta, answer.labels), answer.score)
        assert answer.score[0] <= optimum[0] + 1e-9


def test_no_labelling_but_a_fractional_one():
    """Three variables of two states, each pair different: the relaxation takes halves, and cannot be rounded."""
    differ = np.array([-np.inf, 0.0, 0.0, -np.inf])
    problem = pairwise(3, 2, [(0, 1), (1, 2), (2, 0)], None, np.zeros(6), np.tile(differ, (3, 1)))
    for rule in ["none", *ROUNDINGS]:
        solution = session(problem, rounding=rule).solve(Question(problem.theta))
        assert solution.primal.tolist() == [Primal.FRACTIONAL]
        assert solution.score.tolist() == [-np.inf]
        assert solution.bound[0] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_contradictions_are_infeasible(solver):
    solution = session(CLASH, solver).solve(Question(CLASH.theta))
    assert solution.primal.tolist() == [Primal.INFEASIBLE, Primal.FEASIBLE]
    assert solution.bound[0] == solution.score[0] == -np.inf


@pytest.mark.parametrize("scores", list(Scores))
def test_any_duals_prove_a_bound(scores):
    problem = seeded(Recipe(max_arity=3, density=1.0, forbidden=True, scores=scores), 3)
    optimum, rng = best(problem), np.random.default_rng(0)
    for example in range(problem.program.n_examples):
        polytope = build_polytope(problem.program, example)
        priced = polytope.price(problem.theta, problem.theta.node, problem.program, example)
        for size in (0.0, 1e-3, 1.0, 1e6, 1e12):
            assert priced.bound(size * rng.normal(size=polytope.matrix.shape[0])) >= optimum[example]


@pytest.mark.parametrize("solver", SOLVERS)
def test_marginals_agree_with_each_other(solver):
    problem = complete(6, 3)
    marginals = session(problem, solver).solve(Question(problem.theta, task=Task.RELAXED)).marginals
    node, group = marginals.node.reshape(6, 3), problem.program.groups[0]
    np.testing.assert_allclose(node.sum(axis=1), 1.0, atol=1e-9)
    pairs = marginals.tables[0].reshape(-1, 3, 3)
    for axis in (0, 1):
        np.testing.assert_allclose(pairs.sum(axis=2 - axis), node[group.scope[:, axis]], atol=2e-5)


def test_arity_eight():
    """One factor over all variables makes the relaxation tight."""
    problem = eight_wide()
    solution = session(problem).solve(Question(problem.theta))
    assert solution.bound[0] == pytest.approx(naive_relaxation(problem, 0))
    assert proved(problem, solution).all()
    np.testing.assert_allclose(solution.score, best(problem))


@pytest.mark.parametrize("solver", ["glop", "pdlp"])
def test_warm_start_takes_fewer_iterations_to_the_same_bound(solver):
    problem = grid(8, 8, 3)
    backend, theta = session(problem, solver), noisy(problem, 0.01)
    first = backend.solve(Question(problem.theta))
    cold, warm = backend.solve(Question(theta)), backend.solve(Question(theta, warm=first.warm))
    assert warm.bound[0] == pytest.approx(cold.bound[0], rel=TOLERANCE[solver])
    assert warm.stats["lp_iterations"] < 0.5 * cold.stats["lp_iterations"]


def test_warm_starts_survive_other_clamps_and_threads():
    problem, rng = complete(8, 3, 4), np.random.default_rng(0)
    backend = session(problem)
    warm = backend.solve(Question(problem.theta)).warm
    questions = []
    for k in range(12):
        clamp = np.where(rng.random(8) < 0.3, rng.integers(0, 3, 8), -1).astype(np.int32)
        questions.append((noisy(problem, 0.3, k), {"clamp": clamp, "task": Task.MAP_CLAMPED}))
    cold = [backend.solve(Question(theta, **question)).bound[0] for theta, question in questions]
    again = [backend.solve(Question(theta, warm=warm, **question)).bound[0] for theta, question in questions]
    assert again == pytest.approx(cold, rel=1e-8)
    with ThreadPoolExecutor(4) as pool:
        asked = [Question(theta, warm=warm, **question) for theta, question in 3 * questions]
        futures = [pool.submit(backend.solve, question) for question in asked]
        assert [future.result().bound[0] for future in futures] == pytest.approx(3 * cold, rel=1e-8)


def test_warm_state_of_another_solver_is_left_alone():
    problem = complete(5, 2)
    warm = session(problem, "pdlp").solve(Question(problem.theta)).warm
    question = Question(problem.theta)
    assert session(problem).solve(question.replace(warm=warm)).bound == session(problem).solve(question).bound


@pytest.mark.parametrize("solver", SOLVERS)
def test_time_limit(solver):
    problem = grid(60, 60, 5)
    backend = session(problem, solver)
    backend.solve(Question(problem.theta, limits=Limits(iterations=1)))  # builds the program
    solution = backend.solve(Question(problem.theta, limits=Limits(time=0.5)))  # 5 to 30 s without
    assert solution.stop.tolist() == [Stop.TIME]
    assert solution.primal.tolist() == [Primal.NONE]
    assert solution.bound[0] >= 8870.9298  # the optimum of the relaxation


def test_threshold_rounding_is_optimal_for_a_submodular_problem():
    """Both all-zero and all-one are optimal, and so is every mixture: rounding must not mix them."""
    equal = np.tile([1.0, 0.0, 0.0, 1.0], (12, 1))
    problem = pairwise(9, 2, grid_edges(3, 3), None, np.zeros(18), equal)
    polytope = build_polytope(problem.program, 0)
    priced = polytope.price(problem.theta, problem.theta.node, problem.program, 0)
    mixture = np.full(18, 0.5)
    mu = np.concatenate([mixture, np.tile([0.5, 0.0, 0.0, 0.5], 12)])
    assert priced.value(mu) == 12.0
    for rule in ("threshold", "conditional"):
        assert priced.score_of(rounded(priced, mu, rule)) == 12.0


@pytest.mark.parametrize("seed", range(5))
def test_conditional_rounding_is_as_good_as_drawing_independently(seed):
    problem = complete(7, 3, seed)
    polytope = build_polytope(problem.program, 0)
    priced = polytope.price(problem.theta, problem.theta.node, problem.program, 0)
    mu = session(problem).solve(Question(problem.theta, task=Task.RELAXED)).marginals.node.reshape(7, 3)
    pairs = [np.outer(mu[a], mu[b]).ravel() for a, b in problem.program.groups[0].scope]
    expected = priced.value(np.concatenate([mu.ravel(), *pairs]))
    full = np.concatenate([mu.ravel(), np.zeros(polytope.n_columns - 21)])
    assert priced.score_of(rounded(priced, full, "conditional")) >= expected - 1e-9


def test_conditional_rounding_avoids_what_is_forbidden():
    """Argmax takes the forbidden pair (0, 0); conditioning on the first variable sees it."""
    shut = np.array([[-np.inf, 0.0, 0.0, -5.0]])
    problem = pairwise(2, 2, [(0, 1)], None, np.zeros(4), shut)
    priced = build_polytope(problem.program, 0).price(problem.theta, problem.theta.node, problem.program, 0)
    mu = np.array([0.6, 0.4, 0.6, 0.4, 0.0, 0.6, 0.4, 0.0])
    assert priced.score_of(rounded(priced, mu, "argmax")) == -np.inf
    assert priced.score_of(rounded(priced, mu, "conditional")) == 0.0


def test_refuses_tables_that_do_not_fit():
    verdict = LP().check(Need(max_table=1 << 30))
    assert not verdict.ok
    assert str(1 << 30) in verdict.reasons[0]
