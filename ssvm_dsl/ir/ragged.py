"""Index arithmetic on packed ragged arrays: pointers, runs, the parts of a selection of examples, and slices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64

Ints = NDArray[np.integer[Any]]

#: Numbers in a stretch of a long vector, which fits into the processor's cache.
SLICE = 2**15

#: Parts beyond which it pays to see whether all are as long as each other.
MANY = 1000

#: Entries of a part that are gone through one by one, for all parts at once.
SHORT = 8


def pointers(lengths: Ints) -> I64:
    """Return ``ndarray, shape (n + 1,)``: 0 and the running sums of ``lengths``."""
    n, width = len(lengths), int(lengths[0]) if len(lengths) else 0
    if n > MANY and width > 0 and bool((lengths == width).all()):  # without a pass from one number to the next
        return np.arange(0, n * width + 1, width, dtype=np.int64)
    out = np.zeros(n + 1, dtype=np.int64)
    lengths.cumsum(out=out[1:])
    return out


def runs(starts: Ints, lengths: Ints) -> I64:
    """Return ``concatenate([arange(s, s + k) for s, k in zip(starts, lengths)])`` without a Python loop."""
    if len(starts) == 1:
        return np.arange(starts[0], starts[0] + lengths[0], dtype=np.int64)
    ptr = pointers(lengths)
    if len(starts) and (starts[1:] - starts[0] == ptr[1:-1]).all():  # one after the other
        return np.arange(starts[0], starts[0] + ptr[-1], dtype=np.int64)
    return np.arange(ptr[-1], dtype=np.int64) + (np.asarray(starts, dtype=np.int64) - ptr[:-1]).repeat(lengths)


def members(ptr: I64, examples: Ints) -> I64:
    """Return the packed positions of the given examples, in that order."""
    starts = ptr[examples]
    return runs(starts, ptr[1:][examples] - starts)


def reduced(ufunc: np.ufunc, values: NDArray[Any], starts: Ints) -> NDArray[Any]:
    """Return ``ufunc.reduceat(values, starts)``; several times as fast where all parts are as short as each other.

    Parameters
    ----------
    ufunc : np.ufunc
        Of two arguments, which come in any order.
    values : ndarray, shape (s,)
        The parts, one after the other.
    starts : ndarray of integers, shape (n,)
        Where each (not empty) part begins, from 0.
    """
    width = len(values) // len(starts) if len(starts) else 0
    if not 0 < width <= SHORT or width * len(starts) != len(values) or (np.diff(starts) != width).any():
        return np.asarray(ufunc.reduceat(values, starts)) if len(starts) else values[:0]
    columns = values.reshape(-1, width)
    out = columns[:, 0].copy()
    for k in range(1, width):
        ufunc(out, columns[:, k], out=out)
    return out


def owner_of(ptr: I64, number: int) -> int:
    """Return the part that one number belongs to: ``ptr[i] <= number < ptr[i + 1]``."""
    return int(np.searchsorted(ptr, number, side="right")) - 1


def owners(ptr: I64) -> I64:
    """Return for each packed position the example it belongs to."""
    return np.repeat(np.arange(len(ptr) - 1, dtype=np.int64), np.diff(ptr))


def first_largest(values: F64, ptr: I64) -> I64:
    """Return the place within each part of its largest value, the first of several; no part is empty."""
    n = len(ptr) - 1
    width = int(ptr[1]) if n else 0
    if n and (np.diff(ptr) == width).all():
        return np.asarray(values.reshape(n, width).argmax(axis=1), dtype=np.int64)
    largest = np.flatnonzero(values == reduced(np.maximum, values, ptr[:-1])[owners(ptr)]) if n else ptr[:0]
    return np.asarray(largest[np.searchsorted(largest, ptr[:-1])] - ptr[:-1], dtype=np.int64)


def bounded_slices(sizes: Ints, most: int) -> Iterator[slice]:
    """Yield slices, in order, of entries whose sizes are at most ``most`` together; a larger entry is alone in its own.

    What takes memory for each part of an example is done slice by slice.
    """
    ends, lo = np.cumsum(sizes), 0
    while lo < len(sizes):
        done = int(ends[lo - 1]) if lo else 0
        hi = max(lo + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield slice(lo, hi)
        lo = hi


def positions(ptr: I64, examples: I64 | None) -> slice | I64:
    """Return the packed positions of a selection: a slice for a range (all for ``None``), else an index array."""
    if examples is None:
        return slice(int(ptr[0]), int(ptr[-1]))
    if not len(examples):
        return slice(0, 0)
    lo, hi = int(examples[0]), int(examples[-1]) + 1
    if hi - lo == len(examples) and (hi - lo == 1 or bool((np.diff(examples) == 1).all())):
        return slice(int(ptr[lo]), int(ptr[hi]))
    return members(ptr, examples)


def slices(size: int) -> Iterator[slice]:
    """Yield the parts of a vector of this size, in order: sums of them leave no temporary vectors behind.

    Parameters
    ----------
    size : int

    Examples
    --------
    >>> for part in slices(len(w)):
    ...     w[part] += step * (v[part] - w[part])
    """
    for lo in range(0, size, SLICE):
        yield slice(lo, lo + SLICE)
