"""Fits of every structure (trees, matchings, segments, grids, rules): objectives and answers by all labellings."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "scoring"))

from scored_structures import STRUCTURES, Structure

from ssvm_dsl import Edges, StructuredSVM
from ssvm_dsl.errors import NoBackendError, TrainingError

UNIT, SHORT, LIMIT = "fits", 6, 90.0

#: Trainers that certify, with their risks.
FITS = (
    ("bcfw", "margin"), ("one-slack", "margin"), ("n-slack", "margin"), ("bundle", "margin"), ("n-slack", "slack"),
    ("one-slack", "slack"), ("lbfgs", "log"), ("bundle", "log"), ("lbfgs", "softmax-margin"),
)  # fmt: skip

#: Relative to the terms that an objective is the sum of.
ROUNDING = 1e-9


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Fit a structure with two trainers of a risk, and compare both with sums and maxima over all labellings."""
    name = list(STRUCTURES)[rng.integers(len(STRUCTURES))]
    structure = STRUCTURES[name]
    X, every = inputs(structure, rng), [list(structure.labellings(size)) for size in structure.sizes]
    Y = [mine[rng.integers(len(mine))] for mine in every]
    risk = str(rng.choice(["margin", "margin", "slack", "log", "softmax-margin"]))
    weight, C = rng.choice([0.0, 1.0, 2.5], size=len(X)) + 1e-3, float(10.0 ** rng.uniform(-2, 2))
    reports = []
    for trainer, _ in (one for one in FITS if one[1] == risk):
        svm = StructuredSVM(
            structure.model, risk=risk, trainer=trainer, C=C, tol=float(rng.choice([0.1, 1e-4])), random_state=0,
            max_passes=int(rng.choice([1, 5, 300])), n_threads=int(rng.choice([1, 3])), max_seconds=10.0,
        )  # fmt: skip
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                svm.fit(X, Y, weight)
        except (NoBackendError, TrainingError):
            continue  # no marginals, or a loss that does not add up
        check(svm, X, Y, every, weight)
        reports.append(svm.report_)
    for one in reports:
        for other in reports:
            slack = ROUNDING * (abs(one.primal) + abs(other.primal) + C)
            assert one.dual <= other.primal + slack, (name, risk, one, other)
    return len(reports)


def inputs(structure: Structure, rng: np.random.Generator) -> list[Any]:
    """Return random inputs of the sizes of a structure."""
    lengths, out = structure.lengths(structure.sizes), []
    for i in range(len(structure.sizes)):
        row = {}
        for one in structure.model.declaration.inputs:
            if one.name in structure.data:
                row[one.name] = structure.data[one.name][i]
                continue
            assert not isinstance(one, Edges)
            axes = [dim.size or lengths[dim.origin.name][i] for dim in one.dims]
            row[one.name] = rng.normal(size=(*axes, *one.shape))
        out.append(row)
    return out


def check(svm: StructuredSVM, X: list[Any], Y: list[Any], every: list[Any], weight: Any) -> None:
    """Compare objective, best labellings and their scores with those of all labellings."""
    report, total = svm.report_, 0.5 * float(svm.coef_ @ svm.coef_)
    at = f"{svm.model.__name__} {svm.trainer} {svm.risk} {report.plan.backend}: {report}"
    size = total
    for x, y, mine, w in zip(X, Y, every, weight, strict=True):
        scores, truth = svm.best_score([x] * len(mine), mine), float(svm.best_score([x], [y])[0])
        best = float(svm.best_score([x])[0])
        assert abs(best - scores.max()) <= ROUNDING * (1.0 + abs(best)), (best, scores.max(), at)
        losses = np.array([loss_of(y, other) for other in mine])
        values = {
            "margin": lambda s=scores, v=losses, t=truth: (s + v).max() - t,
            "slack": lambda s=scores, v=losses, t=truth: (v * (1.0 + s - t)).max(),
            "log": lambda s=scores, t=truth: np.logaddexp.reduce(s) - t,
            "softmax-margin": lambda s=scores, v=losses, t=truth: np.logaddexp.reduce(s + v) - t,
        }
        risk = float(values[svm.risk]())
        total += svm.C * float(w) * max(risk, 0.0)
        size += svm.C * float(w) * (abs(risk) + np.abs(scores).max() + losses.max())
    exact = svm.risk != "slack" or report.tightness == 1.0
    if exact:
        assert abs(report.primal - total) <= ROUNDING * (1.0 + size), (report.primal, total, at)
    assert report.primal >= total - ROUNDING * (1.0 + size), (report.primal, total, at)
    assert report.dual <= total + ROUNDING * (1.0 + size), (report.dual, total, at)


def loss_of(truth: Any, other: Any) -> float:
    """Return the Hamming loss of a labelling, by hand."""
    if isinstance(other, dict):
        return float(sum(np.sum(np.asarray(truth[key]) != np.asarray(other[key])) for key in other))
    if isinstance(other, list):  # segments: classes of positions, and where segments begin
        one, two = ([(t == s, c) for s, e, c in z for t in range(s, e)] for z in (truth, other))
        return float(sum((a[0] != b[0]) + (a[1] != b[1]) for a, b in zip(one, two, strict=True)))
    return float((np.asarray(truth) != np.asarray(other)).sum())
