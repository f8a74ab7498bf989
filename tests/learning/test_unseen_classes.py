"""Classes that training never saw count as wrong wherever predictions are judged, with one warning of how many."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from ssvm_dsl import (
    Cost,
    CountLoss,
    Dim,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    PartitionedDataset,
    StructuredSVM,
    ZeroOne,
    chain,
    grid_scores,
    named_scorer,
    spans,
)
from ssvm_dsl.errors import DataError
from ssvm_dsl.learning.metrics import SCORERS
from ssvm_dsl.models import ChainTagger, Classifier, SegmentTagger
from ssvm_dsl.models.crfsuite import CRF

RNG = np.random.default_rng(0)
X = [RNG.normal(size=(n, 3)) for n in (3, 5, 2, 4, 4, 1)]
NAMES = "abc"
PRICES = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [7.0, 3.0, 0.0]])


class Tags(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, NAMES)
    e = Factor(y, features=x)
    t = Factor(chain(y))


def model_with(loss):
    return type("Judged", (Tags,), {"loss": loss})


def svm_of(model):
    return StructuredSVM.from_weights(model, {"e": RNG.normal(size=(3, 3)), "t": RNG.normal(size=(3, 3))}, fitted_on=X)


def truth(rng, p=0.3):
    return [["?" if rng.random() < p else str(rng.choice(list(NAMES))) for _ in x] for x in X]


def without_unseen(Y, found, other):
    """Labels with a class that is not the predicted one in place of what training never saw."""
    return [[other(f) if y == "?" else y for y, f in zip(*pair, strict=True)] for pair in zip(Y, found, strict=True)]


def any_other(predicted):
    return next(name for name in NAMES if name != predicted)


def unseen_of(Y):
    return sum(name == "?" for one in Y for name in one)


LOSSES = {
    "hamming": (Hamming(Tags.y), any_other),
    "normalised": (Hamming(Tags.y, normalize=True), any_other),
    "zero-one": (2.0 * ZeroOne(Tags.y), any_other),
    "f1 of c": (CountLoss(Tags.y, "f1", positive=["c"]), lambda predicted: "b" if predicted == "a" else "a"),
    "costs": (Cost(Tags.y, PRICES), lambda predicted: NAMES[PRICES[:, NAMES.index(predicted)].argmax()]),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("seed", range(4))
def test_they_are_wrong_whatever_is_answered(name, seed):
    loss, other = LOSSES[name]
    svm, Y = svm_of(model_with(loss)), truth(np.random.default_rng(seed))
    found = svm.predict(X)
    with pytest.warns(UserWarning, match=rf"^{unseen_of(Y)} labels are of classes that training never saw \('\?'"):
        score = svm.score(X, Y)
    if name == "costs":  # the largest loss of such a label is the largest of all
        lost = most = 0.0
        for one, answer in zip(Y, found, strict=True):
            for y, f in zip(one, answer, strict=True):
                column = PRICES[:, NAMES.index(f)]
                lost += column.max() if y == "?" else column[NAMES.index(y)]
                most += PRICES.max() if y == "?" else PRICES[NAMES.index(y)].max()
        assert score == pytest.approx(1 - lost / most)
        return
    assert score == pytest.approx(svm.score(X, without_unseen(Y, found, other)))


def test_joint_costs():
    prices = np.random.default_rng(1).integers(1, 9, size=(9, 9)) * (1.0 - np.eye(9))
    svm = svm_of(model_with(Cost(chain(Tags.y), prices.reshape(3, 3, 3, 3))))
    Y, found = truth(np.random.default_rng(2)), svm.predict(X)
    lost = most = 0.0
    for one, answer in zip(Y, found, strict=True):
        for t in range(1, len(one)):
            column = 3 * NAMES.index(answer[t - 1]) + NAMES.index(answer[t])
            if "?" in one[t - 1 : t + 1]:
                lost, most = lost + prices[:, column].max(), most + prices.max()
            else:
                row = prices[3 * NAMES.index(one[t - 1]) + NAMES.index(one[t])]
                lost, most = lost + row[column], most + row.max()
    with pytest.warns(UserWarning, match="never saw"):
        assert svm.score(X, Y) == pytest.approx(1 - lost / most)


def test_class_weights_take_the_largest():
    svm = svm_of(model_with(Hamming(Tags.y, weights=[1.0, 5.0, 2.0])))
    with pytest.warns(UserWarning, match="1 label is of a class .* it counts as wrong"):
        score = svm.score(X[:1], [["?", *svm.predict(X[:1])[0][1:]]])
    weight = {"a": 1.0, "b": 5.0, "c": 2.0}
    rest = sum(weight[name] for name in svm.predict(X[:1])[0][1:])
    assert score == pytest.approx(1 - 5.0 / (5.0 + rest))


class Spans(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, NAMES, segments=3)
    e = Factor(y, features=x)
    loss = Hamming(y)


COUNTED = CountLoss(spans(Spans.y), "f1", positive=["b"])


@pytest.mark.parametrize("loss", [Hamming(Spans.y), Cost(spans(Spans.y), "wrong"), COUNTED])
def test_segments(loss):
    svm = StructuredSVM.from_weights(type("M", (Spans,), {"loss": loss}), {"e": RNG.normal(size=(3, 3))}, fitted_on=X)
    found = svm.predict(X)
    Y = [[(start, end, "?" if k % 2 else name) for k, (start, end, name) in enumerate(one)] for one in found]
    n = unseen_of([[name for _, _, name in one] for one in Y])
    other = {"a": "c", "b": "a", "c": "a"}
    same = [[(s, e, other[f[2]] if name == "?" else name) for (s, e, name), f in zip(*pair, strict=True)]
            for pair in zip(Y, found, strict=True)]  # fmt: skip
    with pytest.warns(UserWarning, match=rf"{n} labels are of classes that training never saw \('\?': {n}\)"):
        score = svm.score(X, Y)
    assert score == pytest.approx(svm.score(X, same))
    assert score < 1.0 == svm.score(X, found)


class Two(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, NAMES)
    z = Label(4)
    e = Factor(y, features=x)
    loss = Hamming(y) + Hamming(z)


def test_several_labels_and_numbers():
    svm = StructuredSVM.from_weights(Two, {"e": RNG.normal(size=(3, 3))}, fitted_on=X)
    found = svm.predict(X)
    assert svm.score(X, found) == 1.0
    Y = [{"y": one["y"], "z": 17} for one in found]
    with pytest.warns(UserWarning, match=r"6 labels .*\(17: 6\)"):
        assert svm.score(X, Y) == pytest.approx(1 - 6 / (6 + sum(map(len, X))))
    for odd, words in ((-1, "unknown=-1"), ("d", "an int in 0..3"), (1.5, "an int in 0..3")):
        with pytest.raises(DataError, match=words):
            svm.score(X, [{"y": one["y"], "z": odd} for one in found])
    with pytest.raises(DataError, match="one of the 3 classes"):
        svm.score(X, [{"y": np.zeros(len(x), dtype=int), "z": 0} for x in X])


def test_training_and_known_labels_refuse_them():
    svm, Y = svm_of(model_with(Hamming(Tags.y))), truth(np.random.default_rng(0), 0.5)
    with pytest.raises(DataError, match="one of the 3 classes"):
        svm.predict(X, given=Y)
    with pytest.raises(DataError, match="one of the 3 classes"):
        StructuredSVM(model_with(Hamming(Tags.y))).fit(X, Y)


def test_parts_are_scored_alike():
    svm, Y = svm_of(model_with(Hamming(Tags.y))), truth(np.random.default_rng(0))
    parts = PartitionedDataset([(X[:3], Y[:3]), (X[3:], Y[3:])], lambda part: part)
    with pytest.warns(UserWarning, match="never saw"):
        assert svm.set_params(executor="stream").score(parts) == pytest.approx(svm.score(X, Y))


def test_scorers_and_cross_validation():
    svm, Y = svm_of(model_with(Hamming(Tags.y))), truth(np.random.default_rng(0))
    for name in ("label-accuracy", "exact-match", "mean-iou"):
        with pytest.warns(UserWarning, match=f"{unseen_of(Y)} labels"):
            assert named_scorer(name)(svm, X, Y) == SCORERS[name](Y, svm.predict(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        named_scorer("label-accuracy")(svm, X, svm.predict(X))
    rows, folds = [[["w"]] * 3] * 6, [["A", "B", "A"]] * 5 + [["A", "C", "A"]]
    for scoring in (None, named_scorer("label-accuracy")):
        with pytest.warns(UserWarning, match="1 label is of a class that training never saw .'C': 1."):
            found = cross_val_score(ChainTagger(), rows, folds, cv=3, scoring=scoring)
        assert found[-1] == pytest.approx(5 / 6)
    with pytest.warns(UserWarning, match="never saw"):
        assert np.isfinite(grid_scores(ChainTagger(), {"C": [1.0]}, rows, folds, 3).scores).all()


def test_ready_models():
    Y = [[str(name) for name in np.where(x[:, 0] > 0, "a", "b")] for x in X]
    odd = [["?", *one[1:]] for one in Y]
    n = sum(map(len, X))
    for model in (ChainTagger(random_state=0), CRF()):
        data = [[{f"{k}": v for k, v in enumerate(row)} for row in x] for x in X] if isinstance(model, CRF) else X
        fitted = model.fit(data, Y)
        right = fitted.score(data, Y) * n
        first = sum(f[0] == y[0] for f, y in zip(fitted.predict(data), Y, strict=True))
        with pytest.warns(UserWarning, match="6 labels"):
            assert fitted.score(data, odd) * n == pytest.approx(right - first)
    rows = np.concatenate(X)
    with pytest.warns(UserWarning, match="1 label is"):
        assert Classifier(random_state=0).fit(rows, np.concatenate(Y)).score(rows[:2], ["?", Y[0][1]]) <= 0.5
    with pytest.warns(UserWarning, match="never saw"):
        assert SegmentTagger(random_state=0).fit(X, Y).score(X, odd) < 1.0


def test_crf_takes_labels_of_any_kind():
    data = [[{"a": 1.0}, {"b": 1.0}, {"a": 1.0}]] * 3
    for Y in ([5, 3, 5], [True, False, True], np.array([2, 1, 2]), [1.0, 0.0, 1.0]):
        crf = CRF().fit(data, [Y] * 3)
        assert crf.classes_ == [int(Y[0]), int(Y[1])]
        assert crf.predict(data)[0] == [int(one) for one in Y]
        assert crf.score(data, [Y] * 3) == 1.0
        assert (int(Y[0]), int(Y[1])) in crf.transition_features_
        assert set(crf.predict_marginals(data)[0][0]) == set(crf.classes_)
    with pytest.raises(DataError, match="strings and numbers"):
        CRF().fit(data, [["a", 1, "a"]] * 3)
    with pytest.raises(DataError, match="whole numbers"):
        CRF().fit(data, [[0.5, 1.5, 0.5]] * 3)
