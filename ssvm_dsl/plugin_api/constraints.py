"""What kinds of hard constraints implement (``ConstraintSpec``), and bridges (``BridgeSpec``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.ir.constraints import ConstraintGroup, ConstraintRules, LinearRows
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import first_largest, owners, reduced
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.protocols import Verdict

# -- starting labellings -------------------------------------------------------------------------------------------
#
# A call with a time limit must not end in nothing.  If a backend has no labelling yet, the host returns its own:
# best states, repaired by what the kinds of the constraints know (:class:`StartingKind`).


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


@runtime_checkable
class ConstraintKind(ConstraintRules, Protocol):
    """A kind of constraint, made by the factory of a ``ConstraintSpec``."""

    def problem(self, rng: np.random.Generator) -> tuple[Program, Theta]:
        """Return a small random problem with constraints of this kind, for the conformance kit.

        It has a few examples of at most about a thousand labellings each.  Some should have no labelling, some no
        constraint, and some constraints no literal where the kind allows that.
        """


@runtime_checkable
class ExplainingKind(Protocol):
    """Optional methods of a kind of constraints: explain in words why a labelling violates it."""

    def explain(self, group: ConstraintGroup, k: int, true: Bools) -> str:
        """Return how literals break constraint k, such as ``"row 3 has 2 (columns 1, 4), at most 1"``.

        Users read it where labels that they give break the constraint.

        Parameters
        ----------
        group : ConstraintGroup
        k : int
        true : ndarray of bool, shape (literals of k,)
            Which of its literals are true.
        """


@runtime_checkable
class UnmetKind(Protocol):
    """Optional methods of a kind of constraints: say in words why no labelling satisfies one, or not this one."""

    def why_unmet(
        self, group: ConstraintGroup, k: int, scores: ConstraintScores, labels: I32 | None = None
    ) -> str:
        """Return why no labelling satisfies constraint k, or why these labels do not; an empty text if unknown.

        The text is part of two errors: that an example has no labelling, and that given labels break the constraint.

        Parameters
        ----------
        group : ConstraintGroup
        k : int
        scores : ConstraintScores
            ``-inf`` at states that are ruled out.
        labels : ndarray of int32, shape (literals of k,), optional
            The labels that break it, one for the variable of each literal; ``None`` where nothing satisfies it.
        """


@runtime_checkable
class SizedKind(Protocol):
    """Optional methods of a kind of constraints: the size of its linear description, before it is built."""

    def n_row_entries(self, group: ConstraintGroup, k: int) -> float:
        """Return about how many entries the rows of constraint k have, for kinds with more than a few per literal.

        Backends that work on rows ask it first: what does not fit, or would take longer than a time limit leaves, is
        not made.
        """


@runtime_checkable
class SeparableKind(Protocol):
    """Optional methods of a kind of constraints: rows are found where a point violates them, not listed.

    Backends that work on rows ask it in rounds, in place of ``rows``, and add what it returns.
    """

    def violated_rows(self, group: ConstraintGroup, k: int, values: F64, least: float) -> LinearRows:
        """Return rows of constraint k that a point violates, without auxiliary columns; none where it keeps all.

        Every truth of the literals that satisfies the constraint satisfies all rows.  A point of zeros and ones that
        breaks the constraint violates some row, by at least 1.

        Parameters
        ----------
        group : ConstraintGroup
        k : int
        values : ndarray of float64, shape (literals of k,)
            How true each literal is, from 0 to 1.
        least : float
            Rows that are violated by less need not be returned.
        """


@runtime_checkable
class BestKind(Protocol):
    """Optional methods of a kind of constraints: the best states under one constraint, found exactly.

    ``decompose`` and ``ad3`` ask it, in place of an integer program of the rows.
    """

    def best_states(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return the states of highest total score that satisfy constraint k; ``None`` if nothing satisfies it.

        Parameters
        ----------
        group : ConstraintGroup
        k : int
        scores : ConstraintScores
            ``-inf`` at states that are ruled out.  ``scores.gain`` has the score of each literal being true minus that
            of being false, and ``scores.labels(true)`` the best states that belong to the truth of all literals.

        Returns
        -------
        ndarray of int32, shape (m,), or None
            A state for each of the m different variables of the constraint.
        """


