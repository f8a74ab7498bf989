"""The driver: runs a trainer, decides when to stop, reports every iteration, keeps the best weights.

Stopping rules, callbacks, history and Ctrl-C live here once, for every trainer.  So does what is believed of a trainer:
its iterates are checked (:mod:`ssvm_dsl.learning.claims`) before they count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import FileFormatError, PluginError
from ssvm_dsl.learning.base_problem import BaseProblem
from ssvm_dsl.learning.checkpoint import Checkpoint
from ssvm_dsl.learning.claims import Checked, Claims
from ssvm_dsl.learning.progress import Progress, relative
from ssvm_dsl.learning.validation import Validation
from ssvm_dsl.plugin_api.contained import contained
from ssvm_dsl.plugin_api.training import StopRule, Trainer, TrainingEvent

F64 = NDArray[np.float64]

#: Reasons to end before an iterate was good enough.
UNFINISHED = ("passes", "seconds", "callback", "validation", "interrupt")

#: Values of the objective among what trainers tell besides, as :class:`TrainingEvent` has it.
ESTIMATES = ("gap_estimate", "dual_estimate")

#: Reasons after which the weights may be worse than those of the start.
LIMITS = ("passes", "seconds", "callback")

#: What a trainer without more iterates yields.
_END = object()

#: Told about every iteration; returns True to stop.
Callback = Callable[[TrainingEvent], bool | None]


def train(
    trainer: Trainer,
    problem: BaseProblem,
    stop: StopRule,
    *,
    name: str = "",
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
    problem : BaseProblem
    stop : StopRule
    name : str
        The name of the trainer, for messages; by default that of its class.
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
    claims = Claims(problem, name or type(trainer).__name__)
    keep_best = bool(getattr(trainer, "best_iterate", True))
    saved = None if checkpoint is None else checkpoint.read(problem)
    state = None
    if saved is not None:
        progress, state = saved
    steps = _steps(trainer, problem, stop, start, state, claims.trainer, checkpoint)
    begin = perf_counter() - progress.seconds
    reason = None if saved is None else _reason(progress, stop, False)
    try:
        while reason is None:
            iterate = next(steps, _END)
            if iterate is _END:
                reason = "ended"
                break
            checked = _take(progress, claims, iterate, keep_best, stop)
            iterate = checked.iterate
            if not progress.history and not (iterate.w.any() if start is None else (iterate.w != start).any()):
                progress.at_start = np.nan if checked.evaluation is None else checked.evaluation.upper
            progress.seconds = perf_counter() - begin
            event = _event(progress, checked, problem, 1 + len(progress.history), unit)
            progress.history.append(event)
            if checkpoint is not None:
                checkpoint.keep(progress, trainer, problem)  # type: ignore[arg-type]
            enough = validation is not None and validation.enough(iterate.w, event)
            asked = [callback(event) for callback in callbacks]
            reason = _reason(progress, stop, any(asked)) or ("validation" if enough else None)
            if checkpoint is not None and reason not in (None, "tolerance"):
                checkpoint.keep(progress, trainer, problem, now=True)  # type: ignore[arg-type]
            del iterate, checked  # its vectors are not to wait for those of the next one
    except KeyboardInterrupt:
        reason = "interrupt"
    finally:
        steps.close()
    progress.reason = reason
    if reason in UNFINISHED and progress.history and np.isnan(progress.history[-1].estimate):
        _conclude(trainer, progress, claims, keep_best, stop)
    if validation is not None and validation.w is not None:
        progress.w = validation.w
    if problem.evaluations.at(progress.w) is None:
        progress.n_passes += 1.0
    progress.value(problem.evaluation(progress.w), problem)
    if getattr(trainer, "compares_start", False) and keep_best and validation is None and reason in LIMITS:
        progress.compare_start(start, problem)
    progress.settle(claims.false, stop.tol)
    progress.seconds = perf_counter() - begin
    if checkpoint is not None and progress.reason in ("tolerance", "ended"):
        checkpoint.remove()
    return progress


def _steps(
    trainer: Trainer,
    problem: BaseProblem,
    stop: StopRule,
    start: F64 | None,
    state: dict[str, Any] | None,
    name: str,
    checkpoint: Checkpoint | None,
) -> Iterator[Any]:
    """Yield what a trainer yields; whatever goes wrong in it becomes an error that names it."""
    whose = contained(f"trainer '{name}'")
    try:
        with whose:
            found: Any = trainer.steps(problem, stop, start) if state is None else trainer.resume(problem, stop, state)  # type: ignore[attr-defined]
    except FileFormatError as err:
        raise FileFormatError(f"{'' if checkpoint is None else checkpoint.path}: {err}") from err
    if not isinstance(found, Iterator):
        text = f"steps() returned {type(found).__name__}, expected a generator of iterates"
        raise PluginError(f"trainer '{name}' broke its contract: {text}")
    try:
        while True:
            with whose:
                iterate = next(found, _END)
            if iterate is _END:
                return
            yield iterate
            del iterate  # its vectors are not to wait for those of the next one
    finally:
        close = getattr(found, "close", None)
        if close is not None:
            with whose:
                close()


def _take(progress: Progress, claims: Claims, iterate: Any, keep_best: bool, stop: StopRule) -> Checked:
    """Take an iterate; one whose trainer takes it for good enough is evaluated first."""
    checked = claims.check(iterate)
    if checked.evaluation is None and _relative(checked, progress) <= stop.tol:
        checked = claims.evaluated(checked)
        progress.own_passes += 1.0
    if claims.false:
        progress.withdraw(claims.false)
    progress.take(checked, keep_best, claims.problem)
    return checked


def _relative(checked: Checked, progress: Progress) -> float:
    """Return the relative gap as a trainer has it, by the best lower bound."""
    upper = checked.iterate.upper
    return relative(upper - max(progress.dual, checked.bound.dual), upper)


def _conclude(trainer: Trainer, progress: Progress, claims: Claims, keep_best: bool, stop: StopRule) -> None:
    """Ask a trainer that can tell it for the certificate of its newest iterate."""
    certified: Callable[[], Any] | None = getattr(trainer, "certified", None)
    if certified is None:
        return
    with contained(f"trainer '{claims.trainer}'"):
        iterate = certified()
    if iterate is not None:
        _take(progress, claims, iterate, keep_best, stop)


def _reason(progress: Progress, stop: StopRule, asked: bool) -> str | None:
    """Return why training ends now, ``None`` when it goes on."""
    if progress.relative_gap <= stop.tol:
        return "tolerance"
    if progress.limited <= stop.tol:
        return "rounding"
    if asked:
        return "callback"
    if progress.n_passes >= stop.max_passes:
        return "passes"
    return "seconds" if progress.seconds >= stop.max_seconds else None


def _event(progress: Progress, checked: Checked, problem: BaseProblem, iteration: int, unit: float) -> TrainingEvent:
    """Return what callbacks are told; what a trainer claims and nothing proves is an estimate."""
    iterate, evaluation, known = checked.iterate, checked.evaluation, np.isfinite(progress.primal)
    extra = {name: unit * value if name in ESTIMATES else value for name, value in iterate.extra.items()}
    if np.isfinite(checked.claimed_gap):
        extra = {"gap_estimate": unit * checked.claimed_gap, "dual_estimate": unit * iterate.dual} | extra
    return TrainingEvent(
        iteration=iteration,
        n_passes=progress.n_passes,
        seconds=progress.seconds,
        primal=np.nan if evaluation is None else unit * evaluation.upper,
        dual=unit * checked.bound.dual,
        gap=unit * progress.gap if known else np.nan,
        relative_gap=progress.relative_gap,
        best_primal=unit * progress.primal if known else np.nan,
        best_dual=unit * progress.dual,
        n_oracle_calls=problem.n_oracle_calls,
        oracle_seconds=problem.oracle_seconds,
        extra=extra,
        estimate=np.nan if evaluation is None else unit * evaluation.estimate,
    )
