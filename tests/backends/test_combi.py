"""``combi``: equal to brute force, to dynamic programming and to the optima others proved; honest when stopped."""

from __future__ import annotations

import itertools
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from lp_problems import complete, grid

from combinations import crossed
from naive import proved
from ssvm_backends.elimination.junction_tree import JunctionTree
from ssvm_backends.graphs.graph import Instance, build_graph
from ssvm_backends.search.combi import Combi
from ssvm_backends.search.core import C0, EPS, N_AC, N_DAC, N_EAC, TAU, UB, WORK, make_core, make_state
from ssvm_backends.search.eliminate import eliminate
from ssvm_backends.search.propagate import load, propagate_root, rest_of_tables
from ssvm_backends.search.search import grow_tree, labels_cost, make_tree, root_of, search
from ssvm_backends.search.solve import components, single, solve_task, split_components
from ssvm_backends.search.subproblem import Setup, Subproblem
from ssvm_dsl.io.problem_file import read_problem
from ssvm_dsl.ir import Group, Limits, Primal, Program, Question, Stop, Task, Theta
from ssvm_dsl.plugin_api import Clock
from ssvm_dsl.testing.problems import Recipe, seeded

OPTIONS = {"max_entries": 64, "max_arity": 6}

#: A limit of time, in seconds, that is there for what it does to the search and ends none, on any machine.
PATIENT = 600.0


def solve(program, theta, options=(), **question):
    return Combi().open(program, OPTIONS | dict(options)).solve(Question(theta, **question))


def rough_grid(height, width, card, scale=1.0, seed=0):
    """A grid with random scores: hard for a search, easy for dynamic programming by columns."""
    problem = grid(height, width, card, seed)
    problem.theta.tables[0][:] *= scale
    return problem.program, problem.theta


def best_by_columns(program, theta, height, width, card):
    """The optimum of a grid by dynamic programming over whole columns."""
    table = {tuple(int(v) for v in e): t.reshape(card, card) for e, t in zip(program.groups[0].scope, theta.tables[0])}
    node = theta.node.reshape(height, width, card)
    columns = np.array(list(itertools.product(range(card), repeat=height)))
    best = np.zeros(len(columns))
    for j in range(width):
        own = sum(node[i, j, columns[:, i]] for i in range(height))
        for i in range(height - 1):
            own = own + table[i * width + j, (i + 1) * width + j][columns[:, i], columns[:, i + 1]]
        if j:
            step = sum(
                table[i * width + j - 1, i * width + j][columns[:, i][:, None], columns[:, i]] for i in range(height)
            )
            own = own + (best[:, None] + step).max(axis=0)
        best = own
    return float(best.max())


def random_instance(seed, **recipe):
    problem = seeded(Recipe(n_examples=1, max_variables=7, max_card=3, max_arity=4, **recipe), seed)
    return Instance.of(build_graph(problem.program), problem.theta)


def all_labels(instance):
    return itertools.product(*(range(c) for c in instance.graph.card))


def score(instance, labels):
    """The score of one labelling, by definition."""
    g, labels = instance.graph, np.asarray(labels, dtype=np.int64)
    total = instance.const[0] + instance.node[g.state_ptr[:-1] + labels].sum()
    for f in range(g.n_factors):
        slots = slice(g.slot_ptr[f], g.slot_ptr[f + 1])
        total += instance.pool[g.table_ptr[f] + (labels[g.scope[slots]] * g.stride[slots]).sum()]
    return float(total)


@crossed(seed=range(12), limits=[(1, 1), (9, 2), (64, 6)])
def test_elimination_keeps_the_optimum_and_finds_the_way_back(seed, limits):
    instance = random_instance(seed, repeats=True, forbidden=seed % 3 == 0, masks=False)
    taken = eliminate(instance, 0, *limits)
    best = max((score(instance, y) for y in all_labels(instance)), default=-math.inf)
    if best == -math.inf:
        return
    left = max(all_labels(taken.instance), key=lambda y: score(taken.instance, y))
    assert score(taken.instance, left) == pytest.approx(best)
    assert score(instance, taken.lift(np.array(left, dtype=np.int32))) == pytest.approx(best)


def test_elimination_keeps_its_limits():
    problem = complete(8, 3)
    instance = Instance.of(build_graph(problem.program), problem.theta)
    for entries, arity in [(1, 1), (3**4, 4), (3**4, 3)]:
        left = eliminate(instance, 0, entries, arity).instance.graph
        assert left.n_variables == 8  # seven neighbours are too many, whatever the table may hold
    path, scores = rough_grid(1, 9, 4)
    assert eliminate(Instance.of(build_graph(path), scores), 0, 1, 1).instance.graph.n_variables == 0


