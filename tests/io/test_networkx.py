"""Graphs of networkx: problems from them, models and factor graphs as them, and back again."""

from __future__ import annotations

from itertools import product

import networkx
import numpy as np
import pytest

import model_table
from naive_formats import read_uai, scores_of, uai_text
from ssvm_dsl import (
    POTTS,
    Dim,
    Factor,
    Input,
    Label,
    Model,
    chain,
    cliques,
    complete,
    cross,
    from_networkx,
    grid,
    ground,
    read_problem,
    to_networkx,
)
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.io.networkx_graph import FACTOR, VARIABLE
from ssvm_dsl.ir.graph_problem import GraphProblem
from ssvm_dsl.testing.problems import catalogue as corner_cases


def test_a_networkx_graph_is_a_problem():
    graph = networkx.Graph()
    graph.add_node("b", scores=[0.0, 1.0])
    graph.add_node("a", scores=np.array([0, -np.inf, 2]))
    table = np.arange(6.0).reshape(2, 3)
    graph.add_edge("a", "b", table=table)
    problem = from_networkx(graph)
    assert problem.names == ("b", "a")
    assert scores_of(problem, [(0, 0), (1, 2), (0, 1)]) == [0.0, 1 + 2 + 5.0, -np.inf]


def test_rows_belong_to_the_tail_of_a_directed_edge():
    graph = networkx.MultiDiGraph()
    graph.add_nodes_from([(0, {"s": [0, 0]}), (1, {"s": [0, 0, 0]})])
    graph.add_edge(1, 0, t=[[0, 1], [2, 3], [4, 5]])
    graph.add_edge(0, 1, t=[[0, 0, 10], [0, 0, 20]])
    problem = from_networkx(graph, scores="s", table="t")
    assert scores_of(problem, [(1, 2), (0, 1)]) == [25.0, 2.0]


@pytest.mark.parametrize(
    ("node", "edge", "word"),
    [
        ({}, {"table": [[0, 0], [0, 0]]}, "node 1: expected attribute 'scores', found none"),
        ({"scores": [0, np.nan]}, {}, "node 1: expected attribute 'scores' of numbers or -inf, found nan or"),
        ({"scores": [[0, 1]]}, {}, r"node 1: expected attribute 'scores' with 1 axes, found shape \(1, 2\)"),
        ({"scores": "ab"}, {}, "node 1: expected attribute 'scores' of numbers"),
        ({"scores": [0, 0]}, {"weight": 3}, r"edge \(0, 1\): expected attribute 'table', found 'weight'"),
        ({"scores": [0, 0]}, {"table": [[0, 0, 0]]}, r"of shape \(2, 2\), found shape \(1, 3\)"),
    ],
)
def test_mistakes_name_the_node_or_edge(node, edge, word):
    graph = networkx.Graph()
    graph.add_node(0, scores=[0, 0])
    graph.add_node(1, **node)
    graph.add_edge(0, 1, **edge)
    with pytest.raises(DataError, match=word):
        from_networkx(graph)


def test_loops_are_refused():
    graph = networkx.Graph()
    graph.add_node(0, scores=[0, 0])
    graph.add_edge(0, 0, table=[[0, 0], [0, 0]])
    with pytest.raises(DataError, match="two different nodes, found an edge from a node to itself"):
        from_networkx(graph)


# -- to networkx ---------------------------------------------------------------------------------------------


class Sketch(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 2)
    y = Label(H, W, "abc")
    z = Label(2)
    data = Factor(y, features=x)
    net = Factor(grid(y), form=POTTS)
    both = Factor(cross(z, y))


class Triples(Model):
    K = Dim(4)
    x = Input(2)
    y = Label(K, 2)
    bias = Factor(y, features=x)
    pair = Factor(complete(y), per="edge")
    triple = Factor(cliques(y, [(0, 1, 3), (3, 2, 0)]))


def of_kind(graph, kind):
    return [node for node, attributes in graph.nodes(data=True) if attributes["kind"] == kind]


