"""Brute force against plain loops over ``itertools.product``, which share no code with it."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from math import exp, inf, log, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssvm_dsl.errors import PluginError
from ssvm_dsl.ir import ConstraintGroup, Limits, Primal, Program, Question, Stop, Task, Theta
from ssvm_dsl.plugin_api import program_need, score_labels
from ssvm_dsl.testing.brute_force import MAX_LABELLINGS, BruteForce
from ssvm_dsl.testing.problems import MAX_LABELLINGS as LIMIT
from ssvm_dsl.testing.problems import Recipe, catalogue, seeded
from ssvm_dsl.testing.strategies import problems, recipes

CASES = catalogue()


def table_score(problem, labels):
    """Score of a labelling of the whole batch, example by example, factor by factor."""
    program, theta = problem.program, problem.theta
    out = []
    for i in range(program.n_examples):
        lo, hi = program.var_ptr[i], program.var_ptr[i + 1]
        total = theta.const[i] + sum(theta.node[program.state_ptr[v] + labels[v]] for v in range(lo, hi))
        for group, table in zip(program.groups, theta.tables):
            for f in range(group.ptr[i], group.ptr[i + 1]):
                block = table[group.table[f]].reshape(group.cards)
                total += block[tuple(labels[group.scope[f]])]
        out.append(total)
    return np.array(out)


def listed(problem, example, clamp=None):
    """(score, labels) of all labellings of an example that keep masks and clamps and are not forbidden."""
    program = problem.program
    lo, hi = program.var_ptr[example], program.var_ptr[example + 1]
    full = np.zeros(program.n_variables, dtype=int)
    out = []
    for labels in itertools.product(*(range(c) for c in program.card[lo:hi])):
        full[lo:hi] = labels
        kept = program.allowed is None or all(program.allowed[program.state_ptr[v] + full[v]] for v in range(lo, hi))
        kept = kept and (clamp is None or all(clamp[v] in (-1, full[v]) for v in range(lo, hi)))
        score = table_score(problem, full)[example]
        if kept and score > -inf:
            out.append((score, labels))
    return sorted(out, key=lambda pair: (-pair[0], pair[1]))


def solve(problem, **question):
    return BruteForce().open(problem.program, {}).solve(Question(problem.theta, **question))


def rows_of(problem, solution, example):
    lo, hi = problem.program.var_ptr[example : example + 2]
    return np.atleast_2d(solution.labels)[:, lo:hi].tolist()


@pytest.mark.parametrize("name", CASES)
def test_corner_cases_against_loops(name):
    check(CASES[name], np.random.default_rng(0))


@settings(max_examples=40)
@given(recipe=recipes(), seed=st.integers(0, 1000))
def test_random_problems_against_loops(recipe, seed):
    small = replace(recipe, max_variables=min(recipe.max_variables, 4), max_card=min(recipe.max_card, 3))
    check(seeded(small, seed), np.random.default_rng(seed))


def check(problem, rng):
    clamp = rng.integers(0, problem.program.card).astype(np.int32)
    clamp[rng.random(len(clamp)) < 0.5] = -1
    best = solve(problem)
    clamped = solve(problem, task=Task.MAP_CLAMPED, clamp=clamp)
    several = solve(problem, task=Task.KBEST, k=3)
    for i in range(problem.program.n_examples):
        right = listed(problem, i)
        check_best(problem, best, i, right)
        check_best(problem, clamped, i, listed(problem, i, clamp))
        scores = [score for score, _ in right[:3]] + [-inf] * (3 - len(right))
        np.testing.assert_allclose(several.score[:, i], scores, rtol=1e-12)
    check_marginals(problem)


def check_best(problem, solution, i, right):
    if not right:
        assert solution.score[i] == -inf
        assert solution.primal[i] == Primal.INFEASIBLE
        return
    assert solution.score[i] == pytest.approx(right[0][0], rel=1e-12)
    assert solution.bound[i] == solution.score[i]
    found = tuple(rows_of(problem, solution, i)[0])
    assert dict(map(reversed, right))[found] == pytest.approx(right[0][0], rel=1e-9)


def check_marginals(problem):
    solution = solve(problem, task=Task.MARGINALS)
    program, node = problem.program, 0
    row = [0] * len(program.groups)
    for i in range(program.n_examples):
        right = listed(problem, i)
        top = max((score for score, _ in right), default=0.0)
        weights = [(exp(score - top), labels) for score, labels in right]
        total = sum(weight for weight, _ in weights)
        expected = top + log(total) if total else -inf
        assert solution.log_partition[i] == pytest.approx(expected, rel=1e-12, abs=1e-9)
        lo, hi = program.var_ptr[i], program.var_ptr[i + 1]
        for v in range(lo, hi):
            for s in range(program.card[v]):
                p = sum(w for w, labels in weights if labels[v - lo] == s)
                assert solution.marginals.node[node] == pytest.approx(p / (total or 1.0), abs=1e-9)
                node += 1
        for g, group in enumerate(program.groups):
            for f in range(group.ptr[i], group.ptr[i + 1]):
                mine = np.zeros(group.cards)
                for w, labels in weights:
                    mine[tuple(labels[v - lo] for v in group.scope[f])] += w / total
                np.testing.assert_allclose(solution.marginals.tables[g][row[g]], mine.ravel(), atol=1e-9)
                row[g] += 1
    assert node == len(solution.marginals.node)
    assert row == [len(table) for table in solution.marginals.tables]


def test_ties_go_to_the_lexicographically_first():
    solution = solve(CASES["everything ties"], task=Task.KBEST, k=4)
    assert solution.labels.tolist() == [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 1, 1]]
    mirror = solve(CASES["mirror images tie"], task=Task.KBEST, k=2)
    assert mirror.labels.tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]


def test_missing_rows_have_no_score_and_labels_zero():
    problem = CASES["mask leaves one labelling"]
    solution = solve(problem, task=Task.KBEST, k=3)
    np.testing.assert_array_equal(solution.score[1:, 0], [-inf, -inf])
    assert solution.labels[1:, :2].tolist() == [[0, 0], [0, 0]]
    assert solution.score[1, 1] > -inf
    assert solution.score[2, 1] == -inf


@settings(max_examples=30)
@given(problem=problems())
def test_scores_are_those_of_score_labels_to_the_last_bit(problem):
    solution = solve(problem)
    scores = score_labels(problem.program, problem.theta, solution.labels)
    feasible = solution.primal == Primal.FEASIBLE
    np.testing.assert_array_equal(solution.score[feasible], scores[feasible])


def test_selected_examples_are_packed_in_the_order_asked():
    problem = seeded(Recipe(n_examples=5, masks=True, empty=True), 3)
    program = problem.program
    whole, ids = solve(problem, task=Task.MARGINALS), np.array([4, 0, 3])
    part = solve(problem, task=Task.MARGINALS, examples=ids)
    np.testing.assert_array_equal(part.score, whole.score[ids])
    np.testing.assert_array_equal(part.log_partition, whole.log_partition[ids])
    expected = np.concatenate([whole.labels[program.var_ptr[i] : program.var_ptr[i + 1]] for i in ids])
    np.testing.assert_array_equal(part.labels, expected)
    for group, mine, all_of_them in zip(program.groups, part.marginals.tables, whole.marginals.tables):
        rows = np.concatenate([np.arange(group.ptr[i], group.ptr[i + 1]) for i in ids])
        np.testing.assert_array_equal(mine, all_of_them[rows])


def test_time_limit_leaves_the_rest_unanswered():
    problem = CASES["empty example in the middle"]
    solution = solve(problem, task=Task.MARGINALS, limits=Limits(time=0.0))
    assert (solution.stop == Stop.TIME).all()
    assert (solution.primal == Primal.NONE).all()
    assert (solution.score == -inf).all()
    assert np.isnan(solution.bound).all()
    assert np.isnan(solution.log_partition).all()
    in_time = solve(problem, limits=Limits(time=60.0))
    assert (in_time.stop == Stop.FINISHED).all()


def two_state(n):
    return Program(np.array([0, n]), np.full(n, 2, np.int32)).validate()


def test_large_examples_are_refused_with_their_number_of_labellings():
    assert BruteForce().check(program_need(two_state(20))).ok
    verdict = BruteForce().check(program_need(two_state(21)))
    assert not verdict.ok
    assert verdict.reasons == (f"an example has {2**21} labellings; it tries {MAX_LABELLINGS}",)
    with pytest.raises(PluginError, match=str(2**21)):
        BruteForce().open(two_state(21), {})
    assert not BruteForce().check(program_need(two_state(5000))).ok


def test_the_largest_accepted_example_is_solved():
    program = two_state(20)
    node = np.zeros(40)
    node[1::2] = 1.0
    solution = BruteForce().open(program, {}).solve(Question(Theta.of(program, node)))
    assert solution.labels.tolist() == [1] * 20


def test_cost_counts_labellings_and_terms():
    programs = [seeded(Recipe(max_card=c, same_card=True), 1).program for c in (2, 3)]
    small, large = (BruteForce().check(program_need(program)) for program in programs)
    assert 0 < small.cost < large.cost


def test_constraints_are_not_dropped_silently():
    none = ConstraintGroup(
        "at-most", "c", *(np.zeros(n, t) for n, t in ((3, int), (1, int), (0, "i4"), (0, "i4"), (0, bool)))
    )
    with pytest.raises(PluginError, match="constraints"):
        BruteForce().open(replace(two_state(2), constraints=(none,)), {})


@pytest.mark.parametrize("seed", range(25))
def test_generated_problems_are_small_valid_and_reproducible(seed):
    recipe = Recipe(max_arity=4, n_examples=4, max_variables=8, max_card=5, masks=True, forbidden=True)
    problem = seeded(recipe, seed)
    program = problem.program.validate()
    for i in range(program.n_examples):
        assert prod(program.card[program.var_ptr[i] : program.var_ptr[i + 1]].tolist()) <= LIMIT
    again = eval(problem.name)
    assert again.program.content_hash == program.content_hash
    np.testing.assert_array_equal(again.theta.pool, problem.theta.pool)
    np.testing.assert_array_equal(again.theta.node, problem.theta.node)


def test_brute_force_needs_no_numba():
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "from ssvm_dsl.ir import Question\n"
        "from ssvm_dsl.testing.brute_force import BruteForce\n"
        "from ssvm_dsl.testing.problems import catalogue\n"
        "for problem in catalogue().values():\n"
        "    BruteForce().open(problem.program, {}).solve(Question(problem.theta))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
