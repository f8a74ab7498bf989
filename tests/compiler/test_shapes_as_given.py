"""Shapes of users' arrays are checked: as many numbers in another shape are other data."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Given, Input, Label, Model, chain
from ssvm_dsl.errors import DataError, ModelError
from ssvm_dsl.learning.metrics import exact_match, label_accuracy, mean_iou
from ssvm_dsl.models import GraphLabeller
from ssvm_dsl.report.confusion import confusion_matrix
from ssvm_dsl.scoring import Scorer

NODES, LABELS = np.eye(5), [0, 1, 0, 1, 0]
ROWS = np.array([[0, 2], [1, 3], [0, 4], [1, 2]])


def test_edges_are_rows():
    read = GraphLabeller().fit([(NODES, ROWS)] * 3, [LABELS] * 3)
    assert read.predict([(NODES, [])])[0].shape == (5,)
    for edges, hint in ((ROWS.T, "edges.T"), (ROWS[None], "pairs of nodes"), (ROWS.ravel(), "pairs of nodes")):
        for graph in ((NODES, edges), {"x": NODES, "edges": edges, "kind": list("abaab")}):
            with pytest.raises(DataError, match=hint):
                GraphLabeller().fit([graph] * 3, [LABELS] * 3)


def test_features_of_nodes_and_edges_are_vectors():
    graph = networkx.path_graph(3)
    networkx.set_node_attributes(graph, {node: [[1.0, 2.0], [3.0, float(node)]] for node in graph}, "x")
    networkx.set_node_attributes(graph, {0: 0, 1: 1, 2: 0}, "y")
    with pytest.raises(DataError, match="node 0: 'x' a number or a list of numbers"):
        GraphLabeller().fit([graph] * 2)
    of_kinds = {"x": np.ones((5, 2, 2)), "edges": ROWS, "kind": list("abaab")}
    with pytest.raises(DataError, match="numbers for each 'a', found shape"):
        GraphLabeller().fit([of_kinds] * 3, [LABELS] * 3)


def test_given_scores_have_the_shape_of_joint_states():
    def declare(shape):
        class Pairs(Model):
            T = Dim()
            x = Input(T, 1)
            y = Label(T, 6)
            bigrams = Given(chain(y), scores=np.zeros(shape))

        return Pairs

    declare((6, 6))
    for shape in ((4, 9), (9, 4), (6, 6, 1), (1, 36)):
        with pytest.raises(ModelError, match=r"an array of scores has the shape \(6, 6\)"):
            declare(shape)


def confusion(truth, found):
    return confusion_matrix(truth, found, (0, 1))


@pytest.mark.parametrize("measure", [label_accuracy, exact_match, mean_iou, confusion])
def test_measures_compare_labels_of_one_shape(measure):
    truth = np.array([[0, 1, 1], [1, 0, 0]])
    measure([truth], [truth])
    with pytest.raises(DataError, match=r"\(2, 3\).*\(3, 2\)"):
        measure([truth], [truth.reshape(3, 2)])


def test_weights_of_counts_are_a_number_for_each_example():
    class Word(Model):
        T = Dim()
        x = Input(T, 4)
        y = Label(T, 3)
        emit = Factor(y, features=x)
        trans = Factor(chain(y))

    scores = {"emit": np.zeros((6, 4, 3)), "trans": np.zeros((3, 3))}
    found = Scorer(Word).answer(scores)
    assert found.counts(np.ones(6))["trans"].sum() == 18.0
    for shape in ((6, 1), (2, 3)):
        with pytest.raises(DataError, match="weights: expected 6 numbers"):
            found.counts(np.ones(shape))
