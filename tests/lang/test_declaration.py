"""Declarations are immutable plain data: extended by subclassing, made by a builder too, safe to copy and send."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import model_table
from ssvm_dsl import (
    POTTS,
    Dim,
    Factor,
    Feature,
    Hamming,
    Input,
    Label,
    Model,
    ModelBuilder,
    ZeroOne,
    chain,
    cross,
    ground,
)
from ssvm_dsl.errors import ModelError


class Word(Model):
    T = Dim()
    x = Input(T, 4)
    y = Label(T, "abc")
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


class Stricter(Word):
    loss = ZeroOne(Word.y)


class Longer(Stricter):
    bias = Factor(Word.y)


# -- immutability --------------------------------------------------------------------------------------------


def test_symbols_and_models_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Word.emit.nonneg = True
    with pytest.raises(FrozenInstanceError):
        Word.declaration.name = "Other"
    changes = {"loss": ZeroOne(Word.y), "extra": Factor(Word.y), "declaration": None, "pattern": chain(Word.y), "T": 5}
    for name, value in changes.items():
        with pytest.raises(AttributeError, match="Word is immutable; make a subclass"):
            setattr(Word, name, value)
    with pytest.raises(AttributeError, match="immutable"):
        del Word.loss
    assert [symbol.name for symbol in Word.declaration.symbols] == ["T", "x", "y", "emit", "trans", "loss"]


def test_models_are_not_instantiated():
    with pytest.raises(TypeError, match="Word is a declaration and cannot be called"):
        Word()


# -- subclassing ---------------------------------------------------------------------------------------------


def test_a_subclass_replaces_the_loss():
    assert isinstance(Stricter.declaration.loss, ZeroOne)
    assert isinstance(Word.declaration.loss, Hamming)
    assert Stricter.declaration.factors == Word.declaration.factors
    assert Stricter.declaration != Word.declaration


def test_a_grandchild_inherits_what_its_parent_replaced():
    assert isinstance(Longer.declaration.loss, ZeroOne)
    assert [factor.name for factor in Longer.declaration.factors] == ["emit", "trans", "bias"]


def test_two_parents_of_one_family():
    class Left(Word):
        z = Input(2)
        emit = Factor(Word.y, features=z)

    class Right(Word):
        far = Factor(chain(Word.y, order=2), form=POTTS)

    class Both(Left, Right):
        pass

    assert {factor.name for factor in Both.declaration.factors} == {"emit", "trans", "far"}
    assert Both.declaration.find("emit") is Left.emit
    assert Model.from_json(Both.to_json()).declaration == Both.declaration  # references come after what they name


def test_replacing_what_others_use_is_a_mistake():
    with pytest.raises(ModelError, match=r"emit: the label 'y' is the one declared at .*; declare emit with"):

        class Broken(Word):
            y = Label(Word.T, 5)


# -- builder -------------------------------------------------------------------------------------------------


def built(name: str) -> type[Model]:
    m = ModelBuilder(name)
    T = m.dim("T")
    x = m.input("x", T, 4)
    y = m.label("y", T, "abc")
    m.factor("emit", y, features=x)
    m.factor("trans", chain(y))
    m.loss(Hamming(y))
    return m.build()


def test_the_builder_makes_an_equal_model():
    made = built("Word")
    assert made.declaration == Word.declaration
    assert hash(made.declaration) == hash(Word.declaration)
    assert str(made) == str(Word)
    assert made.emit == Word.emit
    assert built("Other").declaration != Word.declaration


def test_models_made_in_a_loop():
    m = ModelBuilder("Deep")
    T = m.dim("T")
    x = m.input("x", T, 2)
    layers = [m.label(f"y{k}", T, 2) for k in range(4)]
    m.factor("emit", layers[0], features=x)
    for k in range(3):
        m.factor(f"up{k}", cross(layers[k], layers[k + 1]))
    model = m.build()
    assert ground(model, [np.zeros((5, 2))]).program.n_variables == 20
    assert model.declaration.n_weights() == 4 + 3 * 4


# -- equality of what has no name yet --------------------------------------------------------------------------


def test_axes_without_names_are_kept_apart():
    class Table(Model):
        I, J = Dim(), Dim()
        x = Input(I, J, 1)
        a, b = Label(I, 2), Label(J, 3)
        ab = Factor(cross(a, b), features=x)

    g = ground(Table, [np.zeros((2, 3, 1))])
    np.testing.assert_array_equal(g.program.groups[0].scope, [[i, 2 + j] for i in range(2) for j in range(3)])


def test_equal_sizes_are_different_axes():
    class Table(Model):
        K, L = Dim(2), Dim(2)
        x = Input(1)
        a, b = Label(K, 2), Label(L, 3)
        ab = Factor(cross(a, b), per=[K, L])

    assert Table.ab.unit_shape == (2, 2)
    assert ground(Table, np.zeros((1, 1))).parameters.maps[0].unit.tolist() == [0, 1, 2, 3]


def test_functions_that_share_a_path_are_kept_apart():
    def times(k):
        return lambda x: k * x.sum(axis=1)

    class Two(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, 2)
        once = Factor(y, features=Feature(times(1), T, width=1))
        twice = Factor(y, features=Feature(times(2), T, width=1))

    once, twice = ground(Two, [np.ones((3, 2))]).parameters.maps
    np.testing.assert_array_equal(once.features, [[2.0]] * 3)
    np.testing.assert_array_equal(twice.features, [[4.0]] * 3)


# -- numpy's numbers are numbers -----------------------------------------------------------------------------


def test_numpy_sizes_and_class_names():
    names = np.array(["n", "v"])

    class Model_(Model):
        K = Dim(np.int64(4))
        x = Input(K, np.int32(3))
        y = Label(K, names)
        z = Label(K, np.arange(5).max() + 1)
        one = Factor(y.is_(names[1]), features=x)
        loss = Hamming(z, ignore=np.uint8(255))

    assert (Model_.K.size, Model_.x.shape, Model_.y.classes, Model_.z.n_states) == (4, (3,), ("n", "v"), 5)
    assert Model.from_json(Model_.to_json()).declaration == Model_.declaration


# -- copying and sending -------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", model_table.TEMPLATES, ids=lambda m: m.__name__)
def test_models_are_pickled_by_name(model):
    assert pickle.loads(pickle.dumps(model)) is model
    assert copy.deepcopy(model) is model
    assert pickle.loads(pickle.dumps(model.declaration)) == model.declaration
    assert copy.deepcopy(model.declaration) == model.declaration


def test_models_without_an_importable_name_are_pickled_by_declaration():
    for model in (built("Word"), Model.from_json(Word.to_json())):
        again = pickle.loads(pickle.dumps(model))
        assert again is not model
        assert again.declaration == model.declaration


SCRIPT = """
from joblib import Parallel, delayed
from ssvm_dsl import Dim, Factor, Feature, Input, Label, Model, chain

class Script(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, "ab")

    def first_two(x):
        return x[:, :2]

    own = Factor(y, features=Feature(first_two, T, width=2))
    agree = Factor(chain(y))

def read(model):
    return str(model), model.T is model.declaration.dims[0], model.own.features.ref.function.__name__

if __name__ == "__main__":
    for there in Parallel(n_jobs=2)([delayed(read)(Script) for _ in range(5)]):  # some processes get several
        assert there == (str(Script), True, "first_two"), there
"""


def test_joblib_sends_a_model_of_a_script_to_another_process(tmp_path):
    """Classes of ``__main__`` travel by value: their attributes are set one by one on an empty class."""
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
