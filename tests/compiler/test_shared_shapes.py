"""What a model keeps of shapes that it has met serves all of its estimators, and changes none of their answers."""

from __future__ import annotations

import copy
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ssvm_dsl import (
    POTTS,
    Attributes,
    Dim,
    Edges,
    Factor,
    Forbid,
    Hamming,
    Input,
    JointFeature,
    Label,
    Model,
    Standardized,
    StructuredSVM,
    along,
    chain,
)
from ssvm_dsl.compiler import ground
from ssvm_dsl.errors import SsvmError
from ssvm_dsl.ir import Caps, Guarantee, Task, Topology
from ssvm_dsl.lang.model import as_model
from ssvm_dsl.plugin_api import BackendSpec, hookimpl
from ssvm_dsl.registry import register, registry
from ssvm_dsl.testing.brute_force import BruteForce

pytestmark = pytest.mark.filterwarnings("ignore:stopped at")


def word():
    class Word(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, 3)
        emit = Factor(y, features=x)
        trans = Factor(chain(y))
        loss = Hamming(y)

    return Word


def text(weights="all"):
    class Text(Model):
        T = Dim()
        x = Attributes(T)
        y = Label(T, 3)
        emit = Factor(y, features=x, weights=weights)
        trans = Factor(chain(y))
        never = Forbid(chain(y), [(0, 2)])
        loss = Hamming(y)

    return Text


def observed():
    return text("observed")


def scaled():
    class Scaled(Model):
        T = Dim()
        x = Input(T, 2)
        z = Input(T, 3)
        y = Label(T, 3)
        emit = Factor(y, features=Standardized(x))
        more = Factor(y, features=z)
        trans = Factor(chain(y))
        loss = Hamming(y)

    return Scaled


def agreements(x):
    """Return for each step and joint state whether both labels are the same, and a number of the second position."""
    out = np.zeros((len(x) - 1, 3, 3, 2))
    out[..., 0] = np.eye(3)
    out[..., 1] = x[1:, :1, None] * np.arange(3)[:, None]
    return out


def joint():
    class Joint(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, 3)
        emit = Factor(y, features=x)
        both = Factor(chain(y), features=JointFeature(agreements, width=2))
        loss = Hamming(y)

    return Joint


def graph():
    class Graph(Model):
        N, M = Dim(), Dim()
        x = Input(N, 2)
        e = Edges(M, over=N)
        y = Label(N, 3)
        node = Factor(y, features=x)
        edge = Factor(along(y, e), form=POTTS, nonneg=True)
        loss = Hamming(y)

    return Graph


def drawn(make, rng, n, names="abcdef"):
    """Return n examples of one size each of 2, 3 and 4 in turn, and labels."""
    X, Y = [], []
    for k in range(n):
        m = 2 + k % 3
        y = rng.integers(3, size=m)
        if make in (text, observed):
            y = np.where((y == 2) & (np.append(-1, y[:-1]) == 0), 1, y)
            x = [{str(rng.choice(list(names))): 1.0, f"is {label}": rng.random()} for label in y.tolist()]
        elif make is scaled:
            x = {"x": np.eye(2)[y % 2] + rng.normal(size=(m, 2)), "z": rng.normal(size=(m, 3))}
        elif make is graph:
            pairs = [(i, j) for i in range(m) for j in range(i)]
            edges = np.array([pairs[i] for i in rng.permutation(len(pairs))[: m - 1]])
            x = {"x": np.eye(2)[y % 2] + rng.normal(size=(m, 2)), "e": edges}
        else:
            x = np.eye(2)[y % 2] + rng.normal(size=(m, 2))
        X.append(x)
        Y.append(y)
    return X, Y


def learnt(model, X, Y, C=1.0, **options):
    """Return (weights, certified numbers, answers) of a fit."""
    svm = StructuredSVM(model, C=C, max_passes=5, random_state=0, n_threads=1, **options).fit(X, Y)
    report = svm.report_
    numbers = [report.primal, report.dual, report.n_oracle_calls, svm.score(X, Y)]
    return svm.coef_, np.array(numbers), *svm.predict(X), *svm.predict_marginals(X[:2])


def assert_same(first, second):
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


MAKERS = [word, text, observed, scaled, joint, graph]


@pytest.mark.parametrize("make", MAKERS)
def test_fits_of_one_model_are_those_of_models_that_have_met_nothing(make):
    """Other data of the same sizes, another C, other names of attributes, and the first data again."""
    rng, model = np.random.default_rng(0), make()
    first, other = drawn(make, rng, 6), drawn(make, rng, 6)
    wider, shorter = drawn(make, rng, 6, names="uvwxyz0123"), tuple(part[:2] for part in first)
    for (X, Y), C in [(first, 1.0), (other, 1.0), (first, 0.1), (wider, 1.0), (shorter, 1.0), (first, 1.0)]:
        assert_same(learnt(model, X, Y, C), learnt(as_model(copy.copy(model.declaration)), X, Y, C))


