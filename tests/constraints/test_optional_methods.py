"""What a kind of constraints may bring besides: best states for ``decompose`` and ``ad3``, propagation for ``ilp``."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from constraints import few_runs
from constraints.test_strangers_kind import registered
from ssvm_backends.decomposition import parts
from ssvm_dsl.errors import PluginError
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.rules.constraint_rules import with_rules
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import ConstraintGroup, Group, Guarantee, Program, Question, Theta
from ssvm_dsl.plugin_api import BestKind, PropagatingKind, program_need
from ssvm_dsl.testing import check_constraint
from ssvm_dsl.testing.brute_force import BruteForceSession

ASKED = []


class Best(few_runs.FewRuns):
    """Tries all truths of the literals."""

    def best_states(self, group, k, scores):
        ASKED.append(k)
        single, best = group.only(np.array([k])), (-np.inf, None)
        for truth in product((False, True), repeat=len(scores.place)):
            states = scores.labels(np.array(truth, dtype=bool))
            if states is not None and not self.violated(single, np.array(truth, dtype=bool))[0]:
                worth = float(scores.score[scores.ptr[:-1] + states].sum())
                best = max(best, (worth, states), key=lambda pair: pair[0])
        return best[1]


class Second(Best):
    """Forgets the state of the first variable."""

    def best_states(self, group, k, scores):
        found = super().best_states(group, k, scores)
        if found is not None and len(found) and (scores.score[: scores.ptr[1]] > -np.inf).all():
            found[0] = 1 - found[0]
        return found


class Timid(Best):
    """Says that nothing satisfies it."""

    def best_states(self, group, k, scores):
        return None


class Wide(Best):
    """Returns a state more."""

    def best_states(self, group, k, scores):
        return np.zeros(scores.n_variables + 1, dtype=np.int32)


class Propagating(few_runs.FewRuns):
    """Adds a switch for each literal that begins a run: new variables of the model, and sums of them."""

    def propagate(self, group, k, model, literals):
        ASKED.append(k)
        begins = []
        for before, here in zip([None, *literals], literals, strict=False):
            begin = model.new_bool_var("")
            model.add_bool_or([begin, here.negated(), *([] if before is None else [before])])
            begins.append(begin)
        model.add(sum(begins) <= int(group.meta["runs"][k]))


class Strict(few_runs.FewRuns):
    """Rules out what the constraint allows."""

    def propagate(self, group, k, model, literals):
        for literal in literals[:1]:
            model.add_bool_and([literal.negated()])


@pytest.fixture(autouse=True)
def forget():
    ASKED.clear()


def ring(seed, n=7):
    """One example whose variables are in a ring of pairs, and in one constraint, which its best labelling breaks."""
    rng, ends = np.random.default_rng(seed), np.array([0, 1], dtype=np.int64)
    literals, ptr = np.arange(n, dtype=np.int32), np.array([0, n], dtype=np.int64)
    group = ConstraintGroup(
        "few-runs", "few", ends, ptr, literals, np.ones(n, np.int32), np.zeros(n, bool), {"runs": np.array([1])}
    )
    scope = np.stack([literals, np.roll(literals, 1)], axis=1)
    pairs = Group.of("pair", (2, 2), scope, ptr, literals, n, np.array([0, n]))
    program = Program(np.array([0, n]), np.full(n, 2, np.int32), (pairs,), (group,))
    node = np.stack([np.zeros(n), 2.0 * (-1.0) ** literals], axis=1) + rng.normal(size=(n, 2))
    return program, Theta.of(program, node, [rng.normal(size=(n, 4))])


def answered(known, backend, program, theta):
    need = program_need(program, guarantee=Guarantee.HEURISTIC)
    return open_plan(plan(need, backend, plugins=known), program, known).solve(Question(theta))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("kind", "backend"), [(Best, "decompose"), (Best, "ad3"), (Propagating, "ilp")])
def test_backends_ask_it_and_stay_exact(kind, backend, seed):
    known = registered(kind)
    program, theta = ring(seed)
    best = BruteForceSession(with_rules(program, known)).solve(Question(theta)).score[0]
    found = answered(known, backend, program, theta)
    if backend == "ad3":
        assert found.score[0] <= best + 1e-9 <= found.bound[0] + 1e-6
    else:
        assert found.score[0] == pytest.approx(best)
    assert ASKED


def test_decompose_makes_no_integer_program_of_such_a_kind(monkeypatch):
    monkeypatch.setitem(parts.ORACLES, parts.BY_ROWS, lambda program: pytest.fail("rows"))
    found = answered(registered(Best), "decompose", *ring(0))
    assert found.score[0] > -np.inf


@pytest.mark.parametrize(
    ("kind", "failed", "text"),
    [
        (Best, [], ""),
        (Propagating, [], ""),
        (Second, ["best states"], "best_states() of constraint"),
        (Timid, ["best states"], "is None, and states of score"),
        (Wide, ["best states"], "best_states()"),
        (Strict, ["propagation"], "propagate() rules out"),
    ],
)
def test_the_kit_checks_them(kind, failed, text):
    report = check_constraint("few-runs", registered(kind), n_problems=6, only=["best states", "propagation"])
    assert report.failed == failed
    assert text in str(report)
    assert ("best states" in report.not_claimed) is not issubclass(kind, BestKind)
    assert ("propagation" in report.not_claimed) is not issubclass(kind, PropagatingKind)


class Exact(few_runs.FewRuns):
    """Knows that its rows have no gaps, but of one literal."""

    def hull(self, group, k):
        return None if np.diff(group.literal_ptr)[k] == 1 else self.rows(group, k)


class Loose(few_runs.FewRuns):
    """Lets half a run more through."""

    def hull(self, group, k):
        rows = self.rows(group, k)
        return replace(rows, upper=rows.upper + 0.5)


class Lines(few_runs.FewRuns):
    """Returns no rows but words."""

    def hull(self, group, k):
        return "rows"


@pytest.mark.parametrize(
    ("kind", "failed", "text"),
    [
        (Loose, ["hull"], r"for literals, what satisfies it has"),
        (Lines, ["hull"], "expected LinearRows, got str"),
        (Exact, [], ""),
    ],
)
def test_the_kit_checks_hulls(kind, failed, text):
    report = check_constraint("few-runs", registered(kind), n_problems=10, only=["hull"])
    assert report.failed == failed
    assert text in str(report)


def test_states_that_are_none_are_a_fault_of_the_kind():
    with pytest.raises(PluginError, match=r"few-runs.*broke its contract: best_states\(\) of"):
        answered(registered(Wide), "decompose", *ring(0))
