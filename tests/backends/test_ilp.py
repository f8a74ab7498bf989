"""The ILP backend: CP-SAT and HiGHS against brute force; honest arithmetic; anytime behaviour."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lp_problems import complete, eight_wide, grid, interruptible, pairwise

import ssvm_dsl as dsl
from naive import proved
from ssvm_backends.programs.ilp import ILP, integer_losses
from ssvm_backends.programs.local_polytope import build_polytope
from ssvm_dsl.ir import Limits, Need, Primal, Question, Stop
from ssvm_dsl.plugin_api import call_in_process, score_labels
from ssvm_dsl.testing.brute_force import BruteForce
from ssvm_dsl.testing.problems import Recipe, seeded

SOLVERS = ["cp-sat", "highs"]


def session(problem, solver="cp-sat", num_workers=1):
    return ILP().open(problem.program, {"solver": solver, "num_workers": num_workers})


def best(problem, **question):
    return BruteForce().open(problem.program, {}).solve(Question(problem.theta, **question)).score


def test_three_exact_solvers_on_a_complete_graph():
    problem = complete(12, 2, seed=5)
    scores = [session(problem, solver).solve(Question(problem.theta)).score[0] for solver in SOLVERS]
    np.testing.assert_allclose(scores, best(problem)[0], rtol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_arity_eight(solver):
    problem = eight_wide()
    np.testing.assert_allclose(session(problem, solver).solve(Question(problem.theta)).score, best(problem))


@given(seed=st.integers(0, 10**6), exponents=st.lists(st.integers(-12, 12), min_size=2, max_size=2))
@settings(max_examples=60)
def test_whole_numbers_prove_true_bounds(seed, exponents):
    """For every labelling: true score <= what its whole-number loss proves, and not far from it."""
    problem = seeded(Recipe(max_arity=3, density=1.0, n_examples=1, max_variables=4, forbidden=True), seed)
    problem.theta.node[:] *= 10.0 ** exponents[0]
    problem.theta.pool[:] *= 10.0 ** exponents[1]
    polytope = build_polytope(problem.program, 0, redundant=True)
    priced = polytope.price(problem.theta, problem.theta.node, problem.program, 0)
    if (priced.peaks == -np.inf).any():
        return
    losses = priced.losses()
    integers = integer_losses(priced, losses)
    assert integers.loss.min() >= 0
    assert float(integers.loss.sum()) < 2.0**62
    every = np.indices(tuple(problem.program.card)).reshape(problem.program.n_variables, -1).T
    finite = np.maximum.reduceat(np.where(losses < np.inf, losses, 0.0), polytope.block_ptr[:-1]).sum()
    for labels in every[:200].astype(np.int32):
        true = score_labels(problem.program, problem.theta, labels)[0]
        if true == -np.inf:
            continue
        proved = integers.bound(int(integers.loss[polytope.chosen(labels)].sum()))
        assert true <= proved <= true + 1e-12 * finite + 4e-6 * min(1.0, finite) + 1e-12 * abs(true)


@pytest.mark.parametrize("solver", SOLVERS)
def test_penalties_instead_of_minus_infinity(solver):
    """Penalties of 1e15 leave few digits for the other scores in one scale; a second search closes them."""
    rng = np.random.default_rng(0)
    differ = np.tile([-1e15, 0.0, 0.0, -1e15], (3, 1)) + rng.normal(size=(3, 4))
    problem = pairwise(4, 2, [(0, 1), (1, 2), (2, 3)], rng, tables=differ)
    problem.theta.node[:] = np.tile([0.3, 0.0], 4)
    solution, optimum = session(problem, solver).solve(Question(problem.theta)), best(problem)
    np.testing.assert_allclose(solution.score, optimum)
    np.testing.assert_allclose(solution.bound, optimum, atol=2e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_scores_that_cancel_are_not_called_optimal(solver):
    """No float64 says what 1e20 + 1e-3 - 1e20 is: the bound says so."""
    node = np.array([1e20, 1e20 - 1e5, -1e20, -1e20 - 1e5, 1e-3, 0.0])
    problem = pairwise(3, 2, [], None, node, np.zeros((0, 4)))
    solution = session(problem, solver).solve(Question(problem.theta))
    assert solution.bound[0] > 1e-3 >= solution.score[0]
    assert not proved(problem, solution)[0]


def test_the_relaxation_inside_proves_a_grid_quickly():
    """With CP-SAT's default linearisation this takes minutes."""
    problem = grid(10, 10, 3)
    question = Question(problem.theta, limits=Limits(time=200.0))
    solutions = [session(problem, solver).solve(question) for solver in SOLVERS]
    assert [proved(problem, one).all() for one in solutions] == [True, True]
    assert solutions[0].score[0] == pytest.approx(solutions[1].score[0])


