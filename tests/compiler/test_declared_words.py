"""Refusals of backends name what the user declared, not the graph that the compiler made of it."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl import AtMost, Dim, Factor, Input, Label, Model, chain, grid, ground
from ssvm_dsl.inference.planning.planner import need_of
from ssvm_dsl.inference.planning.plans import consider
from ssvm_dsl.ir import Guarantee, Task
from ssvm_dsl.plugin_api import BackendSpec
from ssvm_dsl.registry import registry


class Segments(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, "ab", segments=3)
    f = Factor(y, features=x)
    g = Factor(chain(y))


class Grid(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 2)
    y = Label(H, W, 3)
    f = Factor(y, features=x)
    g = Factor(grid(y))


class Budget(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 3)
    f = Factor(y, features=x)
    few = AtMost(2, y.is_(1))


def refusals(model, shape):
    need = need_of(ground(model, [np.zeros(shape)]).parameters, frozenset({Task.MAP}), Guarantee.EXACT)
    each = {spec.name: consider(need, spec)[0] for spec in registry().specs(BackendSpec)}
    return {name: "; ".join(one.reasons) for name, one in each.items() if not one.ok}, str(need)


def test_segments_are_no_graph():
    found, need = refusals(Segments, (5, 2))
    assert "segments of up to 3 positions, 2 classes (label 'y')" in need
    assert found["chain"] == "does not handle segments of up to 3 positions, 2 classes (label 'y')"
    said = " ".join(text for name, text in found.items())
    assert not any(word in said for word in ("cycles", "forest", "joins 3", "two states", "segmentation"))


@pytest.mark.parametrize("name", ["chain", "tree"])
def test_cycles_are_told_by_their_targets(name):
    found, need = refusals(Grid, (3, 3, 2))
    assert "(grid(y))" in need
    assert found[name].endswith("(grid(y))")


def test_constraints_are_told_by_their_names():
    found, _ = refusals(Budget, (4, 2))
    assert "does not handle constraints count (few)" in found["junction-tree"]
