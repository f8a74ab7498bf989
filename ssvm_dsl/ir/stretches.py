"""Long vectors in stretches that fit into the processor's cache: sums of them leave no temporary vectors behind."""

from __future__ import annotations

from collections.abc import Iterator

#: Numbers in a stretch.
LENGTH = 2**15


def stretches(size: int) -> Iterator[slice]:
    """Yield the parts of a vector of this size, in order.

    Parameters
    ----------
    size : int

    Examples
    --------
    >>> for part in stretches(len(w)):
    ...     w[part] += step * (v[part] - w[part])
    """
    return (slice(lo, lo + LENGTH) for lo in range(0, size, LENGTH))
