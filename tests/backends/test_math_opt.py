"""GLOP and PDLP through MathOpt's public interface and through its messages: the same answers, whichever OR-Tools."""

from __future__ import annotations

import numpy as np
import pytest
from lp_problems import grid

from ssvm_backends.programs import lp_solvers as module
from ssvm_backends.programs.lp import LP
from ssvm_backends.programs.lp_solvers import MathOpt, MathOptCore, import_math_opt, math_opt, objection
from ssvm_backends.programs.ortools_modules import import_ortools
from ssvm_dsl.errors import PluginError
from ssvm_dsl.ir import Limits, Question, Stop, Theta
from ssvm_dsl.testing.problems import Recipe, seeded

PROBLEMS = [seeded(Recipe(max_arity=3, density=1.0, forbidden=True, masks=k % 2 == 0), k) for k in range(4)]


@pytest.fixture
def anew():
    """The self-test runs again, here and after the test."""
    objection.cache_clear()
    yield
    objection.cache_clear()


def public():
    return MathOpt("glop")


def session(problem, interface):
    one = LP().open(problem.program, {"solver": "glop", "rounding": "none"})
    one._solvers["glop"] = interface()
    return one


@pytest.mark.parametrize("problem", PROBLEMS, ids=range(len(PROBLEMS)))
def test_both_interfaces_prove_the_same_bounds_also_from_an_earlier_answer(problem):
    near, rng = problem.theta.copy(), np.random.default_rng(0)
    near.node[:] += 0.1 * rng.normal(size=near.node.size)
    bounds = []
    for interface in (public, MathOptCore):
        one = session(problem, interface)
        first = one.solve(Question(problem.theta))
        bounds.append([first.bound, one.solve(Question(near, warm=first.warm)).bound])
    np.testing.assert_allclose(bounds[0], bounds[1], rtol=1e-8, atol=1e-7)


@pytest.mark.parametrize("interface", [public, MathOptCore])
def test_a_basis_saves_iterations(interface):
    problem = grid(6, 6, 3)
    one = session(problem, interface)
    first = one.solve(Question(problem.theta))
    again = one.solve(Question(problem.theta, warm=first.warm))
    assert again.stats["lp_iterations"] == 0 < first.stats["lp_iterations"]
    np.testing.assert_allclose(again.bound, first.bound, rtol=1e-9)


@pytest.mark.parametrize("interface", [public, MathOptCore])
def test_a_limit_of_iterations_is_kept_and_named(interface):
    problem = grid(12, 12, 4)
    one = session(problem, interface)
    found = one.solve(Question(problem.theta, limits=Limits(iterations=3)))
    assert found.stop.tolist() == [Stop.ITERATIONS]
    assert found.stats["lp_iterations"] == 3
    assert found.bound[0] >= one.solve(Question(problem.theta)).bound[0] - 1e-9


def test_what_is_proved_infeasible_is_so_through_both():
    problem = grid(3, 3, 2)
    theta = Theta.of(problem.program, problem.theta.node, [np.full_like(problem.theta.tables[0], -np.inf)])
    for interface in (public, MathOptCore):
        one = session(problem, interface)
        assert one.solve(Question(theta)).bound.tolist() == [-np.inf]


def test_the_messages_work_with_the_version_that_is_tested(anew, monkeypatch):
    monkeypatch.delenv("SSVM_ORTOOLS", raising=False)
    assert objection() == ""
    assert type(math_opt("glop")) is MathOptCore


def test_an_ortools_that_has_changed_is_asked_through_its_public_interface(anew, monkeypatch):
    def changed(*arguments):
        raise TypeError("incompatible function arguments")

    monkeypatch.setattr(module.PersistentModel, "price", changed)
    assert "TypeError: incompatible function arguments" in objection()
    import_math_opt("glop")
    assert type(math_opt("glop")) is MathOpt


def test_an_ortools_that_was_not_tested_is_asked_through_its_public_interface(anew, monkeypatch):
    monkeypatch.delenv("SSVM_ORTOOLS", raising=False)
    monkeypatch.setattr(module, "TESTED", ("9.1",))
    assert "is what was tested" in objection()
    assert type(math_opt("glop")) is MathOpt


def test_the_environment_asks_for_the_public_interface(monkeypatch):
    monkeypatch.setenv("SSVM_ORTOOLS", "public")
    assert type(math_opt("glop")) is MathOpt


def test_pdlp_is_asked_in_public(monkeypatch):
    monkeypatch.delenv("SSVM_ORTOOLS", raising=False)
    assert type(math_opt("pdlp")) is MathOpt


def test_a_broken_ortools_says_its_version_and_why():
    with pytest.raises(PluginError, match=r"OR-Tools \d+\.\d+.* cannot be used: ModuleNotFoundError: .*no_such_part"):
        import_ortools("ortools.no_such_part")
