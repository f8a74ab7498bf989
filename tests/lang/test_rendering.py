"""``print(model)`` and the notebook's HTML show the model as it was written, with the shapes of its weights."""

from __future__ import annotations

import numpy as np
import pytest
from test_design_models import OCR, Scene, Seg

import model_table
from ssvm_dsl import (
    ANTISYMMETRIC,
    POTTS,
    SYMMETRIC,
    Dim,
    Factor,
    Feature,
    Input,
    JointFeature,
    Label,
    Model,
    ground,
)
from ssvm_dsl.lang.outputs.targets import chain, cliques, complete, cross, grid, pairs
from ssvm_dsl.learning.estimators.weights import Weights

OCR_TEXT = """\
OCR(Model)
  T     = Dim()                                   ragged
  x     = Input(T, 128)
  y     = Label(T, 'abcdefghijklmnopqrstuvwxyz')  26 states
  emit  = Factor(y, features=x)                   w[26, 128]
  trans = Factor(chain(y))                        w[26, 26]
  loss  = Hamming(y)
  weights: 4004 in all"""


def test_print():
    assert str(OCR) == OCR_TEXT


def test_html():
    html = OCR._repr_html_()
    assert html.count("<tr>") == 7  # the names of columns, and a row for each symbol
    assert "<caption>OCR · weights: 4004 in all</caption>" in html
    assert "<td>trans</td><td>Factor(chain(y))</td><td>w[26, 26]" in html


def test_html_is_escaped():
    class Odd(Model):
        y = Label(["<b>", "&"])
        x = Input(2)
        f = Factor(y, features=x)

    assert "&lt;b&gt;" in Odd._repr_html_()
    assert "<b>'" not in Odd._repr_html_()


def test_options_are_shown_as_written():
    assert "horiz = Factor(pairs(y, W), form=POTTS, nonneg=True)  w (one number)" in str(Seg)
    assert "loss  = Hamming(y, ignore=255)" in str(Seg)
    assert "pair  = Factor(complete(y), per='edge')  w[15, 2, 2]" in str(Scene)


def test_learnt_widths():
    text = str(model_table.Tokens)
    assert "w[3, ?]" in text
    assert text.endswith("weights: known after fitting")


def double(x):
    return 2 * x


H, W, K = Dim(), Dim(), Dim(4)
x, v = Input(H, W, 7), Input(5)
y, z, one = Label(H, W, 3), Label(K, "ab"), Label(2)


@pytest.mark.parametrize(
    ("factor", "shape"),
    [
        (Factor(y), (3,)),
        (Factor(y, features=x), (3, 7)),
        (Factor(y.is_(1), features=x), (7,)),
        (Factor(y.is_(1)), ()),
        (Factor(pairs(y, W)), (3, 3)),
        (Factor(pairs(y, W), form=POTTS), ()),
        (Factor(pairs(y, W), features=x, form=POTTS), (7,)),
        (Factor(grid(y), form=SYMMETRIC), (6,)),
        (Factor(grid(y), form=ANTISYMMETRIC, features=v), (3, 5)),
        (Factor(grid(y), form=np.ones((4, 3, 3))), (4,)),
        (Factor(chain(z, order=2)), (2, 2, 2)),
        (Factor(z, per=K, features=v), (4, 2, 5)),
        (Factor(complete(z), per="edge"), (6, 2, 2)),
        (Factor(complete(z), per="edge", form=POTTS, features=v), (6, 5)),
        (Factor(cliques(z, [(0, 1, 2), (1, 2, 3)]), per="edge"), (2, 2, 2, 2)),
        (Factor(cross(z, one), per=K), (4, 2, 2)),
        (Factor(chain(z), features=JointFeature(double, width=9)), (9,)),
        (Factor(y, features=[x, Feature(double, H, W, width=2)]), (3, 9)),
    ],
    ids=repr,
)
def test_weight_shapes(factor, shape):
    width = None if factor.features is None else factor.features.width
    assert factor.weight_shape(width) == shape
    assert factor.weight_text == (f"w[{', '.join(map(str, shape))}]" if shape else "w (one number)")


@pytest.mark.parametrize("model", model_table.TEMPLATES, ids=lambda m: m.__name__)
def test_shapes_shown_are_those_of_the_weights(model):
    X, Y, _, _ = model_table.make_data(model, 3, seed=0)
    g = ground(model, X, Y)
    weights = Weights(np.zeros(g.parameters.dim), g.program.blocks, model.declaration, g.fitted)
    for name in weights:
        factor = model.declaration.find(name)
        width = None if factor.features is None else factor.features.width
        shown, shape = factor.weight_shape(width), weights[name].shape
        assert len(shown) == len(shape)
        assert all(a in (b, None) for a, b in zip(shown, shape))
    if model.declaration.n_weights() is not None:
        assert model.declaration.n_weights() == g.parameters.dim
