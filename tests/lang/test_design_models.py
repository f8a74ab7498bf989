"""The models printed in the design compile from exactly the lines printed there, and score as the loops say."""

from __future__ import annotations

import numpy as np
import pytest

import model_table
import naive
from ssvm_dsl import (
    POTTS,
    Dim,
    Edges,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    along,
    chain,
    cliques,
    complete,
    ground,
    pairs,
)
from ssvm_dsl.plugin_api import score_labels


class OCR(Model):                       # a word: T letter images -> T letters
    T     = Dim()                       # ragged: differs from example to example
    x     = Input(T, 128)               # 128 features at each position
    y     = Label(T, "abcdefghijklmnopqrstuvwxyz")
    emit  = Factor(y, features=x)       # one weight per (letter, feature):  w[26, 128]
    trans = Factor(chain(y))            # one weight per letter bigram:      w[26, 26]
    loss  = Hamming(y)


class Seg(Model):                                   # image segmentation on a grid
    H, W  = Dim(), Dim()
    x     = Input(H, W, 12)
    y     = Label(H, W, 21)
    data  = Factor(y, features=x)
    horiz = Factor(pairs(y, W), form=POTTS, nonneg=True)   # associative
    vert  = Factor(pairs(y, H), form=POTTS, nonneg=True)
    loss  = Hamming(y, ignore=255)


class Scene(Model):                                 # multi-label, fully connected label graph
    K     = Dim(6)
    x     = Input(294)
    y     = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    pair  = Factor(complete(y), per="edge")
    loss  = Hamming(y)


class SceneWithTriple(Scene):                       # the same with a triple factor
    triple = Factor(cliques(Scene.y, [(0, 1, 2)]), per="edge")


class Graph(Model):                                 # any graph, edge features
    N, M = Dim(), Dim()
    x    = Input(N, 64)
    e    = Edges(M, over=N)
    f    = Input(M, 5)
    y    = Label(N, 4)
    node = Factor(y, features=x)
    edge = Factor(along(y, e), features=f)
    loss = Hamming(y)


N_WEIGHTS = {
    OCR: 26 * 128 + 26 * 26,
    Seg: 21 * 12 + 1 + 1,
    Scene: 6 * 2 * 294 + 15 * 4,
    SceneWithTriple: 6 * 2 * 294 + 15 * 4 + 8,
    Graph: 4 * 64 + 4 * 4 * 5,
}


@pytest.mark.parametrize("model", N_WEIGHTS, ids=lambda m: m.__name__)
def test_design_model_grounds_and_scores(model):
    X, Y, inputs, labels = model_table.make_data(model, 4, seed=0, ragged=(1, 2, 3))
    g = ground(model, X, Y)
    g.program.validate()
    assert g.parameters.dim == model.declaration.n_weights() == N_WEIGHTS[model]
    w = np.random.default_rng(1).normal(size=g.parameters.dim)
    blocks = {block.name: block.view(w) for block in g.program.blocks}
    expected = [naive.naive_score(model.declaration, blocks, x, y, {}) for x, y in zip(inputs, labels)]
    np.testing.assert_allclose(score_labels(g.program, g.parameters.scores(w), g.truth), expected, rtol=1e-10)
    np.testing.assert_array_equal(g.loss.value(g.program, g.truth), 0)


def test_lower_bounds_are_those_declared():
    X, Y, _, _ = model_table.make_data(Seg, 2, seed=0)
    blocks = {block.name: block for block in ground(Seg, X, Y).program.blocks}
    assert [blocks[name].lower_bound for name in ("data", "horiz", "vert")] == [-np.inf, 0.0, 0.0]


def test_a_subclass_keeps_its_parent_as_it_was():
    assert [factor.name for factor in Scene.declaration.factors] == ["unary", "pair"]
    assert [factor.name for factor in SceneWithTriple.declaration.factors] == ["unary", "pair", "triple"]
    assert SceneWithTriple.y is Scene.y