@runtime_checkable
class PropagatingKind(Protocol):
    """Optional methods of a kind of constraints: it adds constraints of CP-SAT that propagate more than its rows do.

    ``ilp`` asks it once for each structure of an example, in addition to the rows: what is added must be implied by the
    constraint.
    """

    def propagate(self, group: ConstraintGroup, k: int, model: Any, literals: list[Any]) -> None:
        """Add constraints that constraint k implies to a model of CP-SAT.

        Parameters
        ----------
        group : ConstraintGroup
        k : int
        model : ortools.sat.python.cp_model.CpModel
            ``model.add_circuit(...)``, ``model.add_at_most_one(...)`` and others may be called; objectives and hints
            are not the kind's.
        literals : list
            A literal of CP-SAT for each literal of the constraint.
        """


@runtime_checkable
class MixtureKind(Protocol):
    """Optional methods of a kind of constraints: the best truth values that keep one.

    ``ad3`` asks it in place of the rows: its relaxation then has the mixtures of all such truth values, which are no
    more than the points that keep the rows.  Each literal is one of its own here, as if no two were about the same
    variable.
    """

    def best_truth(self, group: ConstraintGroup, k: int, gain: F64) -> Bools | None:
        """Return the truth values that keep constraint k and gain most in all; ``None`` if none keep it.

        Parameters
        ----------
        group : ConstraintGroup
        k : int
        gain : ndarray of float64, shape (literals of k,)
            What a true literal adds; ``inf`` if it must be true, ``-inf`` if it must be false.
        """


@runtime_checkable
class ProjectingKind(MixtureKind, Protocol):
    """Optional methods of a kind of constraints: the nearest mixture of truth values that keep one, by a formula.

    ``ad3`` asks it in each iteration; without it, it finds the nearest mixture by ``best_truth`` (several calls).
    """

    def project(self, group: ConstraintGroup, k: int, point: F64) -> F64 | None:
        """Return the mixture of truth values that keep constraint k that is nearest to a point; ``None`` if none do.

        Parameters
        ----------
        group : ConstraintGroup
        k : int
        point : ndarray of float64, shape (literals of k,)
            ``inf`` where the literal is true in all of them, ``-inf`` where it is false: the result has 1 and 0 there.

        Returns
        -------
        ndarray of float64, shape (literals of k,), or None
            From 0 to 1.
        """


# -- structures of the user's: classes of ``Custom(y, oracle=...)``, and how backends call them ---------------------


class StructureOracle(Protocol):
    """A user-defined structure over the variables of one label, constructed with the options of ``Custom``.

    A class attribute ``exact = True`` says that :meth:`best` returns the best structure, or ``None`` where there is
    none.  It is believed once answers to small random problems are the same as by trying every labelling.
    """

    def feasible(self, labels: I32) -> bool:
        """Return whether a labelling is one of the structures.

        Parameters
        ----------
        labels : ndarray of int32, shape (*axes)
            The state of each variable; read only.
        """

    def best(self, scores: F64) -> I32 | None:
        """Return the structure of the highest total score, or a good one; ``None`` if none is found.

        Parameters
        ----------
        scores : ndarray of float64, shape (*axes, n_states)
            Score of each state of each variable, including the loss in training; ``-inf`` for forbidden states.
            Read only.

        Returns
        -------
        ndarray of int, shape (*axes), or None
        """


class StructureRules(ConstraintRules, Protocol):
    """The rules of the kinds ``custom`` and ``custom-exact``, which a backend asks for structures."""

    def best(self, group: ConstraintGroup, k: int, scores: F64) -> I32 | None:
        """Return the oracle's answer for constraint k, after checking that its states are allowed and form a structure.

        Parameters
        ----------
        group : ConstraintGroup
        k : int
        scores : ndarray of float64, shape (n_variables, n_states)
            Of the variables of the constraint, in the order of its first literals.

        Returns
        -------
        ndarray of int32, shape (n_variables,), or None
        """


