"""Measures by the conventions of their fields, beside counts by hand, scikit-learn, and as scorers by name."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import jaccard_score
from sklearn.model_selection import cross_val_score

from ssvm_dsl import (
    StructuredSVM,
    alignment_error_rate,
    attachment_score,
    exact_match,
    grid_scores,
    label_accuracy,
    mean_iou,
    named_scorer,
    span_f1,
)
from ssvm_dsl.datasets import chunk_segments
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.learning.metrics import SCORERS, phrases
from ssvm_dsl.models import ChainTagger

RNG = np.random.default_rng(0)


def conlleval(tags):
    """The spans of conlleval.pl, by its rules for ends and beginnings of chunks."""
    spans, start, before, kind_before = set(), None, "O", ""
    for t, tag in enumerate([*tags, "O"]):
        place, _, kind = tag.partition("-")
        ends = before in ("E", "S") or (before in ("B", "I") and place in ("B", "S", "O"))
        ends = ends or (before != "O" and kind != kind_before)
        begins = place in ("B", "S") or (before in ("E", "S", "O") and place in ("E", "I"))
        begins = begins or (place != "O" and kind != kind_before)
        if start is not None and ends:
            spans.add((kind_before, start, t - 1))
            start = None
        if begins:
            start = t
        before, kind_before = place, kind
    return spans


@pytest.mark.parametrize("alphabet", ["BIO", "BIESO"])
def test_spans_are_those_of_conlleval(alphabet):
    names = [f"{place}-{kind}" if place != "O" else "O" for place in alphabet for kind in ("X", "Y")]
    for _ in range(300):
        tags = RNG.choice(names, size=RNG.integers(0, 9)).tolist()
        assert {tuple(one) for one in phrases(tags)} == conlleval(tags), tags


def test_span_f1_counts_over_all_sentences():
    truth = [["B-X", "I-X", "O"], ["B-Y"]]
    found = [["B-X", "O", "O"], ["B-Y"]]
    assert span_f1(truth, found) == 0.5
    assert span_f1([chunk_segments(y) for y in truth], [chunk_segments(y) for y in found]) == 0.5
    assert span_f1([["O"], []], [["O"], []]) == 1.0


def test_shares_of_right_labels_and_examples():
    truth, found = [np.array([1, 2]), np.array([3])], [np.array([1, 0]), np.array([3])]
    assert label_accuracy(truth, found) == pytest.approx(2 / 3)
    assert exact_match(truth, found) == 0.5
    joint = [{"a": [1, 2], "b": 3}]
    assert label_accuracy(joint, [{"a": [1, 0], "b": 3}]) == pytest.approx(2 / 3)
    assert exact_match([[(0, 2, "x")], [(0, 1, "x")]], [[(0, 2, "x")], [(0, 1, "y")]]) == 0.5
    assert label_accuracy(["a", "b"], ["a", "c"]) == 0.5


def test_mean_iou_is_that_of_scikit_learn():
    truth, found = RNG.integers(3, size=(4, 5, 6)), RNG.integers(3, size=(4, 5, 6))
    assert mean_iou(list(truth), list(found)) == pytest.approx(
        jaccard_score(truth.ravel(), found.ravel(), average="macro")
    )
    truth[0] = 255
    assert mean_iou(list(truth), list(found), ignore=255) == pytest.approx(mean_iou(list(truth[1:]), list(found[1:])))


def test_attachment():
    truth = [{"head": [1, -1, 1], "rel": ["a", "b", "c"]}]
    found = [{"head": [1, -1, 0], "rel": ["a", "x", "c"]}]
    assert attachment_score(truth, found) == pytest.approx(2 / 3)
    assert attachment_score(truth, found, labelled=True) == pytest.approx(1 / 3)
    assert attachment_score([[1, -1]], [np.array([1, 0])]) == 0.5


def test_alignment_error_rate():
    """|A| = 3, |S| = 2, |A and S| = 1, |A and P| = 2."""
    truth, found = [np.array([[1, -1, 0], [0, 0, 1]])], [np.array([[1, 1, 0], [0, 1, 0]])]
    assert alignment_error_rate(truth, found) == pytest.approx(1 - 3 / 5)
    sure, possible = [np.array([[1, 0, 0], [0, 0, 1]])], [np.array([[1, 1, 0], [0, 0, 1]])]
    assert alignment_error_rate(sure, found, possible) == pytest.approx(1 - 3 / 5)
    assert SCORERS["neg-aer"](truth, found) == pytest.approx(3 / 5 - 1)


@pytest.mark.parametrize("name", SCORERS)
def test_bad_input(name):
    with pytest.raises(DataError, match="expected 1 examples"):
        SCORERS[name]([[0]], [[0], [1]])
    with pytest.raises(DataError, match="at least one example"):
        SCORERS[name]([], [])


def test_labels_of_another_length():
    with pytest.raises(DataError, match="2 labels"):
        label_accuracy([[0, 1]], [[0]])
    with pytest.raises(OptionError, match="there is no scorer 'f7'; there are span-f1"):
        named_scorer("f7")


def test_scorers_by_name():
    X = [[[f"w{k}"] for k in RNG.integers(4, size=n)] for n in (3, 4, 5, 2, 6, 3)]
    Y = [["B-X" if token[0] in ("w0", "w1") else "O" for token in one] for one in X]
    svm = ChainTagger(C=10.0).fit(X, Y)
    assert cross_val_score(svm, X, Y, cv=2, scoring=named_scorer("span-f1")).max() <= 1.0
    assert named_scorer("span-f1")(svm, X, Y) == 1.0
    held = StructuredSVM(svm.model_, scoring="span-f1", patience=2).fit(X, Y, validation=(X, Y))
    assert held.score(X, Y) > 0.5
    found = grid_scores(StructuredSVM(svm.model_, scoring="exact-match"), {"C": [0.001, 10.0]}, X, Y, folds=2)
    assert found is not None


@pytest.mark.parametrize("kind", [np.random.RandomState, np.random.default_rng])
def test_generators_as_seeds(kind, tmp_path):
    X = [[[f"w{k}"] for k in RNG.integers(4, size=n)] for n in (3, 4, 5)]
    Y = [[token[0] for token in one] for one in X]
    svm = ChainTagger(random_state=kind(3)).fit(X, Y)
    assert np.array_equal(ChainTagger(random_state=kind(3)).fit(X, Y).coef_, svm.coef_)
    assert np.array_equal(svm.fit(X, Y).coef_, ChainTagger(random_state=kind(3)).fit(X, Y).coef_)
    svm.save(tmp_path / "model")
    seed = ChainTagger.load(tmp_path / "model").random_state
    assert np.array_equal(ChainTagger(random_state=seed).fit(X, Y).coef_, svm.coef_)
