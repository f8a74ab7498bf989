"""``ilp`` and ``lp`` under hard constraints, against every labelling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from combinations import some
from constraints.constraint_cases import group_of, random_constraints, unlinked
from ssvm_backends.programs.side_rows import SideRows
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir import LinearRows, Primal, Question, Task, Theta
from ssvm_dsl.registry import registry
from ssvm_dsl.testing import open_session
from ssvm_dsl.testing.brute_force import BruteForceSession
from ssvm_dsl.testing.problems import Recipe, Scores, seeded

RECIPES = [
    Recipe(max_variables=5, n_examples=3, masks=True, empty=True),
    Recipe(max_variables=4, max_arity=3, forbidden=True, scores=Scores.INTEGER),
    Recipe(max_arity=1, max_variables=7, max_card=2, scores=Scores.MIXED),
]


def problem(seed):
    made = seeded(RECIPES[seed % len(RECIPES)], seed)
    rng = np.random.default_rng(seed)
    kinds = [["count"], ["linear"], ["count", "linear"]][seed // 3 % 3]
    groups = tuple(random_constraints(rng, made.program, kind) for kind in kinds)
    return with_rules(replace(made.program, constraints=groups).validate(), registry()), made.theta, rng


def asked(program, question, backend, **options):
    return open_session(program, backend, {question.task}, options=options).solve(question)


def questions(program, theta, rng):
    clamp = np.where(rng.random(program.n_variables) < 0.3, rng.integers(0, program.card), -1).astype(np.int32)
    yield Question(theta)
    yield Question(theta, None, Task.MAP_CLAMPED, clamp)
    yield Question(theta, rng.permutation(program.n_examples)[:2].astype(np.int64))


def close(a, b):
    return np.allclose(a, b, rtol=1e-6, atol=1e-6 * max(1.0, np.abs(b[np.isfinite(b)]).max(initial=0.0)))


@pytest.mark.parametrize("solver", ["cp-sat", "highs"])
@pytest.mark.parametrize("seed", some(range(18), 9))
def test_ilp_finds_the_best_labelling_that_keeps_them(solver, seed):
    program, theta, rng = problem(seed)
    for question in questions(program, theta, rng):
        best = BruteForceSession(program).solve(question)
        found = asked(program, question, "ilp", solver=solver)
        assert found.primal.tolist() == best.primal.tolist()
        assert close(found.score, best.score)


@pytest.mark.parametrize("solver", ["glop", "highs"])
@pytest.mark.parametrize("seed", range(18))
def test_bounds_of_lp_hold_and_its_labellings_are_feasible(solver, seed):
    program, theta, rng = problem(seed)
    for question in questions(program, theta, rng):
        best = BruteForceSession(program).solve(question)
        found = asked(program, question, "lp", solver=solver)  # the verifier looks at its labellings
        size = 1e-6 * max(1.0, np.abs(best.score[np.isfinite(best.score)]).max(initial=0.0))
        assert (found.bound >= best.score - size).all()
        assert (best.primal[found.primal == Primal.INFEASIBLE] == Primal.INFEASIBLE).all()
        feasible = found.primal == Primal.FEASIBLE
        assert (found.score[feasible] <= best.score[feasible] + size).all()


def test_lp_is_tight_where_the_rows_leave_whole_vertices():
    # one budget over variables without factors: the polytope has whole vertices
    literals = [(v, 1) for v in range(6)]
    program = unlinked([[2] * 6] * 3, group_of("count", [[literals]] * 3, lower=[0, 2, 6], upper=[2, 3, 6]))
    rng = np.random.default_rng(0)
    for _ in range(5):
        theta = Theta.of(program, rng.normal(size=program.n_states))
        best = BruteForceSession(with_rules(program, registry())).solve(Question(theta))
        found = asked(program, Question(theta), "lp")
        np.testing.assert_allclose(found.score, best.score, rtol=1e-9)
        np.testing.assert_allclose(found.bound, best.score, rtol=1e-6)


def test_answers_of_lp_without_a_labelling_are_none():
    # an odd cycle of implications: half of everything is all that the relaxation can do
    pairs = [[(0, 1), (1, 1)], [(1, 1), (2, 1)], [(0, 1), (2, 1)]]
    program = unlinked([[2, 2, 2]], group_of("count", [[*pairs, [(0, 1), (1, 1), (2, 1)]]], lower=[0] * 3 + [2],
                                             upper=[1] * 3 + [3]))  # fmt: skip
    found = asked(program, Question(Theta.zeros(program)), "lp")
    assert found.primal.tolist() in ([Primal.FRACTIONAL], [Primal.INFEASIBLE])
    assert asked(program, Question(Theta.zeros(program)), "ilp").primal.tolist() == [Primal.INFEASIBLE]


class Auxiliary:
    """An even number of true literals: n = 2 t for a whole number t; with fractions, any number up to half of n."""

    def __init__(self, whole):
        self.whole = whole

    def violated(self, group, true):
        return group.true_counts(true) % 2 > 0 if self.whole else group.true_counts(true) > 1

    def rows(self, group, k):
        n = int(np.diff(group.literal_ptr)[k])
        column = np.arange(n + 1, dtype=np.int32)
        coefficient = np.append(np.ones(n), -2.0)
        zero, most = np.zeros(1), np.array([float(n // 2) if self.whole else 0.5])
        return LinearRows(np.array([0, n + 1]), column, coefficient, zero, zero, zero, most, np.array([self.whole]))


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("options", [{}, {"solver": "highs"}])
def test_rows_may_have_auxiliary_columns(whole, options):
    group = group_of("count", [[[(v, 1) for v in range(4)]]], lower=[0], upper=[0])
    program = unlinked([[2] * 4], replace(group, rules=Auxiliary(whole)))
    rng = np.random.default_rng(1)
    for _ in range(6):
        question = Question(Theta.of(program, rng.normal(size=8)))
        best = BruteForceSession(program).solve(question)
        assert close(asked(program, question, "ilp", **options).score, best.score)
        assert (asked(program, question, "lp", **options).bound >= best.score - 1e-9).all()


@pytest.mark.parametrize("unit", [1.0, 0.1, 0.25, 1e-3, np.pi, 1e9, 1e-9])
def test_whole_rows_keep_what_the_fractions_say(unit):
    rng = np.random.default_rng(3)
    literals = [(v, 1, bool(v % 2), float(unit * rng.integers(-5, 6))) for v in range(6)]
    upper = unit * 3
    group = group_of("linear", [[literals]], literal_meta=["coefficient"], lower=[-np.inf], upper=[upper])
    program = with_rules(unlinked([[2] * 6], group), registry())
    (row,) = SideRows.from_group(program, 0, 12, program.state_ptr).whole_rows()
    columns, coefficients, lower, high = row
    for number in range(64):
        labels = np.array([number >> v & 1 for v in range(6)], np.int32)
        chosen = np.zeros(12, dtype=np.int64)
        chosen[program.state_ptr[:-1] + labels] = 1
        kept = lower <= int(np.dot(coefficients, chosen[columns])) <= high
        assert kept != program.constraints[0].broken(labels, program.var_ptr).any()


def test_structures_are_shared_by_examples_with_the_same_constraints_only():
    literals = [(v, 1) for v in range(3)]
    program = unlinked([[2] * 3] * 4, group_of("count", [[literals]] * 4, lower=[0] * 4, upper=[0, 1, 0, 2]))
    theta = Theta.of(program, np.tile([0.0, 1.0], 12))
    assert asked(program, Question(theta), "ilp").score.tolist() == [0.0, 1.0, 0.0, 2.0]


@pytest.mark.parametrize("backend", ["decompose", "ilp", "lp", "ad3"])
def test_literals_that_cancel_each_other_leave_rounding_and_no_contradiction(backend):
    # .4 not a + .3 a + .1 a is .4 whatever a is: in floats the coefficients of a leave 5e-17
    rng, rows = np.random.default_rng(0), []
    for _ in range(40):
        parts = 0.1 * rng.multinomial(10, [0.3, 0.3, 0.4])
        rows.append([(0, 0, True, 1.0), *((0, 0, False, part) for part in parts), (1, 1, False, 0.0)])
    program = unlinked(
        [(int(rng.integers(1, 3)), 2) for _ in rows],
        group_of("linear", [[row] for row in rows], literal_meta=("coefficient",), lower=[1.0] * 40, upper=[1.0] * 40),
    )
    program = with_rules(program, registry())
    theta = Theta.of(program, rng.normal(size=program.n_states), [], np.zeros(40))
    best = BruteForceSession(program).solve(Question(theta))
    found = asked(program, Question(theta), backend)
    assert (best.primal == Primal.FEASIBLE).all()
    assert (found.primal == Primal.FEASIBLE).all()
    assert (found.score <= best.score + 1e-9).all()
    assert (found.bound >= best.score - 1e-9).all()
