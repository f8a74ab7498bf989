"""Inputs of shapes that were read before are still refused for what is wrong with them."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM
from ssvm_dsl.errors import DataError


class Pairs(Model):
    T = Dim()
    x = Input(T, 2)
    z = Input(3)
    y = Label(T, 2)
    own = Factor(y, features=x)
    all = Factor(y, features=z)
    loss = Hamming(y)


@pytest.fixture
def svm():
    rng = np.random.default_rng(0)
    return StructuredSVM.from_weights(Pairs, {"own": rng.normal(size=(2, 2)), "all": rng.normal(size=(2, 3))})


def example(n=4):
    rng = np.random.default_rng(n)
    return {"x": rng.normal(size=(n, 2)), "z": rng.normal(size=3)}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"x": np.full((4, 2), np.nan)}, "x"), ({"x": np.ones((4, 3))}, "x"), ({"z": np.ones((4, 2))}, "z"),
        ({"x": np.ones((4, 2), dtype=complex)}, "x"), ({"x": np.full((4, 2), "a")}, "x"), ({"z": None}, "z"),
        ({"more": np.ones(1)}, "more"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_all_the_same(svm, wrong, told):
    svm.predict([example()])
    with pytest.raises(DataError, match=told):
        svm.predict([example() | wrong])
    with pytest.raises(DataError):
        svm.predict([{"x": example()["x"]}])


def test_arrays_of_other_kinds_of_numbers_are_met_apart(svm):
    whole = {"x": np.arange(8).reshape(4, 2), "z": np.arange(3)}
    floats = {name: array.astype(float) for name, array in whole.items()}
    for _ in range(2):
        assert (svm.predict([whole])[0] == svm.predict([floats])[0]).all()
