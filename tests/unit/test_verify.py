"""The verifier lets honest answers through and refuses every way of breaking the contract."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssvm_dsl.errors import BackendFault
from ssvm_dsl.inference.verify import Verifier
from ssvm_dsl.ir import Caps, ConstraintGroup, Group, Guarantee, Primal, Program, Solution, Stop, Task, Theta, Topology
from ssvm_dsl.ir.solution import NO_STATE
from ssvm_dsl.plugin_api import ConstraintSpec
from ssvm_dsl.testing.brute_force import BruteForce
from ssvm_dsl.testing.problems import Recipe, seeded
from ssvm_dsl.testing.strategies import problems

EXACT = Caps(tasks=frozenset(Task), topology=Topology.LOOPY, guarantee=Guarantee.EXACT, max_arity=4)
BOUND = replace(EXACT, guarantee=Guarantee.BOUND)
HEURISTIC = replace(EXACT, guarantee=Guarantee.HEURISTIC)

# two examples: variables of (2, 2) states joined by a factor, and one variable of 3 states
PAIR = Group("pair", (2, 2), np.array([[0, 1]], np.int32), np.array([0, 1, 1]), np.array([0], np.int32), 1)
PROGRAM = Program(np.array([0, 2, 3]), np.array([2, 2, 3], np.int32), (PAIR,))
THETA = Theta.of(PROGRAM, [1.0, 0.0, 0.0, 2.0, 5.0, 6.0, -np.inf], [np.array([[0.0, -1.0, 0.5, 3.0]])], [10.0, 0.0])
BEST = [1, 1, 1]  # scores 10 + 0 + 2 + 3 and 6


def answer(labels=BEST, score=(15.0, 6.0), bound=None, **changes):
    solution = Solution(
        np.array(labels, dtype=np.int32),
        np.array(score, dtype=float),
        np.array(score if bound is None else bound, dtype=float),
        np.zeros(2, np.int8),
        np.zeros(2, np.int8),
    )
    return replace(solution, **changes)


def verify(
    solution, caps=EXACT, task=Task.MAP, examples=None, clamp=None, program=PROGRAM, theta=THETA, constraints=None
):
    return Verifier(program, "toy", caps, constraints)(theta, solution, examples, task, clamp)


def test_an_honest_answer_passes_and_its_scores_are_recomputed():
    checked = verify(answer(score=(15.0 + 1e-9, 6.0), bound=(15.0 + 1e-9, 6.0)))
    assert checked.score.tolist() == [15.0, 6.0]


def test_selected_examples_are_checked_in_the_order_asked():
    solution = answer([1, 1, 1], (6.0, 15.0))
    assert verify(solution, examples=np.array([1, 0])).score.tolist() == [6.0, 15.0]
    with pytest.raises(BackendFault, match=r"reports score 15\.0 for a labelling whose score is 6\.0 \(answer 0\)"):
        verify(answer([1, 1, 1], (15.0, 6.0)), examples=np.array([1, 0]))


@settings(max_examples=25)
@given(problem=problems(), task=st.sampled_from([Task.MAP, Task.MAP_CLAMPED, Task.KBEST, Task.MARGINALS]))
def test_brute_force_always_passes(problem, task):
    clamp = None
    if task is Task.MAP_CLAMPED:
        clamp = np.where(np.arange(problem.program.n_variables) % 2, -1, 0).astype(np.int32)
    found = BruteForce().open(problem.program, {}).solve(problem.theta, task=task, clamp=clamp, k=3)
    before = found.score.copy()
    checked = verify(found, task=task, clamp=clamp, program=problem.program, theta=problem.theta)
    np.testing.assert_array_equal(checked.score, before)


@pytest.mark.parametrize(
    ("solution", "message"),
    [
        (None, "returned NoneType, expected a Solution"),
        ({"labels": BEST}, "returned dict, expected a Solution"),
        (answer(labels=[1, 1]), r"labels have shape \(2,\) for 3 variables"),
        (answer(labels=[]), r"labels have shape \(0,\) for 3 variables"),
        (replace(answer(), labels=BEST), "labels is a list, expected an array"),
        (replace(answer(), bound=15.0), "bound is a float, expected an array"),
        (replace(answer(), labels=np.array(BEST)), "labels are int32, got int64"),
        (answer(score=[15.0]), r"score has shape \(1,\) for 2 examples"),
        (answer(bound=[15.0]), r"bound has shape \(1,\) for 2 examples"),
        (answer(stop=np.zeros(3, np.int8)), r"stop has shape \(3,\)"),
        (answer(primal=np.zeros(3, np.int8)), r"primal has shape \(3,\)"),
        (answer(labels=[BEST, BEST]), r"labels have shape \(2, 3\) but score has shape \(2,\)"),
        (answer(labels=[1, 2, 1]), "a label is outside the states"),
        (answer(labels=[1, -1, 1]), "a label is outside the states"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malformed_answers_are_faults_not_crashes(solution, message):
    with pytest.raises(BackendFault, match=message):
        verify(solution)


@pytest.mark.parametrize("score", [(14.0, 6.0), (15.0, 7.0), (np.inf, 6.0), (np.nan, 6.0)])
def test_a_wrong_score_is_a_fault(score):
    with pytest.raises(BackendFault, match="score"):
        verify(answer(score=score))


def test_the_fault_names_backend_answer_and_numbers():
    with pytest.raises(BackendFault) as caught:
        verify(answer(score=(15.0, 7.0)))
    first, hint = str(caught.value).splitlines()
    expected = "it reports score 7.0 for a labelling whose score is 6.0 (answer 1)"
    assert first == f"backend 'toy' broke its contract: {expected}"
    assert "ssvm plugins check toy" in hint


def test_a_forbidden_score_cannot_be_sold_as_a_finite_one():
    """``|-inf - 5| <= atol * inf`` must not count as equal."""
    with pytest.raises(BackendFault, match="-inf"):
        verify(answer([1, 1, 2], (15.0, 5.0)), caps=HEURISTIC)


def test_masks_are_kept():
    masked = replace(PROGRAM, allowed=np.array([1, 1, 1, 0, 1, 1, 1], dtype=bool))
    with pytest.raises(BackendFault, match="breaks a mask"):
        verify(answer(), program=masked)
    verify(answer([0, 0, 1], (11.0, 6.0)), program=masked)


def test_clamps_are_kept():
    clamp = np.array([-1, 0, -1], np.int32)
    with pytest.raises(BackendFault, match="a clamp"):
        verify(answer(), task=Task.MAP_CLAMPED, clamp=clamp)
    verify(answer([0, 0, 1], (11.0, 6.0)), task=Task.MAP_CLAMPED, clamp=clamp)
    picked = np.array([1])
    one = {"bound": np.array([6.0]), "stop": np.zeros(1, np.int8), "primal": np.zeros(1, np.int8)}
    verify(replace(answer([1], [6.0]), **one), task=Task.MAP_CLAMPED, clamp=clamp, examples=picked)


def differ(program, group, labels):
    """A constraint kind: the variables of two literals have different states."""
    first, second = labels[group.variable].reshape(-1, 2).T
    return first != second


def test_constraints_are_kept():
    literals = (np.array([0, 1], np.int32), np.zeros(2, np.int32), np.zeros(2, bool))
    group = ConstraintGroup("differ", np.array([0, 1, 1]), np.array([0, 2]), *literals)
    spec = {"differ": ConstraintSpec("differ", f"{__name__}:differ")}
    program = replace(PROGRAM, constraints=(group,))
    with pytest.raises(BackendFault, match="a constraint"):
        verify(answer(), program=program, constraints=spec)
    verify(answer([0, 1, 1], (12.0, 6.0)), program=program, constraints=spec)
    only_second = replace(
        answer([1], [6.0]), bound=np.array([6.0]), stop=np.zeros(1, np.int8), primal=np.zeros(1, np.int8)
    )
    verify(only_second, program=program, constraints=spec, examples=np.array([1]))


@pytest.mark.parametrize(("caps", "shift"), [(EXACT, -1.0), (BOUND, -1.0), (HEURISTIC, -1.0), (EXACT, 1.0)])
def test_dishonest_bounds_are_faults(caps, shift):
    with pytest.raises(BackendFault, match="its bound"):
        verify(answer(bound=(15.0, 6.0 + shift)), caps=caps)


def test_an_exact_backend_without_bound_is_a_fault():
    with pytest.raises(BackendFault, match="claims exactness but its bound"):
        verify(answer(bound=(15.0, np.nan)))


@pytest.mark.parametrize("bound", [(15.0, 6.0), (16.0, 7.0), (np.nan, np.nan), (np.inf, 6.0)])
def test_honest_bounds_pass(bound):
    verify(answer(bound=bound), caps=BOUND)


def test_an_exact_backend_that_stopped_early_may_have_a_loose_bound():
    stop = np.array([Stop.TIME, Stop.FINISHED], np.int8)
    verify(answer(bound=(20.0, 6.0), stop=stop))
    with pytest.raises(BackendFault, match="differs"):
        verify(answer(bound=(20.0, 6.5), stop=stop))


def test_infeasible_examples_have_no_score():
    primal = np.array([Primal.FEASIBLE, Primal.INFEASIBLE], np.int8)
    checked = verify(answer([1, 1, 2], (15.0, -np.inf), primal=primal))
    assert checked.score.tolist() == [15.0, -np.inf]
    checked = verify(answer(primal=np.array([Primal.FEASIBLE, Primal.NONE], np.int8)), caps=BOUND)
    assert checked.score.tolist() == [15.0, -np.inf]


def test_rows_of_the_k_best_are_all_checked():
    two = [[1, 1, 1], [0, 1, 0]]
    scores = [[15.0, 6.0], [12.0, 5.0]]
    checked = verify(answer(two, scores, bound=(15.0, 6.0)), task=Task.KBEST)
    assert checked.score.tolist() == scores
    with pytest.raises(BackendFault, match="reports score"):
        verify(answer(two, [[15.0, 6.0], [12.0, 5.5]], bound=(15.0, 6.0)), task=Task.KBEST)
    verify(answer([[1, 1, 1], [0, 1, 0]], [[15.0, 6.0], [12.0, -np.inf]], bound=(15.0, 6.0)), task=Task.KBEST)


@pytest.mark.parametrize("task", [Task.MARGINALS, Task.RELAXED])
def test_labels_may_be_left_out_where_they_are_not_the_answer(task):
    none = answer(labels=[], score=(np.nan, np.nan), bound=(15.0, 6.0))
    assert verify(none, task=task) is none
    with pytest.raises(BackendFault, match="labels have shape"):
        verify(answer(labels=[1, 1]), task=task)


def test_accuracy_is_relative_to_the_score():
    big = Theta.of(PROGRAM, THETA.node * 1e9, [table * 1e9 for table in THETA.tables], THETA.const * 1e9)
    verify(answer(score=(15e9 + 1.0, 6e9), bound=(15e9 + 1.0, 6e9)), theta=big)
    with pytest.raises(BackendFault):
        verify(answer(score=(15e9 + 100.0, 6e9), bound=(15e9 + 100.0, 6e9)), theta=big)
    loose = replace(EXACT, score_atol=1e-3)
    verify(answer(score=(15.001, 6.0), bound=(15.001, 6.0)), caps=loose)


def test_every_single_changed_label_is_noticed():
    """Change one label of an honest answer, keep its score: the verifier sees it (scores are all different)."""
    problem = seeded(Recipe(n_examples=3, max_variables=4), 8)
    program = problem.program
    honest = BruteForce().open(program, {}).solve(problem.theta)
    for v in np.flatnonzero(program.card > 1):
        labels = honest.labels.copy()
        labels[v] = (labels[v] + 1) % program.card[v]
        with pytest.raises(BackendFault):
            verify(replace(honest, labels=labels), program=program, theta=problem.theta)


def test_labels_of_examples_without_a_labelling_are_no_states():
    """Nobody can take state 0 for an answer where there is none: neither after a fraction nor after a time limit."""
    for changes in ({"primal": np.array([0, Primal.FRACTIONAL], np.int8)}, {"primal": np.array([0, 2], np.int8)}, {}):
        found = verify(answer(score=(15.0, -np.inf), bound=(15.0, 6.0), **changes))
        assert found.labels.tolist() == [*BEST[:2], NO_STATE]
        assert found.score.tolist() == [15.0, -np.inf]
        assert found.primal[1] != Primal.FEASIBLE
        assert found.labels_or(np.array([7, 7, 7], np.int32)).tolist() == [*BEST[:2], 7]
        again = verify(found)
        assert again.labels.tolist() == [*BEST[:2], NO_STATE]
