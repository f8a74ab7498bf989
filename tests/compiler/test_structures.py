"""What is kept of shapes that were met before: answers are those of an estimator that has met nothing."""

from __future__ import annotations

import copy
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_shared_shapes import Counted, Counting

import model_table
from counted_calls import calls_of
from model_table import tagger
from ssvm_dsl import (
    POTTS,
    AtMost,
    Dim,
    Edges,
    Factor,
    Forbid,
    Given,
    Hamming,
    Input,
    Label,
    Latent,
    Model,
    Standardized,
    StructuredSVM,
    along,
    chain,
    cross,
)
from ssvm_dsl.compiler import ground
from ssvm_dsl.compiler.prepared import ShapeCache
from ssvm_dsl.errors import PluginError, SsvmError
from ssvm_dsl.lang.model import as_model
from ssvm_dsl.learning.estimator import clone
from ssvm_dsl.learning.estimators.fitted import Fitted
from ssvm_dsl.registry import register
from toy_backends import registered


class Tagged(Model):
    """Masks, given scores, a rule, and a bound that comes with each example."""

    T = Dim()
    x = Input(T, 2)
    prior = Input(T, 3)
    mask = Input(T, 3)
    most = Input(1)
    y = Label(T, 3, allowed=mask)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    known = Given(y, prior)
    never = Forbid(chain(y), [(0, 2)])
    few = AtMost(most, y.is_(1))
    loss = Hamming(y)


class Graph(Model):
    """Edges, and features of edges whose weights cannot be negative."""

    N, M = Dim(), Dim()
    x = Input(N, 2)
    e = Edges(M, over=N)
    f = Input(M, 2)
    y = Label(N, 2)
    node = Factor(y, features=x)
    edge = Factor(along(y, e), features=f, form=POTTS, nonneg=True)
    loss = Hamming(y)


Word = tagger(2, "abc")


def tagged(rng, n):
    mask = (rng.random((n, 3)) < 0.8).astype(float)
    mask[:, 0] = 1.0
    mask[:, 2] = 0.0 if rng.random() < 0.5 else mask[:, 2]
    most = np.array([float(rng.integers(3))])
    return {"x": rng.normal(size=(n, 2)), "prior": rng.normal(size=(n, 3)), "mask": mask, "most": most}


