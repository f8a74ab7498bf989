"""The k best structures of an example: one call of the structure's oracle for each subspace.

See :mod:`ssvm_dsl.plugin_api.lawler`.  Variables whose label is not 0 are fixed first, as they are few; once they are
fixed, most subspaces are empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ssvm_backends.graphs.deadline import TimeUp
from ssvm_backends.graphs.ranked_lists import check_lists, pack_ranked
from ssvm_dsl.ir import F64, I32, I64, Program, Question, Solution
from ssvm_dsl.plugin_api import Clock, Ranked, Subspace, SubspaceSolver, answer_each, k_best_of


class _Oracle(Protocol):
    program: Program

    def best_of(self, node: F64, example: int) -> I32 | None:
        """Return the best labelling of one example, ``None`` where there is none."""

    def of_factors(self, labels: I32, example: int) -> float:
        """Return what factors of several variables score."""


class _Structures(SubspaceSolver):
    """Asks the oracle of a structure; ``node`` is written to, until :meth:`restore`."""

    def __init__(self, oracle: _Oracle, node: F64, example: int, clock: Clock) -> None:
        program = oracle.program
        ends = program.state_ptr[program.var_ptr[example] : program.var_ptr[example + 1] + 1]
        super().__init__(ends - ends[0])
        self.oracle, self.example, self.clock = oracle, example, clock
        self.node, self.mine = node, slice(int(ends[0]), int(ends[-1]))
        self.clean = node[self.mine].copy()

    def whole(self) -> Subspace:
        """Return the set of all labellings."""
        return Subspace.of_all(self.clean > -np.inf, len(self.ptr) - 1)

    def solve(self, space: Subspace, floor: Callable[[], float]) -> Subspace | None:
        """Return a subspace with its best structure, ``None`` where there is none."""
        if len(space.order) and self.clock.over:  # the first one is found in any case
            raise TimeUp
        self.node[self.mine] = np.where(space.states(self.ptr), self.clean, -np.inf)
        labels = self.oracle.best_of(self.node, self.example)
        if labels is None:
            return None
        alone = float(self.clean[self.ptr[:-1] + labels].sum())
        return space.with_best(labels, alone + self.oracle.of_factors(labels, self.example))

    def restore(self) -> None:
        """Undo the changes of ``node``."""
        self.node[self.mine] = self.clean

    def order(self, labels: I32, free: I64) -> I64:
        """Return the variables with a choice, those first whose label is not 0."""
        return free[np.argsort(labels[free] == 0, kind="stable")]


def k_best(session: _Oracle, question: Question) -> Solution:
    """Answer the task ``kbest`` example by example.

    Raises
    ------
    TooLargeError
        The lists of an example exceed the allowed memory.
    """
    program, clock = session.program, Clock.start(question.limits)
    ids, node, ptr = question.ids(program), question.masked_node(program).copy(), question.label_ptr(program)
    check_lists(np.diff(ptr), question.k)

    def one(place: int, example: int, mine: Clock) -> Ranked:
        solver = _Structures(session, node, example, mine)
        try:
            return k_best_of(solver, solver.whole, question.k)
        finally:
            solver.restore()

    answers = answer_each(ids, clock, one, lambda why: Ranked([], why))
    return pack_ranked(program, question.theta, ids, ptr, lambda labels: labels, answers, question.k)
