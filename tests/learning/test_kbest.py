"""More labellings asked for than there are, or than fit."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.errors import OptionError, TooLargeError


class Word(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(t, 3)) for t in (2, 4, 3)]
    return StructuredSVM(Word, max_passes=5, random_state=0).fit(X, [rng.integers(0, 3, size=len(x)) for x in X])


@pytest.mark.parametrize("backend", ["chain", "junction-tree"])
@pytest.mark.parametrize("k", [7, 80, 81, 82, 10**9])
def test_all_labellings_and_no_more(fitted, backend, k):
    rng = np.random.default_rng(k)
    X = [rng.normal(size=(t, 3)) for t in (4, 1, 3)]
    for x, ranked in zip(X, fitted.set_params(backend=backend).predict_kbest(X, k), strict=True):
        every = list(product(range(3), repeat=len(x)))
        best = np.sort(fitted.decision_function([x] * len(every), every))[::-1]
        assert len({tuple(labels) for labels, _ in ranked}) == len(ranked) == min(k, len(every))
        np.testing.assert_allclose([score for _, score in ranked], best[:k], atol=1e-9)


@pytest.mark.parametrize("backend", ["chain", "junction-tree"])
def test_lists_that_do_not_fit_are_refused(fitted, backend):
    x = np.zeros((60, 3))
    fitted.set_params(backend=backend)
    with pytest.raises(TooLargeError, match=r"the \d+ best labellings of 60 variables .* ask for at most (\d+)"):
        fitted.predict_kbest([x], 10**9)
    assert len(fitted.predict_kbest([x], 20)[0]) == 20
    for k in (0, -1, 1.5, "2"):
        with pytest.raises(OptionError, match="k is a positive int"):
            fitted.predict_kbest([x], k)
