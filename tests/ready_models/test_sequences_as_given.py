"""Sentences as lists of words, one frame with all sequences, labels with gaps: sequences as people have them."""

from itertools import product

import numpy as np
import pytest

import ssvm_dsl
from ssvm_dsl.datasets import word_features, word_shape
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.models import ChainTagger, GraphLabeller, MultiLabel, SegmentTagger

pandas = pytest.importorskip("pandas")

WORDS, TAGS = [["the", "cat", "sleeps"], ["a", "dog", "barks"]] * 5, [["D", "N", "V"]] * 10


def test_features_of_words_are_those_that_are_documented():
    found = word_features(["The", "cat-2", "SAT"])
    assert found[1] == [
        "word=cat-2", "lower=cat-2", "prefix=c", "prefix=ca", "prefix=cat",
        "suffix=2", "suffix=-2", "suffix=t-2", "suffix=at-2", "shape=x-9", "has a digit", "has a hyphen",
        "-1:lower=the", "-1:suffix=the", "-1:shape=Xx", "+1:lower=sat", "+1:suffix=sat", "+1:shape=X",
        "-2:lower=<s>", "+2:lower=</s>", "-1|0=the|cat-2", "0|+1=cat-2|sat",
    ]  # fmt: skip
    assert "-1:lower=<s>" in found[0]
    assert "+1:lower=</s>" in found[2]
    assert [word_shape(word) for word in ("McDonald's", "1990-95", "")] == ["XxXx'x", "9-9", ""]
    assert word_features([]) == []
    with pytest.raises(DataError, match=r"text.split\(\)"):
        word_features("The cat")
    with pytest.raises(DataError, match="found int 3"):
        word_features(["the", 3])


@pytest.mark.parametrize("kind", [ChainTagger, SegmentTagger])
def test_sentences_of_words_are_tagged(kind, tmp_path):
    tagger = kind().fit(WORDS, TAGS)
    same = kind().fit([word_features(one) for one in WORDS], TAGS)
    np.testing.assert_array_equal(tagger.coef_, same.coef_)
    tagger.save(tmp_path / "m.ssvm")
    new = [["a", "cat", "barks"], np.array(["the", "dog"]), ("the",), pandas.Series(["cat"])]
    for one in (tagger, ssvm_dsl.load(tmp_path / "m.ssvm"), kind(features="words").fit(WORDS, TAGS)):
        np.testing.assert_allclose(one.best_score(new), same.best_score([word_features(list(x)) for x in new]))
    assert tagger.score(WORDS, TAGS) == 1.0


def test_words_and_features_are_not_mixed_up():
    tagger, other = ChainTagger().fit(WORDS, TAGS), ChainTagger().fit([[{"w": 1.0}] * 3] * 2, [["D", "N", "V"]] * 2)
    with pytest.raises(DataError, match="expected a list of words"):
        tagger.predict([[{"w": 1.0}]])
    with pytest.raises(DataError, match="found a list of words"):
        other.predict([["the", "cat"]])
    with pytest.raises(DataError, match=r"one sentence is \[words\]"):
        tagger.predict(["the", "cat"])
    with pytest.raises(DataError, match="for one of them pass a list"):
        other.predict([{"w": 1.0}, {"w": 2.0}])
    with pytest.raises(DataError, match=r"pandas.DataFrame\(x\)"):
        other.predict([{"w": pandas.Series([1.0, 2.0])}])
    with pytest.raises(DataError, match="expected a list of words"):
        ChainTagger(features="words").fit([np.eye(3)] * 2, TAGS[:2])
    with pytest.raises(OptionError, match="'words'"):
        ChainTagger(features="letters").fit(WORDS, TAGS)


def long_frame():
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "subject": np.repeat([f"s{k}" for k in range(4)], 25),
            "t": np.tile(np.arange(25), 4),
            "u": rng.normal(size=100),
            "place": rng.choice(["in", "out"], size=100),
        },
        index=range(500, 600),
    )
    return frame.assign(state=np.where(frame.u + np.where(frame.place == "in", 0.5, -0.5) > 0, "up", "down"))


@pytest.mark.parametrize("kind", [ChainTagger, SegmentTagger])
def test_one_frame_holds_all_sequences(kind, tmp_path):
    frame = long_frame()
    mixed = frame.sample(frac=1.0, random_state=0)
    parts = [one for _, one in frame.groupby("subject")]
    lists, labels = [one[["u", "place"]] for one in parts], [one.state.tolist() for one in parts]
    by_lists = kind(tol=1e-5).fit(lists, labels)
    by_name = kind(tol=1e-5, groups="subject", time="t").fit(mixed, "state")
    apart = kind(tol=1e-5, groups="subject", time="t").fit(mixed.drop(columns="state"), mixed.state)
    assert by_name.feature_names_in_.tolist() == ["u", "place"]
    by_name.save(tmp_path / "m.ssvm")
    for one in (by_name, apart, ssvm_dsl.load(tmp_path / "m.ssvm")):
        assert one.report_.primal == pytest.approx(by_lists.report_.primal, rel=1e-3)
        X = mixed.drop(columns="state") if one is apart else mixed
        found = one.predict(X)
        assert found.index.equals(mixed.index)
        assert (found == mixed.state).mean() == pytest.approx(one.score(X, mixed.state.to_numpy()), abs=0.02)
        assert len(one.best_score(X)) == 4
    unsorted = kind(groups="subject").fit(frame, "state")
    assert unsorted.predict(frame).index.equals(frame.index)
    series, scores, bounds = by_name.predict(frame, return_bounds=True)
    assert (len(series), len(scores), len(bounds)) == (100, 4, 4)


