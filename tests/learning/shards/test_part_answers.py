"""Predictions and scores of parts of the data: those of one process, in order, wherever the parts are."""

from __future__ import annotations

import time
import warnings
from itertools import chain as lists
from pathlib import Path

import numpy as np
import pytest

from model_table import tagger
from ssvm_dsl import PartitionedDataset, StructuredSVM
from ssvm_dsl.errors import DataError, NoLabellingError, OptionError, TimeLimitWarning
from ssvm_dsl.learning.shards.answers import PredictionShard, Share, answers_of, labellings_of
from ssvm_dsl.learning.shards.parts import DataPart

Tagger = tagger(3, ("a", "b", "c"))


def part(seed: int) -> tuple[list, list, np.ndarray]:
    """Return sentences, fewer in some parts than in others, with weights."""
    random = np.random.default_rng(seed)
    X = [random.normal(size=(int(random.integers(1, 5)), 3)) for _ in range(seed + 2)]
    return X, [np.array(["a", "b", "c"])[random.integers(0, 3, size=len(x))] for x in X], np.arange(1.0, len(X) + 1.0)


def unlabelled(seed: int) -> tuple[list, None]:
    """Return sentences alone."""
    return part(seed)[0], None


def too_narrow(seed: int) -> tuple[list, None]:
    """Return bad sentences in part 1."""
    return [np.zeros((2, 3)), np.zeros((2, 3 - seed))], None


def save(what: tuple[int, Path], labellings: list) -> int:
    """Write the labellings of a part to a file."""
    number, folder = what
    (folder / f"{number}.txt").write_text("\n".join(" ".join(one) for one in labellings))
    return len(labellings)


def of_folder(what: tuple[int, Path]) -> tuple[list, None]:
    """Return the sentences of a part whose labellings go to a folder."""
    return unlabelled(what[0])


@pytest.fixture(scope="module")
def fitted() -> StructuredSVM:
    X, Y, _ = part(9)
    return StructuredSVM(Tagger, lam=0.05, n_threads=1).fit(X, Y)


@pytest.mark.parametrize("executor", ["stream", "processes"])
def test_parts_are_answered_as_in_one_process(fitted, executor):
    X, Y, weight = (list(lists(*parts)) for parts in zip(*map(part, range(3)), strict=True))
    options = {} if executor == "stream" else {"workers": 1}
    svm = StructuredSVM.from_weights(Tagger, dict(fitted.weights_), executor=executor, executor_options=options)
    labels = svm.predict(PartitionedDataset([0, 1, 2], unlabelled))
    assert [one.tolist() for one in labels] == [one.tolist() for one in fitted.predict(X)]
    assert svm.score(PartitionedDataset([0, 1, 2], part)) == pytest.approx(fitted.score(X, Y, weight), rel=1e-12)


def test_labellings_are_written_where_the_parts_are(fitted, tmp_path):
    data = PartitionedDataset([(number, tmp_path) for number in range(3)], of_folder)
    svm = StructuredSVM.from_weights(Tagger, dict(fitted.weights_), executor="stream")
    assert svm.predict_parts(data, save) == [2, 3, 4]
    written = [line.split() for number in range(3) for line in (tmp_path / f"{number}.txt").read_text().split("\n")]
    assert written == [one.tolist() for one in svm.predict(data)]


def slow(seed: int) -> tuple[list, list, np.ndarray]:
    """Return sentences after a while."""
    time.sleep(0.15)
    return part(seed)


def test_a_limit_leaves_out_what_is_not_read_in_time(fitted):
    data = PartitionedDataset(list(range(20)), slow)  # 3 s to read
    svm = StructuredSVM.from_weights(Tagger, dict(fitted.weights_), executor="stream")
    begin = time.perf_counter()
    with pytest.warns(TimeLimitWarning, match=r"before \d+ parts were read"):
        found = svm.predict_parts(data, time_limit=0.5, on_missing="none")
    there = [one for one in found if one is not None]
    assert found == there + [None] * (20 - len(there))
    assert 1 <= len(there) < 10
    for number, one in enumerate(there):
        assert [y.shape for y in one] == [y.shape for y in part(number)[1]]
    for asked in ("raise", "none"):  # nobody knows how many labellings would be missing
        with pytest.raises(NoLabellingError, match=r"parts were read .*\n.*predict_parts") as caught:
            svm.predict(data, time_limit=0.5, on_missing=asked)
        assert caught.value.found[0] is not None
        assert caught.value.found[-1] is None
    with pytest.warns(TimeLimitWarning, match="score: time"):
        assert 0.0 <= svm.score(data, time_limit=0.5) <= 1.0
    assert time.perf_counter() - begin < 6.0  # and not 12


def test_labellings_that_time_cut_short_are_told_once(fitted):
    class Late:
        """Time ends each call before its labellings are proved best."""

        def predict(self, X, **asked):
            warnings.warn("time ended the search", TimeLimitWarning, stacklevel=2)
            return fitted.predict(X)

    shards = [PredictionShard("late", Late(), DataPart(number, number, unlabelled)) for number in (0, 1)]
    found = [labellings_of(shard, Share(1.0, 1), "raise", None) for shard in shards]
    with pytest.warns(TimeLimitWarning, match=r"labellings of 2 of 2 parts") as heard:
        labels = answers_of("predict_parts", found, "raise")
    assert [len(one) for one in labels] == [2, 3]
    assert len(heard) == 1


def test_what_parts_cannot_be_asked_is_said(fitted):
    data = PartitionedDataset([0, 1], unlabelled)
    svm = StructuredSVM.from_weights(Tagger, dict(fitted.weights_), executor="stream")
    with pytest.raises(OptionError, match="executor='stream'"):
        fitted.predict(data)
    with pytest.raises(OptionError, match="on_missing and time_limit are the only options"):
        svm.predict(data, return_bounds=True)
    with pytest.raises(OptionError, match="positive number of seconds"):
        svm.score(data, time_limit=-1.0)
    with pytest.raises(OptionError, match="comes alone"):
        svm.score(data, [])
    with pytest.raises(OptionError, match="use predict for a list"):
        svm.predict_parts([np.zeros((1, 3))])
    with pytest.raises(OptionError, match="write must be a function"):
        svm.predict_parts(data, "folder")
    with pytest.raises(DataError, match="a list with the labels"):
        svm.score(data)
    with pytest.raises(DataError, match=r"part 1.*example 1"):
        svm.predict(PartitionedDataset([0, 1], too_narrow))
