"""Linear rows of hard constraints, in addition to those of the local polytope.

Kinds with too many rows to list find those that a point violates (:class:`~ssvm_dsl.plugin_api.SeparableKind`):
programs begin without theirs, and get them in rounds.

A literal "variable v has state s" is the column of that state, and its opposite is one less that column.  Auxiliary
columns of a kind of constraint come after all columns of the polytope.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ssvm_backends.graphs.deadline import UNLIMITED
from ssvm_dsl.errors import TooLargeError
from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, LinearRows, Program, pointers
from ssvm_dsl.plugin_api import Clock, SeparableKind, SizedKind

#: Entries of an example's rows that are written at most, and the bytes that each takes until a solver has it.
MOST_ENTRIES, ENTRY_BYTES = 2.0**25, 100.0

#: Seconds for each entry that it takes to write rows.
ROW_SECONDS = 2e-7

#: Rows may be off by this, relative to the size of their terms; sums of fractions are no whole multiples of anything.
SLACK = 1e-9

#: A coefficient below this share of the terms that it is a sum of is what rounding left of literals that cancel.
CANCELLED = 1e-15

#: Multiples that make whole numbers of most coefficients that people write.
SCALES = (1.0, 2.0, 4.0, 8.0, 10.0, 100.0, 1000.0, 1e4, 1e5, 1e6)

#: Sums of whole numbers are below 2 to this power otherwise.
SUM_BITS = 48


@dataclass(frozen=True, eq=False)
class SideRows:
    """Rows ``lower <= matrix x <= upper`` over the columns of a polytope and some auxiliary ones.

    Parameters
    ----------
    groups : tuple of ConstraintGroup
        The constraints of one example.
    matrix : csr_array, shape (n_rows, n_columns + n_auxiliary)
    lower, upper : ndarray of float64, shape (n_rows,)
    least, most : ndarray of float64, shape (n_auxiliary,)
    whole : ndarray of bool, shape (n_auxiliary,)
    size : ndarray of float64, shape (n_rows,)
        Sum of the sizes of each row's terms, as they were before those of one column were added up.
    separable : tuple of ConstraintGroup
        Those of the groups whose rows are added in rounds.
    first_added : int, optional
        Rows from this one on were added in rounds: they, and not their groups, judge labellings.
    state_ptr : ndarray of int64, optional
        The columns of the variables, where rows were added.
    """

    groups: tuple[ConstraintGroup, ...]
    matrix: Any
    lower: F64
    upper: F64
    least: F64
    most: F64
    whole: Bools
    size: F64
    separable: tuple[ConstraintGroup, ...] = ()
    first_added: int | None = None
    state_ptr: I64 | None = None

    @classmethod
    def from_group(
        cls,
        program: Program,
        example: int,
        n_columns: int,
        state_ptr: I64,
        clock: Clock = UNLIMITED,
        in_rounds: bool = False,
    ) -> SideRows:
        """Return the rows of an example's constraints.

        Parameters
        ----------
        program : Program
        example : int
        n_columns : int
        state_ptr : ndarray of int64
            The columns of its variables.
        clock : Clock
        in_rounds : bool
            Leave out the rows of constraints whose kinds find those that a point violates.

        Raises
        ------
        OutOfTime
        TooLargeError
            There are more entries than any solver takes.
        """
        ids = np.array([example], dtype=np.int64)
        groups = tuple(group.take(ids) for group in program.constraints if group.counts[example])
        lazy = tuple(group for group in groups if in_rounds and isinstance(group.rules, SeparableKind))
        listed = tuple(group for group in groups if group not in lazy)
        check_size(listed, clock)
        rows = _Rows(n_columns)
        for group in listed:
            for k in range(group.n_constraints):
                assert group.rules is not None
                clock.afford(0.0)
                rows.add(group, k, group.rules.rows(group, k), state_ptr)
        return replace(rows.side(groups), separable=lazy)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.lower)

    @property
    def contradictory(self) -> bool:
        """Whether the lower bound of a row or of a column exceeds its upper one."""
        return bool((self.lower > self.upper).any() or (self.least > self.most).any())

    @property
    def n_auxiliary(self) -> int:
        """Number of auxiliary columns."""
        return len(self.least)

    @cached_property
    def columns(self) -> Any:
        """The matrix transposed."""
        return self.matrix.T.tocsr()

    @cached_property
    def sizes(self) -> Any:
        """The absolute entries of ``columns``."""
        return abs(self.columns)

    def keeps(self, labels: I32) -> bool:
        """Whether a labelling of the example keeps all constraints, or the rows of those whose rows are added."""
        ptr = np.array([0, len(labels)], dtype=np.int64)
        if any(group.broken(labels, ptr).any() for group in self.groups):
            return False
        if self.first_added is None or self.state_ptr is None:
            return True
        point = np.zeros(self.matrix.shape[1])
        point[self.state_ptr[:-1] + labels] = 1.0
        value = (self.matrix @ point)[self.first_added :]
        slack, lower, upper = (one[self.first_added :] for one in (SLACK * self.size, self.lower, self.upper))
        return bool(((value >= lower - slack) & (value <= upper + slack)).all())

    def without_separable(self, state_ptr: I64) -> SideRows:
        """Return the same rows without the constraints whose rows are added in rounds: these are added from here on."""
        groups = tuple(group for group in self.groups if group not in self.separable)
        return replace(self, groups=groups, separable=(), first_added=self.n_rows, state_ptr=state_ptr)

    def violated(self, point: F64, state_ptr: I64, least: float) -> list[tuple[ConstraintGroup, int, LinearRows]]:
        """Return the rows of separable constraints that a point violates by at least so much.

        Parameters
        ----------
        point : ndarray of float64
            The value of each state's column.
        state_ptr : ndarray of int64
            The columns of the variables.
        least : float
        """
        violated_rows: list[tuple[ConstraintGroup, int, LinearRows]] = []
        for group in self.separable:
            assert isinstance(group.rules, SeparableKind)
            for k in range(group.n_constraints):
                part = group.literals(k)
                value = point[state_ptr[group.variable[part]] + group.state[part]]
                value = np.clip(np.where(group.negated[part], 1.0 - value, value), 0.0, 1.0)
                rows = group.rules.violated_rows(group, k, value, least)
                if rows.n_rows:
                    violated_rows.append((group, k, rows))
        return violated_rows

    def with_rows(self, more_rows: list[tuple[ConstraintGroup, int, LinearRows]]) -> SideRows:
        """Return these rows and some of separable constraints."""
        from scipy.sparse import csr_array, vstack

        assert self.state_ptr is not None
        added = _Rows(self.matrix.shape[1])
        for group, k, rows in more_rows:
            added.add(group, k, rows, self.state_ptr)
        more = added.side(())
        return replace(
            self,
            matrix=csr_array(vstack([self.matrix, more.matrix])),
            lower=np.concatenate([self.lower, more.lower]),
            upper=np.concatenate([self.upper, more.upper]),
            size=np.concatenate([self.size, more.size]),
        )

    def most_of(self, duals: F64) -> tuple[float, F64]:
        """Return the most that rows can contribute to a dual bound, and the duals that count.

        With ``nu`` for the duals, ``nu . (A x)`` is at most ``u`` where nu is positive and ``l`` where it is negative;
        a dual whose side has no bound counts as zero.  Auxiliary columns are where they help most.
        """
        reach = np.where(duals > 0.0, self.upper, self.lower)
        nu = np.where(np.isfinite(reach), duals, 0.0)
        total = float(nu @ np.where(nu != 0.0, reach, 0.0))
        if self.n_auxiliary:
            price = -(self.columns @ nu)[-self.n_auxiliary :]
            total += float(np.maximum(price * self.least, price * self.most).sum())
        return total, nu

    def whole_rows(self) -> Iterator[tuple[list[int], list[int], int, int]]:
        """Yield (columns, coefficients, lower, upper) of each row in whole numbers; bounds hold up to rounding."""
        reach = _reach(self.matrix.shape[1] - self.n_auxiliary, self.least, self.most)
        for row in range(self.n_rows):
            part = slice(*self.matrix.indptr[row : row + 2])
            columns, coefficients, size = self.matrix.indices[part], self.matrix.data[part], float(self.size[row])
            scale = _scale(coefficients, size)
            whole = np.rint(coefficients * scale).astype(np.int64)
            most = int(np.ceil(np.abs(whole) @ reach[columns])) + 1  # no sum is beyond
            low, high = (self.lower[row] - SLACK * size) * scale, (self.upper[row] + SLACK * size) * scale
            lower = int(np.ceil(np.clip(low, -most, most)))
            yield columns.tolist(), whole.tolist(), lower, int(np.floor(np.clip(high, -most, most)))


class _Rows:
    """Collects rows, constraint by constraint."""

    def __init__(self, n_columns: int) -> None:
        self.n_columns = n_columns
        self.auxiliary = 0
        self.parts: list[tuple[LinearRows, I64, F64, F64, F64]] = []

    def add(self, group: ConstraintGroup, k: int, rows: LinearRows, state_ptr: I64) -> None:
        """Add the rows of a constraint: opposites of literals turn signs around and move bounds."""
        part = group.literals(k)
        literal = state_ptr[group.variable[part]] + group.state[part]
        place = np.concatenate([literal, self.n_columns + self.auxiliary + np.arange(rows.n_auxiliary)])
        self.parts.append((rows, place[rows.column], *rows.of_true_states(group.negated[part])))
        self.auxiliary += rows.n_auxiliary

    def side(self, groups: tuple[ConstraintGroup, ...]) -> SideRows:
        """Return the rows added so far, of all constraints of the groups, as one sparse matrix."""
        from scipy.sparse import csr_array

        lengths = np.concatenate([np.zeros(0, np.int64), *(np.diff(rows.ptr) for rows, *_ in self.parts)])
        column = np.concatenate([np.zeros(0, np.int64), *(part[1] for part in self.parts)])
        coefficient, lower, upper = (
            np.concatenate([np.zeros(0), *(part[i] for part in self.parts)]) for i in (2, 3, 4)
        )
        ptr, n_columns = pointers(lengths), self.n_columns + self.auxiliary
        matrix, sizes = (
            csr_array((value, column.copy(), ptr.copy()), shape=(len(lengths), n_columns))
            for value in (coefficient, np.abs(coefficient))
        )
        matrix.sum_duplicates()
        sizes.sum_duplicates()
        matrix.data[np.abs(matrix.data) <= CANCELLED * sizes.data] = 0.0  # entries stay: rows name all their variables
        columns = [np.concatenate([np.zeros(0), *(getattr(part[0], name) for part in self.parts)]) for name in _BOUNDS]
        size = np.asarray(sizes @ _reach(self.n_columns, columns[0], columns[1]))
        return SideRows(groups, matrix, lower, upper, columns[0], columns[1], columns[2].astype(bool), size)


def _reach(n_columns: int, least: F64, most: F64) -> F64:
    """Return how large each column can be, auxiliary ones last."""
    return np.concatenate([np.ones(n_columns), np.maximum(np.abs(least), np.abs(most))])


_BOUNDS = ("least", "most", "whole")


def check_size(groups: tuple[ConstraintGroup, ...], clock: Clock) -> None:
    """Refuse rows that there is no time to write, or that are too many.

    Raises
    ------
    OutOfTime
    TooLargeError
    """
    total = 0.0
    for group in groups:
        for k in range(group.n_constraints):
            literals = group.literals(k)
            sized = group.rules if isinstance(group.rules, SizedKind) else None
            total += float(literals.stop - literals.start) if sized is None else sized.n_row_entries(group, k)
            clock.afford(ROW_SECONDS * total)
            if total > MOST_ENTRIES:
                text = f"the linear rows of '{group.name}' ({group.kind}) have about {total:.2g} entries"
                text += f"; {MOST_ENTRIES:.2g} are taken ({ENTRY_BYTES * MOST_ENTRIES / 2**30:.0f} GiB)"
                raise TooLargeError(f"{text}; backend='auto' finds one that needs no rows")


def _scale(coefficients: F64, size: float) -> float:
    """Return what makes whole numbers of coefficients: exactly, if a simple multiple does."""
    for scale in SCALES:
        scaled = coefficients * scale
        if (np.abs(scaled - np.rint(scaled)) <= 1e-12 * np.abs(scaled)).all() and size * scale < 2.0**SUM_BITS:
            return scale
    return float(2.0 ** (SUM_BITS - np.ceil(np.log2(size))))