# -- bridges -------------------------------------------------------------------------------------------------------
#
# What bridges implement (``BridgeSpec``): they rewrite hard constraints, so that backends without them can answer.
#
# A bridge looks at one example and says what stands for its constraints: auxiliary variables, and tables of joint
# states that are allowed.  Programs are put together from that by the host, once for all examples that are alike, and
# the host lays scores over them and brings answers back.  The variables and factors of the example stay as they are and
# come first, so that labellings, marginals and lists of the best are those of the first variables, and scores, bounds
# and log partitions are the same numbers.


@dataclass(eq=False)
class Rewrite:
    """The replacement of the constraints of one example.

    Each labelling that keeps the constraints has exactly one completion by states of the auxiliary variables that all
    tables (and constraints left) allow; a labelling that breaks one has none.

    Parameters
    ----------
    cards : list of int
        Number of states of each variable of the example.  Append the auxiliary variables.
    tables : list of (scope, allowed)
        Variables, and which of their joint states are allowed: ``ndarray of bool, shape (cards of the scope)``.
    constraints : list of ConstraintGroup
        Constraints of other kinds that replace the given ones, each for one example; bridges or backends take them.
    n_own : int
        Variables that are the example's own.
    """

    cards: list[int]
    tables: list[tuple[tuple[int, ...], Bools]] = field(default_factory=list)
    constraints: list[ConstraintGroup] = field(default_factory=list)
    n_own: int = field(init=False)

    def __post_init__(self) -> None:
        self.n_own = len(self.cards)

    @classmethod
    def of(cls, example: Program) -> Rewrite:
        """Return the rewriting of an example that does not rule anything out."""
        return cls(example.card.tolist())

    def variable(self, n_states: int) -> int:
        """Add an auxiliary variable and return its number."""
        self.cards.append(int(n_states))
        return len(self.cards) - 1

    def table(self, scope: Sequence[int], allowed: NDArray[np.bool_]) -> None:
        """Allow only some joint states of variables; no factor is added if all are allowed."""
        if not allowed.all():
            self.tables.append((tuple(map(int, scope)), allowed))

    def never(self) -> None:
        """Rule out every labelling, also of an example without variables."""
        self.table((self.variable(1),), np.zeros(1, dtype=bool))

    def mistakes(self) -> str:
        """Return the mistakes as text, ``""`` if there are none."""
        if any(not isinstance(one, int | np.integer) or one < 1 for one in self.cards):
            return f"variables have one state or more, got {self.cards!r:.60}"
        for scope, allowed in self.tables:
            if not scope or len(set(scope)) < len(scope) or not all(0 <= v < len(self.cards) for v in scope):
                text = f"a table is about different variables from 0 to {len(self.cards) - 1}, got {scope!r:.60}"
                repeated = len(set(scope)) < len(scope)
                return f"{text}; a variable may be in several literals of a constraint" if repeated else text
            cards = tuple(self.cards[v] for v in scope)
            if not isinstance(allowed, np.ndarray) or allowed.dtype != bool or allowed.shape != cards:
                return f"the table of the variables {scope!r:.40} must be an array of bools of shape {cards}"
        ends, card = np.array([0, len(self.cards)], dtype=np.int64), np.array(self.cards, dtype=np.int32)
        wrong = [text for group in self.constraints for text in group.mistakes(ends, card)]
        return f"a constraint that is left: {', '.join(wrong)}" if wrong else ""

    @property
    def n_entries(self) -> int:
        """Entries of all tables."""
        return sum(prod(allowed.shape) for _, allowed in self.tables)


@runtime_checkable
class Bridge(Protocol):
    """A rewriter of constraints, made by the factory of a ``BridgeSpec``.

    Both methods get one example as a separate program, without masks and with one group of constraints,
    ``example.constraints[0]``, whose kind the spec lists.  They must not depend on anything else: examples that are
    alike are rewritten once.
    """

    def check(self, example: Program) -> Verdict:
        """Return whether the bridge takes an example's constraints; the cost is about the number of table entries.

        It is to be quick: it is asked before anything is built.
        """

    def lower(self, example: Program) -> Rewrite:
        """Return the replacement of the constraints: the same labellings, each with one completion."""
