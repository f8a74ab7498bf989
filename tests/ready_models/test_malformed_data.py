"""Data that are no data of a ready model: each is an error of this package that names X or Y, never another one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ssvm_dsl import PartitionedDataset, models
from ssvm_dsl.errors import SsvmError

NAMES = sorted(set(models.__all__) - {"Classifier"})

EXAMPLES = {
    "number": 3.0, "nothing": None, "text": "ab", "empty dict": {}, "dict": {"x": 1}, "row": np.zeros(2),
    "objects": np.array([None, {}]), "table": np.zeros((2, 2)), "nan": np.full((2, 2), np.nan),
    "cube": np.zeros((2, 2, 2)), "list": [1, "a"], "bad edges": (np.zeros((2, 2)), ["ab"]),
    "half edges": (np.zeros((2, 2)), [[0.0, 0.5]]),
    "no edges": (np.zeros((2, 2)), None), "odd edges": (np.zeros((2, 2)), [0, 1, 1]), "no positions": np.zeros((0, 2)),
}  # fmt: skip

LABELS = {"number": 3, "nothing": None, "text": "ab", "row": [0, 1], "empty": [], "names": {"a"}, "dict": {"y": 1}}


def shown(part):
    return part


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_malformed_data_are_named(name):
    made, fitted = getattr(models, name)(max_passes=1, tol=0.5), 0
    for example, label in product(EXAMPLES.values(), LABELS.values()):
        try:
            made.fit([example] * 2, [label] * 2)
        except SsvmError:
            continue
        fitted += 1
    assert fitted < 30


@pytest.mark.filterwarnings("ignore")
def test_a_part_without_examples_shows_nothing():
    X, Y = [np.eye(3)] * 2, [["a", "b", "c"]] * 2
    tagger = models.ChainTagger(executor="stream", trainer="bundle", max_passes=5)
    assert tagger.fit(PartitionedDataset([([], []), (X, Y)], shown)).predict(X)[0].tolist() == ["a", "b", "c"]
    with pytest.raises(SsvmError, match="at least one example, found none in 2 parts"):
        tagger.fit(PartitionedDataset([([], [])] * 2, shown))
