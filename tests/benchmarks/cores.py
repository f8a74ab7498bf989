"""Fits on one thread and on all: wall seconds, processors in use, and whether the weights are the same bit by bit.

A wall clock says something on an idle machine only; processors in use (processor seconds over wall seconds) are fewer
than there are threads where others work, too.  ``SSVM_BENCH_ROUNDS`` (default 3) says how often each fit is run, in
turn; the shortest run counts.  The chunks need ``SSVM_DATA``.  ``SSVM_BENCH_FITS=letters`` picks rows by what their
names have.

``bcfw`` uses several threads with ``parallel=`` only, so that there one thread does what it does without, and the
weights of ``parallel=`` on all threads are compared with those of ``parallel=`` on one thread.  Training leaves out
what a fit does before, the features of CoNLL-2000 above all.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from models import OCR, split_b
from ocr_speed import CONSOLE, table

from ssvm_dsl import Attributes, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain, processors
from ssvm_dsl.datasets import CHUNK_TAGS, chunk_attributes, load_conll2000

#: A fit: model, inputs, labels, and parameters of the estimator.
Task = tuple[Any, Any, Any, dict[str, Any]]

STATES = 60


class Long(Model):
    """Chains of many states: a pass over 1000 of them is a second of work."""

    T = Dim()
    x = Input(T, 20)
    y = Label(T, STATES)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


class Chunks(Model):
    """CoNLL-2000 with the features of CRFsuite's tutorial."""

    T = Dim()
    words = Attributes(T)
    y = Label(T, CHUNK_TAGS)
    emit = Factor(y, features=words, weights="observed")
    trans = Factor(chain(y))
    loss = Hamming(y)


def chains(**options: Any) -> Task:
    """Return a fit of 1000 chains of length 200."""
    rng = np.random.default_rng(0)
    Y = [rng.integers(STATES, size=200) for _ in range(1000)]
    centres = rng.normal(size=(STATES, 20))
    return Long, [centres[y] + rng.normal(size=(200, 20)) for y in Y], Y, {"C": 0.1, "tol": 0.0, **options}


def letters(**options: Any) -> Task:
    """Return a fit of the 6173 words of split (b)."""
    data = split_b()
    return OCR, data.X_train, data.Y_train, {"C": 0.1, **options}


def chunks(**options: Any) -> Task:
    """Return a fit of CoNLL-2000."""
    data = load_conll2000()
    X = [chunk_attributes(sentence.words, sentence.pos) for sentence in data.train]
    return Chunks, X, [sentence.chunks for sentence in data.train], {"C": 0.1, **options}


FITS: dict[str, Callable[[], Task]] = {
    "one-slack, long chains, 3 passes": partial(chains, trainer="one-slack", max_passes=3),
    "lbfgs, log-loss, long chains, 3 passes": partial(chains, trainer="lbfgs", risk="log", max_passes=3),
    "bcfw, long chains, 3 passes": partial(chains, max_passes=3),
    "lbfgs, log-loss, letters, 30 passes": partial(letters, trainer="lbfgs", risk="log", tol=0.0, max_passes=30),
    "bcfw, letters, to 1e-3": partial(letters, tol=1e-3, trainer="bcfw"),
    "bcfw, chunks, to 20 % (F1 .935)": partial(chunks, tol=0.2, trainer="bcfw"),
}


class Run(NamedTuple):
    """Wall seconds, those of training, processor seconds, and the weights."""

    wall: float
    training: float
    processor: float
    weights: np.ndarray


def run(task: Task, n_threads: int, **more: Any) -> Run:
    """Fit once."""
    model, X, Y, options = task
    begin = time.perf_counter(), time.process_time()
    svm = StructuredSVM(model, n_threads=n_threads, random_state=0, **options, **more).fit(X, Y)
    wall, processor = time.perf_counter() - begin[0], time.process_time() - begin[1]
    return Run(wall, svm.report_.seconds, processor, svm.coef_)


def main() -> None:
    """Compare."""
    rounds, n = int(os.environ.get("SSVM_BENCH_ROUNDS", "3")), processors.available()
    title = f"1 and {n} threads, shortest of {rounds} runs"
    shown = table(title, "fit", "1, s", f"{n}, s", "faster", "training", "in use", "bitwise")
    warnings.simplefilter("ignore")
    for name, make in FITS.items():
        without_data = make.func is chunks and not os.environ.get("SSVM_DATA")
        if without_data or os.environ.get("SSVM_BENCH_FITS", "") not in name:
            continue
        task = make()
        more = {"trainer_options": {"parallel": 2}} if name.startswith("bcfw") else {}
        pairs = [(run(task, 1), run(task, n, **more)) for _ in range(rounds + 1)][1:]
        one, many = (min((pair[side] for pair in pairs), key=lambda found: found.wall) for side in (0, 1))
        alone = run(task, 1, **more).weights
        same = all(np.array_equal(alone, pair[1].weights) for pair in pairs)
        shown.add_row(
            name, f"{one.wall:.2f}", f"{many.wall:.2f}", f"{one.wall / many.wall:.2f}",
            f"{one.training / many.training:.2f}", f"{many.processor / many.wall:.2f}", "same" if same else "DIFFERENT",
        )  # fmt: skip
    CONSOLE.print(shown)


if __name__ == "__main__":
    main()
