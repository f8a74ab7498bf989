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
        constraint, given = self.constraint, point[self._entry]
        true = np.where(self._away, 1.0 - given, given)
        if isinstance(constraint.kind, ProjectingKind):
            at = self._decided.copy()
            at[self._free] = true
            nearest = constraint.kind.project(constraint.group, constraint.k, at)
            if nearest is None:
                raise ValueError(f"project() of '{constraint.group.name}' is None, and best_truth() found truth values")
            near = nearest[self._free]
        else:
            near = self._set.nearest(true)
        copy[self._entry] = np.where(self._away, 1.0 - near, near)

    def bound(self, message: F64) -> float:
        """Return ``max -message . z`` over the mixtures z of its entries."""
        gain, given = self._decided.copy(), -message[self._entry]
        gain[self._free] = np.where(self._away, -given, given)
        best = self.constraint.best(gain)
        if best is None:
            raise ValueError(f"best_truth() of '{self.constraint.group.name}' is None at some gains only")
        return float(given @ (best[self._free] != self._away))


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
    there, mixtures = np.ones(len(of_row), dtype=bool), list[Mixture | None]([None] * len(of_row))
    if (of_row >= 0).any():
        code = np.where(true, TRUE, FALSE)
        code[entries] = np.arange(len(entries))
        ends = np.cumsum(lengths)
        for row in np.flatnonzero(of_row >= 0).tolist():
            mine = Mixture(constraints[of_row[row]], code[ends[row] - lengths[row] : ends[row]])
            mixtures[row], there[row] = mine, mine.exists()
    return mixtures, there


# -- Projection onto the mixtures of feasible truth values, by active sets (Wolfe 1976) ------------------------------
#
# A mixture is ``sum_t weight_t truth_t``, where the weights are a distribution over feasible vectors of truth values.
# The kind of the constraint finds the feasible vector of the highest score.  The active set holds the vectors of
# positive weight.  Their weights solve a linear system of their inner products.  A vector whose weight would become
# negative leaves the set; otherwise the best vector at the slope enters.  The search starts from the set of the last
# call, and the result is exact up to rounding.

#: What the next member could still gain, relative to the size of what is there.
CLOSE = 1e-12

#: Members that enter at most, in one call; more follow in the next iteration of the caller.
MOST_STEPS = 30


class MixtureProjection:
    """The truth values whose mixture was the nearest one to the last point.

    Parameters
    ----------
    best : callable
        Returns, for a gain of each literal, the truth values of the highest total gain.
    decided : ndarray of float64, shape (l,)
        ``inf`` where a literal is true, ``-inf`` where it is false, 0 elsewhere.
    """

    def __init__(self, best: Callable[[F64], Bools | None], decided: F64) -> None:
        self._best, self._gain, self._free = best, decided.copy(), decided == 0.0
        self._truth, self._weight = np.zeros((0, int(self._free.sum()))), np.zeros(0)

    def nearest(self, point: F64, most_steps: int = MOST_STEPS) -> F64:
        """Return the nearest mixture to a point, of the literals that are not decided.

        Parameters
        ----------
        point : ndarray of float64, shape (free literals,)
        most_steps : int
        """
        if not len(self._weight):
            self._truth, self._weight = self._entering(point)[None, :], np.ones(1)
        corners = self._truth - point
        products = corners @ corners.T
        for _ in range(most_steps):
            kept, weight = _nearest_on(products, self._weight)
            self._truth, self._weight = self._truth[kept], weight[kept]
            corners, products = corners[kept], products[np.ix_(kept, kept)]
            away = self._weight @ corners
            truth = self._entering(-away)
            corner = truth - point
            beside = corners @ corner
            if away @ away - self._weight @ beside <= CLOSE * (1.0 + away @ away) or (corner == corners).all(1).any():
                break
            corners, self._truth = np.vstack([corners, corner]), np.vstack([self._truth, truth])
            products = np.block([[products, beside[:, None]], [beside, corner @ corner]])
            self._weight = np.append(self._weight, 0.0)
        return np.clip(self._weight @ self._truth, 0.0, 1.0)

    def _entering(self, slope: F64) -> F64:
        """Return the best truth values at a slope, of the literals that are not decided."""
        self._gain[self._free] = slope
        vertex = self._best(self._gain)
        if vertex is None:
            raise ValueError("best_truth() is None at some gains, and was none at others")
        return vertex[self._free].astype(np.float64)


def _nearest_on(products: F64, weight: F64) -> tuple[I64, F64]:
    """Return the members of positive weight in the mixture of the least norm, and the weights of all.

    Parameters
    ----------
    products : ndarray of float64, shape (m, m)
        Of each two members.
    weight : ndarray of float64, shape (m,)
        A distribution.
    """
    weight, left = weight.copy(), np.arange(len(weight))
    while True:
        try:
            wanted = np.linalg.solve(1.0 + products[np.ix_(left, left)], np.ones(len(left)))
        except np.linalg.LinAlgError:
            wanted = np.full(len(left), np.nan)
        if not np.isfinite(wanted).all() or wanted.sum() <= 0.0:  # the newest one is a combination of the others
            return left[weight[left] > 0.0], weight
        wanted /= wanted.sum()
        if (wanted > 0.0).all():
            weight[left] = wanted
            return left, weight
        mine = weight[left]
        ends = np.where(wanted <= 0.0, mine / np.maximum(mine - wanted, 1e-300), 1.0)
        mine = np.maximum(mine + ends.min() * (wanted - mine), 0.0)
        mine[np.argmin(ends)] = 0.0
        if not mine.sum() > 0.0:
            return left[weight[left] > 0.0], weight
        weight[left] = mine / mine.sum()
        left = left[mine > 0.0]
