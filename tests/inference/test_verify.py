"""The verifier lets honest answers through and refuses every way of breaking the contract."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssvm_dsl.errors import BackendFault, PluginError
from ssvm_dsl.inference.verification.checks import check_most
from ssvm_dsl.inference.verification.verify import Verifier
from ssvm_dsl.ir import (
    Caps,
    ConstraintGroup,
    Group,
    Guarantee,
    Marginals,
    Primal,
    Program,
    Question,
    Solution,
    Stop,
    Task,
    Theta,
    Topology,
)
from ssvm_dsl.ir.solution import NO_STATE
from ssvm_dsl.testing.brute_force import BruteForce
from ssvm_dsl.testing.problems import Recipe, seeded
from ssvm_dsl.testing.strategies import problems

EXACT = Caps(tasks=frozenset(Task), topology=Topology.LOOPY, guarantee=Guarantee.EXACT, max_arity=4)
BOUND = replace(EXACT, guarantee=Guarantee.BOUND)
HEURISTIC = replace(EXACT, guarantee=Guarantee.HEURISTIC)

# two examples: variables of (2, 2) states joined by a factor, and one variable of 3 states
PAIR = Group.of(
    "pair", (2, 2), np.array([[0, 1]], np.int32), np.array([0, 1, 1]), np.array([0], np.int32), 1, np.array([0, 2, 3])
)
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
    solution,
    caps=EXACT,
    task=Task.MAP,
    examples=None,
    clamp=None,
    program=PROGRAM,
    theta=THETA,
    foreign="",
    k=None,
    known=None,
):
    rows = len(solution.score) if k is None and task is Task.KBEST else k
    question = Question(theta, examples, task, clamp, k=rows)
    return Verifier(program, "toy", caps, foreign)(question, solution, known)


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
    found = BruteForce().open(problem.program, {}).solve(Question(problem.theta, task=task, clamp=clamp, k=3))
    before = found.score.copy()
    checked = verify(found, task=task, clamp=clamp, program=problem.program, theta=problem.theta)
    np.testing.assert_array_equal(checked.score, before)


@pytest.mark.parametrize(
    ("solution", "message"),
    [
        (None, "returned NoneType, expected a Solution"),
        ({"labels": BEST}, "returned dict, expected a Solution"),
        (answer(labels=[1, 1]), r"labels: expected shape \(3,\) for 3 variables, got \(2,\)"),
        (answer(labels=[]), r"labels: expected shape \(3,\) for 3 variables, got \(0,\)"),
        (replace(answer(), labels=BEST), "labels: expected an array, got a list"),
        (replace(answer(), bound=15.0), "bound: expected an array, got a float"),
        (replace(answer(), labels=np.array(BEST)), "labels: expected int32, got int64"),
        (answer(score=[15.0]), r"score: expected shape \(2,\) for 2 examples"),
        (answer(bound=[15.0]), r"bound: expected shape \(2,\) for 2 examples"),
        (answer(stop=np.zeros(3, np.int8)), r"stop: expected shape \(2,\) for 2 examples, got \(3,\)"),
        (answer(primal=np.zeros(3, np.int8)), r"primal: expected shape \(2,\) for 2 examples, got \(3,\)"),
        (answer(labels=[BEST, BEST]), r"labels: expected shape \(3,\) for 3 variables, got \(2, 3\)"),
        (replace(answer(), score=np.array([15.0, 6.0], np.float32)), "score: expected float64, got float32"),
        (replace(answer(), score=[15.0, 6.0]), "score: expected an array, got a list"),
        (replace(answer(), score=np.ma.array([15.0, 6.0])), "score: expected an array, got a MaskedArray"),
        (answer(score=[[15.0, 6.0]], bound=(15.0, 6.0)), r"score: expected shape \(2,\) for 2 examples, got \(1, 2\)"),
        (answer(stop=np.array([0, 99], np.int8)), "stop holds 99; known are FINISHED = 0"),
        (answer(primal=np.array([0, -1], np.int8)), "primal holds 255; known are FEASIBLE = 0"),
        (answer(primal=np.zeros(2, int)), "primal: expected int8, got int64"),
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


def test_constraints_that_nothing_checks_are_refused():
    group = ConstraintGroup("differ", "d", *(np.zeros(n, np.int64) for n in (3, 1)), *3 * (np.zeros(0, np.int32),))
    with pytest.raises(PluginError, match="nothing checks whether answers keep hard constraints of the kind differ"):
        verify(answer(), program=replace(PROGRAM, constraints=(group,)))


@pytest.mark.parametrize(("caps", "shift"), [(EXACT, -1.0), (BOUND, -1.0), (HEURISTIC, -1.0), (EXACT, 1.0)])
def test_dishonest_bounds_are_faults(caps, shift):
    with pytest.raises(BackendFault, match="its bound"):
        verify(answer(bound=(15.0, 6.0 + shift)), caps=caps)


def test_an_exact_backend_without_bound_is_a_fault():
    with pytest.raises(BackendFault, match="claims exactness but its bound"):
        verify(answer(bound=(15.0, np.nan)))


@pytest.mark.parametrize("bound", [(15.0, 6.0), (16.0, 7.0), (np.inf, 6.0)])
def test_honest_bounds_pass(bound):
    verify(answer(bound=bound), caps=BOUND)


def test_an_exact_backend_that_stopped_early_may_have_a_loose_bound():
    stop = np.array([Stop.TIME, Stop.FINISHED], np.int8)
    verify(answer(bound=(20.0, 6.0), stop=stop))
    with pytest.raises(BackendFault, match="differs"):
        verify(answer(bound=(20.0, 6.5), stop=stop))


def test_infeasible_examples_have_no_score():
    primal = np.array([Primal.FEASIBLE, Primal.INFEASIBLE], np.int8)
    closed = Theta.of(PROGRAM, [*THETA.node[:4], *[-np.inf] * 3], THETA.tables, THETA.const)
    checked = verify(answer([1, 1, 2], (15.0, -np.inf), primal=primal), theta=closed)
    assert checked.score.tolist() == [15.0, -np.inf]
    with pytest.raises(BackendFault, match=r"calls answer 1 infeasible, but there is a labelling of score 6\.0"):
        verify(answer([1, 1, 2], (15.0, -np.inf), primal=primal))
    none = np.array([Primal.FEASIBLE, Primal.NONE], np.int8)
    checked = verify(answer(score=(15.0, -np.inf), bound=(15.0, 7.0), primal=none), caps=BOUND)
    assert checked.score.tolist() == [15.0, -np.inf]
    with pytest.raises(BackendFault, match=r"calls answer 1 NONE and gives it score 6\.0"):
        verify(answer(primal=none), caps=BOUND)
    with pytest.raises(BackendFault, match="calls answer 1 FEASIBLE and gives it score -inf"):
        verify(answer(score=(15.0, -np.inf), bound=(15.0, 6.0)), caps=BOUND)


def test_rows_of_the_k_best_are_all_checked():
    two = [[1, 1, 1], [0, 1, 0]]
    scores = [[15.0, 6.0], [12.0, 5.0]]
    checked = verify(answer(two, scores, bound=(15.0, 6.0)), task=Task.KBEST)
    assert checked.score.tolist() == scores
    with pytest.raises(BackendFault, match="reports score"):
        verify(answer(two, [[15.0, 6.0], [12.0, 5.5]], bound=(15.0, 6.0)), task=Task.KBEST)
    verify(answer([[1, 1, 1], [0, 1, 0]], [[15.0, 6.0], [12.0, -np.inf]], bound=(15.0, 6.0)), task=Task.KBEST)


WHOLE = Marginals(np.array([0, 1, 0, 1, 0, 1, 0.0]), (np.array([[0, 0, 0, 1.0]]),))


@pytest.mark.parametrize("task", [Task.MARGINALS, Task.RELAXED])
def test_labels_may_be_left_out_where_they_are_not_the_answer(task):
    told = {"marginals": WHOLE, "log_partition": np.array([15.0, 6.0])}
    none = answer(labels=[], score=(np.nan, np.nan), bound=(15.0, 6.0), **told)
    assert verify(none, task=task) is none
    with pytest.raises(BackendFault, match="labels: expected shape"):
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
    honest = BruteForce().open(program, {}).solve(Question(problem.theta))
    for v in np.flatnonzero(program.card > 1):
        labels = honest.labels.copy()
        labels[v] = (labels[v] + 1) % program.card[v]
        with pytest.raises(BackendFault):
            verify(replace(honest, labels=labels), program=program, theta=problem.theta)


def test_labels_of_examples_without_a_labelling_are_no_states():
    """Nobody can take state 0 for an answer where there is none: neither after a fraction nor after a time limit."""
    for missing in (Primal.FRACTIONAL, Primal.NONE):
        changes = {"primal": np.array([0, missing], np.int8)}
        found = verify(answer(score=(15.0, -np.inf), bound=(15.0, 6.0), **changes))
        assert found.labels.tolist() == [*BEST[:2], NO_STATE]
        assert found.score.tolist() == [15.0, -np.inf]
        assert found.primal[1] != Primal.FEASIBLE
        assert found.labels_or(np.array([7, 7, 7], np.int32)).tolist() == [*BEST[:2], 7]
        again = verify(found)
        assert again.labels.tolist() == [*BEST[:2], NO_STATE]
# -- labellings that are known, rankings, probabilities --------------------------------------------------------------


def test_a_known_labelling_contradicts_a_lower_bound():
    """A consistent lie, the second best labelling with its score as the bound, and a better one is known."""
    second = answer([0, 1, 0], (12.0, 5.0))
    verify(second)
    verify(second, known=np.array([12.0, -np.inf]))
    with pytest.raises(BackendFault, match=r"its bound 12\.0 is below the score 14\.0 of a labelling \(answer 0\)"):
        verify(second, known=np.array([14.0, 5.0]))
    closed = np.array([Primal.INFEASIBLE, Primal.FEASIBLE], np.int8)
    theta = Theta.of(PROGRAM, [-np.inf, 0, 0, -np.inf, 5, 6, 7], [np.array([[0, 0, -np.inf, 0]])])
    said = answer([0, 0, 2], (-np.inf, 7.0), primal=closed)
    verify(said, theta=theta)
    with pytest.raises(BackendFault, match="calls answer 0 infeasible"):
        verify(said, theta=theta, known=np.array([1.0, -np.inf]))


def test_foreign_answers_are_held_against_the_best_states():
    with pytest.raises(BackendFault, match=r"\(plug-in 'p'\) broke .* below the score 12\.0 of a labelling"):
        verify(answer([1, 0, 1], (10.5, 6.0)), foreign="plug-in 'p'")
    masked = replace(PROGRAM, allowed=np.array([1, 1, 1, 0, 1, 1, 1], dtype=bool))
    verify(answer([0, 0, 1], (11.0, 6.0)), program=masked, foreign="plug-in 'p'")


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [
        ([[0, 1, 0], [1, 1, 1]], [[12.0, 5.0], [15.0, 6.0]], "not best first"),
        ([[1, 1, 1], [1, 1, 0]], [[15.0, 6.0], [15.0, 5.0]], r"twice among the k best \(answer 0, rows 0 and 1\)"),
        ([[1, 1, 1]] * 3, [[15.0, 6.0], [-np.inf, -np.inf], [15.0, 6.0]], "stands behind a missing one"),
    ],
)
def test_rankings_are_sorted_and_all_different(labels, scores, message):
    bound = np.max(scores, axis=0)
    with pytest.raises(BackendFault, match=message):
        verify(answer(labels, scores, bound), caps=BOUND, task=Task.KBEST, k=len(labels))


def test_a_ranking_is_as_long_as_there_are_labellings():
    theta = Theta.of(PROGRAM, np.arange(7.0))
    short = answer([[1, 1, 2], [0, 1, 0]], [[4.0, 6.0], [-np.inf] * 2], (4.0, 6.0))
    with pytest.raises(BackendFault, match="lists 1 labellings of answer 0, which has more"):
        verify(short, task=Task.KBEST, theta=theta, k=2)
    with pytest.raises(BackendFault, match=r"labels: expected shape \(3, 3\)"):
        verify(short, task=Task.KBEST, theta=theta, k=3)


def lean(node=WHOLE.node, table=(0.0, 0.0, 0.0, 1.0), log_z=(16.0, 7.0), **changes):
    mu = Marginals(np.array(node, dtype=float), (np.array([table], dtype=float),))
    return answer(labels=[], score=(np.nan,) * 2, bound=(15.0, 6.0), marginals=mu, log_partition=np.array(log_z))


@pytest.mark.parametrize(
    ("solution", "message"),
    [
        (lean(node=[0.5, 0.4, 0, 1, 0, 1, 0]), r"variable 0 are no probabilities; they sum to 0\.9"),
        (lean(node=[-0.5, 1.5, 0, 1, 0, 1, 0]), "variable 0 are no probabilities"),
        (lean(node=[0, 1, 0, 1, 0, np.nan, 0]), "variable 2 are no probabilities"),
        (lean(table=[0.0, 0.0, 0.5, 0.5]), "factor of 'pair' do not add up"),
        (lean(table=[1.0, -1.0, -1.0, 2.0]), "factor of 'pair' do not add up"),
        (lean(log_z=(np.nan, 7.0)), "a log partition is nan"),
        (replace(lean(), marginals=Marginals(WHOLE.node, ())), "one for each of 1 groups"),
        (replace(lean(), log_partition=None), "log_partition: expected an array, got a NoneType"),
    ],
)
def test_marginals_are_probabilities_that_agree(solution, message):
    verify(lean(), task=Task.MARGINALS)
    with pytest.raises(BackendFault, match=message):
        verify(solution, task=Task.MARGINALS)


def test_a_log_partition_is_at_least_the_score_of_a_labelling():
    with pytest.raises(BackendFault, match=r"its log partition 14\.0 is below the score 15\.0"):
        verify(lean(log_z=(14.0, 7.0)), task=Task.MARGINALS, known=np.array([15.0, 6.0]))


def exactly(numbers, difference):
    """Accept no difference, as where no score is anything but 0."""
    return difference <= 0.0


def test_rounding_of_a_sum_is_no_fault():
    check_most("log partition", np.array([-2.2e-16]), np.array([-0.0]), exactly, BackendFault)
    for what, most in (("log partition", -1e-9), ("bound", -2.2e-16)):
        with pytest.raises(BackendFault, match=f"its {what} .* is below the score"):
            check_most(what, np.array([most]), np.array([-0.0]), exactly, lambda text: BackendFault("kit", text))
