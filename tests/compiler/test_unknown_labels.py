"""What is not known is said, never guessed: ``None``, masked entries, and what ``Label(unknown=)`` names."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, ground
from ssvm_dsl.errors import DataError, ModelError


class Signed(Model):
    x = Input(2)
    y = Label(2)
    f = Factor(y, features=x)
    loss = Hamming(y)


class Marked(Model):
    T = Dim()
    x = Input(T, 1)
    y = Label(T, 3, unknown=-1)
    f = Factor(y, features=x)
    loss = Hamming(y)


class Letters(Model):
    T = Dim()
    x = Input(T, 1)
    y = Label(T, "ab", unknown="?")
    f = Factor(y, features=x)
    loss = Hamming(y)


class Heads(Model):
    T = Dim()
    x = Input(T, T, 1)
    y = Label(T, over=T, null=True, unknown=-2)
    f = Factor(y, features=x)
    loss = Hamming(y)


RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
SIGNS = np.where(X[:, 0] > 0, 1, -1)


def test_signed_labels_are_refused_with_the_cure():
    for Y in (SIGNS, SIGNS.astype(float), SIGNS.tolist(), [np.array(sign) for sign in SIGNS]):
        with pytest.raises(DataError) as caught:
            StructuredSVM(Signed).fit(X, Y)
        text = str(caught.value)
        first = int(np.flatnonzero(SIGNS < 0)[0])
        assert f"label 'y', example {first}: expected an int in 0..1, found -1" in text
        assert "np.where(y > 0, 1, 0)" in text
        assert "Label([-1, 1])" in text
        assert "Label(2, unknown=-1)" in text


def test_what_the_hint_proposes_works():
    class Named(Model):
        x = Input(2)
        y = Label([-1, 1])
        f = Factor(y, features=x)
        loss = Hamming(y)

    svm = StructuredSVM(Named, tol=1e-2).fit(X, SIGNS)
    zero_one = StructuredSVM(Signed, tol=1e-2).fit(X, np.where(SIGNS > 0, 1, 0))
    assert set(svm.predict(X)) == {-1, 1}
    assert svm.score(X, SIGNS) == zero_one.score(X, np.where(SIGNS > 0, 1, 0)) > 0.9


def test_evaluation_and_evidence_refuse_them_as_well():
    svm = StructuredSVM.from_weights(Signed, {"f": np.array([[-1.0, 0.0], [1.0, 0.0]])})
    for call in (lambda: svm.score(X, SIGNS), lambda: svm.predict(X, given=SIGNS), lambda: svm.complete(X, SIGNS)):
        with pytest.raises(DataError, match=r"np\.where"):
            call()


@pytest.mark.parametrize(
    "given",
    [
        [[0, None, 2], [None, None]],
        [[0, -1, 2], [-1, -1]],
        [np.array([0.0, -1.0, 2.0]), None],
        [np.ma.array([0, 1, 2], mask=[0, 1, 0]), np.array([-1, -1])],
        [np.ma.array([0, -1, 2], mask=[0, 0, 0]), np.ma.array([1, -1], mask=[1, 0])],
        [np.array([0, None, 2], dtype=object), np.array([-1, None], dtype=object)],
    ],
    ids=["None", "value", "floats", "masks", "masks and values", "objects"],
)
def test_all_ways_to_say_it(given):
    grounded = ground(Marked, [np.zeros((3, 1)), np.zeros((2, 1))], given)
    assert grounded.ignored.tolist() == [False, True, False, True, True]
    assert grounded.truth.tolist() == [0, 0, 2, 0, 0]


@pytest.mark.parametrize("given", ["a?b", list("a?b"), np.array(list("a?b")), ["a", None, "b"]], ids=repr)
def test_strings_have_a_marker_of_their_own(given):
    grounded = ground(Letters, [np.zeros((3, 1))], [given])
    assert grounded.ignored.tolist() == [False, True, False]
    assert grounded.truth.tolist() == [0, 0, 1]


def test_pointers_tell_nowhere_from_not_known():
    grounded = ground(Heads, [np.zeros((3, 3, 1))], [[-1, -2, 0]])
    truth, ignored = grounded.truth, grounded.ignored
    assert truth[:9].reshape(3, 3).argmax(axis=1).tolist()[2] == 0
    assert ignored[:9].reshape(3, 3).all(axis=1).tolist() == [False, True, False]
    assert ignored[9:].tolist() == [False, True, False]
    assert truth[9:].tolist()[0] == 1


@pytest.mark.parametrize(
    ("label", "text"),
    [
        (lambda T: Label(T, 3, unknown=2), "unknown is no class"),
        (lambda T: Label(T, [-1, 1], unknown=-1), "unknown is no class"),
        (lambda T: Label(T, "ab", unknown=-1), "unknown must be a string, as the classes are"),
        (lambda T: Label(T, 3, unknown="?"), "unknown must be an int, as the classes are"),
        (lambda T: Label(T, 3, unknown=True), "unknown must be an int"),
        (lambda T: Label(T, 3, segments=2, unknown=-1), r"\(start, end, None\) in Y"),
        (lambda T: Label(T, over=T, null=True, unknown=-1), "a negative int; -1 points nowhere"),
    ],
)
def test_mistakes(label, text):
    with pytest.raises(ModelError, match=text):

        class Wrong(Model):
            T = Dim()
            x = Input(T, 1)
            y = label(T)
            f = Factor(y.is_(None) if y.null else y)


def test_it_is_part_of_the_declaration():
    assert repr(Marked.y) == "Label(T, 3, unknown=-1)"
    assert "-1 is not known" in str(Marked)
    for model in (Marked, Letters, Heads):
        again = Model.from_json(model.to_json())
        assert again.declaration == model.declaration
        assert again.declaration.labels[0].unknown == model.declaration.labels[0].unknown


def caught_by(model, inputs, Y):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        StructuredSVM(model, max_passes=1, tol=1.0).fit(inputs, Y)
    return [one for one in found if "known label" in str(one.message)]


def test_training_warns_of_what_it_cannot_learn():
    rows = [np.ones((2, 1)), np.zeros((1, 1)), np.ones((3, 1))]
    assert not caught_by(Marked, rows, [[0, 1], [2], [-1, 0, -1]])
    found = caught_by(Marked, rows, [[0, 1], [-1], [-1, 0, -1]])
    assert [str(one.message) for one in found] == [
        "Y: 1 of 3 examples have no known label (1): they teach nothing",
        "label 'y': no known label in Y has class 2; the model can learn only that it is wrong",
    ]
    assert {one.filename for one in found} == {__file__}
    assert not caught_by(Marked, rows, [[0, 1], [1], [0, 0, 0]])  # small data often lack a class
    assert len(caught_by(Marked, rows, [[0, 0], [0], [0, 0, 0]])) == 1
    (many,) = caught_by(Marked, rows, [[0, 0], [0], [-1, 0, -1]])
    assert "2 of the 3 classes (1, 2); the model can learn only that they are wrong" in str(many.message)
