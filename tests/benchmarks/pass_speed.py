"""Passes of the oracle over long chains, a second each: one thread or worker beside two, in every executor.

    make bench ARGS=passes
    SSVM_BENCH_WORKERS="1 2 4 8" make bench ARGS=passes

What a pass takes is the median of the times between the events of a fit, over the passes between them: starting
workers, reading and compiling are left out.  *faster* is a ratio of wall seconds, which says something on an idle
machine only.
``dask`` is measured where the package ssvm-dask is installed.
"""

from __future__ import annotations

import os
import time
import warnings
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
from rich.console import Console

from model_table import tagger
from ssvm_dsl import StructuredSVM

CONSOLE = Console(width=110)

STATES, LENGTH, EXAMPLES = 100, 200, 1000

#: Passes of a fit.
PASSES = 10


#: Chains of many states.
Long = tagger(20, STATES)


def data() -> tuple[list[Any], list[Any]]:
    """Return noisy sequences."""
    rng = np.random.default_rng(0)
    Y = [rng.integers(STATES, size=LENGTH) for _ in range(EXAMPLES)]
    centres = rng.normal(size=(STATES, 20))
    return [centres[y] + rng.normal(size=(LENGTH, 20)) for y in Y], Y


def settings(executor: str, workers: int) -> dict[str, Any]:
    """Return the parameters of an estimator with so many workers."""
    if executor == "threads":
        return {"n_threads": workers}
    options = {"workers": workers} | ({} if executor == "dask" else {"shards": 8})
    return {"n_threads": 1, "executor": executor, "executor_options": options}


def pass_seconds(X: list[Any], Y: list[Any], executor: str, workers: int) -> tuple[float, np.ndarray]:
    """Return the wall seconds of one pass, and the weights that the fit came to."""
    ticks: list[tuple[float, float]] = []
    svm = StructuredSVM(
        Long, C=0.1, tol=0.0, risk="log", trainer="lbfgs", max_passes=PASSES,
        callbacks=[lambda event: ticks.append((time.perf_counter(), event.n_passes))], **settings(executor, workers),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm.fit(X, Y)
    steps = [(b[0] - a[0]) / (b[1] - a[1]) for a, b in pairwise(ticks) if b[1] > a[1]]
    return float(np.median(steps)), svm.coef_


def main() -> None:
    """Measure all executors."""
    X, Y = data()
    counts = [int(word) for word in os.environ.get("SSVM_BENCH_WORKERS", "1 2").split()]
    executors = ["threads", "processes", *(["dask"] if find_spec("ssvm_dask") else [])]
    CONSOLE.print(f"{EXAMPLES} chains of {LENGTH} positions, {STATES} states; goals: 1.7 in threads, 1.6 elsewhere")
    CONSOLE.print(f"{'executor':12} {'workers':>8} {'s a pass':>9} {'faster':>7} {'weights':>12}")
    pass_seconds(X[:50], Y[:50], "threads", 1)  # compiles
    for executor in executors:
        first = None
        for workers in counts:
            seconds, weights = pass_seconds(X, Y, executor, workers)
            first = first or (seconds, weights)
            same = "same bits" if np.array_equal(weights, first[1]) else f"{np.abs(weights - first[1]).max():.1e} off"
            CONSOLE.print(f"{executor:12} {workers:8} {seconds:9.2f} {first[0] / seconds:7.2f} {same:>12}")
