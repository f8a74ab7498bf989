"""Parts of the data without examples, positions, weights, names or feasible labels: what the others give counts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from ssvm_dsl import AtMost, Attributes, Dim, Factor, Hamming, Input, Label, Model, PartitionedDataset, StructuredSVM
from ssvm_dsl import chain as steps
from ssvm_dsl.errors import DataError


class Tagger(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(steps(y))
    few = AtMost(2, y.is_(1))
    loss = Hamming(y)


class Named(Model):
    T = Dim()
    words = Attributes(T)
    y = Label(T, 3)
    emit = Factor(y, features=words, weights="observed")
    loss = Hamming(y)


def words(n: int, length: int = 4) -> tuple[list[Any], list[Any]]:
    """Return examples."""
    random = np.random.default_rng(n)
    X = [random.normal(size=(length, 2)) for _ in range(n)]
    return X, [np.arange(length) % 3 for _ in X]


def named(n: int, length: int = 4) -> tuple[list[Any], list[Any]]:
    """Return examples with names, none where they are short."""
    _, Y = words(n, length)
    return [[[f"w{state}"] if length > 2 else [] for state in y] for y in Y], Y


FIRST, LAST = words(3), words(4)
RULED_OUT = [np.ones(4, dtype=int)] * 2

#: The part in the middle, and settings.
MIDDLE = {
    "no examples": (([], []), {}),
    "no positions": (words(2, 0), {}),
    "weights of 0": ((*words(2), np.zeros(2)), {}),
    "no feasible labels": ((words(2)[0], RULED_OUT), {"infeasible": "drop"}),
}


def shown(part: Any) -> Any:
    return part


def fitted(parts: list[Any], model: Any = Tagger, **options: Any) -> StructuredSVM:
    settings = {"trainer": "bundle", "max_passes": 30, "tol": 1e-6, "executor": "stream"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StructuredSVM(model, **settings, **options).fit(PartitionedDataset(parts, shown))


@pytest.mark.parametrize("kind", MIDDLE)
def test_a_part_with_nothing_to_learn_from(kind):
    middle, options = MIDDLE[kind]
    found = fitted([FIRST, middle, LAST], **options)
    X, Y, weights = [], [], []
    for part in (FIRST, middle, LAST):
        X += part[0]
        Y += part[1]
        weights += list(part[2]) if part[2:] else [1.0] * len(part[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        local = StructuredSVM(Tagger, trainer="bundle", max_passes=30, tol=1e-6, **options).fit(X, Y, weights)
    assert found.report_.primal == pytest.approx(local.report_.primal, rel=1e-6)
    if kind == "no feasible labels":
        return
    data = PartitionedDataset([FIRST, middle, LAST], shown)
    assert found.score(data) == pytest.approx(local.score(X, Y, weights))
    assert len(found.predict(data)) == len(X)


def test_a_part_without_names():
    found = fitted([named(3), named(2, 1), named(4)], Named)
    X, Y = (a + b + c for a, b, c in zip(named(3), named(2, 1), named(4), strict=True))
    local = StructuredSVM(Named, trainer="bundle", tol=1e-6).fit(X, Y)
    assert found.report_.primal == pytest.approx(local.report_.primal, rel=1e-6)
    assert found.coef_ == pytest.approx(local.coef_, abs=1e-3)


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        ([([], [])] * 2, "X: expected at least one example to learn from, found none in the 2 of 2 parts"),
        ([words(2, 0)] * 2, "at least one example with something to label, found 4 empty examples"),
        ([(*words(2), np.zeros(2))] * 2, "sample_weight: expected at least one weight above 0, found zeros only"),
    ],
)
def test_only_such_parts(parts, match):
    with pytest.raises(DataError, match=match):
        fitted(parts)


def test_names_in_no_part():
    with pytest.raises(DataError, match="input 'words': expected attribute names in some example, found none at all"):
        fitted([named(2, 1)] * 2, Named)


def test_scores_of_parts_without_weights():
    with pytest.raises(DataError, match="at least one weight above 0"):
        fitted([FIRST]).score(PartitionedDataset([(*FIRST, np.zeros(3)), ([], [])], shown))