def test_splits_into_components():
    program, theta = rough_grid(3, 3, 2)
    twice = Program(
        np.array([0, 18]),
        np.full(18, 2, np.int32),
        (Group.of("g", (2, 2), np.concatenate([program.groups[0].scope, program.groups[0].scope + 9]),
               np.array([0, 24]), np.tile(np.arange(12, dtype=np.int32), 2), 12, np.array([0, 18])),),
    )  # fmt: skip
    doubled = Theta.of(twice, np.tile(theta.node, 2), [theta.tables[0]])
    instance = single(Instance.of(build_graph(twice), doubled), 0)
    assert components(instance.graph).tolist() == [0] * 9 + [1] * 9
    for part, variables in split_components(instance):
        alone = single(Instance.of(build_graph(program), theta), 0)
        labels = np.random.default_rng(3).integers(0, 2, 9)
        assert score(part, labels) == pytest.approx(score(alone, labels))
        assert len(variables) == 9
    assert solve(twice, doubled).score[0] == pytest.approx(2 * solve(program, theta).score[0])


@pytest.mark.parametrize("seed", range(8))
def test_moves_change_no_labelling_and_removed_states_are_in_none_that_is_better(seed):
    problem = seeded(Recipe(n_examples=1, max_variables=6, max_card=3, max_arity=3), seed)
    instance = single(Instance.of(build_graph(problem.program), problem.theta), 0)
    scores = {y: score(instance, y) for y in all_labels(instance)}
    core = make_core(instance)
    state = make_state(instance.graph, core)
    messages = np.random.default_rng(seed).standard_normal(int(instance.graph.message_ptr[-1]))
    cutoff = sorted(scores.values())[-min(4, len(scores))]
    state.real[UB], state.real[EPS], state.real[TAU] = instance.const[0] - cutoff, 0.0, 1e-9
    load(core, state, messages)
    if not propagate_root(core, state, True, 10**9):
        assert max(scores.values()) <= cutoff + 1e-9
        return
    assert state.real[C0] <= instance.const[0] - max(scores.values()) + 1e-9
    pool = np.empty_like(instance.pool)
    rest_of_tables(core, state.value, pool)
    rest = Instance(instance.graph, -state.value[core.n_messages :], pool, instance.const - state.real[C0])
    open_states = state.place < np.repeat(state.size, instance.graph.card)
    for labels, true in scores.items():
        assert labels_cost(core, np.array(labels, np.int32)) == pytest.approx(instance.const[0] - true)
        if open_states[instance.graph.state_ptr[:-1] + np.array(labels)].all():
            assert score(rest, labels) == pytest.approx(true)
        else:
            assert true <= cutoff + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_propagation_that_is_cut_short_goes_on_where_it_was(seed):
    program, theta = rough_grid(5, 6, 3, 2.0, seed)
    instance = Instance.of(build_graph(program), theta)
    core = make_core(instance)
    state, best = make_state(instance.graph, core), best_by_columns(program, theta, 5, 6, 3)
    load(core, state, np.zeros(core.n_messages))
    setup = Setup(Clock.start(Limits()), 1, 1, {})
    state.real[UB] = Subproblem(instance, -np.inf, setup, lambda labels, bound: None, solve_task).dearest
    assert state.real[UB] > labels_cost(core, np.zeros(30, np.int32))  # what is taken for too dear never is
    bounds, fresh, before = [], True, state.tally[WORK]
    while fresh or state.tally[[N_AC, N_DAC, N_EAC]].any():
        assert propagate_root(core, state, fresh, 1)
        fresh, bounds = False, [*bounds, state.real[C0]]
        assert 0 < state.tally[WORK] - before < 1000  # no call does much more than it may
        before = state.tally[WORK]
    assert len(bounds) > 30
    assert bounds == sorted(bounds)
    assert -bounds[-1] >= best - 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_what_no_labelling_satisfies_is_infeasible_whatever_it_costs(seed):
    """Three states, four variables that must all differ: no state can be ruled out without a search."""
    problem, random = complete(4, 3), np.random.default_rng(seed)
    for table in problem.theta.tables:
        table[:] = random.standard_normal(table.shape) + np.where(np.eye(3), -np.inf, 0.0).ravel()
    answer = solve(problem.program, problem.theta, {"max_entries": 1, "max_arity": 1})
    assert answer.primal[0] == Primal.INFEASIBLE
    assert answer.bound[0] == -np.inf


@pytest.mark.parametrize("options", [{}, {"max_entries": 1, "max_arity": 1}], ids=["eliminating", "searching"])
@pytest.mark.parametrize(("height", "width", "card", "scale"), [(8, 12, 2, 2.0), (5, 8, 3, 2.0), (4, 9, 4, 1.0)])
def test_grids_beyond_brute_force(height, width, card, scale, options):
    program, theta = rough_grid(height, width, card, scale)
    solution = solve(program, theta, options)
    assert solution.score[0] == pytest.approx(best_by_columns(program, theta, height, width, card), abs=1e-8)
    assert proved(SimpleNamespace(program=program, theta=theta), solution).all()
    assert solution.stop[0] == Stop.FINISHED


