"""The driver: runs a trainer, decides when to stop, reports every iteration, keeps the best weights.

Stopping rules, callbacks, history and Ctrl-C live here once, for every trainer.  So does what is believed of a trainer:
its iterates are checked (:mod:`ssvm_dsl.learning.driver.progress`) before they count.

Time is looked at inside iterations, by oracle calls and by trainers (``TrainProblem.pause``).  When it is over, or
Ctrl-C comes, what they do is left by an exception, and what is known of the best weights is returned.

Of the time that a fit has, as much is kept back as a pass over the data takes, while the newest weights are not
evaluated yet.  Where that is not enough, some examples are looked at, and the objective is bounded from above all the
same (:mod:`ssvm_dsl.learning.risks.ceilings`); from below it is bounded by the trainer's planes, or by 0.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.deadline import Deadline, time_left, within
from ssvm_dsl.errors import DataError, FileFormatError, OutOfTime, PluginError
from ssvm_dsl.learning.driver.checkpoint import Checkpoint
from ssvm_dsl.learning.driver.progress import LowerBound, Progress, check_iterate, contradiction, lower_bound, relative
from ssvm_dsl.learning.estimators.fitting.stream import check_weights
from ssvm_dsl.learning.risks.base import Evaluation
from ssvm_dsl.learning.risks.kinds import Problem
from ssvm_dsl.plugin_api.hosting.contained import contained, kept_surroundings
from ssvm_dsl.plugin_api.specs import TrainerSpec
from ssvm_dsl.plugin_api.training import (
    AnytimeTrainer,
    ConcludingTrainer,
    Iterate,
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

#: The share of the tolerance that is nothing beside it.
LEFT = 0.1

#: What a trainer without more iterates yields.
_END = object()

#: Told about every iteration; returns True to stop.
Callback = Callable[[TrainingEvent], bool | None]


class Validation:
    """Looks at the score on held-out examples after each pass, and keeps the best weights.

    Parameters
    ----------
    score : callable
        The score of weights, larger is better.
    patience : int
        How many looks without a better score end training.
    """

    def __init__(self, score: Callable[[F64], float], patience: int) -> None:
        self.score, self.patience = score, patience
        self.w: F64 | None = None
        self.best = -np.inf
        self._worse, self._next = 0, 1.0

    def enough(self, w: F64, event: TrainingEvent) -> bool:
        """Score weights, if a pass has ended since the last score; return whether to stop.

        The event of the iteration holds the score, as ``extra["validation_score"]``.
        """
        if event.n_passes < self._next:
            return False
        self._next = np.floor(event.n_passes) + 1.0
        score = event.extra["validation_score"] = self.score(w)
        if score > self.best:
            self.w, self.best, self._worse = w.copy(), score, 0
        else:
            self._worse += 1
        return self._worse >= self.patience


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
    deadline = deadline or Deadline(stop.max_seconds)
    progress, state, reason = Progress(np.zeros(problem.dim) if start is None else start.copy()), None, None
    saved = None if checkpoint is None else checkpoint.read(problem)
    if saved is not None:
        progress, state = saved
        reason = _reason(progress, stop, False, None)
        deadline.limit -= progress.seconds
    earlier = progress.earlier_seconds = progress.seconds
    time, run = FitTime(deadline, problem, spec), FitRun(problem, stop, spec, progress, keep_best, start)
    steps = _steps(trainer, problem, replace(stop, max_seconds=deadline.left), start, state, spec, checkpoint)
    inside = True  # an iteration
    if deadline.over and not progress.history:  # what came before took all of it
        reason, inside = "seconds", False
    try:
        while reason is None:
            with within(time):
                claimed = next(steps, _END)
                if claimed is _END:
                    reason = "ended"
                    break
                checked = run.learn(claimed)
                progress.seconds = earlier + deadline.spent
                time.note(checked.evaluation is None and (spec.concluding or bool(np.isnan(progress.primal))))
                event = _event(progress, checked, problem, unit)
                progress.history.append(event)
                if checkpoint is not None:
                    near_its_end = time.left < 2.0 * time.took
                    checkpoint.keep(progress, cast(ResumableTrainer, trainer), problem, now=near_its_end)
                enough = validation is not None and validation.enough(checked.iterate.w, event)
            if model_of is not None:  # for callbacks that ask for an estimator
                event = RunningEvent(**vars(event), make=lambda: model_of(progress.w.copy()))
            asked = False
            for callback in callbacks:
                asked = bool(callback(event)) or asked
            reason = _reason(progress, stop, asked, checked.evaluation) or ("validation" if enough else None)
            if checkpoint is not None and reason not in (None, *REACHED):
                checkpoint.keep(progress, cast(ResumableTrainer, trainer), problem, now=True)
            del claimed, checked  # its vectors are not to wait for those of the next one
        inside = False
    except OutOfTime:
        reason = "seconds"
    except KeyboardInterrupt:
        reason = "interrupt"
    finally:
        steps.close()
    progress.reason, progress.oracle_seconds, begun = reason, problem.oracle_seconds, deadline.spent
    try:
        run.finish(trainer, time, validation, inside)
    except DataError as err:
        if checkpoint is None or state is None:
            raise
        raise _led_astray(checkpoint.path, err) from err
    progress.evaluation_seconds, progress.seconds = deadline.spent - begun, earlier + deadline.spent
    if checkpoint is not None and progress.reason in (*REACHED, "ended"):
        checkpoint.remove()
    return progress


class CheckedIterate(NamedTuple):
    """An iterate, and what is known of it.

    Parameters
    ----------
    iterate : Iterate
    evaluation : Evaluation or None
        The objective at its weights, where the problem computed it.
    bound : LowerBound
        What its plane proves.
    """

    iterate: Iterate
    evaluation: Evaluation | None
    bound: LowerBound


class FitTime:
    """The time that a fit's iterations have: what its deadline leaves, less that of looking at the newest weights.

    Parameters
    ----------
    deadline : Deadline
    problem : Problem
    spec : TrainerSpec

    Attributes
    ----------
    took : float
        Seconds of the last iteration.
    """

    def __init__(self, deadline: Deadline, problem: Problem, spec: TrainerSpec) -> None:
        self.deadline, self.problem, self.concluding = deadline, problem, spec.concluding
        self.took, self._last = 0.0, deadline.spent
        self._owed = spec.anytime  # whether the newest weights are to be looked at
        self._n_calls, self._seconds, self._pass = 0, 0.0, 0.0  # of the oracle until then; a pass, by the last of them
        self._looked, self._longest = self._last, 0.0  # at the clock; between two looks

    def note(self, owed: bool) -> None:
        """Begin another iteration; ``owed`` says whether the weights of the last one are to be looked at."""
        spent, problem = self.deadline.spent, self.problem
        self.took, self._last, self._owed = spent - self._last, spent, owed
        self._pass = self.pass_seconds()
        self._n_calls, self._seconds = problem.n_oracle_calls, problem.oracle_seconds

    def pass_seconds(self) -> float:
        """Return how long a pass over the data takes now, as far as that is known."""
        problem = self.problem
        calls, lately = problem.n_oracle_calls - self._n_calls, self._pass
        if calls >= MEASURED * problem.n and problem.oracle_seconds > self._seconds:
            lately = problem.n * (problem.oracle_seconds - self._seconds) / calls
        return max(problem.pass_seconds(), lately)

    @property
    def left(self) -> float:
        """Seconds left, at least 0.

        None are kept back for the newest weights where looking at them would take too long.  Whoever works looks at the
        clock now and then: the end is noticed late by the longest stretch in between.
        """
        limit, problem = self.deadline.limit, self.problem
        if limit == np.inf:
            return np.inf
        spent = self.deadline.spent
        self._looked, self._longest = spent, max(self._longest, spent - self._looked)
        measured = problem.n_oracle_calls >= MEASURED * problem.n or problem.oracle_seconds >= MEASURED * limit
        kept = 0.0
        if self._owed and measured:
            passes = EVALUATION + (PLANE if self.concluding else 0.0)
            kept = passes * self.pass_seconds() + min(self._longest, MOST_LATE * limit)
        return max(0.0, limit - spent - (kept if kept <= MOST_KEPT * limit else 0.0))


class FitRun:
    """What one call of :func:`train` learns of its iterates; its parameters are some of that function's."""

    def __init__(
        self, problem: Problem, stop: StopRule, spec: TrainerSpec, progress: Progress, keep_best: bool,
        start: F64 | None,
    ) -> None:  # fmt: skip
        self.problem, self.stop, self.spec, self.progress = problem, stop, spec, progress
        self.keep_best, self.start = keep_best, start

    def learn(self, claimed: Any, evaluate: bool = True) -> CheckedIterate:
        """Take an iterate, checked: the lower bound only rises, the weights follow the best objective.

        They follow the newest iterate where the best is not asked for, and where no objective is certified: an oracle
        that may miss the best labellings shows small values for weights at which it misses much.

        An iterate whose trainer takes it for good enough, by the best lower bound, is evaluated first where
        ``evaluate``.
        """
        progress, problem, tol, name = self.progress, self.problem, self.stop.tol, self.spec.name
        iterate = check_iterate(claimed, problem.dim, name)
        if progress.withdrawn:  # the bound of an iterate that was found false ends a fit, or is forgotten
            progress.withdraw(progress.withdrawn)
        w, plane, bound = iterate.w, None if progress.withdrawn else iterate.plane, LowerBound()
        evaluation = problem.known(w)
        while True:
            if evaluation is not None:
                problem.accuracy.watch(problem.steepness(evaluation.value))
            if plane is not None:
                bound = lower_bound(plane, problem)
            enough = relative(iterate.upper - max(progress.dual, bound.dual), iterate.upper) <= tol
            if evaluation is not None or not (enough and evaluate):
                break
            evaluation = problem.evaluation(w)
            progress.own_passes += 1.0
        upper = np.nan if evaluation is None else evaluation.upper
        if plane is not None and bound.dual > -np.inf and np.isfinite(upper):
            false = contradiction(plane, w, upper, problem, name)
            if false:
                progress.withdraw(false)
        if bound.dual > progress.dual:
            progress.dual, progress.offset, progress.rounding_margin = bound
        if not progress.history and not (w.any() if self.start is None else (w != self.start).any()):
            progress.at_start = upper
        progress.n_passes = iterate.n_passes + progress.own_passes
        if upper < progress.primal or not self.keep_best or np.isnan(progress.primal):
            progress.keep(w, evaluation, problem)
        return CheckedIterate(iterate, evaluation, bound)

    def finish(self, trainer: Trainer, time: FitTime, validation: Validation | None, inside: bool) -> None:
        """Look at the weights that are returned, as far as there is time for it, and compare their bounds.

        Parameters
        ----------
        trainer : Trainer
        time : FitTime
        validation : Validation or None
        inside : bool
            Whether training ended inside an iteration.
        """
        progress, deadline = self.progress, time.deadline
        left, limit = seconds_to_conclude(deadline), deadline.limit
        if progress.reason == "interrupt":  # a backend that did not come back is not asked again
            left = 0.0 if self.problem.waited > AFTER_INTERRUPT else AFTER_INTERRUPT
        deadline.limit = deadline.spent + left
        try:
            with within(deadline):
                self._conclude(trainer, time, validation, inside)
        except OutOfTime:
            pass  # what is known stays
        except KeyboardInterrupt:
            progress.reason, progress.interrupted_twice = "interrupt", True
        finally:
            deadline.limit = limit
        if progress.dual == -np.inf and progress.reason in ("seconds", "interrupt"):  # no risk is negative
            progress.dual, progress.offset, progress.rounding_margin = LowerBound(0.0, 0.0)
        above = progress.dual - progress.primal
        if progress.withdrawn:
            progress.withdraw(progress.withdrawn)
        elif above > progress.rounding + progress.rounding_margin:
            text = "the lower bound of the optimum came out above the objective of the weights returned"
            progress.withdraw(f"{text}, by {above:.2g}, which is more than rounding explains")
        elif above > 0.0:
            progress.dual = progress.primal
        if progress.reason == "tolerance" and not progress.relative_gap <= self.stop.tol:
            progress.reason = "withdrawn" if progress.withdrawn else "ended"

    def _conclude(self, trainer: Trainer, time: FitTime, validation: Validation | None, inside: bool) -> None:
        """Look for the certificate of the newest weights, the objective of those returned, and better ones."""
        progress, problem, spec, start = self.progress, self.problem, self.spec, self.start
        if inside and not progress.history and spec.anytime:
            with contained(f"trainer '{spec.name}'"):
                newest = cast(AnytimeTrainer, trainer).newest()
            if newest is not None:
                progress.w = check_weights((newest, None), problem.dim, spec.name)[0].copy()
        unknown = inside or (bool(progress.history) and bool(np.isnan(progress.history[-1].estimate)))
        if progress.reason in UNFINISHED and unknown and spec.concluding:
            self._ask_for_certificate(cast(ConcludingTrainer, trainer), time)
        if validation is not None and validation.w is not None:
            progress.w = validation.w
            progress.keep(progress.w, problem.known(progress.w), problem)
        progress.keep(progress.w, problem.known(progress.w) or self._look_at(progress.w), problem)
        if self.keep_best and validation is None:
            compares = start is not None or spec.compares_start
            if compares and progress.reason in (LIMITS if start is None else WARM_LIMITS):
                self._compare_start(time)
            if spec.certifies and progress.reason in IMPROVABLE:
                self._compare_zero()
        progress.tightness = problem.tightness(progress.w, ask=time.pass_seconds() <= time_left())

    def _ask_for_certificate(self, trainer: ConcludingTrainer, time: FitTime) -> None:
        """Ask a trainer for its newest iterate with the plane, and look at the weights; where time is up, at the plane.

        Where the best weights so far are known, newer ones are looked at if there is time for all of the examples.
        """
        problem, name = self.problem, self.spec.name
        try:
            with contained(f"trainer '{name}'"):
                claimed = trainer.certified()
        except OutOfTime:  # the weights kept are looked at all the same
            return
        if claimed is None:
            return
        w = check_iterate(claimed, problem.dim, name).w
        if problem.known(w) is None and (np.isnan(self.progress.primal) or time.pass_seconds() <= time_left()):
            self._look_at(w)
        self.learn(claimed, evaluate=False)

    def _look_at(self, w: F64) -> Evaluation:
        """Return the computable values of the objective at w; count the pass, or its completed part."""
        progress, problem, before = self.progress, self.problem, self.problem.n_oracle_calls
        values = problem.evaluation_in_time(w)
        share = min(1.0, (problem.n_oracle_calls - before) / problem.n)
        progress.n_passes, progress.own_passes = progress.n_passes + share, progress.own_passes + share
        return values

    def _compare_start(self, time: FitTime) -> None:
        """Keep the weights of the start where they are better; a pass, unless it is known that they are not.

        They are not where their objective was evaluated; where they are 0 and the objective is at most the offset of
        a plane (its value at 0); and where they are far away.  With the regulariser r and the optimum w*,

            P(start) >= P(w*) + r(start - w*) ,        P(w) <= P(w*) + gap ,        r(w - w*) <= gap ,

        and ``sqrt(r)`` is a norm, so that ``r(w - start) >= 4 gap`` is enough.
        """
        progress, problem = self.progress, self.problem
        origin = np.zeros(problem.dim) if self.start is None else self.start
        cold = self.start is None and progress.primal <= progress.offset
        if not np.isnan(progress.at_start) or cold or np.isnan(progress.primal):
            return
        if np.isfinite(progress.gap) and 4.0 * progress.gap <= problem.objective.regularizer(progress.w - origin):
            return
        if time.pass_seconds() > time_left():
            return
        evaluation = problem.evaluation(origin)
        progress.at_start = evaluation.upper
        progress.n_passes += 1.0
        if progress.at_start < progress.primal:
            progress.w, progress.from_start = origin.copy(), True
            progress.keep(progress.w, evaluation, problem)

    def _compare_zero(self) -> None:
        """Take no weights where their objective is 0, by what the data tell.

        The optimum is theirs alone, where all weights are regularised: no relative gap of any others is small.
        """
        progress, problem, tol = self.progress, self.problem, self.stop.tol
        if progress.relative_gap <= tol or np.isnan(progress.primal) or not progress.w.any():
            return
        at_zero = problem.risks_at_zero()
        if at_zero is None:
            return
        w, upper = np.zeros(problem.dim), problem.objective.primal(np.zeros(problem.dim), at_zero)
        if upper > 0.0:
            return
        progress.w, progress.from_start = w, False
        progress.keep(w, Evaluation(upper, upper, at_zero, at_zero.copy()), problem)
        if progress.relative_gap <= tol:
            progress.reason = "tolerance"


