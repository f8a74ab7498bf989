"""Wrong data gets one error that names the input, the example, what was expected and what came."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from model_table import graph, tagger
from ssvm_dsl import (
    Attributes,
    Dim,
    Factor,
    Feature,
    Hamming,
    Hashed,
    Input,
    JointFeature,
    Label,
    Model,
    ZeroOne,
    chain,
    estimate,
    ground,
)
from ssvm_dsl.errors import DataError, ModelError

Word = tagger(3, "abc")


Graph = graph(2, 3, 2)


class Fixed(Model):
    K = Dim(3)
    x = Input(K, 2)
    y = Label(K, 2)
    unary = Factor(y, features=x)
    loss = Hamming(y)


class Single(Model):
    s = Input(4, sparse=True)
    y = Label(["no", "yes"])
    unary = Factor(y, features=s)
    loss = ZeroOne(y)


class Tokens(Model):
    T = Dim()
    t = Attributes(T)
    y = Label(T, 2)
    emit = Factor(y, features=t)


class HashedTokens(Model):
    T = Dim()
    t = Attributes(T)
    y = Label(T, 2)
    emit = Factor(y, features=Hashed(t, 8))


class Alone(Model):
    t = Attributes()
    y = Label(2)
    unary = Factor(y, features=t)


class Two(Model):
    T = Dim()
    x = Input(T, 2)
    a = Label(T, 2)
    b = Label("uv")
    fa = Factor(a, features=x)
    loss = Hamming(a) + Hamming(b)


zeros = np.zeros
GOOD = zeros((2, 3))

#: A dict in itself.
ENDLESS: dict = {}
ENDLESS["w"] = ENDLESS


def bad(value, row=0, column=0):
    array = zeros((2, 3))
    array[row, column] = value
    return array


def graph(e, x=(2, 2), f=(1, 2)):
    return {"x": zeros(x), "e": e, "f": zeros(f)}


#: model, X, what, example, expected, found
INPUTS = [
    (Word, [GOOD, zeros((2, 4))], "input 'x'", 1, "shape (T, 3)", "shape (2, 4)"),
    (Word, [GOOD, zeros(3)], "input 'x'", 1, "shape (T, 3)", "shape (3,)"),
    (Word, [GOOD, bad(np.nan, 1, 2)], "input 'x'", 1, "finite numbers", "nan at row 1, column 2"),
    (Word, [bad(-np.inf)], "input 'x'", 0, "finite numbers", "-inf at row 0, column 0"),
    (Word, [bad(np.inf), bad(-np.inf)], "input 'x'", 0, "finite numbers", "inf at row 0, column 0"),
    (Word, [GOOD, GOOD * 1j], "input 'x'", 1, "real numbers", "dtype complex128"),
    (Word, [[["1", "2", "3"]]], "input 'x'", 0, "real numbers", "dtype <U1"),
    (Word, [GOOD, [[1, 2, 3], [1, 2]]], "input 'x'", 1, "a rectangular array", "a list of 2"),
    (Word, [GOOD, np.array([[1, 2, None]])], "input 'x'", 1, "real numbers", "dtype object"),
    (Word, [GOOD, [[1, 2, None]]], "input 'x'", 1, "real numbers", "dtype object (NoneType None)"),
    (Word, [GOOD, [[1, 2, 10**400]]], "input 'x'", 1, "real numbers", "dtype object (int an int of 1329 bits)"),
    (Word, [GOOD, None], "input 'x'", 1, "an array of numbers", "None"),
    (Word, [], "X", None, "at least one example", "an empty list"),
    (Word, None, "X", None, "a list of examples", "NoneType"),
    (Word, 5, "X", None, "a list of examples", "int"),
    (Word, (a for a in [GOOD]), "X", None, "a list of examples", "generator"),
    (Word, {"x": [GOOD]}, "X", None, "a list of examples", "dict"),
    (Word, [{"x": GOOD}, GOOD], "X", 1, "a dict with the inputs x", "an array of shape (2, 3)"),
    (Word, [{"z": GOOD}], "X", 0, "a dict with the inputs x", "no x; unknown z"),
    (Fixed, [zeros((3, 2)), zeros((4, 2))], "input 'x'", 1, "size 3 along K (from the declaration)", "size 4"),
    (Graph, [zeros((2, 2))], "X", 0, "a dict with the inputs x, e, f", "an array of shape (2, 2)"),
    (Graph, [graph([[0, 1]]), {"x": zeros((2, 2)), "e": [[0, 1]]}], "X", 1, "a dict with the inputs x, e, f", "no f"),
    (Graph, [graph([[0, 1]]) | {"q": 1}], "X", 0, "a dict with the inputs x, e, f", "unknown q"),
    (Graph, [graph([[0, 1]]), graph([[0, 2]])], "input 'e'", 1, "positions in 0..1 (N=2)", "edge (0, 2) at row 0"),
    (Graph, [graph([[0, 1], [1, -1]], f=(2, 2))], "input 'e'", 0, "positions in 0..1", "edge (1, -1) at row 1"),
    (Graph, [graph([[1, 1]])], "input 'e'", 0, "two different positions", "edge (1, 1) at row 0"),
    (Graph, [graph([[0.0, 1.0]])], "input 'e'", 0, "ints of shape (M, 2)", "dtype float64"),
    (Graph, [graph([0, 1])], "input 'e'", 0, "ints of shape (M, 2)", "shape (2,)"),
    (Graph, [graph([[0, 1]], f=(3, 2))], "input 'e'", 0, "size 3 along M (from input 'f')", "size 1"),
    (Word, csr_array(np.eye(3)), "X", None, "a list of examples", "csr_array"),
    (Single, [csr_array(zeros((1, 3)))], "input 's'", 0, "a sparse matrix of shape (1, 4)", "a sparse array of shape"),
    (Single, [csr_array(np.eye(4))], "input 's'", 0, "a sparse matrix of shape (1, 4)", "array of shape (4, 4)"),
    (Single, [GOOD[:1, :1] * [0, 0, 0, 0], csr_array([[0, np.nan, 1, 0]])], "input 's'", 1, "finite", "nan at row 0"),
    (Single, [csr_array([[1j, 0, 0, 0]])], "input 's'", 0, "real numbers", "dtype complex128"),
    (Single, [["a", "b", "c", "d"]], "input 's'", 0, "real numbers", "dtype <U1"),
    (Tokens, [[{"w": 1}], None], "input 't'", 1, "for each position", "NoneType"),
    (Tokens, ["ab"], "input 't'", 0, "for each position", "'ab'"),
    (Tokens, [["w", "v"]], "input 't'", 0, "a dict {name: finite number} or a list of names", "'w' at position 0"),
    (Tokens, [[{"w": 1}, 3]], "input 't'", 0, "a dict {name: finite number}", "int 3 at position 1"),
    (Tokens, [[{"w": 1}], [{"w": b"1"}]], "input 't'", 1, "a dict {name: finite number}", "'w': b'1' at position 0"),
    (Tokens, [[{"w": np.nan}]], "input 't'", 0, "a dict {name: finite number}", "'w': nan at position 0"),
    (Tokens, [[{"w": None}]], "input 't'", 0, "a dict {name: finite number}", "'w': None at position 0"),
    (Tokens, [[{"w": {"v": None, "u": "x"}}]], "input 't'", 0, "a dict {name: finite number}", "'w:v': None at"),
    (Tokens, [[{"w": ["v", 3]}]], "input 't'", 0, "a dict {name: finite number}", "attribute name 3 at position 0"),
    (Tokens, [[ENDLESS]], "input 't'", 0, "a dict {name: finite number}", "nested more than 20 deep at position 0"),
    (Tokens, [[{1: 1.0}]], "input 't'", 0, "a dict {name: finite number}", "the name 1 at position 0"),
    (Tokens, [[["w", 3]]], "input 't'", 0, "a list of names", "the name 3 at position 0"),
    (HashedTokens, [[["w", 3]]], "input 't'", 0, "a list of names", "the name 3 at position 0"),
    (HashedTokens, [["w"]], "input 't'", 0, "a list of names", "'w' at position 0"),
    (Alone, [{"w": 1}, "w"], "input 't'", 1, "a dict {name: finite number} or a list of names", "'w'"),
]


@pytest.mark.parametrize(("model", "X", "what", "example", "expected", "found"), INPUTS)
def test_wrong_inputs(model, X, what, example, expected, found):
    with pytest.raises(DataError) as caught:
        ground(model, X)
    err = caught.value
    assert (err.what, err.example) == (what, example)
    assert expected in err.expected
    assert found in err.found
    for part in (err.what, err.expected, err.found):
        assert part in str(err)
    assert example is None or f"example {example}:" in str(err)


@pytest.mark.parametrize(("model", "X", "what", "example", "expected", "found"), [c for c in INPUTS if c[0] is Graph])
def test_estimate_checks_shapes_alike(model, X, what, example, expected, found):
    with pytest.raises(DataError) as caught:
        estimate(model, X)
    assert (caught.value.what, caught.value.example) == (what, example)


def test_a_bare_array_for_two_inputs_gets_a_hint():
    with pytest.raises(DataError, match=r"hint: the model has 3 inputs; pass \{'x': \.\.\., \.\.\.\}"):
        ground(Graph, [zeros((2, 2))])


PAIR = [GOOD, GOOD]

#: model, X, Y, what, example, expected, found
LABELS = [
    (Word, PAIR, ["ab"], "Y", None, "2 examples, as in X", "1"),
    (Word, PAIR, [], "Y", None, "at least one example", "an empty list"),
    (Word, PAIR, {"y": ["ab", "ab"]}, "Y", None, "a list of examples", "dict"),
    (Word, PAIR, ["ab", "az"], "label 'y'", 1, "one of the 3 classes 'a', 'b', 'c'", "'z' at position 1 of T"),
    (Word, PAIR, ["ab", "abc"], "label 'y'", 1, "shape (T=2)", "shape (3,)"),
    (Word, PAIR, ["ab", [["a", "b"]]], "label 'y'", 1, "shape (T=2)", "shape (1, 2)"),
    (Word, PAIR, ["ab", [0, 1]], "label 'y'", 1, "labels of one kind", "dtype int64"),
    (Word, PAIR, [[0, 1], [0, 1]], "label 'y'", 0, "one of the 3 classes", "0 at position 0 of T"),
    (Word, PAIR, ["ab", ["a", 1]], "label 'y'", 1, "labels of one kind", "a list of 2 of int and str"),
    (Word, PAIR, [None, ["z", None]], "label 'y'", 1, "one of the 3 classes 'a', 'b', 'c'", "'z' at position 0 of T"),
    (Word, PAIR, [{"z": "ab"}, {"z": "ab"}], "Y", 0, "a dict with the labels y", "a dict with z"),
    (Fixed, zeros((2, 3, 2)), [[0, 1, 1], [0, 2, 1]], "label 'y'", 1, "an int in 0..1", "2 at position 1 of K"),
    (Fixed, zeros((2, 3, 2)), [[0, 1, 1], [0, 1, -2]], "label 'y'", 1, "an int in 0..1", "-2 at position 2 of K"),
    (Fixed, zeros((1, 3, 2)), [[0.0, 0.5, 1.0]], "label 'y'", 0, "an int in 0..1", "0.5 at position 1 of K"),
    (Fixed, zeros((1, 3, 2)), ["011"], "label 'y'", 0, "an int in 0..1", "'0' at position 0 of K"),
    (Single, zeros((2, 4)), ["no", "maybe"], "label 'y'", 1, "one of the 2 classes 'no', 'yes'", "'maybe'"),
    (Single, zeros((2, 4)), ["no", ["yes"]], "label 'y'", 1, "a single class", "a list of 1"),
    (Single, zeros((2, 4)), ["no", 1], "label 'y'", 1, "labels of one kind", "int 1 after 'no'"),
    (Single, zeros((2, 4)), [None, None], "Y", None, "at least one label that is known", "none"),
    (Two, [zeros((2, 2))], [[0, 1]], "Y", 0, "a dict with the labels a, b", "a list of 2"),
    (Two, [zeros((2, 2))], [{"a": [0, 1]}], "Y", 0, "a dict with the labels a, b", "a dict with a"),
    (Two, [zeros((2, 2))] * 2, [{"a": [0, 1], "b": "u"}, {"a": [0, 1], "b": "w"}], "label 'b'", 1, "'u', 'v'", "'w'"),
]


@pytest.mark.parametrize(("model", "X", "Y", "what", "example", "expected", "found"), LABELS)
def test_wrong_labels(model, X, Y, what, example, expected, found):
    with pytest.raises(DataError) as caught:
        ground(model, X, Y)
    err = caught.value
    assert (err.what, err.example) == (what, example)
    assert expected in err.expected
    assert found in err.found


def test_many_classes_are_listed_short():
    class Many(Model):
        x = Input(1)
        y = Label([f"c{k}" for k in range(40)])
        f = Factor(y, features=x)

    with pytest.raises(DataError, match=r"one of the 40 classes 'c0', 'c1', 'c2', 'c3', \.\.\., 'c39', found 'x'"):
        ground(Many, [[0.0]], ["x"])


def test_positions_of_images_are_told_by_axis():
    class Image(Model):
        H, W = Dim(), Dim()
        x = Input(H, W)
        y = Label(H, W, 2)
        f = Factor(y, features=x)

    Y = [np.zeros((2, 3), int), np.array([[0, 0], [0, 0], [7, 0]])]
    with pytest.raises(DataError, match=r"label 'y', example 1: expected an int in 0..1, found 7 at .* 2 of H, 0 of W"):
        ground(Image, [np.zeros((2, 3)), np.zeros((3, 2))], Y)


# -- users' functions ----------------------------------------------------------------------------------------


def transposed(x):
    return x.T


def failing(x):
    if len(x) == 5:
        raise KeyError("no such letter")
    return x


def not_finite(x):
    return np.full((len(x), 2), np.inf if len(x) == 5 else 0.0)


def flat_table(x):
    return np.zeros((len(x) - 1, 9))


def with_feature(function) -> type[Model]:
    class Own(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, 3)
        own = Factor(y, features=Feature(function, T, width=2))

    return Own


X = [zeros((2, 2)), zeros((5, 2))]


def test_a_feature_of_the_wrong_shape():
    found = r"transposed, example 1: expected shape \(5, 2\), found shape \(2, 5\)"
    with pytest.raises(DataError, match=f"Feature .*:{found}"):
        ground(with_feature(transposed), X)


def test_a_feature_that_is_not_finite():
    with pytest.raises(DataError, match="not_finite, example 1: expected finite numbers, found inf at row 0, column 0"):
        ground(with_feature(not_finite), X)


def test_a_feature_function_that_fails_is_named_with_its_example():
    with pytest.raises(DataError, match=r"failing, example 1: .* found KeyError: 'no such letter'") as caught:
        ground(with_feature(failing), X)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_joint_feature_of_the_wrong_shape():
    class Joint(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, 3)
        own = Factor(chain(y), features=JointFeature(flat_table, width=4))

    found = r"flat_table, example 0: expected shape \(1, 3, 3, 4\), found shape \(1, 9\)"
    with pytest.raises(DataError, match=f"JointFeature .*{found}"):
        ground(Joint, X)


# -- models that cannot be laid over data ----------------------------------------------------------------------


def test_models_without_labels_inputs_or_factors():
    class NoLabel(Model):
        x = Input(2)

    class NoInput(Model):
        y = Label(2)

    class NoFactor(Model):
        x = Input(2)
        y = Label(2)
        loss = Hamming(y)

    with pytest.raises(ModelError, match=r"it has no Factor; nothing scores its labellings: add e.g. emit"):
        ground(NoFactor, [[0.0, 0.0]], [1])
    with pytest.raises(ModelError, match="it has no Label; there is nothing to predict"):
        ground(NoLabel, [[0.0, 0.0]])
    with pytest.raises(ModelError, match="it has no Input; examples would be empty"):
        ground(NoInput, [{}])


# -- what is allowed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "X",
    [
        zeros((3, 2, 3)),
        [[[0, 0, 0], [1, 1, 1]]] * 3,
        (GOOD, GOOD, GOOD),
        [{"x": GOOD}] * 3,
        [GOOD > 0] * 3,
        [GOOD.astype(np.uint8)] * 3,
        [np.full((2, 3), 1e308)] * 3,
    ],
    ids=["one array", "lists", "tuple", "dicts", "bools", "bytes", "sums beyond the largest float"],
)
def test_forms_of_inputs(X):
    assert ground(Word, X).n_examples == 3


def test_empty_examples_and_empty_edge_lists():
    assert ground(Word, [zeros((0, 3)), GOOD], ["", "ab"]).truth.tolist() == [0, 1]
    assert ground(Graph, [graph([], f=(0, 2))]).program.groups[0].n_factors == 0
