"""Backends behind bridges: the answers of integer programming and of trying every labelling, whatever is asked."""

from __future__ import annotations

import gc
import json
import re
import weakref
from itertools import pairwise

import numpy as np
import pytest

from constraints import few_runs
from ssvm_dsl.errors import NoBackendError, PluginError
from ssvm_dsl.inference.bridging.bridges import bridge_chain_through
from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import ConstraintGroup, Group, Guarantee, Program, Question, Task, Theta, pointers
from ssvm_dsl.plugin_api import BackendSpec, BridgeSpec, ConstraintSpec, Rewrite, Verdict, hookimpl, program_need
from ssvm_dsl.registry import PluginInfo, registry
from ssvm_dsl.testing import check_bridge
from ssvm_dsl.testing.bridges import bridge_problem
from ssvm_dsl.testing.brute_force import BruteForceSession

ANY = Guarantee.HEURISTIC


def asked(program, backend, task=Task.MAP, plugins=None):
    return plan_program(program, program_need(program, frozenset({task}), ANY), backend, None, plugins)


def counted(lengths, lower, upper, rng, card=2, literal_state=1):
    """Chains with a bound on how many variables have a state, and random scores."""
    ptr = pointers(np.array(lengths, dtype=np.int64))
    first = np.concatenate([np.arange(lo, hi - 1) for lo, hi in pairwise(ptr)]).astype(np.int32)
    counts = np.maximum(np.array(lengths) - 1, 0)
    scope = np.stack([first, first + 1], axis=1)
    chain = Group.of("link", (card, card), scope, pointers(counts), np.zeros(len(first), np.int32), 1, ptr)
    local = np.concatenate([np.arange(n) for n in lengths]).astype(np.int32)
    group = ConstraintGroup(
        "count", "budget", np.arange(len(lengths) + 1), ptr, local, np.full_like(local, literal_state),
        np.zeros(len(local), bool), {"lower": np.array(lower), "upper": np.array(upper)},
    )  # fmt: skip
    program = Program(ptr, np.full(ptr[-1], card, np.int32), (chain,), (group,)).validate()
    return program, Theta.of(program, rng.normal(size=program.n_states), [rng.normal(size=(1, card**2))])


@pytest.mark.parametrize(("bridge", "n"), [("logic-to-tables", 2), ("counts-to-states", 8)])
def test_the_kit_passes_it(bridge, n, bridge_conformance):
    report = bridge_conformance(bridge, n_problems=n)
    assert {check.name for check in report.checks} >= {"optimum", "kbest", "marginals", "masks", "infeasible examples"}


@pytest.mark.parametrize("backend", ["combi", "junction-tree", "trws", "ad3", "max-product", "ilp"])
@pytest.mark.parametrize("kind", ["count", "linear"])
def test_backends_answer_behind_bridges(backend, kind):
    for seed in range(2 if backend == "ilp" else 6):
        problem = bridge_problem(kind, seed, registry())
        best = BruteForceSession(problem.program).solve(Question(problem.theta)).score
        plan = asked(problem.program, backend)
        found = open_plan(plan, problem.program).solve(Question(problem.theta))
        there = found.primal == 0
        if plan.need and registry().find(BackendSpec, backend).caps.guarantee is Guarantee.EXACT:
            assert problem.agree(found.score, best)
        assert (found.score[there] <= best[there] + 1e-9).all()
        assert not (found.bound < best - 1e-6).any()  # nan where there is none
        assert not (best[found.primal == 3] > -np.inf).any()


