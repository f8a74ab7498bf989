"""Pointer labels of several axes: what each points to, permutations over one of the axes, rules at positions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ssvm_dsl import AllDifferent, Cost, Dim, Factor, Hamming, Implies, Input, Label, Model, StructuredSVM, ground
from ssvm_dsl.errors import DataError, ModelError


class Tracks(Model):
    """In each frame detections point to different tracks, or to none."""

    F, I, J = Dim(), Dim(), Dim()
    f, i, j = F.index(), I.index(), J.index()
    x = Input(F, I, J, 2)
    s = Input(J, J)
    h = Label(F, I, over=J, null=True)
    near = Factor(h, features=x)
    none = Factor(h.is_(None))
    one = AllDifferent(h[f, i], over=i)
    keep = Factor(Implies(h[f, i].is_(j), h[f + 1, i].is_(j)), features=s[j, j])
    loss = Hamming(h)


class Frames(Model):
    """Positions over frames, each points somewhere: only the frames of one position differ."""

    F, I, J = Dim(), Dim(2), Dim(3)
    f, i = F.index(), I.index()
    x = Input(F, I, J, 2)
    h = Label(F, I, over=J)
    near = Factor(h[f, i].is_(1), features=x[f, i, 1])
    every = Factor(h, features=x)
    apart = AllDifferent(h[f, i], over=f)
    loss = Cost(h, np.abs(np.subtract.outer(range(3), range(3))))


def labellings(shape, n, null):
    every = itertools.product(range(-1 if null else 0, n), repeat=shape[0] * shape[1])
    return (np.array(one).reshape(shape) for one in every)


def tracks(w, one, h):
    """The score of pointers, -inf where two of a frame are the same."""
    total = 0.0
    for f, row in enumerate(h):
        used = [v for v in row if v >= 0]
        if len(set(used)) < len(used):
            return -np.inf
        for i, v in enumerate(row):
            total += w["none"] if v < 0 else w["near"] @ one["x"][f, i, v]
            if f + 1 < len(h):
                for j in range(one["s"].shape[0]):
                    total += w["keep"] * one["s"][j, j] * (v != j or h[f + 1, i] == j)
    return total


def frames(w, x, h):
    total = 0.0
    for i in range(2):
        if len(set(h[:, i])) < len(h):
            return -np.inf
    for f, i in np.ndindex(h.shape):
        total += w["every"] @ x[f, i, h[f, i]] + (h[f, i] == 1) * (w["near"] @ x[f, i, 1])
    return total


def test_answers_are_those_of_all_labellings():
    rng = np.random.default_rng(0)
    for shape, n in [((2, 2), 2), ((1, 3), 2), ((2, 1), 3), ((0, 2), 2), ((2, 2), 1)]:
        w = {"near": rng.normal(size=2), "none": float(rng.normal()), "keep": float(rng.normal())}
        one = {"x": rng.normal(size=(*shape, n, 2)), "s": rng.normal(size=(n, n))}
        every = list(labellings(shape, n, True))
        scores = [tracks(w, one, h) for h in every]
        svm = StructuredSVM.from_weights(Tracks, {k: np.array([v]) if k == "keep" else v for k, v in w.items()})
        found = svm.predict([one])[0]
        assert found.shape == shape
        assert np.array_equal(found, every[int(np.argmax(scores))])
        assert svm.best_score([one])[0] == pytest.approx(max(scores))
    for n in (1, 2, 3):
        w = {"near": rng.normal(size=2), "every": rng.normal(size=2)}
        x = rng.normal(size=(n, 2, 3, 2))
        every = list(labellings((n, 2), 3, False))
        scores = [frames(w, x, h) for h in every]
        svm = StructuredSVM.from_weights(Frames, w)
        assert np.array_equal(svm.predict([x])[0], every[int(np.argmax(scores))])


def test_labels_are_read_written_learnt_and_named():
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(2, 2, 3, 2)) for _ in range(6)]
    w = {"every": [2.0, -1.0], "near": [0.0, 0.0]}
    Y = [max(labellings((2, 2), 3, False), key=lambda h, x=x: frames(w, x, h)) for x in X]
    svm = StructuredSVM(Frames, C=10.0, random_state=0, tol=1e-3).fit(X, Y)
    assert svm.score(X, Y) > 0.9
    hidden = np.ma.masked_array(Y[0], mask=[[True, False], [False, False]])
    StructuredSVM(Frames, random_state=0).fit(X, [hidden, [[None, 1], [2, 0]], *Y[2:]])
    assert any(one.places == ("h[1, 0] -> 2",) for one in svm.explain(X[0], [[0, 1], [2, 0]]).rows())
    grounded = ground(Frames, X[:1], [np.array([[0, 1], [2, 0]])])
    labels = grounded.layout.encode([np.array([[2, 1], [1, 0]])]).states
    assert grounded.loss.value(grounded.program, labels)[0] == 3.0
    assert svm.predict_marginals is not None
    again = Model.from_json(Tracks.to_json())
    assert str(again) == str(Tracks)
    assert "AllDifferent(h[f, i], over=i)" in str(Tracks)
    assert "Label(F, I, over=J, null=True)" in str(Tracks)


def test_mistakes():
    with pytest.raises(DataError, match=r"label 'h', example 0: expected shape \(F=2, I=2\), found shape \(2,\)"):
        ground(Frames, [np.zeros((2, 2, 3, 2))], [[0, 1]])
    with pytest.raises(DataError, match=r"found 3 at position 1 of F, 0 of I"):
        ground(Frames, [np.zeros((2, 2, 3, 2))], [[[0, 1], [3, 1]]])
    with pytest.raises(DataError, match=r"\(at I = 1\)"):
        StructuredSVM(Frames).fit([np.zeros((2, 2, 3, 2))], [[[0, 1], [2, 1]]])

    def text(make):
        F, I, J = Dim(), Dim(), Dim()
        f, i, k = F.index(), I.index(), I.index()
        space = {"F": F, "I": I, "J": J, "f": f, "i": i, "k": k, "x": Input(F, I, J), "h": Label(F, I, over=J)}
        space["own"] = Factor(space["h"], features=space["x"])
        with pytest.raises(ModelError) as caught:
            type("Wrong", (Model,), space | {"wrong": make(space["h"], f, i, k)})
        return str(caught.value)

    assert "say over which: AllDifferent(h[i, j], over=j)" in text(lambda h, f, i, k: AllDifferent(h))
    assert "over= is an index of h[f, i]" in text(lambda h, f, i, k: AllDifferent(h[f, i], over=k))
    assert "a different index for each axis" in text(lambda h, f, i, k: AllDifferent(h[f, 0], over=f))
    assert "over= is for a pointer at positions" in text(lambda h, f, i, k: AllDifferent(h, over=i))