def seconds_to_conclude(deadline: Deadline) -> float:
    """Return the seconds in which weights may be looked at when training has ended: those left, and a grace."""
    return max(deadline.left, NEGLIGIBLE, GRACE * deadline.limit)


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
    guard, known = contained(f"trainer '{spec.name}'"), registry()
    kept: AbstractContextManager[Any]
    if spec not in known.specs(TrainerSpec):  # the kit looks at descriptions that nobody has registered
        kept = kept_surroundings(f"trainer '{spec.name}'", set())
    else:  # what steps of a stranger's trainer change in the process is put back
        bundled = known.owner(spec).bundled
        kept = nullcontext() if bundled else kept_surroundings(known.describe_owner(spec), set())
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


def _reason(progress: Progress, stop: StopRule, asked: bool, newest: Evaluation | None) -> str | None:
    """Return why training ends now, ``None`` if it continues; ``newest`` is what is known of the last iterate."""
    tol, gap, primal = stop.tol, progress.gap, progress.primal
    if relative(gap, primal) <= tol:
        return "tolerance"
    if np.isnan(primal):
        # A backend without bounds: at a gap of 0 the labellings it finds violate nothing more than the planes do
        # (Finley and Joachims, ICML 2008, section 3.1: undergenerating oracles).
        if relative(progress.estimate - progress.dual + progress.rounding, progress.estimate) <= tol:
            return "estimate"
    elif np.isfinite(gap):  # rounding alone may keep it above the tolerance, where the rest of it is no larger
        lost, enough = progress.rounding + progress.rounding_margin, tol * abs(primal)
        if lost > enough and gap - lost <= max(enough, lost):
            return "rounding"
    if newest is not None:
        enough = tol * abs(newest.upper)  # bounds above the answers are the gap: planes know all that these violate
        if newest.upper - newest.estimate > enough and newest.estimate - progress.dual <= LEFT * enough:
            return "bounds"
    if asked:
        return "callback"
    if progress.n_passes >= stop.max_passes:
        return "passes"
    return "seconds" if progress.seconds >= stop.max_seconds else None


