"""The driver: runs a trainer, decides when to stop, reports every iteration, keeps the best weights.

Stopping rules, callbacks, history and Ctrl-C live here once, for every trainer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.plugin_api.protocols import Iterate, StopRule, Trainer, TrainingEvent, TrainProblem

F64 = NDArray[np.float64]

#: Told about every iteration; returns True to stop.
Callback = Callable[[TrainingEvent], bool | None]


@dataclass(eq=False)
class Progress:
    """What is known while training; values of the objective in lam convention."""

    w: F64
    primal: float = np.inf
    upper: float = np.nan
    dual: float = -np.inf
    n_passes: float = 0.0
    reason: str = "passes"
    seconds: float = 0.0
    history: list[TrainingEvent] = field(default_factory=list)

    def take(self, iterate: Iterate, keep_best: bool) -> None:
        """Take an iterate: the dual bound only rises, the weights follow the best objective (or the newest)."""
        self.n_passes = iterate.n_passes
        self.dual = max(self.dual, iterate.dual)
        known = not np.isnan(iterate.primal)
        if not keep_best or (known and iterate.primal < self.primal) or not np.isfinite(self.primal):
            self.w = iterate.w.copy()
            self.primal = iterate.primal if known else np.inf
            self.upper = iterate.upper if known else np.nan

    @property
    def gap(self) -> float:
        """Certified gap of the kept weights, ``nan`` without bounds."""
        return self.upper - self.dual

    @property
    def relative_gap(self) -> float:
        """Certified gap over the size of the objective."""
        return relative(self.gap, self.primal)


def relative(gap: float, primal: float) -> float:
    """Return ``gap / |primal|`` (0 when both are 0)."""
    if not np.isfinite(primal) or np.isnan(gap):
        return np.nan
    return gap / max(abs(primal), 1e-300) if gap > 0.0 else 0.0


def train(
    trainer: Trainer,
    problem: TrainProblem,
    stop: StopRule,
    *,
    unit: float = 1.0,
    start: F64 | None = None,
    callbacks: Sequence[Callback] = (),
) -> Progress:
    """Run a trainer until a stopping rule holds.

    Parameters
    ----------
    trainer : Trainer
    problem : TrainProblem
    stop : StopRule
    unit : float
        Factor that turns objective values into the user's convention, for events.
    start : ndarray of float64, shape (dim,), optional
        Weights to start from.
    callbacks : sequence of callables
        Told about every iteration; one that returns True stops training.

    Notes
    -----
    Ctrl-C ends training; what is known so far is returned.
    """
    begin = perf_counter()
    progress = Progress(np.zeros(problem.dim) if start is None else start.copy())
    keep_best = bool(getattr(trainer, "best_iterate", True))
    steps = trainer.steps(problem, stop, start)
    try:
        for iteration, iterate in enumerate(steps, 1):
            progress.take(iterate, keep_best)
            progress.seconds = perf_counter() - begin
            event = _event(progress, iterate, problem, iteration, unit)
            progress.history.append(event)
            asked = [callback(event) for callback in callbacks]
            reason = _reason(progress, stop, any(asked))
            if reason is not None:
                progress.reason = reason
                break
    except KeyboardInterrupt:
        progress.reason = "interrupt"
    finally:
        steps.close()  # type: ignore[attr-defined]
    if not np.isfinite(progress.primal):
        progress.primal, progress.upper = problem.value(progress.w)
        progress.n_passes += 1.0
    progress.seconds = perf_counter() - begin
    return progress


def _reason(progress: Progress, stop: StopRule, asked: bool) -> str | None:
    """Return why training ends now, ``None`` when it goes on."""
    if progress.relative_gap <= stop.tol:
        return "tolerance"
    if asked:
        return "callback"
    if progress.n_passes >= stop.max_passes:
        return "passes"
    return "seconds" if progress.seconds >= stop.max_seconds else None


def _event(
    progress: Progress, iterate: Iterate, problem: TrainProblem, iteration: int, unit: float
) -> TrainingEvent:
    known = np.isfinite(progress.primal)
    return TrainingEvent(
        iteration=iteration,
        n_passes=iterate.n_passes,
        seconds=progress.seconds,
        primal=unit * iterate.primal,
        dual=unit * iterate.dual,
        gap=unit * progress.gap if known else np.nan,
        relative_gap=progress.relative_gap,
        best_primal=unit * progress.primal if known else np.nan,
        best_dual=unit * progress.dual,
        n_oracle_calls=problem.n_oracle_calls,
        oracle_seconds=problem.oracle_seconds,
        extra=dict(iterate.extra),
    )
