"""What ready models choose for themselves: the risk, C, the scale of inputs, rules of tags; and that it is good."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from ssvm_dsl import PartitionedDataset, span_f1
from ssvm_dsl.errors import OptionError
from ssvm_dsl.models import ChainTagger, Classifier, DependencyParser, GridSegmenter, Matcher, Ranker, SegmentTagger
from ssvm_dsl.models.choosing import N_FOLDS, VALUES, chosen_strength, folds_of

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import ready

SMALL = [one for one in ready.rows() if one.small is not None]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", SMALL, ids=[one.name for one in SMALL])
def test_no_default_loses_to_the_obvious(row):
    found = ready.mean_outcome(row, min(row.draws, 3), repeat=False, **row.small)
    assert found.lost <= ready.LOST, f"{found.ours:.3f}, {row.obvious[0]} {found.obvious:.3f}"


def table(n=120, k=3, seed=0):
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, 4)) * [1.0, 100.0, 0.01, 1.0] + [0.0, 1000.0, 0.0, 5.0]
    return X, (X[:, 0] + 0.01 * (X[:, 1] - 1000) + 0.5 * r.normal(size=n) > 0.0).astype(int) + (X[:, 0] > 1.0) * (k > 2)


def chains(n=12, seed=0):
    r = np.random.default_rng(seed)
    X = [r.normal(size=(5 + k % 4, 2)) * [1.0, 300.0] for k in range(n)]
    return X, [np.where(x[:, 0] > 0.3, "up", "down") for x in X]


# -- the risk ------------------------------------------------------------------------------------------


def arcs():
    X = [(["the", "cat", "saw", "it"], ["D", "N", "V", "P"]), (["it", "saw", "the", "cat"], ["P", "V", "D", "N"])]
    return X, [np.array([1, 2, -1, 2]), np.array([1, -1, 3, 1])]


def lists():
    r = np.random.default_rng(0)
    X = [r.normal(size=(n, 2)) for n in (3, 4, 2, 5)]
    return X, [np.argsort(np.argsort(-x[:, 0])) for x in X]


def links():
    Y = [np.eye(7, 8, dtype=int), np.eye(8, 7, dtype=int)] * 2
    return [2.0 * y[..., None] + 0.1 * np.random.default_rng(0).normal(size=(*y.shape, 2)) for y in Y], Y


def large_maps():
    r = np.random.default_rng(0)
    Y = [(r.random((20, 20)) > 0.5).astype(int) for _ in range(2)]
    return [y[..., None] + r.normal(size=(20, 20, 1)) for y in Y], Y


def segmented():
    X, _ = chains()
    return X, [[(0, 2, "a"), (2, len(x), "b")] for x in X]


@pytest.mark.parametrize(
    ("model", "data", "risk", "why"),
    [
        (Classifier(), table, "log", "exact"),
        (ChainTagger(), chains, "log", "exact"),
        (SegmentTagger(), segmented, "log", "exact"),
        (DependencyParser(), arcs, "log", "exact"),
        (Ranker(), lists, "margin", "no backend sums"),
        (Matcher(), links, "margin", "no backend sums"),
        (GridSegmenter(C=0.1, tol=0.1), large_maps, "margin", "sums"),
        (Classifier(trainer="bcfw"), table, "margin", "trainer 'bcfw'"),
        (ChainTagger(guarantee="bound"), chains, "margin", "guarantee='bound'"),
        (ChainTagger(risk="margin"), chains, "margin", None),
        (ChainTagger(risk="softmax-margin"), chains, "softmax-margin", None),
    ],
    ids=lambda one: type(one).__name__ if hasattr(one, "fit") else None,
)
def test_log_loss_where_sums_are_exact(model, data, risk, why, tmp_path):
    given = model.get_params()
    model.fit(*data())
    assert model.risk_ == risk
    assert model.get_params() == given
    assert ("risk" not in model.report_.chosen) if why is None else (why in model.report_.chosen["risk"])
    model.save(tmp_path / "model")
    other = type(model).load(tmp_path / "model")
    assert (other.risk_, other.C_) == (model.risk_, pytest.approx(model.C_))
    assert other.report_.chosen == model.report_.chosen
    assert all(f"{name} " in str(other.report_) for name in model.report_.chosen)


def test_rare_events_are_predicted():
    r = np.random.default_rng(0)
    X = [r.normal(size=(20, 2)) for _ in range(60)]
    Y = [np.where(x[:, 0] + r.normal(size=20) > 2.2, "event", "none") for x in X]
    by_risk = {
        risk: sum((p == "event").sum() for p in ChainTagger(risk=risk, C=1.0).fit(X, Y).predict(X))
        for risk in ("auto", "margin")
    }
    assert by_risk["auto"] > 5
    assert by_risk["margin"] == 0  # the margin of a class without majority


# -- C -------------------------------------------------------------------------------------------------


def test_folds_have_all_classes():
    folds = folds_of([0] * 30 + [1] * 9 + [2] * 3)
    assert {tuple(np.bincount(folds[lo:hi], minlength=N_FOLDS)) for lo, hi in ((0, 30), (30, 39), (39, 42))} == {
        (10,) * 3, (3,) * 3, (1,) * 3,
    }  # fmt: skip


def test_c_is_what_held_out_rows_say():
    """Beside scikit-learn's logistic regression on the same folds, with a column of ones as the bias."""
    X, Y = table()
    svm = Classifier(C="cv", scale=False).fit(X := (X - X.mean(axis=0)) / X.std(axis=0), Y)
    folds, ones = folds_of(Y), np.c_[X, np.ones(len(X))]
    # the rows of the fit are ordered by content, so that its folds are others: C is as good on these to a few percent
    losses = {}
    for C in VALUES:
        found = []
        for k in range(N_FOLDS):
            peer = LogisticRegression(C=C, fit_intercept=False, max_iter=2000).fit(ones[folds != k], Y[folds != k])
            found += np.log(peer.predict_proba(ones[folds == k])[np.arange(40), Y[folds == k]]).tolist()
        losses[C] = -np.mean(found)
    assert svm.C_ in VALUES
    assert losses[svm.C_] <= 1.15 * min(losses.values())
    assert f"{svm.C_:g}, by 3 folds" in svm.report_.chosen["C"]
    again = Classifier(C=svm.C_, scale=False, tol=0.001).fit(X, Y)  # the path ends in the fit of that C
    assert svm.report_.primal == pytest.approx(again.report_.primal, rel=0.011)


