"""The oracles of single structures against brute force, on the problems of the kit."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from kit import keeps_its_promises
from ssvm_backends.structures.matchings.best_matchings import match_all
from ssvm_dsl.errors import NoBackendError, OptionError
from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import ConstraintGroup, Program, Question, Task, Theta, pointers
from ssvm_dsl.plugin_api import ConstraintSpec, program_need
from ssvm_dsl.registry import registry

ORACLES = {
    "matching": "assignment", "transport": "assignment",
    "arborescence": "arborescence", "projective-tree": "eisner", "path": "shortest-path",
    "circuit": "circuit",
    "equivalence": "relations", "linear-order": "relations", "transitive": "relations", "acyclic": "relations",
}  # fmt: skip

#: Kinds whose oracle does not list the k best.
HARD = ("circuit", "equivalence", "linear-order", "transitive", "acyclic")


def problem(kind, seed):
    return registry().load(registry().find(ConstraintSpec, kind))().problem(np.random.default_rng(seed))


def asked(program, backend, *questions):
    tasks = frozenset(question.task for question in questions)
    session = open_plan(plan_program(program, program_need(program, tasks), backend), program)
    return [session.solve(question) for question in questions]


def same(first, second):
    np.testing.assert_allclose(first.score, second.score, atol=1e-9)
    assert first.primal.tolist() == second.primal.tolist()


@pytest.mark.parametrize("kind", ORACLES)
def test_best_labellings(kind):
    seen = set()
    for seed in range(12):
        program, theta = problem(kind, seed)
        if kind == "path" and program_need(program).cyclic:
            continue
        rng = np.random.default_rng(seed)
        loss = Theta.of(program, theta.node + rng.integers(0, 2, program.n_states))
        clamp = np.where(rng.random(program.n_variables) < 0.2, 0, -1).astype(np.int32)
        if program.allowed is not None:
            clamp[~program.allowed[program.state_ptr[:-1]]] = -1
        some = rng.permutation(program.n_examples)[:2]
        questions = [Question(theta), Question(loss), Question(theta, some),
                     Question(theta, task=Task.MAP_CLAMPED, clamp=clamp)]  # fmt: skip
        right = asked(program, "brute-force", *questions)
        for mine, yours in zip(asked(program, ORACLES[kind], *questions), right):
            same(mine, yours)
            seen.update(mine.primal.tolist())
        if seed % 6 == 0:
            for mine, yours in zip(asked(program, "ilp", *questions[:2]), right):
                same(mine, yours)
    assert seen == {0, 3}  # feasible and infeasible ones


@pytest.mark.parametrize("kind", [kind for kind in ORACLES if kind not in HARD])
def test_k_best(kind):
    n = 0
    for seed in range(6):
        program, theta = problem(kind, seed)
        if kind == "path" and program_need(program).cyclic:
            continue
        question = Question(theta, task=Task.KBEST, k=5)
        (mine,), (right,) = asked(program, ORACLES[kind], question), asked(program, "brute-force", question)
        same(mine, right)
        n += 1
    assert n > 2


@pytest.mark.parametrize("kind", ["arborescence", "projective-tree"])
def test_marginals(kind):
    for seed in range(40):
        program, theta = problem(kind, seed)
        question = Question(theta, task=Task.MARGINALS)
        (mine,), (right,) = asked(program, ORACLES[kind], question), asked(program, "brute-force", question)
        np.testing.assert_allclose(mine.log_partition, right.log_partition, atol=1e-9)
        np.testing.assert_allclose(mine.marginals.node, right.marginals.node, atol=1e-9)


@pytest.mark.parametrize("kind", ORACLES)
def test_auto_prefers_the_oracle_to_integer_programs(kind):
    programs = (problem(kind, seed)[0] for seed in range(9))
    program = next(one for one in programs if kind == "circuit" or not program_need(one).cyclic)
    cost = {one.name: one.seconds for one in plan_program(program, program_need(program)).candidates if one.ok}
    assert cost[ORACLES[kind]] < cost["ilp"]


@pytest.mark.parametrize("name", sorted(set(ORACLES.values())))
def test_conformance(name):
    keeps_its_promises(name, seed=1)


def grid(n, rng, back=False):
    """Arcs of an n by n grid to the east and south (and back), and scores of none above 0."""
    square = np.arange(n * n).reshape(n, n)
    arcs = [*zip(square[:, :-1].ravel(), square[:, 1:].ravel()), *zip(square[:-1].ravel(), square[1:].ravel())]
    arcs += [(b, a) for a, b in arcs] if back else []
    return np.array(arcs), -rng.random(len(arcs))


def routes(arcs, n_nodes, scores, times=1):
    """A program of paths from the first node to the last, and its scores."""
    m = len(arcs)
    group = ConstraintGroup(
        "path", "route", np.arange(times + 1), np.arange(times + 1) * m, np.tile(np.arange(m, dtype=np.int32), times),
        np.ones(m * times, np.int32), np.zeros(m * times, bool),
        {name: np.full(times, value) for name, value in (("n_nodes", n_nodes), ("source", 0), ("target", n_nodes - 1))},
        {name: np.tile(arcs[:, k].astype(np.int32), times) for k, name in enumerate(("tail", "head"))},
    )  # fmt: skip
    program = Program(np.arange(times + 1) * m, np.full(m * times, 2, np.int32), (), (group,)).validate()
    return program, Theta.of(program, np.stack([np.zeros(m * times), np.tile(scores, times)], axis=1))


@pytest.mark.parametrize("back", [False, True])
def test_paths_against_networkx(back):
    rng = np.random.default_rng(0)
    arcs, scores = grid(12, rng, back)
    program, theta = routes(arcs, 144, scores, times=2)
    options = {"cycles": "improve"} if back else {}
    plan = plan_program(program, program_need(program), "shortest-path", options=options)
    solution = open_plan(plan, program).solve(Question(theta))
    graph = networkx.DiGraph()
    graph.add_weighted_edges_from((a, b, -s) for (a, b), s in zip(arcs.tolist(), scores))
    np.testing.assert_allclose(solution.score, -networkx.shortest_path_length(graph, 0, 143, weight="weight"))


def test_cycles_are_refused_by_name():
    arcs = np.array([(0, 1), (1, 2), (2, 1), (1, 3)])
    program, theta = routes(arcs, 4, np.ones(4))
    with pytest.raises(NoBackendError, match="takes graphs without cycles; with cycles=improve"):
        plan_program(program, program_need(program), "shortest-path")
    plan = plan_program(program, program_need(program), "shortest-path", options={"cycles": "improve"})
    with pytest.raises(OptionError, match="example 0: a cycle of positive score can be reached from the source"):
        open_plan(plan, program).solve(Question(theta))
    assert asked(program, "ilp", Question(theta))[0].score.tolist() == [2.0]


def test_assignment_problems_are_those_of_scipy():
    """Rectangular ones, with ties, with matches that are not allowed, and without any solution."""
    rng = np.random.default_rng(0)
    shapes = [tuple(shape) for shape in rng.integers(1, 9, (60, 2)).tolist()]
    matrices = [np.round(rng.normal(size=shape), k % 3) for k, shape in enumerate(shapes)]
    for matrix in matrices[::2]:
        matrix[rng.random(matrix.shape) < 0.3] = np.inf
    rows, cols = np.array(shapes, dtype=np.int64).T.copy()
    start, match_start = pointers(rows * cols), pointers(rows)
    match, possible = np.full(int(match_start[-1]), -1, np.int32), np.ones(len(shapes), dtype=bool)
    match_all(np.concatenate([one.ravel() for one in matrices]), start, rows, cols, match_start, match, possible)
    assert 0 < possible.sum() < len(shapes)
    for matrix, lo, hi, found in zip(matrices, match_start, match_start[1:], possible, strict=False):
        try:
            expected = matrix[linear_sum_assignment(matrix)].sum()
        except ValueError:
            assert not found
            continue
        mine = np.flatnonzero(match[lo:hi] >= 0)
        taken = match[lo:hi][mine]
        assert len(set(taken.tolist())) == len(mine) == min(matrix.shape)
        assert matrix[mine, taken].sum() == pytest.approx(expected)


def test_tours_against_all_orders():
    rng, n = np.random.default_rng(0), 6
    arcs = np.array([(a, b) for a in range(n) for b in range(n) if a != b])
    scores, m = rng.normal(size=len(arcs)), len(arcs)
    group = ConstraintGroup(
        "circuit", "tour", np.array([0, 1]), np.array([0, m]), np.arange(m, dtype=np.int32), np.ones(m, np.int32),
        np.zeros(m, bool), {"n_nodes": np.array([n]), "all_nodes": np.array([True])},
        {name: arcs[:, k].astype(np.int32) for k, name in enumerate(("tail", "head"))},
    )  # fmt: skip
    program = Program(np.array([0, m]), np.full(m, 2, np.int32), (), (group,)).validate()
    (solution,) = asked(program, "circuit", Question(Theta.of(program, np.stack([np.zeros(m), scores], axis=1))))
    worth = {(int(a), int(b)): s for (a, b), s in zip(arcs, scores)}
    orders = ((0, *rest) for rest in itertools.permutations(range(1, n)))
    best = max(sum(worth[a, b] for a, b in zip(order, (*order[1:], 0))) for order in orders)
    np.testing.assert_allclose(solution.score, [best])
    assert solution.optimal().all()
