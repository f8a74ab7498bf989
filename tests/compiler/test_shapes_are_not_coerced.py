"""Arrays of users whose shape is another than expected are refused, never read into that shape."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl import (
    Dim,
    Edges,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    Positions,
    StructuredSVM,
    alignment_error_rate,
    along,
    exact_match,
    label_accuracy,
    mean_iou,
    score_report,
    span_f1,
)  # fmt: skip
from ssvm_dsl.errors import DataError, FileFormatError, OptionError, SsvmError
from ssvm_dsl.ir.graph_problem import GraphProblem
from ssvm_dsl.models import ChainTagger, GraphLabeller, GridSegmenter, MultiLabel


class Graph(Model):
    N, M = Dim(), Dim()
    x = Input(N, 2)
    e = Edges(M, over=N)
    h = Edges(M, over=N)
    up = Positions(N, over=N)
    cost = Input(N)
    y = Label(N, 2)
    node = Factor(y, features=x)
    pair = Factor(along(y, e))
    loss = Hamming(y, node_weights=cost)


ONE = {
    "x": np.ones((3, 2)), "e": np.array([[0, 1], [1, 2], [0, 2]]), "h": np.array([[0, 1], [1, 2], [0, 2]]),
    "up": np.array([-1, 0, 0]), "cost": np.ones(3),
}  # fmt: skip

WRONG = {
    "x": [(6,), (3, 2, 1), (1, 3, 2), (2, 3), (3, 1), (3,)],
    "e": [(6,), (2, 3), (6, 1), (1, 6), (1, 3, 2), (3, 2, 1), (1, 0), (2, 0), (0, 0), (0, 3)],
    "up": [(3, 1), (1, 3), (3, 0), (0, 3), (2,)],
    "cost": [(3, 1), (1, 3), (1,), ()],
}


@pytest.mark.parametrize(("name", "shape"), [(name, shape) for name, shapes in WRONG.items() for shape in shapes])
def test_inputs_of_another_shape(name, shape):
    kind = ONE[name].dtype
    with pytest.raises(DataError, match=f"input '{name}'|size . along"):
        StructuredSVM(Graph, C=1.0).fit([dict(ONE, **{name: np.ones(shape, dtype=kind)})], [[0, 1, 0]])


@pytest.mark.parametrize("empty", [[], np.zeros(0), np.zeros((0, 2), dtype=np.float32)])
def test_an_empty_list_of_edges_may_have_any_type(empty):
    x = dict(ONE, e=empty, h=[])
    svm = StructuredSVM.from_weights(Graph, {"node": np.eye(2), "pair": np.eye(2)})
    assert len(svm.predict([x])[0]) == 3


def ready(x=((1.0, 1.0),) * 4, edges=((0, 1), (1, 2), (2, 3)), y=(0, 1, 0, 1), f=None):
    graph = (np.array(x), np.array(edges), *(() if f is None else (f,)))
    return GraphLabeller(C=1.0, risk="margin").fit([graph] * 3, [y] * 3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"x": np.ones((4, 2, 2))}, {"x": np.ones((2, 4))}, {"edges": [[0, 1, 2], [1, 2, 3]]}, {"edges": [[0, 1, 2, 3]]},
        {"edges": [0, 1, 1, 2]}, {"edges": np.zeros((0, 3), dtype=int)}, {"edges": [[0, 0.5]]},
        {"y": np.zeros((4, 1), dtype=int)}, {"y": np.zeros((2, 2), dtype=int)}, {"f": np.ones((1, 3))},
        {"f": np.ones((3, 1, 1))}, {"y": [[0], [1], [None], [1]]},
    ],
    ids=str,
)  # fmt: skip
def test_graphs_of_another_shape(wrong):
    with pytest.raises(SsvmError):
        ready(**wrong)


@pytest.mark.parametrize(
    ("estimator", "x", "y"),
    [
        (ChainTagger, (5, 3, 2), (5,)), (ChainTagger, (5, 3), (5, 1)), (ChainTagger, (5, 3), (1, 5)),
        (GridSegmenter, (3, 4, 2), (4, 3)), (GridSegmenter, (3, 4, 2), (12,)), (GridSegmenter, (12, 2), (3, 4)),
        (MultiLabel, (3,), (2, 1)), (MultiLabel, (3, 1), (2,)),
    ],
)  # fmt: skip
def test_ready_models_refuse_other_shapes(estimator, x, y):
    rng = np.random.default_rng(0)
    Y = [rng.integers(2, size=y) for _ in range(4)]
    with pytest.raises((SsvmError, ValueError)):
        estimator(C=1.0).fit([rng.normal(size=x) for _ in range(4)], Y)


def test_a_list_of_class_weights_is_refused_by_name():
    X, Y = [np.ones((5, 3))] * 4, [[0, 1, 2, 1, 0]] * 4
    for wrong in ([1.0, 2.0, 1.0], np.ones(3), np.ones((3, 1))):
        with pytest.raises(OptionError, match="class_weight is None, 'balanced' or a dict"):
            ChainTagger(C=1.0, risk="margin", class_weight=wrong).fit(X, Y)


TWO, OTHER, ROW = np.zeros((2, 3), int), np.zeros((3, 2), int), np.zeros(3, int)


MEASURES = [label_accuracy, exact_match, mean_iou, alignment_error_rate, span_f1, score_report]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(("y", "found"), [(TWO, OTHER), (TWO, ROW), (ROW, TWO), (TWO.ravel(), TWO)])
def test_measures_compare_labels_of_one_shape(measure, y, found):
    with pytest.raises(DataError, match="as in truth"):
        measure([y], [found])


def test_possible_links_have_the_shape_of_the_sure_ones():
    with pytest.raises(DataError, match=r"possible: expected \(2, 3\) labels"):
        alignment_error_rate([TWO], [TWO], [ROW])
    with pytest.raises(DataError, match="possible: expected 2 examples"):
        alignment_error_rate([TWO, TWO], [TWO, TWO], [TWO])


def test_spans_are_of_flat_lists_of_tags():
    with pytest.raises(DataError, match="a list of tags for each sentence"):
        span_f1([TWO], [TWO])


def test_problems_refuse_other_shapes():
    with pytest.raises(FileFormatError, match=r"a number of states for each variable, found shape \(2, 2\)"):
        GraphProblem.of("here", [[2, 2], [2, 2]], [])
    with pytest.raises(FileFormatError, match=r"factor 0: expected a list of variables, found shape \(2, 2\)"):
        GraphProblem.of("here", [2] * 4, [([[0, 1], [2, 3]], np.zeros((2, 2, 2, 2)))])
