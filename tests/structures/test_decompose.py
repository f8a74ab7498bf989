"""``decompose`` and ``cardinality`` against every labelling, and against linear programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clocks import ticking
from constraints import few_runs
from constraints.constraint_cases import group_of, random_constraints, unlinked, with_pairs
from ssvm_backends.decomposition.decompose import DecomposeSession
from ssvm_backends.decomposition.parts import (
    split_constraints,
    split_tables,
)
from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Matching, Model, ground, pairs
from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir import Group, Guarantee, Limits, Primal, Question, Stop, Task, Terms, Theta
from ssvm_dsl.plugin_api import BackendSpec, Clock, ConstraintSpec, program_need
from ssvm_dsl.registry import registry
from ssvm_dsl.testing import open_session
from ssvm_dsl.testing.brute_force import BruteForceSession
from ssvm_dsl.testing.problems import Recipe, Scores, catalogue, seeded

KINDS = (
    "matching", "transport", "runs", "arborescence", "projective-tree", "path", "circuit", "segmentation", "linear",
)  # fmt: skip
RECIPES = (
    Recipe(max_variables=5, n_examples=3, masks=True, empty=True),
    Recipe(max_variables=4, max_arity=3, forbidden=True, scores=Scores.INTEGER),
    Recipe(max_arity=1, max_variables=7, max_card=2),
)


def split(program, max_entries):
    """Return all parts of a program."""
    clock = Clock.start(Limits())
    constrained, rest = split_constraints(program, clock)
    return split_tables(rest, constrained, max_entries, clock)


def asked(program, question, backend="decompose", **options):
    return open_session(program, backend, {question.task}, options=options).solve(question)


def holds(program, question, **options):
    """Compare with every labelling: score <= best <= bound; return how many best ones were found and proved."""
    best, found = BruteForceSession(program).solve(question), asked(program, question, **options)
    impossible = best.primal == Primal.INFEASIBLE
    assert (impossible | (found.primal != Primal.INFEASIBLE)).all()
    size = Terms.of(program, question.theta, question.ids(program)).size
    assert (found.bound[~impossible] >= (best.score - 1e-12 * size)[~impossible]).all()
    assert (found.score <= best.score + 1e-12 * size)[~impossible].all()
    assert (found.score[impossible] == -np.inf).all()
    np.testing.assert_allclose(found.score[found.optimal()], best.score[found.optimal()], rtol=1e-9, atol=1e-9)
    return found.optimal() | (impossible & (found.primal == Primal.INFEASIBLE))


@pytest.mark.parametrize("seed", range(9))
def test_counts_over_graphs(seed):
    made = seeded(RECIPES[seed % len(RECIPES)], seed)
    rng = np.random.default_rng(seed)
    counts = random_constraints(rng, made.program, "count")
    program = with_rules(replace(made.program, constraints=(counts,)), registry())
    clamp = np.where(rng.random(program.n_variables) < 0.3, rng.integers(0, program.card), -1).astype(np.int32)
    entries = 1 if seed % 2 else 2**14  # forests, or all factors in one part
    assert holds(program, Question(made.theta), max_entries=entries).all()
    assert holds(program, Question(made.theta, task=Task.MAP_CLAMPED, clamp=clamp), max_entries=entries).all()
    assert holds(program, Question(made.theta, np.array([1, 0])), max_nodes=1).shape == (2,)


@pytest.mark.parametrize("kind", KINDS)
def test_structures_with_tables_over_pairs(kind):
    make = registry().load(registry().find(ConstraintSpec, kind))().problem
    proved = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        program, theta = with_pairs(*make(rng), rng)
        proved += holds(program, Question(theta), max_entries=4).tolist()
    assert len(proved) > 5
    assert np.mean(proved) > 0.9


def test_several_kinds_at_once():
    rng = np.random.default_rng(0)
    make = registry().load(registry().find(ConstraintSpec, "matching"))().problem
    for _ in range(4):
        program, theta = with_pairs(*make(rng), rng)
        counts = random_constraints(rng, program, "count")
        program = with_rules(replace(program, constraints=(*program.constraints, counts)), registry())
        assert holds(program, Question(theta), max_entries=4).all()


def dense(rng, n_examples, n, budget):
    """Binary variables with tables over all pairs and a budget."""
    literals = [(v, 1) for v in range(n)]
    program = unlinked([[2] * n] * n_examples, group_of("count", [[literals]] * n_examples, lower=[0] * n_examples,
                                                        upper=[budget] * n_examples))  # fmt: skip
    edges = np.array([(a, b) for a in range(n) for b in range(a)], dtype=np.int32)
    scope = np.concatenate([edges + lo for lo in program.var_ptr[:-1]]).astype(np.int32)
    m = len(scope)
    ptr, rows = np.arange(n_examples + 1) * len(edges), np.arange(m, dtype=np.int32)
    group = Group.of("pair", (2, 2), scope, ptr, rows, m, program.var_ptr)
    program = replace(program, groups=(group,)).validate()
    return program, Theta.of(program, rng.normal(size=program.n_states), [0.3 * rng.normal(size=(m, 4))])


def test_bounds_are_those_of_linear_programs():
    program, theta = dense(np.random.default_rng(0), 3, 8, 3)
    relaxed = asked(program, Question(theta), "lp").bound
    forests = asked(program, Question(theta), max_entries=1, max_nodes=1)
    np.testing.assert_allclose(forests.bound, np.maximum(relaxed, forests.score), atol=1e-3)
    whole = asked(program, Question(theta), max_nodes=1).bound  # all pairs in one part: at least as tight
    assert (whole <= relaxed + 1e-6).all()


@pytest.mark.parametrize("card", [2, 3])
def test_dense_graphs_are_parted_by_hubs(card):
    rng = np.random.default_rng(card)
    n = 11
    edges = np.array([(a, b) for a in range(n) for b in range(a)], dtype=np.int32)
    group = Group.of("pair", (card, card), edges, np.array([0, len(edges)]), np.arange(len(edges), dtype=np.int32),
                     len(edges), np.array([0, n]))  # fmt: skip
    program = replace(unlinked([[card] * n]), groups=(group,)).validate()
    theta = Theta.of(program, rng.normal(size=program.n_states), [rng.normal(size=(len(edges), card**2))])
    few, many = split(program, 2**8), split(program, card**2)
    assert len(few) < 4 < len(many) <= n
    assert sum(part.session.program.groups[0].n_factors for part in few) == len(edges)
    assert max(2.0 ** program_need(part.session.program).max_clique_table for part in few) <= 2**8
    exact = asked(program, Question(theta), "junction-tree").score[0]
    bounds = [asked(program, Question(theta), max_entries=most, max_nodes=1).bound[0] for most in (2**8, card**2)]
    assert exact - 1e-9 <= bounds[0] < bounds[1]


def test_the_planner_offers_it_for_mixed_structures_and_not_for_tables_alone():
    program, _ = dense(np.random.default_rng(1), 2, 10, 3)
    for guarantee in (Guarantee.BOUND, Guarantee.EXACT):
        chosen = plan_program(program, program_need(program, guarantee=guarantee))
        fits = {one.name for one in chosen.candidates if one.ok}
        assert "decompose" in fits
        tables = replace(program, constraints=())
        assert plan_program(tables, program_need(tables, guarantee=guarantee)).backend != "decompose"


def test_segmentations_keep_their_factors_beside_counts():
    make = registry().load(registry().find(ConstraintSpec, "segmentation"))().problem
    linked = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        program, theta = make(rng)
        counts = random_constraints(rng, program, "count")
        program = with_rules(replace(program, constraints=(*program.constraints, counts)), registry())
        assert holds(program, Question(theta), max_entries=4).all()
        linked += sum(part.constrained and bool(part.groups) for part in split(program, 4))
    assert linked > 0


def test_kinds_of_others_are_taken_by_rows():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        program, theta = few_runs.FewRuns().problem(rng)
        groups = tuple(replace(group, rules=few_runs.FewRuns()) for group in program.constraints)
        program, theta = with_pairs(replace(program, constraints=groups), theta, rng)
        assert holds(program, Question(theta), max_entries=4).all()


def test_several_literals_of_a_variable_are_taken_by_rows():
    literals = {"literal_meta": ("row", "col")}
    limits = {name: [1] for name in ("n_rows", "n_cols", "row_least", "row_most", "col_least", "col_most")}
    twice = [(0, 0, False, 0, 0), (0, 1, False, 0, 0)]
    program = with_rules(unlinked([[3]], group_of("matching", [[twice]], **literals, **limits)), registry())
    found = asked(program, Question(Theta.of(program, [1.0, 2.0, 5.0])))
    assert found.labels.tolist() == [1]
    assert found.optimal().all()


def test_without_a_limit_on_nodes_answers_are_proved_and_with_one_they_say_that_they_are_not():
    program, theta = dense(np.random.default_rng(3), 3, 12, 4)
    assert asked(program, Question(theta), max_entries=1).optimal().all()
    single = asked(program, Question(theta), max_entries=1, max_nodes=1)
    open_ = ~single.optimal()
    assert open_.any()
    assert (single.stop[open_] == Stop.ITERATIONS).all()


class Diagonals(Model):
    I, J = Dim(), Dim()
    x = Input(I, J, 2)
    y = Label(I, J, 2)
    sim = Factor(y.is_(1), features=x)
    both = Factor(pairs(y, I, J), form=[[[0, 0], [0, 1]]])
    one = Matching(y.is_(1), rows=I, cols=J)
    loss = Hamming(y)


def test_auto_takes_it_for_matchings_with_diagonals():
    rng = np.random.default_rng(0)
    program = ground(Diagonals, [rng.normal(size=(9, 8, 2)) for _ in range(3)]).program
    assert plan_program(program, program_need(program)).backend == "decompose"


@pytest.mark.parametrize("seed", range(4))
def test_a_tree_that_is_searched_to_its_leaves_is_finished(seed):
    """Where labellings differ by less than a constant's rounding, the gap is rounding, down to single labellings."""
    program = seeded(Recipe(max_variables=3, max_card=3, n_examples=30, empty=True), seed).program
    theta, rng = Theta.zeros(program), np.random.default_rng(seed)
    theta.node[:] = 1e-3 * rng.normal(size=program.n_states)
    theta.const[:] = 1e4 * rng.normal(size=program.n_examples)
    found = asked(program, Question(theta))
    assert (found.stop == Stop.FINISHED).all()
    np.testing.assert_array_equal(found.bound, np.maximum(found.bound, found.score))
    np.testing.assert_allclose(found.score, BruteForceSession(program).solve(Question(theta)).score)