def _event(progress: Progress, checked: CheckedIterate, problem: Problem, unit: float) -> TrainingEvent:
    """Return the event for callbacks; a trainer's claims that nothing proves are estimates."""
    iterate, evaluation, bound = checked
    gap, primal, extra = progress.gap, progress.primal, dict(iterate.extra)
    for name in ESTIMATES:
        if name in extra:
            extra[name] *= unit
    claimed = iterate.upper - iterate.dual
    if np.isfinite(claimed) and (evaluation is None or not np.isfinite(bound.dual)):
        extra = {"gap_estimate": unit * claimed, "dual_estimate": unit * iterate.dual} | extra
    return TrainingEvent(
        iteration=1 + len(progress.history),
        n_passes=progress.n_passes,
        seconds=progress.seconds,
        primal=np.nan if evaluation is None else unit * evaluation.upper,
        dual=unit * bound.dual,
        gap=unit * gap if np.isfinite(primal) else np.nan,
        relative_gap=relative(gap, primal),
        best_primal=unit * primal if np.isfinite(primal) else np.nan,
        best_dual=unit * progress.dual,
        n_oracle_calls=problem.n_oracle_calls,
        oracle_seconds=problem.oracle_seconds,
        extra=extra,
        estimate=np.nan if evaluation is None else unit * evaluation.estimate,
    )
