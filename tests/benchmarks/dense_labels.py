"""Many labels with weights for all pairs: what trains within a limit, and how good it is beside labels learnt alone.

``SSVM_BENCH_LABELS`` (default 45) says how many labels there are, ``SSVM_BENCH_SECONDS`` (default 25) the limit.
"""

from __future__ import annotations

import os
import warnings
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, complete

CONSOLE = Console(width=110)

#: Words of a text, those that tell labels apart, topics, and texts to learn from and to test on.
WORDS, TELLING, TOPICS, TEXTS = 1000, 60, 15, (333, 300)

#: What is set for each fit.
FITS: dict[str, dict[str, Any]] = {
    "auto": {},
    "guarantee='bound'": {"guarantee": "bound"},
    "risk='relaxed'": {"risk": "relaxed"},
    "backend='trws'": {"backend": "trws"},
    "backend='decompose'": {"backend": "decompose"},
}


def models(n_labels: int) -> tuple[type[Model], type[Model]]:
    """Return the model of labels alone, and that of labels with weights for all pairs."""

    class Alone(Model):
        K = Dim(n_labels)
        x = Input(WORDS)
        y = Label(K, 2)
        unary = Factor(y, features=x, per=K)
        bias = Factor(y, per=K)
        loss = Hamming(y)

    class Together(Alone):
        pair = Factor(complete(Alone.y), per="edge")

    return Alone, Together


def texts(n: int, n_labels: int, seed: int) -> tuple[list[Any], Any]:
    """Draw texts of a topic each, whose labels follow from the topic and from single words, with noise."""
    same, rng = np.random.default_rng(0), np.random.default_rng(seed)
    weight = 3.0 * same.normal(size=(TELLING, n_labels)) * (same.random((TELLING, n_labels)) < 0.15)
    usual = same.random((TOPICS, n_labels)) < 0.08
    x, topic = (rng.random((n, WORDS)) < 0.03).astype(float), rng.integers(TOPICS, size=n)
    x[np.arange(n), 100 + topic] = 1.0
    x[np.arange(n), 200 + 3 * topic] = rng.random(n) < 0.6
    of_words = (x[:, :TELLING] @ weight > 2.5) & (rng.random((n, n_labels)) < 0.7)
    return list(x), ((usual[topic] & (rng.random((n, n_labels)) < 0.9)) | of_words).astype(int)


def main() -> None:
    """Print the table."""
    n_labels = int(os.environ.get("SSVM_BENCH_LABELS", "45"))
    limit = float(os.environ.get("SSVM_BENCH_SECONDS", "25"))
    alone, together = models(n_labels)
    (X, Y), (X_test, truth) = (texts(n, n_labels, seed) for seed, n in enumerate(TEXTS, 1))
    table = Table("fit", "backend", "ended by", "gap", "F1", "passes", "processor s")
    for name, model, options in [("alone", alone, {}), *((name, together, one) for name, one in FITS.items())]:
        begin = process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            svm = StructuredSVM(model, C=0.3, tol=0.01, max_seconds=limit, random_state=0, **options).fit(X, list(Y))
            took, report = process_time() - begin, svm.report_
            svm.set_params(guarantee="bound", risk="margin", backend="auto" if model is alone else "trws")
            found = np.array(svm.predict(X_test))
        f1 = 2.0 * (found * truth).sum() / max(found.sum() + truth.sum(), 1)
        facts = (report.reason, f"{report.relative_gap:.2g}", f"{f1:.2f}", f"{report.n_passes:.1f}", f"{took:.1f}")
        table.add_row(name, report.plan.backend, *facts)
    CONSOLE.print(table)
