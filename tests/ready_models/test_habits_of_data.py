"""Data as people have them: attributes of pairs, data frames, sets of names, nodes of several kinds, ragged folds."""

import networkx
import numpy as np
import pytest

from ssvm_dsl import (
    Arborescence,
    Attributes,
    Dim,
    Factor,
    Hamming,
    Hashed,
    Input,
    Label,
    Matching,
    Model,
    StructuredSVM,
    cross_val_predict,
    grid_scores,
    nested_scores,
)
from ssvm_dsl.errors import DataError, ModelError, OptionError
from ssvm_dsl.models import ChainTagger, DependencyParser, GraphLabeller, MultiLabel


class Named(Model):
    T = Dim()
    x = Attributes(T, T)
    h = Label(T, over=T, null=True)
    arc = Factor(h, features=x)
    tree = Arborescence(h)
    loss = Hamming(h)


class Numbered(Model):
    T = Dim()
    x = Input(T, T, 10)
    h = Label(T, over=T, null=True)
    arc = Factor(h, features=x)
    tree = Arborescence(h)
    loss = Hamming(h)


def sentences(rng):
    """Return (named attributes of arcs, the same as arrays, heads)."""
    named, numbered, heads = [], [], []
    for n in (3, 4, 5, 1):
        words = rng.integers(3, size=n)
        array = np.zeros((n, n, 10))
        array[np.arange(n)[:, None], np.arange(n)[None, :], 3 * words[:, None] + words[None, :]] = 1.0
        array[..., 9] = np.abs(np.arange(n)[:, None] - np.arange(n))
        pairs = [[{f"{a}{b}": 1.0, "far": abs(i - j)} for j, b in enumerate(words)] for i, a in enumerate(words)]
        named.append(pairs)
        numbered.append(array)
        heads.append(np.arange(n) - 1)
    return named, numbered, heads


def test_attributes_of_pairs_are_sparse_arrays(tmp_path):
    named, numbered, heads = sentences(np.random.default_rng(0))
    by_name = StructuredSVM(Named, C=1.0, tol=1e-6).fit(named, heads)
    by_number = StructuredSVM(Numbered, C=1.0, tol=1e-6).fit(numbered, heads)
    assert by_name.report_.primal == pytest.approx(by_number.report_.primal, rel=1e-5)
    np.testing.assert_allclose(by_name.best_score(named), by_number.best_score(numbered), atol=0.05)
    by_name.save(tmp_path / "parser.ssvm")
    again = StructuredSVM.load(tmp_path / "parser.ssvm")
    assert [one.tolist() for one in again.predict(named)] == [one.tolist() for one in by_name.predict(named)]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ([["a"], ["a"]], "size 2 along T .* found size 1"),
        ([["a", "b"], ["a"]], "lists of one length, the size of T, found lists of 1 to 2"),
        ([[{"a": 1}, {"a": np.nan}], [{"a": 1}, {"a": 1}]], "at position 0 of T, 1 of T"),
        ([["a", "b"], 5], "for each position of T, a list with a dict"),
    ],
)
def test_malformed_attributes_of_pairs_are_named(wrong, text):
    good = [[{"a": 1.0}]]
    with pytest.raises(DataError, match=text) as caught:
        StructuredSVM(Named).fit([good, wrong], [[-1], [-1, 0]])
    assert caught.value.example == 1


def test_attributes_of_two_axes_join_two_lists():
    class Links(Model):
        I, J = Dim(), Dim()
        x = Attributes(I, J)
        y = Label(I, J, 2)
        own = Factor(y.is_(1), features=x)
        hashed = Factor(y, features=Hashed(x, 16))
        one = Matching(y.is_(1), rows=I, cols=J)
        loss = Hamming(y)

    X, Y = [[[["a"], ["b"]], [["b"], ["a"]]], [[["a"], ["b"], []]]], [np.eye(2, dtype=int), np.array([[1, 0, 0]])]
    svm = StructuredSVM(Links, C=10.0).fit(X, Y)
    assert [one.tolist() for one in svm.predict(X)] == [one.tolist() for one in Y]
    with pytest.raises(ModelError, match="at most two"):

        class Three(Model):
            I, J, K = Dim(), Dim(), Dim()
            x = Attributes(I, J, K)


def test_a_parser_takes_named_features():
    named, _, heads = sentences(np.random.default_rng(1))
    X = [{"x": pairs, "r": [{"first": float(t == 0)} for t in range(len(pairs))]} for pairs in named]
    parser = DependencyParser(C=10.0).fit(X, heads)
    assert parser.score(X, heads) == 1.0


