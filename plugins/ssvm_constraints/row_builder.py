"""Builds linear descriptions row by row."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import I64, pointers
from ssvm_dsl.plugin_api import LinearRows, pause


@dataclass(eq=False)
class RowBuilder:
    """Rows over some literals and further columns.

    Parameters
    ----------
    n_literals : int
    """

    n_literals: int
    _rows: list[tuple[NDArray[np.int64], NDArray[np.float64], float, float]] = field(default_factory=list)
    _most: list[NDArray[np.float64]] = field(default_factory=list)

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
        self._rows.append((distinct[sums != 0], sums[sums != 0], lower, upper))

    def finish(self) -> LinearRows:
        """Return the rows."""
        most = np.concatenate([np.zeros(0), *self._most])
        return LinearRows(
            pointers(np.array([len(row[0]) for row in self._rows], dtype=np.int64)),
            np.concatenate([np.zeros(0, np.int64), *(row[0] for row in self._rows)]).astype(np.int32),
            np.concatenate([np.zeros(0), *(row[1] for row in self._rows)]),
            np.array([row[2] for row in self._rows], dtype=np.float64),
            np.array([row[3] for row in self._rows], dtype=np.float64),
            np.zeros(len(most)), most, np.ones(len(most), dtype=bool),
        )  # fmt: skip
