"""Of every structure, a small example: the prediction is the best of all its labellings, and Y keeps the structure."""

from __future__ import annotations

import numpy as np
import pytest

from model_table import STRUCTURES, weighted

#: Not those of 2^40 labellings, or with states that are maximised over.
SMALL = [name for name in STRUCTURES if name not in ("labels", "latent")]


@pytest.mark.parametrize("name", SMALL)
def test_the_prediction_is_the_best_of_all_labellings(name):
    structure, rng = STRUCTURES[name], np.random.default_rng(7)
    svm = weighted(structure, rng)
    (x,), (truth,) = structure.data(1, seed=1)
    every = list(structure.labellings(x))
    scores = svm.best_score([x] * len(every), every)
    (predicted,) = svm.predict([x])
    assert structure.keeps(x, predicted)
    assert svm.best_score([x])[0] == pytest.approx(scores.max())
    assert svm.best_score([x], [predicted])[0] == pytest.approx(scores.max())
    assert svm.best_score([x], [truth])[0] <= scores.max() + 1e-9
