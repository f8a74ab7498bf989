"""Sessions of programs that consist of structural constraints over separate variables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Protocol

import numpy as np

from ssvm_backends.graphs.batch_session import BatchCall, BatchSession
from ssvm_backends.graphs.deadline import TimeUp
from ssvm_backends.graphs.session import check_lists, pack_ranked
from ssvm_backends.structures.literals import Batch, Literals, best_states
from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, Need, Program, Question, Solution, Task, pointers, runs
from ssvm_dsl.plugin_api import (
    Clock,
    ConstraintScores,
    Ranked,
    Subspace,
    SubspaceSolver,
    Verdict,
    answer_each,
    k_best_of,
)

_NONE = np.zeros(0, np.int32)
_NO_LITERALS = (np.zeros(1, np.int64), np.zeros(1, np.int64), _NONE, _NONE, np.zeros(0, dtype=bool))


def literals_of(program: Program, group: ConstraintGroup) -> Literals:
    """Return the literals of a group of constraints as the record that kernels read."""
    return Literals(
        program.var_ptr, program.state_ptr, group.ptr, group.literal_ptr, group.variable, group.state, group.negated
    )


def places_of(program: Program) -> Literals:
    """Return where the variables of a program are, as a record of no literals."""
    return Literals(program.var_ptr, program.state_ptr, *_NO_LITERALS)


def constraint_scores(group: ConstraintGroup, k: int, ptr: I64, score: F64) -> tuple[I64, ConstraintScores]:
    """Return (the variables of a constraint, each once; what their states score).

    Parameters
    ----------
    group : ConstraintGroup
    k : int
    ptr : ndarray of int64
        Where the states of each variable of the constraint's example start.
    score : ndarray of float64
        Of the states of the example.
    """
    part = group.literals(k)
    variables, place = np.unique(group.variable[part], return_inverse=True)
    card = np.diff(ptr)[variables]
    states = runs(ptr[variables], card)
    named = place.reshape(-1).astype(np.int64), group.state[part], group.negated[part]
    return variables.astype(np.int64), ConstraintScores(*named, pointers(card), score[states])


def variables_without_literals(program: Program) -> Bools:
    """Return which variables are in no literal of a constraint; ``ndarray of bool, shape (V,)``."""
    free = np.ones(program.n_variables, dtype=bool)
    for group in program.constraints:
        first = np.repeat(program.var_ptr[:-1], np.diff(group.literal_ptr[group.ptr]))
        free[first + group.variable] = False
    return free


def batch_of(call: BatchCall, lo: int, hi: int) -> Batch:
    """Return the examples ``lo:hi`` of a call as kernels take them."""
    return Batch(call.node, call.ids[lo:hi], call.ptr[lo:], call.labels, call.feasible[lo:hi])


class StructureSession(BatchSession):
    """Finds best labellings constraint by constraint; every variable is in one literal of one constraint, or in none.

    Parameters
    ----------
    program : Program
        Without factors of two or more variables.

    Attributes
    ----------
    groups : list of ConstraintGroup
        Those with constraints.
    literals : list of Literals
        Their literals.
    free : ndarray of bool, shape (V,)
        Whether a variable is in no literal.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.groups = [group for group in program.constraints if group.n_constraints]
        self.literals = [literals_of(program, group) for group in self.groups]
        self.places, self.free = places_of(program), variables_without_literals(program)

    @abstractmethod
    def choose(self, group: int, batch: Batch, excess: F64) -> None:
        """Write the best labels of the variables in one group of constraints.

        Parameters
        ----------
        group : int
            Which of ``groups``.
        batch : Batch
        excess : ndarray of float64, shape (n,)
            Added to: how much better than the labels the best ones might be.
        """

    def solve_map(self, call: BatchCall, lo: int, hi: int) -> int:
        """Write the best labels; see :class:`~ssvm_backends.graphs.batch_session.BatchSession`."""
        self._choose_all(batch_of(call, lo, hi), call.excess[lo:hi])
        return hi

    def _choose_all(self, batch: Batch, excess: F64) -> None:
        """Write the best labels of all variables; the arguments are those of :meth:`choose`."""

        best_states(self.places, self.free, batch)
        for number in range(len(self.literals)):
            self.choose(number, batch, excess)

    def solve_kbest(self, question: Question) -> Solution:
        """Answer the task ``kbest``."""
        return k_best(self, question)

    def of_factors(self, labels: I32, example: int) -> float:
        """Return what factors of several variables score: there are none."""
        return 0.0

    def best_of(self, node: F64, example: int) -> I32 | None:
        """Return the best labelling of one example for unary scores of all, ``None`` where there is none."""
        first, last = self.program.var_ptr[example : example + 2]
        labels, feasible = np.zeros(int(last - first), dtype=np.int32), np.zeros(1, dtype=bool)
        batch = Batch(node, np.array([example]), np.zeros(1, np.int64), labels, feasible)
        self._choose_all(batch, np.zeros(1))
        return labels if feasible[0] else None


# -- Which programs the oracles of single structures take ------------------------------------------------------------

#: Fixed operations of a call of an oracle.
CALL = 5e4


def verdict(need: Need, cost: float) -> Verdict:
    """Return whether every constraint stands by itself, at so many operations for each example."""
    if need.shared_literals:
        reasons = ("takes variables that are in one literal of one constraint; here one is in several",)
        return Verdict(False, reasons=reasons)
    if Task.KBEST in need.tasks:  # a call for each variable
        cost = need.max_variables * (cost + CALL)
    return Verdict(True, need.n_examples * cost, n_bytes=40.0 * need.n_variables)


# -- The k best structures of an example: one call of the structure's oracle for each subspace -----------------------
#
# See :mod:`ssvm_dsl.plugin_api.lawler`.  Variables whose label is not 0 are fixed first, as they are few; once they are
# fixed, most subspaces are empty.


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

    def rank_one(place: int, example: int, mine: Clock) -> Ranked:
        solver = _Structures(session, node, example, mine)
        try:
            return k_best_of(solver, solver.whole, question.k)
        finally:
            solver.restore()

    answers = answer_each(ids, clock, rank_one, lambda why: Ranked([], why))
    return pack_ranked(program, question.theta, ids, ptr, lambda labels: labels, answers, question.k)
