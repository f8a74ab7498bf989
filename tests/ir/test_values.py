"""Records are equal by value, also where they hold a number that is not known."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

import ssvm_dsl
from ssvm_dsl.inference.planning.plans import Candidate, Plan
from ssvm_dsl.values import Value, same

PACKAGES = ("ssvm_dsl", "ssvm_backends", "ssvm_bridges", "ssvm_constraints", "ssvm_papers", "ssvm_trainers")

#: Records that say what is asked for: nobody asks for a number that is not known.
SETTINGS = {
    "ssvm_dsl.ir.features.Block", "ssvm_dsl.ir.need.Caps", "ssvm_dsl.ir.need.Limits", "ssvm_dsl.ir.need.Need",
    "ssvm_dsl.learning.counting.kernels.InputKernel", "ssvm_dsl.learning.driver.pairings.Pairing",
    "ssvm_dsl.plugin_api.example_session.Clock", "ssvm_dsl.plugin_api.specs.Option",
    "ssvm_dsl.plugin_api.specs.BackendSpec", "ssvm_dsl.plugin_api.specs.RiskSpec",
    "ssvm_dsl.plugin_api.specs.TrainerNeeds", "ssvm_dsl.plugin_api.training.StopRule",
    "ssvm_papers.results.experiment.Experiment", "ssvm_dsl.testing.problems.Recipe",
    "ssvm_papers.results.statements.Between", "ssvm_papers.results.statements.EachNear",
    "ssvm_papers.results.statements.Near",
    "ssvm_papers.results.statements.OneOfDraws", "ssvm_papers.results.statements.Rising",
    "ssvm_backends.decomposition.descent.BranchNode", "ssvm_trainers.shared.resumable.StateRule",
}  # fmt: skip

NUMBERS = re.compile(r"\bfloat\b|Array\b|ndarray|csr_")


def records():
    """Every dataclass of the project."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            module = importlib.import_module(found.name)
            for one in vars(module).values():
                if inspect.isclass(one) and is_dataclass(one) and one.__module__ == module.__name__:
                    yield one


#: Without declarations, which refuse nan when a model is made of them.
RECORDS = [one for one in records() if not one.__module__.startswith("ssvm_dsl.lang.")]
VALUES = [one for one in RECORDS if issubclass(one, Value)]


def numbers(record):
    return [one.name for one in fields(record) if one.compare and NUMBERS.search(str(one.type))]


def test_records_that_may_hold_unknown_numbers_or_arrays_are_not_compared_by_python():
    by_python = {f"{one.__module__}.{one.__name__}" for one in RECORDS if one.__dataclass_params__.eq and numbers(one)}
    assert not by_python - SETTINGS, "derive from Value, or declare with eq=False where nothing compares them"
    assert len(RECORDS) > 150


@pytest.mark.parametrize("record", VALUES, ids=lambda one: one.__name__)
def test_two_records_with_unknown_numbers_are_equal(record):
    def unknown(**others):
        one = object.__new__(record)
        for field in fields(record):
            object.__setattr__(one, field.name, others.get(field.name, float("nan")))
        return one

    assert not record.__dataclass_params__.eq
    assert unknown() == unknown()
    assert hash(unknown()) == hash(unknown())
    name = [one for one in fields(record) if one.compare][-1].name
    assert unknown() != unknown(**{name: 1.0})
    assert unknown() != object()


def test_plans_within_plans_are_compared_by_value():
    def plan(cost=float("nan"), **options):
        parts = (Plan("chain", "map", "cheapest", (Candidate("chain", True, cost, ()),), options),)
        return Plan("chain + tree", "map", "parts", components=parts, options={"time": float("nan")})

    assert plan(tol=float("nan")) == plan(tol=np.float32("nan"))
    assert plan() != plan(cost=1.0)
    assert plan(tol=1.0) != plan(tol=2.0)
    assert plan(tol=1.0) != plan(other=1.0)


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ("nan", float("nan"), False),
        ("ab", ("a", "b"), False),
        ([1.0], (1.0,), False),
        ((1.0, float("nan")), (1.0, float("nan")), True),
        ((1.0,), (1.0, 2.0), False),
        ({"a": [float("nan")]}, {"a": [float("nan")]}, True),
        (None, float("nan"), False),
        (1, 1.0, True),
    ],
)
def test_what_is_the_same(a, b, equal):
    assert same(a, b) == same(b, a) == equal


def test_all_packages_are_looked_at():
    assert {one.__module__.split(".")[0] for one in RECORDS} >= {"ssvm_dsl", "ssvm_backends", "ssvm_trainers"}
    assert ssvm_dsl.__name__ == PACKAGES[0]
