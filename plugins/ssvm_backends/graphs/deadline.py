"""Time limits for kernels over batches: split the batch, look at the clock between the parts."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from ssvm_dsl.ir import Limits
from ssvm_dsl.plugin_api import Clock

#: The clock of work that may take as long as it does.
UNLIMITED = Clock.start(Limits())

#: Examples before the first look at the clock, any of which may be large; then as many as take about so many seconds.
PART, PACE = 1, 0.02


class TimeUp(Exception):
    """Time is up; what was found so far is kept."""


def chunks_until(n: int, limits: Limits) -> Iterator[tuple[int, int]]:
    """Yield ``(lo, hi)`` ranges that cover ``0..n``; stop early when time is up."""
    if limits.time is None:
        yield 0, n
        return
    end, lo, size = perf_counter() + limits.time, 0, PART
    while lo < n and (begin := perf_counter()) < end:
        yield lo, min(lo + size, n)
        lo += size
        size = max(1, 2 * size if perf_counter() - begin < PACE else size // 2)
