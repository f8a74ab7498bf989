"""Curves of a running fit: certified values, and estimates without a certificate.

A trainer such as ``bcfw`` knows its own gap only roughly until it asks for a certificate, which costs a pass of the
oracle: its events carry ``gap_estimate`` and ``dual_estimate`` meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.plugin_api.training import TrainingEvent

if TYPE_CHECKING:
    from ssvm_dsl.learning.driver.certificate import FitReport


#: An axis is logarithmic when what it shows spans more than this factor.
WIDE = 10.0

#: Objectives more than this many times above what a fit has for most of its time are left out of the picture.
FAR = 2.0

#: Gaps this many times below what most fits reach are drawn at the edge.
DEEP = 1e3


@dataclass(frozen=True, eq=False)
class Curve:
    """One line of a plot.

    Parameters
    ----------
    kind : {"value", "bound", "estimate"}
        A certified value (or a score), a lower bound of the optimum, or an estimate of either.
    x, y : ndarray of float64, shape (n,)
        Finite numbers.
    below : bool
        Whether an estimate is one of the lower bound.
    """

    kind: str
    x: F64
    y: F64
    below: bool = False


def estimated(event: TrainingEvent) -> tuple[float, float, float]:
    """Return (objective, lower bound, relative gap) as the trainer estimates them, ``nan`` where it does not."""
    gap, dual = event.extra.get("gap_estimate", math.nan), event.extra.get("dual_estimate", math.nan)
    primal = gap + dual
    return primal, dual, gap / abs(primal) if primal else math.nan


def objective_curves(report: FitReport, over: str) -> list[Curve]:
    """Return the best objective so far, the best lower bound, and estimates of both.

    The scores of labellings of a heuristic backend give an estimate only.
    """
    lines = [
        Curve("value", *_known(report, over, lambda event: event.best_primal, report.primal)),
        Curve("bound", *_known(report, over, lambda event: event.best_dual, report.dual)),
    ]
    if not np.isfinite(report.primal):
        lines.append(Curve("estimate", *_known(report, over, lambda event: event.estimate, report.estimate)))
    for k, below in enumerate((False, True)):
        lines.append(Curve("estimate", *_guessed(report, over, k), below))
    return [line for line in lines if len(line.x)]


def gap_curves(report: FitReport, over: str) -> list[Curve]:
    """Return the certified relative gap, and estimates of it."""
    lines = [
        Curve("value", *_known(report, over, lambda event: event.relative_gap, report.relative_gap)),
        Curve("estimate", *_guessed(report, over, 2)),
    ]
    return [line for line in lines if len(line.x)]


def score_curves(report: FitReport, over: str) -> list[Curve]:
    """Return the scores on held-out examples."""
    scores = report.validation_scores
    x = np.array([getattr(report.history[k], over) for k in scores], dtype=float)
    return [Curve("value", x, np.array(list(scores.values()), dtype=float))] if scores else []


def _known(report: FitReport, over: str, read: Callable[[TrainingEvent], float], last: float) -> tuple[F64, F64]:
    """Return (x, y) of the events and of the end, whose certificate may be newer; finite ones only.

    With held-out examples the weights returned are others than those of the best objective: they are shown only
    where nothing else is known.
    """
    points = [(getattr(event, over), read(event)) for event in report.history]
    points = [(x, y) for x, y in points if np.isfinite(y)]
    news = np.isfinite(last) and (not points or (last != points[-1][1] and np.isnan(report.validation_score)))
    return _columns([*points, (getattr(report, over), last)] if news else points)


def _guessed(report: FitReport, over: str, k: int) -> tuple[F64, F64]:
    """Return (x, y) of the k-th estimate, with the values certified up to then."""
    points = []
    for event in report.history:
        known = (event.primal, event.dual, event.gap / abs(event.primal) if event.primal else math.nan)
        points.append((getattr(event, over), *(estimated(event)[k], known[k])))
    if not any(np.isfinite(guess) for _, guess, _ in points):
        return _columns([])
    drawn = [(x, guess if np.isfinite(guess) else value) for x, guess, value in points]
    return _columns([(x, y) for x, y in drawn if np.isfinite(y)])


def _columns(points: Sequence[tuple[float, float]]) -> tuple[F64, F64]:
    x, y = np.array(points, dtype=float).reshape(-1, 2).T
    return x, y


def is_wide(values: F64) -> bool:
    """Return whether positive values are better shown on a logarithmic axis."""
    return len(values) > 0 and float(values.min()) > 0.0 and float(values.max()) > WIDE * float(values.min())


def objective_limits(fits: Sequence[Sequence[Curve]], log_x: bool) -> tuple[float, float, bool]:
    """Return (lowest, highest, whether logarithmic) of an axis of objectives that shows all of most curves.

    Objectives are at least 0, so that bounds below say nothing; a fit that begins far above what it has for most of
    its way comes in from above the picture; and one that never comes near the others stays outside.
    """
    uppers = [line for lines in fits for line in lines if line.kind != "bound" and not line.below]
    lowers = [line.y for lines in fits for line in lines if line.kind == "bound" or line.below]
    if not uppers:
        return 0.0, 1.0, False
    best = min(float(line.y.min()) for line in uppers)
    near = [line for line in uppers if line.y.min() <= max(WIDE * best, best)]
    highest = min(max(float(line.y.max()) for line in near), FAR * max(_usual_top(line, log_x) for line in near))
    lowest = min([best, *(float(y.min()) for y in lowers)])
    if best > 0.0 and highest > WIDE * best:
        return max(lowest, best / WIDE), highest, True
    return (max(lowest, 0.0) if best >= 0.0 else lowest), highest, False


def _usual_top(line: Curve, log_x: bool) -> float:
    """Return the value a curve is below for nine tenths of its length along x."""
    x = np.log(line.x) if log_x else line.x
    length = np.diff(x, append=x[-1])
    if not length.sum() > 0.0:
        return float(line.y.min())
    order = np.argsort(line.y)
    share = np.cumsum(length[order]) / length.sum()
    return float(line.y[order][np.searchsorted(share, 0.9)])


def gap_limits(fits: Sequence[Sequence[Curve]]) -> tuple[float, float, bool]:
    """Return (lowest, highest, that it is logarithmic) of an axis of relative gaps.

    A gap above 1 says only that the lower bound is negative; and one fit that ends far below the others, or at 0,
    does not take the picture for itself.
    """
    ends = [min(float(line.y.min()) for line in lines) for lines in fits if lines]
    positive = [end for end in ends if end > 0.0]
    values = np.concatenate([line.y[line.y > 0.0] for lines in fits for line in lines] or [np.zeros(0)])
    if not len(values):
        return 1e-3, 1.0, True
    lowest = max(float(values.min()), float(np.median(positive)) / DEEP if positive else 0.0)
    return lowest, max(min(float(values.max()), 1.0), WIDE * lowest), True
