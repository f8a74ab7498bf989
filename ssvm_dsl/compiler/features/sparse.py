"""Sparse inputs: matrices of ``scipy.sparse`` are looked through before compiled code follows their indices.

scipy's own conversions, and the kernels here, trust column numbers and row pointers; arrays that a user changed by hand
(or read from a damaged file) would make them read and write wherever those lead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.features import SparseRows
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.lang.arrays import NotNumbers, as_floats, describe, is_sparse, real_array

T = TypeVar("T")

#: What damaged index arrays are not.
SOUND = "a sparse matrix whose indices are inside it and whose pointers ascend"


def read_all_rows(values: Sequence[Any], width: int, single: bool, words: str, what: str) -> list[SparseRows]:
    """Return the rows of each example; see :func:`read_rows`.

    Most matrices are CSR already: the index arrays of these are looked through together.

    Raises
    ------
    DataError
        Names the example that is something else, or whose index arrays are damaged.
    """
    rows_of = [_shallow(value, width, single) for value in values]
    if any(rows is None for rows in rows_of) or not _all_inside(rows_of, width):  # type: ignore[arg-type]
        read = partial(read_rows, width=width, single=single, words=words)
        return [checked(read, value, what, i) for i, value in enumerate(values)]
    return rows_of  # type: ignore[return-value]


def _shallow(value: Any, width: int, single: bool) -> SparseRows | None:
    """Return the arrays of a CSR matrix without looking inside; ``None`` for anything but a plain one."""
    if isinstance(value, SparseRows):
        return value
    if not is_sparse(value) or value.format != "csr":
        return None
    data, indices, ptr = value.data, value.indices, value.indptr
    if not type(data) is type(indices) is type(ptr) is np.ndarray or data.dtype.kind not in "iuf":
        return None
    plain = data.ndim == indices.ndim == ptr.ndim == 1 and indices.dtype.kind == ptr.dtype.kind == "i" and len(ptr) > 0
    shape = value.shape
    if not plain or shape != (len(ptr) - 1, width) or (single and len(ptr) != 2):
        return None
    end = int(ptr[-1])
    whole = ptr[0] == 0 and end == len(data) == len(indices)
    return SparseRows(data, indices, ptr.astype(np.int64, copy=False), width) if whole else None


def _all_inside(parts: Sequence[SparseRows], width: int) -> bool:
    """Whether all pointers ascend and all columns are inside."""
    indices = np.concatenate([rows.indices for rows in parts])
    ascend = bool((_lengths(parts) >= 0).all())
    return ascend and (len(indices) == 0 or (indices.min() >= 0 and indices.max() < width))


def _lengths(parts: Sequence[SparseRows]) -> I64:
    """Return how many entries each row of all examples has."""
    ends = np.cumsum([len(rows.ptr) for rows in parts])[:-1] - 1  # where the difference is between two examples
    return np.delete(np.diff(np.concatenate([rows.ptr for rows in parts])), ends)


def checked(read: Callable[[Any], T], value: Any, what: str, example: int | None = None) -> T:
    """Return the result of a reader on a user's value; errors name the value.

    Raises
    ------
    DataError
        With the name of the input and the number of the example.
    """
    try:
        return read(value)
    except NotNumbers as err:
        raise DataError(what, example=example, expected=err.expected, found=err.found, hint=err.hint) from err.__cause__


def read_rows(value: Any, width: int, single: bool, words: str) -> SparseRows:
    """Return the rows of a sparse (or dense) matrix, with a sound structure; values may share the user's memory.

    Parameters
    ----------
    value : sparse or dense, shape (n, width)
        A single row also as ``shape (width,)``.
    width : int
    single : bool
        Whether there is exactly one row.
    words : str
        The expected shape as text.

    Raises
    ------
    NotNumbers
        It is something else, or its index arrays are damaged.
    """
    if isinstance(value, SparseRows):  # a row of a matrix that was read before
        return value
    array = value if is_sparse(value) else real_array(value)
    if array.dtype.kind not in "biuf":
        raise NotNumbers("real numbers", f"dtype {array.dtype}")
    shape = tuple(array.shape)
    shape = (1, *shape) if single and len(shape) == 1 else shape
    if len(shape) != 2 or shape[1] != width or (single and shape[0] != 1):
        raise NotNumbers(f"a sparse matrix of shape {words}", describe(array))
    return _sound(array, shape)


def rows_of_matrix(matrix: Any) -> list[SparseRows]:
    """Return each row of a sparse matrix as a separate example.

    Raises
    ------
    NotNumbers
        Its index arrays are damaged, or it does not hold real numbers.
    """
    rows = read_rows(matrix, matrix.shape[-1], False, "(n, width)")
    parts = list(pairwise(rows.ptr.tolist()))
    lengths = np.diff(rows.ptr, prepend=0)[1:]
    ptrs = np.column_stack([np.zeros_like(lengths), lengths])
    return [
        SparseRows(rows.data[lo:hi], rows.indices[lo:hi], ptr, rows.n_columns)
        for (lo, hi), ptr in zip(parts, ptrs, strict=True)
    ]


def as_csr(rows: SparseRows) -> Any:
    """Return rows as a separate CSR array, for a user's function."""
    from scipy.sparse import csr_array

    return csr_array((rows.data.copy(), rows.indices.copy(), rows.ptr.copy()), shape=rows.shape)