@pytest.mark.parametrize("name", ["mask leaves nothing", "table forbids everything"])
def test_an_example_without_a_labelling_does_not_keep_others_from_theirs(name):
    problem = catalogue()[name]
    session = DecomposeSession(problem.program, registry().find(BackendSpec, "decompose").resolve(None))
    question = Question(problem.theta)
    solution, right = session.solve(question), BruteForceSession(problem.program).solve(question)
    assert set(right.primal.tolist()) == {Primal.FEASIBLE, Primal.INFEASIBLE}
    np.testing.assert_array_equal(solution.primal, right.primal)
    np.testing.assert_array_equal(solution.stop, Stop.FINISHED)
    np.testing.assert_allclose(solution.score, right.score)


def test_a_search_ends_where_only_rounding_is_left():
    recipe = Recipe(n_examples=4, max_card=5, density=1.0, same_card=True, masks=True, empty=True, scores=Scores.MIXED)
    problem = seeded(recipe, 4)
    session = DecomposeSession(problem.program, registry().find(BackendSpec, "decompose").resolve(None))
    solution = session.solve(Question(problem.theta))
    terms = Terms.of(problem.program, problem.theta)
    assert not terms.closed(solution.score, solution.bound).all()  # these scores have more digits than there are
    np.testing.assert_array_equal(solution.stop, Stop.FINISHED)
    assert (solution.bound >= BruteForceSession(problem.program).solve(Question(problem.theta)).score).all()


