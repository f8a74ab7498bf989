"""Labels of a stream with a fixed lag, beside those of whole sequences and of their beginnings."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ssvm_dsl import (
    BIO,
    AtMost,
    Attributes,
    Dim,
    Duration,
    Factor,
    Feature,
    Forbid,
    Given,
    Hamming,
    Input,
    Label,
    Model,
    SpanLength,
    StructuredSVM,
    chain,
    pairs,
    spans,
    starts,
)
from ssvm_dsl.errors import DataError, InfeasibleError, OptionError
from ssvm_dsl.models import ChainTagger, SegmentTagger


class Tags(Model):
    T = Dim()
    x = Input(T, 2)
    bonus = Input(T, 3)
    y = Label(T, ["O", "B-x", "I-x"])
    emit = Factor(y, features=x)
    trans = Factor(chain(y), features=x)
    given = Given(y, scores=bonus)
    first, last = Factor(y.at(0)), Factor(y.at(-1))
    legal = Forbid(chain(y), BIO(y))
    begin = Forbid(y.at(0), BIO(y))
    loss = Hamming(y)


class Second(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, "ab")
    emit = Factor(y, features=x)
    trans = Factor(chain(y, order=2))
    near = Factor(pairs(y, T))
    loss = Hamming(y)


class Segments(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, "ab", segments=4)
    each = Factor(y, features=x)
    first = Factor(starts(y), features=x)
    length = Factor(spans(y), features=SpanLength(spans(y)))
    trans = Factor(chain(y), features=x)
    near = Factor(pairs(y, T))
    loss = Hamming(y)


class Lasting(Segments):
    lasting = Duration(spans(Segments.y), least=2, most={"a": 3})


class Cut(Segments):
    lasting = Duration(spans(Segments.y), least=3, cut=True)


def drawn(model, seed=0, n=9):
    rng = np.random.default_rng(seed)
    names = {one.name: one for one in model.declaration.factors}
    svm = StructuredSVM.from_weights(model, {
        name: rng.normal(size=one.weight_shape(1 if one.features is None else one.features.width))
        for name, one in names.items()
    })  # fmt: skip
    x = rng.normal(size=(n, 2))
    if model is not Tags:
        return svm, x, list(x)
    example = {"x": x, "bonus": rng.normal(size=(n, 3))}
    return svm, example, [{"x": a, "bonus": b} for a, b in zip(example["x"], example["bonus"])]


def segments_of(found):
    """Return segments (start, end, class) of pairs (class, whether one begins)."""
    at = [t for t, (_, begins) in enumerate(found) if begins]
    return [(start, end, found[start][0]) for start, end in zip(at, [*at[1:], len(found)])]


def beginning(example, n):
    return {name: value[:n] for name, value in example.items()} if isinstance(example, dict) else example[:n]


@pytest.mark.parametrize("model", [Tags, Second])
def test_a_lag_as_long_as_the_stream_gives_the_labels_of_predict(model):
    svm, example, rows = drawn(model)
    for lag in (len(rows), len(rows) + 3):
        assert list(svm.predict_online(rows, lag)) == svm.predict([example])[0].tolist()
    found = list(svm.predict_online(rows, 20, proba=True))
    np.testing.assert_allclose([p for _, p in found], svm.predict_marginals([example])[0], atol=1e-9)


@pytest.mark.parametrize("model", [Segments, Lasting, Cut])
@pytest.mark.parametrize("seed", range(3))
def test_segments_of_a_lag_as_long_as_the_stream_are_those_of_predict(model, seed):
    svm, example, rows = drawn(model, seed)
    assert segments_of(list(svm.predict_online(rows, len(rows)))) == svm.predict([example])[0]
    found = list(svm.predict_online(rows, 20, proba=True))
    np.testing.assert_allclose([p for _, p in found], svm.predict_marginals([example])[0], atol=1e-9)


@pytest.mark.parametrize("lag", [0, 1, 3])
@pytest.mark.parametrize("model", [Second, Segments])
def test_probabilities_are_those_given_the_rows_so_far(model, lag):
    svm, example, rows = drawn(model)
    for t, (_, probabilities) in enumerate(svm.predict_online(rows, lag, proba=True)):
        expected = svm.predict_marginals([beginning(example, t + lag + 1)])[0][t]
        np.testing.assert_allclose(probabilities, expected, atol=1e-9)


@pytest.mark.parametrize("lag", [0, 2])
def test_labels_are_the_best_that_agree_with_those_that_are_out(lag):
    svm, example, rows = drawn(Second, 1)
    out = []
    for t, label in enumerate(svm.predict_online(rows, lag)):
        part = beginning(example, t + lag + 1)
        known = [*out, *[None] * (len(part) - t)]
        assert label == svm.predict([part], given=[known])[0][t]
        out.append(label)
    assert len(out) == len(rows)


@pytest.mark.parametrize("lag", [0, 1, 2, 5])
def test_rules_and_durations_hold_with_any_lag(lag):
    for seed in range(3):
        svm, _, rows = drawn(Tags, seed)
        labels = list(svm.predict_online(rows, lag))
        assert all(b != "I-x" or a != "O" for a, b in zip(["O", *labels], labels))
        svm, _, rows = drawn(Lasting, seed)
        found = segments_of(list(svm.predict_online(rows, lag)))
        assert all(end - start >= 2 or end == len(rows) for start, end, _ in found)
        assert all(end - start <= (3 if name == "a" else 4) for start, end, name in found)


def test_rows_are_pushed_one_by_one_and_streams_follow_each_other():
    svm, example, rows = drawn(Second)
    labels = svm.online(lag=4)
    for _ in range(2):
        found = [labels.push(row) for row in rows]
        assert found[:4] == [None] * 4
        assert [*found[4:], *labels.finish()] == list(svm.predict_online(example, 4))
    assert labels.finish() == []


def test_ready_models_take_rows_of_all_forms():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(12, 2)) for _ in range(5)]
    Y = [np.where(x[:, 0] > 0, "p", "n") for x in X]
    tagger = ChainTagger(C=10.0).fit(X, Y)
    assert list(tagger.predict_online(X[0], lag=12)) == tagger.predict(X[:1])[0].tolist()
    sparse = ChainTagger(C=10.0).fit([sp.csr_matrix(x) for x in X], Y)
    rows = [sp.csr_matrix(row[None]) for row in X[0]]
    assert list(sparse.predict_online(rows, lag=12)) == sparse.predict([sp.csr_matrix(X[0])])[0].tolist()
    words = [[{"w": "a", "n": 1.0}, ["b", "c"], {"w": "d"}]] * 3
    named = ChainTagger(C=10.0, bio=True).fit(words, [["O", "B-x", "I-x"]] * 3)
    assert list(named.predict_online(words[0], lag=1)) == ["O", "B-x", "I-x"]
    segments = SegmentTagger(C=10.0, shortest=2).fit(X, [["a"] * 4 + ["b"] * 8] * 5)
    assert segments_of(list(segments.predict_online(X[0], lag=12))) == segments.predict(X[:1])[0]


def whole(x):
    return x - x.mean(axis=0)


def test_models_that_look_further_are_refused_by_name():
    class Far(Second):
        budget = AtMost(3, Second.y.is_("a"))

    class Function(Second):
        centred = Factor(Second.y, features=Feature(whole, Second.T, width=2))

    class Mean(Segments):
        custom = Factor(spans(Segments.y), features=[SpanLength(spans(Segments.y)), SpanLength(spans(Segments.y))])

    class Middle(Second):
        at = Factor(Second.y.at(2))

    for model, text in ((Far, "constraint 'budget'"), (Function, "feature .*whole"), (Middle, "'at' looks further")):
        svm = drawn(model)[0]
        with pytest.raises(OptionError, match=text):
            svm.predict_online([])
    with pytest.raises(OptionError, match="custom"):
        list(drawn(Mean)[0].predict_online(np.zeros((3, 2))))
    with pytest.raises(OptionError, match="lag is a number of rows"):
        drawn(Second)[0].predict_online([], lag=-1)


def test_rows_that_are_none_are_refused_and_do_not_count():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, 2)) for _ in range(3)]
    labels = ChainTagger().fit(X, [np.where(x[:, 0] > 0, "p", "n") for x in X]).online(lag=0)
    labels.push(X[0][0])
    for row in ({"a": 1.0}, np.zeros(3)):
        with pytest.raises(DataError, match="expected"):
            labels.push(row)
    assert labels.push(X[0][1]) is not None
    assert labels.n_rows == 2
    words = ChainTagger().fit([["the", "cat"]] * 3, [["D", "N"]] * 3)
    with pytest.raises(OptionError, match="features of words look at the neighbours"):
        words.predict_online(["the", "cat"])


def test_a_dead_end_is_an_error_that_names_the_position():
    class Ends(Second):
        none_after = Forbid(chain(Second.y), [("a", "a"), ("a", "b")])
        near, trans = None, None

    svm = StructuredSVM.from_weights(Ends, {"emit": [[1.0, 0], [0, 0]]})
    with pytest.raises(InfeasibleError, match="position 1"):
        list(svm.predict_online(np.ones((3, 2)), lag=0))


def test_named_attributes_of_several_inputs():
    class Both(Model):
        T = Dim()
        x = Input(T, 1)
        a = Attributes(T)
        y = Label(T, "ab")
        emit, named = Factor(y, features=x), Factor(y, features=a)
        trans = Factor(chain(y))
        loss = Hamming(y)

    X = [{"x": np.arange(4.0)[:, None] - 1.5, "a": [["u"], ["v"], ["u"], ["w"]]}] * 2
    svm = StructuredSVM(Both).fit(X, ["abab"] * 2)
    rows = [{"x": x, "a": a} for x, a in zip(X[0]["x"], X[0]["a"])]
    assert list(svm.predict_online(rows, lag=4)) == svm.predict(X[:1])[0].tolist()
