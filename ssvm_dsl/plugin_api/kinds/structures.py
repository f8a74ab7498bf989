"""The protocol for classes of ``Custom(y, oracle=...)``, and how backends call them."""

from __future__ import annotations

from typing import Protocol

from ssvm_dsl.array_types import F64, I32
from ssvm_dsl.ir.constraints import ConstraintGroup, ConstraintRules


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