@pytest.mark.parametrize("unit", [1.0, 0.1, np.pi])
@pytest.mark.parametrize("seed", range(3))
def test_sums_by_dynamic_programming(unit, seed):
    rng = np.random.default_rng(seed)
    n = 6
    # several literals of one variable, opposites, masks; other constraints over variables of their own
    rows = [[(int(rng.integers(n)), int(rng.integers(3)), bool(rng.random() < 0.3), unit * float(rng.integers(-3, 5)))
             for _ in range(8)] for _ in range(4)]  # fmt: skip
    middle = rng.integers(-2, 6, 4)
    lower = np.where(rng.random(4) < 0.4, -np.inf, unit * middle)
    group = group_of("linear", [[row] for row in rows], literal_meta=["coefficient"], lower=lower,
                     upper=unit * (middle + rng.integers(0, 3, 4)))  # fmt: skip
    allowed = rng.random(4 * n * 3) < 0.9
    program = with_rules(unlinked([[3] * n] * 4, group, allowed=allowed), registry())
    question = Question(Theta.of(program, rng.integers(-3, 4, program.n_states)))
    best, found = BruteForceSession(program).solve(question), asked(program, question)
    np.testing.assert_array_equal(found.score, best.score)
    assert found.primal.tolist() == best.primal.tolist()


