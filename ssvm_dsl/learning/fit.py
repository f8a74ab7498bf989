"""The driver: runs a trainer, decides when to stop, reports every iteration, keeps the best weights.

Stopping rules, callbacks, history and Ctrl-C live here once, for every trainer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.learning.checkpoint import Checkpoint
from ssvm_dsl.learning.progress import Progress
from ssvm_dsl.learning.validation import Validation
from ssvm_dsl.plugin_api.training import Iterate, StopRule, Trainer, TrainingEvent, TrainProblem

F64 = NDArray[np.float64]

#: Reasons to end before an iterate was good enough.
UNFINISHED = ("passes", "seconds", "callback", "validation", "interrupt")

#: Values of the objective among what trainers tell besides, as :class:`TrainingEvent` has it.
ESTIMATES = ("gap_estimate", "dual_estimate")

#: Reasons after which the weights may be worse than those of the start.
LIMITS = ("passes", "seconds", "callback")

#: Told about every iteration; returns True to stop.
Callback = Callable[[TrainingEvent], bool | None]


def train(
    trainer: Trainer,
    problem: TrainProblem,
    stop: StopRule,
    *,
    unit: float = 1.0,
    start: F64 | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    validation: Validation | None = None,
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
    checkpoint : Checkpoint, optional
        Where to go on from, and where to keep the state (of a :class:`ResumableTrainer`).
    validation : Validation, optional
        Ends training by the score on held-out examples; its best weights are returned.

    Notes
    -----
    Ctrl-C ends training; what is known so far is returned.
    """
    progress = Progress(np.zeros(problem.dim) if start is None else start.copy())
    keep_best = bool(getattr(trainer, "best_iterate", True))
    saved = None if checkpoint is None else checkpoint.read(problem)
    if saved is None:
        steps = trainer.steps(problem, stop, start)
    else:
        progress, state = saved
        steps = trainer.resume(problem, stop, state)  # type: ignore[attr-defined]
    begin = perf_counter() - progress.seconds
    reason = None if saved is None else _reason(progress, stop, False)
    try:
        while reason is None:
            iterate = next(steps, None)
            if iterate is None:
                reason = "ended"
                break
            progress.take(iterate, keep_best)
            if not progress.history and not (iterate.w.any() if start is None else (iterate.w != start).any()):
                progress.at_start = iterate.primal
            progress.seconds = perf_counter() - begin
            event = _event(progress, iterate, problem, 1 + len(progress.history), unit)
            progress.history.append(event)
            if checkpoint is not None:
                checkpoint.keep(progress, trainer, problem)  # type: ignore[arg-type]
            enough = validation is not None and validation.enough(iterate.w, event)
            asked = [callback(event) for callback in callbacks]
            reason = _reason(progress, stop, any(asked)) or ("validation" if enough else None)
            if checkpoint is not None and reason not in (None, "tolerance"):
                checkpoint.keep(progress, trainer, problem, now=True)  # type: ignore[arg-type]
            del iterate  # its vectors are not to wait for those of the next one
    except KeyboardInterrupt:
        reason = "interrupt"
    finally:
        steps.close()  # type: ignore[attr-defined]
    progress.reason = reason
    if reason in UNFINISHED and progress.history and np.isnan(progress.history[-1].primal):
        _conclude(trainer, progress, keep_best)
    if not np.isfinite(progress.w).all():
        name = type(trainer).__name__
        raise TrainingError(f"trainer {name}: its weights are no longer finite; set options that shorten its steps")
    if validation is not None and validation.w is not None:
        progress.w, progress.primal = validation.w, np.inf
    if not np.isfinite(progress.primal):
        progress.primal, progress.upper = problem.value(progress.w)
        progress.n_passes += 1.0
    if getattr(trainer, "compares_start", False) and keep_best and validation is None and reason in LIMITS:
        progress.compare_start(start, problem)
    progress.seconds = perf_counter() - begin
    if checkpoint is not None and progress.reason in ("tolerance", "ended"):
        checkpoint.remove()
    return progress


def _conclude(trainer: Trainer, progress: Progress, keep_best: bool) -> None:
    """Ask a trainer that can tell it for the certificate of its newest iterate."""
    certified: Callable[[], Iterate | None] | None = getattr(trainer, "certified", None)
    iterate = None if certified is None else certified()
    if iterate is not None:
        progress.take(iterate, keep_best)


def _reason(progress: Progress, stop: StopRule, asked: bool) -> str | None:
    """Return why training ends now, ``None`` when it goes on."""
    if progress.relative_gap <= stop.tol:
        return "tolerance"
    if asked:
        return "callback"
    if progress.n_passes >= stop.max_passes:
        return "passes"
    return "seconds" if progress.seconds >= stop.max_seconds else None


def _event(progress: Progress, iterate: Iterate, problem: TrainProblem, iteration: int, unit: float) -> TrainingEvent:
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
        extra={name: unit * value if name in ESTIMATES else value for name, value in iterate.extra.items()},
    )
