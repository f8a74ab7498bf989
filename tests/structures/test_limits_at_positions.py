"""Matchings at positions whose limits come with the data, or depend on rows, columns and the other indices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Matching, Model, StructuredSVM, ground
from ssvm_dsl.errors import DataError, InfeasibleError, ModelError


class Shifts(Model):
    """A limit of each day, of each column on each day, and least numbers of rows."""

    D, I, J = Dim(), Dim(), Dim()
    d, i, j = D.index(), I.index(), J.index()
    x = Input(D, I, J)
    most = Input(D)
    needed = Input(D, J)
    able = Input(I, J)
    y = Label(D, I, J, 2)
    fit = Factor(y[d, i, j].is_(1), features=x[d, i, j])
    plan = Matching(
        y[d, i, j].is_(1), rows=i, cols=j, row_limit=most[d], col_least=needed[d, j], col_limit=None, where=able[i, j]
    )
    loss = Hamming(y)


class Plain(Model):
    """Limits of matchings, not of rows: one number for each of them, and one of the example."""

    D, I, J = Dim(), Dim(), Dim()
    d, i, j = D.index(), I.index(), J.index()
    x = Input(D, I, J)
    most = Input(D)
    every = Input()
    y = Label(D, I, J, 2)
    fit = Factor(y[d, i, j].is_(1), features=x[d, i, j])
    plan = Matching(y[d, i, j].is_(1), rows=i, cols=j, row_limit=most[d], col_limit=every)
    loss = Hamming(y)


def legal(one, y, model):
    able = one.get("able", np.ones(y.shape[1:])) == 1
    for d in range(len(y)):
        table = y[d] * able if model is Shifts else y[d]
        if (table.sum(axis=1) > one["most"][d]).any():
            return False
        if model is Shifts and (table.sum(axis=0) < one["needed"][d]).any():
            return False
        if model is Plain and (table.sum(axis=0) > one["every"]).any():
            return False
    return True


def labellings(shape):
    return (np.array(states).reshape(shape) for states in itertools.product((0, 1), repeat=int(np.prod(shape))))


@pytest.mark.parametrize("model", [Shifts, Plain])
def test_answers_are_those_of_all_labellings(model):
    rng, found = np.random.default_rng(0), 0
    svm = StructuredSVM.from_weights(model, {"fit": [1.0]})
    for n in range(14):
        shape = [(1, 2, 2), (2, 2, 2), (2, 1, 3), (1, 3, 2), (1, 0, 2), (1, 2, 0), (0, 2, 2)][n % 7]
        one = {"x": rng.normal(size=shape), "most": rng.integers(0, 3, shape[0])}
        if model is Shifts:
            one |= {"needed": rng.integers(0, 2, (shape[0], shape[2])), "able": (rng.random(shape[1:]) < 0.8) * 1}
        else:
            one |= {"every": float(rng.integers(0, 3))}
        every = [y for y in labellings(shape) if legal(one, y, model)]
        if not every:
            with pytest.raises(InfeasibleError):
                svm.predict([one])
            continue
        assert svm.best_score([one])[0] == pytest.approx(max(float((y * one["x"]).sum()) for y in every))
        assert legal(one, svm.predict([one])[0], model)
        found += 1
    assert found > 6
    again = Model.from_json(model.to_json())
    assert str(again) == str(model)
    assert "row_limit=most[d]" in str(model)


def test_truth_that_breaks_a_limit_is_named():
    one = {"x": np.zeros((2, 2, 2)), "most": [2, 1], "needed": np.zeros((2, 2)), "able": np.ones((2, 2))}
    labels = np.zeros((2, 2, 2), dtype=int)
    labels[1, 0] = 1
    with pytest.raises(DataError, match=r"plan = Matching\(.*at d = 1\)"):
        StructuredSVM(Shifts).fit([one], [labels])
    with pytest.raises(DataError, match="input 'most', example 0: expected a whole number of at least 0"):
        ground(Shifts, [one | {"most": [0.5, 1]}])
    with pytest.raises(InfeasibleError, match="rule 'plan' is false at d = 0"):
        ground(Shifts, [one | {"able": np.array([[0, 1], [0, 1]]), "needed": np.array([[1, 0], [0, 0]])}])


def test_mistakes():
    def text(make):
        D, I, J = Dim(), Dim(), Dim()
        d, i, j = D.index(), I.index(), J.index()
        space = {"D": D, "I": I, "J": J, "d": d, "i": i, "j": j, "x": Input(D, I, J), "y": Label(D, I, J, 2)}
        space |= {"k": D.index(), "a": Input(I), "c": Input(J), "two": Input(D, 2)}
        space["own"] = Factor(space["y"], features=space["x"])
        with pytest.raises(ModelError) as caught:
            type("Wrong", (Model,), space | {"wrong": make(**space)})
        return str(caught.value)

    def match(y, d, i, j, **options):
        return Matching(y[d, i, j].is_(1), rows=i, cols=j, **options)

    def of(limit):
        return text(lambda y, d, i, j, **more: match(y, d, i, j, **limit(i=i, j=j, d=d, **more)))

    assert "limits of rows have no index of columns" in of(lambda c, j, **_: {"row_limit": c[j]})
    assert "or an input at positions, got two[d]" in of(lambda two, d, **_: {"row_limit": two[d]})
    assert "or an input at positions, got -1" in of(lambda **_: {"row_limit": -1})
    assert "limits have indices of the literal, got k" in of(lambda two, k, **_: {"row_limit": two[k, 0]})
