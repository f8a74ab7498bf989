"""Factors and losses of several pointers: against every tree of small sentences, for predictions and for training."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from ssvm_dsl import (
    AllDifferent,
    Arborescence,
    Cost,
    Dim,
    Edges,
    Factor,
    Feature,
    Forbid,
    Given,
    Hamming,
    Input,
    Label,
    Model,
    StructuredSVM,
    along,
    chain,
    cliques,
    grandparents,
    ground,
    pairs,
    siblings,
)
from ssvm_dsl.errors import DataError, ModelError
from ssvm_dsl.ir import Guarantee
from ssvm_dsl.plugin_api import TrainerSpec
from ssvm_dsl.registry import registry
from structures.trees_by_hand import all_trees


def apart(first, second, target):
    return np.stack([np.abs(second - first) == 1, target > first], axis=1).astype(float)


class Trees(Model):
    T, M = Dim(), Dim()
    x = Input(T, T, 2)
    e = Edges(M, over=T, arity=4)
    f = Input(M, 2)
    head = Label(T, over=T, null=True)
    arc = Factor(head, features=x)
    root = Factor(head.is_(None))
    both = Factor(siblings(head), features=Feature(apart, siblings(head), width=2))
    above = Factor(grandparents(head))
    far = Factor(grandparents(head), features=Feature(apart, grandparents(head), width=2))
    next_ = Factor(pairs(head, T))
    moved = Factor(pairs(head, T, T), features=x)
    listed = Factor(along(head, e), features=f)
    tree = Arborescence(head, single_root=True)
    loss = Hamming(head) + 0.5 * Cost(siblings(head), "wrong")


class Order(Model):
    """A tour of four places: what follows what, the same and different weights for each place, and prices."""

    I, J = Dim(4), Dim(4)
    x = Input(I, J, 2)
    y = Label(I, over=J, null=True)
    fit = Factor(y, features=x)
    own = Factor(y, features=x, per=I)
    each = Factor(y, per=(I, J))
    step = Factor(pairs(y, I, J))
    few = Factor(cliques(y, [(0, 5, 10), (1, 7, 12)]), per="edge")
    order = AllDifferent(y)
    loss = Cost(y, 1.0 + np.add.outer(np.arange(5), 2.0 * np.arange(5)) * (1 - np.eye(5)) - np.eye(5), normalize=True)


class Square(Model):
    T = Dim(3)
    x = Input(T, T, 1)
    y = Label(T, over=T)
    rows = Factor(y, features=x, per=T)
    places = Factor(pairs(y, T), per=T)
    loss = Cost(y, range(3))


def test_examples_without_pointers_cost_nothing():
    class Grades(Model):
        I, J = Dim(), Dim(3)
        x = Input(I, J, 2)
        y = Label(I, over=J)
        arc = Factor(y, features=x)
        loss = Cost(y, range(3))

    svm = StructuredSVM.from_weights(Grades, {"arc": np.ones(2)})
    none = [np.zeros((0, 3, 2))] * 2, [np.zeros(0, dtype=int)] * 2
    assert [len(y) for y in svm.predict(none[0])] == [0, 0]
    assert svm.score(*none) == 1.0


def phi(x, heads):
    """The features of a labelling of ``Trees``, by weights."""
    n, h = len(heads), list(heads)
    out = {name: np.zeros(2) for name in ("arc", "both", "far", "moved", "listed")} | {"root": 0.0, "above": 0.0}
    out["next_"] = float(sum(a == b >= 0 for a, b in itertools.pairwise(h)))
    for i in range(n):
        out["root"] += h[i] < 0
        if h[i] < 0:
            continue
        out["arc"] += x["x"][i, h[i]]
        for k in range(i + 1, n):
            if h[k] == h[i]:
                out["both"] += [k - i == 1, h[i] > i]
        if h[h[i]] >= 0 and h[i] != i:
            out["above"] += 1
            out["far"] += [abs(h[i] - i) == 1, h[h[i]] > i]
        if i and h[i] == h[i - 1] + 1 and h[i - 1] >= 0:
            out["moved"] += x["x"][i, h[i]]
    for (a, b, c, d), features in zip(x["e"], x["f"], strict=True):
        out["listed"] += features * (h[a] == b and h[c] == d)
    return out


def score(w, features):
    return sum(float(np.sum(np.asarray(w[name]) * features[name])) for name in features)


def lost(truth, heads):
    both = [{(i, k) for i, k in itertools.combinations(range(len(h)), 2) if h[i] == h[k] >= 0} for h in (truth, heads)]
    return float(np.sum(np.asarray(truth) != heads)) + 0.5 * len(both[0] ^ both[1])


def sentence(rng, n):
    arcs = rng.integers(0, n, (4, 4))
    arcs = arcs[(arcs[:, :2] != arcs[:, 2:]).any(axis=1)]
    return {"x": rng.normal(size=(n, n, 2)), "e": arcs, "f": rng.normal(size=(len(arcs), 2))}


def trees(n):
    return [np.array(heads[1:]) - 1 for heads in all_trees(n, True, False)]


def weights(rng):
    two, one = ("arc", "both", "far", "moved", "listed"), ("root", "above", "next_")
    return {name: 2.0 * rng.normal(size=2) for name in two} | {name: 2.0 * rng.normal() for name in one}


@pytest.mark.parametrize("seed", range(3))
def test_the_best_tree_of_all(seed):
    rng = np.random.default_rng(seed)
    w, X = weights(rng), [sentence(rng, n) for n in (1, 2, 3, 4, 4)]
    best = [max(score(w, phi(x, heads)) for heads in trees(len(x["x"]))) for x in X]
    exact = StructuredSVM.from_weights(Trees, w, backend="decompose")
    for x, top, heads in zip(X, best, exact.predict(X), strict=True):
        assert score(w, phi(x, heads)) == pytest.approx(top, abs=1e-9)
    options = {"max_nodes": 1, "max_iterations": 3}
    loose = StructuredSVM.from_weights(Trees, w, backend="decompose", guarantee="bound", backend_options=options)
    found, _, bounds = loose.predict(X, return_bounds=True)
    for x, top, heads, bound in zip(X, best, found, bounds, strict=True):
        assert score(w, phi(x, heads)) <= top + 1e-9 <= bound + 1e-6


def test_losses_by_hand():
    rng = np.random.default_rng(0)
    X = [sentence(rng, n) for n in (3, 4)]
    for _ in range(5):
        one, other = ([trees(n)[rng.integers(len(trees(n)))] for n in (3, 4)] for _ in range(2))
        grounded = ground(Trees, X, one)
        states = grounded.layout.encode(other)[0]
        assert grounded.loss.value(grounded.program, states).tolist() == [*map(lost, one, other)]
    table = np.array(Order.loss.prices())
    one, other = [[0, 1, -1, 3]], [[2, 0, 3, -1]]
    grounded = ground(Order, [np.zeros((4, 4, 2))], one)
    value = sum(table[a, b] for a, b in zip(one[0], other[0], strict=True)) / 4
    assert grounded.loss.value(grounded.program, grounded.layout.encode(other)[0])[0] == pytest.approx(value)
    grounded = ground(Square, [np.zeros((3, 3, 1))], [[0, None, 2]])
    assert grounded.loss.value(grounded.program, grounded.layout.encode([[2, 0, 1]])[0]).tolist() == [3.0]


def test_weights_of_places_and_of_single_factors():
    rng = np.random.default_rng(1)
    w = {"fit": rng.normal(size=2), "own": rng.normal(size=(4, 2)), "each": rng.normal(size=(4, 4)),
         "step": 1.5, "few": np.array([3.0, -2.0])}  # fmt: skip
    svm = StructuredSVM.from_weights(Order, w, backend="decompose")
    X = [rng.normal(size=(4, 4, 2)) for _ in range(4)]

    def worth(x, y):
        there = {4 * i + j for i, j in enumerate(y) if j >= 0}
        total = sum(x[i, j] @ (w["fit"] + w["own"][i]) + w["each"][i, j] for i, j in enumerate(y) if j >= 0)
        total += 1.5 * sum(b == a + 1 and a >= 0 for a, b in itertools.pairwise(y))
        return total + 3.0 * (there >= {0, 5, 10}) - 2.0 * (there >= {1, 7, 12})

    every = [y for y in itertools.product(range(-1, 4), repeat=4) if max(map(y.count, range(4))) < 2]
    for x, y in zip(X, svm.predict(X), strict=True):
        assert worth(x, y) == pytest.approx(max(worth(x, one) for one in every))
    assert svm.weights_[Order.each].shape == (4, 4)
    for model in (Trees, Order, Square):
        made = Model.from_json(model.to_json(), trusted=[f"{apart.__module__}:apart"])
        assert made.declaration == model.declaration
        assert str(made) == str(model)


def learnt(n=6):
    rng = np.random.default_rng(5)
    X = [sentence(rng, int(rng.integers(2, 4))) for _ in range(n)]
    w = weights(rng)
    Y = [max(trees(len(x["x"])), key=lambda heads, x=x: score(w, phi(x, heads)) + rng.normal()) for x in X]
    return X, Y


def objective(svm, X, Y):
    """The objective at the weights of a fit, over all trees."""
    w = {name: svm.weights_[getattr(Trees, name)] for name in phi(X[0], Y[0])}
    risks = [
        max(lost(y, heads) + score(w, phi(x, heads)) for heads in trees(len(y))) - score(w, phi(x, y))
        for x, y in zip(X, Y, strict=True)
    ]
    return 0.5 * svm.coef_ @ svm.coef_ + svm.C * sum(risks)


BOUNDING = [
    spec.name
    for spec in registry().specs(TrainerSpec)
    if "margin" in spec.needs.risks
    and spec.needs.guarantee is not Guarantee.EXACT
    and not (spec.needs.factored or spec.needs.asks_marginals)
]


@pytest.mark.parametrize("trainer", BOUNDING)
def test_training_on_bounds_and_on_answers(trainer):
    X, Y = learnt()
    options = {"C": 0.3, "trainer": trainer, "backend": "decompose", "tol": 1e-3, "random_state": 0, "max_passes": 30}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loose = StructuredSVM(
            Trees, guarantee="bound", backend_options={"max_nodes": 1, "max_iterations": 4}, **options
        ).fit(X, Y)
        exact = StructuredSVM(Trees, **options).fit(X, Y)
    best = StructuredSVM(Trees, **options | {"trainer": "one-slack"}).fit(X, Y).report_
    assert exact.report_.primal == pytest.approx(objective(exact, X, Y), rel=1e-6)
    assert objective(loose, X, Y) <= loose.report_.primal + 1e-6
    for report in (loose.report_, exact.report_):
        assert not report.dual > best.primal + 1e-6
        assert report.primal >= best.dual - 1e-6


def test_mistakes():
    with pytest.raises(ModelError) as caught:

        class Bad(Model):
            T, J, M = Dim(), Dim(), Dim()
            x = Input(T, J, 2)
            e = Edges(M, over=T, arity=3)
            y = Label(T, over=J)
            u = Label(T, 3)
            one = Factor(chain(y))
            two = Factor(grandparents(y))
            three = Factor(siblings(u))
            four = Factor(pairs(y, J))
            five = Factor(along(y, e))
            six = Factor(siblings(y), form=[[[0, 0], [0, 1]]])
            seven = Factor(y, per=T)
            eight = Given(siblings(y), scores=np.zeros((2, 2)))
            nine = Forbid(siblings(y), [(1, 1)])
            ten = Factor(siblings(y), features=x)
            loss = Cost(y, range(3))

    text = str(caught.value)
    for part in (
        "one: chain: not of a pointer label, which has y, pairs, cliques, along, siblings, grandparents",
        "two: grandparents: pointers to pointers need one axis: Label(T, over=T)",
        "three: siblings: a pointer label of one axis, as Label(T, over=T), got u",
        "four: pairs: a pointer points to one position; name its own axis, T",
        "five: along: two pointers of one label are four ends: Edges(M, over=(I, J, I, J), arity=4)",
        "six: a factor of a pointer label scores where all its pointers are: no form, weights or JointFeature",
        "seven: per: the axis must be fixed",
        "eight: Given: of several pointers there are no given scores",
        "nine: Forbid: of several pointers nothing is ruled out",
        "ten: features: they have the axis T",
        "loss: Cost: the matrix needs a fixed axis to point to, e.g. Dim(6), J is ragged",
    ):
        assert part in text, part
    rng, good = np.random.default_rng(0), sentence(np.random.default_rng(0), 3)
    for arcs, found in (([[0, 1, 0, 1]], r"edge \(0, 1, 0, 1\) at row 0"), ([[0, 1, 2, 3]], r"edge \(0, 1, 2, 3\)")):
        wrong = good | {"e": np.array(arcs), "f": rng.normal(size=(1, 2))}
        with pytest.raises(DataError, match=rf"different pointers, each a position .* in 0..2 \(T=3\), found {found}"):
            ground(Trees, [good, wrong])
