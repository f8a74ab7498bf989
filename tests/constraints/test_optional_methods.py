"""What a kind of constraints may bring besides: best states for ``decompose`` and ``ad3``, propagation for ``ilp``."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.optimize import nnls

from constraints import few_runs
from constraints.test_strangers_kind import registered
from ssvm_backends.decomposition import parts
from ssvm_dsl.errors import PluginError
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir import ConstraintGroup, Group, Program, Question, Task, Theta
from ssvm_dsl.plugin_api import BestKind, MixtureKind, PropagatingKind
from ssvm_dsl.testing import check_constraint, solve
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


class Mixing(few_runs.FewRuns):
    """Tries all truths of the literals, whatever variables they have."""

    def best_truth(self, group, k, gain):
        ASKED.append(k)
        single, best, worth = group.only(np.array([k])), (-np.inf, None), np.where(np.isinf(gain), 0.0, gain)
        for truth in product((False, True), repeat=len(gain)):
            true = np.array(truth, dtype=bool)
            if (true == (gain > 0.0))[np.isinf(gain)].all() and not self.violated(single, true)[0]:
                best = max(best, (float(worth @ true), true), key=lambda pair: pair[0])
        return best[1]


class Projecting(Mixing):
    """Solves a quadratic program over all truths."""

    def project(self, group, k, point):
        single, free = group.only(np.array([k])), np.isfinite(point)
        every = np.array(list(product((False, True), repeat=len(point))), dtype=bool)
        kept = every[[not self.violated(single, true)[0] for true in every]]
        corners = kept[(kept == (point > 0.0))[:, ~free].all(axis=1)].astype(float)
        if not len(corners):
            return None
        rows = np.vstack([corners[:, free].T, np.full(len(corners), 1e4)])
        weight = nnls(rows, np.append(point[free], 1e4))[0]
        return np.clip(weight @ corners / weight.sum(), 0.0, 1.0)


class Greedy(Mixing):
    """Makes literals true as long as the next one may be."""

    def best_truth(self, group, k, gain):
        single, true = group.only(np.array([k])), gain == np.inf
        if self.violated(single, true)[0]:
            return None
        for place in range(len(gain)):
            true[place] |= gain[place] > 0.0
            true[place] &= not self.violated(single, true)[0]
        return true


class Rounded(Projecting):
    """Takes the nearest corner for the nearest mixture."""

    def project(self, group, k, point):
        found = super().project(group, k, point)
        return None if found is None else np.rint(found)


class Raising(Mixing):
    """Fails after some calls."""

    def best_truth(self, group, k, gain):
        if len(ASKED) > 5:
            raise ZeroDivisionError("no more")
        return super().best_truth(group, k, gain)


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
    return solve(program, theta, backend, plugins=known)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("kind", "backend"),
    [(Best, "decompose"), (Best, "ad3"), (Propagating, "ilp"), (Mixing, "ad3"), (Projecting, "ad3")],
)
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
        (Mixing, [], ""),
        (Projecting, [], ""),
        (Greedy, ["mixtures"], "best_truth() of constraint"),
        (Rounded, ["mixtures"], "is the nearest one"),
    ],
)
def test_the_kit_checks_them(kind, failed, text):
    names = ["best states", "propagation", "mixtures"]
    report = check_constraint("few-runs", registered(kind), n_problems=6, only=names)
    assert report.failed == failed
    assert text in str(report)
    assert ("best states" in report.not_claimed) is not issubclass(kind, BestKind)
    assert ("mixtures" in report.not_claimed) is not issubclass(kind, MixtureKind)
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


def test_what_a_kind_raises_comes_out_of_the_compiled_loop():
    with pytest.raises(PluginError, match=r"few-runs.*ZeroDivisionError: no more"):
        answered(registered(Raising), "ad3", *ring(0))


@pytest.mark.parametrize("kind", [Mixing, Projecting])
@pytest.mark.parametrize("seed", range(4))
def test_bounds_by_mixtures_are_true_and_no_worse_than_those_by_rows(kind, seed):
    """With clamped variables, and negated literals."""
    (program, theta), rng = ring(seed), np.random.default_rng(seed)
    negated = rng.random(7) < 0.3
    program = replace(program, constraints=(replace(program.constraints[0], negated=negated),))
    clamp = np.where(rng.random(7) < 0.3, rng.integers(2, size=7), -1).astype(np.int32)
    question, bounds = Question(theta, task=Task.MAP_CLAMPED, clamp=clamp), []
    for one in (kind, few_runs.FewRuns):
        known = registered(one)
        bounds.append(solve(program, theta, "ad3", Task.MAP_CLAMPED, clamp=clamp, plugins=known).bound[0])
    best = BruteForceSession(with_rules(program, registered(kind))).solve(question).score[0]
    assert best <= bounds[0] + 1e-6 or best == bounds[0]
    assert bounds[0] <= bounds[1] + 0.05
