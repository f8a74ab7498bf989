"""Constraints laid over examples say what their definitions say, for every labelling of small examples."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ssvm_dsl import (
    AnyOf,
    AtLeast,
    AtMost,
    Constraint,
    Dim,
    Exactly,
    ExactlyOne,
    Factor,
    Hamming,
    Implies,
    Input,
    Label,
    Linear,
    Model,
    Not,
    StructuredSVM,
    ground,
)
from ssvm_dsl.errors import DataError
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.registry import registry


class Small(Model):
    T, K = Dim(), Dim(2)
    x = Input(T, 1)
    k = Input(1)
    each = Input(T)
    weight = Input(T, K)
    y = Label(T, K, 2)
    z = Label(T, "abc")
    one = Label(2)
    f = Factor(y)


def extended(make):
    return type(Model)("Extended", (Small,), {"c": make})


def examples(rng, n=3):
    X = []
    for size in rng.integers(0, 3, n):
        numbers = {"x": np.zeros((size, 1)), "k": [int(rng.integers(0, 3))], "each": rng.integers(0, 3, size)}
        X.append(numbers | {"weight": rng.integers(-2, 3, (size, 2))})
    return X


S = Small

#: Constraints, and their definitions for an example e and its labels (y: (T, 2) array, z: list, one: number).
CASES = {
    "at most": (AtMost(1, S.y.is_(1)), lambda e, y, z, one: y.sum() <= 1),
    "at most k": (AtMost(S.k, S.y.is_(1)), lambda e, y, z, one: y.sum() <= e["k"][0]),
    "along": (AtMost(1, S.y.is_(1), along=S.T), lambda e, y, z, one: (y.sum(axis=1) <= 1).all()),
    "along K": (AtLeast(1, S.y.is_(1), along=S.K), lambda e, y, z, one: (y.sum(axis=0) >= 1).all()),
    "each": (Exactly(S.each, S.y.is_(0), along=S.T), lambda e, y, z, one: ((y == 0).sum(axis=1) == e["each"]).all()),
    "both axes": (AtMost(0, S.y.is_(1), along=[S.K, S.T]), lambda e, y, z, one: (y == 0).all()),
    "several": (
        Exactly(1, [S.y.is_(1), Not(S.z.is_("a")), S.one.is_(1)]),
        lambda e, y, z, one: y.sum() + sum(c != 0 for c in z) + one == 1,
    ),
    "several along": (
        AtMost(1, [S.y.is_(1), S.z.is_("b"), S.one.is_(0)], along=S.T),
        lambda e, y, z, one: all(row.sum() + (c == 1) + (one == 0) <= 1 for row, c in zip(y, z, strict=True)),
    ),
    "one of": (ExactlyOne(S.z.is_("c")), lambda e, y, z, one: sum(c == 2 for c in z) == 1),
    "any": (AnyOf(S.z.is_("c"), S.one.is_(1)), lambda e, y, z, one: one == 1 or any(c == 2 for c in z)),
    "implies": (
        Implies(S.y.is_(1), Not(S.z.is_("a"))),
        lambda e, y, z, one: all(c != 0 or not row.any() for row, c in zip(y, z, strict=True)),
    ),
    "implies by one": (Implies(S.one.is_(1), S.z.is_("a")), lambda e, y, z, one: one == 0 or all(c == 0 for c in z)),
    "linear": (
        Linear({S.y.is_(1): S.weight, S.one.is_(1): -2}, "<=", S.k),
        lambda e, y, z, one: (e["weight"] * y).sum() - 2 * one <= e["k"][0],
    ),
    "linear along": (
        Linear({S.y.is_(1): S.each, S.z.is_("b"): 1.5}, ">=", 1.5, along=S.T),
        lambda e, y, z, one: all(
            n * row.sum() + 1.5 * (c == 1) >= 1.5 for n, row, c in zip(e["each"], y, z, strict=True)
        ),
    ),
    "linear equal": (Linear({S.y.is_(1): S.weight}, "==", 1), lambda e, y, z, one: (e["weight"] * y).sum() == 1),
    "a kind by name": (
        Constraint("linear", S.y.is_(1), along=S.K, lower=-1.0, upper=S.k, coefficient=S.weight),
        lambda e, y, z, one: all(-1 <= w @ c <= e["k"][0] for w, c in zip(e["weight"].T, y.T, strict=True)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_constraints_say_what_they_mean(name):
    made, definition = CASES[name]
    rng = np.random.default_rng(sum(map(ord, name)))
    X = examples(rng, 6)
    program = with_rules(ground(extended(made), X).program, registry()).validate()
    for i, x in enumerate(X):
        size, alone = len(x["x"]), program.take(np.array([i]))
        group = alone.constraints[0]
        for labels in itertools.product(*map(range, alone.card.tolist())):
            y = np.array(labels[: 2 * size], int).reshape(size, 2)
            kept = definition(x, y, labels[2 * size : 3 * size], labels[-1])
            assert kept == (not group.broken(np.array(labels, np.int32), alone.var_ptr).any()), (i, labels)


def test_positions_on_axes_are_parameters():
    made = extended(Constraint("k", [S.y.is_(1), S.z.is_("a")], row=S.T, flag=True, most=3))
    X = [{"x": np.zeros((n, 1)), "k": [0], "each": np.zeros(n), "weight": np.zeros((n, 2))} for n in (2, 1, 2)]
    group = ground(made, X).program.constraints[0]
    assert group.literal_meta["row"].dtype == np.int32
    assert group.literal_meta["row"].tolist() == [0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 1]
    assert {key: (value.dtype, value.tolist()) for key, value in group.meta.items()} == {
        "flag": (np.bool_, [True] * 3), "most": (np.int64, [3] * 3),
    }  # fmt: skip


class Tags(Model):
    K = Dim(3)
    x = Input(2)
    k = Input(1)
    y = Label(K, 2)
    f = Factor(y, features=x, per=K)
    budget = AtMost(k, y.is_(1))
    loss = Hamming(y, ignore=-1)


def tagged(k=1, n=3):
    return [{"x": np.array([1.0, i]), "k": [k]} for i in range(n)]


@pytest.mark.parametrize("k", [1.5, -1, 2**40])
def test_numbers_of_literals_are_checked(k):
    X = tagged()
    X[1]["k"] = [k]
    with pytest.raises(DataError, match="input 'k', example 1: expected a whole number of at least 0"):
        ground(Tags, X)
    X[1]["k"] = [np.nan]
    with pytest.raises(DataError, match="input 'k', example 1: expected finite numbers"):
        ground(Tags, X)


def fit(Y, k=1, **options):
    svm = StructuredSVM(Tags, backend="brute-force", max_passes=5, tol=1e-3, **options)
    return svm.fit(tagged(k, len(Y)), Y)


def test_labels_that_break_a_constraint_are_refused():
    with pytest.raises(DataError) as caught:
        fit([[0, 0, 1], [1, 0, 1]])
    text = "Y, example 1: expected labels that keep the constraint budget = AtMost(k, y.is_(1)), found 2 of its 3"
    assert text in str(caught.value)


def test_unknown_labels_are_completed_where_that_is_possible():
    class Full(Tags):
        least = AtLeast(2, Tags.y.is_(1), along=())

    X, model = tagged(2, 2), StructuredSVM(Full, backend="brute-force", max_passes=3, tol=1e-3)
    for Y in ([[-1, 0, 1], [1, 1, 0]], [[-1, -1, -1], [1, -1, 0]]):
        model.fit(X, Y)
        assert all(sum(y) == 2 for y in model.predict(X))
    with pytest.raises(DataError, match="Y, example 0: expected known labels that some others complete"):
        model.fit(X, [[-1, 0, 0], [1, 1, 0]])
    with pytest.raises(DataError, match="Y, example 1: expected labels that keep the constraint least"):
        model.fit(X, [[-1, 0, 1], [1, 0, 0]])


def test_the_number_of_literals_comes_with_each_example_to_predict():
    svm = fit([[0, 1, 0], [1, 0, 0], [0, 0, 1]], k=2)
    svm.coef_[:] = np.tile([0.0, 0.0, 1.0, 1.0], 3)  # every tag is worth it
    X = tagged(n=4)
    for i, x in enumerate(X):
        x["k"] = [i]
    assert [int(sum(y)) for y in svm.predict(X)] == [0, 1, 2, 3]


def test_inputs_that_constraints_read_are_needed_to_predict():
    svm = fit([[0, 1, 0], [1, 0, 0]])
    with pytest.raises(DataError, match="no k"):
        svm.predict([{"x": np.zeros(2)}])
