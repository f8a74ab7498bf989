"""The base of sessions that work on graphs: forbidden states are taken out, the reduced examples are solved, labels
are lifted back and scored again.

A backend fills in :meth:`GraphSession.search`, which works on a :class:`GraphCall` in place: everything that it has
written there by the time limit, or by Ctrl-C, is the answer.  A kernel over the whole batch runs in slices
(:meth:`GraphCall.run`); a solver that looks at one example at a time fills in :meth:`ExampleGraphSession.solve_one`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.graphs.graph import Instance, build_graph
from ssvm_backends.graphs.reduce import Reduced, Remainders
from ssvm_dsl.errors import OutOfTime, TooLargeError
from ssvm_dsl.ir import F64, I8, I32, I64, Bools, Primal, Program, Question, Solution, Stop, Theta, label_ptr
from ssvm_dsl.plugin_api import Clock, ExampleAnswer, Ranked, answer_each, pack_answers, score_labels

#: Codes as plain numbers: looking at a member of an enumeration costs more than comparing a small array.
FINISHED, TIME, INTERRUPTED = int(Stop.FINISHED), int(Stop.TIME), int(Stop.INTERRUPTED)
FEASIBLE, NONE, INFEASIBLE = int(Primal.FEASIBLE), int(Primal.NONE), int(Primal.INFEASIBLE)


@dataclass(eq=False)
class GraphCall:
    """One question, its reduced examples, and the answer so far.

    Parameters
    ----------
    program : Program
    question : Question
    clock : Clock
        Started with the call.
    reduced : Reduced
        The reduced examples.
    labels : ndarray of int32
        The best labellings of the reduced examples, packed over ``label_ptr``.
    there : ndarray of bool, shape (n,)
        Whether an example has a labelling.
    bound : ndarray of float64, shape (n,)
        Upper bounds; ``nan`` where there are none, ``-inf`` proves that there is no labelling, or leaves the bound of
        an exact answer to the score of its labels.
    excess : ndarray of float64, shape (n,)
        How far the best score may be above that bound.
    stop : ndarray of int8, shape (n,)
        Why the search ended: for lack of time, unless said otherwise.
    warm : object
        The start of a later call.
    stats : dict
    state : object
        Data that the session has prepared for this call.
    """

    program: Program
    question: Question
    clock: Clock
    reduced: Reduced
    label_ptr: I64
    labels: I32
    there: Bools
    bound: F64
    excess: F64
    stop: I8
    warm: Any = None
    stats: dict[str, Any] = field(default_factory=dict)
    state: Any = None

    @classmethod
    def start(cls, program: Program, question: Question, reduced: Reduced, clock: Clock) -> GraphCall:
        """Return the record of a call in which no example is answered yet."""
        n, ptr = len(reduced.ids), reduced.label_ptr
        return cls(
            program, question, clock, reduced, ptr, np.zeros(int(ptr[-1]), np.int32), np.zeros(n, np.bool_),
            np.full(n, np.nan), np.zeros(n), np.full(n, TIME, np.int8),
        )  # fmt: skip

    def retake(self, reduced: Reduced) -> None:
        """Replace the reduced examples of the call; earlier answers of the call are dropped."""
        fresh = GraphCall.start(self.program, self.question, reduced, self.clock)
        self.reduced, self.label_ptr, self.labels = reduced, fresh.label_ptr, fresh.labels
        self.bound, self.stop = fresh.bound, fresh.stop

    @property
    def ids(self) -> I64:
        """The examples asked for, as the program numbers them."""
        return self.question.ids(self.program)

    @property
    def n_examples(self) -> int:
        """Number of examples asked for."""
        return len(self.stop)

    @property
    def instance(self) -> Instance:
        """The reduced instance."""
        return self.reduced.instance

    @property
    def starts(self) -> Mapping[int, Any]:
        """What earlier answers left for each example."""
        return self.question.warm if isinstance(self.question.warm, dict) else {}

    def run(self, step: Callable[[], bool]) -> bool:
        """Repeat a slice of work until it returns True or time is up; return whether it did."""
        while not self.clock.over:
            if step():
                return True
        return False

    def take(self, answers: list[ExampleAnswer]) -> None:
        """Take over the answers for the examples, in their order."""
        packed = pack_answers(self.ids, self.label_ptr, answers)
        self.labels, self.bound, self.stop, self.warm = packed.labels, packed.bound, packed.stop, packed.warm
        self.there = packed.primal == FEASIBLE
        self.stats |= packed.stats

    def solution(self) -> Solution:
        """Return the solution; a bound that rounding left below its labelling's score is lifted to it."""
        packed = pack_arrays(
            self.program, self.question.theta, self.ids, self.reduced, self.labels, self.there & self.reduced.feasible,
            self.bound, self.stop,
        )  # fmt: skip
        packed.bound += self.excess
        packed.warm, packed.stats = self.warm, self.stats
        return packed


