"""``Shapes``: the factors of one template, stored once for each distinct shape that examples have.

Sentences of one length have the same factors, and so have all examples of a fixed model.  A shape lists the scopes of
its factors with variables counted from the example's first one; examples point to their shape.  What differs from
example to example (its first variable, its first table row, its first feature row) is one number for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I32, I64
from ssvm_dsl.ir.ragged import bounded_slices, members, owners, pointers

#: Factors of as many examples as are looked at together.
CHUNK = 2**18


@dataclass(frozen=True, eq=False)
class Shapes:
    """The factors of one template in a batch of B examples of K distinct shapes.

    Parameters
    ----------
    of : ndarray of int32, shape (B,)
        The shape of each example.
    start : ndarray of int64, shape (K + 1,)
        Factors ``start[k]:start[k + 1]`` belong to shape k; m in all.
    scope : ndarray of int32, shape (m, r)
        The variables of each factor, counted from the first one of the example.
    first : ndarray of int64, shape (B,)
        The first variable of each example.
    """

    of: I32
    start: I64
    scope: I32
    first: I64

    @property
    def n_examples(self) -> int:
        """Number of examples B."""
        return len(self.of)

    @property
    def n_shapes(self) -> int:
        """Number of shapes K."""
        return len(self.start) - 1

    @property
    def arity(self) -> int:
        """Number of variables in a factor."""
        return int(self.scope.shape[1])

    @cached_property
    def counts(self) -> I64:
        """Number of factors of each example; ``ndarray, shape (B,)``."""
        return np.diff(self.start)[self.of]

    @cached_property
    def ptr(self) -> I64:
        """Factors ``ptr[i]:ptr[i + 1]`` of the batch belong to example i; ``ndarray, shape (B + 1,)``."""
        return pointers(self.counts)

    @cached_property
    def numbers(self) -> I64:
        """Offset from the number of a factor in its shape to that in the batch; ``ndarray of int64, shape (B,)``."""
        return np.asarray(self.ptr[:-1] - self.start[self.of])

    def count(self, examples: I64 | None) -> int:
        """Return the number of factors of the selected examples."""
        return self.n_factors if examples is None else int(self.counts[examples].sum())

    @property
    def n_factors(self) -> int:
        """Number of factors in the batch."""
        return int(self.ptr[-1])

    @cached_property
    def own_number(self) -> I32:
        """The number of each factor in its shape; ``ndarray of int32, shape (m,)``."""
        return np.asarray(np.arange(len(self.scope)) - np.repeat(self.start[:-1], np.diff(self.start)), dtype=np.int32)

    def chunks(self, examples: I64, most: int = CHUNK) -> Iterator[slice]:
        """Return parts of a selection, in order, whose examples have at most so many factors together (or are one)."""
        return bounded_slices(self.counts[examples], most)

    def take(self, examples: I64, first: I64) -> Shapes:
        """Return the shapes of some examples, whose first variables are ``first``; what shapes hold is shared."""
        return Shapes(np.ascontiguousarray(self.of[examples]), self.start, self.scope, first)

    def factors(self, example: int) -> slice:
        """Return where the factors of an example's shape are."""
        k = self.of[example]
        return slice(int(self.start[k]), int(self.start[k + 1]))

    # -- one entry for each factor of the batch ---------------------------------------------------------

    def spread(self, values: NDArray[Any], base: I64 | None = None, examples: I64 | None = None) -> NDArray[Any]:
        """Return numbers of the factors of shapes for every factor of the selected examples.

        Parameters
        ----------
        values : ndarray, shape (m,) or (m, r)
        base : ndarray of int64, shape (B,), optional
            Offset of each example.
        examples : ndarray of int64, optional
            All by default.
        """
        of = self.of if examples is None else self.of[examples]
        out = np.asarray(values[members(self.start, of)])
        if base is not None:
            add = np.repeat(base if examples is None else base[examples], np.diff(self.start)[of])
            out = np.asarray(out + (add if values.ndim == 1 else add[:, None]), dtype=values.dtype)
        return out

    def variables(self, examples: I64 | None = None) -> I32:
        """Return the variables of every factor of the selected examples (global numbers); ``shape (n, r)``."""
        return self.spread(self.scope, self.first, examples)


def first_of_each(keys: Iterable[Any]) -> tuple[I32, I64]:
    """Return (number of each key's kind, in the order in which they first occur; where each kind first occurs)."""
    places: dict[Any, int] = {}
    first = np.fromiter(map(places.setdefault, keys, count()), dtype=np.int64)
    kinds = np.fromiter(places.values(), dtype=np.int64)
    return np.searchsorted(kinds, first).astype(np.int32), kinds


def kinds_of_rows(columns: list[NDArray[Any]], n: int) -> tuple[I32, I64]:
    """Return the kinds of rows, given column by column, as :func:`first_of_each` does.

    Parameters
    ----------
    columns : list of ndarray of integers, shape (n,)
        Rows are equal where they are in every column.
    n : int
        Number of rows.
    """
    if n <= 1:
        return np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int64)
    key, size = np.zeros(n, dtype=np.int64), 1
    for column in columns:
        least, most = int(column.min()), int(column.max())
        if least < most:
            part, width = _small(column.astype(np.int64) - least, most - least + 1)
            key, size = _small(key * width + part, size * width)
    first = np.full(size, n)
    first[key[::-1]] = np.arange(n - 1, -1, -1)  # of equal keys the last one written stays
    kinds = np.flatnonzero(first < n)
    kinds = kinds[np.argsort(first[kinds])]
    rank = np.empty(size, dtype=np.int32)
    rank[kinds] = np.arange(len(kinds), dtype=np.int32)
    return rank[key], first[kinds]


def _small(key: I64, size: int) -> tuple[I64, int]:
    """Return keys from 0 to size - 1, numbered anew where the size is much larger than their number."""
    if size <= 4 * len(key) + 1024:
        return key, size
    values, place = np.unique(key, return_inverse=True)
    return place.reshape(-1), len(values)


class GroupFactors(NamedTuple):
    """The factors of one group, for kernels: stored once for each shape of an example.

    Example i of shape ``k = shape[i]`` has the factors ``start[k]:start[k + 1]``.

    Parameters
    ----------
    shape : ndarray of int32, shape (B,)
    start : ndarray of int64, shape (K + 1,)
    scope : ndarray of int32, shape (m, r)
        Variables, counted from the first one of the example; of segments one more than strides, of spans three more.
    row : ndarray of int32, shape (m,)
        Table rows, counted from ``base[i]``.
    base : ndarray of int64, shape (B,)
    strides : ndarray of int64, shape (r,)
        Steps in a table from one state of each variable to the next.
    """

    shape: I32
    start: I64
    scope: I32
    row: I32
    base: I64
    strides: I64


def has_repeated(shapes: Shapes) -> bool:
    """Return whether several factors of one variable each, in some shape, are of the same one."""
    variable, shape = shapes.scope[:, 0], owners(shapes.start)
    if len(variable) < 2 or (np.diff(variable) > 0)[np.diff(shape) == 0].all():
        return False
    order = np.lexsort((variable, shape))
    return bool(((np.diff(variable[order]) == 0) & (np.diff(shape[order]) == 0)).any())
