"""Ready models: the same as the declaration they return, saved, copied, and fitted to every form of data they take."""

from __future__ import annotations

import pickle

import networkx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone

from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import DataError, KeywordError, OptionError
from ssvm_dsl.models import (
    ChainTagger,
    Classifier,
    DependencyParser,
    GraphLabeller,
    GridSegmenter,
    LatentGraph,
    Matcher,
    MultiLabel,
    Ranker,
    SegmentTagger,
)

WORDS = ["the", "old", "cat", "saw", "a", "small", "dog", "near", "the", "river"]


def sentences(n=12):
    """Return (named features, tags): words after 'the', 'a', 'old' and 'small' are nouns."""
    X, Y = [], []
    for k in range(n):
        words = [WORDS[j] for j in np.random.default_rng(k).integers(len(WORDS), size=2 + k % 4)]
        X.append([{f"w={w}": 1.0, "caps": k % 2 == 0} for w in words])
        Y.append(["D" if w in ("the", "a") else "A" if w in ("old", "small") else "N" for w in words])
    return X, Y


def rings(n=10, kind=networkx.Graph):
    """Return graphs of networkx: a ring of nodes with a number, and a class by its sign."""
    made = []
    for k in range(n):
        graph, rng = networkx.cycle_graph(4 + k % 3, create_using=kind), np.random.default_rng(k)
        for node in graph.nodes:
            x = rng.normal()
            graph.nodes[node].update(x=[x, 1.0], y="pos" if x > 0 else "neg")
        for tail, head in graph.edges:
            graph.edges[tail, head]["f"] = [1.0, abs(tail - head)]
        made.append(graph)
    return made


def heads():
    X = [(["the", "cat", "saw", "it"], ["D", "N", "V", "P"]), (["it", "saw", "the", "cat"], ["P", "V", "D", "N"])]
    return X, [np.array([1, 2, -1, 2]), np.array([1, -1, 3, 1])]


def small_heads():
    """Features of one's own, a number for each (word, head)."""
    rng = np.random.default_rng(0)
    X, Y = [], heads()[1]
    for y in Y:
        x = rng.normal(size=(4, 4, 3))
        x[np.flatnonzero(y >= 0), y[y >= 0], 0] += 4.0
        X.append({"x": x, "r": rng.normal(size=(4, 3)) + 4.0 * np.outer(y < 0, [1, 0, 0])})
    return X, Y


def links():
    rng = np.random.default_rng(0)
    Y = [np.eye(2, 3, dtype=int), np.eye(3, 2, dtype=int), np.zeros((1, 2), dtype=int)]
    return [2.0 * y[..., None] + 0.1 * rng.normal(size=(*y.shape, 2)) for y in Y], Y


def lists():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in (3, 4, 2)]
    return X, [np.argsort(np.argsort(-x[:, 0])) for x in X]


def maps():
    rng = np.random.default_rng(0)
    Y = [np.where(np.arange(24).reshape(4, 6) % 6 < 3, 0, 2), np.full((3, 3), 2), np.zeros((2, 5), dtype=int)]
    return [y[..., None] - 1.0 + 0.3 * rng.normal(size=(*y.shape, 2)) for y in Y], Y


def chains():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in (3, 5, 4, 1, 6)]
    return X, [np.argmax(x, axis=1) for x in X]


def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    return X, np.array(["neg", "pos"])[(X[:, 0] > 0).astype(int)]


def label_sets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    return X, (X[:, :3] > 0).astype(int)


