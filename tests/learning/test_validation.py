"""Early stopping by the score on held-out examples."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import small
from small import Case

from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.learning.validation import Validation

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
    stops = [validation.enough(np.array([float(k)]), n) for k, n in enumerate((0.5, 1.0, 1.2, 2.3, 3.0, 4.0))]
    assert stops == [False, False, False, False, False, True]
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


def test_validation_data_are_checked_first():
    with pytest.raises(DataError, match="label 'y'"):
        fit(validation=(HELD_OUT.X, [["?"] * len(y) for y in HELD_OUT.Y]))
    with pytest.raises(OptionError, match="patience"):
        fit(patience=0)
    with pytest.raises(OptionError, match="checkpoint"):
        fit(checkpoint="somewhere")
