"""The time that goes into loading: kernels that are compiled or read from the cache, and libraries that are imported.

All of it is a cost of the first call in a process.  It is measured apart and counts against no time limit.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from time import perf_counter
from typing import Any

#: What numba announces when a thread begins and ends to compile, or to load what was compiled.
COMPILING = "numba:compiler_lock"


class LoadingTime:
    """Seconds during which at least one thread was loading; what loads while something else does counts once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open, self._since, self._total = 0, 0.0, 0.0

    def begin(self) -> None:
        """Hear that a thread begins to load."""
        with self._lock:
            self._since = perf_counter() if self._open == 0 else self._since
            self._open += 1

    def end(self) -> None:
        """Hear that a thread has loaded."""
        with self._lock:
            if self._open:
                self._open -= 1
                self._total += perf_counter() - self._since if self._open == 0 else 0.0

    @property
    def seconds(self) -> float:
        """Seconds so far, including loading in progress."""
        with self._lock:
            return self._total + (perf_counter() - self._since if self._open else 0.0)

    def forget_open(self) -> None:
        """Take nothing to be under way: an interrupt may have come between the end and its announcement."""
        with self._lock:
            self._open = 0


#: The time of this process.
_PROCESS = LoadingTime()


@contextmanager
def loading() -> Generator[None, None, None]:
    """Count what happens inside as loading, so that time limits do not count it.

    For imports of large libraries (``with loading(): import solver``); what is imported with a plug-in's own module
    is counted by the host.
    """
    _PROCESS.begin()
    try:
        yield
    finally:
        _PROCESS.end()


@cache
def loading_time() -> LoadingTime:
    """Return the loading time of this process; what numba compiles is counted from the first call on."""
    from numba.core.event import Listener, register

    class Compiling(Listener):  # type: ignore[misc]
        """Counts what numba announces."""

        def on_start(self, event: Any) -> None:
            """Hear of a beginning."""
            _PROCESS.begin()

        def on_end(self, event: Any) -> None:
            """Hear of an end."""
            _PROCESS.end()

    register(COMPILING, Compiling())
    return _PROCESS
