"""Training on a cluster: the weights of one process, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
import time
from importlib import import_module
from itertools import chain as chain_lists
from types import SimpleNamespace

import numpy as np
import pytest
from dask import delayed
from dask.bag import from_sequence
from distributed import Status

from ssvm_dask import computed, delayed_parts
from ssvm_dask.executor import _restore
from ssvm_dsl import Attributes, Dim, Factor, Hamming, Input, Label, Model, PartitionedDataset, StructuredSVM, chain
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.plugin_api import ready

LOG = {"risk": "log", "trainer": "lbfgs", "lam": 0.05, "tol": 1e-6}


class Tagger(Model):
    T = Dim()
    x = Input(T, 3)
    words = Attributes(T)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    word = Factor(y, features=words, weights="observed")
    trans = Factor(chain(y))
    loss = Hamming(y)


def tagged(seed: int, n: int = 7) -> tuple[list, list]:
    """Return sentences."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 5, size=n)
    words = [[[f"w{random.integers(5 + seed)}"] for _ in range(k)] for k in sizes]
    X = [{"x": random.normal(size=(k, 3)), "words": mine} for k, mine in zip(sizes, words, strict=True)]
    return X, [random.integers(0, 3, size=k) for k in sizes]


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes, and a client of theirs."""
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as made, Client(made) as client:
        yield client


@pytest.mark.parametrize("asked", [LOG, {"trainer": "bundle", "lam": 0.05, "tol": 1e-4}], ids=["lbfgs", "bundle"])
def test_the_weights_are_those_of_one_process(cluster, asked):
    X, Y = tagged(1)
    one = StructuredSVM(Tagger, **asked).fit(X, Y)
    other = StructuredSVM(Tagger, **asked, executor="dask", executor_options={"shards": 3}).fit(X, Y)
    assert other.report_.dual <= one.report_.primal * (1.0 + 1e-12)
    assert one.report_.dual <= other.report_.primal * (1.0 + 1e-12)
    assert other.report_.certified
    stream = StructuredSVM(Tagger, **asked, executor="stream", executor_options={"shards": 3}).fit(X, Y)
    assert np.array_equal(other.coef_, stream.coef_)


def test_parts_are_read_by_workers(cluster):
    data = PartitionedDataset([1, 2, 3], tagged)
    X, Y = (list(chain_lists.from_iterable(parts)) for parts in zip(*map(tagged, (1, 2, 3)), strict=True))
    one, other = StructuredSVM(Tagger, **LOG).fit(X, Y), StructuredSVM(Tagger, **LOG, executor="dask").fit(data)
    assert other.coef_ == pytest.approx(one.coef_, abs=1e-2)
    assert other.report_.primal == pytest.approx(one.report_.primal, rel=1e-6)


def test_a_lost_worker_changes_nothing(cluster):
    X, Y = tagged(1, 20)
    stream = StructuredSVM(Tagger, **LOG, executor="stream", executor_options={"shards": 4}).fit(X, Y)
    random, killed = np.random.default_rng(3), []

    def kill(event):
        if event.iteration % 3 == 1 and len(killed) < 3:
            pids = sorted(cluster.run(os.getpid, on_error="ignore").values())
            killed.append(int(random.choice(pids)))
            os.kill(killed[-1], signal.SIGKILL)

    asked = {"executor": "dask", "executor_options": {"shards": 4}, "callbacks": [kill]}
    other = StructuredSVM(Tagger, **LOG, **asked).fit(X, Y)
    assert np.array_equal(other.coef_, stream.coef_)
    assert killed


def test_a_worker_with_another_version_is_refused(cluster):
    X, Y = tagged(1)

    def pretend(version):
        import_module("ssvm_dsl.version").__version__ = version

    here, one = ready(), sorted(cluster.scheduler_info()["workers"])[-1]
    cluster.run(pretend, "0.0.9", workers=[one])
    try:
        with pytest.raises(OptionError, match=rf"{one} has ssvm-dsl 0.0.9, and this process has {here}"):
            StructuredSVM(Tagger, **LOG, executor="dask").fit(X, Y)
    finally:
        cluster.run(pretend, here, workers=[one])
    StructuredSVM(Tagger, **LOG, executor="dask").fit(X, Y)


def test_a_cluster_without_workers_is_waited_for_as_long_as_asked():
    from distributed import Client, LocalCluster

    X, Y = tagged(1)
    asked = {**LOG, "executor": "dask", "executor_options": {"patience": 0.5}}
    begin = time.perf_counter()
    with LocalCluster(n_workers=0, dashboard_address=None) as made, Client(made):
        with pytest.raises(OptionError, match=r"no workers after 0.5 s; start one"):
            StructuredSVM(Tagger, **asked).fit(X, Y)
        assert time.perf_counter() - begin < 20.0  # and not 30 s


def test_a_nanny_that_never_started_is_replaced():
    class Nanny(SimpleNamespace):
        @property
        def status(self):
            return Status[self.named]

    scaled = []
    there = {0: Nanny(named="running"), 1: Nanny(named="failed")}
    cluster = SimpleNamespace(worker_spec={0: {}, 1: {}}, workers=there, scale=scaled.append)
    assert _restore(SimpleNamespace(cluster=cluster))
    assert (sorted(there), scaled) == ([0], [2])  # scale() starts those whose names are missing
    there[1] = Nanny(named="starting")
    assert not _restore(SimpleNamespace(cluster=cluster))


def slow(seed: int) -> tuple[list, list]:
    """Return sentences after a while."""
    time.sleep(0.3)
    return tagged(seed)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_limit_of_time_reaches_the_workers(cluster):
    data = PartitionedDataset(list(range(40)), slow)  # 6 s for two workers, to read once
    asked = {**LOG, "executor": "dask", "max_seconds": 1.0}
    begin = time.perf_counter()
    svm = StructuredSVM(Tagger, **asked).fit(data)
    assert time.perf_counter() - begin - svm.report_.loading_seconds < 5.0
    assert 0 < svm.report_.n_examples < 40 * 7
    assert "of 40 parts" in svm.report_.unread
    assert svm.report_.certified


def test_conformance(cluster, executor_conformance):
    executor_conformance("dask")


def test_errors_of_workers_are_the_users(cluster):
    X, Y = tagged(1)
    with pytest.raises(DataError, match="example 4"):
        StructuredSVM(Tagger, **LOG, executor="dask").fit(X, [*Y[:4], np.full(len(Y[4]), 9), *Y[5:]])


def test_a_scheduler_that_is_not_there_is_named():
    X, Y = tagged(1)
    asked = {"executor": "dask", "executor_options": {"address": "tcp://127.0.0.1:9", "patience": 1.0}}
    with pytest.raises(OptionError, match=r"no scheduler answers at 'tcp://127.0.0.1:9'"):
        StructuredSVM(Tagger, **LOG, **asked).fit(X, Y)


def test_partitions_of_bags_and_delayed_objects_are_parts(cluster):
    X, Y = tagged(1)
    bag = from_sequence(list(zip(X, Y)), npartitions=2)
    bags = from_sequence(X, npartitions=2), from_sequence(Y, npartitions=2)
    one = StructuredSVM(Tagger, **LOG).fit(X, Y)
    for given, n_parts in (((bag,), 2), (bags, 2), (([delayed(X)], [delayed(Y)]), 1)):
        data = PartitionedDataset(delayed_parts(*given), computed)
        svm = StructuredSVM(Tagger, **LOG, executor="dask").fit(data)
        assert len(data) == n_parts
        assert svm.report_.primal == pytest.approx(one.report_.primal, rel=1e-4)
    for bad in ((X,), (bags[0], [delayed(Y)])):
        with pytest.raises(ValueError, match=r"expected a Dask bag|Y has 1 partitions"):
            delayed_parts(*bad)
