"""``ExampleSession``: the base of sessions that answer one example after the other, in plain Python or by a library.

An author fills in :meth:`ExampleSession.answer` for one example given as plain arrays; which examples are asked for,
masks and clamps, time limits, Ctrl-C, warm starts and the layout of the answer are here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Protocol, TypeVar

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir.need import Limits
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Primal, Solution, Stop

A = TypeVar("A", bound="_StoppedAnswer")

#: Seconds for each variable and factor that it takes to lay an example out as plain arrays.
LAYING_OUT = 2e-6


class _StoppedAnswer(Protocol):
    """An answer with the reason why its search ended."""

    @property
    def stop(self) -> Stop:
        """Why."""


@dataclass(frozen=True)
class Clock:
    """When a call must end, and whom to report progress to.

    Parameters
    ----------
    end : float
        On the clock of ``time.perf_counter``; ``inf`` without a limit.
    limits : Limits
    """

    end: float
    limits: Limits

    @classmethod
    def start(cls, limits: Limits) -> Clock:
        """Return a clock that starts now."""
        return cls(np.inf if limits.time is None else perf_counter() + limits.time, limits)

    @property
    def left(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self.end - perf_counter())

    @property
    def over(self) -> bool:
        """Whether time is up."""
        return self.end < np.inf and perf_counter() >= self.end

    def afford(self, seconds: float) -> None:
        """Raise :class:`~ssvm_dsl.errors.OutOfTime` unless there is time for a step that nothing can cut short.

        Parameters
        ----------
        seconds : float
            Expected seconds of the step.
        """
        if self.end < np.inf and perf_counter() + seconds >= self.end:
            raise OutOfTime("the time limit is over")

    def share(self, n: int) -> Clock:
        """Return the clock of the next of n examples: it gets an equal share of the remaining time."""
        return self if n <= 1 or self.end == np.inf else Clock(perf_counter() + self.left / n, self.limits)

    def tell(self, score: float, bound: float) -> None:
        """Report progress on the current example."""
        if self.limits.progress is not None:
            self.limits.progress(score, bound)


@dataclass(frozen=True, eq=False)
class PlainExample:
    """One example with its scores, as plain arrays; variables are counted from 0.

    Parameters
    ----------
    number : int
        Of the example in the program.
    node : list of ndarray
        The unary scores of each variable's states, ``-inf`` where a mask or a clamp rules a state out.
    factors : list of (ndarray of int32, ndarray)
        The variables of each factor, and its table with an axis for each of them.
    const : float
        A constant added to the score of every labelling.
    """

    number: int
    node: list[F64]
    factors: list[tuple[I32, F64]]
    const: float

    @classmethod
    def of(cls, program: Program, question: Question, node: F64, number: int) -> PlainExample:
        """Return an example of a program; ``node`` is ``question.masked_node(program)``."""
        first, stop = program.var_ptr[number : number + 2].tolist()
        ends = program.state_ptr[first : stop + 1]
        unary = [node[lo:hi] for lo, hi in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
        factors = []
        for group, tables in zip(program.groups, question.theta.tables, strict=True):
            shapes, shape = group.shapes, int(group.shapes.of[number])
            mine = slice(*shapes.start[shape : shape + 2].tolist())
            scopes, rows = shapes.scope[mine], (group.rows[mine] + group.table_base[number]).tolist()
            factors += [(scope, tables[row].reshape(group.cards)) for scope, row in zip(scopes, rows, strict=True)]
        return cls(number, unary, factors, float(question.theta.const[number]))

    def score(self, labels: Sequence[int] | I32) -> float:
        """Return the score of a labelling."""
        total = self.const
        for scores, state in zip(self.node, labels, strict=True):
            total += float(scores[state])
        for scope, table in self.factors:
            total += float(table[tuple(labels[v] for v in scope)])
        return total


@dataclass(frozen=True, eq=False)
class ExampleAnswer:
    """A labelling of one example, with its score and an upper bound.

    Parameters
    ----------
    labels : sequence of int, optional
        The state of each variable; ``None`` without a labelling.
    score : float, optional
        Of the labels; computed from them by default.
    bound : float
        Upper bound on the score of every labelling: ``nan`` without one; ``-inf`` proves that there is no labelling.
    stop : Stop
        Why the search ended.
    warm : object
        State from which a later call can start.
    stats : dict
        Counters of the backend's own.
    """

    labels: Sequence[int] | I32 | None = None
    score: float | None = None
    bound: float = np.nan
    stop: Stop = Stop.FINISHED
    warm: Any = None
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def primal(self) -> Primal:
        """What there is to show."""
        if self.labels is not None:
            return Primal.FEASIBLE
        return Primal.INFEASIBLE if self.bound == -np.inf else Primal.NONE

    @classmethod
    def exact(cls, labels: Sequence[int] | I32 | None, score: float, **extra: Any) -> ExampleAnswer:
        """Return the answer of a search that has found the best labelling; score ``-inf`` means that there is none."""
        return cls(labels if score > -np.inf else None, score, score, **extra)


class ExampleSession(ABC):
    """A session for the tasks ``map`` and ``map_clamped`` that answers example by example.

    Parameters
    ----------
    program : Program
    """

    def __init__(self, program: Program) -> None:
        self.program = program

    @abstractmethod
    def answer(self, example: PlainExample, clock: Clock, warm: Any) -> ExampleAnswer:
        """Answer for one example.

        Parameters
        ----------
        example : PlainExample
        clock : Clock
            When the search must return its best labelling so far; ``clock.limits.iterations`` may also limit it.
        warm : object
            The ``warm`` of an earlier answer for this example, ``None`` without one.

        Raises
        ------
        OutOfTime
            There was no time for anything (:meth:`Clock.afford` raises it); the other examples keep their answers.
        """

    def solve(self, question: Question) -> Solution:
        """Answer a question as :class:`~ssvm_dsl.plugin_api.Session` specifies."""
        program, clock = self.program, Clock.start(question.limits)
        ids, node = question.ids(program), question.masked_node(program)
        warm_of = question.warm if isinstance(question.warm, dict) else {}

        def one(place: int, number: int, mine: Clock) -> ExampleAnswer:
            mine.afford(LAYING_OUT * _n_terms(program, number))
            example = PlainExample.of(program, question, node, number)
            found = self._checked(self.answer(example, mine, warm_of.get(number)), len(example.node))
            score = found.score
            if found.labels is None:
                score = -np.inf
            elif score is None:
                score = example.score(found.labels)
            clock.tell(score, found.bound)
            return replace(found, labels=found.labels if score > -np.inf else None, score=score)

        answers = answer_each(ids, clock, one, lambda why: ExampleAnswer(score=-np.inf, stop=why))
        return pack_answers(ids, question.label_ptr(program), answers)

    def _checked(self, found: object, n_variables: int) -> ExampleAnswer:
        """Return an answer; refuse other types, and labels of another length, which NumPy would broadcast.

        Raises
        ------
        TypeError, ValueError