def test_sets_of_names_are_predicted_as_sets(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    Y = [{name for name, x in zip(("sea", "sun"), row, strict=True) if x > 0} for row in X]
    svm = MultiLabel(names=["sea", "sun"], C=10.0).fit(X, Y)
    matrix = MultiLabel(C=10.0).fit(X, np.array([[name in one for name in ("sea", "sun")] for one in Y], int))
    np.testing.assert_array_equal(svm.coef_, matrix.coef_)
    found = svm.predict(X)
    assert np.mean([a == b for a, b in zip(found, Y, strict=True)]) > 0.9
    assert svm.score(X, Y) == matrix.score(X, matrix._read_labels(np.array([[n in y for n in svm.names] for y in Y])))
    svm.save(tmp_path / "labels.ssvm")
    assert MultiLabel.load(tmp_path / "labels.ssvm").predict(X) == found
    with pytest.raises(DataError, match="'fog'"):
        svm.fit(X, [{"fog"}, *Y[1:]])
    with pytest.raises(DataError, match=r"MultiLabel\(names="):
        MultiLabel().fit(X, Y)
    with pytest.raises(OptionError, match="different strings"):
        MultiLabel(names=["a", "a"]).fit(X, Y)


def typed_graphs(rng):
    """Return graphs of papers (two features) and authors (one), whose classes follow from signs, and the classes."""
    X, Y = [], []
    for _ in range(12):
        kinds = ["paper"] * 3 + ["author"] * 2
        x = [rng.normal(size=2) for _ in range(3)] + [rng.normal(size=1) for _ in range(2)]
        edges = [(0, 3), (4, 1), (2, 3), (0, 1)]
        X.append({"x": x, "edges": edges, "kind": kinds})
        names = {"paper": ("short", "long"), "author": ("new", "known")}
        Y.append([names[kind][int(row[0] > 0)] for kind, row in zip(kinds, x, strict=True)])
    return X, Y


def test_nodes_of_several_kinds_have_weights_of_their_own(tmp_path):
    X, Y = typed_graphs(np.random.default_rng(0))
    svm = GraphLabeller(C=10.0).fit(X, Y)
    assert svm.score(X, Y) > 0.95
    turned = [{**one, "edges": [edge[::-1] for edge in one["edges"]]} for one in X]
    assert [one.tolist() for one in svm.predict(turned)] == [one.tolist() for one in svm.predict(X)]
    graphs = []
    for one, names in zip(X, Y, strict=True):
        graph = networkx.Graph()
        for v, (kind, row, name) in enumerate(zip(one["kind"], one["x"], names, strict=True)):
            graph.add_node(v, kind=kind, x=row, y=name)
        graph.add_edges_from(one["edges"])
        graphs.append(graph)
    same = GraphLabeller(C=10.0).fit(graphs)
    assert same.report_.primal == pytest.approx(svm.report_.primal, rel=0.05)
    svm.save(tmp_path / "graphs.ssvm")
    assert [one.tolist() for one in GraphLabeller.load(tmp_path / "graphs.ssvm").predict(X)] == [
        one.tolist() for one in svm.predict(X)
    ]
    with pytest.raises(DataError, match="as other graphs have it"):
        svm.predict([X[0], {"x": [[1.0], [2.0]], "edges": [(0, 1)]}])
    with pytest.raises(DataError, match="a name for each of 5 nodes"):
        svm.predict([{**X[0], "kind": ["paper"]}])
    with pytest.raises(DataError, match=r"\[0, 9\] in row 0"):
        svm.predict([{**X[0], "edges": [(0, 9)]}])


def test_each_example_is_predicted_by_a_model_that_has_not_seen_it():
    X = [[[f"w{t % 2}"] for t in range(n)] for n in (3, 4, 5, 6, 3, 4)]
    Y = [["a" if one == ["w0"] else "b" for one in x] for x in X]
    found = cross_val_predict(ChainTagger(), X, Y, cv=3)
    fitted = ChainTagger().fit(X[2:], Y[2:])
    assert [one.tolist() for one in found] == Y
    assert [one.tolist() for one in found[:2]] == [one.tolist() for one in fitted.predict(X[:2])]
    scores = cross_val_predict(ChainTagger(), X, Y, cv=3, method="best_score")
    np.testing.assert_allclose(scores[:2], fitted.best_score(X[:2]))
    with pytest.raises(OptionError, match="method"):
        cross_val_predict(ChainTagger(), X, Y, method="guess")
    with pytest.raises(DataError, match="NoneType"):
        cross_val_predict(ChainTagger(), None, Y)
    with pytest.raises(DataError, match="6 examples"):
        cross_val_predict(ChainTagger(), X, Y[:3])


def test_splitters_of_scikit_learn_make_the_folds():
    from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, TimeSeriesSplit

    X = [[[f"w{t % 2}"] for t in range(n)] for n in (3, 4, 5, 6, 3, 4)]
    Y = [["a" if one == ["w0"] else "b" for one in x] for x in X]
    groups = list("ababcc")
    expected = cross_val_predict(ChainTagger(), X, Y, cv=3, groups=groups, method="best_score")
    folds = [([1, 3, 4, 5], [0, 2]), ([0, 2, 4, 5], [1, 3]), ([0, 1, 2, 3], [4, 5])]
    for cv in (GroupKFold(3), LeaveOneGroupOut(), folds):
        found = cross_val_predict(ChainTagger(), X, Y, cv=cv, groups=groups, method="best_score")
        np.testing.assert_allclose(found, expected)
    scores = grid_scores(ChainTagger(), {"C": [0.1, 1.0]}, X, Y, TimeSeriesSplit(3)).scores
    assert scores.shape == (2, 3)
    nested = nested_scores(ChainTagger(), {"C": [1.0]}, X, Y, GroupKFold(3), GroupKFold(2), groups=groups)
    assert nested.scores.size == 3
    for cv, text in [
        (TimeSeriesSplit(3), "example 0 is in 0"),
        (GroupKFold(9), "cannot split these examples"),
        ([([0, 1], [9])], "positions to train on"),
        ([], "no folds"),
        ("five", "an int from 2 .*or a splitter"),
    ]:
        with pytest.raises(OptionError, match=text):
            cross_val_predict(ChainTagger(), X, Y, cv=cv, groups=groups)
    with pytest.raises(OptionError, match="its own random_state"):
        cross_val_predict(ChainTagger(), X, Y, cv=GroupKFold(3), groups=groups, random_state=0)
