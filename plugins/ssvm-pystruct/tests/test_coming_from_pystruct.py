"""Rows of ``docs/coming_from/pystruct.md``, beside the models and learners that have PyStruct's objective.

PyStruct is not installed here. This package stands for it: PyStruct's own tests are about its models.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ssvm_pystruct.learners as learners
import ssvm_pystruct.models as models
from ssvm_dsl import (
    ANTISYMMETRIC,
    POTTS,
    SYMMETRIC,
    Allow,
    AtMost,
    Dim,
    Edges,
    Factor,
    Hamming,
    Input,
    Label,
    Latent,
    Model,
    StructuredSVM,
    along,
    chain,
    cliques,
    cross,
    grid,
    pairs,
)  # fmt: skip
from ssvm_dsl.errors import KeywordError
from ssvm_dsl.models import ChainTagger, Classifier, GraphLabeller, MultiLabel

PAGE = (Path(__file__).parents[3] / "docs/coming_from/pystruct.md").read_text()
PLAIN = {"bias": False, "scale": False, "risk": "margin", "random_state": 0, "tol": 1e-4}
EXACT = ("ad3", {"branch_and_bound": True})
C = 0.3

rng = np.random.default_rng(0)
ROWS = rng.normal(size=(40, 3))
CLASSES = (ROWS + rng.normal(size=(40, 3))).argmax(axis=1)
SETS = np.c_[CLASSES > 0, CLASSES != 1].astype(int)
RING = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])
NODES = [rng.normal(size=(4, 2)) for _ in range(6)]
STATES = [(np.c_[x, np.zeros(4)] + 0.5 * rng.normal(size=(4, 3))).argmax(axis=1) for x in NODES]
OF_EDGES = [rng.normal(size=(4, 2)) for _ in range(6)]
IMAGES = [rng.normal(size=(3, 4, 2)) for _ in range(5)]
PIXELS = [rng.integers(2, size=(3, 4)) for _ in range(5)]


class Sets(Model):
    K = Dim(2)
    x = Input(3)
    y = Label(K, 2)
    node = Factor(y, features=x, per=K, form=[[-1, 1]])
    both = Factor(cliques(y, [(0, 1)]), per="edge")
    loss = Hamming(y)


class Chain(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y), form=SYMMETRIC)
    loss = Hamming(y)


class EdgeFeatures(Model):
    N, M = Dim(), Dim()
    x, edges, f = Input(N, 2), Edges(M, over=N), Input(M, 2)
    y = Label(N, 3)
    node = Factor(y, features=x)
    edge = Factor(along(y, edges), features=f)
    loss = Hamming(y)


class Grid(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 2)
    y = Label(H, W, 2)
    data = Factor(y, features=x)
    both = Factor(grid(y), form=SYMMETRIC)
    loss = Hamming(y)


class Eight(Model):
    H, W = Dim(), Dim()
    h, w = H.index(), W.index()
    x = Input(H, W, 2)
    y = Label(H, W, 2)
    data = Factor(y, features=x)
    both = Factor(grid(y), form=SYMMETRIC)
    down = Factor(pairs(y, H, W), form=SYMMETRIC, tie=both)
    up = Factor((y[h + 1, w], y[h, w + 1]), form=SYMMETRIC, tie=both)
    loss = Hamming(y)


class Directions(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 2)
    y = Label(H, W, 2)
    data = Factor(y, features=x)
    right = Factor(pairs(y, W))
    down = Factor(pairs(y, H))
    loss = Hamming(y)


class Types(Model):
    N, K, M = Dim(), Dim(), Dim()
    a, b, edges, f = Input(N, 2), Input(K, 1), Edges(M, over=(N, K)), Input(M, 1)
    y, z = Label(N, 2), Label(K, 3)
    of_y, of_z = Factor(y, features=a), Factor(z, features=b)
    between = Factor(along((y, z), edges), features=f)
    loss = Hamming(y) + Hamming(z)


def typed():
    numbers = np.random.default_rng(1)
    X, ours, Y, named = [], [], [], []
    for _ in range(5):
        a, b, f = numbers.normal(size=(2, 2)), numbers.normal(size=(3, 1)), numbers.normal(size=(3, 1))
        edges, none = np.array([[0, 0], [1, 1], [1, 2]]), np.zeros((0, 2), int)
        y, z = numbers.integers(2, size=2), numbers.integers(3, size=3)
        zeros = np.zeros((0, 1))
        X.append(([a, b], [none, edges, none, none], [zeros, f, zeros, zeros]))
        ours.append({"a": a, "b": b, "edges": edges, "f": f})
        Y.append(np.r_[y, z + 2])
        named.append({"y": y, "z": z})
    return X, Y, ours, named


def graphs(*parts):
    return [tuple(one) for one in zip(NODES, [RING] * 6, *parts, strict=True)]


SIGNS = 2 * SETS[:, 0] - 1

#: What the row begins with, PyStruct's model and its data, ours and its data, C of ours as a multiple, and how many
#: times our objective is PyStruct's.
MODELS = {
    "`BinaryClf`, `C`": (
        models.BinaryClf(), ROWS, SIGNS, lambda c: Classifier(C=c, **PLAIN), ROWS, SIGNS, 0.5, 0.5,
    ),
    "`MultiClassClf`": (
        models.MultiClassClf(), ROWS, CLASSES, lambda c: Classifier(C=c, **PLAIN), ROWS, CLASSES, 1, 1,
    ),
    "`MultiLabelClf`, no edges": (
        models.MultiLabelClf(), ROWS, SETS, lambda c: MultiLabel(together=False, C=c, **PLAIN), ROWS, SETS, 4, 4,
    ),
    "`MultiLabelClf`, edges": (
        models.MultiLabelClf(edges=[(0, 1)]), ROWS, SETS, lambda c: StructuredSVM(Sets, C=c, tol=1e-4), list(ROWS),
        list(SETS), 1, 1,
    ),
    "`ChainCRF`": (
        models.ChainCRF(), NODES, STATES, lambda c: ChainTagger(C=c, **PLAIN), NODES, STATES, 1, 1,
    ),
    "`ChainCRF` undirected": (
        models.ChainCRF(directed=False), NODES, STATES, lambda c: StructuredSVM(Chain, C=c, tol=1e-4), NODES, STATES, 1,
        1,
    ),
    "`GraphCRF`": (
        models.GraphCRF(inference_method=EXACT), graphs(), STATES,
        lambda c: GraphLabeller(associative=False, C=c, **PLAIN), graphs(), STATES, 1, 1,
    ),
    "`GraphCRF` directed": (
        models.GraphCRF(inference_method=EXACT, directed=True), graphs(), STATES,
        lambda c: GraphLabeller(associative=False, directed=True, C=c, **PLAIN), graphs(), STATES, 1, 1,
    ),
    "`EdgeFeatureGraphCRF`": (
        models.EdgeFeatureGraphCRF(inference_method=EXACT), graphs(OF_EDGES), STATES,
        lambda c: StructuredSVM(EdgeFeatures, C=c, tol=1e-4), graphs(OF_EDGES), STATES, 1, 1,
    ),
    "`GridCRF`": (
        models.GridCRF(inference_method=EXACT), IMAGES, PIXELS, lambda c: StructuredSVM(Grid, C=c, tol=1e-4), IMAGES,
        PIXELS, 1, 1,
    ),
    "`GridCRF(neighborhood=8)`": (
        models.GridCRF(inference_method=EXACT, neighborhood=8), IMAGES, PIXELS,
        lambda c: StructuredSVM(Eight, C=c, tol=1e-4), IMAGES, PIXELS, 1, 1,
    ),
    "`DirectionalGridCRF`": (
        models.DirectionalGridCRF(inference_method=EXACT), IMAGES, PIXELS,
        lambda c: StructuredSVM(Directions, C=c, tol=1e-4), IMAGES, PIXELS, 1, 1,
    ),
    "`NodeTypeEdgeFeatureGraphCRF`": (
        models.NodeTypeEdgeFeatureGraphCRF(2, [2, 3], [2, 1], np.array([[0, 1], [1, 0]]), inference_method=EXACT),
        *typed()[:2], lambda c: StructuredSVM(Types, C=c, tol=1e-4), *typed()[2:], 1, 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", MODELS)
def test_models_have_one_optimum(row):
    theirs, X, Y, ours, data, labels, more, scale = MODELS[row]
    assert f"| {row.split(' ')[0].rstrip(',')}" in PAGE
    learner = learners.NSlackSSVM(theirs, C=C, tol=1e-4, max_iter=2000).fit(X, Y)
    svm = ours(more * C).fit(data, labels)
    report = svm.report_
    assert report.certified
    assert report.primal == pytest.approx(scale * learner.svm_.report_.primal, rel=2e-3)
    assert learner.svm_.report_.primal < 0.98 * C * sum(theirs.max_loss(y) for y in Y)  # something is learnt


def test_symmetric_features_are_forms():
    """PyStruct has a weight for each entry of such a table: pairs of states count twice in its square."""
    k, pairs_of_states = 3, [(i, j) for i in range(3) for j in range(i)]
    one = {(i, j): np.eye(k * k)[i * k + j].reshape(k, k) for i in range(k) for j in range(k)}
    signed = {s: [(one[i, j] + s * one[j, i]) / np.sqrt(2) for i, j in pairs_of_states] for s in (1, -1)}

    class Forms(Model):
        N, M = Dim(), Dim()
        x, edges, f, g = Input(N, 2), Edges(M, over=N), Input(M, 1), Input(M, 1)
        y = Label(N, 3)
        node = Factor(y, features=x)
        both = Factor(along(y, edges), features=f, form=[one[i, i] for i in range(k)] + signed[1])
        turned = Factor(along(y, edges), features=g, form=signed[-1])
        loss = Hamming(y)

    class Named(Forms):
        both = Factor(along(Forms.y, Forms.edges), features=Forms.f, form=SYMMETRIC)
        turned = Factor(along(Forms.y, Forms.edges), features=Forms.g, form=ANTISYMMETRIC)

    theirs = models.EdgeFeatureGraphCRF(
        inference_method=EXACT, symmetric_edge_features=[0], antisymmetric_edge_features=[1]
    )
    learner = learners.NSlackSSVM(theirs, C=C, tol=1e-4, max_iter=2000).fit(graphs(OF_EDGES), STATES)
    halves = graphs([f[:, :1] for f in OF_EDGES], [f[:, 1:] for f in OF_EDGES])
    same, named = (StructuredSVM(one, C=C, tol=1e-4).fit(halves, STATES).report_.primal for one in (Forms, Named))
    assert same == pytest.approx(learner.svm_.report_.primal, rel=1e-3)
    assert named <= same  # it regularises pairs of states half as much


def test_hidden_states_are_tied_to_labels():
    class Tied(Model):
        N, M = Dim(), Dim()
        x, edges = Input(N, 2), Edges(M, over=N)
        h, y = Latent(N, 6), Label(N, 3)
        node = Factor(h, features=x)
        pair = Factor(along(h, edges), form=SYMMETRIC)
        tie = Allow(cross(h, y), [(s, s // 2) for s in range(6)])
        loss = Hamming(y)

    theirs = models.LatentGraphCRF(n_labels=3, n_features=2, n_states_per_label=2, inference_method=EXACT)
    w = np.random.default_rng(2).normal(size=12 + 21)
    table = np.zeros((6, 6))
    table[np.tril_indices(6)] = w[12:]
    ours = StructuredSVM.from_weights(Tied, {"node": w[:12].reshape(6, 2), "pair": table.T[np.triu_indices(6)]})
    for x in graphs():
        assert ours.predict([x])[0].tolist() == theirs.label_from_latent(theirs.inference(x, w)).tolist()
    assert len(ours.fit(graphs(), STATES).predict(graphs())) == len(STATES)


def test_hidden_nodes_bring_their_number():
    class Nodes(Model):
        N, K, M = Dim(), Dim(), Dim()
        x, edges = Input(N, 2), Edges(M, over=(N, K))
        y, h = Label(N, 3), Latent(K, 2)
        node = Factor(y, features=x)
        pair = Factor(along((y, h), edges))
        loss = Hamming(y)

    edges = np.array([[0, 0], [1, 0], [2, 1], [3, 1]])
    data = [{"x": x, "edges": edges, "K": 2} for x in NODES]
    svm = StructuredSVM(Nodes, C=C, random_state=0, max_passes=200).fit(data, STATES)
    assert [len(y) for y in svm.predict(data)] == [4] * 6


# -- learners ------------------------------------------------------------------------------------------------


def fitted(**options):
    return StructuredSVM(Chain, **{"C": C, "tol": 1e-3, "random_state": 0, **options}).fit(NODES, STATES)


CHAIN = models.ChainCRF(directed=False)
OPTIMUM = learners.NSlackSSVM(CHAIN, C=C, tol=1e-4, max_iter=2000).fit(NODES, STATES).svm_.report_.primal


@pytest.mark.parametrize("trainer", ["bcfw", "one-slack", "n-slack"])
def test_trainers_reach_one_optimum(trainer):
    assert f'"{trainer}"' in PAGE
    report = fitted(trainer=trainer, max_passes=2000).report_
    assert report.certified
    assert report.primal == pytest.approx(OPTIMUM, rel=2e-3)


def test_auto_takes_the_block_coordinate_method_for_margins():
    assert fitted().report_.trainer == "bcfw"


ONE_BY_ONE = {"averaging": False, "order": "incremental"}
AVERAGED = ONE_BY_ONE | {"averaging": True, "average_from": 3, "growth": 0.5, "offset": 2.0}

#: A perceptron of PyStruct, and the options of ours.
SAME_STEPS = {
    "one by one": (learners.StructuredPerceptron(CHAIN, max_iter=7), ONE_BY_ONE),
    "batch": (learners.StructuredPerceptron(CHAIN, max_iter=7, batch=True), ONE_BY_ONE | {"order": "batch"}),
    "average": (
        learners.StructuredPerceptron(CHAIN, max_iter=7, average=3, decay_exponent=0.5, decay_t0=2), AVERAGED,
    ),
}  # fmt: skip


def in_their_order(svm):
    """Return weights of nodes, then the lower triangle of the symmetric table, row by row; ours has the upper one."""
    table = np.zeros((3, 3))
    table[np.triu_indices(3)] = svm.weights_["trans"]
    return np.r_[svm.weights_["emit"].ravel(), table.T[np.tril_indices(3)]]


@pytest.mark.parametrize("name", SAME_STEPS)
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_perceptrons_take_the_same_steps(name):
    theirs, options = SAME_STEPS[name]
    ours = fitted(C=1.0, max_passes=7, trainer="perceptron", risk="perceptron", trainer_options=options)
    np.testing.assert_allclose(in_their_order(ours), theirs.fit(NODES, STATES).w, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_subgradient_has_the_options_of_the_page():
    theirs = learners.SubgradientSSVM(CHAIN, C=C, max_iter=5, momentum=0.3, decay_exponent=0.5, decay_t0=4)
    options = {"momentum": 0.3, "offset": 3.0, "schedule": "1/sqrt(t)", "order": "incremental", "averaging": "none"}
    options |= {"step_size": C * len(NODES), "best_iterate": False, "evaluate_every": 1}
    ours = fitted(trainer="subgradient", trainer_options=options, max_passes=10, tol=1e-15)
    np.testing.assert_allclose(in_their_order(ours), theirs.fit(NODES, STATES).w, atol=1e-9)


@pytest.mark.parametrize("backend", ["max-product", "ad3", "lp", "combi"])
def test_backends_have_the_names_of_the_page(backend):
    svm = fitted()
    exact = svm.predict(NODES)
    svm.set_params(backend=backend)
    assert [y.tolist() for y in svm.predict(NODES)] == [y.tolist() for y in exact]  # chains: all are tight


def test_two_states_by_qpbo_and_more_by_expansions():
    two = StructuredSVM(Grid, C=C, backend="qpbo", risk="margin", max_passes=50).fit(IMAGES, PIXELS)
    assert two.predict(IMAGES)[0].shape == (3, 4)

    class Potts(Model):
        N, M = Dim(), Dim()
        x, edges = Input(N, 2), Edges(M, over=N)
        y = Label(N, 3)
        node = Factor(y, features=x)
        pair = Factor(along(y, edges), form=POTTS, nonneg=True)
        loss = Hamming(y)

    more = StructuredSVM(Potts, C=C, backend="alpha-expansion", max_passes=50).fit(graphs(), STATES)
    assert len(more.predict(graphs())) == 6


def test_relaxed_risks_are_those_of_fractional_labellings():
    exact = StructuredSVM(Grid, C=C, tol=1e-3).fit(IMAGES, PIXELS).report_.primal
    relaxed = StructuredSVM(Grid, C=C, tol=1e-3, risk="relaxed", backend="ad3").fit(IMAGES, PIXELS).report_.primal
    theirs = learners.NSlackSSVM(models.GridCRF(inference_method="ad3"), C=C, tol=1e-4, max_iter=500)
    assert relaxed >= exact * (1 - 2e-3)
    assert relaxed == pytest.approx(theirs.fit(IMAGES, PIXELS).svm_.report_.primal, rel=4e-3)


def test_c_passes_and_tolerance():
    report = fitted(tol=0.01).report_
    assert report.relative_gap <= 0.01
    assert report.certified
    assert fitted(max_passes=300, n_threads=1).report_.certified


def test_class_weights_are_those_of_the_loss():
    class Weighted(Chain):
        loss = Hamming(Chain.y, weights=[1.0, 3.0, 0.5])

    ours = StructuredSVM(Weighted, C=C, tol=1e-4).fit(NODES, STATES).report_.primal
    model = models.ChainCRF(directed=False, class_weight=[1.0, 3.0, 0.5])
    theirs = learners.NSlackSSVM(model, C=C, tol=1e-4, max_iter=2000).fit(NODES, STATES)
    assert ours == pytest.approx(theirs.svm_.report_.primal, rel=1e-3)
    weights = {0: 1.0, 1: 3.0, 2: 0.5}
    ready = ChainTagger(C=C, class_weight=weights, **PLAIN).declare(NODES, STATES)
    assert ready.declaration.loss.weights == (1.0, 3.0, 0.5)


def test_rescaled_risks_are_weights_of_examples():
    weight = np.array([1.0, 3.0, 0.5])
    theirs = models.MultiClassClf(class_weight=weight, rescale_C=True)
    learner = learners.NSlackSSVM(theirs, C=C, tol=1e-4, max_iter=2000).fit(ROWS, CLASSES)
    ours = Classifier(C=C, **PLAIN).fit(ROWS, CLASSES, sample_weight=weight[CLASSES])
    assert ours.report_.primal == pytest.approx(learner.svm_.report_.primal, rel=1e-3)


def test_signs_of_weights_are_declared():
    class Attractive(Model):
        T = Dim()
        x, y = Input(T, 2), Label(T, 3)
        emit = Factor(y, features=x)
        trans = Factor(chain(y), nonneg=True)
        loss = Hamming(y)

    assert (StructuredSVM(Attractive, C=C).fit(NODES, STATES).weights_["trans"] >= 0).all()


def test_fits_go_on_from_the_weights_of_others():
    svm = fitted(trainer="one-slack", trainer_options={"cache": 50}, warm_start=True)
    first = svm.report_
    svm.set_params(backend="ad3")
    again = svm.fit(NODES, STATES).report_
    assert again.primal == pytest.approx(first.primal, rel=3e-3)
    assert again.plan.backend == "ad3"
    assert len(again.history) < len(first.history)


def test_callbacks_save_models(tmp_path):
    def keep(event):
        event.model().save(tmp_path / "now.ssvm")

    svm = fitted(callbacks=[keep])
    assert len(StructuredSVM.load(tmp_path / "now.ssvm").predict(NODES)) == len(NODES)
    svm.save(tmp_path / "end.ssvm")
    assert (StructuredSVM.load(tmp_path / "end.ssvm").coef_ == svm.coef_).all()


def test_numbers_of_constraints_come_with_each_example():
    class Few(Model):
        T = Dim()
        x, most = Input(T, 2), Input(1)
        y = Label(T, 3)
        emit = Factor(y, features=x)
        few = AtMost(most, y.is_(1))
        loss = Hamming(y)

    data = [{"x": np.ones((4, 2)), "most": [n]} for n in (0, 1, 4)]
    svm = StructuredSVM.from_weights(Few, {"emit": [[0, 0], [1, 1], [0, 0]]})
    assert [int((y == 1).sum()) for y in svm.predict(data)] == [0, 1, 4]


def test_relaxed_answers_are_marginals():
    class Ring(Model):
        N, M = Dim(), Dim()
        x, edges = Input(N, 1), Edges(M, over=N)
        y = Label(N, 2)
        node = Factor(y, features=x)
        pair = Factor(along(y, edges))

    data = [(np.ones((3, 1)), np.array([[0, 1], [1, 2], [2, 0]])), (np.ones((3, 1)), np.array([[0, 1], [1, 2]]))]
    w = {"node": [[0.1], [0.0]], "pair": [[0.0, 1.0], [1.0, 0.0]]}
    shares = models.GraphCRF(2, 1, inference_method="lp").inference(data[0], np.array([0.1, 0, 0, 1, 0]), relaxed=True)
    for backend in ("lp", "ad3"):
        odd, path = StructuredSVM.from_weights(Ring, w, backend=backend).predict_relaxed(data)
        np.testing.assert_allclose(odd, shares[0], atol=1e-4)
        np.testing.assert_allclose(path, [[1, 0], [0, 1], [1, 0]], atol=1e-4)


def test_parts_of_the_objective():
    svm = fitted()
    x, y = NODES[0], STATES[0]
    psi, other = svm.joint_feature(x, y), svm.loss_augmented(x, y)
    w = svm.coef_
    assert (svm.weights_["emit"] == w[:6].reshape(3, 2)).all()
    assert svm.loss(x, y, other) == pytest.approx(CHAIN.loss(y, other))
    assert psi[:6].reshape(3, 2) == pytest.approx(np.eye(3)[y].T @ x)
    worth = svm.loss(x, y, other) + w @ svm.joint_feature(x, other)
    assert worth >= max(svm.loss(x, y, z) + w @ svm.joint_feature(x, z) for z in STATES) - 1e-9
    wrong = sum(svm.loss(a, b, c) for a, b, c in zip(NODES, STATES, svm.predict(NODES), strict=True))
    assert svm.score(NODES, STATES) == pytest.approx(1 - wrong / sum(map(len, STATES)))


@pytest.mark.parametrize(
    "name",
    [
        "inference_method", "max_iter", "n_jobs", "switch_to", "logger", "negativity_constraint", "inference_cache",
        "show_loss_every", "class_weight", "rescale_C", "break_on_bad", "check_constraints", "batch_size",
        "learning_rate", "momentum", "decay_exponent", "averaging", "latent_iter", "base_ssvm", "do_averaging",
        "average", "decay_t0", "sample_method", "inactive_window", "inactive_threshold", "cache_tol", "shuffle",
        "n_states", "n_features", "check_dual_every", "break_on_no_constraints",
    ],
)  # fmt: skip
def test_names_of_their_parameters_raise_errors_that_say_more(name):
    with pytest.raises(KeywordError) as found:
        StructuredSVM(Chain, **{name: 1})
    first, *_ = str(found.value).split("\n")
    assert name in first
    assert len(first) > len(f"StructuredSVM has no parameter '{name}'") + 5, first


def test_weights_of_edges_have_the_features_last():
    svm = StructuredSVM(EdgeFeatures, C=C).fit(graphs(OF_EDGES), STATES)
    assert svm.weights_["edge"].shape == (3, 3, 2)
    theirs = models.EdgeFeatureGraphCRF(3, 2, 2, inference_method=EXACT)
    w = np.arange(6 + 18.0)
    pairwise = theirs._get_pairwise_potentials(graphs(OF_EDGES)[0], w)
    np.testing.assert_allclose(pairwise, np.tensordot(OF_EDGES[0], w[6:].reshape(2, 3, 3), 1))
