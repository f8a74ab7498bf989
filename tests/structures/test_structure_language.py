"""Matchings, paths and circuits in the language: what they compile to, how they read, what is wrong with them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ssvm_dsl import (
    Circuit,
    Dim,
    Edges,
    Factor,
    Hamming,
    Input,
    Label,
    Matching,
    Model,
    Path,
    StructuredSVM,
    ground,
    pairs,
)
from ssvm_dsl.errors import DataError, ModelError


class Align(Model):
    I, J = Dim(), Dim()
    x = Input(I, J, 2)
    most = Input(1)
    y = Label(I, J, 2)
    sim = Factor(y.is_(1), features=x)
    one = Matching(y.is_(1), rows=I, cols=J, row_limit=most)
    loss = Hamming(y)


class Route(Model):
    N, M = Dim(), Dim()
    z = Input(N)
    goal = Input(1)
    e = Edges(M, over=N)
    f = Input(M, 2)
    y = Label(M, 2)
    cost = Factor(y.is_(1), features=f)
    route = Path(y.is_(1), e, source=0, target=goal)
    loss = Hamming(y)


class Tour(Route):
    route = None
    tour = Circuit(Route.y.is_(1), Route.e, all_nodes=True)


ARCS = np.array([(0, 1), (1, 2), (0, 2), (2, 0), (2, 1), (1, 0)])


def graphs(rng, n):
    return [{"z": np.zeros(3), "goal": np.array([1.0 + i % 2]), "e": ARCS, "f": rng.normal(size=(6, 2))}
            for i in range(n)]  # fmt: skip


def test_matching_compiles_to_rows_and_columns():
    X = [{"x": np.zeros((2, 3, 2)), "most": np.array([2.0])}, {"x": np.zeros((1, 0, 2)), "most": np.array([1.0])}]
    (group,) = ground(Align, X).program.constraints
    assert group.kind == "matching"
    assert {name: value.tolist() for name, value in group.meta.items()} == {
        "n_rows": [2, 1], "n_cols": [3, 0], "row_least": [0, 0], "row_most": [2, 1], "col_least": [0, 0],
        "col_most": [1, 1],
    }  # fmt: skip
    assert group.literal_meta["row"].tolist() == [0, 0, 0, 1, 1, 1]
    assert group.literal_meta["col"].tolist() == [0, 1, 2, 0, 1, 2]


def test_routes_compile_to_the_ends_of_edges():
    group, tour = (ground(model, graphs(np.random.default_rng(0), 2)).program.constraints[0] for model in (Route, Tour))
    for one in (group, tour):
        assert one.literal_meta["tail"].tolist() == [*ARCS[:, 0], *ARCS[:, 0]]
        assert one.literal_meta["head"].tolist() == [*ARCS[:, 1], *ARCS[:, 1]]
    assert {name: value.tolist() for name, value in group.meta.items()} == {
        "n_nodes": [3, 3], "source": [0, 0], "target": [1, 2]
    }  # fmt: skip
    assert tour.meta["all_nodes"].tolist() == [True, True]


def test_the_last_node():
    class Last(Route):
        route = Path(Route.y.is_(1), Route.e, source=-1, target=0)

    (group,) = ground(Last, graphs(np.random.default_rng(0), 1)).program.constraints
    assert group.meta["source"].tolist() == [2]


@pytest.mark.parametrize("model", [Align, Route, Tour])
def test_declarations_read_as_they_were_written_and_come_back_from_json(model):
    assert Model.from_json(model.to_json()).declaration == model.declaration
    assert str(Model.from_json(model.to_json())) == str(model)


def test_texts():
    assert repr(Align.one) == "Matching(y.is_(1), rows=I, cols=J, row_limit=most)"
    assert repr(Route.route) == "Path(y.is_(1), e, source=0, target=goal)"
    assert repr(Tour.tour) == "Circuit(y.is_(1), e, all_nodes=True)"


def test_mistakes_are_reported_together():
    with pytest.raises(ModelError) as caught:

        class Bad(Model):
            N, M = Dim(), Dim()
            x = Input(N, M)
            e = Edges(M, over=N)
            y = Label(N, 2)
            p = Path(y.is_(1), e, source="a", target=0)
            q = Path(y.is_(1), e, source=1, target=0)
            m = Matching(y.is_(1), rows=N, cols=M)
            k = Matching(y.is_(1), rows=N, cols=N, row_limit=0)
            n = Matching(y.is_(1), rows=N, cols=M, perfect=True, col_limit=None)
            c = Circuit(y.is_(1), 3)

    text = str(caught.value)
    assert "Path: source is the number of a node (-1: the last one) or an Input(1), got 'a'" in text
    assert "q: Path: the label has one variable for each edge, as Label(M, 2) has" in text
    assert "Matching: cols must be an axis of the label, got M" in text
    assert "Matching: row_limit must be a whole number of at least 1, an Input, or None, got 0" in text
    assert "Matching: rows and cols are different axes" in text
    assert "Matching: perfect needs a limit of rows and of columns" in text
    assert "Circuit: the second argument must be a list of edges, such as e = Edges(M, over=N), got 3" in text


def test_a_target_that_is_no_node_names_the_example():
    X = graphs(np.random.default_rng(0), 3)
    X[2]["goal"] = np.array([3.0])
    with pytest.raises(DataError, match=r"constraint 'route', example 2: expected target: a position in 0..2 \(N=3\)"):
        ground(Route, X)


def test_matchings_are_learnt():
    rng = np.random.default_rng(0)
    X = [{"x": rng.normal(size=(*rng.integers(1, 4, 2), 2)), "most": np.array([1.0])} for _ in range(12)]
    Y = [best_matching(one["x"] @ [2.0, -1.0]) for one in X]
    svm = StructuredSVM(Align, C=100.0, max_passes=200, backend="assignment").fit(X, Y)
    assert svm.score(X, Y) == 1.0
    exact = StructuredSVM(Align, C=100.0, max_passes=200, backend="brute-force").fit(X, Y)
    assert exact.report_.primal == pytest.approx(svm.report_.primal, rel=1e-2)


def best_matching(scores):
    """The best matching of at most one in each row and column, of all there are."""
    n, m = scores.shape
    found, best = np.zeros((n, m), int), 0.0
    for columns in itertools.permutations([*range(m), *[-1] * n], n):
        pairs = [(r, c) for r, c in enumerate(columns) if c >= 0]
        if sum(scores[pair] for pair in pairs) > best:
            found, best = np.zeros((n, m), int), sum(scores[pair] for pair in pairs)
            for pair in pairs:
                found[pair] = 1
    return found


class Diagonals(Align):
    both = Factor(pairs(Align.y, Align.I, Align.J), form=[[[0, 0], [0, 1]]])


@pytest.mark.parametrize("backend", ["decompose", "ilp", "brute-force"])
@pytest.mark.parametrize("strength", [-1.0, 0.0, 0.7, 3.0])
def test_matchings_that_like_diagonals_are_the_best_by_enumeration(backend, strength):
    rng = np.random.default_rng(0)
    shapes = [(2, 2), (3, 2), (1, 3), (3, 3), (2, 4), (0, 2)]
    X = [{"x": rng.normal(size=(*shape, 2)).round(1), "most": np.ones(1) + k % 2} for k, shape in enumerate(shapes)]
    w = np.array([1.0, -0.5])
    svm = StructuredSVM.from_weights(Diagonals, {"sim": w, "both": np.array([strength])}, backend=backend)
    labels, scores, bounds = svm.predict(X, return_bounds=True)
    for x, y, score, bound in zip(X, labels, scores, bounds, strict=True):
        gain, best = x["x"] @ w, -np.inf
        for one in itertools.product(range(2), repeat=gain.size):
            links = np.array(one, dtype=int).reshape(gain.shape)
            if (links.sum(axis=1) <= x["most"][0]).all() and (links.sum(axis=0) <= 1).all():
                found = float((gain * links).sum() + strength * (links[:-1, :-1] * links[1:, 1:]).sum())
                best = max(best, found)
                if (links == y).all():
                    assert score == pytest.approx(found, abs=1e-9)
        assert score == pytest.approx(best, abs=1e-9)
        assert bound == pytest.approx(best, abs=1e-6)
