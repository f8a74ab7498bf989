"""Fits that a limit ends anywhere: there are weights, and a certificate that is finite and true.

The clock is one that goes on a step whenever somebody looks at it, so that a limit of k steps ends a fit at its k-th
look, the same on every machine.  What is told is compared with brute force.
"""

from __future__ import annotations

import itertools
import sys
import time
import warnings

import numpy as np
import pytest

from combinations import ALL
from model_table import few_tagger, hidden_chain, tagger
from ssvm_dsl import (
    StructuredRegressor,
    StructuredSVM,
)
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.learning.driver.fit import train
from ssvm_dsl.learning.risks.kinds import risks
from ssvm_dsl.plugin_api import StopRule, TrainerSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.trainers import cases_of

#: Looks at the clock after which time is up; every other one of these, by turns, in a case.
LOOKS = (0, 1, 2, 3, 4, 5, 6, 8, 12, 19, 30, 48, 76, 120)

#: Seconds of a step: some of them are in what a fit may be late by, so that the last evaluation may end anywhere, too.
STEPS = (0.004, 0.02, 1.0)

#: Passes of fits that no limit ends.
PASSES = 12.0

CLOSE = 1e-7


@pytest.fixture
def clock(monkeypatch):
    """Let time go on by looks."""
    now, step = [0.0], [1.0]

    def look():
        now[0] += step[0]
        return now[0]

    monkeypatch.setattr(sys.modules["ssvm_dsl.deadline"], "perf_counter", look)
    loading = sys.modules["ssvm_dsl.loading"]
    monkeypatch.setattr(loading, "perf_counter", lambda: 0.0)  # nothing is loaded
    return step


def trainers():
    """Return the bundled trainers that are there, by name."""
    known = registry()
    specs = [spec for spec in known.specs(TrainerSpec) if known.owner(spec).bundled and not spec.missing()]
    return {spec.name: spec for spec in specs}


def fitted(spec, case, stop, **options):
    trainer = spec.load()(**spec.resolve(options or None), random_state=0)
    problem = case.problem(spec)
    deadline = Deadline(stop.max_seconds)  # what comes before is the estimator's
    return train(trainer, problem, stop, spec=spec, keep_best=spec.best_iterate, deadline=deadline)


@pytest.mark.parametrize("name", trainers())
def test_a_clock_that_runs_out_anywhere(name, clock):
    spec = trainers()[name]
    late = 0
    for number, case in enumerate(cases_of(spec.needs, 0, frozenset(risks()))):
        clock[0] = 0.0
        lowest = case.objective(fitted(spec, case, StopRule(1e-6, PASSES)).w)
        clock[0] = STEPS[number % len(STEPS)]
        for looks in LOOKS if ALL else LOOKS[number % 2 :: 2]:
            found = fitted(spec, case, StopRule(1e-6, PASSES, max(looks, 1e-3) * clock[0]))
            if found.reason != "seconds":
                continue
            true, where = case.objective(found.w), f"{case}, {looks} looks of {clock[0]} s"
            assert np.isfinite([found.primal, found.dual, found.gap]).all(), where
            assert found.dual <= found.primal, where
            assert found.estimate - CLOSE * abs(true) <= true <= found.primal + CLOSE * abs(true), where
            assert found.dual <= lowest + CLOSE * lowest, where
            assert not found.withdrawn, where
            lowest, late = min(lowest, true), late + (found.n_late > 0)
    assert late > 0


def test_fits_without_a_limit_do_not_look_at_the_clock_differently(clock):
    """Whatever the clock says, a fit without a limit is the same to the last bit."""
    for name, spec in trainers().items():
        case = next(cases_of(spec.needs, 0))
        clock[0] = 0.0
        first = fitted(spec, case, StopRule(1e-6, 7.0))
        clock[0] = 1e3
        second = fitted(spec, case, StopRule(1e-6, 7.0))
        assert np.array_equal(first.w, second.w), name
        assert (first.primal, first.dual) == (second.primal, second.dual), name


#: Chains of latent states, and one label.
Hidden = hidden_chain(2, 2, 2)


