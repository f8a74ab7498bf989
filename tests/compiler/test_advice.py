"""Messages about habits: dates, text, one sentence in place of a list, states of segments, features of pairs."""

import numpy as np
import pytest

from ssvm_dsl import (
    Attributes,
    Dim,
    Factor,
    Feature,
    Forbid,
    Hamming,
    Input,
    Label,
    Model,
    StructuredSVM,
    chain,
    ground,
    pairs,
    spans,
)
from ssvm_dsl.errors import DataError, ModelError


class Pixels(Model):
    H, W = Dim(), Dim()
    x = Input(H, W)
    y = Label(H, W, 2)
    emit = Factor(y, features=x)
    loss = Hamming(y)


class Words(Model):
    T = Dim()
    x = Attributes(T)
    y = Label(T, ["D", "N"])
    emit = Factor(y, features=x)
    loss = Hamming(y)


class Segments(Model):
    T = Dim()
    x = Input(T, 1)
    y = Label(T, ["sit", "run"], segments=3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (np.array([["2024-01-01"]], dtype="M8[D]"), r"dates \(datetime64\[D\]\)\n.*np.timedelta64\(1, 'D'\)"),
        (np.array([[3]], dtype="m8[s]"), r"spans of time \(timedelta64\[s\]\)\n.*: \(x\) / "),
        (np.array([["a"]], dtype=object), r"the text 'a' \(dtype object\)\n.*text is no number"),
        (np.array([["a"]]), r"the text 'a' \(dtype <U1\)\n.*text is no number"),
    ],
)
def test_what_is_no_number(values, text):
    with pytest.raises(DataError, match=text):
        ground(Pixels, [values])


def test_one_sentence_is_a_list():
    with pytest.raises(DataError, match=r"unknown \+1pos\n.*for one of them pass a list: \[x\]"):
        ground(Words, [{"+1pos": 1.0}, {"+1pos": 2.0}])


def test_states_that_are_none_are_explained():
    with pytest.raises(ModelError, match=r"\['sit', 1\]; the states are the classes 'sit', 'run'.*Duration\(spans"):

        class Short(Segments):
            no = Forbid(spans(Segments.y), [["sit", 1]])

    with pytest.raises(ModelError, match="each is a tuple of 2 of the classes 'D', 'N'"):

        class Follow(Words):
            no = Forbid(chain(Words.y), ["D"])


def differences(x):
    return np.stack([x[:, 1:] - x[:, :-1], x[:, 1:] * x[:, :-1]], axis=-1)


def flat(x):
    return differences(x).reshape(-1, 2)


def below(x):
    return x[1:] - x[:-1]


def wrong(x):
    return np.zeros((4, 5, 2))


def of_pairs(function, axis, width=2):
    goal = pairs(Pixels.y, axis)
    edge = Factor(goal, features=Feature(function, goal, width=width))
    return type(Pixels)("Edges", (Pixels,), {"edge": edge})


def test_features_of_pairs_may_lie_as_the_pairs_do():
    x = [np.random.default_rng(0).normal(size=(4, 5))]
    y = [(x[0] > 0).astype(int)]
    one, other = (StructuredSVM(of_pairs(f, Pixels.W)).fit(x, y) for f in (differences, flat))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    StructuredSVM(of_pairs(below, Pixels.H, 1)).fit(x, y)
    with pytest.raises(DataError, match=r"shape \(16, 2\) or \(4, 4, 2\), found shape \(4, 5, 2\)"):
        ground(of_pairs(wrong, Pixels.W), x)
