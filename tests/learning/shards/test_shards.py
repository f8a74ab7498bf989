"""Training on shards of the data: the same weights and certificates as in one process, wherever the shards are."""

from __future__ import annotations

import os
import signal
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ssvm_dsl import (
    Attributes,
    Dim,
    Factor,
    Hamming,
    Input,
    Label,
    Latent,
    Model,
    PartitionedDataset,
    PLiF,
    Quantiles,
    StructuredSVM,
    chain,
    cross,
)
from ssvm_dsl.errors import DataError, OptionError, PluginError, TrainingError
from ssvm_dsl.learning.estimators.fitting.over_shards import worker_of
from ssvm_dsl.learning.shards.fit import Strength, open_executor, shard_problem
from ssvm_dsl.learning.shards.parts import DataPart, parts_of
from ssvm_dsl.learning.shards.recipe import TrainingShard
from ssvm_dsl.plugin_api import TrainingEvent, travelling
from ssvm_executors import processes


class Plain(Model):
    T = Dim()
    x = Input(T, 3)
    words = Attributes(T)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y), nonneg=True)
    loss = Hamming(y)


class Tagger(Model):
    T = Dim()
    x = Input(T, 3)
    words = Attributes(T)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    word = Factor(y, features=words, weights="observed")
    trans = Factor(chain(y), nonneg=True)
    loss = Hamming(y)


@cache
def tagged(n: int = 13) -> tuple[list, list]:
    """Return sentences whose vocabularies differ from shard to shard."""
    random = np.random.default_rng(5)
    X, Y = [], []
    for i in range(n):
        size = int(random.integers(1, 5))
        words = [[f"w{i + int(random.integers(0, 4))}", "all"] for _ in range(size)]
        X.append({"x": random.normal(size=(size, 3)), "words": words})
        Y.append(random.integers(0, 3, size=size))
    return X, Y


FITS = {
    "lbfgs": {"risk": "log", "trainer": "lbfgs"},
    "bundle": {"trainer": "bundle"},
    "squared": {"trainer": "bundle", "power": 2.0},
    "one-slack": {"trainer": "one-slack"},
    "subgradient": {"trainer": "subgradient", "trainer_options": {"order": "batch"}, "tol": 0.1},
    "softmax-margin": {"risk": "softmax-margin", "trainer": "svrg", "trainer_options": {"batch_size": 4}},
}


def assert_agree(one: StructuredSVM, other: StructuredSVM, strength: float) -> None:
    """Both are as good as their gaps say, so their weights are near: ``strength/2 |w - w*|^2 <= P(w) - P(w*)``.

    What way a fit takes depends on the last digits, so that nothing closer can be asked of two.
    """
    a, b = one.report_, other.report_
    assert b.dual <= a.primal * (1.0 + 1e-12)
    assert a.dual <= b.primal * (1.0 + 1e-12)
    assert np.linalg.norm(one.coef_ - other.coef_) <= np.sqrt(2.0 / strength) * (np.sqrt(a.gap) + np.sqrt(b.gap))
    assert a.certified
    assert b.certified
    assert (a.n_examples, a.n_weights) == (b.n_examples, b.n_weights)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", FITS)
def test_shards_one_after_the_other_learn_what_one_process_learns(name):
    X, Y = tagged()
    asked = {"lam": 0.05, "random_state": 3, "tol": 1e-4, **FITS[name]}
    weight = np.linspace(0.5, 2.0, len(X))
    one = StructuredSVM(Tagger, **asked).fit(X, Y, sample_weight=weight)
    shards = {"executor": "stream", "executor_options": {"shards": 3}}
    other = StructuredSVM(Tagger, **asked, **shards).fit(X, Y, sample_weight=weight)
    assert_agree(one, other, 0.05)
    assert other.weights_[Tagger.word].shape == one.weights_[Tagger.word].shape


@pytest.mark.parametrize("risk", [{}, {"risk": "slack"}, {"power": 2.0}], ids=str)
def test_one_slack_reaches_the_objective_of_one_process(risk):
    X, Y = tagged()
    asked = {"lam": 0.05, "trainer": "one-slack", "tol": 2e-10, **risk}
    one = StructuredSVM(Tagger, **asked).fit(X, Y)
    shards = {"executor": "stream", "executor_options": {"shards": 3, "open": 3}}
    other = StructuredSVM(Tagger, **asked, **shards).fit(X, Y)
    assert one.report_.converged
    assert other.report_.converged
    assert other.report_.primal == pytest.approx(one.report_.primal, rel=1e-9)


