"""What kinds of hard constraints implement (``ConstraintSpec``)."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from ssvm_dsl.array_types import F64, I32, Bools
from ssvm_dsl.ir.constraints import ConstraintGroup, ConstraintRules, LinearRows
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.kinds.starting import ConstraintScores


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