def score_by_nodes(graph, states):
    """The score of a labelling by what the nodes of a factor graph say; ``states`` by node."""
    total = graph.graph["const"]
    for node, attributes in graph.nodes(data=True):
        if attributes["kind"] == VARIABLE:
            total += attributes["scores"][states[node]]
        else:
            total += attributes["table"][tuple(states[v] for v in attributes["scope"])]
    return total


def test_a_model_is_a_graph_of_labels_and_factors():
    graph = to_networkx(Sketch)
    assert of_kind(graph, VARIABLE) == ["y", "z"]
    assert of_kind(graph, FACTOR) == ["data", "net", "both"]
    assert sorted(map(sorted, graph.edges())) == sorted(
        map(sorted, [("y", "data"), ("y", "net"), ("y", "net"), ("y", "both"), ("z", "both")])
    )
    y, data, both = (graph.nodes[name] for name in ("y", "data", "both"))
    assert (y["n_states"], y["classes"], y["axes"]) == (3, ("a", "b", "c"), ("H", "W"))
    assert (data["weights"], data["shape"], data["features"]) == ("w[3, 2]", (3, 2), "x")
    assert [list(names) for names in data["weight_names"]] == [["a", "b", "c"], ["x[0]", "x[1]"]]
    assert [list(names) for names in both["weight_names"]] == [[0, 1], ["a", "b", "c"]]
    assert graph.nodes["net"]["form"] == "potts"


@pytest.mark.parametrize("model", model_table.TEMPLATES, ids=lambda model: model.__name__)
def test_every_model_has_a_graph(model):
    graph, declaration = to_networkx(model), model.declaration
    assert of_kind(graph, VARIABLE) == [label.name for label in declaration.labels]
    assert of_kind(graph, FACTOR) == [factor.name for factor in declaration.factors]
    for factor in declaration.factors:
        assert graph.degree(factor.name) == factor.target.arity
        assert {node for _, node in graph.edges(factor.name)} == {label.name for label in factor.target.labels}


def test_an_example_is_a_factor_graph():
    grounded = ground(Sketch, [np.ones((2, 2, 2)), np.ones((3, 2, 2))])
    graph = to_networkx(grounded, 1)
    assert set(of_kind(graph, VARIABLE)) == {"z", *(f"y[{r}, {c}]" for r in range(3) for c in range(2))}
    net = {graph.nodes[node]["scope"] for node in of_kind(graph, FACTOR) if graph.nodes[node]["factor"] == "net"}
    down = {(f"y[{r}, {c}]", f"y[{r + 1}, {c}]") for r in range(2) for c in range(2)}
    right = {(f"y[{r}, 0]", f"y[{r}, 1]") for r in range(3)}
    assert net == down | right
    assert graph.nodes["y[2, 1]"]["position"] == (2, 1)
    assert graph.nodes["y[2, 1]"]["unary"] == {"data": "w[3, 2]"}
    assert "scores" not in graph.nodes["z"]
    assert networkx.is_bipartite(graph)
    assert networkx.is_connected(graph)


@pytest.mark.parametrize("example", [0, 1])
def test_scores_come_with_weights(example):
    rng = np.random.default_rng(example)
    X = [rng.normal(size=(2, 1, 2)), rng.normal(size=(1, 3, 2))]
    grounded = ground(Sketch, X)
    w = rng.normal(size=grounded.parameters.dim)
    graph = to_networkx(grounded, example, w)
    data, net, both = w[:6].reshape(3, 2), w[6], w[7:].reshape(2, 3)
    height, width, _ = X[example].shape
    for _ in range(20):
        y, z = rng.integers(3, size=(height, width)), int(rng.integers(2))
        expected = float((X[example] * data[y]).sum() + both[z, y].sum())
        expected += net * float((y[1:] == y[:-1]).sum() + (y[:, 1:] == y[:, :-1]).sum())
        states = {"z": z} | {f"y[{r}, {c}]": int(y[r, c]) for r in range(height) for c in range(width)}
        assert score_by_nodes(graph, states) == pytest.approx(expected, abs=1e-12)