def stack_rows(parts: Sequence[SparseRows], width: int, what: str) -> SparseRows:
    """Return the rows of all examples below each other: columns ascend, duplicates are added up.

    Raises
    ------
    DataError
        A value is nan or infinite.
    """
    data = as_floats(np.concatenate([rows.data for rows in parts]))
    indices = np.concatenate([rows.indices for rows in parts]).astype(np.int32, copy=False)
    ptr = pointers(_lengths(parts))
    matrix = csr_of(data, indices, ptr, width)
    with np.errstate(over="ignore", invalid="ignore"):
        matrix.sum_duplicates()
        finite = np.isfinite(np.dot(matrix.data, matrix.data)) or np.isfinite(matrix.data)
    if not np.all(finite):
        k = int(np.argmin(finite))
        row = int(np.searchsorted(matrix.indptr, k, side="right")) - 1
        row_ptr = pointers(np.array([rows.shape[0] for rows in parts]))
        example = int(np.searchsorted(row_ptr, row, side="right")) - 1
        found = f"{matrix.data[k]} at row {row - row_ptr[example]}, column {matrix.indices[k]}"
        raise DataError(what, example=example, expected="finite numbers", found=found)
    return SparseRows.of_csr(matrix)


def csr_of(data: NDArray[Any], indices: I32, ptr: I64, width: int) -> Any:
    """Return the ``csr_array`` of these arrays, which shares the column numbers and values.

    scipy copies column numbers to the type of the pointers: these are made as narrow as the others where they can be.
    """
    from scipy.sparse import csr_array

    narrow = ptr.astype(np.int32) if ptr[-1] <= np.iinfo(np.int32).max else ptr
    return csr_array((data, indices, narrow), shape=(len(ptr) - 1, width))


def _sound(array: Any, shape: tuple[int, int]) -> SparseRows:
    """Return a matrix in CSR form after checking the indices of its format."""
    try:
        if not is_sparse(array):
            rows, columns = np.nonzero(array.reshape(shape))
            ptr = pointers(np.bincount(rows, minlength=shape[0]))
            return SparseRows(array.reshape(shape)[rows, columns], columns.astype(np.int32), ptr, shape[1])
        return _FORMATS[array.format](array, shape)
    except NotNumbers:
        raise
    except Exception as err:  # attributes that were taken away or replaced
        raise NotNumbers(SOUND, f"{describe(array)} that cannot be read ({type(err).__name__}: {err})") from err


def _csr(array: Any, shape: tuple[int, int]) -> SparseRows:
    data, indices, ptr = _compressed(array, *shape, "row", "column")
    if data.dtype != bool:  # bools that are there twice do not add up
        return SparseRows(data, indices, ptr, shape[1])
    from scipy.sparse import csr_array

    merged = csr_array((data.copy(), indices.copy(), ptr), shape=shape)
    merged.sum_duplicates()
    return SparseRows(merged.data, merged.indices, merged.indptr.astype(np.int64), shape[1])


def _csc(array: Any, shape: tuple[int, int]) -> SparseRows:
    _compressed(array, shape[1], shape[0], "column", "row")
    return _csr(array.tocsr(), shape)


