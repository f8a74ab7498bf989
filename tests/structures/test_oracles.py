"""The oracles of single structures against brute force, on the problems of the kit."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from ssvm_backends.structures.matchings.best_matchings import match_all
from ssvm_dsl.errors import NoBackendError, OptionError
from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.ir import ConstraintGroup, Program, Question, Theta, pointers
from ssvm_dsl.plugin_api import ConstraintSpec, program_need
from ssvm_dsl.registry import registry
from ssvm_dsl.testing import open_session, solve

ORACLES = {
    "matching": "assignment", "transport": "assignment",
    "arborescence": "arborescence", "projective-tree": "eisner", "path": "shortest-path",
    "circuit": "circuit",
    "equivalence": "relations", "linear-order": "relations", "transitive": "relations", "acyclic": "relations",
}  # fmt: skip


def problem(kind, seed):
    return registry().load(registry().find(ConstraintSpec, kind))().problem(np.random.default_rng(seed))


def asked(program, backend, *questions):
    session = open_session(program, backend, {question.task for question in questions})
    return [session.solve(question) for question in questions]


@pytest.mark.parametrize("kind", ORACLES)
def test_auto_prefers_the_oracle_to_integer_programs(kind):
    programs = (problem(kind, seed)[0] for seed in range(9))
    program = next(one for one in programs if kind == "circuit" or not program_need(one).cyclic)
    cost = {one.name: one.seconds for one in plan_program(program, program_need(program)).candidates if one.ok}
    assert cost[ORACLES[kind]] < cost["ilp"]


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
    solution = solve(program, theta, "shortest-path", options=options)
    graph = networkx.DiGraph()
    graph.add_weighted_edges_from((a, b, -s) for (a, b), s in zip(arcs.tolist(), scores))
    np.testing.assert_allclose(solution.score, -networkx.shortest_path_length(graph, 0, 143, weight="weight"))


def test_cycles_are_refused_by_name():
    arcs = np.array([(0, 1), (1, 2), (2, 1), (1, 3)])
    program, theta = routes(arcs, 4, np.ones(4))
    with pytest.raises(NoBackendError, match="takes graphs without cycles; with cycles=improve"):
        solve(program, theta, "shortest-path")
    with pytest.raises(OptionError, match="example 0: a cycle of positive score can be reached from the source"):
        solve(program, theta, "shortest-path", options={"cycles": "improve"})
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