def test_frames_of_all_sequences_that_lack_something():
    frame = long_frame()
    with pytest.raises(DataError, match=r"ChainTagger\(groups='subject'\)"):
        ChainTagger().fit(frame, "state")
    with pytest.raises(DataError, match=r"a column 'person' \(groups='person'\)"):
        ChainTagger(groups="person").fit(frame, "state")
    with pytest.raises(DataError, match="the name of a column of X"):
        ChainTagger(groups="subject").fit(frame, "label")
    gap = frame.assign(subject=[None if k == 3 else one for k, one in enumerate(frame.subject)])
    with pytest.raises(DataError, match="none in row 3"):
        ChainTagger(groups="subject").fit(gap, "state")
    with pytest.raises(DataError, match="the labels, as column 'state'"):
        ChainTagger(groups="subject").fit(frame, frame.state)
    with pytest.raises(DataError, match="each of the 100 rows"):
        ChainTagger(groups="subject").fit(frame.drop(columns="state"), frame.state[:5])
    lists = [one[["u"]] for _, one in frame.groupby("subject")]
    tagger = ChainTagger(groups="subject").fit(lists, [one.state for _, one in frame.groupby("subject")])
    assert len(tagger.predict(lists)) == 4  # lists of sequences are taken all the same


def test_labels_with_gaps_are_not_known():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(9, 2)) for _ in range(6)]
    names = [np.where(x[:, 0] > 0, "p", "n").tolist() for x in X]
    numbers = [(x[:, 0] > 0).astype(float) for x in X]
    for Y, gap in ((names, None), (numbers, np.nan), (names, np.nan), (names, pandas.NA)):
        holes = [[gap if t % 4 == 1 else one for t, one in enumerate(y)] for y in Y]
        masked = [[None if t % 4 == 1 else one for t, one in enumerate(y)] for y in Y]
        arrays = [np.array(one) if Y is numbers else pandas.Series(one, dtype=object) for one in holes]
        expected = ChainTagger(tol=1e-5).fit(X, masked)
        for one in (holes, arrays):
            np.testing.assert_allclose(ChainTagger(tol=1e-5).fit(X, one).coef_, expected.coef_)
    segments = SegmentTagger().fit(X, [[np.nan, *one[1:]] for one in names])
    np.testing.assert_allclose(segments.coef_, SegmentTagger().fit(X, [[None, *one[1:]] for one in names]).coef_)
    matrix = np.array([[0, np.nan], [1, 0], [np.nan, 1]])
    hidden = [[0, None], [1, 0], [None, 1]]
    np.testing.assert_allclose(MultiLabel().fit(X[0][:3], matrix).coef_, MultiLabel().fit(X[0][:3], hidden).coef_)
    graph = {"x": X[0], "edges": np.array([[0, 1], [1, 2]])}
    gaps = GraphLabeller().fit([graph], [[np.nan, *names[0][1:]]])
    np.testing.assert_allclose(gaps.coef_, GraphLabeller().fit([graph], [[None, *names[0][1:]]]).coef_)


# -- how far tags are from being predicted -------------------------------------------------------------------


def test_decisions_are_differences_of_best_scores_of_all_taggings():
    r = np.random.default_rng(0)
    X = [r.normal(size=(n, 2)) for n in (1, 3, 4, 2)]
    Y = [np.where(x[:, 0] > 0, "B-X", "O") for x in X[:3]] + [np.array(["B-X", "I-X"])]
    tagger = ChainTagger(C=10.0).fit(X, Y)
    found, classes = tagger.decision_function(X), tagger.classes_.tolist()
    for x, apart, predicted in zip(X, found, tagger.predict(X), strict=True):
        assert apart.shape == (len(x), 3)
        assert np.array(classes)[apart.argmax(axis=1)].tolist() == predicted.tolist()
        every = [list(one) for one in product(classes, repeat=len(x)) if legal(one)]
        scores = tagger.best_score([x] * len(every), every)
        for t in range(len(x)):
            for k, name in enumerate(classes):
                with_it = [s for s, one in zip(scores, every, strict=True) if one[t] == name]
                assert apart[t, k] == pytest.approx(max(with_it, default=-np.inf) - scores.max(), abs=1e-9)


def legal(tags):
    """Whether tags keep to the rules of BIO with one class."""
    return all(tag != "I-X" or (t and tags[t - 1] != "O") for t, tag in enumerate(tags))


def test_decisions_of_one_frame_have_its_index():
    r = np.random.default_rng(0)
    rows = pandas.DataFrame({"who": ["a", "b"] * 10, "x": r.normal(size=20)}, index=np.arange(20)[::-1])
    rows["y"] = np.where(rows.x > 0, "up", "down")
    tagger = ChainTagger(C=10.0, groups="who").fit(rows, "y")
    found = tagger.decision_function(rows)
    assert found.index.equals(rows.index)
    assert (found.idxmax(axis=1) == tagger.predict(rows)).all()