def segments():
    X, Y = [], []
    for n in (4, 6, 3):
        x = np.zeros((n, 2))
        x[: n // 2, 0] = x[n // 2 :, 1] = 1.0
        X.append(x)
        Y.append([(0, n // 2, "low"), (n // 2, n, "high")])
    return X, Y


def graphs():
    made = rings()
    return [GraphLabeller()._arrays(one, 0) for one in made], [[y for _, y in one.nodes(data="y")] for one in made]


def kinds_of_graphs():
    """Graphs whose class no single node tells: all nodes alike, or one unlike the others."""
    X, Y = [], []
    for k in range(8):
        odd = k % 2
        x = np.array([[1.0, 0.0]] * 3 + [[0.0, 1.0] if odd else [1.0, 0.0]])
        X.append((x, np.array([[0, 1], [1, 2], [2, 3]])))
        Y.append("odd" if odd else "even")
    return X, Y


CASES = {
    "classifier": (Classifier(C=10.0), rows, 0.9),
    "chain": (ChainTagger(C=10.0), sentences, 1.0),
    "chain of arrays": (ChainTagger(C=10.0), lambda: chains(), 0.5),
    "chain of order 2": (ChainTagger(order=2, bias=False, C=10.0), sentences, 1.0),
    "independent tags": (ChainTagger(order=0, C=10.0), sentences, 1.0),
    "segments": (SegmentTagger(C=10.0), segments, 1.0),
    "grid": (GridSegmenter(C=1.0), maps, 0.9),
    "grid, free tables": (GridSegmenter(C=1.0, associative=False), maps, 0.9),
    "graph": (GraphLabeller(C=10.0), graphs, 0.9),
    "directed graph": (GraphLabeller(C=10.0, directed=True), graphs, 0.9),
    "labels": (MultiLabel(C=1.0), label_sets, 0.8),
    "independent labels": (MultiLabel(C=1.0, together=False), label_sets, 0.8),
    "matching": (Matcher(C=10.0), links, 1.0),
    "tree": (DependencyParser(C=10.0), small_heads, 1.0),
    "projective tree": (DependencyParser(C=10.0, projective=True), small_heads, 1.0),
    "ranking": (Ranker(C=100.0), lists, 0.6),
    "hidden states": (LatentGraph(C=10.0, states=2, random_state=0), kinds_of_graphs, 1.0),
    "hidden states of nodes": (LatentGraph(C=10.0, random_state=0), graphs, 0.8),
}
EVERY = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module")
def fitted():
    """Each estimator, fitted once, with its data."""
    known = {}

    def get(name):
        if name not in known:
            estimator, data, _ = CASES[name]
            X, Y = data()
            known[name] = (clone(estimator).set_params(n_threads=1).fit(X, Y), X, Y)
        return known[name]

    return get


def same(one, other):
    return all(
        np.array_equal(np.asarray(a, dtype=object), np.asarray(b, dtype=object))
        for a, b in zip(one, other, strict=True)
    )


@EVERY
def test_learns_and_certifies(name, fitted):
    svm, X, Y = fitted(name)
    assert svm.report_.relative_gap <= svm.tol or svm.model_.declaration.latents
    assert svm.score(X, Y) >= CASES[name][2]
    assert isinstance(svm, BaseEstimator)


@EVERY
def test_is_the_declared_model(name, fitted):
    """The declaration alone, in a plain structured SVM, reaches the same objective."""
    svm, X, Y = fitted(name)
    model = CASES[name][0].declare(X, Y)
    assert model.declaration == svm.model_.declaration
    assert len(str(model).splitlines()) <= 16
    options = {key: value for key, value in svm.get_params().items() if key not in svm.own}
    options |= {"risk": svm.risk_, "trainer": svm.report_.trainer, "guarantee": svm._guarantee().value}
    plain = StructuredSVM(model, **options).fit(list(svm._read_examples(X)), list(svm._read_labels(Y)))
    if not model.declaration.latents:
        assert plain.report_.primal == pytest.approx(svm.report_.primal, rel=2.1 * svm.tol)
        assert plain.report_.dual <= svm.report_.primal
        assert svm.report_.dual <= plain.report_.primal


@EVERY
def test_saved_copied_and_pickled(name, fitted, tmp_path):
    svm, X, _ = fitted(name)
    svm.save(tmp_path / "model")
    found = svm.predict(X)
    for other in (type(svm).load(tmp_path / "model"), pickle.loads(pickle.dumps(svm))):
        assert same(other.predict(X), found)
        assert other.get_params() == svm.get_params()
    assert not hasattr(clone(svm), "model_")


def test_chains_are_those_of_the_language():
    model = ChainTagger(bio=True).declare([[["a"], ["b"]]], [["B-X", "I-X"]])
    text = str(model)
    for line in ("x      = Attributes(T)", "y      = Label(T, ['B-X', 'I-X'])", "trans  = Factor(chain(y))"):
        assert line in text
    assert ChainTagger.declare([[["a"], ["b"]]], [["B", "I"]]).declaration.find("trans") is not None


def test_bio_tags_that_cannot_be_are_not_predicted():
    X, Y = [[["b"], ["i"], ["o"]]] * 3, [["B-X", "I-X", "O"]] * 3
    svm = ChainTagger(bio=True, C=10.0).fit(X, Y)
    assert svm.predict([[["i"], ["i"]]])[0].tolist() != ["I-X", "I-X"]
    assert svm.predict(X[:1])[0].tolist() == Y[0]


def test_sparse_rows_and_bare_lists():
    X, Y = rows()
    svm = Classifier(C=1.0, tol=1e-6, scale=False)
    wanted = svm.fit(X, Y).decision_function(X)
    for form in (sp.csr_array(X), sp.csr_matrix(X), sp.coo_array(X), X.tolist()):
        assert svm.fit(form, list(Y)).decision_function(form) == pytest.approx(wanted, abs=0.02)


def test_graphs_of_networkx_come_back_with_labels():
    made = rings()
    svm = GraphLabeller(C=10.0, tol=1e-6).fit(made)
    arrays = GraphLabeller(C=10.0, tol=1e-6).fit(*graphs())
    assert svm.report_.primal == pytest.approx(arrays.report_.primal, rel=1e-5)
    for graph, found in zip(made, svm.predict(made), strict=True):
        assert list(found.nodes) == list(graph.nodes)
        assert found is not graph
        assert {y for _, y in found.nodes(data="y")} <= {"pos", "neg"}
    assert svm.score(made) == pytest.approx(svm.score(*graphs()))
    directed = GraphLabeller(directed=True, edge_features="none").fit(rings(kind=networkx.DiGraph))
    assert "f" not in [one.name for one in directed.model_.declaration.inputs]


def test_graphs_with_classes_of_their_own():
    made = []
    for (x, edges), y in zip(*kinds_of_graphs(), strict=True):
        graph = networkx.Graph(edges.tolist(), y=y)
        networkx.set_node_attributes(graph, dict(enumerate(x.tolist())), "x")
        made.append(graph)
    svm = LatentGraph(C=10.0, random_state=0).fit(made)
    assert [one.graph["y"] for one in svm.predict(made)] == kinds_of_graphs()[1]


def test_graphs_that_lack_something():
    broken = rings(3)
    del broken[1].nodes[2]["x"]
    with pytest.raises(DataError, match=r"example 1: .*node 2.*attribute 'x'"):
        GraphLabeller().fit(broken)
    broken = rings(3)
    del broken[2].edges[0, 1]["f"]
    with pytest.raises(DataError, match=r"example 2: .*edge \(0, 1\).*'f'"):
        GraphLabeller().fit(broken)
    part = rings(4)
    del part[0].nodes[1]["y"]  # not known
    assert GraphLabeller(C=10.0).fit(part).predict(part[:1])[0].nodes[1]["y"] in ("pos", "neg")


def test_parts_of_speech_and_words_make_arcs():
    X, Y = heads()
    svm = DependencyParser(C=1.0, tol=0.05).fit(X, Y)
    assert svm.score(X, Y) == 1.0


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ChainTagger().fit([], []), DataError, "at least one example"),
        (lambda: ChainTagger().fit([[["a"]]], []), DataError, "expected 1 examples"),
        (lambda: ChainTagger().fit([[["a"]]], None), DataError, "labels of each example"),
        (lambda: ChainTagger().fit("abc", ["abc"]), DataError, "a list of examples"),
        (lambda: ChainTagger().fit({"x": 1}, [["a"]]), DataError, "a list of examples"),
        (lambda: ChainTagger().fit([[["a"]]], [[1.5]]), DataError, "strings or whole numbers"),
        (lambda: ChainTagger().fit([[["a"], ["a"]]], [["a", 1]]), DataError, "all strings or all whole numbers"),
        (lambda: ChainTagger().fit([np.ones(3)], [[0, 1]]).predict([np.ones((2, 2))]), DataError, "shape"),
        (lambda: GridSegmenter().fit([np.ones(3)], [[0, 1, 0]]), DataError, "2 axes"),
        (lambda: ChainTagger(orders=2), KeywordError, "order"),
        (lambda: ChainTagger(C=2.0, lam=0.1).fit([[["a"]]], [["a"]]), OptionError, "say the same thing"),
        (lambda: ChainTagger().predict([[["a"]]]), ValueError, "not fitted"),
        (lambda: ChainTagger().fit([[["a"]]], [["a"]], y=[["a"]]), KeywordError, "given twice"),
    ],
)  # fmt: skip
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_lam_in_place_of_c():
    X, Y = sentences()
    svm = ChainTagger(lam=0.1, tol=1e-6).fit(X, y=Y)
    other = ChainTagger(C=1 / (0.1 * len(X)), tol=1e-6).fit(X, Y)
    assert svm.report_.primal * 10 * len(X) / len(X) == pytest.approx(other.report_.primal, rel=1e-5)


def test_given_weights_and_latent_states():
    X, Y = sentences()
    svm = ChainTagger(C=10.0).fit(X, Y)
    weights = {block: svm.weights_[block] for block in ("emit", "bias", "trans")}
    again = ChainTagger.from_weights(svm.model_, weights, fitted_on=X)
    assert same(again.predict(X), svm.predict(X))


def test_segments_have_least_and_greatest_durations():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(20, 2)) + np.repeat([0, 1, 0, 1], 5)[:, None] for _ in range(6)]
    Y = [[(0, 5, "a"), (5, 10, "b"), (10, 15, "a"), (15, 20, "b")]] * 6
    tagger = SegmentTagger(shortest=4, longest={"a": 6}).fit(X, Y)
    found = [(end - start, name) for one in tagger.predict(X) for start, end, name in one]
    assert min(found)[0] >= 4
    assert max(size for size, name in found if name == "a") <= 6
    with pytest.raises(DataError, match=r"Y, example 0: .* the segment \(0, 5, 'a'\) of 5 positions, at least 7"):
        SegmentTagger(shortest={"a": 7}).fit(X, Y)


