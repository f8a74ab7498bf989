"""Hansards word alignment, 300 pairs to learn from and 147 to test: a learnt matching beside links judged one by one.

The alignment error rate is 1 - (|A and S| + |A and P|) / (|A| + |S|), for links A that were found, sure ones S and
possible ones P.  All learners see the same features: those of ``link_features``, and a few more.  Matchings with
diagonals have one weight besides, for two links of successive words to successive words.  The price of a missing link
and C of matchings, and the thresholds of links judged one by one, are chosen by three folds of the 300 pairs.  The last
column has the thresholds that are best *on the test pairs*, in favour of the baselines.  Intervals are those of 10000
resamplings of the 147 pairs, of differences with the same pairs for both.  Needs ``SSVM_DATA``.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import accumulate, product
from operator import eq
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

Matrix = NDArray[np.float64]
Links = set[tuple[int, int]]

N_TRAIN, N_FOLDS, N_RESAMPLED = 300, 3, 10_000

#: Prices of a missing link and C that are tried: of matchings, and of those with diagonals, which take longer.
TRIED = list(product((2, 3, 4, 5, 10), (1.0, 10.0, 100.0)))
TRIED_WITH_DIAGONALS = [(2, 10.0), (3, 10.0)]


def counts(found: Iterable[NDArray[Any]], sure: list[Links], possible: list[Links]) -> NDArray[np.int64]:
    """Return |A and S| + |A and P| and |A| + |S| of each pair, for matrices of links; shape (n, 2)."""
    each = []
    for matrix, s, p in zip(found, sure, possible, strict=True):
        links = set(map(tuple, np.argwhere(matrix > 0).tolist()))
        each.append((len(links & s) + len(links & p), len(links) + len(s)))
    return np.array(each)


def rate(counted: NDArray[np.int64]) -> Any:
    """Return the alignment error rate of counts, summed over the axis of pairs."""
    hits, total = np.moveaxis(counted.sum(axis=-2), -1, 0)
    return 1.0 - hits / total


def error_rate(found: Iterable[NDArray[Any]], sure: list[Links], possible: list[Links]) -> float:
    """Return the alignment error rate of matrices of links."""
    return float(rate(counts(found, sure, possible)))


def interval(counted: NDArray[np.int64], other: NDArray[np.int64] | None = None) -> str:
    """Return in words where 95 % of error rates of resampled pairs lie, or of what they are below those of others."""
    drawn = np.random.default_rng(0).integers(len(counted), size=(N_RESAMPLED, len(counted)))
    values = rate(counted[drawn]) if other is None else rate(other[drawn]) - rate(counted[drawn])
    low, high = np.quantile(values, [0.025, 0.975])
    return f"{low:.1%} to {high:.1%}"


def rows(score: Matrix) -> NDArray[np.bool_]:
    """Return the best link of each row."""
    return np.asarray(score == score.max(axis=1, keepdims=True))


def columns(score: Matrix) -> NDArray[np.bool_]:
    """Return the best link of each column."""
    return np.asarray(score == score.max(axis=0, keepdims=True))


def both(score: Matrix) -> NDArray[np.bool_]:
    """Return the links that are best in their row and in their column."""
    return rows(score) & columns(score)


def every(score: Matrix) -> NDArray[np.bool_]:
    """Return all links."""
    return np.ones(score.shape, dtype=bool)


def best_threshold(
    scores: list[Matrix], pick: Callable[[Matrix], NDArray[np.bool_]], sure: list[Links], possible: list[Links]
) -> tuple[float, float]:
    """Return the lowest error rate of picked links above a threshold, the best of 40 on these very pairs, and it."""
    cuts = np.quantile(np.concatenate([score.ravel() for score in scores]), np.linspace(0.8, 1.0, 40, endpoint=False))
    return min((error_rate([pick(one) & (one > cut) for one in scores], sure, possible), float(cut)) for cut in cuts)


def judged(learner: Any, X: list[Matrix], Y: list[Any], train: Iterable[int], test: Iterable[int]) -> list[Matrix]:
    """Return the scores that a learner of single links gives those of some pairs, learnt from others."""
    inputs = np.concatenate([X[i].reshape(-1, X[i].shape[2]) for i in train])
    labels = np.concatenate([Y[i].ravel() for i in train])
    learner.fit(inputs[labels >= 0], labels[labels >= 0])
    return [learner.decision_function(X[i].reshape(-1, X[i].shape[2])).reshape(X[i].shape[:2]) for i in test]


def with_more(x: Matrix, source: list[str], target: list[str]) -> Matrix:
    """Return the features of the example with some about short words, signs, and how much of two words is the same."""
    short = np.array([[len(a) < 4 and len(b) < 4 for b in target] for a in source], dtype=float)
    uneven = np.array([[(len(a) < 4) != (len(b) < 4) for b in target] for a in source], dtype=float)
    sign = np.array([[a == b and not a.isalnum() for b in target] for a in source], dtype=float)
    starts = [[sum(accumulate(map(eq, a.lower(), b.lower()), min)) for b in target] for a in source]
    longest = np.maximum.outer([len(a) for a in source], [len(b) for b in target])
    near = np.exp(-abs(np.arange(len(source))[:, None] - np.arange(len(target)) * len(source) / len(target)) / 2)
    mutual = x[..., 8] * x[..., 9]
    return np.concatenate([x, np.stack([short, uneven, sign, starts / longest, near * short, mutual], axis=2)], axis=2)


def structured(
    X: list[Matrix], Y: list[Any], sure: list[Links], possible: list[Links], diagonals: bool
) -> tuple[str, NDArray[np.int64]]:
    """Return (what was chosen, counts of the test pairs) of matchings learnt from the others."""
    from ssvm_dsl import Cost, Dim, Factor, Input, Label, Matching, Model, StructuredSVM, pairs

    class Align(Model):
        I, J = Dim(), Dim()
        x = Input(I, J, X[0].shape[2])
        y = Label(I, J, 2)
        sim = Factor(y.is_(1), features=x)
        one = Matching(y.is_(1), rows=I, cols=J)

    class Diagonals(Align):
        both = Factor(pairs(Align.y, Align.I, Align.J), form=[[[0, 0], [0, 1]]])

    base, backend = (Diagonals, "decompose") if diagonals else (Align, "auto")

    def found(cost: float, c: float, train: Any, test: Any) -> NDArray[np.int64]:
        model = type("Priced", (base,), {"loss": Cost(base.y, [[0, 1], [cost, 0]])})
        tol = 0.02 if diagonals else 0.01
        svm = StructuredSVM(model, C=c, tol=tol, backend=backend, random_state=0)
        svm.fit([X[i] for i in train], [Y[i] for i in train])
        return counts(svm.predict([X[i] for i in test]), [sure[i] for i in test], [possible[i] for i in test])

    every_one, folds = np.arange(N_TRAIN), np.arange(N_TRAIN) % N_FOLDS

    def held_out(cost: float, c: float) -> float:
        each = [found(cost, c, every_one[folds != k], every_one[folds == k]) for k in range(N_FOLDS)]
        return float(rate(np.concatenate(each)))

    error, cost, c = min((held_out(cost, c), cost, c) for cost, c in (TRIED_WITH_DIAGONALS if diagonals else TRIED))
    return f"price {cost}, C {c:g}; {error:.1%} in folds", found(cost, c, every_one, np.arange(N_TRAIN, len(X)))


def main() -> None:
    """Show error rates of all methods."""
    console, folder = Console(width=100), os.environ.get("SSVM_DATA")
    if not folder:
        console.print("needs SSVM_DATA")
        return
    from alignment import known, read
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    from ssvm_dsl.datasets import link_features

    warnings.simplefilter("ignore")
    pairs, sure, possible = read()
    seen = [Counter(word for pair in pairs for word in set(pair[side])) for side in (0, 1)]
    met = Counter((a, b) for source, target in pairs for a in set(source) for b in set(target))
    X = [with_more(features, *pair) for features, pair in zip(link_features(pairs), pairs, strict=True)]
    Y = [known(x.shape[:2], *links) for x, *links in zip(X, sure, possible, strict=True)]
    right = sure[N_TRAIN:], possible[N_TRAIN:]
    dice = [np.array([[2 * met[a, b] / (seen[0][a] + seen[1][b]) for b in t] for a in s]) for s, t in pairs[N_TRAIN:]]
    table = Table(title="Hansards, alignment error rate on 147 pairs", title_justify="left")
    for column in ("links", "picked", "error rate", "95 %", "best threshold"):
        table.add_column(column)
    for name, pick in (("rows", rows), ("columns", columns), ("both", both)):
        counted = counts(map(pick, dice), *right)
        table.add_row("dice", f"best of {name}", f"{rate(counted):.1%}", interval(counted))
    learners = {"logistic regression": LogisticRegression(C=10.0, max_iter=5000), "linear SVM": LinearSVC(C=1.0)}
    baselines = []
    for name, learner in learners.items():
        held_out: list[Matrix] = [np.zeros(0)] * N_TRAIN
        for k in range(N_FOLDS):
            mine = range(k, N_TRAIN, N_FOLDS)
            for i, one in zip(mine, judged(learner, X, Y, set(range(N_TRAIN)) - set(mine), mine), strict=True):
                held_out[i] = one
        scores = judged(learner, X, Y, range(N_TRAIN), range(N_TRAIN, len(X)))
        for text, pick in (("all", every), ("best of rows", rows), ("best of both", both)):
            _, cut = best_threshold(held_out, pick, sure[:N_TRAIN], possible[:N_TRAIN])
            least, best = best_threshold(scores, pick, *right)
            counted, at_best = (counts([pick(x) & (x > one) for x in scores], *right) for one in (cut, best))
            baselines += [(rate(counted), counted), (rate(at_best), at_best)]
            table.add_row(
                name, f"{text} above a threshold", f"{rate(counted):.1%}", interval(counted), f"{least:.1%}"
            )
    best_baseline = min(baselines, key=lambda one: one[0])[1]
    notes = []
    for name, diagonals in (("matching", False), ("matching, diagonals", True)):
        begin = time.process_time()
        chosen, counted = structured(X, Y, sure, possible, diagonals)
        spent = time.process_time() - begin
        table.add_row(name, chosen, f"{rate(counted):.1%}", interval(counted))
        n_fits = N_FOLDS * len(TRIED_WITH_DIAGONALS if diagonals else TRIED) + 1
        below = f"{rate(best_baseline) - rate(counted):.1%} ({interval(counted, best_baseline)})"
        notes.append(f"{name}: {below} below the best baseline of all; {n_fits} fits in {spent:.1f} CPU s")
    console.print(table)
    console.print("\n".join(notes))
