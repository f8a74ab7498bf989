"""Sessions of programs that consist of structural constraints over separate variables."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ssvm_backends.graphs.batch_session import BatchCall, BatchSession
from ssvm_backends.structures.literals import Literals
from ssvm_backends.structures.ranking import k_best
from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, Program, Question, Solution, pointers, runs
from ssvm_dsl.plugin_api import ConstraintScores

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
    def choose(self, group: int, node: F64, ids: I64, ptr: I64, labels: I32, feasible: Bools, excess: F64) -> None:
        """Write the best labels of the variables in one group of constraints.

        Parameters
        ----------
        group : int
            Which of ``groups``.
        node : ndarray of float64, shape (S,)
            Unary scores, ``-inf`` at states that are ruled out.
        ids : ndarray of int64, shape (n,)
            The examples.
        ptr : ndarray of int64, shape (at least n,)
            Where the labels of each start.
        labels : ndarray of int32
            Written.
        feasible : ndarray of bool, shape (n,)
            Set to false where nothing satisfies a constraint.
        excess : ndarray of float64, shape (n,)
            Added to: how much better than the labels the best ones might be.
        """

    def solve_map(self, call: BatchCall, lo: int, hi: int) -> int:
        """Write the best labels; see :class:`~ssvm_backends.graphs.batch_session.BatchSession`."""
        feasible, excess = call.feasible[lo:hi], call.excess[lo:hi]
        self._choose_all(call.node, call.ids[lo:hi], call.ptr[lo:], call.labels, feasible, excess)
        return hi

    def _choose_all(self, node: F64, ids: I64, ptr: I64, labels: I32, feasible: Bools, excess: F64) -> None:
        """Write the best labels of all variables; the arguments are those of :meth:`choose`."""
        from ssvm_backends.structures.literals import best_states

        best_states(self.places, self.free, node, ids, ptr, labels, feasible)
        for number in range(len(self.literals)):
            self.choose(number, node, ids, ptr, labels, feasible, excess)

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
        self._choose_all(node, np.array([example]), np.zeros(1, np.int64), labels, feasible, np.zeros(1))
        return labels if feasible[0] else None
