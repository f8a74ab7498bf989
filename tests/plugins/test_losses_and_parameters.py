"""Losses of plug-ins in training problems by hand, and parameters of kinds of constraints that say what is allowed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ssvm_dsl import CustomLoss, Dim, Factor, Input, Label, Model, register
from ssvm_dsl.errors import OptionError
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir import ConstraintGroup, Program
from ssvm_dsl.plugin_api import ConstraintSpec, LossSpec, Option, hookimpl
from ssvm_dsl.registry import PluginInfo, registry
from ssvm_dsl.testing import training_problem


def share(truth, n_states):
    return (truth[:, None] != np.arange(n_states)) / max(1, len(truth))


class Apart:
    def violated(self, group, true):
        return np.zeros(group.n_constraints, dtype=bool)

    def rows(self, group, k):
        raise NotImplementedError

    def problem(self, rng):
        raise NotImplementedError


class Plugin:
    @hookimpl
    def ssvm_losses(self):
        return [LossSpec("share", f"{__name__}:share")]

    @hookimpl
    def ssvm_constraints(self):
        gap = Option("gap", 1, "false literals in between", int, least=0)
        return [ConstraintSpec("apart", f"{__name__}:Apart", parameters=(gap, Option("n", None, "how many", int)))]


@pytest.fixture(autouse=True)
def plugin():
    register(Plugin(), "losses and parameters")
    yield
    registry().forget(PluginInfo("losses and parameters", "registered in this process", False, False))


class Word(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    loss = CustomLoss("share", y)


def test_a_training_problem_takes_a_loss_of_a_plugin():
    X, Y = [np.ones((2, 2)), np.ones((4, 2))], [[0, 1], [2, 2, 0, 1]]
    problem = training_problem(Word, X, Y)
    assert problem.value(np.zeros(problem.dim))[0] == pytest.approx(1.0)  # each example costs at most 1


def grouped(**meta):
    literals = np.arange(2, dtype=np.int32)
    group = ConstraintGroup(
        "apart", "runs", np.array([0, 1]), np.array([0, 2]), literals, literals * 0, np.zeros(2, bool),
        {name: np.array([value]) for name, value in meta.items()},
    )  # fmt: skip
    return Program(np.array([0, 2]), np.full(2, 2, np.int32), (), (group,)).validate()


def test_parameters_are_checked_and_have_defaults():
    (made,) = with_rules(grouped(n=3), registry()).constraints
    assert {name: value.tolist() for name, value in made.meta.items()} == {"n": [3], "gap": [1]}
    (made,) = with_rules(grouped(n=3.0, gap=2), registry()).constraints
    assert made.meta["n"].dtype == np.int64


@pytest.mark.parametrize(
    ("meta", "text"),
    [
        ({"n": 1, "gap": -1}, r"gap must be an int of at least 0, got -1 \(false literals in between\)"),
        ({"n": 1, "gap": 2.5}, r"gap must be an int of at least 0, got 2.5"),
        ({"gap": 2}, "its parameters for each constraint are gap, n, got gap"),
        ({"n": 1, "gop": 2}, "its parameters for each constraint are gap, n, got gop, n"),
    ],
)
def test_parameters_that_are_not_allowed_are_refused(meta, text):
    with pytest.raises(OptionError, match=f"constraint 'runs' of the kind 'apart': {text}|{text}"):
        with_rules(grouped(**meta), registry())


def test_descriptions_of_parameters_are_checked():
    from ssvm_dsl.plugin_api.hosting.check_spec import mistakes

    right = Plugin().ssvm_constraints()[0]
    assert mistakes(right) == []
    wrong = replace(right, parameters=(Option("gap", -1, "less than nothing", int, least=0),))
    assert mistakes(wrong) == ["option 'gap' must be an int of at least 0, but its default is -1"]
