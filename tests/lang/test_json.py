"""A declaration goes to JSON and back unchanged; files run no code unless trusted, and bad ones are refused cleanly."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest

import model_table
from ssvm_dsl import (
    Cost,
    CountLoss,
    Dim,
    Factor,
    Feature,
    Grammar,
    Hamming,
    Input,
    Label,
    Model,
    ModelBuilder,
    NoLoss,
    ZeroOne,
    ground,
    leaves,
)
from ssvm_dsl.errors import FileFormatError, ModelError, OptionError


@pytest.mark.parametrize("model", model_table.TEMPLATES, ids=lambda m: m.__name__)
def test_round_trip(model):
    text = model.to_json()
    again = Model.from_json(text, trusted=["model_table"])
    assert again.declaration == model.declaration
    assert hash(again.declaration) == hash(model.declaration)
    assert again.to_json() == text
    assert str(again) == str(model)


def test_round_trip_grounds_to_the_same_numbers():
    X, Y, _, _ = model_table.make_data(model_table.Rich, 3, seed=0)
    copy = Model.from_json(model_table.Rich.to_json(), trusted=True)
    first, again = (ground(model, X, Y) for model in (model_table.Rich, copy))
    w = np.random.default_rng(0).normal(size=first.parameters.dim)
    np.testing.assert_array_equal(first.parameters.dot(w, first.truth), again.parameters.dot(w, again.truth))


class Base(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, ["a", "b"])
    z = Label(4)
    emit = Factor(y, features=x)


@pytest.mark.parametrize(
    "loss",
    [
        Hamming(Base.y, normalize=True, weights=[1, 2], ignore="?"),
        Hamming(Base.z, ignore=255),
        Cost(Base.y, [[0, 2], [1, 0]], normalize=True),
        CountLoss(Base.y),
        CountLoss(Base.y, "iou", positive="a", ignore="?"),
        CountLoss(Base.z, "f_beta", positive=[0, 3], beta=0.5) + 2 * Hamming(Base.z),
        ZeroOne(Base.y, Base.z),
        2 * ZeroOne(Base.y, Base.z),
        NoLoss(),
        Hamming(Base.y) + 0.5 * Hamming(Base.z),
    ],
    ids=repr,
)
def test_losses_round_trip(loss):
    model = type(Base)("Lossy", (Base,), {"loss": loss})
    assert Model.from_json(model.to_json()).declaration == model.declaration


@pytest.mark.parametrize("grammar", [None, Grammar([("S", ("t", "t"))], "S", tags="t")], ids=["plain", "trees"])
def test_features_of_each_variable_round_trip(grammar):
    builder = ModelBuilder("EachWord")
    T = builder.add("T", Dim())
    builder.add("x", Input(T, 2))
    y = builder.add("y", Label(T, "ab") if grammar is None else Label(T, grammar=grammar))
    for name, target in (("bare", y), ("written", Factor(y).target if grammar is None else leaves(y))):
        builder.add(name, Factor(y, features=Feature(model_table.square, target, width=2)))
    model = builder.build()
    again = Model.from_json(model.to_json(), trusted=["model_table"])
    assert again.declaration == model.declaration
    assert repr(again.declaration) == repr(model.declaration)


# -- functions -----------------------------------------------------------------------------------------------


def test_functions_are_loaded_only_when_trusted():
    text = model_table.Rich.to_json()
    with pytest.raises(OptionError, match=r"calls the function model_table:square.*trusted=\['model_table:square'\]"):
        Model.from_json(text)
    with pytest.raises(OptionError, match="model_table:joint_chain"):
        Model.from_json(text, trusted=["model_table:square"])
    paths = ["model_table:square", "model_table:joint_chain"]
    assert Model.from_json(text, trusted=paths).declaration == model_table.Rich.declaration


def test_an_untrusted_module_is_not_even_imported(tmp_path, monkeypatch):
    (tmp_path / "hostile.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(tmp_path)
    text = model_table.Rich.to_json().replace("model_table:square", "hostile:square")
    with pytest.raises(OptionError, match="hostile:square"):
        Model.from_json(text, trusted=["model_table"])


def test_a_trusted_function_that_is_not_there():
    text = model_table.Rich.to_json().replace("model_table:square", "model_table:circle")
    with pytest.raises(OptionError, match="model_table:circle cannot be imported"):
        Model.from_json(text, trusted=True)


class Bound:
    def method(self, x):
        return x

    def __call__(self, x):
        return x


def local(x):
    return x


@pytest.mark.parametrize(
    "function",
    [lambda x: x, functools.partial(model_table.square), Bound().method, Bound()],
    ids=["lambda", "partial", "bound method", "callable object"],
)
def test_functions_without_an_import_path_cannot_be_written(function):
    feature = Feature(function, Base.T, width=2)
    model = type(Base)("Inline", (Base,), {"own": Factor(Base.y, features=feature)})
    with pytest.raises(ModelError, match="cannot be written to a file; define it at the top level of a module"):
        model.to_json()


def test_a_measure_without_an_import_path_cannot_be_written():
    model = type(Base)("Inline", (Base,), {"loss": 2 * CountLoss(Base.y, lambda tp, fp, fn, tn: fp + fn)})
    with pytest.raises(ModelError, match="cannot be written to a file; define it at the top level of a module"):
        model.to_json()


# -- bad files -----------------------------------------------------------------------------------------------

GOOD = json.loads(Base.to_json())


def changed(**changes) -> str:
    return json.dumps({**GOOD, **changes})


def with_symbol(**symbol) -> str:
    return changed(symbols=[*GOOD["symbols"], {"name": "extra", **symbol}])


def with_form(form, values, shape) -> str:
    options = {"form": {"form": form, "values": values, "shape": shape}}
    return with_symbol(make="Factor", args=[{"ref": "y"}], options=options)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "3",
        "{}",
        "[" * 100_000,
        changed(format="something else"),
        changed(version=99),
        changed(symbols=None),
        changed(symbols=[{"name": "T"}]),
        changed(symbols=[3]),
        changed(symbols=[{"name": 5, "make": "Dim", "args": []}]),
        with_symbol(make="eval", args=["1"]),
        with_symbol(make="__import__", args=["os"]),
        with_symbol(make=["Dim"], args=[]),
        with_symbol(make="Dim", args=[], options={"nonsense": 1}),
        with_symbol(make="Factor", args=[{"ref": "nobody"}]),
        with_symbol(make="Factor", args=[{"make": "chain", "args": []}]),
        with_symbol(make="chain", args=[{"ref": "y"}]),
        with_form("basis", ["x"], [1]),
        with_form("basis", [1.0], 3),
    ],
)
def test_malformed_files_are_refused(text):
    with pytest.raises(FileFormatError):
        Model.from_json(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (with_symbol(make="Dim", args=["x"]), "the size must be a positive int"),
        (with_symbol(make="Hamming", args=[{"ref": "y"}], options={"weights": "ab"}), "2 non-negative numbers"),
        (with_form("basis", [1.0], [2, 2]), "or a finite array of shape"),
        (with_form("odd", [], []), "is not a form"),
    ],
)
def test_well_formed_files_with_mistakes_get_the_models_own_errors(text, word):
    with pytest.raises(ModelError, match=word):
        Model.from_json(text)