@pytest.mark.parametrize("init", ["random", "k-means"])
@pytest.mark.parametrize("trainer", ["bcfw", "subgradient", "bundle", "perceptron"])
def test_latent_fits_that_time_ends_return_their_best_round(trainer, init, clock):
    rng = np.random.default_rng(4)
    X = [rng.normal(size=(t, 2)) for t in (2, 3, 2, 3, 3, 2)]
    Y = rng.integers(2, size=len(X)).tolist()
    options = {"trainer": trainer, "tol": 1e-9, "max_passes": 20, "random_state": 1, "n_threads": 1}
    for looks in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
        svm = StructuredSVM(Hidden, C=3.0, max_seconds=looks, latent_options={"init": init, "rounds": 4}, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = svm.fit(X, Y).report_
        assert np.isfinite(svm.coef_).all()
        assert report.dual <= report.primal < np.inf, (looks, report)
        assert (np.diff(report.latent_objectives) <= 1e-9).all()
        parts = report.preparing_seconds + report.oracle_seconds + report.trainer_seconds + report.evaluation_seconds
        assert parts + report.loading_seconds == pytest.approx(report.wall_seconds)


def test_the_times_of_a_report_are_those_of_the_call():
    """All of the call is in the report: what comes before the training run, too."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 2)) for _ in range(6)]
    Y = [[0, 1, 0] for _ in X]

    Chain = tagger(2, 2)

    begin = time.perf_counter()
    report = StructuredSVM(Chain, max_passes=3, n_threads=1, tol=1.0).fit(X, Y).report_
    took = time.perf_counter() - begin
    assert report.preparing_seconds > 0.0
    assert report.seconds <= report.wall_seconds <= took
    assert "preparing data" in str(report)
    assert "last evaluation" in report._repr_html_()


@pytest.mark.parametrize(("risk", "size"), [("margin", 4), ("slack", 5)])
def test_a_fit_whose_plan_is_not_made_in_time_has_a_certificate_too(risk, size, clock):
    """Weights are those of the start, and the objective there is at most the largest losses."""

    #: Chains with a count: bridges and plans look at the clock.
    Few = few_tagger(2, 2, 2)

    rng = np.random.default_rng(0)
    X, Y = [rng.normal(size=(size, 2)) for _ in range(5)], [np.arange(size) % 2] * 5  # a shape that was not seen yet
    unplanned = 0
    for looks in range(1, 40, 2):
        svm = StructuredSVM(Few, C=2.0, max_seconds=looks, risk=risk, trainer="bundle", n_threads=1, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = svm.fit(X, Y).report_
        assert report.dual <= report.primal < np.inf
        if report.plan.backend == "none":
            unplanned += 1
            assert not svm.coef_.any()
            assert report.primal == pytest.approx(2.0 * sum(len(y) for y in Y))
            assert report.reason == "seconds"
            assert "time was up" in str(report)
    assert unplanned > 0, report.plan


def all_scores(x, emit, trans):
    """Return the score of every labelling of a chain of two states."""
    found = {}
    for y in itertools.product(range(2), repeat=len(x)):
        pairs = sum(trans[a, b] for a, b in itertools.pairwise(y))
        found[y] = sum(float(emit[s] @ row) for s, row in zip(y, x, strict=True)) + pairs
    return found


@pytest.mark.parametrize("power", [1.0, 2.0])
@pytest.mark.parametrize("trainer", ["bundle", "subgradient", "adam"])
def test_regressors_that_time_ends(trainer, power, clock):
    """The objective at the weights is enumerated; with power 2 all of the rise may come from one example."""

    Short = tagger(2, 2)

    rng = np.random.default_rng(1)
    X = [rng.normal(size=(int(t), 2)) for t in (2, 3, 3, 2, 3)]
    Y, values = [rng.integers(2, size=len(x)) for x in X], rng.normal(size=5) * 3.0
    options = {"trainer": trainer, "power": power, "tol": 1e-9, "max_passes": 10, "random_state": 0, "n_threads": 1}
    for looks in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89):
        reg = StructuredRegressor(Short, epsilon=0.1, C=0.7, max_seconds=looks, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = reg.fit(X, values, Y).report_
        emit, trans = reg.weights_[Short.emit], reg.weights_[Short.trans]
        true = 0.5 * float(np.dot(reg.coef_, reg.coef_))
        for x, y, value in zip(X, Y, values, strict=True):
            scores = all_scores(x, emit, trans)
            high, low = max(scores.values()) - value - 0.1, value - scores[tuple(y.tolist())] - 0.1
            true += 0.7 * (max(high, 0.0) + max(low, 0.0)) ** power
        assert true <= report.primal * (1.0 + 1e-9) < np.inf, looks
        assert report.dual <= true


def test_a_validation_set_does_not_cost_a_fit_that_time_ends(clock):
    rng = np.random.default_rng(0)
    X, Y = [rng.normal(size=(3, 2)) for _ in range(4)], [np.array([0, 1, 0])] * 4

    Short = tagger(2, 2)

    for looks in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233):
        svm = StructuredSVM(Short, max_seconds=looks, tol=1e-9, max_passes=10, random_state=0, n_threads=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = svm.fit(X, Y, validation=(X, Y)).report_
        assert report.dual <= report.primal < np.inf, (looks, report)
