"""What a user writes, as a type checker sees it: not run, only checked (see test_typing.py)."""

from typing import assert_type

import numpy as np

from ssvm_dsl import (
    POTTS,
    Attributes,
    CountLoss,
    Dim,
    Edges,
    Factor,
    Feature,
    Form,
    Hamming,
    Input,
    Label,
    Model,
    ModelBuilder,
    PLiF,
    Quantiles,
    along,
    chain,
    estimate,
    ground,
    pairs,
)
from ssvm_dsl.datasets import Letters, Split, load_letters


class OCR(Model):
    T = Dim()
    x = Input(T, 128)
    y = Label(T, "abcdefghijklmnopqrstuvwxyz")
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


class Seg(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 12)
    y = Label(H, W, 21)
    data = Factor(y, features=[x, PLiF(x, Quantiles(8))])
    horiz = Factor(pairs(y, W), form=POTTS, nonneg=True)
    own = Factor(pairs(y, W), form=np.ones((2, 21, 21)))
    loss = Hamming(y, ignore=255) + 0.5 * Hamming(y, normalize=True) + CountLoss(y, "iou", positive=[1, 2])


class Graph(Model):
    N, M = Dim(), Dim(6)
    e = Edges(M, over=N)
    t = Attributes(N)
    y = Label(N, ["noun", "verb"])
    node = Factor(y, features=t)
    one = Factor(y.is_("noun"))
    edge = Factor(along(y, e), per=M)


def width(x: np.ndarray) -> np.ndarray:
    return x[:, :2]


class Longer(OCR):
    own = Factor(OCR.y, features=Feature(width, OCR.T, width=2))


assert_type(OCR.T, Dim)
assert_type(OCR.x, Input)
assert_type(OCR.y, Label)
assert_type(OCR.trans, Factor)
assert_type(OCR.loss, Hamming)
assert_type(Longer.trans, Factor)
assert_type(OCR.trans.form, Form)
assert_type(OCR.to_json(), str)
assert_type(Model.from_json(OCR.to_json(), trusted=["package.module"]), type[Model])

builder = ModelBuilder("Built")
axis = builder.dim("T")
label = builder.label("y", axis, 3)
assert_type(builder.factor("emit", label, features=builder.input("x", axis, 2)), Factor)
assert_type(builder.add("loss", Hamming(label)), Hamming)
assert_type(builder.build(), type[Model])

assert_type(load_letters(), Letters)
assert_type(load_letters(fold=3, train="rest"), Split)
X, Y, X_test, Y_test = load_letters(fold=1)
assert_type(ground(OCR, X, Y).n_examples, int)
assert_type(estimate(OCR, X).total_bytes, int)