def test_sorting_many_counts():
    rng = np.random.default_rng(0)
    for _ in range(6):
        rows = [[(3 * r + c, int(rng.integers(0, 2)), bool(rng.random() < 0.3)) for c in range(3)] for r in range(3)]
        lower = rng.integers(-1, 4, 6)
        group = group_of("count", [rows, rows], lower=lower, upper=lower + rng.integers(0, 3, 6))
        allowed = rng.random(36) < 0.9
        program = with_rules(unlinked([[2] * 9, [2] * 9], group, allowed=allowed), registry())
        theta = Theta.of(program, rng.integers(-2, 3, program.n_states))
        best, found = BruteForceSession(program).solve(Question(theta)), asked(program, Question(theta), "cardinality")
        np.testing.assert_array_equal(found.score, best.score)
        assert found.primal.tolist() == best.primal.tolist()
    assert plan_program(program, program_need(program)).backend == "cardinality"


@pytest.mark.parametrize("seed", range(12))
def test_whenever_time_ends_there_are_bounds_and_no_false_claims(seed):
    made = seeded(RECIPES[seed % len(RECIPES)], seed)
    counts = random_constraints(np.random.default_rng(seed), made.program, ("count", "linear")[seed % 2])
    program = with_rules(replace(made.program, constraints=(counts,)), registry())
    best = BruteForceSession(program).solve(Question(made.theta))
    for time in (0.0, 2e-3, 5e-3, 0.02, 0.1):
        with ticking():
            found = asked(program, Question(made.theta, limits=Limits(time=time)), max_entries=1)
        feasible = best.primal == Primal.FEASIBLE
        assert not np.isnan(found.bound).any()
        assert (found.bound >= best.score - 1e-9)[feasible].all()
        assert (found.primal[feasible] != Primal.INFEASIBLE).all()
        finished = feasible & (found.stop == Stop.FINISHED)
        np.testing.assert_allclose(found.bound[finished], best.score[finished], atol=1e-6)
