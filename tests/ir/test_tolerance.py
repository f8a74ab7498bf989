"""What counts as optimal depends on what labellings differ by: not on constants, nor on the size of the scores."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ssvm_dsl.ir import Group, Primal, Program, Solution, Task, Theta
from ssvm_dsl.ir.analysis.tolerance import Terms
from ssvm_dsl.requirements.properties import table_properties
from ssvm_dsl.testing import solve

NO = Primal.FRACTIONAL
YES = Primal.FEASIBLE


def one_pair(table, node=(0.0, 0.0, 0.0, 0.0), const=0.0, allowed=None):
    """Two binary variables and a factor."""
    pair = Group.of(
        "pair", (2, 2), np.array([[0, 1]], np.int32), np.array([0, 1]), np.array([0], np.int32), 1, np.array([0, 2])
    )
    mask = None if allowed is None else np.array(allowed, dtype=bool)
    program = Program(np.array([0, 2]), np.array([2, 2], np.int32), (pair,), allowed=mask).validate()
    return program, Theta.of(program, node, [np.array([table], dtype=float)], [const])


def answer(score, bound, primal=YES, terms=None):
    zero, code = np.zeros(1, np.int8), np.array([primal], np.int8)
    return Solution(np.zeros(2, np.int32), np.array([score]), np.array([bound]), zero, code, terms=terms)


def test_terms_are_read_off_the_definition():
    allowed = [True, True, True, False]
    program, theta = one_pair([1.5, -np.inf, -4.0, 2.0], [0.25, -0.5, 3.0, 99.0], const=-7.0, allowed=allowed)
    terms = Terms.of(program, theta)
    assert terms.count.tolist() == [3]
    assert terms.size.tolist() == [7.0 + 0.5 + 3.0 + 4.0]
    assert terms.spread.tolist() == [0.75 + 0.0 + 6.0]
    assert terms.whole.tolist() == [False]
    assert Terms.of(*one_pair([1, 2, -np.inf, 4])).whole.tolist() == [True]
    assert Terms.of(*one_pair([1, 2, -np.inf, 2.0**53])).whole.tolist() == [False]


@pytest.mark.parametrize("tied", [True, False])
def test_terms_of_some_examples_are_those_of_all(tied):
    rng, n = np.random.default_rng(0), 5
    scope = np.arange(2 * n, dtype=np.int32).reshape(n, 2)
    rows = (np.arange(n) % 2 if tied else np.arange(n)[::-1]).astype(np.int32)
    group = Group.of("pair", (2, 3), scope, np.arange(n + 1), rows, 2 if tied else n, 2 * np.arange(n + 1))
    program = Program(2 * np.arange(n + 1), np.tile([2, 3], n).astype(np.int32), (group,)).validate()
    theta = Theta.of(program, rng.normal(size=5 * n), [rng.normal(size=(group.n_tables, 6))], rng.normal(size=n))
    whole = Terms.of(program, theta)
    for ids in (np.array([3, 0]), np.array([1, 2, 3]), np.zeros(0, np.int64)):
        some = Terms.of(program, theta, ids)
        for what in ("count", "size", "spread", "integers"):
            np.testing.assert_array_equal(getattr(some, what), getattr(whole, what)[ids])


@pytest.mark.parametrize(
    ("table", "const", "gap", "expected"),
    [
        ([0.0, 0.5, 0.25, 0.1], 0.0, 0.0, True),
        ([0.0, 0.5, 0.25, 0.1], 0.0, 1e-10, True),
        ([0.0, 0.5, 0.25, 0.1], 0.0, 1e-7, False),
        ([0.0, 0.5, 0.25, 0.1], 1e4, 1e-7, False),  # a constant does not make the tolerance wider
        ([0.0, 0.5, 0.25, 0.1], 1e12, 0.0, False),  # and hides what labellings differ by
        ([0.0, 5e-13, 2e-13, 1e-13], 0.0, 0.0, True),
        ([0.0, 5e-13, 2e-13, 1e-13], 0.0, 1e-13, False),
        ([0.0, -300.0, -300.0, 0.0], -1e9, 0.9, True),  # integers differ by one or more
        ([0.0, -300.0, -300.0, 0.0], -1e9, 1.0, False),
        ([0.0, -300.0, -300.0, 0.0], -1e9, 600.0, False),
        ([0.3, 0.3, 0.3, 0.3], 1e12, 1e-4, True),  # all labellings score the same
        ([0.0, 0.5, 0.25, 0.1], 0.0, np.nan, False),
        ([0.0, 0.5, 0.25, 0.1], 0.0, np.inf, False),
    ],
)
def test_an_answer_is_optimal_within_what_labellings_differ_by(table, const, gap, expected):
    terms = Terms.of(*one_pair(table, const=const))
    assert answer(const, const + gap, terms=terms).optimal().tolist() == [expected]


def test_only_labellings_are_optimal_and_only_where_their_terms_are_known():
    terms = Terms.of(*one_pair([0.0, 0.5, 0.25, 0.1]))
    assert answer(1.0, 1.0, NO, terms).optimal().tolist() == [False]
    assert answer(-np.inf, -np.inf, Primal.INFEASIBLE, terms).optimal().tolist() == [False]
    assert answer(1.0, np.nan).optimal().tolist() == [False]
    with pytest.raises(ValueError, match=r"Terms\.of"):
        answer(1.0, 1.0).optimal()


def exact_best(program, theta):
    """The best score in rational arithmetic."""
    node, table = [Fraction(x) for x in theta.node], [Fraction(x) for x in theta.pool]
    return max(Fraction(theta.const[0]) + node[a] + node[2 + b] + table[2 * a + b] for a in (0, 1) for b in (0, 1))


@pytest.mark.parametrize("backend", ["chain", "tree", "junction-tree", "combi", "qpbo", "trws", "brute-force"])
def test_bounds_of_sessions_hold_in_exact_arithmetic(backend):
    rng = np.random.default_rng(3)
    for _ in range(20):
        program, theta = one_pair(rng.normal(size=4) - 1e12, rng.normal(size=4) + 1e12, rng.normal() - 1e12)
        solution = solve(program, theta, backend)
        assert Fraction(float(solution.bound[0])) >= exact_best(program, theta)
        assert not solution.optimal()[0]  # labellings differ by units, sums are rounded to 1e-4


@pytest.mark.parametrize("task", [Task.MAP, Task.RELAXED])
def test_bounds_on_labellings_of_whole_problems_are_integers(task):
    scope = np.array([[0, 1], [1, 2], [0, 2]], np.int32)
    triangle = Group.of("pair", (2, 2), scope, np.array([0, 3]), np.zeros(3, np.int32), 1, np.array([0, 3]))
    program = Program(np.array([0, 3]), np.full(3, 2, np.int32), (triangle,)).validate()
    theta = Theta.of(program, [0.0, 0, 0, 0, 0, 1], [np.array([[-1.0, 0, 0, -1]])])
    solution = solve(program, theta, "qpbo", task)
    assert solution.bound[0] == (0.0 if task is Task.MAP else pytest.approx(0.5))


def test_no_cut_where_integers_are_not_submodular():
    table = [1e12, 1e12 + 1, 1e12 + 1, 1e12]
    program, theta = one_pair(table, const=-1e12)
    assert "submodular" not in table_properties(program, theta)
    solution = solve(program, theta)
    assert solution.score.tolist() == solution.bound.tolist() == [1.0]
    assert solution.optimal().tolist() == [True]
