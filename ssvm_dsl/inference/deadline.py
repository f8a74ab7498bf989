"""Time limits of whole calls: a clock that stands still while something is loaded, and questions that end with it.

A user's seconds are those of the work.  What it takes to compile kernels, or to load them and solver libraries, is a
cost of the first call on a machine or in a process; it is measured apart
(:mod:`ssvm_dsl.plugin_api.hosting.loading`) and counts against no limit.
Backends keep their own time on the wall, so that loading inside a call can end it early:
:func:`answer_within` asks again then, and keeps the better of both answers.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import OptionError, OutOfTime
from ssvm_dsl.ir.need import Limits, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import INTERRUPTED, Solution, Stop
from ssvm_dsl.lang.arrays import is_number
from ssvm_dsl.plugin_api.hosting.loading import loading_time


class Answering(Protocol):
    """What answers questions, within the time that they say: an opened plan."""

    program: Program

    def solve(self, question: Question, known: F64 | None = None) -> Solution:
        """Answer a question within the time left; see :class:`~ssvm_dsl.plugin_api.Session`."""


def work_seconds() -> float:
    """Return the time on a clock that stands still while something is loaded."""
    return perf_counter() - loading_time().seconds


def check_time_limit(seconds: Any) -> float:
    """Return a time limit in seconds, ``inf`` for ``None``.

    Raises
    ------
    OptionError
        It is something else.
    """
    if seconds is None:
        return np.inf
    if not (is_number(seconds) and seconds > 0):
        raise OptionError(f"time_limit must be None or a positive number of seconds, got {seconds!r}")
    return float(seconds)


class Deadline:
    """When a call must end; it begins now.

    Parameters
    ----------
    seconds : float
        For the work, loading not counted; ``inf`` for no limit.

    Attributes
    ----------
    reserve : float
        Seconds of these that are kept back for work that comes last.
    """

    def __init__(self, seconds: float = np.inf) -> None:
        self._meter = loading_time()
        self._loaded = self._meter.closed()
        self._wall = perf_counter()
        self._begin = self._wall - self._loaded  # on the clock of work_seconds
        self.limit, self.reserve = seconds, 0.0

    @property
    def loaded(self) -> float:
        """Seconds of loading since the beginning."""
        return self._meter.seconds - self._loaded

    @property
    def spent(self) -> float:
        """Seconds of work since the beginning."""
        return work_seconds() - self._begin

    @property
    def left(self) -> float:
        """Seconds of work that are left, at least 0."""
        return max(0.0, self.limit - self.reserve - self.spent) if self.limit < np.inf else np.inf

    @property
    def over(self) -> bool:
        """Whether time is up."""
        return self.left <= 0.0

    def end(self) -> None:
        """Let time be up from now on."""
        self.limit = min(self.limit, self.spent)

    @property
    def limits(self) -> Limits:
        """The limits to pass to a backend."""
        left = self.left
        return Limits(time=None if left == np.inf else left)

    def share(self, part: float) -> Deadline:
        """Return a deadline for a part of the work that is left: it may take this share of the time."""
        left = self.left
        return Deadline(left if left == np.inf else part * left)

    def check(self, ahead: float = 0.0) -> None:
        """Raise :class:`OutOfTime` when time is up, or will be within ``seconds``."""
        if perf_counter() - self._wall + ahead < self.limit - self.reserve:  # loading or not: most calls end here
            return
        if self.left <= ahead:
            raise OutOfTime(f"the time limit of {self.limit:g} s is over")


def answer_within(
    session: Answering, deadline: Deadline, question: Question, known: F64 | None = None
) -> Solution:
    """Return the answer to a question that ends with the deadline.

    Parameters
    ----------
    session : PlannedSession
        An opened plan.
    deadline : Deadline
    question : Question
        Its limits are without a time.
    known : ndarray of float64, shape (n,), optional
        Scores that labellings are known to have; see :class:`~ssvm_dsl.inference.layers.base.PlannedSession`.
    """
    if deadline.limit == np.inf:
        return session.solve(question, known)
    best: Solution | None = None
    while True:
        before = deadline.loaded
        limits = replace(question.limits, time=deadline.limits.time)
        solution = session.solve(question.replace(limits=limits), known)
        best = solution if best is None else better_of(session.program, question, best, solution)
        early = limits.time is not None and bool((solution.stop == Stop.TIME).any())
        if not early or deadline.loaded == before or deadline.over:
            return best


def better_of(program: Program, question: Question, first: Solution, second: Solution) -> Solution:
    """Return the better of two answers to a question: for each example, where it asks for best labellings.

    Parameters
    ----------
    program : Program
    question : Question
    first, second : Solution
        Both verified; where they are equally good, and for all that is said besides, the second counts.
    """
    worse = second.best < first.best
    if question.task not in (Task.MAP, Task.MAP_CLAMPED):
        return first if worse.any() and not (second.best > first.best).any() else second
    there = np.repeat(worse, np.diff(question.label_ptr(program)))
    bound = np.fmin(first.bound, second.bound)  # both hold
    score = np.where(worse, first.score, second.score)
    return replace(
        second,
        labels=np.where(there, first.labels, second.labels),
        score=score,
        bound=np.maximum(bound, score),  # apart by no more than the rounding of sums
        stop=np.where(worse & (first.stop != Stop.TIME), first.stop, second.stop),
        primal=np.where(worse, first.primal, second.primal),
        complete=False,
    )


def refuse_interrupted(solution: Solution) -> Solution:
    """Return a solution; raise ``KeyboardInterrupt`` for one that a backend cut short because of Ctrl-C."""
    if not solution.complete and np.logical_or.reduce(solution.stop == INTERRUPTED):
        raise KeyboardInterrupt
    return solution