The message says what ``answer`` must return.
        """
        method = f"{type(self).__name__}.answer()"
        if not isinstance(found, ExampleAnswer):
            expected = "expected an ExampleAnswer, such as ExampleAnswer.exact(labels, score)"
            raise TypeError(f"{method} returned {type(found).__name__}, {expected}")
        if found.labels is not None and len(found.labels) != n_variables:
            raise ValueError(f"{method} returned {len(found.labels)} labels for an example of {n_variables} variables")
        return found



def pack_answers(ids: I64, ptr: I64, answers: Sequence[ExampleAnswer]) -> Solution:
    """Return the answers for examples as one solution; counters of the same name are added up.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
        The examples, by whose numbers ``warm`` keeps the starts of later calls.
    ptr : ndarray of int64, shape (n + 1,)
        Where the labels of each start.
    answers : sequence of ExampleAnswer
    """
    labels, stats = np.zeros(int(ptr[-1]), dtype=np.int32), dict[str, Any]()
    for i, answer in enumerate(answers):
        if answer.labels is not None:
            labels[ptr[i] : ptr[i + 1]] = answer.labels
        for name, value in answer.stats.items():
            stats[name] = stats.get(name, 0) + value
    numbers = np.array([(one.score, one.bound) for one in answers], dtype=np.float64).reshape(-1, 2)
    score, bound = np.ascontiguousarray(numbers.T)
    codes = np.array([(one.stop, one.primal) for one in answers], dtype=np.int8).reshape(-1, 2)
    stop, primal = np.ascontiguousarray(codes.T)
    warm = {number: one.warm for number, one in zip(ids.tolist(), answers, strict=True) if one.warm is not None}
    return Solution(labels, score, bound, stop, primal, warm=warm or None, stats=stats)


def answer_each(ids: I64, clock: Clock, one: Callable[[int, int, Clock], A], missing: Callable[[Stop], A]) -> list[A]:
    """Return the answers for examples one after the other, each with its share of the time.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
    clock : Clock
        Of the whole call.
    one : callable
        Answers for (place among ``ids``, number of the example, its clock); an example for which it raises
        :class:`~ssvm_dsl.errors.OutOfTime` has no answer.
    missing : callable
        Makes the answers for the examples that time or Ctrl-C leaves out.
    """
    answers: list[A] = []
    reason = Stop.TIME
    try:
        for place, number in enumerate(ids.tolist()):
            if clock.over:
                break
            try:
                answers.append(one(place, number, clock.share(len(ids) - place)))
            except OutOfTime:
                answers.append(missing(Stop.TIME))
                continue
            if answers[-1].stop is Stop.INTERRUPTED:
                reason = Stop.INTERRUPTED
                break
    except KeyboardInterrupt:
        reason = Stop.INTERRUPTED
    return answers + [missing(reason)] * (len(ids) - len(answers))


def _n_terms(program: Program, number: int) -> int:
    """Return how many variables and factors an example has."""
    n = int(program.var_ptr[number + 1] - program.var_ptr[number])
    return n + sum(int(group.shapes.counts[number]) for group in program.groups)
