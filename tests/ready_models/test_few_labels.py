"""Graphs of which some nodes are labelled: what is known stays, the rest is found by features and neighbours."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.models import GraphLabeller
from ssvm_dsl.models.few_labels import agreement, states_of


def blocks(likes: bool, n: int = 160, seed: int = 0):
    """Return features, edges and classes of two kinds of nodes, whose neighbours mostly agree or mostly differ."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    ends = rng.integers(n, size=(5 * n, 2))
    ends = ends[ends[:, 0] < ends[:, 1]]
    alike = y[ends[:, 0]] == y[ends[:, 1]]
    ends = ends[(alike == likes) | (rng.random(len(ends)) < 0.1)]
    return np.eye(2)[y] + rng.normal(size=(n, 2)), ends, y


@pytest.mark.parametrize("likes", [True, False], ids=["neighbours agree", "neighbours differ"])
def test_few_labels_are_enough_where_neighbours_tell(likes):
    x, edges, y = blocks(likes)
    known = np.random.default_rng(1).permutation(len(y))[:30]
    partly = [None] * len(y)
    for v in known.tolist():
        partly[v] = int(y[v])
    graph = {"x": x, "edges": edges, "y": partly}
    svm = GraphLabeller(random_state=0).fit(graph)
    found = svm.predict(graph)
    assert (found == y).mean() > 0.85
    assert (found[known] == y[known]).all()
    from sklearn.linear_model import LogisticRegression

    alone = LogisticRegression().fit(x[known], y[known]).predict(x)
    assert (found == y).mean() > (alone == y).mean() + 0.1
    assert "130 of 160 completed" in svm.report_.chosen["unknown labels"]
    assert ("POTTS" in str(svm.model_)) == likes
    assert "unknown labels" in str(svm.report_)


@pytest.mark.parametrize("seconds", [1e-9, 0.02, 0.2])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_time_limit_ends_the_completion_and_leaves_weights(seconds):
    x, edges, y = blocks(likes=True)
    partly = [int(c) if k % 4 == 0 else None for k, c in enumerate(y)]
    svm = GraphLabeller(random_state=0, max_seconds=seconds).fit({"x": x, "edges": edges}, partly)
    assert np.isfinite(svm.coef_).all()
    assert len(svm.predict({"x": x, "edges": edges})) == len(y)


def test_edges_that_tell_nothing_do_no_harm():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    x, edges = 2.0 * np.eye(2)[y] + 0.8 * rng.normal(size=(200, 2)), rng.integers(200, size=(400, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    partly = [int(c) if k % 3 == 0 else None for k, c in enumerate(y)]
    svm = GraphLabeller(random_state=0).fit({"x": x, "edges": edges}, partly)
    assert (svm.predict({"x": x, "edges": edges}) == y).mean() > 0.9


def carrying(n: int = 9, known: int = 4):
    graph = nx.cycle_graph(n)
    for v in graph:
        graph.nodes[v].update(x=[float(np.sin(v) > 0), 1.0])
        if v < known:
            graph.nodes[v]["y"] = "up" if np.sin(v) > 0 else "down"
    return graph


def test_labels_that_a_graph_carries_stay_in_every_answer():
    graph = carrying()
    svm = GraphLabeller(C=10.0, random_state=0).fit(graph)
    graph.nodes[1]["y"] = "down"  # against its features
    assert svm.predict(graph).nodes[1]["y"] == "down"
    assert svm.predict([graph])[0].nodes[1]["y"] == "down"
    arrays = svm._arrays(graph, 0)
    given = [graph.nodes[v].get("y") for v in graph]
    assert svm.predict(arrays, given=given)[1] == "down"
    assert svm.predict({**arrays, "y": given})[1] == "down"
    assert svm.predict(arrays)[1] == "up", "nothing is known"
    down = svm.model_.declaration.outputs[0].classes.index("down")
    assert svm.predict_marginals(graph)[1][down] == pytest.approx(1.0)
    labels, scores, bounds = svm.predict(graph, return_bounds=True)
    assert labels.nodes[1]["y"] == "down"
    assert bounds >= scores - 1e-9
    assert "y" not in graph.nodes[8], "the graph is copied"


def test_a_graph_that_carries_all_labels_is_predicted_without_them():
    graph = carrying(known=9)
    svm = GraphLabeller(C=10.0, random_state=0).fit([graph])
    assert svm.score(graph) == pytest.approx(1.0)
    graph.nodes[1]["y"] = "down"
    assert svm.predict(graph).nodes[1]["y"] == "up"
    assert svm.score(graph) == pytest.approx(8 / 9), "labels that are compared are not given"


def test_one_graph_is_fitted_as_a_list_of_one():
    graph = carrying(known=9)
    one, listed = (GraphLabeller(C=10.0, random_state=0).fit(X) for X in (graph, [graph]))
    np.testing.assert_array_equal(one.coef_, listed.coef_)
    x, edges = np.array([[1.0], [0.0], [1.0]]), [(0, 1), (1, 2)]
    pair = GraphLabeller(C=10.0, random_state=0).fit((x, edges), [1, 0, 1])
    assert pair.predict((x, edges)).tolist() == [1, 0, 1]
    assert pair.declare((x, edges), [1, 0, 1]).declaration == pair.model_.declaration
    with pytest.raises(DataError, match="no classes at all"):
        GraphLabeller().fit(unlabelled())


def unlabelled():
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, [1.0], "x")
    return graph


def test_edges_reward_agreement_where_labelled_neighbours_agree():
    x, edges, y = blocks(True)
    graphs, labels = [{"x": x, "edges": edges}] * 2, [y, y]
    assert "form=POTTS, nonneg=True" in str(GraphLabeller.declare(graphs, labels))
    assert "SYMMETRIC" in str(GraphLabeller(associative=False).declare(graphs, labels))
    assert "FULL" not in str(GraphLabeller.declare(graphs, labels))
    x, edges, y = blocks(False)
    assert "SYMMETRIC" in str(GraphLabeller.declare([{"x": x, "edges": edges}], [y]))
    tree = [{"x": x[:6], "edges": [(k, k + 1) for k in range(5)]}]
    assert "SYMMETRIC" in str(GraphLabeller.declare(tree, [[0, 0, 0, 1, 1, 1]])), "exact all the same"
    with pytest.raises(OptionError, match="associative must be True, False or 'auto', got 'yes'"):
        GraphLabeller(associative="yes").fit(tree, [[0, 0, 0, 1, 1, 1]])


def test_agreement_counts_both_ends_of_edges():
    p = np.eye(3)[[0, 0, 1, 2]]
    joint, chance = agreement([p], [np.array([(0, 1), (1, 2)])])
    assert joint.tolist() == [[2.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    np.testing.assert_allclose(chance, np.outer([3, 1, 0], [3, 1, 0]) / 4)


def test_unknown_states_are_read_however_they_are_written():
    masked = np.ma.masked_array(["a", "b"], mask=[True, False])
    found = states_of([["a", None], None, masked, np.array(["b", float("nan")], dtype=object)], ["a", "b"])
    assert [one.tolist() for one in found] == [[0, -1], [], [-1, 1], [1, -1]]
    assert states_of([["c"]], ["a", "b"]) is None
