"""Positions that only features, scores and units read: which rows they are differs from example to example."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Given, Hamming, Input, Label, Model, Positions, StructuredSVM, instances


class Read(Model):
    N, K = Dim(), Dim(2)
    n = N.index()
    x = Input(N, 2)
    s = Input(N, 2)
    parent = Positions(N, over=N)
    kind = Positions(N, over=K)
    y = Label(N, 2)
    above = Factor(y[n], features=x[parent[n]])
    typed = Factor(y[n], features=x[n], per=kind[n])
    prior = Given(y[n], scores=s[parent[n]])
    loss = Hamming(y)


def test_rows_and_units_are_those_of_each_example():
    rng = np.random.default_rng(0)
    w = {"above": rng.normal(size=(2, 2)), "typed": rng.normal(size=(2, 2, 2))}
    X = [
        {"x": rng.normal(size=(3, 2)), "s": rng.normal(size=(3, 2)), "parent": parent, "kind": kind}
        for parent, kind in (([-1, 0, 1], [0, 1, 1]), ([-1, 0, 0], [0, 1, 1]), ([-1, 0, 1], [1, -1, 1]))
    ]
    for x, y in zip(X, StructuredSVM.from_weights(Read, w).predict(X), strict=True):
        expected = []
        for n, (parent, kind) in enumerate(zip(x["parent"], x["kind"], strict=True)):
            scores = w["typed"][kind] @ x["x"][n] if kind >= 0 else np.zeros(2)  # no such weights: 0
            if parent >= 0:
                scores = scores + w["above"] @ x["x"][parent] + x["s"][parent]
            expected.append(scores)
        assert y.tolist() == np.argmax(expected, axis=1).tolist()
        score = StructuredSVM.from_weights(Read, w).best_score([x])[0]
        assert score == pytest.approx(np.max(expected, axis=1).sum())


def test_patterns_that_read_different_inputs_differ():
    assert Read.above.target != Read.typed.target
    assert Model.from_json(Read.to_json()).declaration == Read.declaration


def test_a_factor_without_weights_is_listed_as_left_out():
    x = {"x": np.zeros((3, 2)), "s": np.zeros((3, 2)), "parent": [-1, 0, 1], "kind": [0, -1, -1]}
    found = instances(Read, "typed", x)
    assert found.variables == [("y[0]",)]
    assert {why: n for why, n in found.left_out.items() if n} == {"per= reads no position": 2}