def test_a_budget_on_long_chains():
    """What the dynamic program with counts finds, and what no backend found before: the k best, marginals, log Z."""
    rng = np.random.default_rng(0)
    program, theta = counted([40, 0, 1, 23], [0, 0, 0, 5], [6, 1, 0, 9], rng, card=3)
    native = open_plan(asked(program, "chain"), program).solve(Question(theta))
    plan = asked(program, "junction-tree")
    assert plan.bridges == ("counts-to-states",)
    session = open_plan(plan, program)
    assert session.solve(Question(theta)).score == pytest.approx(native.score, abs=1e-9)
    ranked = session.solve(Question(theta, None, Task.KBEST, k=4))
    by_rows = open_plan(asked(program, "ilp", Task.KBEST), program).solve(Question(theta, None, Task.KBEST, k=4))
    assert ranked.score == pytest.approx(by_rows.score, rel=1e-5)
    sums = session.solve(Question(theta, None, Task.MARGINALS))
    assert sums.log_partition == pytest.approx(log_partitions(program, theta), abs=1e-8)
    step = 1e-6
    for place in (4, 3 * 41 + 1):
        moved = Theta.of(program, theta.node + step * (np.arange(program.n_states) == place), theta.tables)
        rate = (log_partitions(program, moved) - log_partitions(program, theta)).sum() / step
        assert sums.marginals.node[place] == pytest.approx(rate, abs=1e-4)


def log_partitions(program, theta):
    """Log Z of chains with bounds on how many variables have state 1, by a forward pass over (state, count)."""
    group, out = program.constraints[0], []
    for i in range(program.n_examples):
        n, table = int(np.diff(program.var_ptr)[i]), theta.tables[0].reshape(3, 3)
        node = theta.node[program.state_ptr[program.var_ptr[i]] :][: 3 * n].reshape(n, 3)
        start = np.tile(np.where(np.arange(n + 1) == 0, 0.0, -np.inf), (3, 1))
        belief = start
        for v in range(n):
            came = np.logaddexp.reduce(belief[:, None] + table[:, :, None], axis=0) if v else start
            belief = came + node[v][:, None]
            belief[1] = np.append(-np.inf, belief[1][:-1])
        total = np.logaddexp.reduce(belief if n else start[:1], axis=0)
        keep = (np.arange(n + 1) >= group.meta["lower"][i]) & (np.arange(n + 1) <= group.meta["upper"][i])
        out.append(np.logaddexp.reduce(np.where(keep, total, -np.inf)))
    return np.array(out)


def test_native_oracles_come_first():
    program, _ = counted([6, 6], [0, 0], [2, 3], np.random.default_rng(0))
    plan = plan_program(program, program_need(program))
    assert (plan.backend, plan.bridges) == ("chain", ())
    assert not any(one.bridges for one in plan.candidates)
    asked_for = plan_program(program, program_need(program), "ilp")
    assert asked_for.title == "ilp"


def test_the_cheapest_bridge_is_taken_where_no_oracle_is_native():
    program, theta = counted([16, 16], [0, 0], [2, 3], np.random.default_rng(0))
    plan = plan_program(program, program_need(program, frozenset({Task.KBEST})))
    assert plan.title.endswith("through counts-to-states") or plan.title.endswith("through logic-to-tables")
    seconds = {one.title: one.seconds for one in plan.candidates if one.ok}
    assert seconds[plan.title] == min(seconds.values())
    stored = Plan.of_summary(json.loads(json.dumps(plan.summary())))
    assert (stored.title, stored.bridges) == (plan.title, plan.bridges)
    assert {one.title for one in stored.candidates} == {one.title for one in plan.candidates}
    assert np.isfinite(open_plan(plan, program).solve(Question(theta, None, Task.KBEST, k=2)).score).all()


@pytest.mark.parametrize("bridge", ["counts-to-states", "logic-to-tables"])
def test_a_bridge_that_is_named_is_taken(bridge):
    program, theta = counted([7, 0, 5], [1, 0, 0], [2, 1, 9], np.random.default_rng(3))
    need = program_need(program)
    plan = plan_program(program, need, f"junction-tree through {bridge}")
    assert plan.title == f"junction-tree through {bridge}"
    assert plan.reason == f"{plan.title} was asked for"
    assert plan.summary()["candidates"] == {plan.title: "fits"}
    best = BruteForceSession(with_rules(program, registry())).solve(Question(theta)).score
    np.testing.assert_allclose(open_plan(plan, program).solve(Question(theta)).score, best)
    empty = program.take(np.array([1]))
    assert plan_program(empty, program_need(empty), plan.title).title in (plan.title, "junction-tree")


