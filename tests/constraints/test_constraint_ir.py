"""Groups of constraints: taken apart, judged, hashed, and refused where they are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from constraints.constraint_cases import group_of, labellings, unlinked
from ssvm_dsl.errors import BackendFault, OptionError, PluginError
from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.inference.verification.verify import Verifier
from ssvm_dsl.ir import Caps, Guarantee, LinearRows, Primal, Question, Solution, Task, Theta, Topology
from ssvm_dsl.plugin_api import ConstraintSpec, program_need
from ssvm_dsl.plugin_api.hosting.rules import row_mistakes
from ssvm_dsl.registry import registry
from ssvm_dsl.testing import solve

#: At most one of three, at least one of the first two, and (in the third example) not both of two.
EXAMPLES = [[[(0, 1), (1, 1), (2, 1)], [(0, 1), (1, 1)]], [], [[(1, 2), (0, 0, True)]]]
GROUP = group_of("count", EXAMPLES, lower=[0, 1, -1], upper=[1, 9, 1])
CARDS = [[2, 2, 2], [3], [2, 3]]


def judged(program, example, labels):
    """The definition, literal by literal."""
    group = program.constraints[0]
    for k in range(group.ptr[example], group.ptr[example + 1]):
        part = group.literals(k)
        pairs = zip(group.variable[part], group.state[part], group.negated[part], strict=True)
        true = sum((labels[v] == s) != no for v, s, no in pairs)
        if not group.meta["lower"][k] <= true <= group.meta["upper"][k]:
            return True
    return False


def ruled(*groups, cards=CARDS):
    return with_rules(unlinked(cards, *groups), registry())


@pytest.mark.parametrize("ids", [[0, 1, 2], [2, 0], [1], [0, 0, 2], []])
def test_examples_are_taken_with_their_constraints(ids):
    whole = ruled(GROUP)
    some = whole.take(np.array(ids, np.int64)).validate()
    for place, example in enumerate(ids):
        for labels in labellings(whole, example):
            alone = some.take(np.array([place]))
            group = alone.constraints[0]
            broken = group.broken(np.array(labels, np.int32), alone.var_ptr).any()
            assert broken == judged(whole, example, labels)


def test_rows_agree_with_what_is_violated():
    program = ruled(GROUP)
    group = program.constraints[0]
    for example in range(3):
        for labels in labellings(program, example):
            true = group.take(np.array([example])).true_literals(np.array(labels, np.int32), np.array([0, len(labels)]))
            mine = group.take(np.array([example]))
            for k in range(mine.n_constraints):
                rows = mine.rules.rows(mine, k)
                assert not row_mistakes(rows, len(true[mine.literals(k)]))
                total = rows.coefficient @ true[mine.literals(k)][rows.column]
                assert mine.rules.violated(mine, true)[k] == (not rows.lower[0] <= total <= rows.upper[0])


def test_linear_constraints_forgive_rounding():
    tenth = group_of("linear", [[[(0, 1, False, 0.1), (1, 1, False, 0.2)]]], literal_meta=["coefficient"],
                     lower=[0.3], upper=[0.3])  # fmt: skip
    group = ruled(tenth, cards=[[2, 2]]).constraints[0]
    for labels in labellings(unlinked([[2, 2]]), 0):
        broken = group.broken(np.array(labels, np.int32), np.array([0, 2]))
        assert broken.tolist() == [labels != (1, 1)]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"ptr": np.array([0, 2, 2])}, "ptr"),
        ({"literal_ptr": np.array([0, 3, 2, 7])}, "literal_ptr"),
        ({"variable": np.array([0, 1, 2, 0, 1, 2, 0], np.int32)}, "reaches out of its example"),
        ({"state": np.array([1, 1, 2, 1, 1, 2, 0], np.int32)}, "a state that its variable does not have"),
        ({"state": np.array([1, 1, 1, 1, 1, 2, 0])}, "state"),
        ({"meta": {"lower": np.zeros(2)}}, "lower"),
    ],
)
def test_malformed_groups_are_named(change, text):
    with pytest.raises(ValueError, match=f"constraint c: .*{text}"):
        unlinked(CARDS, replace(GROUP, **change))


def test_every_part_of_a_group_is_in_the_hash():
    other = [
        replace(GROUP, name="d"), replace(GROUP, kind="linear"), replace(GROUP, negated=~GROUP.negated),
        replace(GROUP, meta=GROUP.meta | {"upper": np.array([2, 9, 1])}),
        replace(GROUP, literal_meta={"weight": np.zeros(7)}), replace(GROUP, state=np.zeros(7, np.int32)),
    ]  # fmt: skip
    hashes = {unlinked(CARDS, group).content_hash for group in [GROUP, *other]}
    assert len(hashes) == 1 + len(other)
    assert unlinked(CARDS, GROUP).content_hash == ruled(GROUP).content_hash


def test_unknown_kinds_and_parameters_are_refused():
    with pytest.raises(PluginError, match="there is no constraint 'cuont'; did you mean 'count'"):
        ruled(replace(GROUP, kind="cuont"))
    with pytest.raises(OptionError, match="constraint 'c' of the kind 'count': its parameters for each constraint are"):
        ruled(replace(GROUP, meta={"lower": GROUP.meta["lower"]}))
    with pytest.raises(OptionError, match="'linear': its parameters for each literal are coefficient, got none"):
        ruled(replace(GROUP, kind="linear"))


def solved(program, theta, task=Task.MAP, k=1, backend="brute-force"):
    return solve(program, theta, backend, task, k=k)


def test_brute_force_keeps_constraints_in_every_task():
    program = unlinked(CARDS, GROUP)
    theta = Theta.of(program, np.arange(14.0))
    feasible = [
        sorted((sum(theta.node[p + s] for p, s in zip(program.state_ptr[program.var_ptr[i] :], y, strict=False)), y)
               for y in labellings(program, i) if not judged(program, i, y))
        for i in range(3)
    ]  # fmt: skip
    solution = solved(program, theta)
    assert solution.score.tolist() == [one[-1][0] for one in feasible]
    ranked = solved(program, theta, Task.KBEST, 4)
    for i in range(3):
        scores = [score for score, _ in feasible[i][::-1][:4]]
        assert ranked.score[: len(scores), i].tolist() == scores
    log_z = solved(program, theta, Task.MARGINALS).log_partition
    np.testing.assert_allclose(log_z, [np.logaddexp.reduce([score for score, _ in one]) for one in feasible])


def test_what_nothing_satisfies_is_infeasible():
    program = unlinked([[2, 2], [2]], group_of("count", [[[(0, 1), (1, 1)]], []], lower=[3], upper=[5]))
    solution = solved(program, Theta.zeros(program))
    assert solution.primal.tolist() == [Primal.INFEASIBLE, Primal.FEASIBLE]


EXACT = Caps(topology=Topology.LOOPY, guarantee=Guarantee.EXACT, every_constraint=True)


def answer(labels, score, primal=Primal.FEASIBLE):
    codes = np.zeros(1, np.int8)
    scores = np.array([score], dtype=float)
    return Solution(np.array(labels, np.int32), scores, scores.copy(), codes, codes + np.int8(primal))


def test_labellings_that_break_a_constraint_are_the_backends_fault():
    program = ruled(group_of("count", [[[(0, 1), (1, 1)]]], "budget", lower=[0], upper=[1]), cards=[[2, 2]])
    theta, verify = Theta.of(program, [0.0, 1.0, 0.0, 2.0]), Verifier(program, "b", EXACT)
    assert verify(Question(theta), answer([0, 1], 2.0)).score == [2.0]
    with pytest.raises(BackendFault, match=r"breaks the constraint 'budget' \(answer 0\)"):
        verify(Question(theta), answer([1, 1], 3.0))


def test_infeasibility_is_held_against_what_is_known():
    program = ruled(group_of("count", [[[(0, 1), (1, 1)]]], lower=[0], upper=[1]), cards=[[2, 2]])
    verify = Verifier(program, "b", EXACT)
    low, high = (Theta.of(program, [0.0, s, 0.0, 2.0]) for s in (-1.0, 1.0))
    denied = answer([0, 0], -np.inf, Primal.INFEASIBLE)
    with pytest.raises(BackendFault, match="infeasible, but there is a labelling of score 2"):
        verify(Question(low), denied)  # the best states of the variables satisfy the constraint
    assert verify(Question(high), denied).primal == [Primal.INFEASIBLE]  # they do not, and nothing else is known
    with pytest.raises(BackendFault, match="infeasible, but there is a labelling of score 1"):
        verify(Question(high), denied, known=np.array([1.0]))


def test_constraints_reach_backends_that_announce_them_only():
    program = unlinked(CARDS, GROUP)
    reasons = {one.name: one.reasons for one in plan_program(program, program_need(program)).candidates if not one.ok}
    assert "does not handle constraints count (c)" in reasons["trws"]


def test_bundled_kinds_are_registered_like_a_strangers():
    assert {spec.name for spec in registry().specs(ConstraintSpec)} >= {"count", "linear"}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"ptr": np.array([0, 1])}, "ptr runs from 0 to 2"),
        ({"column": np.array([0, 2], np.int32)}, "columns are numbers from 0 to 1"),
        ({"coefficient": np.array([np.nan, 1.0])}, "finite"),
        ({"lower": np.array([np.nan])}, "bounds of rows are numbers"),
        ({"upper": np.array([1])}, "upper must be an array of 1 float64"),
    ],
)
def test_malformed_rows_are_named(changes, text):
    assert text in row_mistakes(replace(LinearRows.one(np.ones(2), 0.0, 1.0), **changes), 2)
