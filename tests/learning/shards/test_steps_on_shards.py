"""``bcfw`` on shards: dual variables stay where the examples are; certificates are those of one process."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_table import tagger
from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import OptionError, TrainingError
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_executors import processes
from ssvm_trainers.cutting.aggregated_qp import AggregatedModel
from ssvm_trainers.planes.combination import best_step, combine

Tagger = tagger(5, 3, nonneg=True)


def tagged(n: int = 20) -> tuple[list, list]:
    """Return noisy sentences."""
    random = np.random.default_rng(5)
    means = random.normal(size=(3, 5))
    Y = [random.integers(0, 3, size=int(random.integers(1, 6))) for _ in range(n)]
    return [means[y] + 1.5 * random.normal(size=(len(y), 5)) for y in Y], Y


WORKERS = {"executor": "processes", "executor_options": {"workers": 2, "shards": 3}}


class Here:
    """Shards in this process, some of which are lost."""

    lost_after: ClassVar[tuple[int, ...]] = ()  #: calls after which shard 1 is gone
    keeps_nothing: ClassVar[bool] = False

    def __init__(self, workers: int, shards: int, open: int | None = None) -> None:
        self.n_shards, self.calls = shards, 0
        self.opened: dict[int, Any] = {}

    def start(self, shards: Any) -> None:
        self.shards, self.opened = shards, {}

    def run(self, function: Any, calls: Any) -> list[Any]:
        self.calls += 1
        if self.calls in self.lost_after or self.keeps_nothing:
            self.opened.pop(1, None)
        for number, _ in calls:
            if number not in self.opened:
                self.opened[number] = self.shards[number].open()
        return [function(self.opened[number], *more) for number, more in calls]

    def close(self) -> None:
        self.opened = {}


@pytest.fixture
def here(monkeypatch):
    """Put shards of this process in the place of processes."""
    monkeypatch.setattr(processes, "WorkerProcesses", Here)
    return monkeypatch


def fitted(**asked: Any) -> StructuredSVM:
    X, Y = tagged()
    weight = np.linspace(0.5, 2.0, len(X))
    return StructuredSVM(Tagger, **{"lam": 0.05, "tol": 0.01, "random_state": 3, **asked}).fit(X, Y, weight)


@cache
def in_one_process() -> StructuredSVM:
    """Return the fit that those on shards are compared with."""
    return fitted()


def assert_same_optimum(one: StructuredSVM, other: StructuredSVM) -> None:
    """Both certificates are true, so that their intervals overlap."""
    a, b = one.report_, other.report_
    assert a.certified
    assert b.certified
    assert max(a.relative_gap, b.relative_gap) <= 0.01
    assert b.dual <= a.primal * (1.0 + 1e-12)
    assert a.dual <= b.primal * (1.0 + 1e-12)


def test_dual_variables_on_shards_reach_the_optimum_whoever_is_lost(here):
    one, other = in_one_process(), fitted(**WORKERS)
    assert_same_optimum(one, other)
    assert np.array_equal(fitted(**WORKERS).coef_, other.coef_)
    assert_same_optimum(fitted(l1=0.01, trainer="bundle"), fitted(l1=0.01, **WORKERS))
    here.setattr(Here, "lost_after", (4, 7, 8))
    lossy = fitted(**WORKERS)
    assert_same_optimum(one, lossy)
    assert not np.array_equal(lossy.coef_, other.coef_)  # they took another way


def test_a_fit_goes_on_from_a_file_with_what_the_driver_knows(here, tmp_path):
    path = str(tmp_path / "state")
    with pytest.warns(UserWarning, match="max_passes"):
        before = fitted(**WORKERS, checkpoint=path, max_passes=6)
    after = fitted(**WORKERS, checkpoint=path)
    assert after.report_.dual >= before.report_.dual
    assert_same_optimum(in_one_process(), after)


def test_workers_are_as_good_as_one_process():
    assert_same_optimum(in_one_process(), fitted(**WORKERS))


def test_one_slack_keeps_its_planes_on_shards_whoever_is_lost(here):
    asked = {"trainer": "one-slack", "C": 1.0, "lam": None, "tol": 1e-6}
    one, other = fitted(**asked), fitted(**asked, **WORKERS)
    assert other.report_.n_oracle_calls == one.report_.n_oracle_calls
    assert_same_optimum(one, other)
    here.setattr(Here, "lost_after", (3, 9))
    assert_same_optimum(one, fitted(**asked, **WORKERS))
    here.setattr(Here, "keeps_nothing", True)
    assert_same_optimum(one, fitted(**asked, **WORKERS))


def test_what_keeps_no_dual_variables_is_refused(here):
    with pytest.raises(TrainingError, match=r"'stream' closes .* executor='processes'"):
        fitted(executor="stream", trainer="bcfw")
    with pytest.raises(OptionError, match="trainer='bundle'"):
        fitted(**WORKERS, risk="relaxed", trainer="bcfw")
    here.setattr(Here, "keeps_nothing", True)
    with pytest.raises(TrainingError, match="shard 1 did not keep its dual variables"):
        fitted(**WORKERS)


def objective(random: np.random.Generator, dim: int, bounded: bool) -> RegularizedRisk:
    lower = np.where(random.random(dim) < 0.5 * bounded, 0.0, -np.inf)
    return RegularizedRisk(0.3, 4, np.ones(4), random.uniform(0.5, 2.0, size=dim), lower)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_the_best_combination_is_that_of_the_quadratic_program(seed, bounded):
    random = np.random.default_rng(seed)
    dim, known = 4, objective(np.random.default_rng(seed), 4, bounded)
    planes = random.normal(size=(1, 3, dim + 1))
    planes[0, 0] = 0.0  # the zero plane, which the other solver has
    weight = np.array([[0.2, 0.5, 0.3]])
    for _ in range(30):  # one call ends where little is left to gain
        combine(known, planes, weight)
    model = AggregatedModel(known, keep=10)
    for plane in planes[0, 1:]:
        model.add(plane[:-1], float(plane[-1]))
    model.solve()
    total = weight[0] @ planes[0]
    assert weight.sum() == pytest.approx(1.0)
    assert (weight >= 0.0).all()
    assert known.dual(total[:-1], float(total[-1])) == pytest.approx(model.dual, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_a_step_is_the_best_of_its_line(seed, bounded):
    random = np.random.default_rng(seed)
    known, (v, d), rise = objective(random, 4, bounded), random.normal(size=(2, 4)), float(random.normal())
    found = best_step(known, v, d, rise, -0.5, 1.0)
    values = [known.dual(v + t * d, t * rise) for t in np.linspace(-0.5, 1.0, 301)]
    assert known.dual(v + found * d, found * rise) >= max(values) - 1e-9
