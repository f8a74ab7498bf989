"""``qpbo``: the relaxation of every example of a batch is that of its linear program, however the batch is cut up."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lp_problems import naive_relaxation

from ssvm_backends.cuts import qpbo
from ssvm_backends.cuts.graph_cut import GraphCut
from ssvm_backends.cuts.qpbo import QPBO
from ssvm_backends.programs.lp import LP
from ssvm_dsl.ir import Group, Primal, Program, Question, Stop, Task, Theta
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.plugin_api import BackendSpec, score_marginals
from ssvm_dsl.registry import registry
from ssvm_dsl.scores.marginals import agree
from ssvm_dsl.testing.brute_force import BruteForce
from ssvm_dsl.testing.problems import Problem, Recipe, Scores, seeded

INF = np.inf


def multilabel(counts, seed, strength=1.0, whole=False):
    """Complete graphs of so many binary variables each (0: an example without any), tables shared by all."""
    rng, counts = np.random.default_rng(seed), np.array(counts)
    pairs = [np.array(list(itertools.combinations(range(n), 2)), np.int32).reshape(-1, 2) for n in counts]
    var_ptr, widest = pointers(counts), int(counts.max())
    scope = np.concatenate([one + start for one, start in zip(pairs, var_ptr)]).astype(np.int32)
    row = np.concatenate([one[:, 0] * widest + one[:, 1] for one in pairs]).astype(np.int32)
    group = Group.of("pair", (2, 2), scope, pointers(np.array(list(map(len, pairs)))), row, widest**2, var_ptr)
    program = Program(var_ptr, np.full(var_ptr[-1], 2, np.int32), (group,)).validate()
    node, table = rng.normal(size=2 * var_ptr[-1]), strength * rng.normal(size=(widest**2, 4))
    if whole:
        node, table = np.round(2 * node), np.round(2 * table)
    return Problem("multilabel", program, Theta.of(program, node, [table]))


def solve(problem, task=Task.RELAXED, rest="none", **question):
    return QPBO().open(problem.program, {"rest": rest}).solve(Question(problem.theta, task=task, **question))


def parts(solution, problem, ids):
    """What is said about each example: bound, score, stop, primal, and its marginals as bytes."""
    program, out = problem.program, []
    states = pointers(np.diff(program.state_ptr[program.var_ptr])[ids])
    rows = [pointers(np.diff(group.ptr)[ids]) for group in program.groups]
    for k in range(len(ids)):
        tables = [mu[ptr[k] : ptr[k + 1]].tobytes() for mu, ptr in zip(solution.marginals.tables, rows)]
        mine = [solution.bound[k], solution.score[k], solution.stop[k], solution.primal[k]]
        out.append([*mine, solution.marginals.node[states[k] : states[k + 1]].tobytes(), *tables])
    return out


@given(st.integers(0, 10**6), st.sampled_from(list(Scores)), st.booleans(), st.booleans())
@settings(max_examples=80)
def test_relaxed_answers_are_optimal_points_of_the_local_polytope(seed, scores, masks, forbidden):
    recipe = Recipe(
        max_card=2, n_examples=4, max_variables=6, scores=scores, masks=masks, forbidden=forbidden, density=1.0
    )
    problem, ids = seeded(recipe, seed), np.array([2, 0, 3])
    program, found = problem.program, solve(problem, examples=ids)
    there = found.primal == Primal.FRACTIONAL
    assert agree(program, found.marginals, ids)
    value = score_marginals(program, problem.theta, found.marginals, ids)
    np.testing.assert_allclose(found.score[there], value[there], rtol=1e-12, atol=1e-300)
    assert (found.stop == Stop.FINISHED).all()
    for k, example in enumerate(ids):
        optimum = naive_relaxation(problem, example) if scores in (Scores.INTEGER, Scores.NORMAL) else None
        if not there[k]:
            assert found.primal[k] == Primal.INFEASIBLE
            assert found.bound[k] == found.score[k] == -INF
            assert optimum in (None, -INF)
            continue
        size = np.abs(problem.theta.pool[np.isfinite(problem.theta.pool)]).max(initial=max(1.0, abs(value[k])))
        assert found.bound[k] - found.score[k] <= 1e-9 * size
        assert optimum is None or found.bound[k] == pytest.approx(optimum, abs=1e-6)


@pytest.mark.parametrize("strength", [0.1, 0.5, 2.0])
def test_bounds_are_those_of_the_lp_on_multilabel_models(strength):
    problem = multilabel([6, 0, 14, 1, 9, 14], 3, strength)
    found = solve(problem)
    options = registry().find(BackendSpec, "lp").resolve({})
    other = LP().open(problem.program, options).solve(Question(problem.theta, task=Task.RELAXED))
    np.testing.assert_allclose(found.bound, other.bound, rtol=1e-7)
    np.testing.assert_allclose(found.score, other.bound, rtol=1e-7)


@pytest.mark.parametrize("power", [-900, -300, 300, 900])
def test_huge_and_tiny_scores_change_nothing_but_the_size(power):
    problem = multilabel([6, 11], 5, strength=0.5)
    scaled, factor = problem.theta.copy(), 2.0**power
    scaled.node[:] *= factor
    scaled.pool[:] *= factor
    found, other = solve(problem), solve(Problem("scaled", problem.program, scaled))
    np.testing.assert_array_equal(found.marginals.node, other.marginals.node)
    np.testing.assert_allclose(other.bound / factor, found.bound, rtol=1e-14)
    np.testing.assert_array_equal(other.score / factor, found.score)


def test_what_other_examples_hold_does_not_matter():
    problem, ids = multilabel([6, 8, 5], 6, strength=0.5), np.array([2, 0])
    expected = parts(solve(problem, examples=ids), problem, ids)
    states = slice(*problem.program.state_ptr[problem.program.var_ptr[1:3]])
    for rubbish in (-INF, np.nan):
        problem.theta.node[states] = rubbish
        assert parts(solve(problem, examples=ids), problem, ids) == expected
    problem.theta.node[states] = -INF
    found = solve(problem)
    assert found.primal.tolist() == [Primal.FRACTIONAL, Primal.INFEASIBLE, Primal.FRACTIONAL]
    assert found.bound[1] == -INF
    np.testing.assert_allclose(found.bound[ids], [one[0] for one in expected[::-1]][::-1], rtol=1e-13)


@given(st.integers(0, 10**6))
@settings(max_examples=40)
def test_labellings_are_optimal_where_all_is_decided_ties_or_not(seed):
    problem = multilabel([6, 0, 9, 4], seed, strength=0.3, whole=seed % 2 == 0)
    found = solve(problem, task=Task.MAP)
    best = BruteForce().open(problem.program, {}).solve(Question(problem.theta)).score
    done = found.primal == Primal.FEASIBLE
    np.testing.assert_allclose(found.score[done], best[done], rtol=1e-12, atol=1e-12)
    assert (found.bound >= best - 1e-9).all()
    assert done[1]
    filled = solve(problem, task=Task.MAP, rest="icm")
    assert (filled.primal == Primal.FEASIBLE).all()
    assert (filled.score <= best + 1e-9).all()
    np.testing.assert_array_equal(filled.bound, found.bound)


def test_few_waves_or_many_and_the_search_agree_with_minimum_cuts():
    for n, strength in itertools.product((3, 10, 60), (0.02, 0.2)):
        problem = multilabel([n], 7, strength)
        lack = problem.theta.pool.reshape(-1, 4) @ [1, -1, -1, 1]
        problem.theta.pool.reshape(-1, 4)[:, 0] += np.maximum(-lack, 0.0)
        found = solve(problem, task=Task.MAP)
        exact = GraphCut().open(problem.program, {}).solve(Question(problem.theta))
        np.testing.assert_allclose(found.bound, exact.score, rtol=1e-12)
        np.testing.assert_allclose(found.score, exact.score, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_an_example_has_one_answer_in_every_batch_in_every_order_and_step(seed, monkeypatch):
    n = [5, 0, 12, 7, 1, 14, 3]
    problem = multilabel(n, seed, strength=0.4, whole=seed == 2)
    together = parts(solve(problem), problem, np.arange(len(n)))
    order = np.array([6, 5, 1, 0, 4, 3, 2])
    assert parts(solve(problem, examples=order), problem, order) == [together[i] for i in order]
    for i in range(len(n)):
        alone = np.array([i])
        assert parts(solve(problem, examples=alone), problem, alone) == [together[i]]
    monkeypatch.setattr(qpbo, "BUDGET", 11)
    assert parts(solve(problem), problem, np.arange(len(n))) == together