def test_a_backend_that_could_do_without_goes_through_the_bridge_that_is_named():
    program, theta = counted([6], [0], [2], np.random.default_rng(0))
    plan = plan_program(program, program_need(program), "brute-force through counts-to-states")
    assert plan.bridges == ("counts-to-states",)
    best = BruteForceSession(with_rules(program, registry())).solve(Question(theta)).score
    np.testing.assert_allclose(open_plan(plan, program).solve(Question(theta)).score, best)


def test_bridges_that_are_named_in_vain_are_refused_with_what_would_fit():
    program, _ = counted([9], [0], [2], np.random.default_rng(0))
    wrong = {"junction-tree through counts-to-stats": "did you mean 'counts-to-states'", "jt through x": "'jt'"}
    for name, text in wrong.items():
        with pytest.raises(PluginError, match=text):
            plan_program(program, program_need(program), name)
    with pytest.raises(NoBackendError, match="runs-to-ages' does not take the constraints") as err:
        plan_program(program, program_need(program), "combi through runs-to-ages")
    assert re.search("these would fit: chain, .*combi through [a-z-]+", str(err.value))
    with pytest.raises(NoBackendError, match="tree through counts-to-states: handles a forest"):
        plan_program(program, program_need(program), "tree through counts-to-states")
    with pytest.raises(NoBackendError, match="bridges do not pass on the task 'relaxed'"):
        plan_program(program, program_need(program, frozenset({Task.RELAXED})), "lp through counts-to-states")
    free = Program(program.var_ptr, program.card, program.groups)
    with pytest.raises(NoBackendError, match=r"no hard constraints to rewrite\n.*write backend='tree'"):
        plan_program(free, program_need(free), "tree through counts-to-states")


def test_refusals_name_bridges_and_cures():
    program, _ = counted([9], [0], [2], np.random.default_rng(0))
    with pytest.raises(NoBackendError) as err:
        plan_program(program, program_need(program, frozenset({Task.KBEST})), "chain")
    assert "chain through counts-to-states: handles disjoint chains" in str(err.value)
    assert re.search("these would fit: .*brute-force, junction-tree through [a-z-]+", str(err.value))
    with pytest.raises(NoBackendError) as err:
        plan_program(program, program_need(program), "assignment")
    assert "this has 2; does not handle constraints count (" in str(err.value)
    large, _ = counted([40], [0], [20], np.random.default_rng(0))
    group = large.constraints[0]
    odd = ConstraintGroup(
        "linear", "odd", group.ptr, group.literal_ptr, group.variable, group.state, group.negated,
        {"lower": np.array([-np.inf]), "upper": np.array([3.0])}, {"coefficient": np.pi * np.arange(1.0, 41.0)},
    )  # fmt: skip
    program = Program(large.var_ptr, large.card, large.groups, (odd,))
    with pytest.raises(NoBackendError) as err:
        plan_program(program, program_need(program, frozenset({Task.MARGINALS})))
    assert "bridge 'counts-to-states': odd: its coefficients are not small multiples of one number" in str(err.value)
    assert "bridge 'logic-to-tables': odd: tables have up to 12 variables" in str(err.value)


def test_selected_examples_clamps_and_their_own_tables():
    """Tables of each example alone; only those of the examples asked for are looked at."""
    rng = np.random.default_rng(3)
    program, theta = counted([5, 4, 3], [1, 0, 2], [2, 2, 3], rng)
    shapes = program.groups[0].shapes
    own = Group("link", (2, 2), shapes, program.groups[0].rows, np.arange(3), 3)
    program = with_rules(Program(program.var_ptr, program.card, (own,), program.constraints).validate(), registry())
    tables = rng.normal(size=(3, 4))
    clamp = np.full(program.n_variables, -1, np.int32)
    clamp[[1, 9]] = 1
    for ids in ([2, 0], [1], [0, 1, 2], []):
        for task in (Task.MAP, Task.MAP_CLAMPED):
            given, some = tables.copy(), np.array(ids, dtype=np.int64)
            given[np.setdiff1d(np.arange(3), some)] = np.nan  # nobody is to look there
            whole, partly = Theta.of(program, theta.node, [tables]), Theta.of(program, theta.node, [tables])
            partly.tables[0][:] = given
            fixed = clamp if task is Task.MAP_CLAMPED else None
            session = open_plan(asked(program, "junction-tree", task), program, outwards=False)
            found = session.solve(Question(partly, some, task, clamp=fixed))
            best = BruteForceSession(program).solve(Question(whole, some, task, clamp=fixed))
            assert found.score == pytest.approx(best.score, abs=1e-9)
            assert found.labels.tolist() == best.labels.tolist()


