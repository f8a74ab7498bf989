"""Batches, growing steps and partial averages of ``perceptron``; offsets and momentum of ``subgradient``: by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from ssvm_dsl import Factor, Hamming, Input, Label, Model, StructuredSVM
from ssvm_dsl.errors import OptionError, TrainingError


class Signs(Model):
    x = Input(3)
    y = Label([1, -1])
    score = Factor(y, features=x, form=[[0.5, -0.5]])
    loss = Hamming(y)


X = np.array([[a, b, 1.0] for a in (-1, 1) for b in (-1, 1)])
Y = np.array([-1, 1, 1, -1])


def perceptron(n_passes, **options):
    options = {"order": "incremental", **options}
    svm = StructuredSVM(Signs, trainer="perceptron", risk="perceptron", max_passes=n_passes, trainer_options=options)
    return svm.fit(list(X), Y.tolist()).coef_


def met(n_passes, factor):
    """Return the weights after each example."""
    w, seen = np.zeros(3), []
    for p in range(n_passes):
        for x, y in zip(X, Y, strict=True):
            if (1 if w @ x >= 0 else -1) != y:
                w = w + factor(p) * y * x
            seen.append(w)
    return np.array(seen)


def test_steps_grow_with_the_passes():
    seen = met(3, lambda p: (p + 2.0) ** 0.5)
    assert perceptron(3, growth=0.5, offset=2.0, averaging=False) == pytest.approx(seen[-1])
    assert perceptron(3, growth=0.5, offset=2.0) == pytest.approx(seen.mean(axis=0))


def test_averages_begin_at_a_pass():
    seen = met(4, lambda p: 1.0)
    for first, kept in ((0, seen), (1, seen[4:]), (3, seen[12:]), (-1, seen[12:])):
        assert perceptron(4, average_from=first) == pytest.approx(kept.mean(axis=0))


def test_a_batch_is_one_step():
    w, seen = np.zeros(3), []
    for _ in range(3):
        wrong = np.where(X @ w >= 0, 1, -1) != Y
        w = w + (Y * wrong) @ X
        seen.append(w)
    assert perceptron(3, order="batch", averaging=False) == pytest.approx(w)
    assert perceptron(3, order="batch") == pytest.approx(np.mean(seen, axis=0))
    with pytest.raises(TrainingError, match="'arow' looks at one example"):
        StructuredSVM(Signs, trainer="perceptron", trainer_options={"order": "batch", "update": "arow"}).fit(X, Y)


@pytest.mark.parametrize("momentum", [0.0, 0.4])
def test_subgradient_steps(momentum):
    options = {
        "order": "incremental", "averaging": "none", "best_iterate": False, "schedule": "1/t", "step_size": 0.5,
        "offset": 3.0, "momentum": momentum, "evaluate_every": 100,
    }  # fmt: skip
    w, velocity, t, lam = np.zeros(3), np.zeros(3), 0, 1.0 / (2.0 * 4)
    for _ in range(2):
        for x, y in zip(X, Y, strict=True):
            slope = lam * w - (y * x if 1 - y * (w @ x) > 0 else 0.0)
            velocity, t = (1 - momentum) * slope + momentum * velocity, t + 1
            w = w - 0.5 / (t + 3.0) * velocity
    svm = StructuredSVM(Signs, C=2.0, tol=1e-15, max_passes=3, trainer="subgradient", trainer_options=options)
    with pytest.warns(ConvergenceWarning):
        assert svm.fit(list(X), Y.tolist()).coef_ == pytest.approx(w)


def test_momentum_that_has_no_meaning_is_refused():
    for options, kind in (({"momentum": 1.0}, OptionError), ({"momentum": 0.5, "metric": "newton"}, OptionError)):
        with pytest.raises(kind, match="momentum"):
            StructuredSVM(Signs, trainer="subgradient", trainer_options=options).fit(X, Y)
    options = {"momentum": 0.5, "schedule": "distance"}
    with pytest.raises(TrainingError, match="'distance' has none"):
        StructuredSVM(Signs, trainer="subgradient", trainer_options=options).fit(X, Y)
