"""The session that ``lp`` and ``ilp`` share: example by example, each with its local polytope.

A polytope is built when an example of its structure is first asked for and kept, up to :data:`KEPT_COLUMNS` in all;
scores enter per call.  A solver fills in :meth:`PolytopeSession.answer`; masks, clamps, deadlines, interruption and
packing are here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np

from ssvm_backends.programs.local_polytope import LocalPolytope, PolytopeStructure, Priced, build_polytope, n_entries
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import F64, I32, I64, Marginals, Need, Primal, Program, Question, Solution, Stop, Task, Theta, pointers
from ssvm_dsl.plugin_api import Clock, ExampleAnswer, answer_each, loading, pack_answers

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

#: Columns of all structures a session keeps (100 to 300 bytes each, with what solvers make of them).
KEPT_COLUMNS = 4_000_000

#: Seconds for each entry that it takes to read an example's structure and scores.
PRICE_SECONDS = 10e-9

#: Bytes that a solver takes for each column of an example while it runs.
COLUMN_BYTES = 1000.0


class Kept(Generic[K, T]):
    """A cache of objects by key; the oldest are dropped when there are too many columns.

    Parameters
    ----------
    make : callable
        Returns the thing made from a key, and its number of columns; may take more arguments than the key.
    """

    def __init__(self, make: Callable[..., tuple[T, int]]) -> None:
        self._make, self._lock = make, Lock()
        self._made: dict[K, tuple[T, int]] = {}
        self._columns = 0

    def __call__(self, key: K, *how: Any) -> T:
        """Return the thing made from a key; ``how`` is passed on where it is made now.

        What is made from a key of a single call (``key.passing``) is not kept.
        """
        if getattr(key, "passing", False):
            return self._make(key, *how)[0]
        with self._lock:
            if key in self._made:
                return self._made[key][0]
        made = self._make(key, *how)
        with self._lock:
            if key not in self._made:
                self._made[key] = made
                self._columns += made[1]
            while self._columns > KEPT_COLUMNS and len(self._made) > 1:
                self._columns -= self._made.pop(next(iter(self._made)))[1]
        return made[0]


@dataclass(frozen=True, eq=False)
class ProgramAnswer(ExampleAnswer):
    """The answer of a solver for one example.

    Parameters
    ----------
    labels, bound, stop, warm, stats
        As of :class:`~ssvm_dsl.plugin_api.ExampleAnswer`.
    score : float
        Of the labels; without labels that of ``mu``, or ``-inf``.
    mu : ndarray of float64, optional
        Fractional solution, one number for each column of the polytope.
    """

    score: float = -np.inf
    mu: F64 | None = None

    @property
    def primal(self) -> Primal:
        """What kind of labelling the answer has, see :class:`~ssvm_dsl.ir.Primal`."""
        kind = super().primal
        return Primal.FRACTIONAL if kind is Primal.NONE and self.mu is not None else kind


def columns_of(need: Need) -> float:
    """Return about how many columns an example has."""
    columns = float(need.n_variables) * need.max_card + float(need.n_factors) * need.max_table
    return columns / max(need.n_examples, 1)


class PolytopeSession(ABC):
    """Answers example by example.

    Parameters
    ----------
    program : Program
    options : mapping
    redundant : bool
        Which rows its polytopes have; see :func:`~ssvm_backends.programs.local_polytope.build_polytope`.
    """

    def __init__(self, program: Program, options: Mapping[str, Any], redundant: bool) -> None:
        with loading():  # sessions alone need it: `check` is asked of backends that do not answer
            import scipy.sparse  # noqa: F401
        self.program, self.options = program, options

        def build(structure: PolytopeStructure, clock: Clock) -> tuple[LocalPolytope, int]:
            polytope = build_polytope(program, structure.example, redundant, clock)
            return polytope, polytope.n_columns

        self._polytope: Kept[PolytopeStructure, LocalPolytope] = Kept(build)

    @abstractmethod
    def answer(self, priced: Priced, clock: Clock, warm: Any, task: Task) -> ProgramAnswer:
        """Answer for one example; all its blocks have a column of finite score."""

    def solve(self, question: Question) -> Solution:
        """Answer a question; see :class:`~ssvm_dsl.plugin_api.Session`.

        ``Solution.warm`` maps numbers of examples to what their next answers start from.
        """
        theta, ids, clock = question.theta, question.ids(self.program), Clock.start(question.limits)
        known: Mapping[int, Any] = question.warm if isinstance(question.warm, Mapping) else {}
        node = question.masked_node(self.program)

        def solve_one(place: int, example: int, mine: Clock) -> ProgramAnswer:
            answer = self._one(theta, node, example, mine, known.get(example), question.task)
            clock.tell(answer.score, answer.bound)
            return answer

        answers = answer_each(ids, clock, solve_one, lambda why: ProgramAnswer(stop=why))
        return self.packed(question, answers)

    def packed(self, question: Question, answers: list[ProgramAnswer]) -> Solution:
        """Return the answers for all examples as one solution; there is always a start for the next call."""
        solution = pack_answers(question.ids(self.program), question.label_ptr(self.program), answers)
        solution.warm = solution.warm or {}
        return solution

    def _one(self, theta: Theta, node: F64, example: int, clock: Clock, warm: Any, task: Task) -> ProgramAnswer:
        if self.program.var_ptr[example] == self.program.var_ptr[example + 1]:
            if not empty_labelling_keeps(self.program, example):
                return ProgramAnswer(bound=-np.inf)
            const = float(theta.const[example])
            return ProgramAnswer(np.zeros(0, np.int32), const, const, mu=np.zeros(0))
        priced = None
        try:
            clock.afford(PRICE_SECONDS * n_entries(self.program, example))
            polytope = self._polytope(PolytopeStructure.from_program(self.program, example), clock)
            if polytope.side.contradictory:
                return ProgramAnswer(bound=-np.inf)
            priced = polytope.price(theta, node, self.program, example)
            if (priced.peaks == -np.inf).any():
                return ProgramAnswer(bound=-np.inf)
            return self.answer(priced, clock, warm, task)
        except OutOfTime:
            return ProgramAnswer(bound=np.nan if priced is None else priced.bound(), stop=Stop.TIME)
        except KeyboardInterrupt:  # before the solver was called, which keeps what it has
            if priced is None:
                raise
            return ProgramAnswer(bound=priced.bound(), stop=Stop.INTERRUPTED)


def first_answer(priced: Priced, labels: I32, stop: Stop, **stats: int) -> ProgramAnswer:
    """Return the labelling that a search starts from as its answer, with the bound that takes no search."""
    score, bound = priced.score_of(labels), priced.bound()
    if score == -np.inf:
        return ProgramAnswer(bound=bound, stop=stop, stats=stats)
    return ProgramAnswer(labels, score, max(bound, score), stop, warm=labels, stats=stats)


def empty_labelling_keeps(program: Program, example: int) -> bool:
    """Whether the labelling of an example without variables keeps its constraints."""
    ids, nothing, ptr = np.array([example], dtype=np.int64), np.zeros(0, np.int32), np.zeros(2, np.int64)
    return not any(group.take(ids).broken(nothing, ptr).any() for group in program.constraints)


def pack_marginals(program: Program, ids: I64, mus: list[F64 | None]) -> Marginals:
    """Return fractional solutions packed as a :class:`~ssvm_dsl.ir.Marginals`; zeros where there is none.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
        The examples.
    mus : list of ndarray
        For each of them the variables' states, then its factors' joint states group by group (the columns of a
        :class:`~ssvm_backends.programs.local_polytope.LocalPolytope`).
    """
    first, last = program.var_ptr[ids], program.var_ptr[ids + 1]
    sizes = [program.state_ptr[last] - program.state_ptr[first]]
    sizes += [np.diff(group.ptr)[ids] * group.n_configs for group in program.groups]
    widths = [1, *(group.n_configs for group in program.groups)]
    out = []
    for number, (size, width) in enumerate(zip(sizes, widths, strict=True)):
        ptr, packed = pointers(size), np.zeros(int(size.sum()))
        for i, mu in enumerate(mus):
            if mu is not None:
                start = int(sum(int(other[i]) for other in sizes[:number]))
                packed[ptr[i] : ptr[i + 1]] = mu[start : start + int(size[i])]
        out.append(packed if number == 0 else packed.reshape(-1, width))
    return Marginals(out[0], tuple(out[1:]))
