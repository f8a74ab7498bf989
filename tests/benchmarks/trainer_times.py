"""Processor seconds of trainers to a certified gap of 1 %: the one that ``auto`` takes beside the best of the others.

The data differ in what decides: how many weights tie how many examples, how dear the oracle is, how many labellings
compete, and the risk.  Others have the time that ``auto`` took (and a second at least): where they are not there by
then, they are slower, and their gap is shown.  Names of data sets on the command line choose some.

    SSVM_DATA=folder make bench ARGS=trainers
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from models import OCR, split_b
from rich.console import Console
from rich.table import Table

from model_table import token_tagger
from ssvm_dsl import (
    Cost,
    Dim,
    Factor,
    Hamming,
    Input,
    Label,
    Matching,
    Model,
    PLiF,
    Quantiles,
    StructuredSVM,
    chain,
    complete,
    grid,
)
from ssvm_dsl.datasets import (
    CHUNK_TAGS,
    chunk_attributes,
    link_features,
    load_alignments,
    load_conll2000,
    load_scene,
    load_yeast,
)

#: The trainers that are compared, by risk and power.
TRAINERS = {
    ("margin", 1): ("bcfw", "one-slack", "bundle", "n-slack"),
    ("margin", 2): ("one-slack", "bundle", "n-slack"),
    ("slack", 1): ("one-slack", "bundle", "n-slack"),
    ("log", 1): ("lbfgs", "svrg", "bundle"),
    ("weston-watkins", 1): ("bundle", "subgradient"),
}

#: The gap, processor seconds after which a fit ends, and those that any has.
GAP, SECONDS, LEAST = 0.01, 30.0, 1.0

#: A model with data, and C.
Problem = tuple[type[Model], Any, Any, float]


def letters() -> Problem:
    """A thousand words of letters: 26 states, 4 004 weights."""
    data = split_b()
    return OCR, data.X_train[:1000], data.Y_train[:1000], 1.0


def chunks() -> Problem:
    """300 sentences: sparse attributes, many more weights than words."""

    Chunks = token_tagger(CHUNK_TAGS)

    data = load_conll2000().train[:300]
    return Chunks, [chunk_attributes(one.words, one.pos) for one in data], [one.chunks for one in data], 1.0


def multilabel(load: Callable[[], Any], n: int, c: float) -> Problem:
    """Pictures or genes with sets of labels: a complete graph."""
    data = load()
    X, Y = np.stack(list(data.X_train[:n])), np.stack(list(data.Y_train[:n])).astype(int)

    class Labels(Model):
        K = Dim(Y.shape[1])
        x = Input(X.shape[1])
        y = Label(K, 2)
        own = Factor(y, features=x, per=K)
        pair = Factor(complete(y), per="edge")
        loss = Hamming(y)

    return Labels, X, Y, c


def blocks(distortion: float) -> Problem:
    """Long chains of two states seen through piecewise linear functions, a share of features turned: few weights."""
    from ssvm_papers.generators.sequences import make_blocks

    class Blocks(Model):
        T = Dim()
        x = Input(T, 10)
        y = Label(T, 2)
        emit = Factor(y, features=PLiF(x, Quantiles(20)))
        trans = Factor(chain(y))
        loss = Hamming(y)

    X, Y = make_blocks(100, 250, 10, distortion=distortion, n_noise_features=4, random_state=0)
    return Blocks, list(X), list(Y), 20.0


def alignments() -> Problem:
    """100 pairs of sentences: matchings, 19 weights."""

    class Align(Model):
        I, J = Dim(), Dim()
        x = Input(I, J, 19)
        y = Label(I, J, 2)
        sim = Factor(y.is_(1), features=x)
        one = Matching(y.is_(1), rows=I, cols=J)
        loss = Cost(y, [[0, 1], [3, 0]])

    pairs = load_alignments()[:400]
    pairs = [one for one in pairs if max(len(one.source), len(one.target)) <= 25][:100]
    X, Y = link_features([(one.source, one.target) for one in pairs]), []
    for x, one in zip(X, pairs, strict=True):
        y, rows, columns = np.zeros(x.shape[:2], dtype=int), set(), set()
        for i, j in sorted(one.sure):
            if i not in rows and j not in columns:
                y[i, j] = 1
                rows.add(i)
                columns.add(j)
        Y.append(y)
    return Align, X, Y, 10.0


def stripes() -> Problem:
    """Noisy grids of stripes: a graph cut each, few weights."""

    class Stripes(Model):
        R, C = Dim(), Dim()
        x = Input(R, C, 2)
        y = Label(R, C, 2)
        own = Factor(y, features=x)
        pair = Factor(grid(y), form=[[[0, 1], [1, 0]]])
        loss = Hamming(y)

    rng = np.random.default_rng(0)
    Y = [(np.indices((20, 20)).sum(axis=0) // rng.integers(3, 7) % 2).astype(int) for _ in range(40)]
    return Stripes, [np.stack([y + 1.5 * rng.normal(size=y.shape), np.ones(y.shape)], axis=-1) for y in Y], Y, 1.0


def rows() -> Problem:
    """3 000 rows of 20 numbers, four classes: few weights, a cheap oracle."""

    class Rows(Model):
        x = Input(20)
        y = Label(4)
        score = Factor(y, features=x)
        bias = Factor(y)
        loss = Hamming(y)

    rng = np.random.default_rng(0)
    X, slopes = rng.normal(size=(3000, 20)), rng.normal(size=(20, 4))
    return Rows, X, (0.5 * X @ slopes + rng.gumbel(size=(3000, 4))).argmax(axis=1), 1.0


MARGINS: dict[str, Callable[[], Problem]] = {
    "letters": letters,
    "chunks": chunks,
    "scene": lambda: multilabel(load_scene, 400, 1.0),
    "yeast": lambda: multilabel(load_yeast, 200, 0.1),
    "blocks, plain": lambda: blocks(0.0),
    "blocks, 30 % distorted": lambda: blocks(0.3),
    "blocks, 30 %, large C": lambda: (*blocks(0.3)[:3], 200.0),
    "alignments": alignments,
    "stripes": stripes,
}

#: By the name of a row: the data, the risk and its power.
PROBLEMS: dict[str, tuple[Callable[[], Problem], str, int]] = {
    **{name: (make, "margin", 1) for name, make in MARGINS.items()},
    "log-loss: letters": (letters, "log", 1),
    "log-loss: chunks": (chunks, "log", 1),
    "log-loss: rows": (rows, "log", 1),
    "log-loss: scene": (MARGINS["scene"], "log", 1),
    "squared: scene": (MARGINS["scene"], "margin", 2),
    "squared: stripes": (stripes, "margin", 2),
    "squared: rows": (rows, "margin", 2),
    "slack: rows": (rows, "slack", 1),
    "slack: letters": (letters, "slack", 1),
    "weston-watkins: rows": (rows, "weston-watkins", 1),
}


def timed(problem: Problem, risk: tuple[str, int], trainer: str, most: float) -> tuple[float, float, str]:
    """Return (processor seconds, gap, trainer) of a fit that may take so many.

    A short one before it compiles what it needs.
    """
    model, X, Y, c = problem
    few = StructuredSVM(
        model, C=c, risk=risk[0], power=risk[1], trainer=trainer, tol=GAP, max_passes=2, n_threads=1, random_state=0
    )
    few.fit(X[:10], Y[:10])
    begin = time.process_time()
    svm = few.set_params(max_passes=100_000, callbacks=[lambda event: time.process_time() - begin > most])
    svm.fit(X, Y)
    return time.process_time() - begin, svm.report_.relative_gap, svm.report_.trainer


def main(names: list[str] | None = None) -> None:
    """Print a row for each data set."""
    warnings.simplefilter("ignore")
    console = Console(width=120)
    table = Table("data", "auto", "seconds", "others", "auto / best")
    for name in names or PROBLEMS:
        make, *risk = PROBLEMS[name]
        problem, found, most = make(), dict[str, tuple[float, str]](), SECONDS
        for trainer in ("auto", *TRAINERS[risk[0], risk[1]]):
            if trainer in found:
                continue
            seconds, gap, taken = timed(problem, (risk[0], risk[1]), trainer, most)
            most = min(most, max(seconds, LEAST))
            text = f"{seconds:.2f}" if gap <= GAP else f"{gap:.1%} after {seconds:.1f}"
            found[taken] = seconds if gap <= GAP else np.inf, text
            print(name, taken, text, flush=True)
        (auto, (mine, text)), *others = found.items()
        best = min(seconds for seconds, _ in found.values())
        table.add_row(name, auto, text, ", ".join(f"{t} {one[1]}" for t, one in others), f"{mine / best:.1f}")
    console.print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
