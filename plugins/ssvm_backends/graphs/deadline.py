"""Time limits for kernels over batches: split the batch, check the clock between the parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import perf_counter

import numpy as np

from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import F64, Limits
from ssvm_dsl.plugin_api import Clock

#: The clock of work without a limit.
UNLIMITED = Clock.start(Limits())

#: Examples before the first check of the clock, any of which may be large; then as many as take about so many seconds.
PART, PACE = 1, 0.02


class TimeUp(OutOfTime):
    """Time is up; the results so far are kept."""


def chunks_until(n: int, limits: Limits, seconds: F64 | None = None) -> Iterable[tuple[int, int]]:
    """Return ``(lo, hi)`` ranges that cover ``0..n``; they stop early when time is up.

    Parameters
    ----------
    n : int
    limits : Limits
    seconds : ndarray of float64, shape (n,), optional
        Expected seconds of each where it cannot be cut short: it is not begun unless that much time is left.
    """
    return ((0, n),) if limits.time is None else _parts(n, limits.time, seconds)


def _parts(n: int, time: float, seconds: F64 | None) -> Iterator[tuple[int, int]]:
    """Yield the ranges of :func:`chunks_until` under a limit."""
    end, lo, size = perf_counter() + time, 0, PART
    until = None if seconds is None else np.cumsum(seconds)
    while lo < n and (begin := perf_counter()) < end:
        hi = min(lo + size, n)
        if until is not None:
            before = until[lo - 1] if lo else 0.0
            hi = min(hi, int(np.searchsorted(until, before + end - begin, side="right")))
            if hi <= lo:
                return
        yield lo, hi
        lo = hi
        size = max(1, 2 * size if perf_counter() - begin < PACE else size // 2)
