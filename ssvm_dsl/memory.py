"""How much memory this process may still take, and the one refusal of what would take more."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import TooLargeError
from ssvm_dsl.units import bytes_text

#: Needs below this are not worth asking the system about.
SMALL = 64_000_000

#: Share of the free memory that one need may take: the rest is left to Python and to what estimates miss.
MARGIN = 0.9

#: Bytes of arrays that are worth pages of their own.
OWN_PAGES = 2**20


def fresh_zeros(n: int) -> F64:
    """Return n zeros that take memory as they are written to, and give it back as soon as nobody holds them.

    For large arrays that a fit keeps: the allocator of the C library lays those of many megabytes into memory that was
    used before, once some have been given back, which leaves holes between them.
    """
    if 8 * n < OWN_PAGES or not hasattr(mmap, "MAP_ANONYMOUS"):  # not on Windows
        return np.zeros(n)
    pages = mmap.mmap(-1, 8 * n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # where the system has no large ones
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype=np.float64)


def free_memory() -> float:
    """Return the bytes that this process may still take: the least of what machine, container and limits leave.

    ``inf`` where the system tells none of them.
    """
    return min(_limits(), default=float("inf"))


def require_memory(n_bytes: float, what: str, instead: str) -> None:
    """Refuse what does not fit, before it is allocated.

    Parameters
    ----------
    n_bytes : float
        What it takes at its peak.
    what : str
        What needs it, as the start of a sentence.
    instead : str
        What to do, e.g. ``"pass fewer examples"``.

    Raises
    ------
    TooLargeError
        It is more than is free.
    """
    lacking = shortage(n_bytes)
    if lacking:
        raise TooLargeError(f"{what} {lacking}\n  hint: {instead}")


def shortage(n_bytes: float) -> str:
    """Return why something does not fit, e.g. ``"takes about 24.0 GB of memory, and 12.0 GB are free"``; else ""."""
    if n_bytes < SMALL:
        return ""
    free = MARGIN * free_memory()
    if n_bytes <= free:
        return ""
    return f"takes about {bytes_text(n_bytes)} of memory, and {bytes_text(free)} are free"


def fitting_share(n_bytes: float) -> float:
    """Return which share of a need would fit (1 for all of it)."""
    return 1.0 if n_bytes < SMALL else min(1.0, MARGIN * free_memory() / max(n_bytes, 1.0))


def _limits() -> Iterator[float]:
    """Yield what each limit that there is leaves."""
    machine = _numbers("/proc/meminfo").get("MemAvailable:")
    if machine is not None:
        yield 1024.0 * machine
    elif hasattr(os, "sysconf") and "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        yield float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    for most, used, cgroup_file in (
        ("memory.max", "memory.current", "memory.stat"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
    ):
        allowed, taken = _number(f"/sys/fs/cgroup/{most}"), _number(f"/sys/fs/cgroup/{used}")
        if allowed is not None and taken is not None:
            yield allowed - taken + _numbers(f"/sys/fs/cgroup/{cgroup_file}").get("inactive_file", 0.0)
    yield from _address_space()


def _address_space() -> Iterator[float]:
    """Yield what the limit of the address space (``ulimit -v``) leaves, if there is one."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if allowed != resource.RLIM_INFINITY:
        pages = (_text("/proc/self/statm").split() or ["0"])[0]
        yield float(allowed) - float(pages) * resource.getpagesize()


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _number(path: str) -> float | None:
    """Return the number that a file holds; ``None`` without one, e.g. for "max"."""
    text = _text(path).strip()
    return float(text) if text.isdecimal() else None


def _numbers(path: str) -> dict[str, float]:
    """Return the numbers of a file of lines ``name number``."""
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0]: float(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}
