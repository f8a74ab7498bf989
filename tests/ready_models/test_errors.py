"""What went wrong: confusions, what pulled, the worst and the least certain examples; precision and recall."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_recall_fscore_support

from ssvm_dsl import score_report
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.models import ChainTagger, Classifier, DependencyParser, GraphLabeller, MultiLabel, SegmentTagger

pandas = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 2))
NOISY = np.where(ROWS[:, 0] + RNG.normal(size=60) > 0, "up", "down")


def test_scores_of_classes_are_those_of_scikit_learn():
    truth, found = RNG.choice(list("abc"), 50), RNG.choice(list("abd"), 50)
    report = score_report([truth[:20], truth[20:]], [found[:20].tolist(), pandas.Series(found[20:])])
    names = [one.name for one in report.classes]
    expected = precision_recall_fscore_support(truth, found, labels=names, zero_division=np.nan)
    np.testing.assert_allclose([one.precision for one in report.classes], expected[0])
    np.testing.assert_allclose([one.recall for one in report.classes], expected[1])
    assert [one.support for one in report.classes] == expected[3].tolist()
    assert report.macro_f1 == pytest.approx(f1_score(truth, found, labels=list("abc"), average="macro"))
    assert report["a"].f1 == pytest.approx(expected[2][0])
    assert report.accuracy == np.mean(truth == found)
    assert "precision" in str(report)
    with pytest.raises(KeyError, match="no class 'z'"):
        _ = report["z"]


def test_labels_that_are_not_known_or_ignored_are_not_counted():
    report = score_report([["a", None, "b"], [np.nan, "b"]], [["a", "b", "b"], ["a", "a"]])
    assert sum(one.support for one in report.classes) == 3
    assert score_report([[1, 255, 0]], [[1, 0, 0]], ignore=255).accuracy == 1.0
    assert score_report([[(0, 2, "x"), (2, 3, "y")]], [["x", "y", "y"]]).accuracy == pytest.approx(2 / 3)
    with pytest.raises(DataError, match="3 labels, as in truth, found 2"):
        score_report([["a", "b", "c"]], [["a", "b"]])


@pytest.mark.parametrize("kind", [ChainTagger, SegmentTagger])
def test_errors_are_where_predictions_differ(kind, tmp_path):
    X, Y = ROWS.reshape(6, 10, 2), NOISY.reshape(6, 10).tolist()
    tagger = kind(C=1.0).fit(list(X), Y)
    found = tagger.errors(list(X), Y)
    predicted = [[name for a, b, name in one for _ in range(b - a)] if kind is SegmentTagger else one.tolist()
                 for one in tagger.predict(list(X))]  # fmt: skip
    for one in found.confusions:
        expected = [(i, t) for i in range(6) for t in range(10)
                    if Y[i][t] == one.truth and predicted[i][t] == one.predicted]  # fmt: skip
        assert one.places == tuple(expected)
        assert one.times == len(expected)
        assert all(value > 0.0 for _, value in one.features)
    assert sum(one.times for one in found.confusions) == sum(a != b for p, q in zip(Y, predicted) for a, b in zip(p, q))
    losses = [loss for _, loss in found.worst]
    assert losses == sorted(losses, reverse=True)
    certain = [value for _, value in found.uncertain]
    assert certain == sorted(certain)
    assert "taken for" in str(found)
    assert "what pulled" in str(found)
    assert found._repr_html_().startswith("<pre>")
    found.to_html(tmp_path / "errors.html")
    assert "<html" in (tmp_path / "errors.html").read_text()


def test_errors_of_frames_sets_and_graphs(tmp_path):
    frame = pandas.DataFrame(ROWS, columns=["a", "b"])
    svm = Classifier(C=1.0).fit(frame, NOISY)
    report = svm.errors(frame, NOISY)
    assert any("a" in name for one in report.confusions for name, _ in one.features)
    report.to_html(tmp_path / "errors.html")
    sets = [{"up"} if one == "up" else set() for one in NOISY]
    labels = MultiLabel(names=["up", "other"], C=1.0).fit(frame, sets)
    assert {one.truth for one in labels.errors(frame, sets).confusions} <= {"up", "no up"}
    long = frame.assign(who=np.repeat(list("xyz"), 20), state=NOISY)
    assert ChainTagger(groups="who", C=1.0).fit(long, "state").errors(long, "state").n == 3
    graph = {"x": ROWS, "edges": np.stack([np.arange(59), np.arange(1, 60)], axis=1)}
    assert GraphLabeller(C=1.0).fit([graph], [NOISY]).errors([graph], [NOISY]).confusions


def test_errors_are_of_classes():
    sentence = (["the", "cat"], ["D", "N"])
    with pytest.raises(OptionError, match="one label of classes"):
        DependencyParser().fit([sentence] * 2, [[1, -1]] * 2).errors([sentence], [[1, -1]])
    with pytest.raises(OptionError, match="most must be"):
        Classifier(C=1.0).fit(ROWS, NOISY).errors(ROWS, NOISY, most=0)
