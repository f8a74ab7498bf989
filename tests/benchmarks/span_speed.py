"""Segments whose spans are no variables: long sequences beside a bare kernel, and the memory of one training pass.

20 000 positions, lengths to 100 and 8 classes: a prediction, from inputs to segments, beside a loop over the same
scores as arrays (sums of positions, a table of lengths, transitions, scores at the first position), which remembers the
lengths that were best.  100 000 positions, lengths to 1 000 and 24 classes: a fit of one pass in a process of its own,
and by how much it raises the peak of memory; and its marginals.  2 000 positions, lengths to 50 and 8 classes: log Z
beside flash-semicrf, where ``SSVM_BENCH_SEMICRF`` names a Python that has it.  Spans with features: the same sequence
with and without them as variables; and 32 features a span, kept and in slices.  Seconds are CPU seconds of one thread,
kernels were compiled before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from chunking_speed import peak
from numba import njit
from ocr_speed import CONSOLE, table

from ssvm_backends.structures.segmentations.semi_markov import SemiMarkov
from ssvm_dsl import (
    Dim,
    Factor,
    Feature,
    Hamming,
    Input,
    Label,
    Model,
    SpanLength,
    StructuredSVM,
    chain,
    ground,
    spans,
    starts,
)
from ssvm_dsl.ir import Question, Task

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
    w = random_weights(rng, longest, k)
    svm = StructuredSVM.from_weights(model(k, longest), w)
    total = np.concatenate([np.zeros((1, k)), np.cumsum(x @ w["emit"].T, axis=0)])
    given = total, np.ascontiguousarray(w["long"].T), x @ w["first"].T, w["trans"]
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


def summed(model: type[Model], x: Any, w: dict[str, Any]) -> tuple[float, float, Any]:
    """Return log Z, where a first segment has a transition from any class, CPU seconds, and the marginals."""
    grounded = ground(model, [x])
    blocks = {block.name: block for block in grounded.parameters.blocks}
    weights = np.zeros(grounded.parameters.dim)
    for name, values in w.items():
        blocks[name].view(weights)[...] = values
    theta, k = grounded.parameters.scores(weights), model.y.n_states
    theta.node[:k] += np.log(np.exp(w["trans"]).sum(axis=0))
    session = SemiMarkov().open(grounded.program, {})
    begin = time.process_time()
    found = session.solve(Question(theta, task=Task.MARGINALS, tables=False))
    return float(found.log_partition[0]), time.process_time() - begin, found.marginals


def random_weights(rng: np.random.Generator, longest: int, k: int) -> dict[str, Any]:
    """Return weights of :func:`model`."""
    shapes = {"emit": (k, WIDTH), "first": (k, WIDTH), "trans": (k, k), "long": (k, longest)}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


#: What runs in the other environment: a file of lists in, log Z and seconds out.
SEMICRF = """
import json, sys, time, torch
from flash_semicrf.streaming import semi_crf_streaming_forward as forward
torch.set_num_threads(1)
given = {key: torch.tensor(value, dtype=torch.float64) for key, value in json.load(open(sys.argv[1])).items()}
lengths = torch.tensor([given["start"].shape[0]])
args = given["sums"][None], given["trans"], given["length"], lengths, given["length"].shape[0]
begin = time.process_time()
found = forward(*args, proj_start=given["start"][None])
print(repr(float(found[0])), time.process_time() - begin)
"""


def beside_flash_semicrf(n: int = 2_000, longest: int = 50, k: int = 8) -> None:
    """Compare log Z of one sequence with that of flash-semicrf."""
    other = os.environ.get("SSVM_BENCH_SEMICRF")
    if not other:
        CONSOLE.print("flash-semicrf: skipped, SSVM_BENCH_SEMICRF names no Python that has it")
        return
    rng, made = np.random.default_rng(0), model(k, longest)
    x, w = rng.normal(size=(n, WIDTH)), random_weights(rng, longest, k)
    summed(made, x[:60], w)
    log_z, took, _ = summed(made, x, w)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given.json"
        sums = np.concatenate([np.zeros((1, k)), np.cumsum(x @ w["emit"].T, axis=0)])
        given = {"sums": sums, "trans": w["trans"], "length": w["long"].T, "start": x @ w["first"].T}
        path.write_text(json.dumps({name: array.tolist() for name, array in given.items()}))
        said = subprocess.run([other, "-c", SEMICRF, str(path)], check=True, capture_output=True, text=True).stdout
    theirs, seconds = map(float, said.split())
    CONSOLE.print(
        f"{n} positions, lengths to {longest}, {k} classes: log Z and marginals take {took:.3f} CPU s, log Z alone by "
        f"flash-semicrf {seconds:.1f}; it differs by {abs(log_z - theirs) / abs(theirs):.1e} of itself"
    )


def sums(n: int = 100_000, longest: int = 1_000, k: int = 24) -> None:
    """Sum over the segmentations of one long sequence in this process."""
    rng, made = np.random.default_rng(0), model(k, longest)
    x, w = rng.normal(size=(n, WIDTH)), random_weights(rng, longest, k)
    summed(made, x[:60], w)
    before = peak()
    _, took, _ = summed(made, x, w)
    CONSOLE.print(f"log Z and marginals of such a sequence take {took:.1f} CPU s and {peak() - before:.0f} MB more")


def look(x: Any, start: Any, end: Any) -> Any:
    """Return four features of spans."""
    return np.c_[x[start, 0], x[end - 1, 0], x[start, 1] * x[end - 1, 1], np.log(end - start)]


def wide(x: Any, start: Any, end: Any) -> Any:
    """Return 32 features of spans."""
    return np.tile(look(x, start, end), 8)


def with_features(n: int, longest: int, k: int, how: str) -> None:
    """Predict a sequence whose spans have features in this process."""
    many = how in ("32 stored", "32 in slices")
    width, function = (32, wide) if many else (4, look)

    class Looked(Model):
        T = Dim()
        x = Input(T, WIDTH)
        y = Label(T, k, segments=longest)
        emit = Factor(y, features=x)
        trans = Factor(chain(y))
        long = Factor(spans(y), features=Feature(function, spans(y), width=width, stored=how != "32 in slices"))
        each = Factor(spans(y))
        loss = Hamming(y)

    class Shared(Looked):
        again = Factor(spans(Looked.y), tie=Looked.each)  # shared weights ask for variables

    rng = np.random.default_rng(0)
    w = {"emit": rng.normal(size=(k, WIDTH)), "trans": rng.normal(size=(k, k))}
    w |= {"long": rng.normal(size=(k, width)), "each": np.ones(k)}
    made, x = Shared if how == "4, spans are variables" else Looked, rng.normal(size=(n, WIDTH))
    svm = StructuredSVM.from_weights(made, w)
    svm.predict([x[:60]])
    before, begin = peak(), time.process_time()
    svm.predict([x])
    CONSOLE.print(
        f"{n} positions, lengths to {longest}, {k} classes, features of spans: {how}: "
        f"{time.process_time() - begin:.2f} CPU s and {peak() - before:.0f} MB more"
    )


#: What runs in a process of its own, by the first argument.
PARTS: dict[str, Callable[[], None]] = {
    "train": train,
    "sums": sums,
    "features": lambda: with_features(5_000, 50, 8, "4"),
    "variables": lambda: with_features(5_000, 50, 8, "4, spans are variables"),
    "stored": lambda: with_features(5_000, 50, 8, "32 stored"),
    "slices": lambda: with_features(5_000, 50, 8, "32 in slices"),
}


def main() -> None:
    """Print all."""
    beside_a_bare_kernel()
    beside_flash_semicrf()
    for part in PARTS:
        subprocess.run([sys.executable, __file__, part], check=True)


if __name__ == "__main__":
    PARTS[sys.argv[1]]() if sys.argv[1:] else main()
