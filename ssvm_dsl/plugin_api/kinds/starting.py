"""Starting labellings: the arguments and results of kinds of constraints that propose them.

A call with a time limit must not end in nothing.  If a backend has no labelling yet, the host returns its own:
best states, repaired by what the kinds of the constraints know (:class:`StartingKind`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.ragged import first_largest, owners, reduced


@dataclass(frozen=True, eq=False)
class ConstraintScores:
    """The unary scores of the variables of one constraint.

    Parameters
    ----------
    place : ndarray of int64, shape (l,)
        The variable of each literal, as its number among the m different ones of the constraint.
    state : ndarray of int32, shape (l,)
    negated : ndarray of bool, shape (l,)
        Literals that say "has not".
    ptr : ndarray of int64, shape (m + 1,)
        Scores ``ptr[v]:ptr[v + 1]`` are those of the states of variable v.
    score : ndarray of float64, shape (s,)
        ``-inf`` where a mask or a clamp rules a state out.
    """

    place: I64
    state: I32
    negated: Bools
    ptr: I64
    score: F64

    @property
    def n_variables(self) -> int:
        """Number of variables m."""
        return len(self.ptr) - 1

    @cached_property
    def entry(self) -> I64:
        """Where the score of the state that each literal names is; ``ndarray, shape (l,)``."""
        return np.asarray(self.ptr[self.place] + self.state)

    @cached_property
    def gain(self) -> F64:
        """The score of each true literal minus that of the false one; ``ndarray, shape (l,)``.

        Of the best states that make it so: ``inf`` where nothing makes it false, ``-inf`` where nothing makes it true.
        """
        if not len(self.place):
            return np.zeros(0)
        if self._plain:
            return _difference(self.score[1::2], self.score[::2])
        named = self.score[self.entry]
        gain = _difference(named, self._best_but())
        return np.where(self.negated, -gain, gain)

    @cached_property
    def _plain(self) -> bool:
        """Whether literal l says that variable l, of two states, has state 1: then nothing needs to be looked up."""
        m = self.n_variables
        alone = len(self.place) == m == len(self.score) // 2 and not self.negated.any() and (self.state == 1).all()
        return bool(alone and (np.diff(self.ptr) == 2).all() and (self.place == np.arange(m)).all())

    def _best_but(self) -> F64:
        """Return the best score of the variable of each literal without the state that it names."""
        first = self.ptr[:-1]
        best = reduced(np.maximum, self.score, first)
        owner = owners(self.ptr)
        top = self.score == best[owner]
        single = np.bincount(owner[top], minlength=self.n_variables) == 1
        below = np.where(top, -np.inf, self.score)
        second = np.where(single, reduced(np.maximum, below, first), best)
        return np.where(self.score[self.entry] == best[self.place], second[self.place], best[self.place])

    def labels(self, true: Bools) -> I32 | None:
        """Return the best states that give the literals these truth values; ``None`` if no states do.

        Parameters
        ----------
        true : ndarray of bool, shape (l,)

        Returns
        -------
        ndarray of int32, shape (m,), or None
        """
        if self._plain:
            return None if (self.score[2 * self.place + true] == -np.inf).any() else true.astype(np.int32)
        taken = true != self.negated  # the variable has the state that the literal names
        score = self.score.copy()
        score[self.entry[~taken]] = -np.inf
        wanted = np.full(self.n_variables, -1, dtype=np.int64)
        wanted[self.place[taken]] = self.entry[taken]
        if (wanted[self.place[taken]] != self.entry[taken]).any():
            return None  # two states at once
        fixed = wanted >= 0
        if fixed.any():
            owner = owners(self.ptr)
            score[fixed[owner] & (np.arange(len(score)) != wanted[owner])] = -np.inf
        best = self.best(score)
        return None if len(best) and (score[self.ptr[:-1] + best] == -np.inf).any() else best

    def best(self, score: F64 | None = None) -> I32:
        """Return the state of the highest score of each variable, the first of several; ``shape (m,)``.

        Parameters
        ----------
        score : ndarray of float64, shape (s,), optional
            Other scores of the states.
        """
        return first_largest(self.score if score is None else score, self.ptr).astype(np.int32)


@runtime_checkable
class StartingKind(Protocol):
    """Optional methods of a kind of constraints: a labelling that satisfies one constraint, found immediately."""

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return high-scoring states of the variables that satisfy constraint k; ``None`` if none are found.

        It is asked when time is up, so that it takes milliseconds: a greedy choice is right, the best one is not asked
        for.  The result is checked.

        Parameters
        ----------
        group : ConstraintGroup
        k : int
        scores : ConstraintScores

        Returns
        -------
        ndarray of int32, shape (m,), or None
        """


def _difference(one: F64, other: F64) -> F64:
    """Return ``one - other``, ``-inf`` where the first is."""
    with np.errstate(invalid="ignore"):
        return np.where(one == -np.inf, -np.inf, one - other)
