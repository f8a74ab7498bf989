"""How many vectors of all weights a fit holds at once, where weights are most of what there is to hold."""

from __future__ import annotations

import gc
import tracemalloc
import warnings

import numpy as np
import pytest

from model_table import token_tagger
from ssvm_dsl import StructuredSVM

N_STATES, N_NAMES = 60, 8_400


#: Names that are hardly ever seen twice: 504000 weights, and few numbers besides.
Wide = token_tagger(N_STATES)


def wide_data():
    rng = np.random.default_rng(0)
    names = rng.permutation(N_NAMES).reshape(100, 4, -1)
    X = [[[f"n{k}" for k in token] + ["bias"] for token in example] for example in names]
    return X, list(rng.integers(N_STATES, size=(100, 4)))


#: Settings, and vectors at most: while training, and once it is over.
CASES = {
    "perceptron": ({"risk": "perceptron", "trainer": "perceptron", "max_passes": 4}, 4, 1),
    "perceptron, pa": ({"trainer": "perceptron", "max_passes": 4, "trainer_options": {"update": "pa"}}, 4, 1),
    "subgradient": ({"C": 0.1, "trainer": "subgradient", "max_passes": 12}, 7, 1),
    "subgradient, batch": (
        {"C": 0.1, "trainer": "subgradient", "max_passes": 6, "trainer_options": {"order": "batch"}}, 7, 1,
    ),
    "lbfgs": ({"risk": "log", "trainer": "lbfgs", "max_passes": 9, "trainer_options": {"memory": 2}}, 12, 1),
    "lbfgs, more": ({"risk": "log", "trainer": "lbfgs", "max_passes": 9, "trainer_options": {"memory": 5}}, 18, 1),
    "bcfw": ({"C": 0.1, "tol": 0.3}, 7, 1),
    "bcfw, no average": ({"C": 0.1, "tol": 0.3, "trainer_options": {"averaging": False}}, 5, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_vectors_of_all_weights(name):
    settings, most, left = CASES[name]
    gc.freeze()  # what other tests have left is not looked at again: half a second
    X, Y = wide_data()
    svm = StructuredSVM(Wide, n_threads=1, random_state=0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm.fit(X[:5], Y[:5])  # kernels and modules are loaded
        del svm.fitted_
        gc.collect()
        gc.disable()  # what only the collector could free would wait for it while the next fit takes its own
        tracemalloc.start()
        try:
            svm.fit(X, Y)
            held, peak = (size / svm.coef_.nbytes for size in tracemalloc.get_traced_memory())
        finally:
            tracemalloc.stop()
            gc.enable()
    assert len(svm.coef_) == (N_NAMES + 1) * N_STATES + N_STATES**2
    assert most - 1.0 < peak < most + 0.8
    assert held < left + 0.4
