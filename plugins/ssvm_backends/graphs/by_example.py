"""Sessions of solvers for any graph: forbidden states out, solve what is left, labels back, scores anew.

A backend that looks at one example at a time fills in :meth:`ReducedSession.solve_one`; everything around it
(masks, clamps, deadlines, interruption, packing) is here.  One whose kernel runs over a batch of examples uses
:func:`pack` alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.graphs.graph import Instance, build_graph
from ssvm_backends.graphs.reduce import Reduced, reduce_problem
from ssvm_dsl.errors import TooLargeError
from ssvm_dsl.ir import (
    F64,
    I8,
    I32,
    I64,
    Primal,
    Program,
    Question,
    Solution,
    Stop,
    Theta,
    label_ptr,
    score_labels,
)
from ssvm_dsl.plugin_api import Clock, ExampleAnswer, answer_each

#: Codes as plain numbers: looking at a member of an enumeration costs more than comparing a small array.
FINISHED = int(Stop.FINISHED)
FEASIBLE, NONE, INFEASIBLE = int(Primal.FEASIBLE), int(Primal.NONE), int(Primal.INFEASIBLE)

#: Bytes that the parts of one example may take when labellings are listed, and what a part takes besides its labels.
MEMORY, PART = 2.0**31, 500.0


class ReducedSession(ABC):
    """Solves example by example.

    ``compact`` may be set by solvers that do not take variables of a single state.

    Parameters
    ----------
    program : Program
    options : mapping
        The backend's options.
    """

    compact = False

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        self.program, self.options = program, options
        self.graph = build_graph(program)

    @abstractmethod
    def solve_one(
        self, instance: Instance, example: int, clock: Clock, warm: Any, start: I32 | None = None
    ) -> ExampleAnswer:
        """Answer for one example of an instance without forbidden states; it has at least one variable.

        ``start`` is its first labelling, where there is one.
        """

    def first_labels(self, reduced: Reduced, clock: Clock) -> list[I32]:
        """Return labellings of the first examples, before any of them is solved: what they have in any case."""
        return []

    def solve(self, question: Question) -> Solution:
        """Answer ``map`` or ``map_clamped``; see :class:`~ssvm_dsl.plugin_api.Session`."""
        ids, clock = question.ids(self.program), Clock.start(question.limits)
        reduced = reduce_problem(self.program, self.graph, question, always=self.compact)
        warm_of = question.warm if isinstance(question.warm, dict) else {}

        first = self.first_labels(reduced, clock)

        def one(place: int, example: int, mine: Clock) -> ExampleAnswer:
            start = first[place] if place < len(first) else None
            return self._one(reduced, place, int(reduced.ids[place]), mine, warm_of.get(example), start)

        answers = answer_each(ids, clock, one, lambda why: ExampleAnswer(stop=why))
        for place, labels in enumerate(first):
            if answers[place].labels is None and np.isnan(answers[place].bound):
                answers[place] = replace(answers[place], labels=labels)
        solution = pack(self.program, question.theta, ids, reduced, answers)
        solution.warm = {int(e): a.warm for e, a in zip(ids, answers, strict=True) if a.warm is not None} or None
        return solution

    def _one(
        self, reduced: Reduced, number: int, here: int, clock: Clock, warm: Any, start: I32 | None
    ) -> ExampleAnswer:
        """Answer for one example; trivial ones do not reach the solver."""
        graph = reduced.instance.graph
        if not reduced.feasible[number]:
            return ExampleAnswer(bound=-np.inf)
        if graph.var_ptr[here] == graph.var_ptr[here + 1]:
            return ExampleAnswer(np.zeros(0, np.int32), bound=float(reduced.instance.const[here]))
        return self.solve_one(reduced.instance, here, clock, warm, start)


def pack(program: Program, theta: Theta, ids: I64, reduced: Reduced, answers: list[ExampleAnswer]) -> Solution:
    """Return the solution of several examples from the answers on what was left of them."""
    ptr, n = reduced.label_ptr, len(ids)
    labels = np.zeros(int(ptr[-1]), dtype=np.int32)
    for i, answer in enumerate(answers):
        if answer.labels is not None:
            labels[ptr[i] : ptr[i + 1]] = answer.labels
    bound = np.array([answer.bound for answer in answers], dtype=np.float64).reshape(n)
    stop = np.array([answer.stop for answer in answers], dtype=np.int8).reshape(n)
    there = np.array([answer.labels is not None for answer in answers], dtype=bool).reshape(n)
    solution = pack_arrays(program, theta, ids, reduced, labels, there, bound, stop)
    for answer in answers:
        for key, value in answer.stats.items():
            solution.stats[key] = solution.stats.get(key, 0) + value
    return solution


def pack_ranked(
    program: Program, theta: Theta, ids: I64, ptr: I64, lift: Callable[[I32], I32], found: list[list[I32]], stop: I8,
    k: int,
) -> Solution:  # fmt: skip
    """Return a solution of the task ``kbest`` from labellings of what was left of the examples.

    Parameters
    ----------
    ptr : ndarray of int64, shape (n + 1,)
        Where the labels of what was left of each example start.
    lift : callable
        Makes packed labels of the examples of packed labels of what was left.
    found : list of list of ndarray of int32
        The best labellings of each example, best first up to rounding; they are put in the order of their scores
        computed anew.
    stop : ndarray of int8, shape (n,)
        Lists of examples that were cut short may be incomplete.
    k : int
    """
    full_ptr, n = label_ptr(program, ids), len(ids)
    left, there = np.zeros((k, int(ptr[-1])), dtype=np.int32), np.zeros((k, n), dtype=bool)
    for i, listed in enumerate(found):
        there[: len(listed), i] = True
        for rank, labels in enumerate(listed):
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
    """Refuse a k whose parts do not fit: in Lawler's method each labelling splits off one for each variable.

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
    """Put labellings of equal score up to rounding in the order of their scores computed anew."""
    for i in np.flatnonzero((score[1:] > score[:-1]).any(axis=0)):
        order: NDArray[np.intp] = np.argsort(-score[:, i], kind="stable")
        score[:, i] = score[order, i]
        mine = slice(int(ptr[i]), int(ptr[i + 1]))
        labels[:, mine] = labels[order, mine]


def pack_arrays(
    program: Program, theta: Theta, ids: I64, reduced: Reduced, labels: I32, there: NDArray[np.bool_], bound: F64,
    stop: I8,
) -> Solution:  # fmt: skip
    """Return a solution from labels and bounds of what was left of the examples.

    Scores are computed anew from the full labels; a bound that rounding left below its labelling's score is
    lifted to it.

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
    there &= score > -np.inf
    bound = np.where(reduced.feasible, bound, -np.inf)
    bound = np.where(bound < score, score, bound)
    primal = np.where(there, FEASIBLE, np.where(bound == -np.inf, INFEASIBLE, NONE))
    return Solution(full, score, bound, stop, primal.astype(np.int8))
