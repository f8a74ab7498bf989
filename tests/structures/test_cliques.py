"""Associative factors over many variables: auxiliary variables instead of tables, against enumeration and tables."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from ssvm_dsl import (
    POTTS,
    Dim,
    Factor,
    Feature,
    Hamming,
    Input,
    Label,
    Latent,
    Model,
    StructuredSVM,
    ZeroOne,
    chain,
    cliques,
    cross,
    estimate,
    ground,
)
from ssvm_dsl.errors import DataError, ModelError, NoBackendError
from ssvm_dsl.io.networkx_graph import to_networkx
from ssvm_dsl.requirements.properties import guaranteed_properties

SETS = ((0, 1, 2, 3), (1, 3, 4, 5))


def model(k, form=POTTS):
    class Sets(Model):
        T = Dim(6)
        x = Input(T, 2)
        y = Label(T, k)
        unary = Factor(y, features=x)
        step = Factor(chain(y), form=POTTS, nonneg=True)
        alike = Factor(cliques(y, SETS), form=form, nonneg=True)
        loss = Hamming(y)

    return Sets


def all_equal(k, n):
    """The form POTTS as an array: factors with it have tables."""
    return np.array([len(set(states)) == 1 for states in product(range(k), repeat=n)], float).reshape(1, *(k,) * n)


def features(x, y, k):
    unary = np.zeros((k, 2))
    for s, row in zip(y, x, strict=True):
        unary[s] += row
    steps = sum(a == b for a, b in pairwise(y))
    return np.array([*unary.ravel(), steps, sum(len({y[i] for i in one}) == 1 for one in SETS)])


def drawn(k, seed, n=3):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(6, 2)) for _ in range(n)]
    w = np.array([*rng.normal(size=2 * k), rng.random(), 3.0 * rng.random()])
    given = {"unary": w[:-2].reshape(k, 2), "step": w[-2], "alike": w[-1]}
    return X, w, StructuredSVM.from_weights(model(k), given)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_exact_backends_find_the_best_labelling(k):
    exact = ["combi", "ilp", "graph-cut"][: 2 if k > 2 else 3]
    for seed in range(3):
        X, w, svm = drawn(k, seed, n=2)
        known = [[0] + [None] * 5] * len(X)
        for name in exact:
            svm.set_params(backend=name)
            for x, free, fixed in zip(X, svm.predict(X), svm.predict(X, given=known), strict=True):
                every = {y: w @ features(x, y, k) for y in product(range(k), repeat=6)}
                assert every[tuple(free)] == pytest.approx(max(every.values()))
                assert every[tuple(fixed)] == pytest.approx(max(s for y, s in every.items() if y[0] == 0))
        labels = svm.predict(X)
        assert svm.best_score(X, labels) == pytest.approx(svm.best_score(X))


def test_two_states_are_one_minimum_cut_of_any_number_of_variables():
    class Regions(Model):
        T = Dim(100)
        x = Input(T, 1)
        y = Label(T, 2)
        unary = Factor(y.is_(1), features=x)
        halves = Factor(cliques(y, [range(50), range(50, 100)]), form=POTTS, nonneg=True, per="edge")
        loss = Hamming(y)

    rng = np.random.default_rng(0)
    X = [rng.normal(size=(100, 1)) for _ in range(4)]
    made = ground(Regions, X)
    assert {"submodular", "binary", "metric"} <= guaranteed_properties(made.parameters)
    assert made.program.max_arity == 2
    told = estimate(Regions, X).factors[1]
    assert told.table_bytes == made.parameters.scores(np.zeros(3)).pool.nbytes
    svm = StructuredSVM.from_weights(Regions, {"unary": [1.0], "halves": [3.0, 40.0]}, backend="graph-cut")
    for x, y in zip(X, svm.predict(X), strict=True):
        for half, weight in ((slice(0, 50), 3.0), (slice(50, 100), 40.0)):
            one, all_ones = x[half, 0], x[half, 0].sum() + weight
            best = {tuple(one > 0): np.maximum(one, 0).sum(), (True,) * 50: all_ones, (False,) * 50: weight}
            assert best[tuple(y[half] == 1)] == pytest.approx(max(best.values()))


@pytest.mark.parametrize(("name", "swap"), [("alpha-expansion", False), ("alpha-beta-swap", True)])
def test_no_move_under_the_potentials_themselves_is_better(name, swap):
    for seed in range(12):
        X, w, svm = drawn(3, seed, n=1)
        given = None if seed % 3 else [[2] + [None] * 5]
        svm.set_params(backend=name)
        (y,) = svm.predict(X, given=given)
        score = w @ features(X[0], y, 3)
        for alpha, beta in [(0, 1), (0, 2), (1, 2)] if swap else [(a, None) for a in range(3)]:
            may = [s in (alpha, beta) if swap else s != alpha for s in y]
            may[0] = may[0] and given is None
            for picked in product([False, True], repeat=sum(may)):
                other, where = y.copy(), np.flatnonzero(may)
                if swap:
                    other[where] = np.where(picked, alpha, beta)
                else:
                    other[where[list(picked)]] = alpha
                assert w @ features(X[0], other, 3) <= score + 1e-9
        assert svm.best_score(X, [y])[0] == pytest.approx(score)


@pytest.mark.parametrize(("k", "trainer"), [(2, "one-slack"), (3, "one-slack"), (2, "subgradient")])
def test_training_is_that_with_tables(k, trainer):
    X, _, true = drawn(k, 20, n=8)
    Y = [np.asarray(y) for y in true.set_params(backend="combi").predict(X)]
    Y[0] = np.array([0, 1, 0, 1, 0, 1])
    options = {"trainer": trainer, "C": 0.3, "backend": "combi", "random_state": 0}
    options |= {"tol": 1e-6} if trainer == "one-slack" else {"max_passes": 20}
    ours, tables = StructuredSVM(model(k), **options), StructuredSVM(model(k, all_equal(k, 4)), **options)
    ours.fit(X, Y), tables.fit(X, Y)
    if trainer == "one-slack":
        assert ours.report_.certified
        assert ours.report_.primal == pytest.approx(tables.report_.primal, rel=1e-5)
        assert ours.report_.dual == pytest.approx(tables.report_.dual, rel=1e-5)
    else:
        assert ours.weights_["alike"] > 0.0
        assert (
            ours.report_.primal
            < 1.2 * StructuredSVM(model(k), **options | {"trainer": "bcfw"}).fit(X, Y).report_.primal
        )
    truth = ground(model(k), X, Y)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        out = np.zeros(truth.parameters.dim)
        truth.parameters.accumulate(
            truth.truth[truth.program.var_ptr[i] : truth.program.var_ptr[i + 1]], np.ones(1), out, np.array([i])
        )
        np.testing.assert_allclose(out, features(x, y, k))


def test_labels_that_are_not_known_leave_their_sets_out():
    X, _, svm = drawn(3, 5)
    Y = [[0, 0, 0, 0, None, 1], [1] * 6, [2, 2, 2, 2, 2, 0]]
    made = ground(svm.model, X, Y)
    members = made.program.groups[-1]
    assert np.diff(members.ptr).tolist() == [4, 8, 8]
    svm = StructuredSVM(svm.model, C=1.0, random_state=0).fit(X, Y)
    assert svm.report_.certified


def sizes(c):
    return np.array([[4.0], [1.0]])


def test_features_are_of_each_set_and_not_negative():
    class Scaled(Model):
        T = Dim(6)
        c = Input(2)
        y = Label(T, 3)
        shared = Factor(cliques(y, SETS), form=POTTS, nonneg=True, features=c)
        sets = cliques(y, SETS)
        own = Factor(sets, form=POTTS, nonneg=True, features=Feature(sizes, sets, width=1))
        loss = Hamming(y)

    made = ground(Scaled, [np.array([1.0, 2.0])], [[1, 1, 1, 1, 1, 2]])
    assert made.parameters.dot(np.array([3.0, 5.0, 0.1]), made.truth) == pytest.approx(3.0 + 10.0 + 0.4)
    w = np.array([1.0, 0.0, 0.5])
    for labels, score in [([1] * 6, 2 * 1 + 0.5 * 5), ([0, 1, 0, 1, 1, 1], 1 + 0.5), ([0, 1, 2, 0, 1, 2], 0.0)]:
        made = ground(Scaled, [np.array([1.0, 2.0])], [labels])
        assert made.parameters.dot(w, made.truth) == pytest.approx(score)
    with pytest.raises(DataError, match=r"input 'c', example 1: expected no number below 0, found -2"):
        ground(Scaled, [np.ones(2), np.array([1.0, -2.0])])


def test_what_auxiliary_variables_would_falsify_is_refused():
    X, _, svm = drawn(2, 1)
    Y = svm.set_params(backend="combi").predict(X)
    svm.set_params(backend="auto")
    for ask in (
        svm.predict_marginals,
        lambda X: svm.predict_kbest(X, 2),
        StructuredSVM(svm.model, risk="log", trainer="lbfgs").fit,
    ):
        with pytest.raises(NoBackendError, match=r"(?s)alike: its auxiliary variables .*form=\[\[...\]\]"):
            ask(X, *([Y] if ask.__name__ == "fit" else []))
    with pytest.raises(NoBackendError, match="auxiliary"):
        StructuredSVM(type("Whole", (svm.model,), {"loss": ZeroOne(svm.model.y)}), backend="ilp").fit(X, Y)
    with pytest.raises(ModelError, match=r"at most 30 positions, got one of 40 \(any number with form=POTTS"):
        type(
            "Free",
            (Model,),
            {"T": (T := Dim(40)), "y": (y := Label(T, 2)), "f": Factor(cliques(y, [range(40)]), POTTS)},
        )


def test_long_chains_latent_sets_files_and_graphs(tmp_path):
    class Long(Model):
        T = Dim()
        x = Input(T, 2)
        h = Latent(T, 3)
        y = Label(2)
        unary = Factor(h, features=x)
        runs = Factor(chain(h, order=3), form=POTTS, nonneg=True)
        joint = Factor(cross(h, y))
        loss = Hamming(y)

    rng = np.random.default_rng(0)
    X, Y = [rng.normal(size=(n, 2)) for n in (3, 5, 6)], [0, 1, 1]
    svm = StructuredSVM(Long, C=1.0, random_state=0).fit(X, Y)
    assert list(np.diff(svm.report_.latent_objectives) <= 0) == [True] * (len(svm.report_.latent_objectives) - 1)
    svm.save(tmp_path / "long.npz")
    again = StructuredSVM.load(tmp_path / "long.npz")
    assert again.predict(X) == svm.predict(X)
    assert [len(h) for h in again.latents(X)] == [3, 5, 6]
    assert Model.from_json(Long.to_json()).declaration == Long.declaration
    graph = to_networkx(ground(Long, X), example=1)
    assert len([node for node, kind in graph.nodes(data="kind") if kind == "variable"]) == 5 + 1 + 2
    assert "runs" in to_networkx(Long).nodes