def test_trouble_of_the_listener_reaches_the_caller():
    def listener(score, bound):
        raise LookupError("nobody home")

    problem = complete(12, 3)
    with pytest.raises(LookupError, match="nobody home"):
        session(problem).solve(Question(problem.theta, limits=Limits(progress=listener)))


def test_ctrl_c_inside_a_solve_returns_the_incumbent():
    problem = grid(20, 20, 5)
    with interruptible() as press:  # at the first incumbent
        solution = session(problem).solve(Question(problem.theta, limits=Limits(progress=press)))
    assert solution.stop.tolist() == [Stop.INTERRUPTED]
    assert solution.primal.tolist() == [Primal.FEASIBLE]
    np.testing.assert_allclose(score_labels(problem.program, problem.theta, solution.labels), solution.score)
    assert solution.bound[0] > solution.score[0]


def test_ctrl_c_ends_highs_which_cannot_be_asked_to_stop():
    problem = grid(20, 20, 5)  # minutes
    backend = session(problem, "highs")
    call_in_process("scipy.optimize:milp", ([1.0],))  # a process is there
    with interruptible() as press:
        press(seconds=0.3)
        solution = backend.solve(Question(problem.theta))
    assert solution.stop.tolist() == [Stop.INTERRUPTED]
    assert solution.primal.tolist() == [Primal.FEASIBLE]
    np.testing.assert_allclose(score_labels(problem.program, problem.theta, solution.labels), solution.score)
    assert solution.bound[0] >= 934.1038


def test_a_warm_start_is_the_first_incumbent_and_changes_no_proved_answer():
    problem = complete(10, 2, seed=7)
    backend = session(problem)
    first = backend.solve(Question(problem.theta))
    again = backend.solve(Question(problem.theta, warm=first.warm))
    assert again.score[0] == first.score[0]
    early = backend.solve(Question(problem.theta, warm=first.warm, limits=Limits(iterations=1)))
    assert early.score[0] == first.score[0]
    worst = {0: (1 - first.labels).astype(np.int32)}
    assert backend.solve(Question(problem.theta, warm=worst)).score[0] == pytest.approx(first.score[0])


def test_several_workers_find_the_same_optimum():
    problem = complete(9, 3, seed=2)
    one, two = (session(problem, num_workers=k).solve(Question(problem.theta)) for k in (1, 2))
    assert one.score[0] == pytest.approx(two.score[0])


def test_refuses_tables_that_do_not_fit():
    assert not ILP().check(Need(max_table=1 << 30)).ok


def test_second_best_labellings_of_a_grid_are_those_of_elimination():
    class Seg(dsl.Model):
        H, W = dsl.Dim(), dsl.Dim()
        x = dsl.Input(H, W, 2)
        y = dsl.Label(H, W, 2)
        data = dsl.Factor(y, features=x)
        net = dsl.Factor(dsl.grid(y))
        loss = dsl.Hamming(y)

    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 4, 2)), rng.normal(size=(1, 1, 2))]
    weights = {"data": rng.normal(size=(2, 2)), "net": rng.normal(size=(2, 2))}
    svm = dsl.StructuredSVM.from_weights(Seg, weights, backend="ilp")
    other = dsl.StructuredSVM.from_weights(Seg, weights, backend="junction-tree")
    known = [[[1] + [None] * 3] * 3, None]
    for clamp in (None, known):
        for mine, theirs in zip(svm.predict_kbest(X, 4, given=clamp), other.predict_kbest(X, 4, given=clamp)):
            assert [score for _, score in mine] == pytest.approx([score for _, score in theirs])
            assert all((a == b).all() for (a, _), (b, _) in zip(mine, theirs))
