"""Early stopping by the score on held-out examples."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import f1_score

import small
from small import Case
from ssvm_dsl import Factor, Hamming, Input, Label, Model, StructuredRegressor, StructuredSVM
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.learning.driver.fit import Validation

DATA = Case(small.Word, n=10, C=1.0).make(0)
HELD_OUT = Case(small.Word, n=10, C=1.0).make(1)


def fit(data=DATA, validation=(HELD_OUT.X, HELD_OUT.Y), **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"C": 100.0, "tol": 0.0, "max_passes": 100, "random_state": 0, **options}
        return StructuredSVM(small.Word, **options).fit(data.X, data.Y, validation=validation)


def test_it_looks_once_a_pass_and_stops_when_patience_ends():
    scores = iter([0.1, 0.5, 0.5, 0.4, 0.9])
    validation = Validation(lambda w: next(scores), patience=2)
    events = [SimpleNamespace(n_passes=n, extra={}) for n in (0.5, 1.0, 1.2, 2.3, 3.0, 4.0)]
    stops = [validation.enough(np.array([float(k)]), event) for k, event in enumerate(events)]
    assert stops == [False, False, False, False, False, True]
    assert [event.extra.get("validation_score") for event in events] == [None, 0.1, None, 0.5, 0.5, 0.4]
    assert (validation.best, validation.w.tolist()) == (0.5, [3.0])


@pytest.mark.parametrize("trainer", ["bcfw", "subgradient"])
def test_the_best_weights_on_the_held_out_examples_are_kept(trainer, monkeypatch):
    seen, used = [], []
    held_out = HELD_OUT.X, HELD_OUT.Y
    plain = Validation.enough
    monkeypatch.setattr(Validation, "enough", lambda self, *looked: used.append(self) or plain(self, *looked))
    svm = fit(trainer=trainer, patience=4, callbacks=[lambda event: seen.append(event.n_passes)])
    assert svm.report_.reason == "validation"
    assert "validation" in str(svm.report_)
    assert seen[-1] < 100
    assert svm.score(*held_out) == used[-1].best
    np.testing.assert_array_equal(svm.coef_, used[-1].w)
    assert svm.report_.primal >= fit(trainer="bcfw", validation=None, tol=1e-3).report_.dual - 1e-9
    if trainer == "bcfw":
        assert svm.report_.gap >= 0


def test_what_is_no_pair_of_held_out_examples_is_refused():
    for wrong, shown in (((HELD_OUT.X,), "a tuple of 1"), (HELD_OUT.X[0], "an array of"), ("both", "'both'")):
        with pytest.raises(OptionError, match=rf"validation must be a pair, .*\(X, Y\); got {shown}"):
            fit(validation=wrong)
    with pytest.raises(DataError, match="validation: Y: expected 10 examples, as in X, found 9"):
        fit(validation=(HELD_OUT.X, HELD_OUT.Y[1:]))
    with pytest.raises(DataError, match=r"validation: input 'x', example 3: expected"):
        fit(validation=([np.zeros((2, 9)) if i == 3 else x for i, x in enumerate(HELD_OUT.X)], HELD_OUT.Y))
    with pytest.raises(OptionError, match=r"patience=3 is for fit\(..., validation="):
        fit(validation=None, patience=3)


def test_validation_data_are_checked_first():
    with pytest.raises(DataError, match="validation: label 'y'"):
        fit(validation=(HELD_OUT.X, [[0] * (len(y) + 1) for y in HELD_OUT.Y]))
    unseen = fit(validation=(HELD_OUT.X, [["?"] * len(y) for y in HELD_OUT.Y]))  # classes that count as wrong
    assert unseen.report_.validation_score == 0.0
    with pytest.raises(OptionError, match="patience"):
        fit(patience=0)
    with pytest.raises(OptionError, match="checkpoint"):
        fit(checkpoint="somewhere")


def macro_f1(svm, X, Y):
    """F1 of all variables, by scikit-learn."""
    return f1_score(np.concatenate(Y), np.concatenate(svm.predict(X)), average="macro")


def test_a_scorer_decides_which_weights_are_kept():
    seen = []
    svm = fit(scoring=macro_f1, patience=3, callbacks=[lambda event: seen.append(dict(event.extra))])
    scores = [extra["validation_score"] for extra in seen if "validation_score" in extra]
    assert len(scores) > 3
    assert scores == list(svm.report_.validation_scores.values())
    assert svm.report_.validation_score == max(scores) == macro_f1(svm, HELD_OUT.X, HELD_OUT.Y)
    assert max(scores[-3:]) <= max(scores[:-3])
    assert f"best score {max(scores):.6g}" in str(svm.report_)


def test_the_largest_value_of_the_scorer_wins_whatever_it_says():
    numbers = iter([0.0, 1.0, 5.0, *range(-1, -200, -1)])  # the first is of the check before training
    weights = []

    def made_up(svm, X, Y):
        weights.append(svm.coef_.copy())
        return next(numbers)

    svm = fit(scoring=made_up, patience=2)
    assert len(weights) == 5
    np.testing.assert_array_equal(svm.coef_, weights[2])


def test_names_of_scorers_work_where_predictions_are_single_classes_or_values(tmp_path):
    class One(Model):
        x = Input(3)
        y = Label("ab")
        score = Factor(y, features=x)
        loss = Hamming(y)

    rng = np.random.default_rng(0)
    X = list(rng.normal(size=(60, 3)))
    Y = ["ab"[int(x[0] + 0.5 * rng.normal() > 0)] for x in X]
    options = {"C": 10.0, "tol": 1e-6, "max_passes": 20, "patience": 2, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm = StructuredSVM(One, scoring="f1_macro", **options).fit(X[:30], Y[:30], validation=(X[30:], Y[30:]))
        values = [x[0] + 0.1 * rng.normal() for x in X]
        reg = StructuredRegressor(One, scoring="neg_mean_absolute_error", C=10.0, patience=2)
        reg.fit(X[:30], values[:30], Y[:30], validation=(X[30:], values[30:]))
    assert svm.report_.validation_score == f1_score(Y[30:], svm.predict(X[30:]), average="macro")
    assert reg.report_.validation_score == -np.abs(reg.predict(X[30:]) - values[30:]).mean()
    for scoring, kept in (("f1_macro", "f1_macro"), (macro_f1, None)):  # a function is not saved
        svm.set_params(scoring=scoring).save(tmp_path / "m.ssvm")
        again = StructuredSVM.load(tmp_path / "m.ssvm")
        assert again.scoring == kept
        assert again.report_.validation_score == svm.report_.validation_score


def test_scorers_that_cannot_be_used_are_refused():
    with pytest.raises(OptionError, match=r"scoring is None, a function .* or the name .*, got 'f7'"):
        fit(scoring="f7")
    with pytest.raises(OptionError, match=r"scoring='f1_macro' does not suit these labels .*give a function"):
        fit(scoring="f1_macro")
    for wrong in (np.nan, None, "good"):
        with pytest.raises(OptionError, match=f"scoring: a finite number, larger is better, got {wrong!r}"):
            fit(scoring=lambda svm, X, Y, wrong=wrong: wrong)
    with pytest.raises(ZeroDivisionError):
        fit(scoring=lambda svm, X, Y: 1 / 0)
    with pytest.raises(OptionError, match=r"scoring='f1_macro' is for fit.*validation"):
        fit(scoring="f1_macro", validation=None)
