"""``chain`` and ``tree`` under one count constraint for each example, against every labelling."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest

from constraints.constraint_cases import group_of, random_constraints, unlinked
from ssvm_backends.trees import count_sum
from ssvm_dsl.errors import NoBackendError
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Group, Guarantee, Limits, Primal, Question, Stop, Task, Theta, Topology
from ssvm_dsl.plugin_api import program_need
from ssvm_dsl.registry import registry
from ssvm_dsl.testing import open_session, solve
from ssvm_dsl.testing.brute_force import BruteForceSession
from ssvm_dsl.testing.problems import Recipe, Scores, seeded

RECIPES = {
    "chain": [
        Recipe(Topology.CHAIN, max_variables=6, n_examples=4, masks=True, empty=True),
        Recipe(Topology.CHAIN, max_variables=6, shuffled=False, same_card=True, scores=Scores.INTEGER),
    ],
    "tree": [
        Recipe(Topology.FOREST, max_variables=6, n_examples=4, density=0.7, empty=True, forbidden=True),
        Recipe(Topology.FOREST, max_variables=7, max_card=2, masks=True, scores=Scores.MIXED),
    ],
}


def first_of_each(group):
    """The first constraint of each example, where it has any."""
    return group.only(group.ptr[:-1][group.counts > 0])


@pytest.mark.parametrize("backend", RECIPES)
@pytest.mark.parametrize("seed", range(30))
def test_best_labellings_and_marginals_are_of_those_that_keep_it(backend, seed):
    made, rng = seeded(RECIPES[backend][seed % 2], seed), np.random.default_rng(seed)
    group = first_of_each(random_constraints(rng, made.program, "count"))
    program = with_rules(replace(made.program, constraints=(group,)).validate(), registry())
    clamp = np.where(rng.random(program.n_variables) < 0.3, rng.integers(0, program.card), -1).astype(np.int32)
    session = open_session(program, backend, {Task.MAP, Task.MAP_CLAMPED, Task.MARGINALS})
    for question in (
        Question(made.theta),
        Question(made.theta, None, Task.MAP_CLAMPED, clamp),
        Question(made.theta, rng.permutation(program.n_examples)[:2].astype(np.int64)),
    ):
        best, found = BruteForceSession(program).solve(question), session.solve(question)
        assert found.primal.tolist() == best.primal.tolist()
        np.testing.assert_allclose(found.score, best.score, rtol=1e-12, atol=1e-9)
        question = question.replace(task=Task.MARGINALS)
        every, found = BruteForceSession(program).solve(question), session.solve(question)
        np.testing.assert_allclose(found.log_partition, every.log_partition, rtol=1e-12, atol=1e-9)
        np.testing.assert_allclose(found.marginals.node, every.marginals.node, atol=1e-9)
        for mine, right in zip(found.marginals.tables, every.marginals.tables, strict=True):
            np.testing.assert_allclose(mine, right, atol=1e-9)


def budget(n, m, lower=0, upper=3):
    literals = [(v, 1) for v in range(n)]
    return unlinked([[2] * n] * m, group_of("count", [[literals]] * m, lower=[lower] * m, upper=[upper] * m))


@pytest.mark.parametrize(("lower", "upper"), [(0, 3), (197, 2**31 - 1), (100, 100), (0, 200), (201, 300), (5, 4)])
def test_long_chains_with_budgets(lower, upper):
    program = budget(200, 2, lower, upper)
    theta = Theta.of(program, np.random.default_rng(0).normal(size=800))
    solution = solve(program, theta, "chain")
    if lower > min(upper, 200):
        assert solution.primal.tolist() == [Primal.INFEASIBLE] * 2
        return
    for i in range(2):
        gain = np.sort(np.diff(theta.node.reshape(2, 200, 2)[i], axis=1).ravel())[::-1]
        best = np.cumsum(np.append(0.0, gain))[lower : min(upper, 200) + 1].max()
        assert solution.score[i] == pytest.approx(theta.node.reshape(2, 200, 2)[i, :, 0].sum() + best)


@pytest.mark.parametrize(("lower", "upper"), [(0, 3), (197, 2**31 - 1), (100, 100), (201, 300)])
def test_sums_within_a_budget_do_not_lose_what_is_far_below_the_rest(lower, upper):
    """Log Z of variables without tables by elementary symmetric polynomials, at scores of a thousand."""
    program = budget(200, 2, lower, upper)
    theta = Theta.of(program, 1e3 * np.random.default_rng(0).normal(size=800))
    solution = solve(program, theta, "tree", Task.MARGINALS)
    for i, (zero, one) in enumerate(np.moveaxis(theta.node.reshape(2, 200, 2), 2, 1)):
        sums = np.append(0.0, np.full(200, -np.inf))
        for gain in one - zero:
            sums[1:] = np.logaddexp(sums[1:], sums[:-1] + gain)
        log_z = zero.sum() + np.logaddexp.reduce(sums[lower : upper + 1], initial=-np.inf)
        assert solution.log_partition[i] == pytest.approx(log_z, rel=1e-12)
        if lower <= 200:
            within = solution.marginals.node.reshape(2, 200, 2)[i, :, 1].sum()
            assert lower - 1e-9 <= within <= upper + 1e-9


def test_auto_plans_counts_by_dynamic_programming_and_without_pairs_by_sorting():
    program = budget(20, 1)
    assert plan(program_need(program)).backend == "cardinality"
    first = np.arange(19, dtype=np.int32)
    scope = np.stack([first, first + 1], axis=1)
    links = Group.of("link", (2, 2), scope, np.array([0, 19]), np.zeros(19, np.int32), 1, program.var_ptr)
    assert plan(program_need(replace(program, groups=(links,)))).backend == "chain"


def test_what_they_do_not_take_is_refused_with_its_reason():
    two = [[[(0, 1)], [(1, 1)]]]
    program = unlinked([[2, 2]], group_of("count", two, lower=[0, 0], upper=[0, 1]))
    with pytest.raises(NoBackendError, match="handles one constraint for each example, this has 2"):
        plan(program_need(program), "chain")
    with pytest.raises(NoBackendError, match="with constraints it lists no k best labellings, asked for kbest"):
        plan(program_need(budget(2, 1), frozenset({Task.KBEST})), "tree")
    linear = unlinked([[2]], group_of("linear", [[[(0, 1, False, 1.0)]]], literal_meta=["coefficient"],
                                      lower=[0.0], upper=[0.0]))  # fmt: skip
    with pytest.raises(NoBackendError, match="does not handle constraints linear"):
        plan(program_need(linear), "chain")
    assert plan(program_need(linear, guarantee=Guarantee.EXACT)).backend != "chain"


def test_time_limits_leave_labellings_and_no_false_bounds():
    program = budget(10, 5)
    session = open_session(program, "chain")
    solution = session.solve(Question(Theta.zeros(program), limits=Limits(time=0.0)))
    late = solution.stop == Stop.TIME
    assert late.any()
    assert (solution.primal[late] == Primal.FEASIBLE).all()  # there is always a labelling, and it keeps the budget
    assert not (solution.bound[late] < 0.0).any()  # nan, or what no labelling exceeds


def linked(n, card, lower, upper):
    """One chain of n variables, of which so many may have state 1."""
    literals = [(v, 1) for v in range(n)]
    program = unlinked([[card] * n], group_of("count", [[literals]], lower=[lower], upper=[upper]))
    first = np.arange(n - 1, dtype=np.int32)
    scope, rows = np.stack([first, first + 1], axis=1), np.zeros(n - 1, np.int32)
    link = Group.of("link", (card, card), scope, np.array([0, n - 1]), rows, 1, program.var_ptr)
    return replace(program, groups=(link,)).validate()


@pytest.mark.parametrize(("lower", "upper"), [(0, 3), (1_197, 2**31 - 1), (1_196, 1_198), (2, 2)])
def test_tables_of_counts_are_no_larger_than_expected(lower, upper):
    program = linked(1_200, 3, lower, upper)
    theta = Theta.of(program, np.random.default_rng(0).normal(size=3_600), [np.random.default_rng(1).normal(size=9)])
    made = plan(program_need(program), "chain")
    session = open_plan(made, program)
    session.solve(Question(theta))  # loads the kernel
    tracemalloc.start()
    solution = session.solve(Question(theta))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.0 * made.n_bytes + 1e6
    found = int((solution.labels == 1).sum())
    assert lower <= found <= upper
    through = solve(program, theta, "junction-tree")
    assert solution.score == pytest.approx(through.score)


def test_sums_of_a_long_example_in_slices_are_those_in_one(monkeypatch):
    monkeypatch.setattr(count_sum, "LONG", 1)
    monkeypatch.setattr(count_sum, "SLICE", 1.0)
    made, rng = seeded(RECIPES["tree"][0], 2), np.random.default_rng(2)
    group = first_of_each(random_constraints(rng, made.program, "count"))
    program = with_rules(replace(made.program, constraints=(group,)).validate(), registry())
    session = open_session(program, "tree", {Task.MARGINALS})
    limits, n_late = Limits(time=1e3), 0
    for i in range(program.n_examples):
        question = Question(made.theta, np.array([i]), Task.MARGINALS)
        whole, sliced = session.solve(question), session.solve(question.replace(limits=limits))
        np.testing.assert_array_equal(sliced.log_partition, whole.log_partition)
        np.testing.assert_array_equal(sliced.marginals.node, whole.marginals.node)
        monkeypatch.setattr(count_sum, "perf_counter", lambda: np.inf)
        late = session.solve(question.replace(limits=limits))
        monkeypatch.setattr(count_sum, "perf_counter", perf_counter)
        n_late += int(late.stop[0] == Stop.TIME)
    assert n_late > 1  # all but those without variables or without a labelling