@pytest.mark.parametrize("make", MAKERS)
def test_fits_in_threads_share_shapes(make):
    rng, model = np.random.default_rng(1), make()
    data = [drawn(make, rng, 6) for _ in range(4)]
    alone = [learnt(as_model(copy.copy(model.declaration)), X, Y, C) for X, Y in data for C in (0.1, 1.0)]
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(lambda asked: learnt(model, *asked), [(X, Y, C) for X, Y in data for C in (0.1, 1.0)]))
    for one, other in zip(at_once, alone, strict=True):
        assert_same(one, other)


def test_estimators_with_other_vocabularies_take_turns():
    rng, model = np.random.default_rng(2), text()
    data = [drawn(text, rng, 6, names) for names in ("ab", "cdefgh")]
    fitted = [StructuredSVM(model, max_passes=5, random_state=0).fit(X, Y) for X, Y in data]
    alone = [StructuredSVM(text(), max_passes=5, random_state=0).fit(X, Y) for X, Y in data]
    for _ in range(2):
        for svm, other in zip(fitted, alone, strict=True):
            assert_same([svm.coef_], [other.coef_])
            for X, _ in data:
                assert_same(svm.predict(X), other.predict(X))


class Counting:
    """A plug-in with a backend that counts how often it is opened."""

    def __init__(self, **promises):
        tasks = frozenset({Task.MAP, Task.MARGINALS})
        self.caps = Caps(tasks=tasks, guarantee=Guarantee.EXACT, topology=Topology.LOOPY, max_arity=2, **promises)

    @hookimpl
    def ssvm_backends(self):
        return [BackendSpec("counting", f"{__name__}:Counted", "brute force that counts", caps=self.caps)]


class Counted(BruteForce):
    opened = 0

    def open(self, program, options):
        type(self).opened += 1
        return super().open(program, options)


@pytest.fixture
def counting():
    register(Counting(), "counting")
    Counted.opened = 0
    yield Counted
    registry.cache_clear()


@pytest.mark.parametrize("make", [word, graph, scaled])
def test_a_second_fit_and_its_predictions_open_no_backend(counting, make):
    rng, model = np.random.default_rng(3), make()
    X, Y = drawn(make, rng, 6)
    learnt(model, X, Y, 1.0, backend="counting")
    opened = counting.opened
    assert opened > 0
    learnt(model, X, Y, 0.3, backend="counting")
    assert counting.opened == opened
    moved = [x + 1.0 if isinstance(x, np.ndarray) else x | {"x": x["x"] + 1.0} for x in X]
    learnt(model, moved, Y, 0.3, backend="counting")
    assert counting.opened == opened


def test_edges_of_the_same_number_are_other_shapes(counting):
    rng, model = np.random.default_rng(4), graph()
    X, Y = drawn(graph, rng, 6)
    learnt(model, X, Y, 1.0, backend="counting")
    opened = counting.opened
    turned = [x | {"e": (len(x["x"]) - 1) - x["e"]} for x in X]
    found = learnt(model, turned, Y, 1.0, backend="counting")
    assert counting.opened > opened
    assert_same(found, learnt(graph(), turned, Y, 1.0, backend="counting"))


def test_models_of_one_name_share_nothing():
    rng = np.random.default_rng(5)
    first = word()

    class Word(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, 3)
        emit = Factor(y, features=x)
        trans = Factor(chain(y), form=POTTS)
        loss = Hamming(y)

    X, Y = drawn(word, rng, 6)
    before = learnt(first, X, Y)
    made = learnt(Word, X, Y)
    assert made[0].shape != before[0].shape
    assert_same(learnt(first, X, Y), before)
    assert_same(learnt(Word, X, Y), made)


def test_what_is_kept_goes_with_the_model():
    rng, model = np.random.default_rng(6), word()
    X, Y = drawn(word, rng, 6)
    learnt(model, X, Y)
    program = weakref.ref(ground(model, X).program)
    assert program() is ground(model, X[:]).program
    gone = weakref.ref(model.declaration)
    del model
    gc.collect()
    assert gone() is None
    assert program() is None


def test_an_error_leaves_a_shape_as_it_was():
    rng, model = np.random.default_rng(7), word()
    X, Y = drawn(word, rng, 6)
    with pytest.raises(SsvmError, match="finite"):
        learnt(model, [x * np.nan for x in X], Y)
    with pytest.raises(SsvmError, match="label"):
        learnt(model, X, [y + 7 for y in Y])
    assert_same(learnt(model, X, Y), learnt(word(), X, Y))