def test_what_was_lowered_goes_with_its_program():
    gc.freeze()  # what other tests have left is not looked at again: a second
    program, _ = counted([5], [0], [2], np.random.default_rng(0))
    plan = asked(program, "combi")
    first, second = (bridge_chain_through(program, plan.bridges, registry()) for _ in range(2))
    assert first is second
    gone = weakref.ref(program)
    del program, first, second
    gc.collect()
    assert gone() is None


# -- a stranger's kind, and a stranger's bridge ---------------------------------------------------------------


def stranger(kind=None, bridge=few_runs.RunsToStates, name="runs-to-states", kinds=("few-runs",)):
    class Plugin:
        @hookimpl
        def ssvm_constraints(self):
            return [ConstraintSpec("few-runs", f"{few_runs.__name__}:FewRuns", parameters=("runs",))]

        @hookimpl
        def ssvm_bridges(self):
            return [BridgeSpec(name, f"{bridge.__module__}:{bridge.__qualname__}", kinds=frozenset(kinds))]

    known = registry().copy()
    assert known.register(Plugin(), PluginInfo("stranger", "stranger 1.0", bundled=False, allowed=False))
    return known


def test_a_strangers_bridge_passes_the_kit():
    report = check_bridge("runs-to-states", stranger(), n_problems=12)
    assert report.ok, str(report)


def long_runs(n, runs, rng):
    """A chain with at most so many runs of ones."""
    program, theta = counted([n], [0], [n], rng)
    group = program.constraints[0]
    few = ConstraintGroup(
        "few-runs", "few", group.ptr, group.literal_ptr, group.variable, group.state, group.negated,
        {"runs": np.array([runs])},
    )  # fmt: skip
    return Program(program.var_ptr, program.card, program.groups, (few,)).validate(), theta


def test_a_strangers_kind_is_answered_by_name_and_left_to_rows_by_auto():
    known, rng = stranger(), np.random.default_rng(1)
    program, theta = long_runs(30, 2, rng)
    by_rows = plan_program(program, program_need(program), plugins=known)
    assert by_rows.title == "ilp"  # bridges of packages that are only installed change nothing
    plan = plan_program(program, program_need(program), "junction-tree", None, known)
    assert plan.title == "junction-tree through runs-to-states"
    question = Question(theta)
    found = open_plan(plan, program, known).solve(question)
    assert found.score == pytest.approx(open_plan(by_rows, program, known).solve(question).score, abs=1e-4)
    assert (np.diff([0, *found.labels]) == 1).sum() <= 2
    sums = open_plan(plan, program, known).solve(Question(theta, None, Task.MARGINALS))
    assert np.isfinite(sums.log_partition).all()


class Leaky(few_runs.RunsToStates):
    """Forgets one constraint."""

    def lower(self, example):
        return Rewrite.of(example)


class Doubled(few_runs.RunsToStates):
    """Every labelling has two completions."""

    def lower(self, example):
        made = super().lower(example)
        made.variable(2)
        return made


class Failing(few_runs.RunsToStates):
    def lower(self, example):
        raise ZeroDivisionError("at night")


class Shapeless(few_runs.RunsToStates):
    def lower(self, example):
        made = Rewrite.of(example)
        made.tables.append(((0, 1), np.zeros((2, 3), bool)))
        return made


class Grown(few_runs.RunsToStates):
    def lower(self, example):
        return Rewrite([2] * (example.n_variables + 1))


class Undecided(few_runs.RunsToStates):
    def check(self, example):
        return True


class Nothing:
    pass