class GraphSession(ABC):
    """Answers questions about the graphs of a program.

    Parameters
    ----------
    program : Program
    options : mapping
        The backend's options.

    Attributes
    ----------
    compact : bool
        Whether variables of a single state are always taken out; the solver does not take them.
    """

    compact = False

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        self.program, self.options = program, options
        self.graph = build_graph(program)
        self.remainders = Remainders(program, self.graph)

    @abstractmethod
    def search(self, call: GraphCall) -> None:
        """Fill in the answer of a call, in place, until all is done or its time is up.

        Raises
        ------
        OutOfTime, KeyboardInterrupt
            The part filled in so far is the answer; where ``stop`` was not set, time or Ctrl-C is the reason.
        """

    def solve(self, question: Question) -> Solution:
        """Answer a question about labellings; see :class:`~ssvm_dsl.plugin_api.Session`."""
        return self.searched(question).solution()

    def searched(self, question: Question) -> GraphCall:
        """Return the call of a question after the search."""
        call = self.begin(question)
        try:
            with suppress(OutOfTime):
                self.search(call)
        except KeyboardInterrupt:
            call.stop[call.stop == TIME] = INTERRUPTED
        return call

    def begin(self, question: Question) -> GraphCall:
        """Return the call of a question, with its reduced examples."""
        clock = Clock.start(question.limits)
        reduced = self.remainders.reduce(question, always=self.compact)
        return GraphCall.start(self.program, question, reduced, clock)


class ExampleGraphSession(GraphSession):
    """Solves example by example."""

    @abstractmethod
    def solve_one(self, call: GraphCall, place: int, clock: Clock, start: I32 | None) -> ExampleAnswer:
        """Answer for one example, of which at least one variable is left.

        Parameters
        ----------
        call : GraphCall
        place : int
            Which of the examples asked for.
        clock : Clock
            Its share of the time.
        start : ndarray of int32, optional
            Its first labelling, where there is one.
        """

    def first_labels(self, call: GraphCall) -> list[I32]:
        """Return labellings of the first examples, before any of them is solved, for examples that get no other."""
        return []

    def search(self, call: GraphCall) -> None:
        """Answer one example after the other, each with its share of the time; trivial ones need no solver."""
        first, left = self.first_labels(call), call.instance.graph

        def answer(place: int, example: int, mine: Clock) -> ExampleAnswer:
            here = int(call.reduced.ids[place])
            if not call.reduced.feasible[place]:
                return ExampleAnswer(bound=-np.inf)
            if left.var_ptr[here] == left.var_ptr[here + 1]:
                return ExampleAnswer(np.zeros(0, np.int32), bound=float(call.instance.const[here]))
            return self.solve_one(call, place, mine, first[place] if place < len(first) else None)

        def missing(why: Stop) -> ExampleAnswer:
            return ExampleAnswer(stop=why)

        call.take(answer_each(call.ids, call.clock, answer, missing))
        for place, labels in enumerate(first):
            if not call.there[place] and np.isnan(call.bound[place]):
                call.there[place] = True
                call.labels[call.label_ptr[place] : call.label_ptr[place + 1]] = labels


