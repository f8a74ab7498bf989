"""Which labels of a set have weights together: against networkx, brute force, and draws of known dependence."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from networkx.algorithms.approximation import treewidth_min_fill_in
from sklearn.metrics import f1_score, mutual_info_score

from ssvm_dsl.errors import OptionError
from ssvm_dsl.models import MultiLabel
from ssvm_dsl.models.multi_label import expected_f1, mutual_information, strongest_pairs, width_for


def information(k: int, seed: int):
    drawn = np.random.default_rng(seed).random((k, k))
    drawn = drawn + drawn.T
    np.fill_diagonal(drawn, 0.0)
    return drawn


@pytest.mark.parametrize("seed", range(5))
def test_width_1_is_the_maximum_spanning_tree_of_networkx(seed):
    weight = information(12, seed)
    whole = nx.Graph([(i, j, {"weight": weight[i, j]}) for i, j in combinations(range(12), 2)])
    tree = nx.maximum_spanning_tree(whole)
    assert strongest_pairs(weight, 1) == sorted((min(e), max(e)) for e in tree.edges)


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_pairs_have_the_width_and_are_as_many_as_it_allows(width):
    pairs = strongest_pairs(information(11, 0), width)
    assert len(set(pairs)) == len(pairs) == width * 11 - width * (width + 1) // 2, "a k-tree"
    assert treewidth_min_fill_in(nx.Graph(pairs))[0] == width
    assert strongest_pairs(information(5, 0), 4) == list(combinations(range(5), 2))


def test_wider_graphs_hold_more_information():
    weight = information(15, 3)
    sums = [sum(weight[pair] for pair in strongest_pairs(weight, width)) for width in (1, 2, 3, 14)]
    assert sums == sorted(sums)


def test_mutual_information_is_that_of_scikit_learn_and_chance_has_none():
    rng = np.random.default_rng(0)
    Y = (rng.random((4000, 6)) < 0.3).astype(int)
    Y[:, 1] = np.where(rng.random(4000) < 0.9, Y[:, 0], Y[:, 1])
    Y[:, 3] = np.where(rng.random(4000) < 0.5, 1 - Y[:, 2], Y[:, 3])
    found = mutual_information(Y)
    for i, j in ((0, 1), (2, 3)):
        assert found[i, j] == pytest.approx(mutual_info_score(Y[:, i], Y[:, j]), abs=1e-3)
    assert np.flatnonzero(found[0]).tolist() == [1]
    assert not found[4:].any()
    assert strongest_pairs(found, 2) == [(0, 1), (2, 3)]


def test_examples_with_an_unknown_label_do_not_count_for_its_pairs():
    rng = np.random.default_rng(1)
    Y = (rng.random((300, 3)) < 0.5).astype(int)
    Y[:, 1] = Y[:, 0]
    some = Y.copy()
    some[100:, 0] = -1
    assert mutual_information(some)[0, 1] == pytest.approx(mutual_information(Y[:100])[0, 1])


def drawn_labels(n: int = 150):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 3))
    first = X[:, 0] > 0
    return X, np.c_[first, first ^ (rng.random(n) < 0.05), X[:, 1] > 0, rng.random(n) < 0.5].astype(int)


def test_only_labels_that_depend_on_each_other_have_weights_together():
    X, Y = drawn_labels()
    assert "cliques(y, [[0, 1]])" in str(MultiLabel.declare(X, Y))
    assert "complete(y)" in str(MultiLabel(together=True).declare(X, Y))
    assert "pair" not in str(MultiLabel(together=False).declare(X, Y))
    masked = [np.ma.masked_array(one, mask=[k % 2, 0, 0, 0]) for k, one in enumerate(Y)]
    assert str(MultiLabel.declare(X, masked)) == str(MultiLabel.declare(X, Y))
    assert "pair" not in str(MultiLabel.declare(X, [None, *Y[1:, :1].repeat(2, axis=1) * 0]))
    with pytest.raises(OptionError, match="together must be True, False or 'auto', got 'tree'"):
        MultiLabel(together="tree").fit(X, Y)


def test_many_labels_are_found_by_exact_inference():
    rng = np.random.default_rng(3)
    topic = rng.integers(5, size=120)
    X = np.eye(5)[topic] + 0.3 * rng.normal(size=(120, 5))
    Y = (rng.random((5, 30)) < 0.3)[topic].astype(int)
    svm = MultiLabel(C=1.0, tol=0.05).fit(X, Y)
    assert svm.plan_.backend in ("tree", "junction-tree")
    assert svm.score(X, Y) > 0.95
    assert 1 <= width_for(120, 30) <= 3
    assert width_for(120, 4) == 3, "all pairs"
    assert width_for(10**6, 100) == 1
    assert width_for(10, 1) == 0


# -- sets, or labels one by one ------------------------------------------------------------------------------


def followed(seed, n=300, chance=1.0):
    """Eight labels, each of which follows from the one before and from features."""
    r = np.random.default_rng(seed)
    X, Y = r.normal(size=(n, 8)), np.zeros((n, 8), dtype=int)
    for k in range(8):
        Y[:, k] = X[:, k] + 1.5 * (2 * Y[:, k - 1] - 1) * (k > 0) + chance * r.normal(size=n) > 0
    return X, Y


def test_expected_f1_is_that_of_drawn_labels():
    r = np.random.default_rng(0)
    shares = r.random((4000, 3)) ** [1.0, 2.0, 4.0]
    predicted = (shares > 0.4).astype(int)
    drawn = (r.random(shares.shape) < shares).astype(int)
    assert expected_f1(shares, predicted) == pytest.approx(f1_score(drawn, predicted, average="macro"), abs=0.02)
    assert expected_f1(np.array([[1.0, 0.0]]), np.array([[1, 0]])) == 0.5  # as scikit-learn has it, where none is there


@pytest.mark.parametrize(("chance", "alone"), [(1.0, True), (0.05, False)])
def test_labels_are_predicted_alone_where_the_model_expects_more_of_them(tmp_path, chance, alone):
    X, Y = followed(0, chance=chance)
    svm = MultiLabel(C=1.0).fit(X[:200], Y[:200])
    assert svm.report_.chosen.get("predictions", "").startswith("labels one by one") is alone
    likelier, sets = np.asarray(svm.predict_proba(X)) > 0.5, MultiLabel(C=1.0, each=False).fit(X[:200], Y[:200])
    expected = likelier.astype(int) if alone else sets.predict(X)
    assert np.array_equal(svm.predict(X), expected)
    assert svm.score(X, Y) == pytest.approx((expected == Y).mean())
    assert ((svm.decision_function(X) > 0) == expected).all()
    svm.save(tmp_path / "model")
    assert np.array_equal(MultiLabel.load(tmp_path / "model").predict(X), expected)
    given = [[1, *[None] * 7]] * len(X)
    assert (np.array(svm.predict(X, given=given))[:, 0] == 1).all()
    labels, scores, _ = svm.predict(X, return_bounds=True)
    assert scores == pytest.approx(svm.best_score(X, labels))


def test_labels_alone_are_asked_for_and_named_sets_are_made_of_them():
    X, Y = followed(0)
    names = list("abcdefgh")
    sets = [{name for name, there in zip(names, row, strict=True) if there} for row in Y]
    svm = MultiLabel(C=1.0, each=True, names=names).fit(X, sets)
    likelier = np.asarray(svm.predict_proba(X)) > 0.5
    assert svm.predict(X) == [{name for name, there in zip(names, row, strict=True) if there} for row in likelier]
    with pytest.raises(OptionError, match="each must be True, False or 'auto', got 'some'"):
        MultiLabel(each="some").fit(X, Y)