def _bsr(array: Any, shape: tuple[int, int]) -> SparseRows:
    blocks = np.asarray(array.data)
    if blocks.ndim != 3 or 0 in blocks.shape[1:] or shape[0] % blocks.shape[1] or shape[1] % blocks.shape[2]:
        raise NotNumbers(SOUND, f"blocks of shape {blocks.shape[1:]} in a matrix of shape {shape}")
    _compressed(array, shape[0] // blocks.shape[1], shape[1] // blocks.shape[2], "row of blocks", "column of blocks")
    return _csr(array.tocsr(), shape)


def _coo(array: Any, shape: tuple[int, int]) -> SparseRows:
    from scipy.sparse import coo_array

    data = np.asarray(array.data)
    given = array.coords if hasattr(array, "coords") else (array.row, array.col)
    coords = [np.asarray(one) for one in given]
    coords = [np.zeros_like(coords[0]), *coords] if len(coords) == 1 else coords
    for one, size, name in zip(coords, shape, ("row", "column"), strict=True):
        if one.shape != data.shape or one.ndim != 1 or one.dtype.kind not in "iu":
            raise NotNumbers(SOUND, f"{name}s of shape {one.shape} and dtype {one.dtype} for values of {data.shape}")
        _inside(one, size, name)
    data = data if data.dtype == bool else as_floats(data)
    return _csr(coo_array((data, tuple(coords)), shape=shape).tocsr(), shape)


def _lil(array: Any, shape: tuple[int, int]) -> SparseRows:
    columns = [np.asarray(one) for one in array.rows]
    data = [as_floats(np.asarray(one)) for one in array.data]
    lengths = np.array([len(one) for one in columns], dtype=np.int64)
    if len(columns) != shape[0] or len(data) != shape[0] or any(map(np.not_equal, lengths, map(len, data))):
        raise NotNumbers(SOUND, "rows with more columns than values, or fewer")
    ptr = pointers(lengths)
    indices = np.concatenate([np.zeros(0, np.int64), *(one for one in columns if len(one))])
    if indices.dtype.kind not in "iu":
        raise NotNumbers(SOUND, f"column numbers of dtype {indices.dtype}")
    _inside(indices, shape[1], "column", ptr, "row")
    return SparseRows(np.concatenate([np.zeros(0), *data]), indices, ptr, shape[1])


def _dia(array: Any, shape: tuple[int, int]) -> SparseRows:
    data, offsets = np.asarray(array.data), np.asarray(array.offsets)
    if data.ndim != 2 or offsets.shape != data.shape[:1] or offsets.dtype.kind not in "iu":
        raise NotNumbers(SOUND, f"diagonals of shape {data.shape} with offsets of shape {offsets.shape}")
    return _coo(array.tocoo(), shape)


#: A reader for each format of ``scipy.sparse``.
_FORMATS: dict[str, Callable[[Any, tuple[int, int]], SparseRows]] = {
    "csr": _csr,
    "csc": _csc,
    "bsr": _bsr,
    "coo": _coo,
    "lil": _lil,
    "dia": _dia,
    "dok": lambda array, shape: _coo(array.tocoo(), shape),
}


def _compressed(array: Any, n: int, size: int, major: str, minor: str) -> tuple[NDArray[Any], NDArray[Any], I64]:
    """Return (values, indices, pointers) of a compressed format, n runs of indices below ``size``."""
    data, indices, ptr = np.asarray(array.data), np.asarray(array.indices), np.asarray(array.indptr)
    for one, name in ((indices, "indices"), (ptr, "pointers")):
        if one.ndim != 1 or one.dtype.kind not in "iu":
            raise NotNumbers(SOUND, f"{name} of shape {one.shape} and dtype {one.dtype}")
    if data.ndim != (3 if array.format == "bsr" else 1):
        raise NotNumbers(SOUND, f"values of shape {data.shape}")
    if len(ptr) != n + 1:
        raise NotNumbers(SOUND, f"{len(ptr)} pointers for {n} {major}s")
    ends = ptr.astype(np.int64, copy=False)
    if ends[0] != 0 or (ends[1:] < ends[:-1]).any():
        k = int(np.argmax(ends[1:] < ends[:-1])) if ends[0] == 0 else 0
        raise NotNumbers(SOUND, f"pointers {ends[k]}, {ends[min(k + 1, n)]} of {major} {k}")
    if not ends[-1] <= min(len(data), len(indices)):
        raise NotNumbers(SOUND, f"pointers up to {ends[-1]} into {len(indices)} indices and {len(data)} values")
    used = indices[: int(ends[-1])]
    _inside(used, size, minor, ends, major)
    return data[: len(used)], used, ends


def _inside(numbers: NDArray[Any], size: int, name: str, ptr: I64 | None = None, owner: str = "") -> None:
    """Refuse numbers outside ``0 .. size-1``; pointers say whose they are."""
    if len(numbers) == 0 or (numbers.min() >= 0 and numbers.max() < size):
        return
    k = int(np.argmax((numbers < 0) | (numbers >= size)))
    place = "" if ptr is None else f" in {owner} {int(np.searchsorted(ptr, k, side='right')) - 1}"
    raise NotNumbers(SOUND, f"{name} {numbers[k]}{place} of a matrix with {size} {name}s")


def first_rows(values: F64 | SparseRows, most: int) -> F64 | SparseRows:
    """Return the first n rows at most."""
    if isinstance(values, np.ndarray):
        return values[:most]
    ptr = values.ptr[: most + 1]
    end = int(ptr[-1])
    return SparseRows(values.data[:end], values.indices[:end], ptr, values.n_columns)


def with_empty_rows(values: F64 | SparseRows, n_rows: int) -> F64 | SparseRows:
    """Return rows with rows of 0 behind them, so many in all."""
    more = n_rows - values.shape[0]
    if not more:
        return values
    if isinstance(values, np.ndarray):
        return np.concatenate([values, np.zeros((more, values.shape[1]))])
    ptr = np.concatenate([values.ptr, np.full(more, values.ptr[-1])])
    return SparseRows(values.data, values.indices, ptr, values.n_columns)


def side_by_side(parts: Sequence[F64 | SparseRows]) -> F64 | SparseRows:
    """Return rows next to each other: sparse ones where some are."""
    if not any(isinstance(part, SparseRows) for part in parts):
        return np.ascontiguousarray(np.hstack(parts))  # type: ignore[arg-type]
    from scipy.sparse import csr_array, hstack

    matrices = [
        csr_array((part.data, part.indices, part.ptr), shape=part.shape) if isinstance(part, SparseRows)
        else csr_array(part)
        for part in parts
    ]  # fmt: skip
    return SparseRows.of_csr(hstack(matrices, format="csr"))
