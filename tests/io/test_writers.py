"""Written files mean the same to another reader: HiGHS and OR-Tools solve them, the optimum is that of brute force."""

from __future__ import annotations

import numpy as np
import pytest

from naive_formats import naive_score, read_uai, scores_of, uai_text
from ssvm_dsl import read_problem, write_lp, write_mps, write_uai
from ssvm_dsl.errors import OptionError
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import ConstraintGroup, Program, Question, Theta
from ssvm_dsl.ir.graph_problem import GraphProblem
from ssvm_dsl.plugin_api import program_need


def random_problem(folder, seed):
    path = folder / "random.uai"
    path.write_text(uai_text(np.random.default_rng(seed)))
    return read_problem(path)


def best_score(problem):
    session = open_plan(plan(program_need(problem.program), "brute-force"), problem.program)
    return float(session.solve(Question(problem.theta)).score[0])


def highs(path):
    """The optimum of a file as HiGHS (the one inside SciPy) finds it, ``-inf`` when infeasible."""
    core = pytest.importorskip("scipy.optimize._highspy._core")
    solver = core._Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(str(path)) == core.HighsStatus.kOk
    solver.run()
    if solver.getModelStatus() == core.HighsModelStatus.kInfeasible:
        return -np.inf
    assert solver.getModelStatus() == core.HighsModelStatus.kOptimal
    return solver.getInfo().objective_function_value


def ortools(path, solver):
    """The optimum of an MPS file as OR-Tools reads and solves it."""
    model_builder = pytest.importorskip("ortools.linear_solver.python.model_builder")
    model = model_builder.Model()
    assert model.import_from_mps_string(path.read_text())
    engine = model_builder.Solver(solver)
    status = engine.solve(model)
    if status == model_builder.SolveStatus.INFEASIBLE:
        return -np.inf
    assert status == model_builder.SolveStatus.OPTIMAL
    return engine.objective_value


def shifted(problem, const):
    theta = problem.theta.copy()
    theta.const[0] += const
    return GraphProblem(problem.program, theta, problem.source)


@pytest.mark.parametrize("seed", range(14))
def test_other_solvers_find_the_optimum(tmp_path, seed):
    problem = shifted(random_problem(tmp_path, seed), 1.25 * seed)
    best = best_score(problem)
    write_lp(tmp_path / "a.lp", problem)
    write_mps(tmp_path / "a.mps", problem)
    assert highs(tmp_path / "a.lp") == pytest.approx(best, abs=1e-6)
    assert highs(tmp_path / "a.mps") == pytest.approx(best, abs=1e-6)
    assert ortools(tmp_path / "a.mps", "sat") == pytest.approx(best, abs=1e-4)


def triangle(folder):
    """Three binary variables that want to differ pairwise: best score 2, relaxation 3."""
    path = folder / "triangle.uai"
    e = float(np.exp(1.0))
    path.write_text("MARKOV 3 2 2 2 3 2 0 1 2 0 2 2 1 2" + f" 4 1 {e!r} {e!r} 1" * 3)
    return read_problem(path)


@pytest.mark.parametrize(("relaxed", "optimum"), [(False, 2.0), (True, 3.0)])
def test_the_relaxation_is_the_local_polytope(tmp_path, relaxed, optimum):
    problem = triangle(tmp_path)
    write_lp(tmp_path / "a.lp", problem, relaxed=relaxed)
    write_mps(tmp_path / "a.mps", problem, relaxed=relaxed)
    assert highs(tmp_path / "a.lp") == pytest.approx(optimum)
    assert highs(tmp_path / "a.mps") == pytest.approx(optimum)
    assert ortools(tmp_path / "a.mps", "sat" if not relaxed else "glop") == pytest.approx(optimum)


def test_names_say_which_variable_and_state(tmp_path):
    write_lp(tmp_path / "a.lp", triangle(tmp_path))
    text = (tmp_path / "a.lp").read_text()
    assert " v0:\n  + y0_0 + y0_1 = 1\n" in text
    assert " f1_1_0:\n  + f1_0 + f1_2 - y2_0 = 0\n" in text
    assert max(map(len, text.splitlines())) < 500


@pytest.mark.parametrize("seed", range(14))
def test_uai_files_come_back(tmp_path, seed):
    problem = shifted(random_problem(tmp_path, seed), -2.5)
    write_uai(tmp_path / "b.uai", problem)
    again = read_problem(tmp_path / "b.uai")
    cards, factors = read_uai((tmp_path / "b.uai").read_text())
    assert cards == problem.program.card.tolist()
    labellings = [np.random.default_rng(k).integers(0, cards).tolist() for k in range(50)]
    scores = scores_of(problem, labellings)
    np.testing.assert_allclose(scores_of(again, labellings), scores, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose([naive_score(factors, y) for y in labellings], scores, rtol=1e-12, atol=1e-12)


def two(node, allowed=None, constraints=()):
    program = Program(np.array([0, 1]), np.array([2], np.int32), allowed=allowed, constraints=constraints)
    return GraphProblem(program, Theta.of(program, node=node), "two")


def test_masked_states_are_impossible_in_the_file(tmp_path):
    problem = two([0.0, 1.0], allowed=np.array([True, False]))
    write_uai(tmp_path / "a.uai", problem)
    assert read_problem(tmp_path / "a.uai").theta.node.tolist() == [0.0, -np.inf]
    write_lp(tmp_path / "a.lp", problem)
    assert highs(tmp_path / "a.lp") == 0.0


@pytest.mark.parametrize("score", [701.0, -701.0])
def test_what_a_uai_file_cannot_hold_is_refused(tmp_path, score):
    with pytest.raises(OptionError, match=r"expected scores within \+-700, found 701"):
        write_uai(tmp_path / "a.uai", two([score, 0.0]))
    assert not (tmp_path / "a.uai").exists()


@pytest.mark.parametrize("write", [write_uai, write_lp, write_mps])
def test_constraints_are_refused(tmp_path, write):
    nothing = np.zeros(0, np.int32)
    begin = np.zeros(2, np.int64), np.zeros(1, np.int64)
    group = ConstraintGroup("at-most", "c", *begin, nothing, nothing, nothing != 0)
    with pytest.raises(OptionError, match="found constraints: at-most"):
        write(tmp_path / "a.txt", two([0.0, 0.0], constraints=(group,)))
