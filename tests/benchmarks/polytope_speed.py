"""Trainers of marginals on matchings beside block-coordinate ascent, and cutting-plane methods beside each other.

*Alignment* is the setting of Taskar, Lacoste-Julien and Jordan (2006): Hansards, a learnt matching of the words of two
sentences, the sure links that form one as truth, and a price of 3 for a missing link.  Passes are those of the oracle
(``extragradient`` asks it for certificates alone: its steps are in brackets); seconds are of the processor.  The first
table needs ``SSVM_DATA``.

The second table has the passes that ``bundle`` takes to a gap of 1e-4 by method: chains of 3 states, 24 weights.
"""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from model_table import tagger
from ssvm_dsl import Cost, Dim, Factor, Input, Label, Matching, Model, StructuredSVM
from ssvm_dsl.datasets import link_features, load_alignments, make_chains

#: Sentence pairs, and what is run on so many: (trainer, options, tolerance, most passes).
ALL: list[tuple[str, dict[str, Any], float, int]] = [
    ("bcfw", {}, 1e-3, 200),
    ("lp-dual-qp", {"max_entries": 10**7}, 1e-3, 1),
    ("extragradient", {}, 1e-3, 200),
    ("extragradient", {"method": "dual"}, 1e-2, 30),
]
RUNS = [(20, ALL), (100, ALL[:2])]

METHODS: dict[str, dict[str, Any]] = {
    "bmrm, stabilised": {},
    "bmrm": {"stabilise": False},
    "proximal": {"method": "proximal"},
    "kelley": {"method": "kelley"},
}


class Align(Model):
    """Word alignment as a matching."""

    I, J = Dim(), Dim()
    x, y = Input(I, J, 19), Label(I, J, 2)
    sim = Factor(y.is_(1), features=x)
    one = Matching(y.is_(1), rows=I, cols=J)
    loss = Cost(y, [[0, 1], [3, 0]])


#: A chain.
Word = tagger(5, 3)


def matching(shape: tuple[int, int], sure: set[tuple[int, int]]) -> NDArray[np.int64]:
    """Return the sure links that are the first ones of both of their words."""
    y = np.zeros(shape, dtype=np.int64)
    for i, j in sorted(sure):
        y[i, j] = max(*y[i], *y[:, j]) < 1
    return y


def fitted(model: type[Model], X: list[Any], Y: list[Any], **settings: Any) -> tuple[Any, float]:
    """Return the report of a fit, and its seconds of the processor."""
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = StructuredSVM(model, random_state=0, n_threads=1, **settings).fit(X, Y).report_
    return report, time.process_time() - begin


def alignment() -> Table:
    """Return the table of alignments."""
    table = Table("pairs", "trainer", "objective", "lower bound", "relative gap", "passes", "CPU s")
    data = load_alignments()
    X = link_features([(one.source, one.target) for one in data])
    Y = [matching(x.shape[:2], one.sure) for x, one in zip(X, data, strict=True)]
    for n, runs in RUNS:
        for trainer, options, tol, max_passes in runs:
            settings = {"C": 0.1, "trainer": trainer, "trainer_options": options, "tol": tol, "max_passes": max_passes}
            report, seconds = fitted(Align, X[:n], Y[:n], **settings)
            steps = report.history[-1].extra.get("steps")
            table.add_row(
                str(n), f"{trainer}{' (dual)' if 'method' in options else ''}", f"{report.primal:.5g}",
                f"{report.dual:.5g}", f"{report.relative_gap:.1e}",
                f"{report.n_passes:.3g}{'' if steps is None else f' ({steps:.0f})'}", f"{seconds:.2g}",
            )  # fmt: skip
    return table


def bundles() -> Table:
    """Return the table of cutting-plane methods."""
    table = Table("C", *METHODS)
    X, Y = make_chains(60, noise=1.5, random_state=0)
    for C in (0.1, 1.0, 10.0):
        found = [
            fitted(Word, X, Y, C=C, trainer="bundle", trainer_options=one, tol=1e-4, max_passes=2000)
            for one in METHODS.values()
        ]
        assert max(one.dual for one, _ in found) <= min(one.primal for one, _ in found)
        table.add_row(f"{C:g}", *(f"{one.n_passes:.0f} ({seconds:.2g} s)" for one, seconds in found))
    return table


def main() -> None:
    """Print both tables."""
    console = Console(width=120)
    if os.environ.get("SSVM_DATA"):
        console.print(alignment())
    console.print(bundles())