@pytest.mark.parametrize(
    ("bridge", "failed", "text"),
    [
        (Leaky, "optimum", "a labelling breaks the constraint 'few'"),
        (Doubled, "kbest", "a labelling is listed twice among the k best"),
        (Doubled, "marginals", "log partitions are"),
        (Failing, "rewritten", "ZeroDivisionError: at night"),
        (Shapeless, "rewritten", "must be an array of bools of shape"),
        (Grown, "rewritten", "a Rewrite begins with the variables of the example"),
        (Undecided, "rewritten", "check() returns a Verdict, got True"),
        (Nothing, "loads", "Nothing has no method check(example)"),
    ],
)
def test_the_kit_catches_what_is_wrong(bridge, failed, text):
    report = check_bridge("runs-to-states", stranger(bridge=bridge), n_problems=8)
    assert failed in report.failed
    assert text in str(report)


def test_answers_that_break_a_constraint_name_backend_and_bridge():
    known = stranger(bridge=Leaky)
    program, theta = long_runs(30, 0, np.random.default_rng(1))
    plan = plan_program(program, program_need(program), "combi", None, known)
    with pytest.raises(PluginError, match=r"combi through runs-to-states.*plug-in 'stranger'") as err:
        open_plan(plan, program, known).solve(Question(theta))
    assert "breaks the constraint 'few'" in str(err.value)


def test_descriptions_of_bridges_are_checked():
    class Plugin:
        @hookimpl
        def ssvm_bridges(self):
            return [BridgeSpec("empty", "few_runs:RunsToStates"), BridgeSpec("odd", "few_runs:R", kinds=["count"])]

    known = registry().copy()
    known.register(Plugin(), PluginInfo("stranger", "stranger 1.0", bundled=False, allowed=False))
    assert {one.name for one in known.specs(BridgeSpec)} == {"logic-to-tables", "counts-to-states", "runs-to-ages"}
    told = " ".join(problem.text for problem in known.problems)
    assert "bridge 'empty' is left out: it takes no kind of constraints" in told
    assert "bridge 'odd' is left out: kinds must be a frozenset of str" in told


class RunsToCounts:
    """One bridge leads to another: starts of runs become variables, and a count of them is left."""

    def check(self, example):
        return Verdict(True, 16.0 * len(example.constraints[0].variable))

    def lower(self, example):
        group, made = example.constraints[0], Rewrite.of(example)
        for k in range(group.n_constraints):
            starts, before = [], None
            for i in range(group.literal_ptr[k], group.literal_ptr[k + 1]):
                v = int(group.variable[i])
                true = (np.arange(example.card[v]) == group.state[i]) != group.negated[i]
                start = made.variable(2)
                if before is None:
                    made.table((v, start), np.equal.outer(true, [False, True]))
                else:
                    u, last = before
                    begins = ~last[:, None] & true
                    made.table((u, v, start), np.equal.outer(begins, [False, True]))
                before = v, true
                starts.append(start)
            m = len(starts)
            made.constraints.append(
                ConstraintGroup(
                    "count", f"starts {k}", np.array([0, 1]), np.array([0, m]), np.array(starts, np.int32),
                    np.ones(m, np.int32), np.zeros(m, bool),
                    {"lower": np.zeros(1, np.int64), "upper": group.meta["runs"][k : k + 1].astype(np.int64)},
                )
            )  # fmt: skip
        return made


def test_a_bridge_may_lead_to_another():
    known = stranger(bridge=RunsToCounts, name="runs-to-counts")
    report = check_bridge("runs-to-counts", known, n_problems=6, only={"optimum", "kbest", "marginals", "clamps"})
    assert report.ok, str(report)
    program, theta = long_runs(30, 2, np.random.default_rng(1))
    plan = plan_program(program, program_need(program, frozenset({Task.MARGINALS})), "junction-tree", None, known)
    assert plan.title == "junction-tree through runs-to-counts and counts-to-states"
    found = open_plan(plan, program, known).solve(Question(theta, None, Task.MARGINALS))
    other = stranger()
    states = plan_program(program, program_need(program), "junction-tree", None, other)
    reference = open_plan(states, program, other).solve(Question(theta, None, Task.MARGINALS))
    assert found.log_partition == pytest.approx(reference.log_partition, abs=1e-9)
    assert found.marginals.node == pytest.approx(reference.marginals.node, abs=1e-9)
