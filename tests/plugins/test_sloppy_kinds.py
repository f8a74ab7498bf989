"""What kits say to sloppy plug-ins: a sentence that names what was expected, never an error of Python's own."""

from __future__ import annotations

import numpy as np
import pytest
import scipy_assignment

from model_table import matching
from ssvm_dsl import Matching, StructuredSVM
from ssvm_dsl.errors import NoBackendError
from ssvm_dsl.ir import Theta
from ssvm_dsl.plugin_api import BridgeSpec, ConstraintSpec, program_need
from ssvm_dsl.registry import register, registry
from ssvm_dsl.testing import check_backend, check_bridge, check_constraint
from ssvm_dsl.testing.kind_problems import kind_problem
from toy_backends import plugged

# -- a backend that takes some constraints of a kind ---------------------------------------------------------


Align = matching(2)


class Two(Align):
    one = Matching(Align.y.is_(1), rows=Align.I, cols=Align.J, row_limit=2)


RNG = np.random.default_rng(0)
X = [RNG.normal(size=(3, 4, 2)) for _ in range(4)]
Y = [np.eye(3, 4, dtype=int) for _ in X]


def test_a_backend_on_scipy_answers_as_the_bundled_one():
    register(scipy_assignment, "sloppy")
    found = [
        StructuredSVM(Align, backend=name, trainer="n-slack", max_passes=20, random_state=0, n_threads=1).fit(X, Y)
        for name in ("scipy-assignment", "assignment")
    ]
    assert found[0].report_.primal == pytest.approx(found[1].report_.primal, rel=1e-6)
    assert check_backend("scipy-assignment", n_problems=4).ok


def test_it_refuses_matchings_with_other_limits_in_words():
    register(scipy_assignment, "sloppy")
    with pytest.raises(NoBackendError, match="takes rows and columns of at most one link, none of them needed"):
        StructuredSVM(Two, backend="scipy-assignment").fit(X, Y)


def test_a_need_has_the_numbers_of_its_constraints():
    problem = kind_problem("matching", 3)
    need = program_need(problem.program)
    expected = [group.meta["row_most"] for group in problem.program.constraints]
    np.testing.assert_array_equal(need.numbers("matching", "row_most"), np.concatenate(expected))
    assert need.numbers("circuit", "n_nodes").shape == (0,)
    assert need == program_need(problem.program)
    assert "constraints=(" not in repr(need)


# -- kinds of constraints ------------------------------------------------------------------------------------


class Sloppy:
    """A kind that is right but for one thing."""

    right = registry().load(registry().find(ConstraintSpec, "count"))()

    def __init__(self):
        for name, changed in self.changes.items():
            setattr(self, name, changed)

    def violated(self, group, true):
        return self.right.violated(group, true)

    def rows(self, group, k):
        return self.right.rows(group, k)

    def problem(self, rng):
        return of_kind(*self.right.problem(rng))


def of_kind(program, theta):
    """The same problem, with constraints of the kind ``sloppy``."""
    from dataclasses import replace

    groups = tuple(replace(group, kind="sloppy", rules=None) for group in program.constraints)
    return replace(program, constraints=groups), theta


def first(rng):
    return of_kind(*Sloppy.right.problem(rng))


def shorter(theta):
    return Theta(theta.node[:-1], theta.pool, theta.tables, theta.const)


WRONG = {
    "nothing": ({"problem": lambda rng: None}, "problem() returned None, expected a pair: a Program and a Theta"),
    "no scores": ({"problem": lambda rng: (first(rng)[0], None)}, "problem() returned (Program, None), expected"),
    "no program": ({"problem": lambda rng: (None, first(rng)[1])}, "problem() returned (None, Theta), expected"),
    "a text": ({"problem": lambda rng: "text"}, "problem() returned str, expected a pair"),
    "three": ({"problem": lambda rng: (*first(rng), 1)}, "problem() returned (Program, Theta, int), expected"),
    "other scores": (
        {"problem": lambda rng: (first(rng)[0], shorter(first(rng)[1]))},
        "problem() returned node of float64, shape",
    ),
    "none violated": ({"violated": lambda group, true: None}, "violated() returns an array of"),
    "counts": ({"violated": lambda group, true: np.zeros(group.n_constraints)}, "violated() returns an array of"),
    "no rows": ({"rows": lambda group, k: None}, "rows() of 'count of the kit': expected LinearRows, got NoneType"),
    "no words": ({"explain": lambda group, k, true: None}, "explain() returns a string, got None"),
    "no states": ({"start": lambda group, k, scores: 3}, "start()"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_sloppy_kind_is_told_what_was_expected(name, monkeypatch):
    changes, expected = WRONG[name]
    monkeypatch.setattr(Sloppy, "changes", changes, raising=False)
    spec = ConstraintSpec("sloppy", f"{__name__}:Sloppy", "of a test", parameters=("lower", "upper"))
    plugged(ssvm_constraints=[spec])
    report = check_constraint("sloppy", n_problems=4)
    assert not report.ok
    texts = [failure.text for check in report.checks for failure in check.failures]
    assert any(expected in text for text in texts), str(report)
    internal = ("AttributeError", "TypeError", "NoneType' object", "IndexError")
    assert not any(word in text for text in texts for word in internal), str(report)
    if "problem" in changes:  # a backend that takes every kind is not at fault, and its kit goes on
        others = check_backend("brute-force", n_problems=1, only=["map"])
        assert not any(failure.text.startswith("it failed") for one in others.checks for failure in one.failures)
        assert "sloppy" in str(others)


# -- bridges -------------------------------------------------------------------------------------------------


class Bridge:
    """Takes counts, and makes nothing of them."""

    cost = lower = staticmethod(lambda *given: None)


def test_a_sloppy_bridge_is_told_what_was_expected():
    spec = BridgeSpec("sloppy-bridge", f"{__name__}:Bridge", "of a test", kinds=frozenset({"count"}))
    plugged(ssvm_bridges=[spec])
    report = check_bridge("sloppy-bridge", n_problems=2)
    assert not report.ok
    assert not any(word in str(report) for word in ("NoneType' object", "TypeError")), str(report)
    assert "Bridge" in str(report), str(report)
