"""Workloads on the OCR letters that one process runs when told to: what ``against`` compares between two checkouts.

Only the public interface is used, so that any version of the package can run them.  Names come in by lines; the
processor seconds of one run go out by lines.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from functools import cache, partial

from models import OCR, NormalizedOCR, split_b
from threadpoolctl import threadpool_limits

from ssvm_dsl import StructuredSVM
from ssvm_dsl.datasets import Split, load_letters

EXACT = {"sampling": "uniform", "max_cached_passes": 0}


@cache
def small() -> Split:
    """Return split (a): 704 training words."""
    return load_letters(fold=1)


@cache
def trained() -> StructuredSVM:
    """Return an estimator to predict with."""
    return StructuredSVM(OCR, C=0.1, tol=0.5, n_threads=1, random_state=0).fit(small().X_train, small().Y_train)


def fit(data: Callable[[], Split], model: type = OCR, **options: object) -> None:
    """Train."""
    svm = StructuredSVM(model, n_threads=1, random_state=0, **options)  # type: ignore[arg-type]
    svm.fit(data().X_train, data().Y_train)


def predict(n: int) -> None:
    """Predict words together."""
    trained().predict(split_b().X_train[:n])


def predict_each(n: int) -> None:
    """Predict words one by one."""
    for x in split_b().X_train[:n]:
        trained().predict([x])


WORKLOADS: dict[str, Callable[[], None]] = {
    "bcfw, 6173 words to 1e-2": partial(fit, split_b, C=0.1, tol=1e-2),
    "bcfw, 6173 words to 1e-3": partial(fit, split_b, C=0.1, tol=1e-3),
    "bcfw, normalised, to 1e-2": partial(fit, split_b, NormalizedOCR, lam=0.01, tol=1e-2),
    "bcfw, 5 exact passes": partial(fit, split_b, C=0.1, tol=0.0, max_passes=5, trainer_options=EXACT),
    "bcfw, 704 words to 1e-3": partial(fit, small, C=0.1, tol=1e-3),
    "subgradient, 5 passes": partial(fit, split_b, C=0.1, tol=0.0, max_passes=5, trainer="subgradient"),
    "perceptron, 5 passes": partial(fit, split_b, max_passes=5, trainer="perceptron", risk="perceptron"),
    "one-slack, 704 words, 30 passes": partial(fit, small, C=0.1, tol=0.0, max_passes=30, trainer="one-slack"),
    "log-loss, 704 words": partial(fit, small, C=0.5, risk="log", trainer="lbfgs", tol=1e-3),
    "log-loss, 6173 words, 30 passes": partial(
        fit, split_b, C=0.5, risk="log", trainer="lbfgs", tol=0.0, max_passes=30
    ),
    "predict 6173 words": partial(predict, 6173),
    "predict 300 words one by one": partial(predict_each, 300),
}


def main() -> None:
    """Run what is asked for."""
    warnings.simplefilter("ignore")
    with threadpool_limits(1, user_api="blas"):
        for name in map(str.strip, sys.stdin):
            begin = time.process_time()
            WORKLOADS[name]()
            print(time.process_time() - begin, flush=True)


if __name__ == "__main__":
    main()