def test_factors_of_three_variables_come_back():
    grounded = ground(Triples, [np.array([1.0, -2.0])])
    w = np.random.default_rng(0).normal(size=grounded.parameters.dim)
    graph = to_networkx(grounded, coef=w)
    problem = from_networkx(graph)
    for y in product(range(2), repeat=4):
        states = {f"y[{k}]": state for k, state in enumerate(y)}
        assert scores_of(problem, [y])[0] == pytest.approx(score_by_nodes(graph, states), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_problems_come_back_as_they_were(tmp_path, seed):
    path = tmp_path / "random.uai"
    text = uai_text(np.random.default_rng(seed))
    path.write_text(text)
    problem = read_problem(path)
    again = from_networkx(to_networkx(problem))
    cards, _ = read_uai(text)
    labellings = [tuple(np.random.default_rng(k).integers(cards)) for k in range(50)]
    assert again.program.card.tolist() == cards
    np.testing.assert_allclose(scores_of(again, labellings), scores_of(problem, labellings), rtol=1e-12)


@pytest.mark.parametrize("name", corner_cases())
def test_corner_cases_come_back_example_by_example(name):
    case = corner_cases()[name]
    whole = GraphProblem(case.program, case.theta, "a corner case")
    ptr = case.program.var_ptr
    rng = np.random.default_rng(0)
    full = rng.integers(case.program.card) if case.program.n_variables else np.zeros(0, np.int64)
    for example in range(case.program.n_examples):
        mine = full[ptr[example] : ptr[example + 1]]
        graph = to_networkx(whole, example)
        expected = score_by_nodes(graph, dict(zip(of_kind(graph, VARIABLE), mine)))
        found = scores_of(from_networkx(graph), [mine])[0]
        assert found == pytest.approx(expected, rel=1e-12)


def test_masks_are_shown():
    case = next(case for case in corner_cases().values() if case.program.allowed is not None)
    problem = GraphProblem(case.program, case.theta, "a mask")
    graph = to_networkx(problem)
    n = int(case.program.state_ptr[case.program.var_ptr[1]])
    scores = np.concatenate([graph.nodes[v]["scores"] for v in of_kind(graph, VARIABLE)])
    assert (scores[~case.program.allowed[:n]] == -np.inf).all()


def test_equal_names_do_not_merge_variables():
    graph = networkx.Graph()
    graph.add_nodes_from([(1, {"scores": [0, 1]}), ("1", {"scores": [2, 3, 4]})])
    assert len(to_networkx(from_networkx(graph))) == 2


class Word(Model):
    T = Dim()
    x = Input(T, 1)
    y = Label(T, 2)
    step = Factor(chain(y))


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((Sketch, 0, np.zeros(3)), "ground"),
        ((ground(Word, [np.ones((2, 1))]), 0, np.zeros(3)), r"expected 4 weights, got shape \(3,\)"),
        ((ground(Word, [np.ones((2, 1))]), 1), "expected 0 to 0, got 1"),
        ((3,), "expected a Model class, ground"),
    ],
)
def test_mistakes_are_told(arguments, word):
    with pytest.raises(OptionError, match=word):
        to_networkx(*arguments)


@pytest.mark.parametrize(
    ("attributes", "word"),
    [
        ({}, "attribute 'scope': different nodes that are variables, found ()"),
        ({"scope": ("a", "a")}, "different nodes"),
        ({"scope": ("a", "c")}, "found 'c'"),
        ({"scope": ("a", "b")}, "expected attribute 'table'"),
        ({"scope": ("a", "b"), "table": np.zeros((3, 2))}, r"of shape \(2, 3\), found shape \(3, 2\)"),
    ],
)
def test_mistakes_of_factor_nodes(attributes, word):
    graph = networkx.Graph()
    graph.add_nodes_from([("a", {"scores": [0, 0]}), ("b", {"scores": [0, 0, 0]})])
    graph.add_node("f", kind="factor", **attributes)
    with pytest.raises(DataError, match=word.replace("()", r"\(\)")):
        from_networkx(graph)
