"""Answer questions about new examples: request, model laid over the examples, session, answers, names.

It is done for some examples at a time: features stay in the processor's cache, and memory is bounded by the chunk, not
by the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl import processors
from ssvm_dsl.array_types import Bools
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler import Grounded, ground
from ssvm_dsl.compiler.durations import why_indivisible
from ssvm_dsl.compiler.inputs.validate import check_sequence
from ssvm_dsl.errors import DataError, OutOfTime, TimeLimitWarning, memory_for
from ssvm_dsl.inference.batch import solve_batch
from ssvm_dsl.inference.blas_threads import CallThreads
from ssvm_dsl.inference.deadline import Deadline, check_time_limit
from ssvm_dsl.inference.diagnosis.missing_answers import MissingAnswers, without_answer
from ssvm_dsl.inference.diagnosis.rules_in_conflict import rules_in_conflict
from ssvm_dsl.inference.layers.base import PlannedSession
from ssvm_dsl.inference.layers.starting import StartingSession
from ssvm_dsl.inference.planning.kept_plans import OpenedPlan
from ssvm_dsl.inference.planning.planner import accepted_guarantee
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.ir.need import Need, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.solution import TIME, Solution
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.learning.driver.cost_estimate import prediction_warning
from ssvm_dsl.learning.estimators.check_parameters import check_choice
from ssvm_dsl.pausing import pause, within
from ssvm_dsl.report.compiling import announce_compiling

if TYPE_CHECKING:
    from ssvm_dsl.learning.estimators.structured import StructuredEstimator

T = TypeVar("T")

#: Examples answered together.
CHUNK = 1024

#: Seconds kept back for the starting labelling of an example with hard constraints.
START_SECONDS = 5e-4

#: What becomes of examples without an answer.
ON_MISSING = ("raise", "none")


@dataclass(frozen=True, eq=False)
class PredictionRequest:
    """What is asked of every example.

    Parameters
    ----------
    task : Task
    k : int
        How many labellings, for ``kbest``.
    time_limit : float, optional
        Seconds for all examples.
    given : list of labels, optional
        Known labels of each example, with which answers agree.
    on_missing : {"raise", "none"}
        What becomes of examples without an answer: an error, or ``None`` (``nan`` in arrays).
    truth : list of labels, optional
        True labels, which losses compare answers with.
    unseen : bool
        Whether these may have classes that training never saw.
    """

    task: Task = Task.MAP
    k: int = 1
    time_limit: float | None = None
    given: Any = None
    on_missing: str = "raise"
    truth: Any = None
    unseen: bool = False


#: Asks for the best labelling of each example.
BEST = PredictionRequest()

#: In place of a time limit.
UNLIMITED = nullcontext()


class Answers(NamedTuple, Generic[T]):
    """What was read of the answers, a part for each chunk of the examples, and what is known of their scores."""

    parts: list[T]
    bounds: BoundSummary

    @property
    def listed(self) -> list[Any]:
        """The parts as one list, an entry for each example."""
        parts: Any = self.parts
        return list(chain.from_iterable(parts))


@memory_for("prediction", "ask for fewer examples at once, or set another backend")
def answer(
    svm: StructuredEstimator, X: Any, read: Callable[[Grounded, Solution], T], request: PredictionRequest = BEST
) -> Answers[T]:
    """Return ``read(grounded chunk, its solution)`` for all examples, chunk by chunk, and a summary of their bounds.

    Warns of answers that the time limit ended before they were proved best.

    Raises
    ------
    MissingAnswerError
        Examples have no answer, and ``on_missing`` is ``"raise"``; the error carries the others' answers.
    """
    deadline = Deadline(check_time_limit(request.time_limit)) if svm._deadline is None else svm._deadline
    check_choice(request.on_missing, ON_MISSING, "on_missing")
    fitted = svm.fitted_
    announce_compiling()
    X, request = svm._as_asked(X, request)
    examples = svm._examples(X)
    n, task, size = len(examples), request.task, max(1, CHUNK // request.k)
    truth, given = as_many(svm, request.truth, "Y", n), as_many(svm, request.given, "given", n)
    bounds, missing, limited = list[BoundSummary](), MissingAnswers(task), deadline.limit < np.inf

    def chunk(lo: int, executor: CallThreads) -> T:  # nothing of it is held when the next one is laid out
        hi = min(lo + size, n)
        labels, fixed = None if truth is None else truth[lo:hi], None if given is None else given[lo:hi]
        with within(deadline) if limited else UNLIMITED:
            grounded = svm._ground(
                examples[lo:hi], labels, fitted.learnt, first=lo, whole=True, given=fixed, in_time=True,
                unseen=request.unseen,
            )  # fmt: skip
            if grounded.n_uncomputed:
                deadline.end()
            svm._check_blocks(grounded.parameters.blocks)
            session = opened_session(svm, grounded, task, deadline, lo, n)
        mine = deadline
        if limited:
            mine = deadline.share((hi - lo) / (n - lo)) if hi - lo < n else deadline
            if grounded.program.constraints:  # a labelling of every example, should all time go
                mine = mine.share(1.0)
                mine.reserve = min(mine.left / 4.0, START_SECONDS * (hi - lo))
        k = 1 if request.k == 1 else min(request.k, most_labellings(grounded.program))
        asked = (grounded.parameters, session, executor, fitted.coef, task, k, lo, mine, missing)
        solution = solve_batch(*asked)
        if grounded.n_uncomputed and task is not Task.MARGINALS:
            solution = _of_unknown_worth(solution, hi - lo - grounded.n_uncomputed)
        bounds.append(BoundSummary.of(solution))
        if solution.complete:
            return read(grounded, solution)
        return readable(read, grounded, solution, without_answer(solution, task))

    parts = list[T]()
    with call_threads(svm.n_threads) as executor:
        for lo in range(0, n, size):
            parts.append(chunk(lo, executor))
    known = bounds[0] if len(bounds) == 1 else BoundSummary.joined(bounds)
    if svm._deadline is not None and (known.open.any() or missing.without):
        svm._deadline.check()  # a fit does not learn from what its end has cut short
    if missing.any and request.on_missing == "raise":
        if missing.infeasible:
            first = missing.infeasible[0]
            missing.because(_why_none(svm, examples[first], None if given is None else given[first], deadline))
        missing.check(joined(parts))
    if late := known.unproved():
        text = f"{late}; raise time_limit, or look at predict(..., return_bounds=True)"
        warn_caller(text, TimeLimitWarning)
    return Answers(parts, known)


def opened_session(
    svm: StructuredEstimator, grounded: Grounded, task: Task, deadline: Deadline, first: int, n: int
) -> PlannedSession:
    """Return the opened plan of a chunk; where time is up before that, what answers with starting labellings.

    Parameters
    ----------
    svm : StructuredEstimator
    grounded : Grounded
        The chunk.
    task : Task
    deadline : Deadline
        That of the call, within which this runs.
    first, n : int
        The number of the chunk's first example, and of all examples: who asks for the first is told of long calls.
    """

    def announce(need: Need, chosen: Plan) -> None:
        if slow := prediction_warning(need, chosen, n, deadline.limit):
            warn_caller(slow)

    guarantee = accepted_guarantee(svm.backend, svm._guarantee())
    asked = frozenset({task}), guarantee, svm.backend, svm.backend_options, first
    try:
        if deadline.limit < np.inf:
            pause()
        return OpenedPlan.of(grounded.parameters, grounded.kept, *asked, announce=None if first else announce).session
    except OutOfTime:
        return StartingSession(svm.backend, grounded.program)


def call_threads(n_threads: int | None) -> CallThreads:
    """Return the executor of a call."""
    return CallThreads(int(n_threads if n_threads is not None else processors.available()))


def as_many(svm: StructuredEstimator, labels: Any, what: str, n: int) -> Sequence[Any] | None:
    """Return a list of labels as the model takes them; refuse one of another length."""
    if labels is None:
        return None
    checked = check_sequence(svm._labels(labels), what)
    if len(checked) != n:
        raise DataError(what, expected=f"{n} examples, as in X", found=f"{len(checked)}")
    return checked


def _why_none(svm: StructuredEstimator, example: Any, given: Any, until: Deadline) -> str:
    """Return why an example has no labelling; empty where that is not known."""
    learnt = svm.fitted_.learnt
    if given is None:
        one = svm._ground([example], None, learnt, whole=True)
        if reason := why_indivisible(one.declaration, one.layout, 0):
            return reason

    def ground_alone(declaration: Declaration, some: Any, known: Any) -> Grounded:
        return ground(declaration, [some], fitted=learnt, whole=True, given=None if known is None else [known])

    return rules_in_conflict(svm.model.declaration, example, given, ground_alone, until)


def _of_unknown_worth(solution: Solution, lo: int) -> Solution:
    """Return answers that, from an example on, only keep masks and constraints and have no bounds."""
    score, bound, stop = solution.score.copy(), solution.bound.copy(), solution.stop.copy()
    score[..., lo:][score[..., lo:] > -np.inf] = np.nan
    bound[lo:], stop[lo:] = np.nan, TIME
    return replace(solution, score=score, bound=bound, stop=stop, complete=False)


def most_labellings(program: Program) -> int:
    """Return how many labellings the example with the most of them has, its masks counted; at most 2^62."""
    states: NDArray[Any] = program.card.astype(np.float64)
    if program.allowed is not None:
        owner = np.repeat(np.arange(program.n_variables), program.card)
        states = np.bincount(owner, weights=program.allowed, minlength=program.n_variables)
    bits = np.concatenate([[0.0], np.cumsum(np.log2(np.maximum(states, 1.0)))])
    most = float(np.diff(bits[program.var_ptr]).max(initial=0.0))
    return round(2.0**most) + 1 if most < 40.0 else 2**62  # one more than it may be, for rounding


def labellings(grounded: Grounded, solution: Solution) -> list[Any]:
    """Return the labels of each example in the user's form."""
    return grounded.layout.decode(solution.labels)


