"""The k best labellings by repeated maximisation (Lawler 1972; for matchings Murty 1968).

Given the best labelling y of a set of labellings and an order of the variables, the other labellings of the set fall
into subspaces: those that agree with y on the first j variables and differ from it at the next.  The best labelling of
all subspaces is the next one, and its subspace is split in the same way.

Subspaces are looked at in the order of their bounds.  A bound costs nothing: no labelling of a subspace scores more
than the labelling it was split off.  A solver that knows more gives each subspace a tighter bound, so that most are
never solved.  The order of the variables may leave some out: labellings that differ in these
alone are one then, with the best of their scores.

No maintained library for Python was found that offers it for graphs with cycles.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count

import numpy as np

from ssvm_dsl.array_types import I32, I64, Bools
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir.ragged import positions
from ssvm_dsl.ir.solution import Stop


@dataclass(frozen=True, eq=False)
class Subspace:
    """Labellings that agree with one on the variables ``order[:place]`` and differ from it at ``order[place]``.

    Parameters
    ----------
    within : ndarray of bool, shape (n_states,)
        States that labellings of the set may take from which the subspace was split off.
    agreed : ndarray of int32, shape (n_variables,)
        The labelling.
    order : ndarray of int64
        Variables with more than one such state; of the set of all labellings none.
    place : int
    bound : float
        No labelling of the subspace scores more.
    labels : ndarray of int32, optional
        The best labelling known of the subspace.
    score : float
        Its score.
    solved : bool
        Whether no labelling of the subspace is better than ``labels``.
    """

    within: Bools
    agreed: I32
    order: I64
    place: int = 0
    bound: float = np.inf
    labels: I32 | None = None
    score: float = -np.inf
    solved: bool = False

    @classmethod
    def of_all(cls, states: Bools, n_variables: int) -> Subspace:
        """Return the set of all labellings that take these states only."""
        return cls(states, np.zeros(n_variables, np.int32), np.zeros(0, np.int64))

    @property
    def variable(self) -> int:
        """The variable at which labellings differ."""
        return int(self.order[self.place])

    def states(self, ptr: I64) -> Bools:
        """Return which states its labellings may take; variable v has the states ``ptr[v]`` to ``ptr[v + 1]``."""
        left, fixed = self.within.copy(), self.order[: self.place]
        left[positions(ptr, fixed)] = False
        left[ptr[fixed] + self.agreed[fixed]] = True
        if len(self.order):
            left[ptr[self.variable] + self.agreed[self.variable]] = False
        return left

    def with_best(self, labels: I32, score: float) -> Subspace:
        """Return the subspace with its best labelling."""
        return replace(self, labels=labels, score=score, solved=True)


class SubspaceSolver(ABC):
    """Finds the best labellings of subspaces.

    Parameters
    ----------
    ptr : ndarray of int64, shape (n_variables + 1,)
        Where the states of each variable start.
    """

    def __init__(self, ptr: I64) -> None:
        self.ptr = ptr

    @abstractmethod
    def solve(self, space: Subspace, floor: Callable[[], float]) -> Subspace | None:
        """Return a subspace with its best labelling; ``None`` where it has none, or none that is wanted.

        ``floor()`` is a score that as many labellings attain as are still wanted.

        Raises
        ------
        OutOfTime
        """

    def order(self, labels: I32, free: I64) -> I64:
        """Return the variables with a choice in the order in which they are fixed."""
        return free

    def split(self, space: Subspace, within: Bools, order: I64) -> Iterator[Subspace]:
        """Yield the subspaces of the other labellings of a solved subspace; ``within`` are its states."""
        assert space.labels is not None
        for place in range(len(order)):
            yield Subspace(within, space.labels, order, place, space.score)


@dataclass(frozen=True)
class Ranked:
    """The best labellings of one example, best first, and why there are no more."""

    labels: list[I32]
    stop: Stop


def k_best_of(solver: SubspaceSolver, whole: Callable[[], Subspace | None], k: int) -> Ranked:
    """Return up to k labellings; fewer where there are no more, time is up, or at Ctrl-C.

    Parameters
    ----------
    solver : SubspaceSolver
    whole : callable
        Returns the set of all labellings, solved or not; ``None`` where there is none.
    k : int
    """
    labellings: list[I32] = []
    try:
        first = whole()
        if first is not None:
            for labels in _best_first(solver, first, k):
                labellings.append(labels)
    except OutOfTime:
        return Ranked(labellings, Stop.TIME)
    except KeyboardInterrupt:
        return Ranked(labellings, Stop.INTERRUPTED)
    return Ranked(labellings, Stop.FINISHED)


def _best_first(solver: SubspaceSolver, whole: Subspace, k: int) -> Iterator[I32]:
    """Yield up to k labellings, best first."""
    numbers, wanted = count(), k  # of equal bounds the subspace that was found first
    heap: list[tuple[float, int, Subspace]] = []

    def push(space: Subspace) -> None:
        heappush(heap, (-(space.score if space.solved else space.bound), next(numbers), space))

    push(whole)
    while heap and wanted:
        space = heappop(heap)[2]
        if not space.solved:
            solved = solver.solve(space, partial(_floor, space.score, heap, wanted))
            if solved is not None:
                push(solved)
            continue
        assert space.labels is not None
        yield space.labels
        wanted -= 1
        if wanted:
            within = space.states(solver.ptr)
            n_left = np.add.reduceat(within, solver.ptr[:-1], dtype=np.int64) if len(space.labels) else within
            order = solver.order(space.labels, np.flatnonzero(n_left > 1))
            for other in solver.split(space, within, order):
                push(other)


def _floor(score: float, heap: list[tuple[float, int, Subspace]], wanted: int) -> float:
    """Return a score that so many labellings of different subspaces attain, ``-inf`` where fewer are known."""
    scores = [score, *(space.score for _, _, space in heap)]
    return float(np.partition(scores, len(scores) - wanted)[-wanted]) if len(scores) >= wanted else -np.inf
