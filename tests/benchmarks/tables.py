"""``Classifier`` beside scikit-learn on tables: held-out accuracy and processor seconds, columns raw and scaled.

The mean over five draws of 30 % held-out rows; seconds are those of a fit, compiling apart.  The last table has rows
drawn from a linear model with noise, whose margin optimum is certified to a gap of 1e-3; liblinear is Crammer and
Singer's method, which minimises the same risk without a bias.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from ssvm_dsl.models import Classifier

DATA: dict[str, Callable[..., Any]] = {
    "digits": load_digits, "wine": load_wine, "cancer": load_breast_cancer, "iris": load_iris,
}  # fmt: skip

LEARNERS: dict[str, Callable[[], Any]] = {
    "Classifier": Classifier,
    "Classifier, margin, C = 1": lambda: Classifier(risk="margin", C=1.0),
    "Classifier, margin, C = 1, unscaled": lambda: Classifier(risk="margin", C=1.0, scale=False),
    "logistic regression": lambda: LogisticRegression(max_iter=10_000),
    "liblinear, Crammer-Singer, C = 1": lambda: LinearSVC(multi_class="crammer_singer", max_iter=10_000),
}

#: Draws of held-out rows, and their share.
DRAWS, SHARE = 5, 0.3


def fitted(make: Callable[[], Any], X: Any, y: Any) -> tuple[Any, float]:
    """Return the fitted learner, and its processor seconds."""
    begin = time.process_time()
    learner = make().fit(X, y)
    return learner, time.process_time() - begin


def held_out(make: Callable[[], Any], X: Any, y: Any, scaled: bool) -> tuple[float, float]:
    """Return the mean accuracy on held-out rows, and the mean seconds of a fit."""
    found = []
    for draw in range(DRAWS):
        order, n = np.random.default_rng(draw).permutation(len(y)), int(SHARE * len(y))
        test, train = order[:n], order[n:]
        rows = StandardScaler().fit(X[train]).transform(X) if scaled else X
        learner, seconds = fitted(make, rows[train], y[train])
        found.append((float((learner.predict(rows[test]) == y[test]).mean()), seconds))
    return tuple(np.mean(found, axis=0).tolist())


def noisy(n: int = 10_000, width: int = 100, k: int = 10, noise: float = 5.0) -> tuple[Any, Any]:
    """Return rows of numbers, and classes by a linear model with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, width))
    return X, (X @ rng.normal(size=(width, k)) + noise * rng.gumbel(size=(n, k))).argmax(axis=1)


def main() -> None:
    """Print both tables."""
    from rich.console import Console
    from rich.table import Table

    warnings.simplefilter("ignore")
    console = Console(width=130)
    with threadpool_limits(1, user_api="blas"):
        Classifier().fit(*load_iris(return_X_y=True))  # loads the compiled kernels
        Classifier(risk="margin", C=1.0).fit(*load_iris(return_X_y=True))
        shown = Table(title="accuracy on held-out rows, seconds of a fit", title_justify="left")
        shown.add_column("learner")
        columns = [(name, scaled) for name in DATA for scaled in (False, True)]
        for name, scaled in columns:
            shown.add_column(f"{name}, {'scaled' if scaled else 'raw'}")
        for learner, make in LEARNERS.items():
            cells = [held_out(make, *DATA[name](return_X_y=True), scaled) for name, scaled in columns]
            shown.add_row(learner, *(f"{accuracy:.3f}, {seconds:.2g} s" for accuracy, seconds in cells))
        console.print(shown)
        X, y = noisy()
        shown = Table("learner", "seconds", "accuracy", "gap", "passes", title="10 000 x 100, 10 classes, C = 1")
        for trainer in ("auto", "bcfw"):
            own = {"risk": "margin", "C": 1.0, "tol": 1e-3, "trainer": trainer, "n_threads": 1, "random_state": 0}
            made, seconds = fitted(lambda own=own: Classifier(**own), X, y)  # type: ignore[misc]
            report = made.report_
            cells = f"{seconds:.1f}", f"{made.score(X, y):.3f}", f"{report.relative_gap:.1e}", f"{report.n_passes:.0f}"
            shown.add_row(f"Classifier, margin, {report.trainer}", *cells)
        peers = {"logistic regression": LEARNERS["logistic regression"]}
        if os.environ.get("SSVM_BENCH_LONG", "") not in ("", "0"):
            peers["liblinear"] = LEARNERS["liblinear, Crammer-Singer, C = 1"]
        for name, make in peers.items():
            made, seconds = fitted(make, X, y)
            shown.add_row(name, f"{seconds:.1f}", f"{made.score(X, y):.3f}", "-", "-")
        console.print(shown)