def test_C_counts_the_examples_of_all_shards():
    X, Y = tagged()
    asked = {"risk": "log", "trainer": "lbfgs", "C": 0.7, "tol": 1e-5}
    one = StructuredSVM(Tagger, **asked).fit(X, Y)
    other = StructuredSVM(Tagger, **asked, executor="stream", executor_options={"shards": 4}).fit(X, Y)
    assert_agree(one, other, 1.0)
    assert 0.0 <= other.certified_gap(1.4) < 1.0


def test_minibatches_are_those_of_one_process():
    X, Y = tagged()
    asked = {"risk": "log", "trainer": "adam", "lam": 0.05, "max_passes": 15, "random_state": 3, "tol": 1e-12}
    asked["trainer_options"] = {"batch_size": 4}
    with pytest.warns(UserWarning, match="max_passes"):
        one = StructuredSVM(Tagger, **asked).fit(X, Y)
    with pytest.warns(UserWarning, match="max_passes"):
        other = StructuredSVM(Tagger, **asked, executor="stream", executor_options={"shards": 3}).fit(X, Y)
    assert other.coef_ == pytest.approx(one.coef_, abs=1e-6)


def test_the_number_of_workers_changes_nothing_and_a_lost_one_is_replaced():
    X, Y = tagged()
    asked = {"risk": "log", "trainer": "lbfgs", "lam": 0.05, "tol": 1e-6}
    stream = StructuredSVM(Tagger, **asked, executor="stream", executor_options={"shards": 3}).fit(X, Y)
    killed = []

    def kill(event: TrainingEvent) -> None:
        if event.iteration == 2:
            children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
            for pid in children.read_text().split() if children.exists() else ():
                if b"popen_loky" in Path(f"/proc/{pid}/cmdline").read_bytes() and not killed:
                    os.kill(int(pid), signal.SIGKILL)
                    killed.append(pid)

    workers = {"executor": "processes", "executor_options": {"workers": 2, "shards": 3}}
    other = StructuredSVM(Tagger, **asked, **workers, callbacks=[kill]).fit(X, Y)
    assert np.array_equal(other.coef_, stream.coef_)
    assert killed or not Path("/proc/self/task").exists()


def test_parts_are_read_where_they_are_needed(tmp_path):
    X, Y = tagged()
    for number in range(3):
        mine = slice(number * 4, number * 4 + 4)
        words = np.array([" ".join(w for token in x["words"] for w in token) for x in X[mine]])
        labels = {f"y{i}": y for i, y in enumerate(Y[mine])}
        rows = {f"x{i}": x["x"] for i, x in enumerate(X[mine])}
        np.savez(tmp_path / f"{number}.npz", words=words, **labels, **rows)
    data = PartitionedDataset(sorted(tmp_path.glob("*.npz")), read_part)
    asked = {"risk": "log", "trainer": "lbfgs", "lam": 0.05, "tol": 1e-6}
    parts = StructuredSVM(Tagger, **asked, executor="stream").fit(data)
    one = StructuredSVM(Tagger, **asked).fit(X[:12], Y[:12])
    assert_agree(one, parts, 0.05)


def read_part(path: Path) -> tuple[list, list]:
    """Return the sentences of a file."""
    with np.load(path) as file:
        X = []
        for i, line in enumerate(file["words"]):
            words = str(line).split()
            X.append({"x": file[f"x{i}"], "words": [words[t : t + 2] for t in range(0, len(words), 2)]})
        return X, [file[f"y{i}"] for i in range(len(X))]


def test_a_limit_of_time_ends_in_weights_and_a_certificate():
    X, Y = tagged()
    shards = {"executor": "stream", "executor_options": {"shards": 3}}
    with pytest.warns(UserWarning, match="max_seconds"):
        svm = StructuredSVM(Tagger, trainer="bundle", max_seconds=1e-3, tol=1e-9, **shards).fit(X, Y)
    assert np.isfinite(svm.report_.primal)
    assert svm.report_.dual <= svm.report_.primal


def slow(part: int) -> tuple[list, list]:
    """Return the examples of a part after a while."""
    time.sleep(SLOW)
    return tagged(4)