def test_tags_last_as_long_as_they_must():
    rng = np.random.default_rng(0)
    Y = [np.repeat(["a", "b", "a"], (4, 6, 5)) for _ in range(8)]
    X = [rng.normal(size=(15, 2)) + (y == "b")[:, None] for y in Y]
    tagger = ChainTagger(shortest=3, longest={"a": 5}, random_state=0).fit(X, Y)
    for tags in tagger.predict(X):
        changes = np.flatnonzero(np.append(True, tags[1:] != tags[:-1]))
        sizes = np.diff(np.append(changes, 15))
        assert sizes.min() >= 3
        assert sizes[tags[changes] == "a"].max(initial=0) <= 5
    with pytest.raises(DataError, match=r"Y, example 0: .* 'a' lasts from position 0 for 4, at least 5"):
        ChainTagger(shortest={"a": 5}).fit(X, Y)


def test_equal_declarations_are_one_model():
    X, Y = [np.arange(6.0).reshape(3, 2)] * 4, [["a", "b", "a"]] * 4
    first, again = (ChainTagger(C=1.0).fit(X, Y) for _ in range(2))
    assert again.model_ is first.model_
    assert np.array_equal(again.coef_, first.coef_)
    assert ChainTagger(C=1.0, order=0).fit(X, Y).model_ is not first.model_
    assert ChainTagger(C=1.0).fit(X, [["a", "b", "c"]] * 4).model_ is not first.model_

    class Mine(ChainTagger):
        pass

    assert Mine(C=1.0).fit(X, Y).model_ is not first.model_


def test_labels_of_graphs_are_given_once():
    graph = {"x": np.eye(2), "edges": [(0, 1)]}
    for call in (GraphLabeller().fit, GraphLabeller().score):
        with pytest.raises(KeywordError, match="given twice, as Y and as y"):
            call([graph], [["a", "b"]], y=[["a", "b"]])
