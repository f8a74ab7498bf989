"""Time limits for kernels over batches: split the batch, look at the clock between the parts."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from ssvm_dsl.ir import Limits

#: Examples between two looks at the clock.
PART = 64


def parts_within(n: int, limits: Limits) -> Iterator[tuple[int, int]]:
    """Yield ``(lo, hi)`` ranges that cover ``0..n``; stop early when time is up."""
    if limits.time is None:
        yield 0, n
        return
    end = perf_counter() + limits.time
    for lo in range(0, n, PART):
        if perf_counter() >= end:
            return
        yield lo, min(lo + PART, n)
