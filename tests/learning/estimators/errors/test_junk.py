"""Junk in every place of an estimator's calls ends in an error of ours that says where, or in an answer."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM
from ssvm_dsl.errors import DataError, OptionError, SsvmError


class Row(Model):
    x = Input(3)
    y = Label(2)
    f = Factor(y, features=x)
    loss = Hamming(y)


class Word(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, ["a", "b"], unknown="?")
    f = Factor(y, features=x)
    loss = Hamming(y)


JUNK = [
    None, 0, -1, 1.5, np.nan, np.inf, 10**30, 1j, True, np.bool_(1), "a", "ab", b"x", [], {}, (), set(), object(), int,
    range(3), iter([1]), [[]], [None], {"x": 1}, {"y": 0}, lambda: 0, np.zeros(0), np.zeros((2, 2, 2)), np.array(None),
    np.array("x"), np.array([1j]), np.ma.masked, np.ma.array([1, 2, 3], mask=[1, 0, 0]), ["a", "?"], [-1, -1, -1],
    [7, 7, 7], [(0, 1)], [(0, 1, "a")], np.datetime64("2020-01-01"), Dim(), Row,
]  # fmt: skip

WEIGHTS = {"f": np.arange(6.0).reshape(2, 3)}
DATA = {
    Row: (list(np.eye(3)), [0, 1, 0]),
    Word: ([np.eye(3)[:2], np.eye(3), np.ones((1, 3))], ["ab", "a?b", "b"]),
}


def calls(svm, X, Y, junk):
    """Every call of an estimator with junk in one place; the name of what it is in, if that is an example."""
    yield "x", lambda: svm.predict([X[0], junk, X[2]])
    yield "x", lambda: svm.predict([X[0], {"x": junk}, X[2]])
    yield "y", lambda: svm.score(X, [Y[0], junk, Y[2]])
    yield "y", lambda: svm.predict(X, given=[Y[0], junk, Y[2]])
    yield "y", lambda: svm.fit(X, [Y[0], junk, Y[2]])
    yield "", lambda: svm.predict(junk)
    yield "", lambda: svm.score(X, junk)
    yield "", lambda: svm.fit(X, Y, sample_weight=junk)
    yield "", lambda: svm.predict_kbest(X, junk)
    yield "", lambda: svm.predict(X, time_limit=junk)
    yield "", lambda: svm.predict(X, given=junk)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", DATA, ids=lambda model: model.__name__)
def test_junk_is_refused_by_name_or_read_for_what_it_is(model):
    X, Y = DATA[model]
    refused = []
    for junk in JUNK:
        svm = StructuredSVM.from_weights(model, WEIGHTS, max_passes=1, tol=1.0)
        for where, call in calls(svm, X, Y, junk):
            try:
                call()
            except SsvmError as error:  # anything else is a defect
                refused.append((where, junk, error))
    assert len(refused) > 7 * len(JUNK)
    for where, junk, error in refused:
        if where and isinstance(error, DataError) and error.example is not None:
            assert error.example == 1, (where, junk, error)
            assert f"'{where}'" in str(error) or error.what in ("X", "Y", "given"), (where, junk, error)
            assert error.expected, (where, junk, error)
            assert error.found, (where, junk, error)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"C": 1e-320}, r"C is 1e-320, so small that 1 / \(C n\) overflows: choose a larger C"),
        ({"C": 1e308}, "so small that the objective overflows: choose a smaller C"),
        ({"lam": 1e-320}, "so small that the objective overflows"),
        ({"C": 1e-200, "l1": 1e200}, r"so that l1 / \(C n\) overflows: choose a larger C"),
    ],
)
def test_strengths_that_no_number_can_hold(given, match):
    with pytest.raises(OptionError, match=match):
        StructuredSVM(Row, trainer="lbfgs", risk="log", **given).fit(np.eye(3), [0, 1, 0])
