"""Rules and given scores in training and prediction, against the enumeration of all labellings."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.special import logsumexp

from ssvm_dsl import (
    BIO,
    Dim,
    Factor,
    Forbid,
    Given,
    Hamming,
    Input,
    Label,
    Model,
    PLiF,
    Quantiles,
    Standardized,
    StructuredSVM,
    Whitened,
    chain,
    ground,
)
from ssvm_dsl.errors import DataError, FileFormatError, InfeasibleError, OptionError, TrainingError

TAGS = ["O", "B-A", "I-A"]
TABLE = np.arange(9.0).reshape(3, 3) / 3


class Tagger(Model):
    T = Dim()
    x = Input(T, 3)
    net = Input(T, 3)
    y = Label(T, TAGS)
    emit = Factor(y, features=x)
    start = Factor(y.at(0))
    trans = Factor(chain(y))
    scheme = Forbid(chain(y), BIO(y))
    begin = Forbid(y.at(0), BIO(y))
    logits = Given(y, scores=net)
    loss = Hamming(y)


class WithTable(Tagger):
    bigrams = Given(chain(Tagger.y), scores=TABLE)


def allowed(states):
    return states[0] != 2 and all(not (b == 2 and a == 0) for a, b in pairwise(states))


def draw(rng, n):
    taggings = [y for y in product(range(3), repeat=n) if allowed(y)]
    return [TAGS[s] for s in taggings[rng.integers(len(taggings))]]


RNG = np.random.default_rng(0)
X = [{"x": RNG.normal(size=(n, 3)), "net": RNG.normal(size=(n, 3))} for n in (1, 3, 4, 2, 3)]
Y = [draw(RNG, len(one["x"])) for one in X]


def score(model, w, example, states):
    """Return the score of a labelling by its definition, -inf where it is ruled out."""
    if not allowed(states):
        return -np.inf
    emit, start, trans = w[:9].reshape(3, 3), w[9:12], w[12:21].reshape(3, 3)
    total = start[states[0]] + sum(emit[s] @ example["x"][t] + example["net"][t, s] for t, s in enumerate(states))
    total += sum(trans[a, b] for a, b in pairwise(states))
    return total + (sum(TABLE[a, b] for a, b in pairwise(states)) if model is WithTable else 0.0)


def risk(model, w, name):
    total = 0.0
    for example, tags in zip(X, Y, strict=True):
        truth = [TAGS.index(tag) for tag in tags]
        every = [y for y in product(range(3), repeat=len(truth)) if allowed(y)]
        margin = np.array([score(model, w, example, y) for y in every]) - score(model, w, example, truth)
        loss = np.array([sum(a != b for a, b in zip(y, truth, strict=True)) for y in every], dtype=float)
        total += {
            "margin": (loss + margin).max(),
            "slack": (loss * (1 + margin)).max(),
            "hm": max(0.0, (1 + margin)[loss > 0].max(initial=-np.inf)),
            "perceptron": margin.max(),
            "log": logsumexp(margin),
            "softmax-margin": logsumexp(loss + margin),
        }[name]
    return 0.5 * w @ w + total


@pytest.mark.parametrize("model", [Tagger, WithTable])
@pytest.mark.parametrize(
    ("name", "trainers"),
    [
        ("margin", ["bcfw", "n-slack", "smo", "eg", "lp-dual-qp", "extragradient"]),
        ("slack", ["n-slack"]),
        ("hm", ["n-slack"]),
        ("perceptron", ["bcfw"]),
        ("log", ["lbfgs"]),
        ("softmax-margin", ["lbfgs"]),
    ],
)
def test_objectives_and_lower_bounds_are_those_of_all_labellings(model, name, trainers):
    found = []
    for trainer in trainers:
        svm = StructuredSVM(model, C=1.0, risk=name, trainer=trainer, tol=1e-4, max_passes=500, random_state=0)
        svm.fit(X, Y)
        assert svm.report_.certified
        assert svm.report_.primal == pytest.approx(risk(model, svm.coef_, name), rel=1e-6)
        assert svm.report_.relative_gap <= 1e-4
        found.append(svm.report_)
        other = risk(model, svm.coef_ + 0.01 * np.random.default_rng(1).normal(size=21), name)
        assert svm.report_.dual <= min(other, svm.report_.primal)
    assert all(report.dual <= one.primal for report in found for one in found)


def test_the_perceptron_learns_with_rules_and_scores():
    svm = StructuredSVM(Tagger, C=1.0, risk="perceptron", trainer="perceptron", max_passes=5, random_state=0).fit(X, Y)
    assert svm.report_.primal == pytest.approx(risk(Tagger, svm.coef_, "perceptron"), rel=1e-9)


@pytest.mark.parametrize("trainer", ["bcfw", "lp-dual-qp"])
def test_the_relaxed_risk_is_refused(trainer):
    with pytest.raises(TrainingError, match=r"no Forbid or Given of several variables"):
        StructuredSVM(Tagger, risk="relaxed", trainer=trainer).fit(X, Y)


# -- prediction ----------------------------------------------------------------------------------------

W = np.random.default_rng(5).normal(size=21)
WEIGHTS = {"emit": W[:9].reshape(3, 3), "start": W[9:12], "trans": W[12:].reshape(3, 3)}


def ranked(model, example, known=None):
    """Return all labellings that agree with what is known, best first, with their scores."""
    n = len(example["x"])
    every = [(score(model, W, example, y), y) for y in product(range(3), repeat=n)]
    fits = [(s, y) for s, y in every if s > -np.inf and all(k is None or TAGS[a] == k for a, k in zip(y, known or y))]
    return sorted(fits, reverse=True) if known else sorted([one for one in every if one[0] > -np.inf], reverse=True)


@pytest.mark.parametrize("model", [Tagger, WithTable])
@pytest.mark.parametrize("backend", ["auto", "junction-tree", "ilp", "trws", "brute-force"])
def test_predictions_with_given_weights_are_the_best_labellings(model, backend):
    svm = StructuredSVM.from_weights(model, WEIGHTS, backend=backend)
    labels, scores, _ = svm.predict(X, return_bounds=True)
    best = [ranked(model, example)[0] for example in X]
    assert scores == pytest.approx([s for s, _ in best])
    assert [list(one) for one in labels] == [[TAGS[s] for s in y] for _, y in best]
    assert svm.best_score(X, labels) == pytest.approx(scores)


def test_the_plan_of_predictions_is_shown():
    svm = StructuredSVM.from_weights(Tagger, WEIGHTS)
    with pytest.raises(AttributeError, match=r"no plan of a fit; prediction_plan\(X\) returns how X is answered"):
        svm.plan_  # noqa: B018
    assert svm.prediction_plan(X).backend == "chain"
    bounded = StructuredSVM.from_weights(Tagger, WEIGHTS, backend="trws", guarantee="bound")
    assert bounded.prediction_plan(X).backend == "trws"


def test_k_best_and_probabilities():
    svm = StructuredSVM.from_weights(WithTable, WEIGHTS)
    for example, found in zip(X, svm.predict_kbest(X, 4), strict=True):
        expected = ranked(WithTable, example)[:4]
        assert [s for _, s in found] == pytest.approx([s for s, _ in expected])
    for example, found in zip(X, svm.predict_marginals(X), strict=True):
        every = ranked(WithTable, example)
        chance = np.exp([s for s, _ in every] - logsumexp([s for s, _ in every]))
        expected = np.zeros((len(example["x"]), 3))
        for p, (_, y) in zip(chance, every, strict=True):
            expected[np.arange(len(y)), list(y)] += p
        assert found == pytest.approx(expected)


def test_what_is_known_is_kept():
    svm = StructuredSVM.from_weights(Tagger, WEIGHTS)
    known = [[None], ["B-A", None, None], [None, None, "O", None], None, [None, "O", "B-A"]]
    for example, given, found in zip(X, known, svm.predict(X, given=known), strict=True):
        expected = ranked(Tagger, example, given or [None] * len(example["x"]))[0][1]
        assert list(found) == [TAGS[s] for s in expected]
    assert all((a == b).all() for a, b in zip(svm.complete(X, Y), map(np.array, Y), strict=True))
    with pytest.raises(InfeasibleError, match=r"example 1 has no labelling: all states of y\[0\] are ruled out"):
        svm.predict(X, given=[None, ["I-A", None, None], None, None, None])
    with pytest.raises(InfeasibleError, match="example 1 has no labelling"):
        svm.predict(X, given=[None, ["O", "I-A", None], None, None, None])
    with pytest.raises(DataError, match="given: expected 5 examples, as in X, found 1"):
        svm.predict(X, given=[None])


def test_weights_that_do_not_fit_are_refused():
    for change, found in [
        ({"emit": np.zeros((3, 2))}, r"weights of 'emit': expected shape \(3, 3\), found \(3, 2\)"),
        ({"start": [0, np.nan, 0]}, "weights of 'start': expected finite numbers"),
        ({"stop": np.zeros(3)}, "stop owns no weights; its factors are emit, start, trans"),
    ]:
        with pytest.raises(OptionError, match=found):
            StructuredSVM.from_weights(Tagger, WEIGHTS | change)
    with pytest.raises(OptionError, match="no weights for emit, trans"):
        StructuredSVM.from_weights(Tagger, {"start": np.zeros(3)})
    named = {Tagger.emit: np.eye(3), Tagger.start: np.zeros(3), Tagger.trans: np.zeros((3, 3))}
    svm = StructuredSVM.from_weights(Tagger, named)
    assert (svm.weights_["emit"] == np.eye(3)).all()
    with pytest.raises(OptionError, match=r"the weights were given \(from_weights\)"):
        svm.certified_gap(1.0)


@pytest.mark.sensitive
def test_a_fit_goes_on_from_given_weights():
    first = StructuredSVM(Tagger, C=1.0, tol=1e-4, random_state=0).fit(X, Y)
    weights = {name: first.weights_[name] for name in ("emit", "start", "trans")}
    once = {"C": 1.0, "tol": 1e-4, "max_passes": 1, "random_state": 0}
    again = StructuredSVM.from_weights(Tagger, weights, warm_start=True, **once).fit(X, Y)
    assert again.report_.primal <= first.report_.primal * (1 + 1e-9)
    assert StructuredSVM(Tagger, **once).fit(X, Y).report_.primal > 1.01 * first.report_.primal


# -- data ----------------------------------------------------------------------------------------------


class Lexicon(Model):
    T = Dim()
    x = Input(T, 2)
    candidates = Input(T, 3)
    y = Label(T, "abc", allowed=candidates)
    emit = Factor(y, features=x)
    loss = Hamming(y)


def test_candidates_of_each_position():
    x, mask = np.ones((3, 2)), np.array([[1, 0, 0], [0, 1, 1], [1, 1, 1]])
    weights = {"emit": [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]}
    svm = StructuredSVM.from_weights(Lexicon, weights)
    assert "".join(svm.predict([{"x": x, "candidates": mask}])[0]) == "acc"
    with pytest.raises(DataError, match=r"Y, example 0: expected labels that allowed=candidates of label 'y' does not"):
        StructuredSVM(Lexicon).fit([{"x": x, "candidates": mask}], ["bbb"])
    with pytest.raises(DataError, match=r"input 'candidates', example 1: expected a class .* none for y\[2\]"):
        svm.predict([{"x": x, "candidates": mask}, {"x": x, "candidates": mask * [[1], [1], [0]]}])
    assert svm.score([{"x": x, "candidates": mask}], ["bbb"]) == 0.0  # labels to be judged may be ruled out


def test_labels_that_break_a_rule_are_refused_in_training():
    with pytest.raises(DataError, match=r"Y, example 1: expected labels that rule 'scheme' does not.* found O, I-A"):
        StructuredSVM(Tagger).fit(X, [Y[0], ["O", "I-A", "O"], *Y[2:]])
    with pytest.raises(DataError, match=r"Y, example 0: expected labels that rule 'begin' does not.* found I-A"):
        StructuredSVM(Tagger).fit(X, [["I-A"], *Y[1:]])


def test_scores_of_minus_infinity_rule_states_out():
    class Net(Model):
        T = Dim()
        logits = Input(T, 3)
        y = Label(T, "abc")
        net = Given(y, scores=logits)
        trans = Factor(chain(y))
        loss = Hamming(y)

    logits = np.array([[0.0, 1.0, -np.inf], [-np.inf, -np.inf, -5.0], [3.0, 0.0, 0.0]])
    svm = StructuredSVM.from_weights(Net, {"trans": np.zeros((3, 3))})
    assert "".join(svm.predict([logits])[0]) == "bca"
    for wrong in (np.nan, np.inf):
        with pytest.raises(DataError, match="input 'logits', example 0: expected numbers or -inf, found"):
            svm.predict([np.where(logits == 3.0, wrong, logits)])
    with pytest.raises(DataError, match=r"the scores of 'net' \(-inf\) does not rule out, found c"):
        StructuredSVM(Net).fit([logits], ["cca"])


def test_labels_that_are_not_known_are_left_out():
    whole = ground(Tagger, X[1:3], [Y[1], Y[2]])
    part = ground(Tagger, X[1:3], [Y[1], [Y[2][0], None, None, Y[2][3]]])
    assert whole.ignored is None
    assert part.ignored.tolist() == [False] * 4 + [True, True, False]
    assert part.loss.value(part.program, np.zeros(7, dtype=np.int32)).shape == (2,)
    masked = np.ma.array(["O", "B-A", "O", "O"], mask=[False, True, False, False])
    assert ground(Tagger, X[2:3], [masked]).ignored.tolist() == [False, True, False, False]
    svm = StructuredSVM(Tagger, C=1.0, tol=1e-3).fit(X, [Y[0], None, [Y[2][0], None, None, Y[2][3]], *Y[3:]])
    assert svm.report_.certified


# -- given scores that are learnt features ---------------------------------------------------------------


@pytest.mark.parametrize("kind", [Standardized, Whitened, partial(PLiF, knots=Quantiles(3))])
def test_given_scores_are_features_learnt_in_training(kind, tmp_path):
    width = 1 if isinstance(kind, partial) else 3

    class Learnt(Model):
        T = Dim()
        x = Input(T, 2)
        raw = Input(T, width)
        y = Label(T, "abc")
        emit = Factor(y, features=x)
        net = Given(y, scores=kind(raw))
        loss = Hamming(y)

    class Ready(Model):
        T = Dim()
        x = Input(T, 2)
        raw = Input(T, 3)
        y = Label(T, "abc")
        emit = Factor(y, features=x)
        net = Given(y, scores=raw)
        loss = Hamming(y)

    rng = np.random.default_rng(3)
    X = [{"x": rng.normal(size=(t, 2)), "raw": rng.normal(2.0, 5.0, size=(t, width))} for t in (3, 1, 4, 2)]
    new = [{"x": rng.normal(size=(t, 2)), "raw": rng.normal(9.0, 1.0, size=(t, width))} for t in (5, 2)]
    Y = [["abc"[k] for k in rng.integers(3, size=len(one["x"]))] for one in X]
    found = np.concatenate([one["raw"] for one in X])
    if isinstance(kind, partial):
        knots = np.quantile(found[:, 0], [0.0, 0.5, 1.0])

        def change(raw):
            return np.stack([np.interp(raw[:, 0], knots, hat) for hat in np.eye(3)], axis=1)
    else:
        values, axes = np.linalg.eigh(np.cov(found.T, bias=True))
        matrix = np.diag(1 / found.std(axis=0)) if kind is Standardized else axes @ np.diag(values**-0.5) @ axes.T

        def change(raw):
            return (raw - found.mean(axis=0)) @ matrix

    ready = [[{"x": one["x"], "raw": change(one["raw"])} for one in data] for data in (X, new)]
    svm = StructuredSVM(Learnt, tol=1e-6, random_state=0).fit(X, Y)
    other = StructuredSVM(Ready, tol=1e-6, random_state=0).fit(ready[0], Y)
    assert svm.report_.primal == pytest.approx(other.report_.primal, rel=1e-5)
    by_hand = StructuredSVM.from_weights(Learnt, svm.weights_, fitted_on=X)
    same = StructuredSVM.from_weights(Ready, svm.weights_)
    expected = same.predict(ready[1], return_bounds=True)[1]
    path = tmp_path / "model.ssvm"
    svm.save(path)
    for one in (svm, by_hand, StructuredSVM.load(path)):
        assert one.predict(new, return_bounds=True)[1] == pytest.approx(expected)
    with pytest.raises(OptionError, match="model Learnt learns features"):
        StructuredSVM.from_weights(Learnt, svm.weights_)
    svm.fitted_ = replace(svm.fitted_, learnt={})
    svm.save(path)
    with pytest.raises(FileFormatError, match="the state of fitted features does not fit the model"):
        StructuredSVM.load(path)