#: Seconds that a part of :func:`slow` takes.
SLOW = 0.15

#: Fits with a limit, and the most that a risk of :func:`tagged` is at weights of 0.
LIMITED = {
    "bundle": {"trainer": "bundle"},
    "squared": {"trainer": "bundle", "power": 2.0},
    "lbfgs": {"trainer": "lbfgs", "risk": "log"},
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", LIMITED)
@pytest.mark.parametrize("model", [Plain, Tagger])
def test_a_limit_reaches_the_reading_of_parts(name, model):
    data = PartitionedDataset(list(range(40)), slow)  # 6 s to read once
    asked = {"lam": 0.05, "executor": "stream", "max_seconds": 0.3, **LIMITED[name]}
    begin = time.perf_counter()
    svm = StructuredSVM(model, **asked).fit(data)
    report = svm.report_
    assert time.perf_counter() - begin - report.loading_seconds < 2.0  # and not 6, twice
    assert report.reason == "seconds"
    n_read = report.n_examples // 4
    assert f"{n_read} of 40 parts" in report.unread
    assert 1 <= n_read < 10
    assert not svm.coef_.any()
    assert report.dual == 0.0
    X, Y = (one * n_read for one in tagged(4))
    local = StructuredSVM(model, **{**asked, "executor": "threads", "max_seconds": None})
    most = local._shard_problem(*local._shard_data(X, Y, None, svm.fitted_.learnt))
    known = most.objective.primal(np.zeros(most.dim), most.risks_at_zero())
    assert report.primal == pytest.approx(known, rel=1e-9)
    assert np.isnan(svm.certified_gap(2.0))
    assert svm.report_.certified


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_weights_and_checkpoints_outlive_a_limit_that_ends_reading(tmp_path):
    X, Y = tagged(4)
    data, path = PartitionedDataset(list(range(20)), slow), tmp_path / "state"
    asked = {"lam": 0.05, "trainer": "bundle", "executor": "stream", "checkpoint": str(path)}
    svm = StructuredSVM(Tagger, **asked, max_passes=2, warm_start=True, tol=1e-9).fit(X, Y)
    state, last = path.read_bytes(), svm.coef_
    with pytest.warns(UserWarning, match="the weights are those of the last fit"):
        svm.set_params(max_seconds=0.2).fit(data)
    assert np.array_equal(svm.coef_, last)
    assert svm.report_.primal == np.inf
    assert path.read_bytes() == state
    assert len(svm.predict(X)) == 4


def test_validation_and_checkpoints_work_as_in_one_process(tmp_path):
    X, Y = tagged()
    asked = {"risk": "log", "trainer": "lbfgs", "lam": 0.05, "tol": 1e-8, "executor": "stream"}
    whole = StructuredSVM(Tagger, **asked).fit(X, Y, validation=(X[:3], Y[:3]))
    assert whole.report_.validation_score > 0.0
    path = str(tmp_path / "state")
    with pytest.warns(UserWarning, match="max_passes"):
        StructuredSVM(Tagger, **asked, checkpoint=path, max_passes=4).fit(X, Y)
    resumed = StructuredSVM(Tagger, **asked, checkpoint=path).fit(X, Y)
    straight = StructuredSVM(Tagger, **asked).fit(X, Y)
    assert np.array_equal(resumed.coef_, straight.coef_)
    with pytest.warns(UserWarning, match="max_passes"):
        StructuredSVM(Tagger, **asked, checkpoint=path, max_passes=4).fit(X, Y)
    with pytest.raises(TrainingError, match="another fit"):
        StructuredSVM(Tagger, **asked, checkpoint=path).fit(X, [np.zeros_like(y) for y in Y])


def test_rounding_is_bounded_as_in_one_process():
    X, Y = tagged()
    one, other = (
        StructuredSVM(Tagger, risk="log", trainer="lbfgs", lam=0.05, tol=1e-6, executor=executor).fit(X, Y).report_
        for executor in ("threads", "stream")
    )
    assert 0.0 < other.rounding == pytest.approx(one.rounding, rel=1e-3)


class Hidden(Tagger):
    h = Latent(Tagger.T, 2)
    joint = Factor(cross(h, Tagger.y))


class Knots(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 2)
    emit = Factor(y, features=PLiF(x, knots=Quantiles(3)))
    loss = Hamming(y)


def test_what_shards_cannot_do_is_refused_with_what_to_do():
    X, Y = tagged()
    stream = {"executor": "stream", "risk": "log", "trainer": "lbfgs"}
    with pytest.raises(TrainingError, match=r"trainer 'n-slack' works on examples .* lbfgs"):
        StructuredSVM(Tagger, executor="stream", trainer="n-slack").fit(X, Y)
    with pytest.raises(TrainingError, match="latent variables"):
        StructuredSVM(Hidden, executor="stream", trainer="bundle").fit(X, Y)
    with pytest.raises(TrainingError, match=r"PLiF.* learns from all examples at once"):
        StructuredSVM(Knots, **stream).fit([np.zeros((2, 2))] * 4, [[0, 1]] * 4)
    with pytest.raises(PluginError, match="no executor 'cluster'"):
        StructuredSVM(Tagger, executor="cluster").fit(X, Y)
    with pytest.raises(OptionError, match="'stream' has no option 'workers'"):
        StructuredSVM(Tagger, **stream, executor_options={"workers": 2}).fit(X, Y)
    with pytest.raises(OptionError, match="executor='stream'"):
        StructuredSVM(Tagger).fit(PartitionedDataset([1], read_part))
    with pytest.raises(OptionError, match="at least one entry"):
        PartitionedDataset([], read_part)


def test_errors_name_the_example_or_the_part():
    X, Y = tagged()
    stream = {"executor": "stream", "risk": "log", "trainer": "lbfgs", "executor_options": {"shards": 3}}
    wrong = [*Y[:9], np.array([7] * len(Y[9])), *Y[10:]]
    with pytest.raises(DataError, match="example 9"):
        StructuredSVM(Tagger, **stream).fit(X, wrong)
    with pytest.raises(DataError, match=r"part 1 \(1\): .*ValueError: no such part"):
        StructuredSVM(Tagger, **stream).fit(PartitionedDataset([0, 1], only_the_first))
    with pytest.raises(DataError, match="13 examples, as in X"):
        StructuredSVM(Tagger, **stream).fit(X, Y[:5])


def only_the_first(part: int) -> tuple[list, list]:
    """Return the examples of part 0."""
    if part:
        raise ValueError("no such part")
    return tagged()


def test_what_cannot_travel_is_named():
    from threading import Lock

    from loky.backend.reduction import dumps, loads

    def missing(pickled):
        raise ModuleNotFoundError("No module named 'elsewhere'")

    with pytest.raises(OptionError, match=r"a part of the data, .* cannot be sent to workers"):
        travelling(TrainingShard("key", None, DataPart(0, Lock(), tuple), {}), dumps, loads)
    with pytest.raises(OptionError, match=r"cannot import the model, .*'elsewhere'.*PYTHONPATH"):
        travelling(TrainingShard("key", None, DataPart(0, (), tuple), {}), dumps, missing).open()


class Large:
    """A shard of 340 MB."""

    key = "large"

    def open(self):
        self.numbers = np.ones(42_500_000)
        return self


def process_of(shard):
    """Return who has a shard, a moment later: loky looks at memory once a second."""
    time.sleep(0.6)
    return os.getpid()


def test_a_process_keeps_a_large_shard():
    executor = processes.WorkerProcesses(workers=1)
    try:
        executor.start([Large()])
        assert len({executor.run(process_of, [(0, ())])[0] for _ in range(4)}) == 1
    finally:
        executor.close()


def test_a_bound_without_answers_is_above_the_objective_anywhere():
    X, Y = tagged()
    weight, strength = np.linspace(0.0, 2.0, len(X)), Strength(1.0, 0.05, None)
    for asked in ({"trainer": "bundle", "power": 2.0}, {"trainer": "bundle"}, {"trainer": "lbfgs", "risk": "log"}):
        svm = StructuredSVM(Tagger, lam=0.05, **asked)

        def problem(svm=svm):
            executor = open_executor("stream", {"shards": 3, "open": 3})
            return shard_problem(executor, parts_of(X, Y, weight, 3), worker_of(svm), Tagger.declaration, strength)[0]

        whole, unread = problem(), problem()
        unread.complete = False  # as where time was up before all parts were read
        for scale in (0.0, 0.01, 1.0):
            w = scale * np.abs(np.random.default_rng(4).normal(size=whole.dim))
            assert whole.value(w)[0] <= unread.evaluation_in_time(w).upper < np.inf
