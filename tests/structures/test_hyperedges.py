"""Hyperedges, and edges between two labels: optima against all labellings, data that are refused, files."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import model_table
from ssvm_dsl import (
    POTTS,
    Cost,
    Dim,
    Edges,
    Factor,
    Forbid,
    Hamming,
    Input,
    Label,
    Model,
    Path,
    StructuredSVM,
    along,
    estimate,
    ground,
)
from ssvm_dsl.cli.explain.examples import make_examples
from ssvm_dsl.errors import DataError, ModelError


class Bipartite(Model):
    """Readers and books: who likes what decides tastes and genres."""

    N, K, M = Dim(), Dim(), Dim()
    x = Input(N, 2)
    z = Input(K, 2)
    e = Edges(M, over=(N, K))
    f = Input(M, 2)
    reader = Label(N, 2)
    book = Label(K, "abc")
    who = Factor(reader, features=x)
    what = Factor(book, features=z)
    likes = Factor(along((reader, book), e), features=f)
    loss = Hamming(reader) + Hamming(book) + 0.5 * Cost(along((reader, book), e), "wrong")


class Triples(Model):
    N, M = Dim(), Dim()
    x = Input(N, 2)
    e = Edges(M, over=N, arity=3)
    y = Label(N, 2)
    node = Factor(y, features=x)
    set = Factor(along(y, e))
    never = Forbid(along(y, e), [(1, 1, 1)])
    loss = Hamming(y)


class Large(Model):
    """Associative hyperedges of four: auxiliary variables instead of tables."""

    N, M = Dim(), Dim()
    x = Input(N, 2)
    e = Edges(M, over=N, arity=4)
    y = Label(N, 2)
    node = Factor(y, features=x)
    alike = Factor(along(y, e), form=POTTS, nonneg=True)
    loss = Hamming(y)


def bipartite(seed, n=6):
    rng, X, Y = np.random.default_rng(seed), [], []
    for _ in range(n):
        x, z = rng.normal(size=(3, 2)), rng.normal(size=(2, 2))
        e = np.array([(i, k) for i in range(3) for k in range(2) if rng.random() < 0.7]).reshape(-1, 2)
        X.append({"x": x, "z": z, "e": e, "f": rng.normal(size=(len(e), 2))})
        Y.append({"reader": (x[:, 0] > 0).astype(int), "book": [*np.array(list("abc"))[rng.integers(0, 3, 2)]]})
    return X, Y


def test_training_on_bipartite_edges_is_certified_and_saved(tmp_path):
    X, Y = bipartite(0)
    svm = StructuredSVM(Bipartite, tol=1e-6, n_threads=1, random_state=0).fit(X, Y)
    assert svm.report_.certified
    assert svm.report_.relative_gap <= 1e-6
    again = StructuredSVM(Bipartite, trainer="n-slack", tol=1e-6, backend="brute-force", n_threads=1).fit(X, Y)
    assert_allclose(again.report_.primal, svm.report_.primal, rtol=1e-5)
    svm.save(tmp_path / "likes.ssvm")
    loaded = StructuredSVM.load(tmp_path / "likes.ssvm")
    assert loaded.model.declaration == Bipartite.declaration
    same = zip(loaded.predict(X), svm.predict(X), strict=True)
    assert all((one[k] == two[k]).all() for one, two in same for k in ("reader", "book"))
    weights = svm.weights_[Bipartite.likes]
    assert weights.shape == (2, 3, 2)
    score = svm.best_score(X[:1], Y[:1])[0]
    x, y = X[0], {"reader": Y[0]["reader"], "book": ["abc".index(b) for b in Y[0]["book"]]}
    slow = sum(svm.weights_[Bipartite.who][s] @ row for s, row in zip(y["reader"], x["x"]))
    slow += sum(svm.weights_[Bipartite.what][s] @ row for s, row in zip(y["book"], x["z"]))
    slow += sum(weights[y["reader"][i], y["book"][k]] @ row for (i, k), row in zip(x["e"], x["f"]))
    assert score == pytest.approx(slow)


def test_rules_and_auxiliary_variables_of_hyperedges():
    rng = np.random.default_rng(0)
    X = [{"x": rng.normal(size=(5, 2)) + 1.0, "e": [[0, 1, 2], [4, 2, 3]]} for _ in range(4)]
    W = {Triples.node: [[0.0, 0.0], [1.0, 1.0]], Triples.set: np.zeros((2, 2, 2))}
    found = StructuredSVM.from_weights(Triples, W).predict(X)
    assert all(not y[[0, 1, 2]].all() and not y[[4, 2, 3]].all() for y in found)
    with pytest.raises(DataError, match=r"Y, example 0.*rule 'never'.*1, 1, 1"):
        ground(Triples, X, [np.ones(5, int)] * 4)
    X = [{"x": one["x"], "e": [[0, 1, 2, 3], [1, 2, 3, 4]]} for one in X]
    Y = [(one["x"].sum(axis=1) > 2).astype(int) for one in X]
    svm = StructuredSVM(Large, backend="graph-cut", tol=1e-6, n_threads=1).fit(X, Y)
    assert svm.report_.certified
    assert ground(Large, X).program.max_arity == 2


def test_ends_of_one_label_are_apart_those_of_two_need_not_be():
    class Two(Model):
        N, M = Dim(), Dim()
        x = Input(N, 1)
        e = Edges(M, over=(N, N))
        a = Label(N, 2)
        b = Label(N, 2)
        unary = Factor(a, features=x)
        pair = Factor(along((a, b), e))
        loss = Hamming(a) + Hamming(b)

    class One(Two):
        again = Factor(along(Two.a, Two.e))

    X = [{"x": np.ones((3, 1)), "e": [[0, 0], [2, 1]]}]
    assert ground(Two, X).program.groups[0].scope.tolist() == [[0, 3], [2, 4]]
    with pytest.raises(DataError, match=r"0..2 \(N=3\), 0..2 \(N=3\), 0 and 1 different, found edge \(0, 0\) at row 0"):
        ground(One, X)


@pytest.mark.parametrize(
    ("model", "edges", "text"),
    [
        (Bipartite, [[0, 1], [2, 2]], r"positions in 0..2 \(N=3\), 0..1 \(K=2\), found edge \(2, 2\) at row 1"),
        (Bipartite, [[-1, 0]], r"found edge \(-1, 0\) at row 0"),
        (Bipartite, np.zeros((3, 3), int), r"ints of shape \(M, 2\), found shape \(3, 3\)"),
        (Bipartite, [[1, 2], [0, 1]], r"found edge \(1, 2\) at row 0.*transposed: e.T"),
        (Triples, [[0, 1, 2], [2, 1, 2]], r"3 different positions in 0..2 \(N=3\), found edge \(2, 1, 2\) at row 1"),
        (Triples, [[0, 1]], r"ints of shape \(M, 3\), found shape \(1, 2\)"),
        (Triples, [[0, 1], [1, 2], [2, 0]], r"ints of shape \(M, 3\).*3 rows, one for each end of .*transposed"),
        (Triples, [[0.0, 1.0, 2.0]], r"ints of shape \(M, 3\), found shape \(1, 3\), dtype float64"),
    ],
)
def test_wrong_edges_are_named_with_example_and_row(model, edges, text):
    fine = {"x": np.ones((3, 2)), "e": np.zeros((0, 3 if model is Triples else 2), int)}
    if model is Bipartite:
        fine |= {"z": np.ones((2, 2)), "f": np.zeros((0, 2))}
    m = len(edges)
    wrong = fine | {"e": edges} | ({"f": np.zeros((m, 2))} if model is Bipartite else {})
    with pytest.raises(DataError, match=f"input 'e', example 1: (?s:.*{text})"):
        ground(model, [fine, wrong])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda p: Edges(p.M, over=p.N, arity=1), "arity must be an int from 2 to 100000, got 1"),
        (lambda p: Edges(p.M, over=(p.N,)), "over must be an axis, or one for each of arity ends"),
        (lambda p: Edges(p.M, over=(p.N, p.K), arity=3), "one for each of arity ends, got [N, K]"),
        (lambda p: Edges(p.M, over=(p.N, p.M)), "the same Dim is used twice"),
        (lambda p: Factor(along((p.reader, p.reader), p.e)), "along: e runs over [N, K], the axis of each label"),
        (lambda p: Factor(along(p.reader, p.e)), "along: e runs over [N, K], the axis of each label"),
        (lambda p: Factor(along((p.reader,) * 3, p.e)), "one for each of the 2 ends of an edge"),
        (lambda p: Path(Label(p.M, 2).is_(1), p.e, 0, 1), "the edges join two positions of one axis"),
    ],
)
def test_mistakes_in_declarations(make, text):
    with pytest.raises(ModelError) as caught:

        class Wrong(Bipartite):
            extra = make(Bipartite)

    assert text in str(caught.value)


def test_written_printed_made_up_and_estimated():
    for model in (Bipartite, Triples, model_table.Hyper):
        assert Model.from_json(model.to_json()).declaration == model.declaration
        X = make_examples(model.declaration, 2, {})
        assert estimate(model, X).total_bytes > 0
        assert all(array.shape[1] == model.e.arity for array in (x["e"] for x in X))
    assert "e      = Edges(M, over=[N, K])" in str(Bipartite)
    assert "Factor(along([reader, book], e), features=f)" in str(Bipartite)
    assert "Edges(M, over=N, arity=3)" in str(Triples)