@pytest.mark.parametrize("work", [1, 100, 10**6])
def test_searches_that_are_cut_short_at_every_turn(work):
    program, theta = rough_grid(5, 6, 3, 2.0)
    instance = Instance.of(build_graph(program), theta)
    core = make_core(instance)
    core = core._replace(capacity=core.n_messages + core.n_states)  # not enough for two levels: each dive ends at once
    state = make_state(instance.graph, core)
    load(core, state, np.zeros(core.n_messages))
    assert propagate_root(core, state, True, 10**9)
    tree, root, bounds = make_tree(core.n_states, core.n_variables), root_of(state), []
    while status := search(core, state, tree, root, work):
        if status == 2:
            tree = grow_tree(tree)
        bounds.append(max(-tree.heap_bound[0], -state.real[UB]))
    best = best_by_columns(program, theta, 5, 6, 3)
    assert -state.real[UB] == pytest.approx(best)
    assert score(instance, state.best) == pytest.approx(best)
    assert all(bound >= best - 1e-8 for bound in bounds)
    assert len(bounds) > 10 or work > 100


SLOW = {"celar6sub0", "cap131", "10_1"}  # a second or more: they are in the benchmark


@pytest.mark.data
def test_optima_of_wcsp_files(data_dir):
    for path in sorted((data_dir / "map" / "wcsp").glob("*.wcsp")):
        if path.stem not in SLOW:
            problem = read_problem(path)
            solution = solve(problem.program, problem.theta, limits=Limits(time=PATIENT))
            cost = float(path.with_suffix(".ub").read_text())
            assert proved(problem, solution)[0], path.stem
            assert solution.score[0] == pytest.approx(-cost), path.stem


@pytest.mark.data
def test_optima_of_ad3_files(data_dir):
    folder = data_dir / "map" / "ad3"
    for row in json.loads((folder / "optima.json").read_text()):
        problem = read_problem(folder / (row["file"] + ".gz"))
        solution = solve(problem.program, problem.theta, limits=Limits(time=PATIENT))
        assert proved(problem, solution)[0], row["file"]
        assert solution.score[0] == pytest.approx(row["best_log_score"], abs=1e-6), row["file"]


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    ["Promedas_11", "Promedas_29", "Promedas_43", "Promedas_71", "Segmentation_11", "Segmentation_13", "wcsp_13"],
)
def test_optima_of_uai_2014_files(data_dir, name):
    folder = data_dir / "map" / "uai2014"
    rows = {row["file"]: row for row in json.loads((folder / "optima.json").read_text())}
    problem = read_problem(folder / f"{name}.uai.gz")
    numbers = [int(word) for word in (folder / f"{name}.uai.evid").read_text().split()]
    clamp = problem.clamp(zip(numbers[1::2], numbers[2::2], strict=True))
    solution = solve(problem.program, problem.theta, clamp=clamp, limits=Limits(time=PATIENT))
    assert proved(problem, solution)[0]
    assert solution.score[0] == pytest.approx(rows[f"{name}.uai"]["best_log_score"], abs=1e-6)


@pytest.mark.parametrize(("height", "width", "card", "scale"), [(12, 9, 2, 1.0), (9, 6, 3, 2.0)])
def test_k_best_of_grids_are_those_of_elimination(height, width, card, scale):
    program, theta = rough_grid(height, width, card, scale)
    question = Question(theta, task=Task.KBEST, k=4)
    right = JunctionTree().open(program, {"max_entries": 2**22, "marginals": "all"}).solve(question)
    found = Combi().open(program, OPTIONS).solve(question)
    np.testing.assert_allclose(found.score, right.score, rtol=1e-12)
    late = Combi().open(program, OPTIONS).solve(question.replace(limits=Limits(time=1e-9)))
    assert late.stop.tolist() == [Stop.TIME]
    assert late.primal.tolist() == [Primal.NONE]


def test_an_example_with_tables_in_another_order_stands_alone():
    """Factors that share tables may read them in any order; what stands alone has them in the order of its factors."""
    made = seeded(Recipe(n_examples=1, max_variables=4), 3)
    instance = Instance.of(build_graph(made.program), made.theta)
    graph = instance.graph
    order = np.argsort(-graph.table_ptr)
    start = np.empty_like(graph.table_ptr)
    start[order] = np.cumsum(graph.table_size[order]) - graph.table_size[order]
    moved = np.concatenate([instance.pool[graph.table_ptr[f] :][: graph.table_size[f]] for f in order])
    alone = single(instance._replace(graph=graph._replace(table_ptr=start), pool=moved), 0)
    expected = single(instance, 0)
    assert len(graph.table_ptr) > 1
    assert alone.pool.tolist() == expected.pool.tolist()
    assert alone.graph.table_ptr.tolist() == expected.graph.table_ptr.tolist()
