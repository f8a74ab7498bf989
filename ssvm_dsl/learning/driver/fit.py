"""The driver: runs a trainer, decides when to stop, reports every iteration, keeps the best weights.

Stopping rules, callbacks, history and Ctrl-C live here once, for every trainer.  So does what is believed of a trainer:
its iterates are checked (:mod:`ssvm_dsl.learning.driver.claims`) before they count.

Time is looked at inside iterations, by oracle calls and by trainers (``TrainProblem.pause``).  When it is over, or
Ctrl-C comes, what they do is left by an exception, and what is known of the best weights is returned.

Of the time that a fit has, as much is kept back as a pass over the data takes, while the newest weights are not
evaluated yet.  Where that is not enough, some examples are looked at, and the objective is bounded from above all the
same (:mod:`ssvm_dsl.learning.risks.ceilings`); from below it is bounded by the trainer's planes, or by 0.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import DataError, FileFormatError, OutOfTime, PluginError
from ssvm_dsl.learning.driver.checkpoint import Checkpoint
from ssvm_dsl.learning.driver.claims import Checked, Claims
from ssvm_dsl.learning.driver.evaluations import Evaluation
from ssvm_dsl.learning.driver.progress import Progress, relative
from ssvm_dsl.learning.driver.validation import Validation
from ssvm_dsl.learning.estimators.fitting.stream import check_weights
from ssvm_dsl.learning.risks.kinds import Problem
from ssvm_dsl.plugin_api.hosting.contained import contained, kept_surroundings
from ssvm_dsl.plugin_api.specs import TrainerSpec
from ssvm_dsl.plugin_api.training import (
    AnytimeTrainer,
    ConcludingTrainer,
    ResumableTrainer,
    RunningEvent,
    StopRule,
    Trainer,
    TrainingEvent,
)
from ssvm_dsl.registry import registry

#: Reasons to end before an iterate was good enough.
UNFINISHED = ("passes", "seconds", "callback", "validation", "interrupt")

#: Values of the objective among what trainers tell besides, as :class:`TrainingEvent` has it.
ESTIMATES = ("gap_estimate", "dual_estimate")

#: Reasons to end because an iterate was good enough, by a certificate or by the labellings found.
REACHED = ("tolerance", "estimate", "bounds")

#: Reasons after which the weights may be worse than those of the start: what is within the tolerance of the optimum may
#: be worse than what a fit goes on from, which was nearer to it.
LIMITS = ("passes", "seconds", "callback")
WARM_LIMITS = (*LIMITS, *REACHED)

#: Reasons after which a smaller objective may be known without a look at the examples.
IMPROVABLE = (*LIMITS, "ended", "rounding", "bounds")

#: Seconds that may be taken, after Ctrl-C, to tell what the best weights are worth.
AFTER_INTERRUPT = 1.0

#: Passes over the data that a certificate is taken to last: the objective, and what a trainer does for its plane.
EVALUATION, PLANE = 1.25, 0.75

#: Seconds that a certificate may be late, or this share of the limit.
NEGLIGIBLE, GRACE = 0.05, 0.03

#: Largest share of the time that is kept back for a certificate, and least share of a pass that tells what one takes.
MOST_KEPT, MEASURED = 0.75, 0.05

#: Largest share of the time that is kept back for noticing late that time is up.
MOST_LATE = 0.1

#: What a trainer without more iterates yields.
_END = object()

#: Told about every iteration; returns True to stop.
Callback = Callable[[TrainingEvent], bool | None]


def train(
    trainer: Trainer,
    problem: Problem,
    stop: StopRule,
    *,
    spec: TrainerSpec,
    keep_best: bool = True,
    unit: float = 1.0,
    start: F64 | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    validation: Validation | None = None,
    deadline: Deadline | None = None,
    model_of: Callable[[F64], Any] | None = None,
) -> Progress:
    """Run a trainer until a stopping rule holds.

    Parameters
    ----------
    trainer : Trainer
    problem : Problem
    stop : StopRule
    spec : TrainerSpec
        The description of the trainer.
    keep_best : bool
        Whether the iterate with the lowest objective is returned, not the last one.
    unit : float
        Factor that turns objective values into the user's convention, for events.
    start : ndarray of float64, shape (dim,), optional
        Weights to start from.
    callbacks : sequence of callables
        Called after every iteration; one that returns True stops training.
    checkpoint : Checkpoint, optional
        Where to resume from, and where to store the state (of a :class:`ResumableTrainer`).
    validation : Validation, optional
        Ends training by the score on held-out examples; its best weights are returned.
    deadline : Deadline, optional
        When the call must end that this is part of; by default ``stop.max_seconds`` from now on.
    model_of : callable, optional
        Returns an estimator with given weights, for callbacks.

    Notes
    -----
    Time and Ctrl-C end training inside an iteration, too; the result known by then is returned.
    """
    fit = FitLoop(trainer, problem, stop, spec, keep_best, start, validation, deadline or Deadline(stop.max_seconds))
    state = None if checkpoint is None else fit.go_on_from(checkpoint)
    left = replace(stop, max_seconds=fit.deadline.left)
    steps = _steps(trainer, problem, left, start, state, spec, checkpoint)
    progress, reason, inside = fit.progress, None if state is None else _reason(fit.progress, stop, False, None), True
    if fit.deadline.over and not progress.history:  # what came before took all of it
        reason, inside = "seconds", False
    try:
        while reason is None:
            with within(fit.deadline):  # what trainers call may take long, too, and knows nothing of the fit
                iterate = next(steps, _END)
            if iterate is _END:
                reason = "ended"
                break
            checked = fit.take(iterate)
            event = _event(progress, checked, problem, 1 + len(progress.history), unit)
            progress.history.append(event)
            if checkpoint is not None:
                checkpoint.keep(progress, cast(ResumableTrainer, trainer), problem, now=fit.is_near_its_end())
            enough = validation is not None and validation.enough(checked.iterate.w, event)
            shown = event
            if model_of is not None:  # for callbacks that ask for an estimator
                shown = RunningEvent(**vars(event), make=lambda: model_of(progress.w.copy()))
            asked = [callback(shown) for callback in callbacks]
            reason = _reason(progress, stop, any(asked), checked) or ("validation" if enough else None)
            if checkpoint is not None and reason not in (None, *REACHED):
                checkpoint.keep(progress, cast(ResumableTrainer, trainer), problem, now=True)
            del iterate, checked  # its vectors are not to wait for those of the next one
        inside = False
    except OutOfTime:
        reason = "seconds"
    except KeyboardInterrupt:
        reason = "interrupt"
    finally:
        steps.close()
    progress.reason = reason
    try:
        fit.finish(inside)
    except DataError as err:
        if checkpoint is None or state is None:
            raise
        raise _led_astray(checkpoint.path, err) from err
    if checkpoint is not None and progress.reason in (*REACHED, "ended"):
        checkpoint.remove()
    return progress


@dataclass(eq=False)
class FitLoop:
    """One call of :func:`train`; parameters are those."""

    trainer: Trainer
    problem: Problem
    stop: StopRule
    spec: TrainerSpec
    keep_best: bool
    start: F64 | None
    validation: Validation | None
    deadline: Deadline

    def __post_init__(self) -> None:
        problem = self.problem
        self.progress = Progress(np.zeros(problem.dim) if self.start is None else self.start.copy())
        self.claims = Claims(problem, self.spec.name)
        self.earlier, self.took, self.last = 0.0, 0.0, self.deadline.spent
        self.owed, self.newest = self.spec.anytime, _Measure()
        self.looked, self.longest_gap = self.deadline.spent, 0.0
        problem.within(self.deadline)
        if self.deadline.limit < np.inf:
            problem.keeps_back = self._kept_back

    def go_on_from(self, checkpoint: Checkpoint) -> dict[str, Any] | None:
        """Take over what a checkpoint holds; return the state of the trainer, if there is one."""
        saved = checkpoint.read(self.problem)
        if saved is None:
            return None
        self.progress, state = saved
        self.claims.false = self.progress.withdrawn
        self.earlier = self.progress.seconds
        self.deadline.limit -= self.earlier
        return state

    def take(self, iterate: Any) -> Checked:
        """Take an iterate into what is known, and keep back the time that its certificate may take.

        One whose trainer takes it for good enough, by the best lower bound, is evaluated first.
        """
        progress, start, problem = self.progress, self.start, self.problem
        checked = self.claims.check(iterate)
        upper, w = checked.iterate.upper, checked.iterate.w
        claimed = relative(upper - max(progress.dual, checked.dual), upper)
        if checked.evaluation is None and claimed <= self.stop.tol:
            checked = self.claims.check(iterate, evaluate=True)
            progress.own_passes += 1.0
        if self.claims.false:
            progress.withdraw(self.claims.false)
        progress.take(checked, self.keep_best, problem)
        if not progress.history and not (w.any() if start is None else (w != start).any()):
            progress.at_start = np.nan if checked.evaluation is None else checked.evaluation.upper
        spent = self.deadline.spent
        self.took, self.last = spent - self.last, spent
        progress.seconds = self.earlier + spent
        self.newest = _Measure(problem.n_oracle_calls, problem.oracle_seconds, self._pass_seconds())
        self.owed = checked.evaluation is None and (self.spec.concluding or bool(np.isnan(progress.primal)))
        self.deadline.reserve = self._kept_back()
        return checked

    def is_near_its_end(self) -> bool:
        """Whether the next iteration may not end in time."""
        return self.deadline.left < 2.0 * self.took

    def finish(self, inside: bool) -> None:
        """Evaluate the returned weights, as far as there is time for it.

        Parameters
        ----------
        inside : bool
            Whether training ended inside an iteration.
        """
        progress, deadline, problem = self.progress, self.deadline, self.problem
        begun, asked = deadline.spent, problem.oracle_seconds
        problem.keeps_back, deadline.reserve = None, 0.0
        left = max(deadline.left, NEGLIGIBLE, GRACE * deadline.limit)
        if progress.reason == "interrupt":  # a backend that did not come back is not asked again
            left = 0.0 if problem.waited > AFTER_INTERRUPT else AFTER_INTERRUPT
        problem.within(Deadline(left))
        if inside and not progress.history:
            self._take_newest()
        try:
            self._conclude(inside)
        except OutOfTime:
            pass  # what is known stays
        except KeyboardInterrupt:
            progress.reason, progress.interrupted_twice = "interrupt", True
        progress.compare_bounds(self.claims.false, self.stop.tol)
        progress.oracle_seconds, progress.evaluation_seconds = asked, deadline.spent - begun
        progress.seconds, progress.earlier_seconds = self.earlier + deadline.spent, self.earlier

    def _pass_seconds(self) -> float:
        """Return how long a pass over the data takes now, as far as that is known."""
        problem, last = self.problem, self.newest
        calls = problem.n_oracle_calls - last.n_calls
        now = problem.n * (problem.oracle_seconds - last.seconds) / calls if calls >= MEASURED * problem.n else 0.0
        return max(problem.pass_seconds(), now, last.pass_seconds if now == 0.0 else 0.0)

    def _kept_back(self) -> float:
        """Return the seconds to keep back for looking at the newest weights; none where that would take too long.

        Whoever works looks at the clock now and then: the end is noticed late by the longest stretch in between.
        """
        problem, limit, spent = self.problem, self.deadline.limit, self.deadline.spent
        self.looked, self.longest_gap = spent, max(self.longest_gap, spent - self.looked)
        measured = problem.n_oracle_calls >= MEASURED * problem.n or problem.oracle_seconds >= MEASURED * limit
        if not (self.owed and measured):
            return 0.0
        passes = EVALUATION + (PLANE if self.spec.concluding else 0.0)
        wanted = passes * self._pass_seconds() + min(self.longest_gap, MOST_LATE * limit)
        return wanted if wanted <= MOST_KEPT * limit else 0.0

    def _fits(self) -> bool:
        """Whether there is time for a whole pass; otherwise none is begun."""
        return self._pass_seconds() <= self.problem.deadline.left

    def _take_newest(self) -> None:
        """Take the weights of an unfinished first iteration."""
        if not self.spec.anytime:
            return
        with contained(f"trainer '{self.claims.trainer}'"):
            w = cast(AnytimeTrainer, self.trainer).newest()
        if w is not None:
            self.progress.w = check_weights((w, None), self.problem.dim, self.claims.trainer)[0].copy()

    def _ask_for_certificate(self) -> None:
        """Ask a trainer for its newest iterate with the plane, and look at the weights; where time is up, at the plane.

        Where the best weights so far are known, newer ones are looked at if there is time for all of the examples.
        """
        if not self.spec.concluding:
            return
        try:
            with contained(f"trainer '{self.claims.trainer}'"):
                iterate = cast(ConcludingTrainer, self.trainer).certified()
        except OutOfTime:  # the weights kept are looked at all the same
            return
        if iterate is None:
            return
        progress, problem = self.progress, self.problem
        checked = self.claims.check(iterate)
        if checked.evaluation is None and (np.isnan(progress.primal) or self._fits()):
            self._look_at(iterate.w)
            checked = self.claims.check(iterate)
        if self.claims.false:
            progress.withdraw(self.claims.false)
        progress.take(checked, self.keep_best, problem)

    def _look_at(self, w: F64) -> Evaluation:
        """Return the computable values of the objective at w; count the pass, or its completed part."""
        progress, problem, before = self.progress, self.problem, self.problem.n_oracle_calls
        values = problem.evaluation_in_time(w)
        share = min(1.0, (problem.n_oracle_calls - before) / problem.n)
        progress.n_passes, progress.own_passes = progress.n_passes + share, progress.own_passes + share
        return values

    def _conclude(self, inside: bool) -> None:
        """Look for the certificate of the newest weights, the objective of those returned, and better ones."""
        progress, problem = self.progress, self.problem
        unknown = inside or (bool(progress.history) and bool(np.isnan(progress.history[-1].estimate)))
        if progress.reason in UNFINISHED and unknown:
            self._ask_for_certificate()
        if self.validation is not None and self.validation.w is not None:
            progress.w = self.validation.w
            progress.value(problem.evaluations.at(progress.w), problem)
        progress.value(problem.evaluations.at(progress.w) or self._look_at(progress.w), problem)
        compares = self.start is not None or self.spec.compares_start
        compares = compares and self.keep_best and self.validation is None
        if compares and progress.reason in (LIMITS if self.start is None else WARM_LIMITS) and self._fits():
            progress.compare_start(self.start, problem)
        if self.spec.certifies and self.keep_best and self.validation is None and progress.reason in IMPROVABLE:
            progress.compare_zero(problem, self.stop.tol)
        if problem.tightness_is_free or self._fits():
            progress.tightness = problem.tightness(progress.w)


@dataclass(frozen=True, eq=False)
class _Measure:
    """What oracle calls had taken at some time.

    Parameters
    ----------
    n_calls : int
    seconds : float
        Of these calls.
    pass_seconds : float
        A pass over the data, by the calls right before.
    """

    n_calls: int = 0
    seconds: float = 0.0
    pass_seconds: float = 0.0


def _steps(
    trainer: Trainer,
    problem: Problem,
    stop: StopRule,
    start: F64 | None,
    state: dict[str, Any] | None,
    spec: TrainerSpec,
    checkpoint: Checkpoint | None,
) -> Generator[Any, None, None]:
    """Yield the trainer's iterates; convert its exceptions to errors that name it."""
    guard, kept = contained(f"trainer '{spec.name}'"), _kept(spec)
    place = "" if checkpoint is None else checkpoint.path
    try:
        with guard, kept:
            resumed = cast(ResumableTrainer, trainer)
            steps: Any = trainer.steps(problem, stop, start) if state is None else resumed.resume(problem, stop, state)
    except FileFormatError as err:
        raise FileFormatError(f"{place}: {err}") from err
    if not isinstance(steps, Iterator):
        text = f"steps() returned {type(steps).__name__}, expected a generator of iterates"
        raise PluginError(f"trainer '{spec.name}' broke its contract: {text}")
    try:
        while True:
            with guard, kept:
                iterate = next(steps, _END)
            if iterate is _END:
                return
            yield iterate
            del iterate  # its vectors are not to wait for those of the next one
    except (DataError, PluginError) as err:
        if state is None:
            raise
        raise _led_astray(place, err) from err
    finally:
        if isinstance(steps, Generator):
            with guard, kept:
                steps.close()


