"""Labels and inputs of one plain type are read at once; what comes of it is what reading each of them gives."""

import numpy as np
import pytest

import ssvm_dsl.compiler.labels.segments as segments
from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM
from ssvm_dsl.errors import DataError
from ssvm_dsl.models.classifier import distinct


class Divided(Model):
    T = Dim()
    x = Input(T, 1)
    y = Label(T, ["A", "B", "C"], segments=7)
    own = Factor(y, features=x)
    loss = Hamming(y)


def test_classes_of_positions_are_the_segments_that_their_runs_are():
    rng, label = np.random.default_rng(0), Divided.declaration.outputs[0]
    for _ in range(100):
        sizes = rng.integers(0, 7, rng.integers(1, 6))
        given = [[str(name) for name in rng.choice(list("ABC"), size)] for size in sizes]
        runs = [segments.read_segments(label, [one], np.array([len(one)])) for one in given]
        one_by_one = [list(segments._divided(label, one, 0, len(one))) for one in given]
        whole = segments.read_segments(label, given, sizes)
        explicit = segments.read_segments(label, one_by_one, sizes)
        for at_once, each, said in zip(whole, zip(*runs, strict=True), explicit, strict=True):
            np.testing.assert_array_equal(at_once, np.concatenate(each))
            np.testing.assert_array_equal(at_once, said)


@pytest.mark.parametrize(("wrong", "found"), [(["A"] * 8, "of 8"), (["A", "D"], "'D'"), (["A", "A"], "2 entries")])
def test_a_wrong_sequence_of_classes_is_named(wrong, found):
    X = [np.zeros((3, 1)), np.zeros((len(wrong) + (found == "2 entries"), 1))]
    with pytest.raises(DataError, match=found) as caught:
        StructuredSVM(Divided).fit(X, [["A", "B", "B"], wrong])
    assert caught.value.example == 1


def test_one_of_each_kind_of_rows():
    rng = np.random.default_rng(0)
    for trial in range(200):
        n, width = rng.integers(1, 30), rng.integers(1, 3)
        X = rng.integers(-1, 2, (n, width)) * rng.choice([1.0, 0.3, 1e300])
        Y = rng.choice(["a", "b", "cc"], n) if trial % 2 else rng.integers(-1, 2, n)
        weight = rng.integers(0, 3, n) * 0.5
        places = {}
        for i, key in enumerate(zip((row.tobytes() for row in X), Y.tolist(), strict=True)):
            if weight[i] > 0:
                places.setdefault(key, []).append(i)
        found = distinct(X, Y, weight)
        assert found.first.tolist() == [places[key][0] for key in sorted(places)]
        np.testing.assert_allclose(found.total, [weight[places[key]].sum() for key in sorted(places)])


def test_a_matrix_gives_what_its_rows_give():
    class Row(Model):
        x = Input(3)
        y = Label(2)
        own = Factor(y, features=x)
        loss = Hamming(y)

    rng = np.random.default_rng(0)
    X, y = rng.integers(-9, 9, (20, 3)), rng.integers(0, 2, 20)
    whole, rows = StructuredSVM(Row, C=0.1).fit(X, y), StructuredSVM(Row, C=0.1).fit(list(X), list(y))
    np.testing.assert_array_equal(whole.coef_, rows.coef_)
    assert whole.predict(X) == rows.predict(list(X))
    with pytest.raises(DataError, match="nan"):
        whole.predict(np.where(np.arange(20)[:, None] == 4, np.nan, X))
