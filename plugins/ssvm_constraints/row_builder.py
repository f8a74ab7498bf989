"""Builds linear descriptions, row by row or many rows at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import F64, I64, pointers
from ssvm_dsl.plugin_api import LinearRows, pause


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Some rows.

    Parameters
    ----------
    length : ndarray of int64, shape (r,)
        Entries of each row.
    column : ndarray of int64
    value : ndarray of float64
        Of the entries, row by row; no column occurs twice in a row.
    lower, upper : ndarray of float64, shape (r,)
    """

    length: I64
    column: I64
    value: F64
    lower: F64
    upper: F64


@dataclass(eq=False)
class RowBuilder:
    """Rows over some literals and further columns.

    Parameters
    ----------
    n_literals : int
    """

    n_literals: int
    _rows: list[RowBlock] = field(default_factory=list)
    _most: list[F64] = field(default_factory=list)

    def add_columns(self, count: int, most: float) -> I64:
        """Return the numbers of further whole columns, from 0 to ``most`` each."""
        first = self.n_literals + sum(map(len, self._most))
        self._most.append(np.full(count, most))
        return np.arange(first, first + count)

    def add(self, lower: float, upper: float, *terms: tuple[I64, float]) -> None:
        """Add a row: the sum of all columns of each term, times its coefficient, is within the bounds.

        A column that occurs in several terms has the sum of its coefficients.

        Raises
        ------
        OutOfTime
            The call at hand must end.
        """
        pause()
        columns = np.concatenate([columns for columns, _ in terms])
        values = np.concatenate([np.full(len(columns), value) for columns, value in terms])
        distinct, place = np.unique(columns, return_inverse=True)
        sums = np.bincount(place.reshape(-1), values, len(distinct))
        self.add_rows(np.array([lower]), np.array([upper]), np.zeros(int((sums != 0).sum()), np.int64),
                      distinct[sums != 0], sums[sums != 0])  # fmt: skip

    def add_rows(self, lower: F64, upper: F64, row: I64, column: I64, value: F64 | float) -> None:
        """Add rows, given by their entries; no column occurs twice in a row.

        Parameters
        ----------
        lower, upper : ndarray of float64, shape (r,)
        row : ndarray of int64, shape (e,)
            Of each entry, counted from the first one of these; in any order.
        column : ndarray of int64, shape (e,)
        value : ndarray of float64, shape (e,), or float
        """
        value = np.broadcast_to(np.asarray(value, dtype=np.float64), row.shape)
        if (np.diff(row) < 0).any():
            order = np.argsort(row, kind="stable")
            row, column, value = row[order], column[order], value[order]
        length = np.bincount(row, minlength=len(lower)).astype(np.int64)
        self._rows.append(RowBlock(length, column, value, lower.astype(np.float64), upper.astype(np.float64)))

    def add_sums(self, lower: F64, upper: F64, number: NDArray[np.integer]) -> None:
        """Add a row for each bound: in each the sum of the literals that have its number is within the bounds.

        Parameters
        ----------
        lower, upper : ndarray of float64, shape (r,)
        number : ndarray of int, shape (n_literals,)
            Of each literal; literals of other numbers are in no row.
        """
        there = np.flatnonzero((number >= 0) & (number < len(lower)))
        self.add_rows(lower, upper, number[there].astype(np.int64), there, 1.0)

    def finish(self) -> LinearRows:
        """Return the rows."""
        most = np.concatenate([np.zeros(0), *self._most])
        length, column = (
            np.concatenate([np.zeros(0, np.int64), *(getattr(one, name) for one in self._rows)])
            for name in ("length", "column")
        )
        value, lower, upper = (
            np.concatenate([np.zeros(0), *(getattr(one, name) for one in self._rows)])
            for name in ("value", "lower", "upper")
        )
        return LinearRows(
            pointers(length), column.astype(np.int32), value, lower, upper,
            np.zeros(len(most)), most, np.ones(len(most), dtype=bool),
        )  # fmt: skip


def add_capacities(builder: RowBuilder, flow: I64, most: int) -> None:
    """Add that there is flow, ``most`` of it, along true literals only; ``flow`` is the column of each literal."""
    every, n = np.arange(len(flow)), len(flow)
    row, column = np.repeat(every, 2), np.stack([every, flow], axis=1).ravel()
    builder.add_rows(np.full(n, -np.inf), np.zeros(n), row, column, np.tile([-float(most), 1.0], n))
