"""Training on a cluster: the weights of one process, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
from itertools import chain as chain_lists

import numpy as np
import pytest

from ssvm_dsl import Attributes, Dim, Factor, Hamming, Input, Label, Model, PartitionedDataset, StructuredSVM, chain
from ssvm_dsl.errors import DataError, OptionError

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


def test_errors_of_workers_are_the_users(cluster):
    X, Y = tagged(1)
    with pytest.raises(DataError, match="example 4"):
        StructuredSVM(Tagger, **LOG, executor="dask").fit(X, [*Y[:4], np.full(len(Y[4]), 9), *Y[5:]])


def test_a_scheduler_that_is_not_there_is_named():
    X, Y = tagged(1)
    asked = {"executor": "dask", "executor_options": {"address": "tcp://127.0.0.1:9", "patience": 1.0}}
    with pytest.raises(OptionError, match=r"no scheduler answers at 'tcp://127.0.0.1:9'"):
        StructuredSVM(Tagger, **LOG, **asked).fit(X, Y)
