"""Data ten times as large as a cap on memory: ``stream`` and workers train to the certified gap below the cap.

    python tests/benchmarks/larger_than_memory.py                    stream; some minutes
    python tests/benchmarks/larger_than_memory.py --executor processes
    python tests/benchmarks/larger_than_memory.py --executor dask    in an environment with ssvm-dask
    python tests/benchmarks/larger_than_memory.py --cap 400 --times 10

Each process that reads data has the cap as its limit of private memory (``RLIMIT_DATA``, what ``ulimit -d`` sets): more
is an error of allocation.  Examples are made where they are read; their size is that of their arrays of floats.  The
peak is the largest resident set of a process (``ru_maxrss``), libraries included.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from pathlib import Path
from time import process_time
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from rich.console import Console

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, PartitionedDataset, StructuredSVM, chain

#: Features of a position, positions of an example, classes.
WIDTH, LENGTH, CLASSES = 200, 20, 5

#: Bytes of an example, and of a part.
EXAMPLE, PART = 8 * WIDTH * LENGTH, 10_000_000

#: Where workers find the cap, in MB, and write the peak of each.
CAP, PEAKS = "SSVM_BENCHMARK_CAP", "SSVM_BENCHMARK_PEAKS"


class Tagger(Model):
    """Sequences with many features."""

    T = Dim()
    x = Input(T, WIDTH)
    y = Label(T, CLASSES)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


def sentences(start: int, stop: int) -> Any:
    """Yield the examples of a range: rows of a table in different orders, and labels by their largest features."""
    limit_memory()
    table = np.random.default_rng(0).normal(size=(1000, WIDTH))
    labels = table[:, :CLASSES].argmax(axis=1)
    for number in range(start, stop):
        rows = (number * 7 + np.arange(LENGTH) * (1 + number % 11)) % len(table)
        yield table[rows], labels[rows]
    Path(os.environ[PEAKS], str(os.getpid())).write_text(str(peak()))


def limit_memory() -> None:
    """Let this process have no more private memory than the cap."""
    cap = int(os.environ[CAP]) * 10**6
    resource.setrlimit(resource.RLIMIT_DATA, (cap, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def peak() -> float:
    """Return the largest resident set of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    """Train, and print what it took."""
    from tempfile import TemporaryDirectory

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--executor", choices=("stream", "processes", "dask"), default="stream")
    parser.add_argument("--cap", type=int, default=400, help="MB for each process")
    parser.add_argument("--times", type=float, default=10.0, help="size of the data, in caps")
    parser.add_argument("--tol", type=float, default=0.01)
    asked, _ = parser.parse_known_args()
    size = asked.times * asked.cap * 1e6
    n, n_parts = int(size / EXAMPLE), int(np.ceil(size / PART))
    options: dict[str, Any] = {} if asked.executor == "stream" else {"workers": 2, "open": 1}
    fit = {"risk": "log", "trainer": "lbfgs", "lam": 0.1, "tol": asked.tol, "executor": asked.executor}
    with TemporaryDirectory() as folder:
        os.environ |= {CAP: str(asked.cap), PEAKS: folder}
        data = PartitionedDataset.generated(sentences, n, n_parts)
        svm = StructuredSVM(Tagger, **fit, executor_options=options, verbose=True).fit(data)
        peaks = [float(file.read_text()) for file in Path(folder).iterdir()]
    report, most = svm.report_, max(*peaks, peak())
    text = f"{asked.executor}: {n} examples in {n_parts} parts, {n * EXAMPLE / 1e6:.0f} MB; cap {asked.cap} MB"
    console = Console(soft_wrap=True)
    console.print(f"{text}: relative gap {report.relative_gap:.1e}, certified {report.certified}", highlight=False)
    console.print(
        f"{report.n_passes:.0f} passes, {report.seconds:.0f} s ({process_time():.0f} s of this process); peaks of "
        f"{len(peaks)} processes that read {', '.join(f'{one:.0f}' for one in peaks)} MB, of this one {peak():.0f} MB",
        highlight=False,
    )
    if not (report.converged and report.certified and most <= asked.cap):
        sys.exit(1)


if __name__ == "__main__":
    main()
