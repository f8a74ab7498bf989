"""Files, generators and pickled recipes as parts of the data; what workers load and warn of."""

from __future__ import annotations

import json
import time
import warnings
from concurrent.futures import Future
from itertools import chain as lists
from pathlib import Path
from threading import Thread, Timer

import numpy as np
import pytest
from pyarrow import table
from pyarrow.parquet import write_table

from ssvm_dsl import PartitionedDataset, StructuredSVM, partitioned_files
from ssvm_dsl.cli.main import main
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import DataError, FileFormatError, OptionError, OutOfTime
from ssvm_dsl.learning.shards.messages import listening
from ssvm_dsl.loading import loading_time
from ssvm_dsl.models import ChainTagger, Classifier, GraphLabeller, GridSegmenter, MultiLabel
from ssvm_dsl.plugin_api import LoadingElsewhere, loading, loading_file, tell_loading, told_seconds
from ssvm_dsl.testing.executors import Tagger
from ssvm_executors.processes import WorkerProcesses


def sentences(number: int) -> tuple[list, list]:
    """Return the sentences of a file; the third class is in the last one alone."""
    random = np.random.default_rng(number)
    X = [np.round(random.normal(size=(int(random.integers(2, 5)), 3)), 6) for _ in range(6)]
    return X, [["abc"[min(int(k), 1 + number // 2)] for k in x.argmax(axis=1)] for x in X]


def write(form: str, path: str, X: list, Y: list) -> None:
    """Write sentences to a file."""
    if form == "npz":
        np.savez(path, X=np.concatenate(X), Y=np.concatenate(Y), ptr=np.cumsum([0, *map(len, X)]))
    elif form == "parquet":
        columns = table({"x": [x.tolist() for x in X], "y": Y})
        write_table(columns, path)
    else:
        lines = [json.dumps({"x": x.tolist(), "y": y}) for x, y in zip(X, Y)]
        if form == "conll":
            lines = ["\n".join(f"w{v[0]:.0f} {tag}" for v, tag in zip(x, y)) + "\n" for x, y in zip(X, Y)]
        Path(path).write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("form", ["npz", "jsonl", "conll", "parquet"])
def test_files_are_parts_also_from_the_shell(form, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = [f"{number}.{form}" for number in range(3)]
    for number, name in enumerate(names):
        write(form, name, *sentences(number))
    data = partitioned_files(names)
    asked = {"trainer": "bundle", "lam": 0.05, "tol": 1e-6}
    parts = ChainTagger(**asked, executor="stream").fit(data)
    X, Y = (list(lists.from_iterable(one)) for one in zip(*map(data.load, names)))
    one = ChainTagger(**asked).fit(X, Y)
    assert parts.report_.n_examples == len(X) == 18
    assert parts.report_.primal == pytest.approx(one.report_.primal, rel=2e-6)
    assert [list(labels) for labels in parts.predict(data)] == [list(labels) for labels in parts.predict(X)]
    stream = ["--executor", "stream", "--trainer", "bundle", "--lam", "0.05", "--tol", "1e-6", "--json"]
    assert main(["train", "chain-tagger", "--data", *names, "--out", "t.ssvm", *stream]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["n_examples"] == 18
    assert said["report"]["primal"] == pytest.approx(one.report_.primal, rel=2e-6)


def test_what_cannot_be_parts_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for number in range(2):
        write("jsonl", f"{number}.jsonl", *sentences(number))
    for bad, error, what in (
        ([], OptionError, "a list of the paths"),
        (["a.xyz"], OptionError, "format"),
        (["no.npz"], OSError, "no"),
    ):
        with pytest.raises(error, match=what):
            partitioned_files(bad)
    with pytest.raises(OptionError, match="format must be one of"):
        partitioned_files(["0.jsonl"], "xml")
    (tmp_path / "1.jsonl").write_text('{"x": [[1, 2, 3]]}\n')
    with pytest.raises(DataError, match=r"part 1 \(1.jsonl\)"):
        ChainTagger(executor="stream", trainer="bundle").fit(partitioned_files(["0.jsonl", "1.jsonl"]))
    train = ["train", "chain-tagger", "--data", "0.jsonl", "0.jsonl", "--out", "t.ssvm"]
    for more, what in (([], "--executor stream"), (["--executor", "stream", "--trainer", "bcfw"], "trainer='bundle'")):
        assert main([*train, *more]) == 2
        assert what in capsys.readouterr().err
    assert main([*train, "--executor", "stream"]) == 0  # a trainer that takes parts
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(FileFormatError, match="expected a Parquet file"):
        partitioned_files(["bad.parquet"])


def generate(start: int, stop: int):
    """Yield examples of a range, up to 20."""
    for number in range(start, min(stop, 20)):
        random = np.random.default_rng(number)
        yield random.normal(size=(3, 3)), random.integers(0, 3, size=3)


def test_generators_are_parts():
    asked = {"trainer": "lbfgs", "risk": "log", "lam": 0.05, "tol": 1e-8}
    data = PartitionedDataset.generated(generate, 20, 3)
    svm = StructuredSVM(Tagger, **asked, executor="stream").fit(data)
    one = StructuredSVM(Tagger, **asked).fit(*map(list, zip(*generate(0, 20))))
    assert len(data) == 3
    assert svm.report_.primal == pytest.approx(one.report_.primal, rel=2e-8)
    with pytest.raises(DataError, match=r"part 2 .*expected 7 from generate"):
        StructuredSVM(Tagger, **asked, executor="stream").fit(PartitionedDataset.generated(generate, 21, 3))
    for bad in ((None, 5), (generate, 0), (generate, 5, 0)):
        with pytest.raises(OptionError, match="generated"):
            PartitionedDataset.generated(*bad)


def old(number: int) -> tuple[list, list]:
    """Warn and return examples."""
    warnings.warn("this file is old", stacklevel=1)
    if number == 1:
        warnings.warn("and strange", RuntimeWarning, stacklevel=1)
    return tuple(map(list, zip(*generate(number, number + 3))))


def test_warnings_of_parts_are_told_once_and_named(capsys):
    svm = StructuredSVM(Tagger, trainer="lbfgs", risk="log", lam=0.05, executor="stream", verbose=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        svm.fit(PartitionedDataset([0, 1, 2], old))
    assert [(str(one.message), one.category) for one in told] == [
        ("part 0 (0) (and 2 other parts): this file is old", UserWarning),
        ("part 1 (1): and strange", RuntimeWarning),
    ]
    assert told[0].filename == __file__
    assert "parts 0, 1, 2, 9 examples, read in" in capsys.readouterr().err


def test_another_thread_warns_as_before():
    def outside_and_inside() -> list:
        thread = Thread(target=lambda: warnings.warn("outside", stacklevel=1))
        with listening() as heard:
            warnings.warn("inside", stacklevel=1)
            thread.start()
            thread.join()
        return heard

    with pytest.warns(UserWarning, match="outside") as told:
        heard = outside_and_inside()
    assert [one.text for one in heard] == ["inside"]
    assert len(told) == 1


def test_limits_do_not_count_what_workers_load(tmp_path):
    executor, cells = WorkerProcesses(workers=1), loading_file(tmp_path / "loading", 2)
    tell_loading(tmp_path / "loading", 1)
    executor._loading = LoadingElsewhere(lambda: told_seconds(cells))
    for loads in (True, False):
        late: Future[str] = Future()
        timer = Timer(0.5, late.set_result, ["late"])
        executor._loading.begin()
        timer.start()
        with within(Deadline(0.1)):
            if loads:
                cells[1] = -time.perf_counter()  # as a worker says that it is loading from now on
                assert executor._awaited(late) == "late"
            else:
                cells[1] = 0.0
                with pytest.raises(OutOfTime):
                    executor._awaited(late)
        timer.cancel()
    before = told_seconds(cells)[1]
    with loading():
        time.sleep(0.01)
    assert told_seconds(cells)[1] >= before + 0.01
    loading_time().show(np.zeros(1))
    executor.close()


@pytest.mark.parametrize("gap", [0.01, 0.04])
def test_answers_that_follow_each_other_shortly_do_not_outlast_the_limit(gap):
    """Each would come within the grace that there is after the end; there is one for all of them."""
    executor = WorkerProcesses(workers=1)
    futures: list[Future[int]] = [Future() for _ in range(200)]
    timers = [Timer(0.05 + gap * k, one.set_result, [k]) for k, one in enumerate(futures)]
    executor._loading.begin()
    for timer in timers:
        timer.start()
    with pytest.raises(OutOfTime), within(Deadline(0.1)):
        list(map(executor._awaited, futures))
    for timer in timers:
        timer.cancel()
    executor.close()


def read_rows(part: tuple) -> tuple:
    """Return the examples of a part, which are the part."""
    return part


@pytest.mark.parametrize("name", ["classes", "sets of labels", "grid", "graph"])
def test_ready_models_learn_from_parts_what_they_learn_from_lists(name):
    random = np.random.default_rng(3)
    rows = random.normal(size=(24, 3))
    maps = [random.normal(size=(3, 4, 2)) for _ in range(8)]
    edges = np.array([[0, 1], [1, 2], [2, 0], [2, 3]])
    nodes = [random.normal(size=(4, 3)) for _ in range(8)]
    made, X, Y = {
        "classes": (Classifier, rows, np.array(["a", "b", "c"])[rows.argmax(axis=1)]),
        "sets of labels": (MultiLabel, rows, (rows > 0.3).astype(int)),
        "grid": (GridSegmenter, maps, [(x[..., 0] > x[..., 1]).astype(int) for x in maps]),
        "graph": (GraphLabeller, [{"x": x, "edges": edges} for x in nodes], [x.argmax(axis=1) for x in nodes]),
    }[name]
    asked = {"trainer": "bundle", "lam": 0.1, "tol": 1e-3}
    half = len(X) // 2
    data = PartitionedDataset([(X[:half], Y[:half]), (X[half:], Y[half:])], read_rows)
    one, other = made(**asked).fit(X, Y), made(**asked, executor="stream").fit(data)
    assert other.report_.primal == pytest.approx(one.report_.primal, rel=2e-3)
    assert other.score(data) == pytest.approx(other.score(X, Y), abs=1e-12)
    here, there = (np.concatenate([np.ravel(y) for y in other.predict(asked_of)]) for asked_of in (X, data))
    assert np.array_equal(here, there)
