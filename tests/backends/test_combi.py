"""``combi``: equal to brute force, to dynamic programming and to the optima others proved; honest when stopped."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
from lp_problems import complete, grid

from naive import proved
from ssvm_backends.elimination.junction_tree import JunctionTree
from ssvm_backends.search.combi import Combi
from ssvm_dsl.io.problem_file import read_problem
from ssvm_dsl.ir import Limits, Primal, Question, Stop, Task

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


def score(instance, labels):
    """The score of one labelling, by definition."""
    g, labels = instance.graph, np.asarray(labels, dtype=np.int64)
    total = instance.const[0] + instance.node[g.state_ptr[:-1] + labels].sum()
    for f in range(g.n_factors):
        slots = slice(g.slot_ptr[f], g.slot_ptr[f + 1])
        total += instance.pool[g.table_ptr[f] + (labels[g.scope[slots]] * g.stride[slots]).sum()]
    return float(total)


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