@pytest.mark.parametrize(("noise", "chosen"), [(0.0, 6), (1.0, 4)])
def test_the_smallest_c_within_half_a_standard_error(noise, chosen):
    """Losses fall up to the seventh value; what noise could explain is not believed."""
    means = np.array([5, 4, 3, 2, 1.02, 1.01, 1.0, 1.3, 1.6, 3, 4])
    apart = np.random.default_rng(0).normal(size=300)
    apart -= apart.mean()
    asked = []

    def learn(C, weight, start):
        asked.append((C, int((weight == 0).sum()), None if start is None else start[0]))
        k = VALUES.index(C)
        return np.array([C]), means[k] + noise * (k - 6) * apart, 2.0

    found = chosen_strength(learn, folds_of(np.zeros(300)), np.ones(300))
    assert VALUES[chosen] == found.C
    assert asked[N_FOLDS] == (VALUES[1], 100, VALUES[0])  # from the weights of the C before
    assert found.values[-1] <= VALUES[8]


def test_what_c_may_be():
    X, Y = table()
    for options, text in (({"C": "best"}, "'auto' or 'cv'"), ({"C": "cv", "lam": 0.1}, "leave one out")):
        with pytest.raises(OptionError, match=text):
            Classifier(**options).fit(X, Y)
    assert "C" not in Classifier(C=0.5).fit(X, Y).report_.chosen
    assert Classifier(lam=0.1).fit(X, Y).report_.convention.endswith("lam = 0.1")
    assert "usual" in ChainTagger().fit(*(one[:2] for one in chains())).report_.chosen["C"]  # too few to hold out


# -- scale ---------------------------------------------------------------------------------------------


def test_units_of_columns_do_not_matter(tmp_path):
    X, Y = table()
    X = np.c_[X, np.full(len(X), 7.0)]  # a constant column
    svm = Classifier(C=1.0, tol=1e-6).fit(X, Y)
    other = Classifier(C=1.0, tol=1e-6).fit(X * [1e4, 1e-4, 1.0, 3.0, 1e6], Y)
    assert other.predict_proba(X * [1e4, 1e-4, 1.0, 3.0, 1e6]) == pytest.approx(svm.predict_proba(X), abs=1e-5)
    assert "features=Standardized(x)" in str(svm.model_)
    assert "Standardized" not in str(Classifier(scale=False).declare(X, Y))
    svm.save(tmp_path / "model")
    assert Classifier.load(tmp_path / "model").decision_function(X) == pytest.approx(svm.decision_function(X))
    assert svm.explain(X[0]).score == pytest.approx(svm.best_score(X[:1])[0])