def label_lists(grounded: Grounded, solution: Solution) -> list[list[Any]]:
    """Return the class names at the positions of the only label, a list for each example."""
    return grounded.layout.decode_lists(solution.labels)


def latent_states(grounded: Grounded, solution: Solution) -> list[Any]:
    """Return the states of the latent variables of each example."""
    return grounded.layout.decode(solution.labels, latent=True)


def ranked_labellings(grounded: Grounded, solution: Solution) -> list[list[tuple[Any, float]]]:
    """Return for each example its labellings with their scores, best first."""
    ranked = [grounded.layout.decode(np.maximum(labels, 0)) for labels in solution.labels]  # those there are are kept
    listed = []
    for i in range(grounded.n_examples):
        known = [r for r in range(len(ranked)) if solution.score[r, i] != -np.inf]
        listed.append([(ranked[r][i], float(solution.score[r, i])) for r in known])
    return listed


def probabilities(grounded: Grounded, solution: Solution) -> list[Any]:
    """Return for each example the probabilities of the states of its variables."""
    return grounded.layout.decode_states(solution.needed_marginals().node)


def losses(grounded: Grounded, solution: Solution) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (loss of each answer, largest loss of each example)."""
    assert grounded.loss is not None
    return grounded.loss.value(grounded.program, solution.labels), grounded.loss.largest(grounded.program)


@dataclass(frozen=True, eq=False)
class BoundSummary:
    """What is known of answers: scores, and upper bounds of any labelling's.

    Parameters
    ----------
    score, bound : ndarray of float64, shape (n,)
        ``bound`` is ``nan`` where there is none.
    open : ndarray of bool, shape (n,)
        Whether time ended the search before the answer was proved best.
    """

    score: NDArray[np.float64]
    bound: NDArray[np.float64]
    open: NDArray[np.bool_]

    @classmethod
    def of(cls, solution: Solution) -> BoundSummary:
        """Return what is known of the answers of a chunk."""
        if solution.complete:
            return cls(solution.best, solution.bound, np.zeros(len(solution.bound), dtype=bool))
        late = solution.stop == TIME
        some = np.logical_or.reduce(late)
        return cls(solution.best, solution.bound, late & ~solution.optimal() if some else late)

    @classmethod
    def joined(cls, parts: list[BoundSummary]) -> BoundSummary:
        """Return what is known of the answers of several chunks."""
        names = (("score", np.float64), ("bound", np.float64), ("open", np.bool_))
        return cls(*(np.concatenate([np.zeros(0, kind), *(getattr(p, name) for p in parts)]) for name, kind in names))

    def unproved(self) -> str:
        """Return what to say of answers that time ended before they were proved best; nothing if there are none."""
        if not np.logical_or.reduce(self.open):
            return ""
        text = f"time ended the search before {int(self.open.sum())} of {len(self.open)} labellings were proved best"
        if n := int(np.isnan(self.score).sum()):
            text += f", and before the features of {n} were computed, which keep the model's rules and have no score"
        gaps = (self.bound - self.score)[self.open]
        known = gaps[np.isfinite(gaps)]
        return f"{text} (largest gap between bound and score {known.max():.3g})" if len(known) else text


def readable(read: Callable[[Grounded, Solution], T], grounded: Grounded, solution: Solution, missing: Bools) -> T:
    """Return ``read`` of an answer, with ``None`` in lists and ``nan`` in arrays for examples without one."""
    if not np.logical_or.reduce(missing):
        return read(grounded, solution)
    if solution.log_partition is not None and solution.marginals is None:
        return [None] * len(missing)  # type: ignore[return-value]
    answers = read(grounded, replace(solution, labels=np.maximum(solution.labels, 0)))
    for i in np.flatnonzero(missing).tolist():
        if isinstance(answers, list):
            answers[i] = None
        elif isinstance(answers, np.ndarray):
            answers[i] = np.nan
    return answers


def joined(parts: Sequence[Any]) -> Sequence[Any]:
    """Return the results of all chunks as one sequence, with an entry for each example."""
    if parts and all(isinstance(one, np.ndarray) for one in parts):
        results: Sequence[Any] = np.concatenate(parts).tolist()
        return results
    return list(chain.from_iterable(parts)) if all(isinstance(one, list) for one in parts) else ()