def graph(rng, n):
    edges = np.array([(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.6]).reshape(-1, 2)
    f = rng.random((len(edges), 2)) - (0.5 if rng.random() < 0.3 else 0.0)
    return {"x": rng.normal(size=(n, 2)), "e": edges.astype(int), "f": f}


def word(rng, n):
    return rng.normal(size=(n, 2))


def estimator(model, X, Y, rng):
    """Return an estimator with random weights that has met no shapes."""
    grounded = ground(model, X, Y)
    svm = StructuredSVM(model, n_threads=1)
    coef = np.maximum(rng.normal(size=grounded.parameters.dim), grounded.parameters.lower_bound)
    svm.fitted_ = Fitted(coef, grounded.parameters.blocks, grounded.fitted)
    return svm


def unmet(model):
    """Return an equal model that has met no shapes."""
    return as_model(copy.copy(model.declaration))


def fresh(svm):
    """Return a copy of an estimator whose model has met no shapes."""
    return copy.copy(svm).set_params(model=unmet(svm.model))


def shapes(model):
    """Return the shapes that a model has met."""
    return model.declaration.lowered.cached(ShapeCache)


def equal(first, second):
    """Whether answers are the same, whatever they are made of."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(equal, first, second))
    return np.array_equal(first, second) if isinstance(first, np.ndarray) else bool(first == second)


def asked(svm, way, X, known):
    """Return an answer, or the error in words."""
    try:
        if way == "kbest":
            return svm.predict_kbest(X, 2, on_missing="none")
        if way == "marginals":
            return svm.predict_marginals(X, on_missing="none")
        if way == "given":
            return svm.predict(X, given=known, on_missing="none")
        if way == "score":
            return svm.best_score(X, known)
        return svm.predict(X, return_bounds=way == "bounds", on_missing="none")
    except SsvmError as err:
        return f"{type(err).__name__}: {err}"


MAKERS = {Tagged: tagged, Graph: graph, Word: word}
WAYS = st.sampled_from(["predict", "bounds", "kbest", "marginals", "given", "score"])
CALLS = st.lists(st.tuples(WAYS, st.lists(st.integers(1, 3), min_size=1, max_size=6)), min_size=2, max_size=5)


@pytest.mark.parametrize("model", MAKERS)
@settings(max_examples=12)
@given(calls=CALLS, seed=st.integers(0, 2**16))
def test_answers_do_not_depend_on_what_was_asked_before(model, calls, seed):
    rng, make = np.random.default_rng(seed), MAKERS[model]
    first = make(rng, 3)
    svm = estimator(model, [first], [np.zeros(3, int) if model is not Word else ["a"] * 3], rng)
    for way, sizes in calls:
        X = [make(rng, n) for n in sizes]
        known = [[("abc" if model is Word else range(3))[0]] * n for n in sizes]
        assert equal(asked(svm, way, X, known), asked(fresh(svm), way, X, known)), (way, sizes)


@pytest.mark.parametrize("model", model_table.TEMPLATES)
def test_every_template_is_filled_anew(model):
    X, Y, _, _ = model_table.make_data(model, 6, seed=3, ragged=(2, 3))
    svm = estimator(model, X, Y, np.random.default_rng(0))
    for way in ("predict", "predict", "score"):
        for x, y in zip(X, Y, strict=True):
            assert equal(asked(svm, way, [x], [y]), asked(fresh(svm), way, [x], [y]))
    assert equal(asked(svm, "bounds", X, Y), asked(fresh(svm), "bounds", X, Y))


@pytest.mark.parametrize(("model", "example"), [(model_table.Word, np.ones((8, 4))), (model_table.Scene, np.ones(5))])
def test_a_prediction_of_a_known_shape_is_few_python_calls(model, example):
    """The benchmark's models take 204 and 235 calls; these have a few factors more."""
    shapes = {block.name: block.shape for block in ground(model, [example], whole=True).parameters.blocks}
    svm = StructuredSVM.from_weights(model, {name: np.ones(shape) for name, shape in shapes.items()}, n_threads=1)
    for _ in range(3):  # what is imported and compiled for it is there then
        svm.predict([example])
    _, n = calls_of(lambda: svm.predict([example]), ("call",))
    assert n <= 290


class Hidden(Model):
    """A latent state of each position, which is completed in rounds."""

    T = Dim()
    x = Input(T, 2)
    y = Label(T, 2)
    h = Latent(T, 2)
    emit = Factor(y, features=x)
    seen = Factor(h, features=x)
    both = Factor(cross(y, h))
    trans = Factor(chain(y))
    loss = Hamming(y)


TRAINERS = {"fit": "bcfw", "partial_fit": "subgradient"}


def some(rng, model, n):
    """Return examples with labels that can be learnt from."""
    X = [MAKERS.get(model, word)(rng, int(k)) for k in rng.integers(1, 4, size=n)]
    lengths = [len(x["x"]) if isinstance(x, dict) else len(x) for x in X]
    if model is Word:
        return X, [["abc"[k] for k in rng.integers(3, size=m)] for m in lengths]
    return X, [rng.integers(2 if model in (Graph, Hidden) else 1, size=m) for m in lengths]


def trained(svm, X, Y, way):
    """Return what a fit, or a step of a stream, learns from examples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(svm, way)(X, Y)
    report = svm.report_
    return [svm.coef_.copy(), report.primal, report.dual, report.n_oracle_calls]


def test_copies_of_a_model_have_met_nothing_and_pickles_are_not_larger():
    rng = np.random.default_rng(0)
    svm = fresh(estimator(Word, [word(rng, 3)], [["a"] * 3], rng))
    size = len(pickle.dumps(svm))
    X = [word(rng, 4)]
    expected = svm.predict(X)
    assert len(shapes(svm.model)) == 1
    assert len(pickle.dumps(svm)) == size
    other = pickle.loads(pickle.dumps(svm))
    assert len(shapes(other.model)) == 0
    assert equal(other.predict(X), expected)
    for other in (copy.deepcopy(svm), clone(svm)):
        assert other.model is svm.model
    grounded = ground(svm.model, X)
    assert len(pickle.dumps(grounded)) < 20_000
    assert equal(pickle.loads(pickle.dumps(grounded)).parameters.scores(svm.coef_).node,
                 grounded.parameters.scores(svm.coef_).node)


def test_other_settings_and_weights_are_heard_of():
    rng = np.random.default_rng(0)
    svm, X = estimator(Word, [word(rng, 3)], [["a"] * 3], rng), [word(rng, 4)]
    before = svm.predict(X, return_bounds=True)
    svm.coef_ = -svm.coef_
    after = svm.predict(X, return_bounds=True)
    assert equal(after, fresh(svm).predict(X, return_bounds=True))
    assert not equal(before[1], after[1])
    svm.set_params(backend="icm", backend_options={"restarts": 0})
    assert np.isnan(svm.predict(X, return_bounds=True)[2]).all()
    svm.set_params(backend="brute-force", backend_options=None)
    assert equal(svm.predict(X), fresh(svm).predict(X))


@pytest.mark.parametrize(("promises", "opened"), [({}, 1), ({"deterministic": False}, 3), ({"thread_safe": False}, 3)])
def test_sessions_stay_open_where_answers_depend_on_nothing_before(promises, opened):
    rng = np.random.default_rng(0)
    svm = fresh(estimator(Word, [word(rng, 3)], [["a"] * 3], rng)).set_params(backend="counting")
    Counted.opened = 0
    with registered(Counting(**promises)):
        for _ in range(3):
            svm.predict([word(rng, 4)])
        assert Counted.opened == opened
        register(Counting(**promises), "toys")  # a cell that is run again
        svm.predict([word(rng, 4)])
        assert Counted.opened == opened + 1
    with pytest.raises(PluginError):
        svm.predict([word(rng, 4)])


@pytest.mark.parametrize(("model", "way", "opened"), [(Word, "fit", 1), (Word, "partial_fit", 1), (Hidden, "fit", 2)])
def test_fits_of_known_shapes_open_no_session_again(model, way, opened):
    """A latent fit has one for training and one to complete, for all its rounds and restarts."""
    X, Y = some(np.random.default_rng(1), model, 12)
    options = {"latent_options": {"rounds": 4, "restarts": 2}} if model is Hidden else {}
    svm = StructuredSVM(
        model, backend="counting", max_passes=4, n_threads=1, random_state=0, trainer=TRAINERS[way], **options
    )
    Counted.opened = 0
    with registered(Counting()):
        trained(svm, X, Y, way)
        assert Counted.opened == opened
        if model is Word:
            trained(svm, [-x for x in X], Y, way)
            trained(clone(svm).set_params(C=0.3), X, Y, way)  # another estimator of the same model
            assert Counted.opened == opened


def test_one_estimator_is_used_from_several_threads():
    rng = np.random.default_rng(0)
    svm = estimator(Word, [word(rng, 3)], [["a"] * 3], rng)
    X = [word(rng, int(n)) for n in rng.integers(1, 6, size=60)]
    expected = [fresh(svm).predict([x]) for x in X]
    with ThreadPoolExecutor(4) as pool:
        assert equal(list(pool.map(lambda x: svm.predict([x]), X)), expected)


@pytest.mark.parametrize(("model", "way"), [(Word, "fit"), (Graph, "fit"), (Hidden, "fit"), (Word, "partial_fit")])
@settings(max_examples=5)
@given(seed=st.integers(0, 2**16), batches=st.lists(st.integers(0, 2), min_size=3, max_size=5))
def test_fits_do_not_depend_on_what_was_met_before(model, way, seed, batches):
    rng = np.random.default_rng(seed)
    data = [some(rng, model, n) for n in (4, 6, 5)]
    options = {"max_passes": 6, "random_state": 0, "n_threads": 1, "trainer": TRAINERS[way]}
    options |= {"latent_options": {"rounds": 2}} if model is Hidden else {}
    kept, forgetful = StructuredSVM(model, **options), StructuredSVM(model, **options)
    for which in batches:
        X, Y = data[which]
        forgetful.set_params(model=unmet(model))
        assert equal(trained(kept, X, Y, way), trained(forgetful, X, Y, way))
        assert equal(kept.predict(X), fresh(kept).predict(X))


def test_a_model_that_is_changed_is_laid_out_again():
    rng = np.random.default_rng(3)
    X, Y = some(rng, Word, 5)
    svm = StructuredSVM(Word, max_passes=4, n_threads=1, random_state=0)
    trained(svm, X, Y, "fit")

    class Scaled(Word):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, "abc")
        emit = Factor(y, features=Standardized(x))
        trans = Factor(chain(y))
        loss = Hamming(y)

    for _ in range(2):
        svm.set_params(model=Scaled)
        found = trained(svm, X, Y, "fit")
        assert equal(found, trained(StructuredSVM(Scaled, max_passes=4, n_threads=1, random_state=0), X, Y, "fit"))
        X = [3.0 * x for x in X]  # what a feature learnt from others does not stay