def test_frequencies_of_words_are_scaled_and_names_are_not():
    rows = sp.csr_matrix(np.array([[0.02, 0.0, 0.5], [0.0, 0.03, 0.1], [0.01, 0.0, 0.0], [0.0, 0.06, 0.4]]))
    Y = ["a", "b", "a", "b"]
    svm = Classifier(C=1.0).fit(rows, Y)
    assert svm.fitted_.learnt["Scaled(x)"]["scale"].tolist() == [0.02, 0.06, 0.5]
    named = [[{"rate": 0.02, "word=the": 1}, {"word=cat": True}]] * 2
    assert "Scaled" in str(ChainTagger().declare(named, [["x", "y"]] * 2))
    for same in ({"rate": 0.5}, {"rate": 3}, {"name": "text"}, {}):  # within ten times of 1
        assert "Scaled" not in str(ChainTagger().declare([[{"word": 1.0, **same}] * 2] * 2, [["x", "y"]] * 2))


def test_small_values_of_a_column_that_also_has_large_ones_are_no_reason_to_scale():
    named = [[{"share": 0.001}, {"share": 0.9}]] * 2
    assert "Scaled" not in str(ChainTagger().declare(named, [["x", "y"]] * 2))


def test_dense_features_of_arcs_are_standardised_with_separate_weights_of_roots():
    r = np.random.default_rng(0)
    X = [{"x": r.normal(size=(4, 4, 3)) * [1.0, 900.0, 0.01], "r": r.normal(size=(4, 3))} for _ in range(4)]
    Y = [np.array([1, 2, -1, 2])] * 4
    model = DependencyParser().declare(X, Y)
    assert str(model).count("Standardized") == 2
    assert "tie" not in str(model)
    plain = DependencyParser(scale=False).declare(X, Y)
    assert "Standardized" not in str(plain)
    assert len(DependencyParser(scale=False).fit(X, Y).coef_) == 3
    assert len(DependencyParser().fit(X, Y).coef_) == 6


# -- segments ------------------------------------------------------------------------------------------


def test_two_neighbouring_segments_of_one_class_are_told_apart_by_where_they_begin():
    """Each segment begins with a 1 in the second column: nothing else divides those of one class."""
    r = np.random.default_rng(0)
    X, Y = [], []
    for _ in range(30):
        ends = np.cumsum(r.integers(1, 5, size=4))
        x = np.zeros((ends[-1], 2))
        x[:, 0], x[np.r_[0, ends[:-1]], 1] = 1.0, 1.0
        X.append(x + 0.1 * r.normal(size=x.shape))
        Y.append([(int(a), int(b), "phrase") for a, b in zip(np.r_[0, ends[:-1]], ends, strict=True)])
    right = [span_f1(Y[20:], SegmentTagger(begins=begins).fit(X[:20], Y[:20]).predict(X[20:])) for begins in (1, 0)]
    assert right[0] > 0.95 > right[1]


def test_attributes_are_scaled_where_numbers_are_large():
    X = [[{"w": "a", "length": 30.0 * (k % 2)}, {"w": "b", "length": 2}] for k in range(6)]
    Y = [["long" if k % 2 else "short", "short"] for k in range(6)]
    svm = ChainTagger(C=1.0).fit(X, Y)
    assert "features=Scaled(x)" in str(svm.model_)
    names = list(svm.weights_.names("emit")[-1])
    assert names == ["w:a", "length", "w:b"]
    assert svm.fitted_.learnt["Scaled(x)"]["scale"].tolist() == [1.0, 30.0, 1.0]
    small = [[{"w": "a", "share": 0.01}, {"w": "b", "share": 9}]] * 3
    assert "Scaled" not in str(ChainTagger.declare(small, [["p", "q"]] * 3))
    rows = sp.csr_array([[0.0, 50.0], [1.0, 0.0], [0.0, -20.0], [1.0, 2.0]])
    svm = Classifier(C=10.0).fit(rows, ["a", "b", "a", "b"])
    assert svm.fitted_.learnt["Scaled(x)"]["scale"].tolist() == [1.0, 50.0]
    assert svm.predict(rows).tolist() == ["a", "b", "a", "b"]


def given(part):
    return part


