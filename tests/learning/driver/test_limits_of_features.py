"""A limit shorter than computing features: fits return weights of 0 with bounds, predictions feasible labels."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ssvm_dsl import (
    Attributes,
    Dim,
    Exactly,
    Factor,
    Feature,
    Given,
    Hamming,
    Input,
    JointFeature,
    Label,
    Model,
    Polynomial,
    Standardized,
    StructuredSVM,
    chain,
)
from ssvm_dsl.compiler import ground
from ssvm_dsl.deadline import within
from ssvm_dsl.errors import TimeLimitWarning

N, LENGTH, STATES = 6, 5, 3


class Stopwatch:
    """A clock that stands still until a function has been called so many times."""

    def __init__(self) -> None:
        self.calls = 0
        self.most = 10**9

    def tick(self) -> None:
        self.calls += 1

    @property
    def left(self) -> float:
        return 1.0 if self.calls < self.most else 0.0


WATCH = Stopwatch()


def slow(x):
    WATCH.tick()
    return np.tanh(x)


def slow_pairs(x):
    WATCH.tick()
    return np.ones((len(x) - 1, STATES, STATES, 1)) * x[:-1, 0][:, None, None, None]


class Slow(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, STATES)
    emit = Factor(y, features=Standardized(Feature(slow, T, width=2)))
    trans = Factor(chain(y))
    loss = Hamming(y)


class Joint(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, STATES)
    emit = Factor(y, features=x)
    trans = Factor(chain(y), features=JointFeature(slow_pairs, width=1))
    loss = Hamming(y)


class Ruled(Slow):
    once = Exactly(1, Slow.y.is_(2))


class Scored(Model):
    T = Dim()
    x = Input(T, STATES)
    y = Label(T, STATES)
    own = Given(y, scores=Feature(slow, T, width=STATES))
    emit = Factor(y, features=x)
    loss = Hamming(y)


def data(model=Slow):
    rng = np.random.default_rng(0)
    width = STATES if model is Scored else 2
    X = [rng.normal(size=(LENGTH, width)) for _ in range(N)]
    Y = [np.array([2, *rng.integers(0, 2, LENGTH - 1)]) for _ in range(N)]
    return X, Y


@pytest.fixture(autouse=True)
def _fresh_watch():
    WATCH.calls, WATCH.most = 0, 10**9


@pytest.mark.parametrize("model", [Slow, Joint, Ruled])
def test_features_of_the_first_examples_are_those_of_a_call_without_limit(model):
    X, Y = data(model)
    whole = ground(model, X, Y)
    WATCH.calls, WATCH.most = 0, 2
    with within(WATCH):
        cut = ground(model, X, Y, fitted=whole.fitted, in_time=True)
    assert (cut.n_uncomputed, WATCH.calls) == (N - 2, 2)
    assert whole.n_uncomputed == 0
    assert cut.parameters.blocks == whole.parameters.blocks
    number = [fmap.name for fmap in whole.parameters.maps].index("trans" if model is Joint else "emit")
    found, wanted = cut.parameters.maps[number].features, whole.parameters.maps[number].features
    assert found.shape == wanted.shape
    rows = 2 * ((LENGTH - 1) * STATES**2 if model is Joint else LENGTH)
    np.testing.assert_array_equal(found[:rows], wanted[:rows])
    assert np.ptp(found[rows:], axis=0).max() == 0.0  # 0 before it was standardised


def test_nothing_is_left_out_unless_asked_for_or_without_a_limit():
    X, Y = data()
    assert ground(Slow, X, Y, in_time=True).n_uncomputed == 0
    WATCH.most = 0
    with within(WATCH):
        assert ground(Slow, X, Y).n_uncomputed == 0


def test_given_scores_are_computed_whatever_it_takes():
    X, Y = data(Scored)
    WATCH.most = 0
    with within(WATCH):
        cut = ground(Scored, X, Y, in_time=True)
    assert WATCH.calls == N
    assert cut.n_uncomputed == 0


def test_attributes_are_read_in_time():
    class Words(Model):
        T = Dim()
        a = Attributes(T)
        y = Label(T, STATES)
        emit = Factor(y, features=a)
        loss = Hamming(y)

    n = 3000
    X = [[[f"w{i}", f"v{t}"] for t in range(4)] for i in range(n)]
    Y = [np.arange(4) % STATES for _ in range(n)]
    whole = ground(Words, X, Y)

    class Once:
        left = 0.0

    with within(Once()):
        learnt = ground(Words, X, Y, in_time=True)
        known = ground(Words, X, Y, fitted=whole.fitted, in_time=True)
    assert learnt.n_examples - learnt.n_uncomputed == 1024  # 4096 positions, so that there are names
    assert len(learnt.fitted["a"]["names"]) == 1024 + 4
    assert known.n_uncomputed == known.n_examples
    assert known.parameters.blocks == whole.parameters.blocks
    slices = ground(Words, X, Y, fitted=whole.fitted, in_time=True).parameters.maps[0].features
    np.testing.assert_array_equal(slices.indices, whole.parameters.maps[0].features.indices)


def crawl(x):
    """Take a hundred times the limits below."""
    WATCH.tick()
    end = WATCH.clock() + 0.05
    while WATCH.clock() < end:
        pass
    return np.tanh(x)


class Crawling(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, STATES)
    emit = Factor(y, features=Feature(crawl, T, width=2))
    trans = Factor(chain(y))
    once = Exactly(1, y.is_(2))
    loss = Hamming(y)


def fitted_in_time(**parameters):
    from time import perf_counter

    WATCH.clock = perf_counter
    X, Y = data()
    svm = StructuredSVM(Crawling, max_seconds=1e-3, random_state=0, **parameters)
    with pytest.warns(UserWarning, match=r"before the features of \d of 6 examples were computed: the weights are 0"):
        svm.fit(X, Y)
    return svm


@pytest.mark.parametrize(
    ("trainer", "risk"), [("bcfw", "margin"), ("one-slack", "margin"), ("subgradient", "margin"), ("lbfgs", "log")]
)
def test_a_fit_without_time_for_features_returns_weights_of_0_with_bounds(trainer, risk):
    svm = fitted_in_time(trainer=trainer, risk=risk, C=0.5)
    report = svm.report_
    assert WATCH.calls < N
    assert not svm.coef_.any()
    assert report.reason == "seconds"
    assert 0.0 == report.dual <= report.primal < np.inf
    largest = 0.5 * N * (LENGTH if risk == "margin" else LENGTH * np.log(STATES))
    assert report.primal <= largest * (1 + 1e-9)
    assert report.certified


def test_a_warm_fit_without_time_keeps_its_weights_and_says_that_nothing_is_known_of_them():
    svm = fitted_in_time()
    X, Y = data()
    svm.set_params(max_seconds=None, max_passes=2, tol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = svm.fit(X, Y).coef_.copy()
    svm.set_params(max_seconds=1e-3, warm_start=True)
    with pytest.warns(UserWarning, match="the weights are those of the last fit, whose objective is not known"):
        svm.fit(X, Y)
    np.testing.assert_array_equal(svm.coef_, before)
    assert svm.report_.primal == np.inf
    assert not svm.report_.certified
    assert np.isnan(svm.certified_gap(1.0))
    str(svm.report_)


def test_predictions_without_time_for_features_keep_the_rules_and_have_no_score():
    svm = fitted_in_time()
    svm.coef_ = np.random.default_rng(1).normal(size=svm.coef_.shape)
    X, _ = data()
    WATCH.calls = 0
    with pytest.warns(TimeLimitWarning, match=r"before the features of \d were computed"):
        labels, scores, bounds = svm.predict(X, time_limit=1e-3, return_bounds=True)
    assert WATCH.calls < N
    assert all((one == 2).sum() == 1 for one in labels)
    assert np.isnan(scores[WATCH.calls :]).all()
    assert np.isnan(bounds[WATCH.calls :]).all()
    with pytest.warns(TimeLimitWarning):
        (first, *_), *_ = svm.predict_kbest(X, 2, time_limit=1e-3)
    assert (np.asarray(first[0]) == 2).sum() == 1


def test_transforms_are_learnt_from_few_rows_where_time_is_up():
    class Squares(Model):
        T = Dim()
        x = Input(T, 2)
        s = Input(T, 4, sparse=True)
        y = Label(T, STATES)
        emit = Factor(y, features=Polynomial(Standardized(x), 2))
        rare = Factor(y, features=Polynomial(s, 2))
        loss = Hamming(y)

    from scipy.sparse import csr_array

    rng, n = np.random.default_rng(0), 300
    X = [{"x": rng.normal(size=(5, 2)), "s": csr_array(rng.integers(0, 2, (5, 4)))} for _ in range(n)]
    Y = [rng.integers(0, STATES, 5) for _ in range(n)]

    class Over:
        left = 0.0

    with within(Over()):
        cut = ground(Squares, X, Y, in_time=True)
    whole = ground(Squares, X, Y)
    assert cut.n_uncomputed == cut.n_examples
    for found, wanted in zip(cut.parameters.maps, whole.parameters.maps, strict=True):
        assert found.features.shape == wanted.features.shape
    assert not cut.parameters.maps[0].features[1024:].any()