def pack_arrays(
    program: Program, theta: Theta, ids: I64, reduced: Reduced, labels: I32, there: Bools, bound: F64, stop: I8
) -> Solution:
    """Return a solution from labels and bounds of reduced examples.

    Scores are computed again from the full labels; a bound that rounding left below its labelling's score is lifted to
    it.

    Parameters
    ----------
    labels : ndarray of int32
        Packed over ``reduced.ids``.
    there : ndarray of bool, shape (n,)
        Whether there is a labelling.
    bound : ndarray of float64, shape (n,)
        Upper bounds, ``nan`` where there are none; ``-inf`` proves that there is no labelling.
    stop : ndarray of int8, shape (n,)
    """
    full = reduced.lift(labels)
    score = np.where(there, score_labels(program, theta, full, ids), -np.inf)
    bound = np.where(reduced.feasible, bound, -np.inf)
    bound = np.where(bound < score, score, bound)
    return Solution(full, score, bound, stop, Primal.codes(score, bound))


def labels_by_example(program: Program, ids: I64, labels: I32, there: Bools) -> dict[int, I32]:
    """Return the labels of the examples that have some, by their numbers: the start of a later call."""
    ptr = label_ptr(program, ids)
    return {int(ids[i]): labels[ptr[i] : ptr[i + 1]] for i in np.flatnonzero(there).tolist()}


# -- The k best labellings of each example of a batch: how many fit, and the solution made of their lists ------------

#: Bytes for the subspaces of one example when labellings are listed, and of a subspace besides its labels.
MEMORY, PART = 2.0**31, 500.0


def pack_ranked(
    program: Program, theta: Theta, ids: I64, ptr: I64, lift: Callable[[I32], I32], answers: Sequence[Ranked],
    k: int,
) -> Solution:  # fmt: skip
    """Return a solution of the task ``kbest`` from labellings of reduced examples.

    Parameters
    ----------
    ptr : ndarray of int64, shape (n + 1,)
        Where the labels of each reduced example start.
    lift : callable
        Maps packed labels of reduced examples to packed labels of the examples.
    answers : sequence of Ranked
        The best labellings of each example, best first up to rounding; they are put in the order of their scores
        recomputed.  Lists of examples that were cut short may be incomplete.
    k : int
    """
    full_ptr, n = label_ptr(program, ids), len(ids)
    stop = np.array([answer.stop for answer in answers], dtype=np.int8).reshape(n)
    left, there = np.zeros((k, int(ptr[-1])), dtype=np.int32), np.zeros((k, n), dtype=bool)
    for i, answer in enumerate(answers):
        there[: len(answer.labels), i] = True
        for rank, labels in enumerate(answer.labels):
            left[rank, ptr[i] : ptr[i + 1]] = labels
    labels = np.stack([lift(row) for row in left]) if k else np.zeros((0, int(full_ptr[-1])), np.int32)
    score = np.stack([score_labels(program, theta, row, ids) for row in labels])
    score[~there] = -np.inf
    _sort(labels, score, full_ptr)
    missing = np.where(stop == FINISHED, INFEASIBLE, NONE)
    primal = np.where(there[0], FEASIBLE, missing).astype(np.int8)
    bound = np.where((stop == FINISHED) | there[0], score[0], np.nan)
    return Solution(labels, score, bound, stop, primal)


def check_lists(n_variables: I64, k: int) -> None:
    """Refuse a k whose subspaces exceed the memory: in Lawler's method each labelling splits off one for each variable.

    Parameters
    ----------
    n_variables : ndarray of int64, shape (n,)
        Of each example.
    k : int

    Raises
    ------
    TooLargeError
    """
    longest = float(n_variables.max(initial=1))
    each = max(longest, 1.0) * (4.0 * longest + PART)
    if k * each > MEMORY:
        text = f"the {k} best labellings of {longest:.0f} variables may need {k * each / 2**30:.1f} GiB"
        text += f" ({MEMORY / 2**30:g} are allowed); ask for at most {int(MEMORY // each)}"
        raise TooLargeError(text)


def _sort(labels: I32, score: F64, ptr: I64) -> None:
    """Put labellings of equal score up to rounding in the order of their scores recomputed."""
    for i in np.flatnonzero((score[1:] > score[:-1]).any(axis=0)):
        order: NDArray[np.intp] = np.argsort(-score[:, i], kind="stable")
        score[:, i] = score[order, i]
        mine = slice(int(ptr[i]), int(ptr[i + 1]))
        labels[:, mine] = labels[order, mine]