@pytest.mark.parametrize("named", [False, True])
def test_scales_are_joined_over_shards(named):
    X, Y = chains()
    X = [np.c_[x, np.full(len(x), 3.0)] for x in X]
    if named:
        X = [[{f"n{j}": 100.0 * v for j, v in enumerate(row)} | {f"only{i % 2}": 20.0} for row in x] for i, x in
             enumerate(X)]  # fmt: skip
    whole = ChainTagger(C=1.0, tol=1e-4).fit(X, Y)
    parts = PartitionedDataset([(X[:3], Y[:3]), (X[3:4], Y[3:4]), (X[4:], Y[4:])], given)
    shards = ChainTagger(C=1.0, tol=1e-4, executor="stream").fit(parts)
    assert shards.risk_ == whole.risk_ == "log"
    for key, learnt in whole.fitted_.learnt.items():
        for name, array in learnt.items():
            if name != "names":
                assert shards.fitted_.learnt[key][name] == pytest.approx(array, rel=1e-12)
    assert shards.report_.primal == pytest.approx(whole.report_.primal, rel=3e-4)


def test_a_stream_keeps_what_the_first_batch_chose():
    X, Y = table()
    svm = Classifier()
    for part in np.array_split(np.arange(len(X)), 3):
        svm.partial_fit(X[part], Y[part], classes=[0, 1, 2])
    assert svm.risk_ == "log"
    assert svm.score(X, Y) > 0.6


# -- weights of classes --------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", ["balanced", {1: 4.0, 2: 0.5}])
def test_weights_of_rows_are_those_of_scikit_learn(weight):
    X, Y = table(k=3)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    peer = LogisticRegression(C=0.7, fit_intercept=False, class_weight=weight, tol=1e-10, max_iter=5000).fit(X, Y)
    svm = Classifier(C=0.7, bias=False, scale=False, class_weight=weight, tol=1e-9).fit(X, Y)
    assert svm.predict_proba(X) == pytest.approx(peer.predict_proba(X), abs=1e-4)


def test_weights_of_labels_are_prices_in_the_loss():
    r = np.random.default_rng(1)
    X = [r.normal(size=(20, 2)) for _ in range(40)]
    Y = [np.where(x[:, 0] + r.normal(size=20) > 2.0, "event", "none") for x in X]
    n = sum((y == "event").sum() for y in Y)
    plain, equal = (ChainTagger(C=1.0, class_weight=one).fit(X, Y) for one in (None, "balanced"))
    found = [sum((p == "event").sum() for p in one.predict(X)) for one in (plain, equal)]
    assert 1.5 * found[0] < found[1]
    assert equal.risk_ == "softmax-margin"
    weights = equal.model_.declaration.loss.weights
    assert weights == pytest.approx((800 / (2 * n), 800 / (2 * (800 - n))))
    assert ChainTagger(class_weight={"event": 3}).declare(X, Y).declaration.loss.weights == (3.0, 1.0)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (ChainTagger(class_weight="balanced", risk="log"), "softmax-margin"),
        (ChainTagger(class_weight={"x": 1.0}), "'x' is no class; these are: 'down', 'up'"),
        (ChainTagger(class_weight={"up": -1.0}), "non-negative"),
        (ChainTagger(class_weight=2), "'balanced' or a dict"),
        (SegmentTagger(class_weight="balanced"), "SegmentTagger has no class_weight"),
        (ChainTagger(bio="yes"), "bio is True, False or 'auto'"),
    ],
    ids=str,
)
def test_weights_that_cannot_be(model, text):
    with pytest.raises(OptionError, match=text):
        model.fit(*chains())


# -- rules of tags -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "rules"),
    [
        (["O", "B-X", "I-X", "B-X"], "BIO"),
        (["O", "B-X", None, "I-X"], "BIO"),
        (["B-X", "E-X", "O", "S-X"], "BIOES"),
        (["I-X", "I-X", "O", "B-X"], ""),  # data that break the rules
        (["O", "B-X", "O", "I-X"], ""),
        (["B-X", "B-Y", "O", "O"], ""),  # nothing inside: nothing to forbid
        (["up", "down", "up", "up"], ""),
    ],
    ids=str,
)
def test_rules_are_found_from_the_tags(tags, rules):
    X, Y = [[["a"], ["b"], ["c"], ["d"]]] * 3, [tags] * 3
    tagger = ChainTagger(C=1.0).fit(X, Y)
    assert ("inside" in str(tagger.model_)) is bool(rules)
    assert tagger.report_.chosen.get("tags", "").partition(",")[0] == rules
    assert "Forbid" not in str(ChainTagger(bio=False).declare(X, Y))
