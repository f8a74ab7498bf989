"""The driver: runs a trainer, decides when to stop, reports every iteration, keeps the best weights.

Stopping rules, callbacks, history and Ctrl-C live here once, for every trainer.  Time is looked at inside iterations,
by oracle calls and by trainers (``TrainProblem.pause``); when it is over, or Ctrl-C comes, what they do is left by an
exception, and what is known of the best weights is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import OutOfTime, TrainingError
from ssvm_dsl.inference.deadline import Deadline
from ssvm_dsl.learning.checkpoint import Checkpoint
from ssvm_dsl.learning.progress import Progress
from ssvm_dsl.learning.risks import Problem
from ssvm_dsl.learning.validation import Validation
from ssvm_dsl.plugin_api.training import Iterate, StopRule, Trainer, TrainingEvent

F64 = NDArray[np.float64]

#: Reasons to end before an iterate was good enough.
UNFINISHED = ("passes", "seconds", "callback", "validation", "interrupt")

#: Values of the objective among what trainers tell besides, as :class:`TrainingEvent` has it.
ESTIMATES = ("gap_estimate", "dual_estimate")

#: Reasons after which the weights may be worse than those of the start.
LIMITS = ("passes", "seconds", "callback")

#: Seconds that may be taken, after Ctrl-C, to tell what the best weights are worth.
AFTER_INTERRUPT = 1.0

#: Passes over the data that a certificate is taken to last; and seconds that it may be late.
CERTIFICATE, NEGLIGIBLE = 1.25, 0.05

#: Told about every iteration; returns True to stop.
Callback = Callable[[TrainingEvent], bool | None]


def train(
    trainer: Trainer,
    problem: Problem,
    stop: StopRule,
    *,
    unit: float = 1.0,
    start: F64 | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    validation: Validation | None = None,
    deadline: Deadline | None = None,
) -> Progress:
    """Run a trainer until a stopping rule holds.

    Parameters
    ----------
    trainer : Trainer
    problem : Problem
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
    deadline : Deadline, optional
        When the call must end that this is part of; by default ``stop.max_seconds`` from now on.

    Notes
    -----
    Time and Ctrl-C end training inside an iteration, too; what is known by then is returned.
    """
    deadline = Deadline(stop.max_seconds) if deadline is None else deadline
    progress = Progress(np.zeros(problem.dim) if start is None else start.copy())
    keep_best = bool(getattr(trainer, "best_iterate", True))
    problem.within(deadline)
    saved = None if checkpoint is None else checkpoint.read(problem)
    if saved is not None:
        progress = saved[0]
        deadline.limit -= progress.seconds
    left = replace(stop, max_seconds=deadline.left)
    steps = trainer.steps(problem, left, start) if saved is None else trainer.resume(problem, left, saved[1])  # type: ignore[attr-defined]
    earlier, last = progress.seconds, deadline.spent
    reason, inside = None if saved is None else _reason(progress, stop, False), True
    try:
        while reason is None:
            iterate = next(steps, None)
            if iterate is None:
                reason = "ended"
                break
            progress.take(iterate, keep_best)
            if not progress.history and not (iterate.w.any() if start is None else (iterate.w != start).any()):
                progress.at_start = iterate.primal
            progress.seconds = earlier + deadline.spent
            event = _event(progress, iterate, problem, 1 + len(progress.history), unit)
            progress.history.append(event)
            took, last = deadline.spent - last, deadline.spent
            if checkpoint is not None:  # the next iteration may not come to its end
                checkpoint.keep(progress, trainer, problem, now=deadline.left < 2.0 * took)  # type: ignore[arg-type]
            enough = validation is not None and validation.enough(iterate.w, event)
            asked = [callback(event) for callback in callbacks]
            reason = _reason(progress, stop, any(asked)) or ("validation" if enough else None)
            if checkpoint is not None and reason not in (None, "tolerance"):
                checkpoint.keep(progress, trainer, problem, now=True)  # type: ignore[arg-type]
            deadline.reserve = _reserve(problem, deadline, certain=not np.isnan(iterate.primal))
            del iterate  # its vectors are not to wait for those of the next one
        inside = False
    except OutOfTime:
        reason = "seconds"
    except KeyboardInterrupt:
        reason = "interrupt"
    finally:
        steps.close()  # type: ignore[attr-defined]
    progress.reason = reason
    deadline.reserve = 0.0
    problem.within(Deadline(AFTER_INTERRUPT if reason == "interrupt" else max(deadline.left, NEGLIGIBLE)))
    if inside and not progress.history:
        _take_newest(trainer, progress)
    try:
        _conclude(trainer, problem, progress, start, validation, keep_best, inside)
    except OutOfTime:
        pass
    except KeyboardInterrupt:
        progress.reason, progress.interrupted_twice = "interrupt", True
    if not np.isfinite(progress.w).all():
        name = type(trainer).__name__
        raise TrainingError(f"trainer {name}: its weights are no longer finite; set options that shorten its steps")
    if not np.isfinite(progress.primal):
        progress.primal, progress.upper = np.nan, np.nan
    progress.seconds = earlier + deadline.spent
    if checkpoint is not None and progress.reason in ("tolerance", "ended"):
        checkpoint.remove()
    return progress


def _pass_seconds(problem: Problem) -> float:
    """Return how long a pass over the data takes, as far as it is known."""
    return problem.oracle_seconds / max(problem.n_oracle_calls, 1) * problem.n


def _reserve(problem: Problem, deadline: Deadline, certain: bool) -> float:
    """Return the seconds to keep for a certificate of the newest weights; none where it would not fit or is there."""
    if certain or deadline.limit == np.inf:
        return 0.0
    deadline.reserve, wanted = 0.0, CERTIFICATE * _pass_seconds(problem)
    return wanted if wanted < deadline.left else 0.0


def _take_newest(trainer: Trainer, progress: Progress) -> None:
    """Take the weights of a first iteration that did not come to its end."""
    newest: Callable[[], F64 | None] | None = getattr(trainer, "newest", None)
    w = None if newest is None else newest()
    if w is not None and np.isfinite(w).all():
        progress.w = w.copy()


def _conclude(
    trainer: Trainer, problem: Problem, progress: Progress, start: F64 | None, validation: Validation | None,
    keep_best: bool, inside: bool,
) -> None:  # fmt: skip
    """Look at the weights that are returned, as far as there is time: a pass that would not fit is not begun.

    Parameters are those of :func:`train`; ``inside`` tells that training ended inside an iteration.
    """

    def fits() -> bool:
        return _pass_seconds(problem) <= problem.deadline.left

    unknown = inside or (bool(progress.history) and bool(np.isnan(progress.history[-1].primal)))
    if progress.reason in UNFINISHED and unknown and fits():
        certified: Callable[[], Iterate | None] | None = getattr(trainer, "certified", None)
        iterate = None if certified is None else certified()
        if iterate is not None:
            progress.take(iterate, keep_best)
    if validation is not None and validation.w is not None:
        progress.w, progress.primal = validation.w, np.inf
    if not np.isfinite(progress.primal) and np.isfinite(progress.w).all() and fits():
        progress.primal, progress.upper = problem.value(progress.w)
        progress.n_passes += 1.0
    compares = getattr(trainer, "compares_start", False) and keep_best and validation is None
    if compares and progress.reason in LIMITS and np.isfinite(progress.primal) and fits():
        progress.compare_start(start, problem)
    if problem.tightness_is_free or fits():
        progress.tightness = problem.tightness(progress.w)


def _reason(progress: Progress, stop: StopRule, asked: bool) -> str | None:
    """Return why training ends now, ``None`` when it goes on."""
    if progress.relative_gap <= stop.tol:
        return "tolerance"
    if asked:
        return "callback"
    if progress.n_passes >= stop.max_passes:
        return "passes"
    return "seconds" if progress.seconds >= stop.max_seconds else None


def _event(progress: Progress, iterate: Iterate, problem: Problem, iteration: int, unit: float) -> TrainingEvent:
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
