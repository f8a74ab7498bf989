"""Named features become sparse rows: each name a column, its number the value (a list of names: ones).

There are many times more names in the data than different ones, so a name that was seen before costs one look-up in a
dict and no Python call: the dicts here number a new name when it is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir.features import SparseRows
from ssvm_dsl.ir.ragged import pointers

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


class Names(list[str]):
    """A vocabulary: the name of each column."""

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The column of each name, -1 for unknown ones."""
        return _Known(zip(self, range(len(self)), strict=True))


class _Known(dict[str, int]):
    """Columns of a vocabulary."""

    def __missing__(self, name: str) -> int:
        check_name(name)
        return -1


class _Growing(dict[str, int]):
    """Gives every new name the next column."""

    def __missing__(self, name: str) -> int:
        check_name(name)
        column = self[name] = len(self)
        return column


class _Hashing(dict[str, int]):
    """Gives every new name the column of its hash."""

    def __init__(self, width: int) -> None:
        from sklearn.utils import murmurhash3_32

        self.width, self.hash = width, murmurhash3_32

    def __missing__(self, name: str) -> int:
        check_name(name)
        column: int = self.hash(name, positive=True) % self.width
        self[name] = column
        return column


def check_name(name: object) -> None:
    """Refuse an attribute name that is not a string."""
    if not isinstance(name, str):
        raise TypeError(f"attribute name {name!r}")


def learn_rows(tokens: list[Any]) -> tuple[Names, SparseRows]:
    """Return (the vocabulary of all names, feature rows); names are numbered as they come."""
    numbers = _Growing()
    columns, values, ptr = _collect(tokens, numbers)
    return Names(numbers), sparse_rows(columns, values, ptr, len(numbers))


def known_rows(tokens: list[Any], names: Names) -> SparseRows:
    """Return feature rows over a vocabulary; unknown names are left out."""
    return sparse_rows(*_collect(tokens, names.numbers), len(names))


def hashed_rows(tokens: list[Any], width: int) -> SparseRows:
    """Return feature rows of a fixed width, each name in the column of its hash."""
    return sparse_rows(*_collect(tokens, _Hashing(width)), width)


def _collect(tokens: list[Any], numbers: dict[str, int]) -> tuple[I32, F64, I64]:
    """Return (columns, values, row pointers) of all attributes.

    Raises
    ------
    TypeError, ValueError
        Something that is not a dict of finite numbers or a list of names.
    """
    kinds = set(map(type, tokens))
    if any(issubclass(kind, str) for kind in kinds):
        raise TypeError("a name where a dict or list of names belongs")
    if not all(hasattr(kind, "__len__") for kind in kinds):
        tokens = [token if hasattr(token, "__len__") else list(token) for token in tokens]
    ptr = pointers(np.fromiter(map(len, tokens), np.int64, len(tokens)))
    n = int(ptr[-1])
    columns = np.fromiter(map(numbers.__getitem__, chain.from_iterable(tokens)), np.int32, n)
    return columns, _values(tokens, {kind for kind in kinds if issubclass(kind, Mapping)}, n), ptr


def _values(tokens: list[Any], mappings: set[type], n: int) -> F64:
    """Return the values of all attributes; names in lists have the value 1."""
    if not mappings:
        return np.ones(n)
    each = (token.values() if type(token) in mappings else repeat(1.0, len(token)) for token in tokens)
    values = np.array(list(chain.from_iterable(each))) if n else np.zeros(0)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"values of dtype {values.dtype}")
    if not np.isfinite(values).all():
        raise ValueError("values that are not finite")
    return values.astype(np.float64, copy=False)


def sparse_rows(columns: I32, values: F64, ptr: I64, width: int) -> SparseRows:
    """Return CSR rows without unknown (-1) columns, duplicates of a row added up."""
    from scipy.sparse import csr_array

    known = columns >= 0
    if not known.all():
        columns, values, ptr = columns[known], values[known], pointers(known.astype(np.int64))[ptr]
    matrix = csr_array((values, columns, ptr), shape=(len(ptr) - 1, width))
    matrix.sum_duplicates()
    return SparseRows.of_csr(matrix)
