"""Relations in the language: predictions and margins against all clusterings and orders, forms of labels, mistakes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ssvm_dsl import (
    Acyclic,
    Dim,
    Equivalence,
    Factor,
    Hamming,
    Input,
    Label,
    LinearOrder,
    Model,
    StructuredSVM,
    Transitive,
    clusters,
    linear_order,
)
from ssvm_dsl.errors import DataError, ModelError


class Coref(Model):
    N = Dim()
    i, j = N.index(2)
    x = Input(N, N, 2)
    same = Label(i, j, 2, where=i < j)
    link = Factor(same[i, j].is_(1), features=x[i, j])
    one = Equivalence(same)
    loss = Hamming(same)


class Mirrored(Coref):
    same = Label(Coref.i, Coref.j, 2, symmetric=True)
    link = Factor(same[Coref.i, Coref.j].is_(1), features=Coref.x[Coref.i, Coref.j], where=Coref.i < Coref.j)
    one = Equivalence(same)
    loss = Hamming(same)


class Whole(Coref):
    same = Label(Coref.i, Coref.j, ["no", "yes"])
    link = Factor(same[Coref.i, Coref.j].is_("yes"), features=Coref.x[Coref.i, Coref.j], where=Coref.i < Coref.j)
    one = Equivalence(same)
    loss = Hamming(same)


class Near(Model):
    N = Dim()
    i, j = N.index(2)
    x = Input(N, N, 2)
    near = Input(N, N)
    same = Label(i, j, 2, where=(i < j) & near[i, j])
    link = Factor(same[i, j].is_(1), features=x[i, j])
    one = Equivalence(same)
    loss = Hamming(same)


class Order(Model):
    N = Dim()
    i, j = N.index(2)
    x = Input(N, N, 2)
    before = Label(i, j, 2, where=i < j)
    link = Factor(before[i, j].is_(1), features=x[i, j])
    rank = LinearOrder(before)
    loss = Hamming(before)


class Converse(Order):
    before = Label(Order.i, Order.j, ["after", "before"], symmetric={"before": "after"})
    link = Factor(before[Order.i, Order.j], features=Order.x[Order.i, Order.j], where=Order.i < Order.j)
    rank = LinearOrder(before)
    loss = Hamming(before)


class Closed(Model):
    N = Dim()
    i, j = N.index(2)
    x = Input(N, N, 2)
    r = Label(i, j, 2, where=i.is_not(j))
    link = Factor(r[i, j].is_(1), features=x[i, j])
    rule = Transitive(r)
    loss = Hamming(r)


class Graph(Closed):
    rule = Acyclic(Closed.r)


WEIGHTS = np.array([1.0, -0.5])


def data(rng, n):
    return rng.normal(size=(n, n, 2))


def clusterings(n):
    """All clusterings, as n x n arrays."""
    found = {tuple(np.equal.outer(of, of).ravel()) for of in itertools.product(range(n), repeat=n)}
    return [np.array(one).reshape(n, n).astype(int) for one in found]


def orders(n):
    """All orders, as n x n arrays of "comes before"."""
    return [np.less.outer(np.argsort(one), np.argsort(one)).astype(int) for one in itertools.permutations(range(n))]


def relations(n):
    """All relations between different positions."""
    off = ~np.eye(n, dtype=bool)
    for bits in itertools.product([0, 1], repeat=n * (n - 1)):
        one = np.zeros((n, n), dtype=int)
        one[off] = bits
        yield one


def closed(r):
    """Whether a relation without a diagonal is transitive."""
    n = len(r)
    return all(r[i, k] for i, j, k in itertools.permutations(range(n), 3) if r[i, j] and r[j, k])


def acyclic(r):
    return not np.linalg.matrix_power(r, len(r)).any()


def best(spaces, scores, pairs):
    return max(float(sum(scores[i, j] for i, j in pairs if one[i, j])) for one in spaces)


@pytest.mark.parametrize("model", [Coref, Mirrored, Whole, Order, Converse, Closed, Graph])
def test_predictions_are_the_best_of_all(model):
    rng = np.random.default_rng(0)
    for n in (1, 2, 4) if issubclass(model, Closed) else (1, 3, 5):
        x = data(rng, n)
        spaces = orders(n) if issubclass(model, Order) else clusterings(n)
        pairs = list(itertools.combinations(range(n), 2))
        if issubclass(model, Closed):
            spaces, pairs = list(relations(n)), list(itertools.permutations(range(n), 2))
            spaces = [one for one in spaces if (acyclic(one) if model is Graph else closed(one))]
        weights = np.stack([0.0 * WEIGHTS, WEIGHTS]) if model is Converse else WEIGHTS
        found = StructuredSVM.from_weights(model, {"link": weights}).predict([x])[0]
        true = {1, "yes", "before"}
        total = sum((x @ WEIGHTS)[i, j] for i, j in pairs if found[i, j] in true)
        assert total == pytest.approx(best(spaces, x @ WEIGHTS, pairs))
        if model is Whole:
            assert (found.diagonal() == "yes").all()
            assert (found == found.T).all()
        elif model in (Mirrored, Converse) and n > 1:
            assert found[0, 1] == (found[1, 0] if model is Mirrored else {"before": "after"}.get(found[1, 0], "before"))


def test_missing_pairs_agree_with_some_clustering():
    rng, n = np.random.default_rng(1), 5
    for _ in range(6):
        x, near = data(rng, n), (rng.random((n, n)) < 0.6).astype(int)
        pairs = [(i, j) for i, j in itertools.combinations(range(n), 2) if near[i, j]]
        svm = StructuredSVM.from_weights(Near, {"link": WEIGHTS})
        found = svm.predict([{"x": x, "near": near}])[0]
        total = sum((x @ WEIGHTS)[i, j] for i, j in pairs if found[i, j] == 1)
        assert total == pytest.approx(best(clusterings(n), x @ WEIGHTS, pairs))
        assert np.ma.count(found) == len(pairs)
        groups = clusters(found)
        assert all((found[i, j] == 1) == any(i in g and j in g for g in groups) for i, j in pairs)


def test_a_relation_for_each_of_the_other_indices():
    class Frames(Model):
        F, N = Dim(), Dim()
        f, i, j = F.index(), *N.index(2)
        x = Input(F, N, N, 2)
        r = Label(f, i, j, 2, where=i < j)
        link = Factor(r[f, i, j].is_(1), features=x[f, i, j])
        one = Equivalence(r[f, i, j].is_(1), pair=(i, j))
        loss = Hamming(r)

    rng = np.random.default_rng(2)
    x = rng.normal(size=(3, 4, 4, 2))
    found = StructuredSVM.from_weights(Frames, {"link": WEIGHTS}).predict([x])[0]
    pairs = list(itertools.combinations(range(4), 2))
    for f in range(3):
        total = sum((x[f] @ WEIGHTS)[i, j] for i, j in pairs if found[f, i, j] == 1)
        assert total == pytest.approx(best(clusterings(4), x[f] @ WEIGHTS, pairs))
    assert Model.from_json(Frames.to_json()).to_json() == Frames.to_json()


def noisy(rng, n_examples, truths):
    X, Y = [], []
    for _ in range(n_examples):
        y = truths[int(rng.integers(len(truths)))]
        X.append(np.stack([2.0 * y - 1.0, np.ones_like(y)], axis=2) + 1.5 * rng.normal(size=(len(y), len(y), 2)))
        Y.append(y)
    return X, Y


@pytest.mark.parametrize("model", [Coref, Order])
def test_marginals_and_the_best_few_of_small_ones(model):
    n, pairs = 3, list(itertools.combinations(range(3), 2))
    spaces = clusterings(n) if model is Coref else orders(n)
    x = data(np.random.default_rng(5), n)
    svm = StructuredSVM.from_weights(model, {"link": WEIGHTS})
    scores = np.array([sum((x @ WEIGHTS)[p] * one[p] for p in pairs) for one in spaces])
    chance = np.exp(scores) / np.exp(scores).sum()
    found = svm.predict_marginals([x])[0]
    for p in pairs:
        assert found[p][1] == pytest.approx(sum(c for c, one in zip(chance, spaces) if one[p]), abs=1e-9)
    ranked = svm.predict_kbest([x], 3)[0]
    best_few = np.sort(scores)[::-1][:3]
    totals = [sum((x @ WEIGHTS)[p] for p in pairs if one[p] == 1) for one, _ in ranked]
    np.testing.assert_allclose(totals, best_few, atol=1e-9)


@pytest.mark.parametrize("model", [Coref, Order])
def test_margins_are_those_of_all_clusterings_and_orders(model):
    rng, n = np.random.default_rng(3), 4
    spaces = clusterings(n) if model is Coref else orders(n)
    X, Y = noisy(rng, 8, spaces)
    svm = StructuredSVM(model, C=0.5, tol=1e-6, backend="relations", random_state=0).fit(X, Y)
    (weights,) = (np.asarray(one).ravel() for one in svm.weights_.values())
    pairs = list(itertools.combinations(range(n), 2))
    objective = 0.5 * weights @ weights
    for x, y in zip(X, Y):
        score = x @ weights
        value = [sum(score[p] * one[p] + (one[p] != y[p]) for p in pairs) for one in spaces]
        objective += 0.5 * (max(value) - sum(score[p] * y[p] for p in pairs))
    assert svm.report_.primal == pytest.approx(objective, rel=1e-9)
    assert svm.report_.certified
    assert svm.report_.dual <= objective <= svm.report_.dual + svm.report_.gap + 1e-9


def test_the_relaxed_risk_is_certified_and_no_less():
    rng = np.random.default_rng(4)
    X, Y = noisy(rng, 6, clusterings(4))
    margin = StructuredSVM(Coref, C=0.5, tol=1e-4, random_state=0).fit(X, Y)
    relaxed = StructuredSVM(Coref, C=0.5, tol=1e-4, risk="relaxed", backend="lp", random_state=0).fit(X, Y)
    assert relaxed.report_.certified
    assert relaxed.report_.primal >= margin.report_.dual - 1e-6


def test_truth_that_is_no_clustering_is_refused_in_words():
    y = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]])
    with pytest.raises(DataError, match="0 and 1 are together, 1 and 2 are together but 0 and 2 are apart"):
        StructuredSVM(Coref).fit([data(np.random.default_rng(0), 3)], [y])


def test_files_and_print():
    for model in (Coref, Mirrored, Whole, Near, Order, Converse, Closed, Graph):
        again = Model.from_json(model.to_json())
        assert again.to_json() == model.to_json()
    assert "one  = Equivalence(same)" in str(Coref)


def mistakes_of(make):
    with pytest.raises(ModelError) as caught:
        make()
    return str(caught.value)


def test_mistakes_say_what_to_write():
    def declare(relation, label=None, states=2, **options):
        N, M = Dim(), Dim()
        i, j = N.index(2)
        made = label(N, M, i, j) if label else Label(i, j, states, **options)
        content = {"N": N, "M": M, "i": i, "j": j, "y": made, "x": Input(N, N), "loss": Hamming(made)}
        content["f"] = Factor(made)
        content["rule"] = relation(made, i, j)
        return type("Wrong", (Model,), content)

    text = mistakes_of(lambda: declare(lambda y, i, j: Equivalence(y), lambda N, M, i, j: Label(N, M, 2)))
    assert "Equivalence: a label over one axis twice" in text
    assert "two classes" in mistakes_of(lambda: declare(lambda y, i, j: Equivalence(y), states=3))
    text = mistakes_of(lambda: declare(lambda y, i, j: LinearOrder(y), symmetric=True))
    assert "opposite of both orders" in text
    assert "pair= is two indices" in mistakes_of(lambda: declare(lambda y, i, j: Acyclic(y[i, j].is_(1))))
    text = mistakes_of(lambda: declare(lambda y, i, j: Transitive(y[i, j].is_(1), pair=(i, i))))
    assert "pair= is two indices" in text
    assert "pair= is for literals" in mistakes_of(lambda: declare(lambda y, i, j: Equivalence(y, pair=(i, j))))
    assert "a literal with its pair" in mistakes_of(lambda: declare(lambda y, i, j: Equivalence(3)))


def test_clusters_and_orders_are_read():
    of = np.array([0, 1, 0, 2, 1])
    same = np.equal.outer(of, of).astype(int)
    assert clusters(same) == [[0, 2], [1, 4], [3]]
    assert clusters(np.ma.masked_array(same, mask=~np.triu(np.ones((5, 5), bool), 1))) == [[0, 2], [1, 4], [3]]
    assert clusters(np.where(same == 1, "yes", "no"), related="yes") == [[0, 2], [1, 4], [3]]
    broken = same.copy()
    broken[0, 2] = 0
    with pytest.raises(DataError, match="0 and 2 apart"):
        clusters(broken)
    place = np.array([2, 0, 1])
    before = np.less.outer(place, place).astype(int)
    assert linear_order(before) == [1, 2, 0]
    assert linear_order(np.ma.masked_array(before, mask=np.tril(np.ones((3, 3), bool)))) == [1, 2, 0]
    with pytest.raises(DataError, match="before"):
        linear_order(np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]]))
    with pytest.raises(DataError, match="square"):
        linear_order([1, 2])
