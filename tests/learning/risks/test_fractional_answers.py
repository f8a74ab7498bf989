"""A labelling that does not exist is never shown as one, whoever asks for it and whatever stood in its way."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, complete
from ssvm_dsl.errors import NoLabellingError


class Triangle(Model):
    """Three labels, each pair with weights of its own: frustrated ones have fractional relaxations."""

    K = Dim(3)
    x = Input(2)
    y = Label(K, 2)
    own = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    loss = Hamming(y)


X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
Y = [np.array([0, 1, 1]), np.array([1, 0, 0]), np.array([0, 1, 1]), np.array([0, 1, 0])]


def frustrated(backend, **options):
    """Return a model whose pairs all want to differ; the second feature settles who is who."""
    svm = StructuredSVM(Triangle, C=0.1, backend=backend, backend_options=options, max_passes=1, tol=0.5).fit(X, Y)
    own, pair = np.zeros((3, 2, 2)), np.tile([[0.0, 2.0], [2.0, 0.0]], (3, 1, 1))
    own[:, :, 1] = 3.0 * np.array([[1, -1], [-1, 1], [-1, 1]])
    svm.coef_ = np.concatenate([own.ravel(), pair.ravel()])
    return svm


ASKED = {
    "predict": lambda svm: svm.predict(X),
    "score": lambda svm: svm.score(X, Y),
    "best_score": lambda svm: svm.best_score(X),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize(("backend", "off"), [("lp", {"rounding": "none"}), ("qpbo", {"rest": "none"})])
def test_without_rounding_one_error_names_the_examples(ask, backend, off):
    with pytest.raises(NoLabellingError) as caught:
        ask(frustrated(backend, **off))
    text = str(caught.value)
    assert f"backend '{backend}' has no labelling for 2 of 4 examples (numbers 0, 2)" in text
    assert f"leave out the option {next(iter(off))}='none'" in text


@pytest.mark.parametrize("backend", ["lp", "qpbo"])
def test_by_default_there_are_labellings_with_their_own_scores_and_the_plan_says_how(backend):
    svm = frustrated(backend)
    found = svm.predict(X)
    np.testing.assert_allclose(svm.best_score(X), svm.best_score(X, found))
    best = StructuredSVM(Triangle, C=0.1, max_passes=1, tol=0.5).fit(X, Y)
    best.coef_ = svm.coef_
    assert (svm.best_score(X) <= best.best_score(X) + 1e-9).all()
    assert len(set(found[0].tolist())) == 2  # all zero is what nobody found
    assert ("rounding='conditional'" if backend == "lp" else "rest='icm'") in str(svm.report_)


def test_numbers_are_those_of_the_whole_list(monkeypatch):
    monkeypatch.setattr("ssvm_dsl.learning.estimators.structured.CHUNK", 2)
    svm = frustrated("lp", rounding="none")
    with pytest.raises(NoLabellingError, match=r"1 of 4 examples \(number 3\)"):
        svm.predict([X[1], X[1], X[1], X[0]])


def test_training_on_a_relaxation_learns_from_its_rounded_answers():
    """Fractional answers give no planes of labellings: with rounding there is one for every example."""
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(12, 2)), [rng.integers(2, size=3) for _ in range(12)]
    exact = StructuredSVM(Triangle, C=1.0, tol=1e-3, random_state=0).fit(A, B)
    relaxed = StructuredSVM(Triangle, C=1.0, tol=1e-3, random_state=0, backend="lp", max_passes=50).fit(A, B)
    assert relaxed.report_.certified
    assert relaxed.report_.primal >= exact.report_.dual
    assert relaxed.report_.dual <= exact.report_.primal + 1e-9
