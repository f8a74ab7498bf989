"""Index arithmetic on packed ragged arrays: pointers, runs, and the parts of a selection of examples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
Ints = NDArray[np.integer[Any]]


def pointers(lengths: Ints) -> I64:
    """Return ``ndarray, shape (n + 1,)``: 0 and the running sums of ``lengths``."""
    out = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


def runs(starts: Ints, lengths: Ints) -> I64:
    """Return ``concatenate([arange(s, s + k) for s, k in zip(starts, lengths)])`` without a Python loop."""
    ptr = pointers(lengths)
    return np.arange(ptr[-1], dtype=np.int64) + np.repeat(np.asarray(starts, dtype=np.int64) - ptr[:-1], lengths)


def members(ptr: I64, examples: Ints) -> I64:
    """Return the packed positions of the given examples, in that order."""
    starts = ptr[examples]
    return runs(starts, ptr[1:][examples] - starts)


def owners(ptr: I64) -> I64:
    """Return for each packed position the example it belongs to."""
    return np.repeat(np.arange(len(ptr) - 1, dtype=np.int64), np.diff(ptr))


def is_identity(index: Ints, n: int) -> bool:
    """Whether ``index`` is exactly ``arange(n)``."""
    return len(index) == n and bool((index == np.arange(n)).all())


def contiguous(examples: I64 | None, n: int) -> tuple[int, int] | None:
    """Return ``(lo, hi)`` when the selection is the range ``lo..hi-1`` (all ``n`` for ``None``), else ``None``."""
    if examples is None:
        return 0, n
    if len(examples) == 0:
        return 0, 0
    lo, hi = int(examples[0]), int(examples[-1]) + 1
    if hi - lo != len(examples) or (len(examples) > 1 and not (np.diff(examples) == 1).all()):
        return None
    return lo, hi


def positions(ptr: I64, examples: I64 | None) -> slice | I64:
    """Return the packed positions of a selection: a slice where it is contiguous, else an index array."""
    span = contiguous(examples, len(ptr) - 1)
    if span is not None:
        return slice(int(ptr[span[0]]), int(ptr[span[1]]))
    assert examples is not None
    return members(ptr, examples)
