"""Segments whose spans are no variables: long sequences beside a bare kernel, and the memory of one training pass.

20 000 positions, lengths to 100 and 8 classes: a prediction, from inputs to segments, beside a loop over the same
scores as arrays (sums of positions, a table of lengths, transitions, scores at the first position), which remembers the
lengths that were best.  100 000 positions, lengths to 1 000 and 24 classes: a fit of one pass in a process of its own,
and by how much it raises the peak of memory.  Seconds are CPU seconds of one thread, kernels were compiled before.
"""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from chunking_speed import peak
from numba import njit
from ocr_speed import CONSOLE, table

from ssvm_dsl import (
    Dim,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    SpanLength,
    StructuredSVM,
    chain,
    spans,
    starts,
)

#: Features of a position.
WIDTH = 8


def model(classes: int, longest: int) -> type[Model]:
    """Return segments scored by positions, first positions, lengths and transitions."""

    class Long(Model):
        T = Dim()
        x = Input(T, WIDTH)
        y = Label(T, classes, segments=longest)
        emit = Factor(y, features=x)
        first = Factor(starts(y), features=x)
        trans = Factor(chain(y))
        long = Factor(spans(y), features=SpanLength(spans(y)))
        loss = Hamming(y)

    return Long


@njit
def bare(sums, length, start, trans):  # type: ignore[no-untyped-def]
    """Return the best score, of arrays that hold what there is to add."""
    n, k = start.shape
    end, enter, back = np.full((n + 1, k), -np.inf), np.empty((n + 1, k)), np.zeros((n + 1, k), np.int32)
    enter[0] = start[0]
    for t in range(1, n + 1):
        for l in range(min(len(length), t)):
            for b in range(k):
                value = enter[t - l - 1, b] + length[l, b]
                if value > end[t, b]:
                    end[t, b], back[t, b] = value, l
        for b in range(k):
            end[t, b] += sums[t, b]
        if t < n:
            for b in range(k):
                enter[t, b] = (end[t] + trans[:, b]).max() + start[t, b] - sums[t, b]
    return end[n].max()


def cheapest(call: Callable[[], Any], times: int = 5) -> float:
    """Return the least CPU seconds of several calls."""
    found = []
    for _ in range(times):
        begin = time.process_time()
        call()
        found.append(time.process_time() - begin)
    return min(found)


def beside_a_bare_kernel(n: int = 20_000, longest: int = 100, k: int = 8) -> None:
    """Predict one long sequence."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, WIDTH))
    shapes = {"emit": (k, WIDTH), "first": (k, WIDTH), "trans": (k, k), "long": (k, longest)}
    w = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    svm = StructuredSVM.from_weights(model(k, longest), w)
    sums = np.concatenate([np.zeros((1, k)), np.cumsum(x @ w["emit"].T, axis=0)])
    given = sums, np.ascontiguousarray(w["long"].T), x @ w["first"].T, w["trans"]
    svm.predict([x]), bare(*given)
    before = peak()
    shown = table(f"{n} positions, lengths to {longest}, {k} classes", "", "CPU s")
    shown.add_row("bare kernel, given scores of positions", f"{cheapest(lambda: bare(*given)):.3f}")
    shown.add_row("predict, from inputs to segments", f"{cheapest(lambda: svm.predict([x])):.3f}")
    CONSOLE.print(shown, f"the peak of memory rose by {peak() - before:.0f} MB in five predictions")


def train(n: int = 100_000, longest: int = 1_000, k: int = 24) -> None:
    """Train one pass over one long sequence in this process."""
    warnings.simplefilter("ignore")
    rng, made = np.random.default_rng(0), model(k, longest)

    def sequence(n: int) -> tuple[Any, list[tuple[int, int, int]]]:
        found, start = [], 0
        while start < n:
            end = min(n, start + int(rng.integers(1, longest)))
            found.append((start, end, int(rng.integers(k))))
            start = end
        return rng.normal(size=(n, WIDTH)), found

    def fit(x: Any, y: Any) -> None:
        StructuredSVM(made, trainer="bcfw", max_passes=1, n_threads=1).fit([x], [y])

    fit(*sequence(300))  # loads the compiled kernels
    x, y = sequence(n)
    before, begin = peak(), time.process_time()
    fit(x, y)
    CONSOLE.print(
        f"{n} positions, lengths to {longest}, {k} classes: one pass and its certificate take "
        f"{time.process_time() - begin:.1f} CPU s and {peak() - before:.0f} MB more"
    )


def main() -> None:
    """Print both."""
    beside_a_bare_kernel()
    subprocess.run([sys.executable, __file__, "train"], check=True)


if __name__ == "__main__":
    train() if sys.argv[1:] else main()
