"""Constraints whose kind finds best truth values, as factors of AD3 (:class:`~ssvm_dsl.plugin_api.MixtureKind`).

As for directed trees, a factor holds all literals of one constraint, and its polytope is that of the truth values that
keep it.  A kind has a formula for the nearest point of it, or active sets find that.  Kinds are written in Python, so
the compiled loop calls back.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from numba import types

from ssvm_backends.dual.admm.active_set import MixtureProjection
from ssvm_backends.dual.admm.program_trees import FALSE, TRUE
from ssvm_dsl.ir import F64, I64, Bools, ConstraintGroup, Program
from ssvm_dsl.plugin_api import MixtureKind, ProjectingKind

#: What the compiled loop asks: the nearest point of a row, which is written, or the row's term of the dual bound.
NEAREST, BOUND = 0, 1

_SIGNATURE = types.float64(types.int64, types.int64)
_ADDRESS = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_int64)


class MixtureCall(types.WrapperAddressProtocol):  # type: ignore[misc]
    """A function of Python that compiled code calls; after an exception it is not called again.

    Parameters
    ----------
    function : callable
        Of what is asked and the number of the row.

    Attributes
    ----------
    error : BaseException, optional
        What it raised: for the caller of the compiled code.
    """

    def __init__(self, function: Callable[[int, int], float]) -> None:
        self.error: BaseException | None = None
        self._function, self._kept = function, _ADDRESS(self)

    def __call__(self, what: int, row: int) -> float:
        """Return what the function does, nan after an exception."""
        if self.error is None:
            try:
                return self._function(what, row)
            except BaseException as err:  # nothing may leave through compiled code
                self.error = err
        return float("nan")

    def __wrapper_address__(self) -> int:
        """Return where it is called."""
        return ctypes.cast(self._kept, ctypes.c_void_p).value or 0

    def signature(self) -> types.Type:
        """Return numba's signature."""
        return _SIGNATURE


class MixtureRows(NamedTuple):
    """Which rows are mixtures of truth values, and the function that solves these.

    Parameters
    ----------
    of_row : ndarray of bool, shape (R,)
    call : MixtureCall
    """

    of_row: Bools
    call: MixtureCall


@dataclass(frozen=True, eq=False)
class MixtureConstraint:
    """One constraint of a program.

    Parameters
    ----------
    group : ConstraintGroup
    k : int
    """

    group: ConstraintGroup
    k: int

    @property
    def kind(self) -> MixtureKind:
        """Its kind."""
        return cast(MixtureKind, self.group.rules)

    def best(self, gain: F64) -> Bools | None:
        """Return the best truth values of the literals; ``None`` if none keep the constraint."""
        return self.kind.best_truth(self.group, self.k, gain)

    @property
    def sign(self) -> F64:
        """Return -1 for each literal that says "has not", 1 for the others."""
        return np.where(self.group.negated[self.group.literals(self.k)], -1.0, 1.0)

    def columns(self, program: Program, i: int) -> I64:
        """Return the state that each literal names, of the program, whose example i has the constraint."""
        part = self.group.literals(self.k)
        return program.state_ptr[program.var_ptr[i] + self.group.variable[part]] + self.group.state[part]


class Mixture:
    """One constraint among the reduced examples asked for.

    Parameters
    ----------
    constraint : MixtureConstraint
    entry : ndarray of int64, shape (literals,)
        The entry of each literal, ``TRUE`` or ``FALSE`` where it is decided.
    """

    def __init__(self, constraint: MixtureConstraint, entry: I64) -> None:
        self.constraint, self._free = constraint, entry >= 0
        self._entry, self._away = entry[self._free], constraint.sign[self._free] < 0.0
        self._decided = np.where(entry == TRUE, np.inf, np.where(entry == FALSE, -np.inf, 0.0))
        self._set = MixtureProjection(constraint.best, self._decided)

    def exists(self) -> bool:
        """Whether some truth values keep the constraint."""
        return self.constraint.best(self._decided) is not None

    def write_nearest(self, point: F64, copy: F64) -> None:
        """Write the nearest mixture to the constraint's entries of a point."""
        one, given = self.constraint, point[self._entry]
        true = np.where(self._away, 1.0 - given, given)
        if isinstance(one.kind, ProjectingKind):
            at = self._decided.copy()
            at[self._free] = true
            found = one.kind.project(one.group, one.k, at)
            if found is None:
                raise ValueError(f"project() of '{one.group.name}' is None, and best_truth() found truth values")
            near = found[self._free]
        else:
            near = self._set.nearest(true)
        copy[self._entry] = np.where(self._away, 1.0 - near, near)

    def bound(self, message: F64) -> float:
        """Return ``max -message . z`` over the mixtures z of its entries."""
        gain, given = self._decided.copy(), -message[self._entry]
        gain[self._free] = np.where(self._away, -given, given)
        found = self.constraint.best(gain)
        if found is None:
            raise ValueError(f"best_truth() of '{self.constraint.group.name}' is None at some gains only")
        return float(given @ (found[self._free] != self._away))


def is_mixture(group: ConstraintGroup) -> bool:
    """Return whether the kind of constraints finds best truth values."""
    return isinstance(group.rules, MixtureKind)


def mixture_rows(of_row: list[Mixture | None], point: F64, copy: F64, message: F64) -> MixtureRows:
    """Return the rows that are mixtures, and what solves them; arrays have a number for each entry of all rows."""

    def solved(what: int, row: int) -> float:
        mixture = of_row[row]
        assert mixture is not None
        if what == BOUND:
            return mixture.bound(message)
        mixture.write_nearest(point, copy)
        return 0.0

    return MixtureRows(np.array([one is not None for one in of_row], dtype=bool), MixtureCall(solved))


def existing_mixtures(
    constraints: list[MixtureConstraint], of_row: I64, lengths: I64, entries: I64, true: Bools
) -> tuple[list[Mixture | None], Bools]:
    """Return the mixture that each row is, if any, and whether truth values keep its constraint (True for others).

    Parameters
    ----------
    constraints : list of MixtureConstraint
    of_row, lengths : ndarray of int64, shape (rows,)
        The constraint of each row (-1: none), and how many columns it mentions.
    entries : ndarray of int64, shape (E,)
        Which of these columns are entries.
    true : ndarray of bool
        Of each column that is decided: whether its literal is true.
    """
    there, found = np.ones(len(of_row), dtype=bool), list[Mixture | None]([None] * len(of_row))
    if (of_row >= 0).any():
        code = np.where(true, TRUE, FALSE)
        code[entries] = np.arange(len(entries))
        ends = np.cumsum(lengths)
        for row in np.flatnonzero(of_row >= 0).tolist():
            mine = Mixture(constraints[of_row[row]], code[ends[row] - lengths[row] : ends[row]])
            found[row], there[row] = mine, mine.exists()
    return found, there
