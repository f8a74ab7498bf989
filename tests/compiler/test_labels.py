"""Users' labels become states and come back in the users' own names; ignored ones are masked."""

from __future__ import annotations

import numpy as np
import pytest

import model_table
from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, chain, ground
from ssvm_dsl.errors import DataError


class Word(Model):
    T = Dim()
    x = Input(T, 1)
    y = Label(T, "cab")
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y, ignore="?")


class Codes(Model):
    T = Dim()
    x = Input(T, 1)
    y = Label(T, [30, 10, 20])
    emit = Factor(y, features=x)


class Single(Model):
    x = Input(1)
    y = Label(["no", "yes"])
    emit = Factor(y, features=x)


class Both(Model):
    T, H = Dim(), Dim(2)
    x = Input(T, 1)
    tags = Label(T, H, ["u", "v"])
    kind = Label(3)
    emit = Factor(kind)
    loss = Hamming(tags)


def inputs(*lengths):
    return [np.zeros((n, 1)) for n in lengths]


@pytest.mark.parametrize(
    "Y",
    [
        ["cab", "bb"],
        [list("cab"), list("bb")],
        [np.array(list("cab")), np.array(list("bb"))],
        [np.array(list("cab"), dtype=object), np.array(list("bb"), dtype=object)],
        [tuple("cab"), "bb"],
        [{"y": "cab"}, {"y": ["b", "b"]}],
    ],
    ids=["words", "lists", "arrays", "object arrays", "mixed", "dicts"],
)
def test_strings(Y):
    g = ground(Word, inputs(3, 2), Y)
    assert g.truth.tolist() == [0, 1, 2, 2, 2]
    first, second = g.layout.decode(g.truth)
    assert "".join(first) == "cab"
    assert "".join(second) == "bb"


def test_ints_that_are_names():
    g = ground(Codes, inputs(3), [[10, 20, 30]])
    assert g.truth.tolist() == [1, 2, 0]
    np.testing.assert_array_equal(g.layout.decode(g.truth), [[10, 20, 30]])


def test_whole_numbers_may_be_floats():
    assert ground(Codes, inputs(3), [np.array([10.0, 20.0, 30.0])]).truth.tolist() == [1, 2, 0]
    with pytest.raises(DataError, match=r"expected one of the 3 classes .*, found 20.5 at position 1 of T"):
        ground(Codes, inputs(3), [[10, 20.5, 30]])

    class Counts(Model):
        x = Input(1)
        y = Label(3)
        f = Factor(y, features=x)

    assert ground(Counts, np.zeros((3, 1)), np.array([0.0, 2.0, 1.0])).truth.tolist() == [0, 2, 1]
    for value in (1.5, np.inf, 3.0, -1.0):
        with pytest.raises(DataError, match=f"label 'y', example 1: expected an int in 0..2, found {value}"):
            ground(Counts, np.zeros((2, 1)), [2.0, value])


@pytest.mark.parametrize("Y", [["no", "yes"], np.array(["no", "yes"]), np.array(["no", "yes"], dtype=object)])
def test_single_labels(Y):
    g = ground(Single, np.zeros((2, 1)), Y)
    assert g.truth.tolist() == [0, 1]
    decoded = g.layout.decode(g.truth)
    assert decoded == ["no", "yes"]
    assert [type(value) for value in decoded] == [str, str]


def test_several_labels():
    Y = [{"tags": [["u", "v"], ["v", "v"]], "kind": 2}, {"kind": 0, "tags": np.array([["v", "u"]])}]
    g = ground(Both, inputs(2, 1), Y)
    assert g.truth.tolist() == [0, 1, 1, 1, 2, 1, 0, 0]
    first, second = g.layout.decode(g.truth)
    np.testing.assert_array_equal(first["tags"], Y[0]["tags"])
    np.testing.assert_array_equal(second["tags"], Y[1]["tags"])
    assert (first["kind"], second["kind"]) == (2, 0)


@pytest.mark.parametrize("model", model_table.TEMPLATES, ids=lambda m: m.__name__)
def test_round_trip(model):
    X, Y, _, _ = model_table.make_data(model, 4, seed=0)
    g = ground(model, X, Y)
    for given, back in zip(Y, g.layout.decode(g.truth)):
        if isinstance(given, dict):
            assert given.keys() == back.keys()
            for name in given:
                np.testing.assert_array_equal(given[name], back[name])
        else:
            np.testing.assert_array_equal(given, back)
    np.testing.assert_array_equal(ground(model, X, g.layout.decode(g.truth)).truth, g.truth)


def test_ignored_letters():
    g = ground(Word, inputs(4, 1), ["c?ab", "?"])
    assert g.ignored.tolist() == [False, True, False, False, True]
    assert g.truth.tolist() == [0, 0, 1, 2, 0]
    # every factor that touches an ignored letter is gone: one emission and two transitions of the first word
    emit, trans = g.parameters.maps
    assert emit.scope[:, 0].tolist() == [0, 2, 3]
    assert trans.scope.tolist() == [[2, 3]]
    allowed = g.program.allowed.reshape(5, 3)
    assert allowed[1].tolist() == allowed[4].tolist() == [True, False, False]
    assert allowed[[0, 2, 3]].all()


def test_without_ignored_letters_nothing_is_masked():
    g = ground(Word, inputs(3), ["cab"])
    assert g.ignored is None
    assert g.program.allowed is None
