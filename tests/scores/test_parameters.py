"""theta = Phi w against explicit loops, the adjoint identity, and the compiled joint-feature kernels."""

from __future__ import annotations

import numpy as np
import pytest

import model_table
import naive
from ssvm_dsl.compiler import ground
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api import score_labels
from ssvm_dsl.scores import rows

MODELS = pytest.mark.parametrize("model", model_table.TEMPLATES, ids=lambda m: m.__name__)


def grounded(model, n=5, seed=0):
    X, Y, inputs, labels = model_table.make_data(model, n, seed)
    return ground(model, X, Y), inputs, labels


def flat_states(model, labels):
    return np.concatenate(
        [np.ravel(one[label.name]) for one in labels for label in model.declaration.labels]
    ).astype(np.int32)


@MODELS
def test_score_equals_w_phi_by_loops(model):
    if model is model_table.White:
        pytest.skip("whitening and hashing have their own tests")
    g, inputs, labels = grounded(model)
    g.program.validate()
    rng = np.random.default_rng(1)
    w = rng.normal(size=g.parameters.dim)
    blocks = naive.whole_blocks(g, w)
    expected = [naive.naive_score(model.declaration, blocks, x, y, g.fitted) for x, y in zip(inputs, labels)]
    states = flat_states(model, labels)
    np.testing.assert_array_equal(states, g.truth)
    scores = score_labels(g.program, g.parameters.scores(w), states)
    np.testing.assert_allclose(scores, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(g.parameters.dot(w, states), expected, rtol=1e-10, atol=1e-10)


@MODELS
def test_adjoint_identity(model):
    g, _, _ = grounded(model, seed=3)
    rng = np.random.default_rng(2)
    w, mu = rng.normal(size=g.parameters.dim), Theta.zeros(g.program)
    mu.node[:] = rng.normal(size=mu.node.size)
    mu.pool[:] = rng.normal(size=mu.pool.size)
    theta = g.parameters.scores(w)
    left = theta.node @ mu.node + theta.pool @ mu.pool
    assert left == pytest.approx(w @ g.parameters.adjoint(mu), rel=1e-10, abs=1e-10)


@MODELS
def test_few_factors_with_weights_of_their_own_score_like_many(model, monkeypatch):
    g, _, _ = grounded(model, seed=5)
    rng, ids = np.random.default_rng(6), np.array([3, 0, 4])
    w, mu = rng.normal(size=g.parameters.dim), Theta.zeros(g.program)
    mu.node[:] = rng.normal(size=mu.node.size) * rng.integers(0, 2, mu.node.size)
    mu.pool[:] = rng.normal(size=mu.pool.size) * rng.integers(0, 2, mu.pool.size)
    few = g.parameters.scores(w, ids), g.parameters.adjoint(mu, None, ids)
    monkeypatch.setattr(rows, "FEW", 0)
    many = g.parameters.scores(w, ids), g.parameters.adjoint(mu, None, ids)
    for one, other in zip((few[0].node, few[0].pool, few[1]), (many[0].node, many[0].pool, many[1])):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@MODELS
def test_accumulate_is_the_adjoint_of_indicators(model):
    g, _, _ = grounded(model, seed=4)
    rng = np.random.default_rng(5)
    labels = rng.integers(0, g.program.card).astype(np.int32)
    coef = rng.normal(size=g.n_examples)
    mu = indicators(g.program, labels, coef)
    out = g.parameters.accumulate(labels, coef, np.zeros(g.parameters.dim))
    np.testing.assert_allclose(out, g.parameters.adjoint(mu), rtol=1e-10, atol=1e-10)


def indicators(program: Program, labels, coef):
    mu = Theta.zeros(program)
    owner = np.repeat(np.arange(program.n_examples), np.diff(program.var_ptr))
    np.add.at(mu.node, program.state_ptr[:-1] + labels, coef[owner])
    for group, table in zip(program.groups, mu.tables):
        who = np.repeat(np.arange(program.n_examples), np.diff(group.ptr))
        np.add.at(table, (group.table, labels[group.scope] @ group.strides), coef[who])
    return mu


@MODELS
def test_selected_examples_get_the_same_scores(model):
    g, _, _ = grounded(model, n=6, seed=6)
    rng = np.random.default_rng(7)
    w = rng.normal(size=g.parameters.dim)
    whole = g.parameters.scores(w)
    labels = rng.integers(0, g.program.card).astype(np.int32)
    everything = score_labels(g.program, whole, labels)
    for ids in ([4, 1, 3], [2, 3, 4], [5]):
        examples = np.array(ids, dtype=np.int64)
        part = Theta.zeros(g.program)
        part.node[:] = np.nan
        g.parameters.scores(w, examples, out=part)
        packed = np.concatenate([labels[g.program.var_ptr[i] : g.program.var_ptr[i + 1]] for i in ids])
        np.testing.assert_allclose(score_labels(g.program, part, packed, examples), everything[ids], rtol=1e-12)


def test_ignored_variables_leave_no_trace():
    X, Y, inputs, _ = model_table.make_data(model_table.Seg, 4, 0)
    rng = np.random.default_rng(0)
    Y = [np.where(rng.random(np.shape(y)) < 0.3, 255, y) for y in Y]
    g = ground(model_table.Seg, X, Y)
    w = rng.normal(size=g.parameters.dim)
    blocks = {block.name: block.view(w) for block in g.program.blocks}
    flat = np.concatenate([np.ravel(y) for y in Y])
    np.testing.assert_array_equal(g.ignored, flat == 255)
    scores = g.parameters.dot(w, g.truth)
    expected = [seg_without_ignored(x, y, blocks) for x, y in zip(inputs, Y)]
    np.testing.assert_allclose(scores, expected, rtol=1e-10, atol=1e-10)
    assert not g.program.allowed[g.program.state_ptr[:-1][g.ignored] + 1].any()
    assert g.loss.value(g.program, np.where(g.ignored, 2, g.truth).astype(np.int32)).sum() == 0


def seg_without_ignored(x, y, blocks):
    """Seg's score over labelled pixels only, written out by hand."""
    x, total = x["x"], 0.0
    rows, cols = y.shape
    for h in range(rows):
        for w in range(cols):
            a = int(y[h, w])
            if a == 255:
                continue
            total += blocks["data"][a] @ x[h, w]
            if w + 1 < cols and (b := int(y[h, w + 1])) != 255:
                total += float(blocks["horiz"]) * (a == b) + blocks["net"][a, b]
                total += blocks["edge"][a, b, 0] * np.abs(x[h, w + 1] - x[h, w]).sum()
            if h + 1 < rows and (b := int(y[h + 1, w])) != 255:
                total += blocks["net"][a, b] + blocks["vert"][a, b] @ x[h + 1, w]
            if h + 1 < rows and w + 1 < cols and (b := int(y[h + 1, w + 1])) != 255:
                total += blocks["slant"][a, b] @ x[h + 1, w + 1]
    return total