def _led_astray(path: Any, err: Exception) -> FileFormatError:
    """Return the error of a fit that a checkpoint has led to an error."""
    return FileFormatError(f"{path}: damaged, or not of these data; it leads to an error: {err}")


def _kept(spec: TrainerSpec) -> AbstractContextManager[None]:
    """Return what puts back what steps of a stranger's trainer change in the process."""
    known = registry()
    if spec not in known.specs(TrainerSpec):  # the kit looks at descriptions that nobody has registered
        return kept_surroundings(f"trainer '{spec.name}'", set())
    return nullcontext() if known.owner(spec).bundled else kept_surroundings(known.describe_owner(spec), set())


def _reason(progress: Progress, stop: StopRule, asked: bool, newest: Checked | None) -> str | None:
    """Return why training ends now, ``None`` if it continues; ``newest`` is the last iterate."""
    if progress.relative_gap <= stop.tol:
        return "tolerance"
    if progress.relative_estimate <= stop.tol:
        return "estimate"
    if progress.at_rounding(stop.tol):
        return "rounding"
    if newest is not None and progress.at_bounds(newest.evaluation, stop.tol):
        return "bounds"
    if asked:
        return "callback"
    if progress.n_passes >= stop.max_passes:
        return "passes"
    return "seconds" if progress.seconds >= stop.max_seconds else None


def _event(progress: Progress, checked: Checked, problem: Problem, iteration: int, unit: float) -> TrainingEvent:
    """Return the event for callbacks; a trainer's claims that nothing proves are estimates."""
    iterate, evaluation, known = checked.iterate, checked.evaluation, np.isfinite(progress.primal)
    extra = {name: unit * value if name in ESTIMATES else value for name, value in iterate.extra.items()}
    claimed = iterate.upper - iterate.dual
    if np.isfinite(claimed) and (evaluation is None or not np.isfinite(checked.dual)):
        extra = {"gap_estimate": unit * claimed, "dual_estimate": unit * iterate.dual} | extra
    return TrainingEvent(
        iteration=iteration,
        n_passes=progress.n_passes,
        seconds=progress.seconds,
        primal=np.nan if evaluation is None else unit * evaluation.upper,
        dual=unit * checked.dual,
        gap=unit * progress.gap if known else np.nan,
        relative_gap=progress.relative_gap,
        best_primal=unit * progress.primal if known else np.nan,
        best_dual=unit * progress.dual,
        n_oracle_calls=problem.n_oracle_calls,
        oracle_seconds=problem.oracle_seconds,
        extra=extra,
        estimate=np.nan if evaluation is None else unit * evaluation.estimate,
    )
