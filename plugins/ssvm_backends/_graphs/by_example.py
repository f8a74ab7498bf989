"""Sessions of solvers for any graph: forbidden states out, solve what is left, labels back, scores anew.

A backend that looks at one example at a time fills in :meth:`ExampleSession.solve_one`; everything around it
(masks, clamps, deadlines, interruption, packing) is here.  One whose kernel runs over a batch of examples uses
:func:`pack` alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_backends._graphs.graph import F64, I32, I64, Instance, build_graph
from ssvm_backends._graphs.reduce import Reduced, reduce_problem
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import Limits, Primal, Program, Solution, Stop, Task, Theta
from ssvm_dsl.ir.solution import score_labels, select

I8 = NDArray[np.int8]

NO_LIMITS = Limits()


@dataclass(frozen=True)
class Answer:
    """What a solver says about one example of an instance.

    Parameters
    ----------
    labels : ndarray of int32, shape (n_variables,), optional
        States of the example's variables, as numbered in the instance; ``None`` without a labelling.
    bound : float
        Upper bound on the score of every labelling (``nan`` without one; ``-inf`` proves that there is none).
    stop : Stop
    warm : object
        What the solver wants back next time.
    stats : dict
    """

    labels: I32 | None
    bound: float = np.nan
    stop: Stop = Stop.FINISHED
    warm: Any = None
    stats: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Clock:
    """When a call must end, and whom to tell about progress.

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
            What the step is expected to take.
        """
        if self.end < np.inf and perf_counter() + seconds >= self.end:
            raise OutOfTime("the time limit is over")

    def share(self, n: int) -> Clock:
        """Return the clock of the next of n examples: it may take an equal share of what is left."""
        return self if n <= 1 or self.end == np.inf else Clock(perf_counter() + self.left / n, self.limits)

    def tell(self, score: float, bound: float) -> None:
        """Report progress on the example at hand."""
        if self.limits.progress is not None:
            self.limits.progress(score, bound)


class ExampleSession(ABC):
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
    def solve_one(self, instance: Instance, example: int, clock: Clock, warm: Any) -> Answer:
        """Answer for one example of an instance without forbidden states; it has at least one variable."""

    def solve(
        self,
        theta: Theta,
        *,
        examples: I64 | None = None,
        task: Task = Task.MAP,
        clamp: I32 | None = None,
        warm: Any = None,
        limits: Limits = NO_LIMITS,
        k: int = 1,
    ) -> Solution:
        """Answer ``map`` or ``map_clamped``; see :class:`~ssvm_dsl.plugin_api.Session`."""
        ids, clock = select(self.program, examples), Clock.start(limits)
        reduced = reduce_problem(self.program, self.graph, theta, ids, clamp, always=self.compact)
        warm_of = warm if isinstance(warm, dict) else {}
        answers: list[Answer] = []
        for number, (here, example) in enumerate(zip(reduced.ids, ids, strict=True)):
            if clock.over:
                break
            mine = clock.share(len(ids) - number)
            answers.append(self._one(reduced, number, int(here), mine, warm_of.get(int(example))))
            if answers[-1].stop is Stop.INTERRUPTED:
                break
        answers += [Answer(None, stop=Stop.TIME)] * (len(ids) - len(answers))
        solution = pack(self.program, theta, ids, reduced, answers)
        solution.warm = {int(e): a.warm for e, a in zip(ids, answers, strict=True) if a.warm is not None} or None
        return solution

    def _one(self, reduced: Reduced, number: int, here: int, clock: Clock, warm: Any) -> Answer:
        """Answer for one example; trivial ones do not reach the solver."""
        graph = reduced.instance.graph
        if not reduced.feasible[number]:
            return Answer(None, bound=-np.inf)
        if graph.var_ptr[here] == graph.var_ptr[here + 1]:
            return Answer(np.zeros(0, np.int32), float(reduced.instance.const[here]))
        return self.solve_one(reduced.instance, here, clock, warm)


def pack(program: Program, theta: Theta, ids: I64, reduced: Reduced, answers: list[Answer]) -> Solution:
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
    solution.stats = {key: value for answer in answers for key, value in answer.stats.items()}
    return solution


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
    primal = np.where(there, Primal.FEASIBLE, np.where(bound == -np.inf, Primal.INFEASIBLE, Primal.NONE))
    return Solution(full, score, bound, stop, primal.astype(np.int8))
