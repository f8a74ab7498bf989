"""Fits on one thread and on more: seconds, what threads share, and whether the weights are the same bit by bit.

    make bench ARGS=cores
    SSVM_BENCH_THREADS="1 2 4 8 16" SSVM_BENCH_SIZE=0.5 SSVM_BENCH_FITS=bcfw make bench ARGS=cores

A wall clock says something on an idle machine only: *faster* (the fit) and *training* are ratios of wall seconds to
those of one thread.  *serial* and *possible* come from processor seconds of the same fit on one thread
(:mod:`shared_work`): the share of training outside of what threads share, and how many times as fast as one thread
training could be on as many idle processors.  ``bcfw`` visits as many groups side by side as there are threads
(``parallel=``), beside the plain ``bcfw`` of one thread: *possible* includes the passes that this takes more.

``SSVM_BENCH_ROUNDS`` (default 3) says how often each fit is run; the shortest run counts.  ``SSVM_BENCH_SIZE`` is the
share of the data to be used; ``SSVM_BENCH_FITS=letters`` picks rows by what their names have.  The chunks need
``SSVM_DATA``.  Training leaves out what a fit does before, the features of CoNLL-2000 above all.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from models import OCR, split_b
from rich.console import Console
from shared_work import SharedWork, measured

from model_table import tagger, token_tagger
from ssvm_dsl import StructuredSVM, processors
from ssvm_dsl.datasets import CHUNK_TAGS, chunk_attributes, load_conll2000

CONSOLE = Console(width=110)

#: A fit: model, inputs, labels, and parameters of the estimator.
Task = tuple[Any, Any, Any, dict[str, Any]]

STATES = 60

#: Columns of the table, and their widths.
COLUMNS = {
    "fit": 40, "threads": 8, "s": 7, "faster": 7, "training": 9, "serial": 7, "possible": 9, "bitwise": 10,
}  # fmt: skip

#: Share of the data to be used.
SIZE = float(os.environ.get("SSVM_BENCH_SIZE", "1"))


#: Chains of many states: a pass over 1000 of them is a second of work.
Long = tagger(20, STATES)
#: CoNLL-2000 with the features of CRFsuite's tutorial.
Chunks = token_tagger(CHUNK_TAGS, "observed")


def chains(**options: Any) -> Task:
    """Return a fit of 1000 chains of length 200."""
    rng = np.random.default_rng(0)
    Y = [rng.integers(STATES, size=200) for _ in range(int(1000 * SIZE))]
    centres = rng.normal(size=(STATES, 20))
    return Long, [centres[y] + rng.normal(size=(200, 20)) for y in Y], Y, {"C": 0.1, "tol": 0.0, **options}


def letters(**options: Any) -> Task:
    """Return a fit of the 6173 words of split (b)."""
    data = split_b()
    n = int(SIZE * len(data.X_train))
    return OCR, data.X_train[:n], data.Y_train[:n], {"C": 0.1, **options}


def chunks(**options: Any) -> Task:
    """Return a fit of CoNLL-2000."""
    data = load_conll2000()
    X = [chunk_attributes(sentence.words, sentence.pos) for sentence in data.train[: int(SIZE * len(data.train))]]
    return Chunks, X, [sentence.chunks for sentence in data.train[: len(X)]], {"C": 0.1, **options}


FITS: dict[str, Callable[[], Task]] = {
    "one-slack, long chains, 3 passes": partial(chains, trainer="one-slack", max_passes=3),
    "lbfgs, log-loss, long chains, 3 passes": partial(chains, trainer="lbfgs", risk="log", max_passes=3),
    "bcfw, long chains, 3 passes": partial(chains, max_passes=3),
    "lbfgs, log-loss, letters, 30 passes": partial(letters, trainer="lbfgs", risk="log", tol=0.0, max_passes=30),
    "bcfw, letters, to 1e-3": partial(letters, tol=1e-3, trainer="bcfw"),
    "bcfw, chunks, to 20 % (F1 .935)": partial(chunks, tol=0.2, trainer="bcfw"),
}


class Run(NamedTuple):
    """Wall seconds, those of training, processor seconds of training apart, and the weights."""

    wall: float
    training: float
    work: SharedWork
    weights: np.ndarray


def run(task: Task, n_threads: int, **more: Any) -> Run:
    """Fit once."""
    model, X, Y, options = task
    begin = time.perf_counter()
    with measured() as work:
        svm = StructuredSVM(model, n_threads=n_threads, random_state=0, **options, **more).fit(X, Y)
    return Run(time.perf_counter() - begin, svm.report_.seconds, work, svm.coef_)


def shortest(runs: Sequence[Run]) -> Run:
    """Return the run whose training took the least time, with the least processor time of any."""
    best = min(runs, key=lambda one: one.training)
    return best._replace(work=min((one.work for one in runs), key=lambda work: work.training))


def rows(name: str, task: Task, counts: Sequence[int], rounds: int) -> Iterator[list[str]]:
    """Yield the cells of a row for each number of threads."""
    grouped = name.startswith("bcfw")
    how = {k: {"trainer_options": {"parallel": k}} if grouped and k > 1 else {} for k in counts}
    run(task, max(counts), **how[max(counts)])  # compiles
    one = shortest([run(task, 1) for _ in range(rounds)])
    for k in counts:
        alone = shortest([run(task, 1, **how[k]) for _ in range(rounds)]) if grouped and k > 1 else one
        runs = [run(task, k, **how[k]) for _ in range(rounds)] if k > 1 else [one]
        best, same = shortest(runs), all(np.array_equal(alone.weights, other.weights) for other in runs)
        yield [
            name, str(k), f"{best.wall:.2f}", f"{one.wall / best.wall:.2f}", f"{one.training / best.training:.2f}",
            f"{alone.work.serial / alone.work.training:.3f}", f"{one.work.training / alone.work.path(k):.2f}",
            "same" if same else "DIFFERENT",
        ]  # fmt: skip


def main() -> None:
    """Compare."""
    rounds, n = int(os.environ.get("SSVM_BENCH_ROUNDS", "3")), processors.available()
    counts = [int(one) for one in os.environ.get("SSVM_BENCH_THREADS", f"1 {max(n, 2)}").split()]
    CONSOLE.print(f"on {n} processors, shortest of {rounds} runs")
    CONSOLE.print("".join(one.rjust(width) for one, width in COLUMNS.items()))
    warnings.simplefilter("ignore")
    for name, make in FITS.items():
        without_data = make.func is chunks and not os.environ.get("SSVM_DATA")
        if without_data or os.environ.get("SSVM_BENCH_FITS", "") not in name:
            continue
        for cells in rows(name, make(), counts, rounds):
            CONSOLE.print("".join(map(str.rjust, cells, COLUMNS.values())), highlight=False)
