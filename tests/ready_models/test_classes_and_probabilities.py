"""Classes, their probabilities and JSON of all ready models; weights of a column."""

import json

import networkx
import numpy as np
import pytest

from ssvm_dsl import as_json, read_brackets
from ssvm_dsl.errors import NoBackendError, OptionError
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

pandas = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(12, 2))
NAMES = ["walk", "run", "sit"] * 4
GRAPH = {"x": ROWS, "edges": np.stack([np.arange(11), np.arange(1, 12)], axis=1)}
IMAGE = RNG.normal(size=(3, 2, 2))
CASES = {
    "classifier": (Classifier(), ROWS, NAMES, ["run", "sit", "walk"]),
    "tagger": (ChainTagger(), [ROWS] * 3, [NAMES] * 3, ["run", "sit", "walk"]),
    "segments": (SegmentTagger(), [ROWS] * 3, [NAMES] * 3, ["run", "sit", "walk"]),
    "labels": (MultiLabel(), ROWS, [[0, 1], [1, 1], [1, 0]] * 4, [0, 1]),
    "names": (MultiLabel(names=["sea", "sun"]), ROWS, [{"sea"}, {"sea", "sun"}, {"sun"}] * 4, ["sea", "sun"]),
    "graph": (GraphLabeller(), [GRAPH] * 3, [NAMES] * 3, ["run", "sit", "walk"]),
    "latent": (LatentGraph(random_state=0), [GRAPH] * 2, ["ring", "star"], ["ring", "star"]),
    "grid": (GridSegmenter(), [IMAGE] * 2, [np.array([[1, 0], [0, 0], [0, 1]])] * 2, [0, 1]),
    "matcher": (Matcher(), [IMAGE[:2]] * 2, [np.eye(2, dtype=int)] * 2, [0, 1]),
}


@pytest.mark.parametrize("name", list(CASES))
def test_classes_are_the_columns_of_probabilities(name):
    estimator, X, Y, classes = CASES[name]
    estimator.fit(X, Y)
    assert estimator.classes_.tolist() == classes
    found = estimator.predict_proba(X)
    several = isinstance(estimator, MultiLabel)
    for one, log in zip(found, estimator.predict_log_proba(X), strict=True):
        assert one.shape[-1] == len(classes)
        assert ((one >= 0) & (one <= 1 + 1e-9)).all()
        np.testing.assert_allclose(np.exp(log), one)
        if not several:
            np.testing.assert_allclose(one.sum(axis=-1), 1.0)
    marginals = estimator.predict_marginals(X)
    np.testing.assert_allclose(found[0], marginals[0][:, 1] if several else marginals[0])
    text = json.loads(json.dumps(as_json({"labels": estimator.predict(X), "probabilities": found})))
    assert len(text["labels"]) == len(text["probabilities"]) == len(X)


def test_positions_are_no_classes():
    parser = DependencyParser().fit([(["the", "cat"], ["D", "N"])] * 2, [[1, -1]] * 2)
    with pytest.raises(AttributeError, match="positions, not classes"):
        _ = parser.classes_
    assert parser.predict_proba([(["the", "cat"], ["D", "N"])])[0].shape == (2, 3)
    ranker = Ranker().fit([RNG.normal(size=(12, 2))] * 2, [np.arange(12)] * 2)
    with pytest.raises(NoBackendError, match="predict, predict_kbest and best_score ask for no sums"):
        ranker.predict_proba([RNG.normal(size=(12, 2))])


def test_decisions_about_labels_agree_with_predictions():
    for together in (False, True):
        labels = MultiLabel(together=together).fit(ROWS, [[0, 1], [1, 1], [1, 0]] * 4)
        found = labels.decision_function(ROWS)
        np.testing.assert_array_equal(found > 0, labels.predict(ROWS) == 1)
    names = MultiLabel(names=["sea", "sun"]).fit(ROWS, [{"sea"}, {"sea", "sun"}, {"sun"}] * 4)
    assert names.decision_function(ROWS).shape == (12, 2)


def frames():
    frame = pandas.DataFrame(ROWS, columns=["a", "b"], index=range(5, 17)).assign(place=["in", "out", "in"] * 4)
    return frame, pandas.DataFrame({"sea": [0, 1, 1] * 4, "sun": [1, 1, 0] * 4})


def test_frames_of_labels_go_by_name(tmp_path):
    frame, Y = frames()
    labels = MultiLabel().fit(frame, Y)
    labels.save(tmp_path / "m.ssvm")
    for one in (labels, MultiLabel.load(tmp_path / "m.ssvm")):
        assert one.classes_.tolist() == ["sea", "sun"]
        found = one.predict(frame)
        assert list(found.columns) == ["sea", "sun"]
        assert found.index.equals(frame.index)
        assert one.score(frame, Y[["sun", "sea"]]) == one.score(frame, Y)
    with pytest.raises(ValueError, match="no 'sun'"):
        labels.score(frame, Y[["sea"]])


def test_probabilities_of_frames_are_frames():
    frame, _ = frames()
    tagger = ChainTagger().fit([frame] * 2, [NAMES] * 2)
    found = tagger.predict_proba([frame])[0]
    assert list(found.columns) == ["run", "sit", "walk"]
    assert found.index.equals(frame.index)
    long = pandas.concat([frame.assign(who="x"), frame.assign(who="y")], ignore_index=True)
    one = ChainTagger(groups="who").fit(long, NAMES * 2)
    probabilities = one.predict_proba(long)
    assert probabilities.shape == (24, 3)
    np.testing.assert_allclose(probabilities.to_numpy()[:12], one.predict_proba([frame])[0].to_numpy())


def test_weights_of_a_column():
    frame, _ = frames()
    tagger = ChainTagger(scale=False).fit([frame] * 2, [NAMES] * 2)
    assert {one.feature for one in tagger.weights_.top(feature="place", k=None)} == {"place:in", "place:out"}
    assert {one.feature for one in tagger.weights_.top("emit", feature="a")} == {"a"}
    assert {one.states for one in tagger.weights_.top(feature="place", state="run")} == {("run",)}
    with pytest.raises(OptionError, match="'c' is no feature of emit"):
        tagger.weights_.top("emit", feature="c")


def test_what_json_holds():
    graph = networkx.path_graph(2)
    graph.nodes[0]["y"] = np.str_("a")
    assert as_json([graph]) == [{"nodes": [{"id": 0, "y": "a"}, {"id": 1}], "edges": [{"source": 0, "target": 1}]}]
    assert as_json({"a": {2, 1}, 3: (np.float64("nan"), np.int8(2), np.inf, None, np.True_)}) == {
        "a": [1, 2],
        "3": [None, 2, None, None, True],
    }
    assert as_json(read_brackets("(S (NP a) (VP b))")) == ["(S (NP a) (VP b))"]
    frame = pandas.DataFrame({"a": [1, None], "b": ["x", None]})
    assert as_json(frame) == [{"a": 1.0, "b": "x"}, {"a": None, "b": None}]
    assert as_json(frame.a) == [1.0, None]
