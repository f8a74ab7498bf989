"""Methods of one kind side by side: relaxations under constraints by ``ad3`` and ``lp``, dual trainers on cliques.

The first table has the processor time of the relaxations of constraints with tables, and how far the bound of ``ad3``
is above that of ``lp``.  The second has that of one iteration for each example in fits by ``eg``, ``smo`` and ``bcfw``,
whatever they do in one: labels that all depend on each other, and small grids.
"""

from __future__ import annotations

import warnings
from time import process_time
from typing import Any

import numpy as np
from mixed_speed import CONSOLE, TIMES, Problem, budget, matching, repeated, timed, tree
from rich.table import Table

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, complete, grid

#: Passes of the fits whose difference in time is that of the rest of the passes: compiling and planning cancel out.
FEW, MANY = 5, 25

TRAINERS = ("eg", "smo", "bcfw")


def knapsack(rng: np.random.Generator, n: int, strength: float) -> Problem:
    """Labels with sizes of 1 to 9, which may be a quarter of all together, with tables over all pairs."""
    edges = np.array([(a, b) for a in range(n) for b in range(a)])
    size = rng.integers(1, 10, n).astype(float)
    meta, each = {"lower": -np.inf, "upper": float(size.sum() // 4)}, {"coefficient": size}
    structure = {"kind": "linear", "variables": np.arange(n), "meta": meta, "each": each}
    return repeated(rng, np.full(n, 2), [edges], [np.full((2, 2), strength)], TIMES, structure)


class Labels(Model):
    """Six labels, each pair with weights of its own."""

    K = Dim(6)
    x = Input(20)
    y = Label(K, 2)
    own = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    loss = Hamming(y)


class Pixels(Model):
    """Grids of 3 by 4 pixels of three states."""

    R, C = Dim(3), Dim(4)
    x = Input(R, C, 5)
    y = Label(R, C, 3)
    own = Factor(y, features=x)
    pair = Factor(grid(y))
    loss = Hamming(y)


def relaxations() -> None:
    """Print the times of relaxations."""
    rng = np.random.default_rng(0)
    cases = {
        "4 by 4 matching": matching(rng, 4, 0.3),
        "6 by 6 matching": matching(rng, 6, 0.3),
        "4 of 14 labels": budget(rng, 14, 1.0),
        "4 of 30 labels": budget(rng, 30, 0.2),
        "knapsack of 14 labels": knapsack(rng, 14, 1.0),
        "knapsack of 30 labels": knapsack(rng, 30, 0.2),
        "tree of 6 tokens": tree(rng, 6, 0.5),
        "tree of 10 tokens": tree(rng, 10, 1.0),
    }
    table = Table("problem", "lp [s]", "ad3 [s]", "ad3 / lp", "iterations", "finished", "bounds above")
    for name, problem in cases.items():
        (right, exact), (found, quick) = timed(problem, "lp"), timed(problem, "ad3")
        above = ((found.bound - right.bound) / np.abs(right.bound)).max()
        table.add_row(
            name, f"{exact:.2f}", f"{quick:.2f}", f"{quick / exact:.1f}", f"{found.stats['iterations'] / TIMES:.0f}",
            f"{(found.stop == 0).mean():.0%}", f"{above:.0e}",
        )  # fmt: skip
    CONSOLE.print(table)


def seconds(model: type[Model], X: Any, Y: Any, trainer: str, passes: int) -> tuple[float, int]:
    """Return (processor seconds, iterations) of a fit."""
    svm = StructuredSVM(model, C=1.0, trainer=trainer, tol=0.0, max_passes=passes, n_threads=1, random_state=0)
    begin = process_time()
    svm.fit(X, Y)
    return process_time() - begin, len(svm.report_.history)


def visits() -> None:
    """Print the time of an iteration for each example, of dual trainers on graphs with cycles."""
    rng, n = np.random.default_rng(0), 100
    X = rng.normal(size=(n, 20))
    Y = (X @ rng.normal(size=(20, 6)) + rng.normal(size=(n, 6)) > 0.5).astype(int)
    Z = rng.normal(size=(n, 3, 4, 5))
    W = (Z @ rng.normal(size=(5, 3))).argmax(axis=-1)
    table = Table("graphs", *(f"{name} [us]" for name in TRAINERS))
    for title, model, inputs, labels in (("six labels, all pairs", Labels, X, Y), ("grids of 3 by 4", Pixels, Z, W)):
        times = []
        for name in TRAINERS:
            seconds(model, inputs, labels, name, FEW)
            few, many = (min(seconds(model, inputs, labels, name, passes) for _ in range(2)) for passes in (FEW, MANY))
            times.append(1e6 * (many[0] - few[0]) / max(many[1] - few[1], 1) / n)
        table.add_row(title, *(f"{time:.0f}" for time in times))
    CONSOLE.print(table)


def main() -> None:
    """Print both tables."""
    relaxations()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        visits()
