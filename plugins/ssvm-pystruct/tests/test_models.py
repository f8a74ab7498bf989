"""Models: potentials, joint features, inference and losses against sums written out, and all labellings."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ssvm_dsl.errors import DataError
from ssvm_pystruct import models
from ssvm_pystruct.inference import compute_energy, get_installed, inference_dispatch
from ssvm_pystruct.utils import (
    compress_sym,
    exhaustive_inference,
    exhaustive_loss_augmented_inference,
    expand_sym,
    find_constraint,
    make_grid_edges,
)

TRIANGLE = np.array([[0, 1], [1, 2], [2, 0]])


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def one_of_each():
    """Yield (model, example, labels, weights) of each kind of model."""
    x, f = drawn(0, 4, 3), drawn(1, 3, 2)
    grid, edges = drawn(2, 2, 3, 2), np.array([[0, 1], [1, 2], [2, 3]])
    cases = [
        (models.ChainCRF(2, 3), x, [0, 1, 1, 0]),
        (models.GraphCRF(3, 3), (x, TRIANGLE), [0, 2, 1, 0]),
        (models.GraphCRF(2, 3, directed=True, class_weight=[1.0, 3.0]), (x, TRIANGLE), [0, 1, 1, 0]),
        (models.EdgeFeatureGraphCRF(2, 3, 2), (x, edges, f), [0, 1, 1, 0]),
        (models.GridCRF(2, 2), grid, [[0, 1, 1], [1, 0, 1]]),
        (models.GridCRF(2, 2, neighborhood=8), grid, [[0, 1, 1], [1, 0, 1]]),
        (models.DirectionalGridCRF(2, 2, neighborhood=8), grid, [[0, 1, 1], [1, 0, 1]]),
        (models.MultiLabelClf(3, 3, TRIANGLE), x[0], [0, 1, 1]),
        (models.LatentGridCRF(2, 2, [1, 2]), grid[:, :2], [[0, 2], [1, 0]]),
        (models.LatentNodeCRF(2, 3, 2), (x[:3], np.array([[0, 3], [1, 3], [2, 3]]), 1), [0, 1, 1, 3]),
    ]
    for model, example, y in cases:
        yield model, example, np.array(y), drawn(3, model.size_joint_feature)


@pytest.mark.parametrize("case", list(one_of_each()), ids=lambda case: type(case[0]).__name__)
def test_scores_are_potentials_and_joint_features(case):
    model, x, y, w = case
    unary, pairwise = model._get_unary_potentials(x, w), model._get_pairwise_potentials(x, w)
    energy = compute_energy(unary, pairwise, model._get_edges(x), y.ravel())
    assert np.dot(w, model.joint_feature(x, y)) == pytest.approx(energy)


@pytest.mark.parametrize("case", list(one_of_each()), ids=lambda case: type(case[0]).__name__)
def test_inference_is_the_best_of_all_labellings(case):
    model, x, y, w = case
    model.inference_method = ("ad3", {"branch_and_bound": True})
    found, energy = model.inference(x, w, return_energy=True)
    assert energy == pytest.approx(-np.dot(w, model.joint_feature(x, found)))
    augmented, minus = model.loss_augmented_inference(x, y, w, return_energy=True)
    assert -minus == pytest.approx(model.loss(y, augmented) + np.dot(w, model.joint_feature(x, augmented)))
    if isinstance(model, models.MultiLabelClf | models.LatentNodeCRF):  # of which not all labellings are listed
        return
    if not isinstance(x, tuple):
        assert (found == np.reshape(exhaustive_inference(model, x, w), np.shape(found))).all()
    assert (augmented == exhaustive_loss_augmented_inference(model, x, y, w)).all()


def test_the_order_of_weights():
    x, y = drawn(0, 3, 2), np.array([0, 1, 1])
    chain = models.ChainCRF(2, 2).joint_feature(x, y)
    assert chain.tolist() == pytest.approx([*x[0], *(x[1] + x[2]), 0, 1, 0, 1])
    graph = models.GraphCRF(2, 2).joint_feature((x, TRIANGLE), y)
    assert graph[4:].tolist() == [0, 2, 1]  # pairs (0, 0), (0, 1) or (1, 0), (1, 1)
    f = drawn(1, 3, 2)
    edges = models.EdgeFeatureGraphCRF(2, 2, 2).joint_feature((x, TRIANGLE, f), y)
    assert edges[4:8].tolist() == pytest.approx([0, f[0, 0], f[2, 0], f[1, 0]])
    assert edges[8:].tolist() == pytest.approx([0, f[0, 1], f[2, 1], f[1, 1]])
    assert models.BinaryClf(2).joint_feature(x[0], -1).tolist() == pytest.approx((-x[0] / 2).tolist())
    assert models.MultiClassClf(2, 3).joint_feature(x[0], 1).tolist() == pytest.approx([0, 0, *x[0], 0, 0])
    both = models.MultiLabelClf(2, 2, [[0, 1]]).joint_feature(x[0], np.array([0, 1]))
    assert both.tolist() == pytest.approx([*-x[0], *x[0], 0, 1, 0, 0])


def test_symmetric_features_of_edges_score_with_the_mean_of_both_halves():
    x, edges, f = drawn(0, 2, 1), np.array([[0, 1]]), np.array([[2.0, 3.0]])
    model = models.EdgeFeatureGraphCRF(2, 1, 2, symmetric_edge_features=[0], antisymmetric_edge_features=[1])
    psi = model.joint_feature((x, edges, f), np.array([0, 1]))[2:]
    assert psi.tolist() == [0.0, 1.0, 1.0, 0.0, 0.0, 1.5, -1.5, 0.0]


def test_relaxed_answers_score_as_their_marginals_do():
    w = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0])  # neighbours differ: a triangle is frustrated
    model = models.GraphCRF(2, 2, inference_method="lp")
    x = np.zeros((3, 2)), TRIANGLE
    (nodes, edges), energy = model.inference(x, w, relaxed=True, return_energy=True)
    assert np.allclose(nodes, 0.5)
    assert energy == pytest.approx(-3.0)
    assert energy == pytest.approx(-np.dot(w, model.joint_feature(x, (nodes, edges))))
    y = np.zeros(3, dtype=int)
    assert model.loss(y, (nodes, edges)) == pytest.approx(1.5)
    exact = find_constraint(model, x, y, w, relaxed=False)[2]
    assert find_constraint(model, x, y, w)[2] > exact


def test_constraints_hold_in_the_best_of_all_labellings_that_keep_them():
    unary, table = drawn(4, 4, 3), drawn(5, 3, 3)
    edges = np.array([[0, 1], [1, 2], [2, 3]])
    rules = {
        ("XOR", (0, 1, 2), 1, False): lambda t: sum(t) == 1,
        ("ATMOSTONE", (0, 1, 2, 3), 0, False): lambda t: sum(t) <= 1,
        ("OR", (1, 2), 2, False): any,
        ("OR", (0, 3), 1, True): any,
        ("XOROUT", (0, 1, 2), 2, False): lambda t: sum(t[:-1]) == t[-1],
        ("OROUT", (0, 1, 3), 0, False): lambda t: any(t[:-1]) == t[-1],
        ("ANDOUT", (0, 1, 3), 2, False): lambda t: all(t[:-1]) == t[-1],
        ("IMPLY", (0, 2, 3), 1, False): lambda t: not all(t[:-1]) or t[-1],
    }
    for (operator, nodes, state, negated), holds in rules.items():
        rule = operator, list(nodes), state, negated
        y = inference_dispatch(unary, table, edges, "ad3+", constraints=[rule])
        fits = [one for one in product(range(3), repeat=4) if holds([(one[v] == state) is not negated for v in nodes])]
        best = max(fits, key=lambda one: compute_energy(unary, table, edges, np.array(one)))
        assert tuple(y) == best, operator
    with pytest.raises(ValueError, match="operator"):
        inference_dispatch(unary, table, edges, "ad3+", constraints=[("NAND", [0], 0, False)])


def test_nodes_of_two_types():
    model = models.NodeTypeEdgeFeatureGraphCRF(2, [2, 3], [1, 2], [[0, 1], [1, 0]])
    x = (
        [drawn(0, 2, 1), drawn(1, 2, 2)],
        [None, np.array([[0, 1], [1, 0]]), None, None],
        [None, drawn(2, 2, 1), None, None],
    )
    w = drawn(3, model.size_joint_feature)
    y = model.flattenY([[0, 1], [2, 0]])
    assert y.tolist() == [0, 1, 4, 2]
    assert [one.tolist() for one in model.unflattenY(x, y)] == [[0, 1], [2, 0]]
    found = model.inference(x, w)
    every = [model.flattenY([one[:2], one[2:]]) for one in product(range(2), range(2), range(3), range(3))]
    best = max(every, key=lambda one: np.dot(w, model.joint_feature(x, one)))
    assert found.tolist() == best.tolist()
    rule = "XOR", [[0], [0, 1]], [1, 2], [False, False]
    kept = [one for one in every if (one[0] == 1) + (one[2] == 4) + (one[3] == 4) == 1]
    best = max(kept, key=lambda one: np.dot(w, model.joint_feature(x, one)))
    assert model.inference(x, w, constraints=[rule]).tolist() == best.tolist()
    with pytest.raises(ValueError, match="symmetric"):
        models.NodeTypeEdgeFeatureGraphCRF(2, [2, 3], [1, 2], [[0, 1], [2, 0]])


def test_numbers_that_do_not_fit_are_refused():
    x, y = drawn(0, 5, 3), np.array([0, 1, 2, 0, 1])
    with pytest.raises(ValueError, match="expected 2 states, got 3"):
        models.ChainCRF(n_states=2).initialize([x], [y])
    with pytest.raises(ValueError, match="w of shape"):
        models.ChainCRF(2, 3).inference(x, np.zeros(3))
    with pytest.raises(ValueError, match="edges of ints"):
        models.GraphCRF(2, 3).inference((x, np.array([[0, 1, 2], [1, 2, 3]])), np.zeros(9))
    with pytest.raises(ValueError, match="inference_method"):
        models.GraphCRF(2, 3, inference_method="gibbs").inference((x, TRIANGLE), np.zeros(9))
    assert "ogm" not in get_installed(["ogm", "ad3"])


def test_symmetric_tables_and_grids():
    table = drawn(0, 4, 4)
    table = table + table.T
    assert np.allclose(expand_sym(compress_sym(table, make_symmetric=False)), table)
    assert make_grid_edges(np.zeros((2, 2))).tolist() == [[0, 1], [2, 3], [0, 2], [1, 3]]
    assert make_grid_edges(np.zeros((2, 2)), 8).tolist()[4:] == [[2, 1], [0, 3]]


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (
            models.LatentGraphCRF(n_labels=2, n_features=2, n_states_per_label=[1, 2]),
            (np.arange(6.0).reshape(3, 2) - 2, np.array([[0, 1], [1, 2]])),
        ),
        (
            models.LatentNodeCRF(n_labels=2, n_features=2, n_hidden_states=2),
            (np.arange(4.0).reshape(2, 2) - 1, np.array([[0, 2], [1, 3], [2, 3]]), 2),
        ),
        (
            models.LatentNodeCRF(n_labels=2, n_features=2, n_hidden_states=2, latent_node_features=True),
            (np.arange(8.0).reshape(4, 2) - 3, np.array([[0, 2], [1, 3], [2, 3]]), 2),
        ),
    ],
)
def test_completions_are_the_best_of_all_that_have_the_labels(model, x):
    rng = np.random.default_rng(0)
    n, n_hidden = len(x[0]) + (x[-1] if len(x) > 2 and not model.latent_node_features else 0), x[2] if len(x) > 2 else 0
    examples, labels, found = [], [], []
    w = rng.normal(size=model.size_joint_feature)
    for y in product(range(2), repeat=n - n_hidden):
        every = [np.array(h) for h in product(range(model.n_states), repeat=n)]
        fits = [h for h in every if not n_hidden or ((h < 2) == (np.arange(n) < n - n_hidden)).all()]
        fits = [h for h in fits if model.label_from_latent(h).tolist() == list(y)]
        best = max(np.dot(w, model.joint_feature(x, h)) for h in fits)
        h = model.latent(x, np.array(y), w)
        assert model.label_from_latent(h).tolist() == list(y)
        assert np.dot(w, model.joint_feature(x, h)) == pytest.approx(best)
        examples.append(x)
        labels.append(np.array(y))
        found.append(h.tolist())
    assert [h.tolist() for h in model.batch_latent(examples, labels, w)] == found


def test_other_shapes_are_refused():
    grid = models.GridCRF(n_states=2, n_features=2)
    x, w = np.ones((3, 4, 2)), np.zeros(4 + 3)
    for wrong in (np.ones((12, 2)), np.ones((3, 4)), np.ones((1, 3, 4, 2))):
        with pytest.raises(ValueError, match="a grid of features"):
            grid.inference(wrong, w)
    for wrong in (np.zeros((4, 3), int), np.zeros(12, int), np.zeros((3, 4, 1), int)):
        with pytest.raises(ValueError, match="as the grid has"):
            grid.joint_feature(x, wrong)
    with pytest.raises(ValueError, match="unary potentials of shape"):
        inference_dispatch(np.zeros(3), np.zeros((3, 3)), [], "ad3")
    with pytest.raises(DataError):
        models.GraphCRF(2, 2).joint_feature((np.ones((4, 2)), [[0, 1]]), np.zeros((2, 2), int))
