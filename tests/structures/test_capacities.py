"""Matchings whose rows and columns have limits of their own: what they compile to, answers, training, messages."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Matching, Model, StructuredSVM, ground
from ssvm_dsl.errors import DataError, InfeasibleError, ModelError


class Reviews(Model):
    I, J = Dim(), Dim()
    x = Input(I, J, 2)
    needed, capacity = Input(I), Input(J)
    y = Label(I, J, 2)
    fit = Factor(y.is_(1), features=x)
    one = Matching(y.is_(1), rows=I, cols=J, row_limit=2, row_least=needed, col_limit=capacity)
    loss = Hamming(y)


def drawn(rng, n):
    out = []
    while len(out) < n:
        i, j = rng.integers(1, 4), rng.integers(1, 4)
        needed, capacity = rng.integers(0, 2, i), rng.integers(0, 3, j)
        if (needed <= (capacity > 0).sum()).all() and needed.sum() <= np.minimum(capacity, i).sum():
            out.append({"x": rng.normal(size=(i, j, 2)), "needed": needed, "capacity": capacity})
    return out


def best(one, scores):
    """The score of the best of all tables that keep the limits."""
    tables = (np.reshape(bits, scores.shape) for bits in itertools.product([0, 1], repeat=scores.size))
    kept = [(scores * y).sum() for y in tables if (y.sum(0) <= one["capacity"]).all() and (y.sum(1) <= 2).all()
            and (y.sum(1) >= one["needed"]).all()]  # fmt: skip
    return max(kept) if kept else None


def test_it_compiles_to_limits_of_literals_and_comes_back_from_json():
    X = [{"x": np.zeros((2, 2, 2)), "needed": [0, 1], "capacity": [3, 0]}]
    (group,) = ground(Reviews, X).program.constraints
    assert group.kind == "transport"
    names = ("row", "col", "row_least", "row_most", "col_least", "col_most")
    assert [group.literal_meta[name].tolist() for name in names] == [
        [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 1, 1], [2, 2, 2, 2], [0, 0, 0, 0], [3, 0, 3, 0]
    ]  # fmt: skip
    assert Model.from_json(Reviews.to_json()).declaration == Reviews.declaration
    assert repr(Reviews.one) == (
        "Matching(y.is_(1), rows=I, cols=J, row_limit=2, row_least=needed, col_limit=capacity)"
    )


def test_numbers_stay_numbers_of_the_constraint():
    class Fixed(Reviews):
        one = Matching(Reviews.y.is_(1), rows=Reviews.I, cols=Reviews.J, row_limit=3, row_least=1, col_limit=None)

    (group,) = ground(Fixed, [{"x": np.zeros((2, 2, 2)), "needed": [0, 1], "capacity": [3, 0]}]).program.constraints
    assert group.kind == "matching"
    assert group.meta["row_least"].tolist() == [1]
    assert Model.from_json(Fixed.to_json()).declaration == Fixed.declaration


@pytest.mark.parametrize("backend", ["assignment", "ilp"])
def test_answers_are_best(backend):
    X = drawn(np.random.default_rng(0), 12)
    svm = StructuredSVM.from_weights(Reviews, {"fit": [1.0, -0.5]}, backend=backend)
    for one, y in zip(X, svm.predict(X)):
        scores = one["x"] @ [1.0, -0.5]
        assert (scores * y).sum() == pytest.approx(best(one, scores))


def test_training_is_that_of_brute_force():
    rng = np.random.default_rng(1)
    X = drawn(rng, 10)
    Y = StructuredSVM.from_weights(Reviews, {"fit": [2.0, -1.0]}).predict(X)
    fits = [StructuredSVM(Reviews, C=10.0, tol=1e-4, backend=name).fit(X, Y) for name in ("assignment", "brute-force")]
    assert fits[0].report_.primal == pytest.approx(fits[1].report_.primal, rel=1e-3)
    assert fits[0].score(X, Y) == 1.0


def test_known_links_and_the_k_best():
    one = {"x": np.array([[[1.0, 0], [0.5, 0]], [[0.2, 0], [-1.0, 0]]]), "needed": [0, 1], "capacity": [1, 2]}
    svm = StructuredSVM.from_weights(Reviews, {"fit": [1.0, 0.0]})
    assert svm.predict([one])[0].tolist() == [[0, 1], [1, 0]]
    given = np.ma.masked_array(np.zeros((2, 2), int), [[True, True], [False, True]])
    assert svm.complete([one], [given])[0].tolist() == [[1, 1], [0, 1]]
    assert [score for _, score in svm.predict_kbest([one], 3)[0]] == pytest.approx([0.7, 0.5, 0.2])


def test_supply_below_demand_is_said_by_name():
    svm = StructuredSVM.from_weights(Reviews, {"fit": [1.0, 0.0]})
    with pytest.raises(InfeasibleError, match="'one': the rows need 3 in all, the columns take 2 at most"):
        svm.predict([{"x": np.zeros((3, 2, 2)), "needed": [1, 1, 1], "capacity": [1, 1]}])
    with pytest.raises(InfeasibleError, match="row 0 needs 2, only 1 may be true"):
        svm.predict([{"x": np.zeros((2, 1, 2)), "needed": [2, 0], "capacity": [9]}])
    empty = {"x": np.zeros((2, 0, 2)), "needed": [0, 1], "capacity": []}
    with pytest.raises(InfeasibleError, match=r"example 1 .* row_least of up to 1, and J is 0"):
        svm.predict([{**empty, "needed": [0, 0]}, empty])


def test_labels_that_break_a_limit_are_refused_by_name():
    X = [*drawn(np.random.default_rng(0), 2), {"x": np.zeros((2, 2, 2)), "needed": [0, 0], "capacity": [1, 2]}]
    Y = [*StructuredSVM.from_weights(Reviews, {"fit": [1.0, 0.0]}).predict(X[:2]), np.ones((2, 2), dtype=int)]
    with pytest.raises(DataError, match=r"Y, example 2: .* column 0 has 2 \(rows 0, 1\), at most 1"):
        StructuredSVM(Reviews).fit(X, Y)
    X[0]["capacity"] = np.full(len(X[0]["capacity"]), 0.5)
    with pytest.raises(DataError, match="input 'capacity', example 0: expected a whole number"):
        StructuredSVM(Reviews).fit(X, Y)


def test_mistakes():
    with pytest.raises(ModelError) as caught:

        class Bad(Model):
            I, J = Dim(), Dim()
            c, wide = Input(J), Input(J, 2)
            y = Label(I, J, 2)
            a = Matching(y.is_(1), rows=I, cols=J, row_limit=c)
            b = Matching(y.is_(1), rows=I, cols=J, col_limit=wide)
            d = Matching(y.is_(1), rows=I, cols=J, row_least=2)
            e = Matching(y.is_(1), rows=I, cols=J, row_least=-1)
            f = Matching(y.is_(1), rows=I, cols=J, perfect=True, col_least=1)

    text = str(caught.value)
    assert "Matching: row_limit is Input(1), or an input with one number for each of the rows, got c" in text
    assert "Matching: col_limit is Input(1), or an input with one number for each of the columns, got wide" in text
    assert "Matching: row_least is at most row_limit, got 2 and 1" in text
    assert "Matching: row_least must be a whole number of at least 0, an Input, got -1" in text
    assert "Matching: perfect says how often rows and columns are matched, not col_least" in text
