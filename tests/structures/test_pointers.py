"""Pointer labels: what they compile to, how they read, and that what is learnt is the structure they declare."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

from ssvm_dsl import (
    AllDifferent,
    Arborescence,
    Cost,
    Dim,
    Factor,
    Feature,
    Given,
    Hamming,
    Input,
    Label,
    Model,
    ProjectiveTree,
    Standardized,
    StructuredSVM,
    chain,
    estimate,
    ground,
)
from ssvm_dsl.errors import DataError, ModelError
from ssvm_dsl.scoring import Scorer
from structures.trees_by_hand import all_trees, tree_score


class Heads(Model):
    T = Dim()
    x = Input(T, T, 2)
    r = Input(T, 1)
    head = Label(T, over=T, null=True)
    arc = Factor(head, features=x)
    root = Factor(head.is_(None), features=r)
    tree = Arborescence(head, single_root=True)
    loss = Hamming(head)


class Projective(Heads):
    tree = ProjectiveTree(Heads.head)


class Order(Model):
    T = Dim()
    x = Input(T, T, 2)
    y = Label(T, over=T)
    fit = Factor(y, features=Standardized(x))
    order = AllDifferent(y)
    loss = Hamming(y, normalize=True)


class Plain(Order):
    fit = Factor(Order.y, features=Order.x)
    loss = Hamming(Order.y)


class Nearest(Model):
    I, J = Dim(), Dim()
    x = Input(I, J, 2)
    y = Label(I, over=J, null=True)
    fit = Factor(y, features=x)
    loss = Hamming(y)


WEIGHTS = np.array([2.0, -1.0])


def sentences(rng, n, single=True, projective=False):
    """Random sentences and their best trees for known weights."""
    X, Y = [], []
    for _ in range(n):
        t = int(rng.integers(1, 5))
        one = {"x": rng.normal(size=(t, t, 2)), "r": rng.normal(size=(t, 1))}
        w = np.full((t + 1, t + 1), -np.inf)
        w[1:, 1:], w[0, 1:] = (one["x"] @ WEIGHTS).T, one["r"][:, 0]
        best = max(all_trees(t, single, projective), key=lambda heads: tree_score(w, heads))
        X.append(one)
        Y.append(np.array(best[1:]) - 1)
    return X, Y


def test_trees_are_learnt():
    X, Y = sentences(np.random.default_rng(0), 15)
    svm = StructuredSVM(Heads, C=100.0, max_passes=300, backend="arborescence").fit(X, Y)
    assert svm.score(X, Y) == 1.0
    assert all(np.array_equal(mine, right) for mine, right in zip(svm.predict(X), Y))


def test_every_backend_finds_the_same_heads():
    rng = np.random.default_rng(1)
    for model, backend in ((Heads, "arborescence"), (Projective, "eisner")):
        X, Y = sentences(rng, 6, single=model is Heads, projective=model is Projective)
        X, Y = [x for x, y in zip(X, Y) if len(y) < 4], [y for y in Y if len(y) < 4]
        fits = [StructuredSVM(model, max_passes=30, backend=name).fit(X, Y) for name in (backend, "brute-force")]
        assert fits[0].report_.primal == pytest.approx(fits[1].report_.primal, rel=0.05)
        np.testing.assert_allclose(fits[0].score(X, Y), fits[1].score(X, Y), atol=0.2)


def test_permutations_are_learnt():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, n, 2)) for n in (1, 4, 3, 4, 2)]
    Y = [np.array(max(itertools.permutations(range(len(x))),
                      key=lambda p, s=x @ WEIGHTS: sum(s[t, k] for t, k in enumerate(p)))) for x in X]  # fmt: skip
    svm = StructuredSVM(Order, C=100.0, max_passes=300, backend="assignment").fit(X, Y)
    assert svm.score(X, Y) == 1.0
    assert all(sorted(y.tolist()) == list(range(len(y))) for y in svm.predict(X))


def test_pointers_without_a_structure_point_anywhere_or_nowhere():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, n, 2)) for n in (1, 4, 0, 2)]
    Y = [np.array([s.argmax() if s.max(initial=0.0) > 0 else -1 for s in x @ WEIGHTS]) for x in X]
    svm = StructuredSVM(Nearest, C=100.0, max_passes=300).fit(X, Y)
    assert svm.score(X, Y) == 1.0
    assert svm.predict(X)[2].tolist() == [-1, -1, -1]
    (worth,) = svm.weights_.values()
    for x, found in zip(X, svm.predict_marginals(X)):
        scores = np.column_stack([x @ worth, np.zeros(3)])
        np.testing.assert_allclose(found, np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True), rtol=1e-9)


def of_both(x):
    return x[:, None, :] * x[None, :, :]


def test_a_function_and_given_scores_have_numbers_for_each_pair():
    class Arcs(Model):
        T = Dim()
        x = Input(T, 2)
        score = Input(T, T)
        y = Label(T, over=T)
        both = Factor(y, features=Feature(of_both, T, T, width=2))
        net = Given(y, scores=score)
        loss = Hamming(y)

    rng = np.random.default_rng(1)
    ahead = np.where(np.tri(4, k=-1) + np.eye(4) > 0, rng.normal(size=(4, 4)), -np.inf)
    one = {"x": rng.normal(size=(4, 2)), "score": ahead}
    best = (of_both(one["x"]) @ [1.0, -2.0] + ahead).argmax(axis=1)
    svm = StructuredSVM.from_weights(Arcs, {"both": [1.0, -2.0]})
    assert svm.predict([one])[0].tolist() == best.tolist()
    assert (best <= np.arange(4)).all()
    answers = Scorer(Arcs).answer({"both": [of_both(one["x"]) @ [1.0, -2.0]], "net": [ahead]})
    assert answers.labels[0].tolist() == best.tolist()
    assert Model.from_json(Arcs.to_json(), trusted=[__name__]).declaration == Arcs.declaration


def test_loss_counts_wrong_pointers():
    X, Y = sentences(np.random.default_rng(2), 8)
    grounded = ground(Heads, X, Y)
    other = [(y + 2) % (len(y) + 1) - 1 for y in Y]
    states, *_ = grounded.layout.encode(other)
    lost = grounded.loss.value(grounded.program, states)
    assert lost.tolist() == [float((a != b).sum()) for a, b in zip(Y, other)]
    assert grounded.loss.largest(grounded.program).tolist() == [float(len(y)) for y in Y]
    assert all(np.array_equal(a, b) for a, b in zip(grounded.layout.decode(states), other))
    normal = ground(Order, [np.ones((2, 2, 2)) * [[[1], [2]], [[3], [4]]]], [[1, 0]])
    states, *_ = normal.layout.encode([[0, 0]])
    assert normal.loss.value(normal.program, states).tolist() == [0.5]


def test_marginals_have_a_column_for_nowhere():
    X, Y = sentences(np.random.default_rng(3), 4)
    svm = StructuredSVM(Heads, risk="log", trainer="lbfgs", backend="arborescence").fit(X, Y)
    for x, p in zip(X, svm.predict_marginals(X)):
        assert p.shape == (len(x["x"]), len(x["x"]) + 1)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)


@pytest.mark.parametrize("model", [Heads, Projective, Order, Nearest])
def test_declarations_come_back_from_json_and_pickle(model):
    again = Model.from_json(model.to_json())
    assert again.declaration == model.declaration
    assert str(again) == str(model)
    assert str(pickle.loads(pickle.dumps(again))) == str(model)


def test_how_they_read():
    assert repr(Heads.head) == "Label(T, over=T, null=True)"
    assert repr(Heads.x) == "Input(T, T, 2)"
    assert "head.is_(None)" in str(Heads)
    assert "pointers to T, or nowhere" in str(Heads)
    assert "Arborescence(head, single_root=True): 2 constraints of 6 literals" in str(
        estimate(Heads, [{"x": np.zeros((n, n, 2)), "r": np.zeros((n, 1))} for n in (2, 0)])
    )


def test_mistakes_are_reported_together():
    with pytest.raises(ModelError) as caught:

        class Bad(Model):
            T, J = Dim(), Dim()
            x = Input(T, T, 2)
            z = Input(T, T, T)
            y = Label(T, over=T)
            u = Label(T, 3, over=T)
            v = Label(T, 3)
            w = Label(J, over=T)
            pairs = Factor(chain(y))
            one = Factor(y.is_(1))
            nowhere = Factor(y.is_(None))
            shape = Factor(y, per=T)
            wrong = Factor(v, features=x)
            tree = Arborescence(y)
            plain = AllDifferent(v)
            loss = Cost(y, [[0.0, 1.0], [1.0, 0.0]])

    text = str(caught.value)
    for part in (
        "z: Input: the same Dim is used three times",
        "u: Label: a pointer label has axes, and no states but the positions of over=",
        "pairs: chain: not of a pointer label",
        "one: is_(1): of a pointer label the target is the label itself",
        "nowhere: is_(None): of a pointer label the target is the label itself",
        "shape: per: the axis must be fixed",
        "wrong: features: x has numbers for pairs of positions, v has none",
        "tree: Arborescence: heads are positions of the same axis or none",
        "plain: AllDifferent: a pointer label, such as y = Label(T, over=T), got v",
        "loss: Cost: the matrix needs a fixed axis to point to",
    ):
        assert part in text.replace("Input(T, T, 2)", "x"), part


def test_two_structures_of_the_same_pointers_are_a_mistake():
    with pytest.raises(ModelError, match="second: head is a tree already; pointers have one structure"):

        class Twice(Heads):
            second = AllDifferent(Heads.head)


@pytest.mark.parametrize(
    ("heads", "text"),
    [
        ([0, 2], r"positions in 0..1 \(T=2\), or -1 for nowhere, found 2 at position 1 of T"),
        ([0.5, 0], "found 0.5 at position 0"),
        ([0], r"shape \(T=2\), found shape \(1,\)"),
        ([1, 0], "labels that keep the constraint tree = Arborescence"),
    ],
)
def test_wrong_pointers_name_the_example(heads, text):
    X = [{"x": np.zeros((2, 2, 2)), "r": np.zeros((2, 1))}] * 2
    with pytest.raises(DataError, match=rf"example 1: expected .*{text}"):
        StructuredSVM(Heads).fit(X, [[-1, 0], heads])


def test_sizes_of_pairs_agree():
    with pytest.raises(DataError, match=r"input 'x', example 0: expected size 2 along T .*found size 3"):
        ground(Heads, [{"x": np.zeros((2, 3, 2)), "r": np.zeros((2, 1))}])


def test_known_heads_are_kept_and_unknown_ones_completed():
    X, Y = sentences(np.random.default_rng(0), 8)
    svm = StructuredSVM(Heads, C=100.0, max_passes=100, backend="arborescence").fit(X, Y)
    k = max(range(8), key=lambda i: len(Y[i]))
    other = 1 if Y[k][0] != 1 else 2
    given = [[other] + [None] * (len(y) - 1) if i == k else None for i, y in enumerate(Y)]
    found = svm.predict(X, given=given)
    assert found[k][0] == other
    ground(Heads, X, found)
    hidden = [np.ma.masked_array(y, np.arange(len(y)) == 0) for y in Y]
    assert all(np.array_equal(a[1:], b[1:]) for a, b in zip(svm.complete(X, hidden), Y))


def test_sparse_features_of_pairs():
    class Sparse(Model):
        T = Dim()
        x = Input(T, T, 2, sparse=True)
        y = Label(T, over=T)
        fit = Factor(y, features=x)
        order = AllDifferent(y)
        loss = Hamming(y)

    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, n, 2)) for n in (1, 3, 2)]
    Y = [rng.permutation(len(x)) for x in X]
    rows = [csr_array(x.reshape(-1, 2)) for x in X]
    both = [StructuredSVM(model, C=1.0, max_passes=20, backend="assignment").fit(data, Y)
            for model, data in ((Sparse, rows), (Plain, X))]  # fmt: skip
    np.testing.assert_allclose(both[0].coef_, both[1].coef_, atol=1e-6)
    with pytest.raises(DataError, match="a row for each pair of positions of T: T times T rows, found 5 rows"):
        ground(Sparse, [csr_array(np.ones((5, 2)))])
