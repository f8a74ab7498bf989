"""The time that goes into loading: kernels that are compiled or read from the cache, and libraries that are imported.

All of it is a cost of the first call in a process.  It is measured apart and counts against no time limit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64

#: What numba announces when a thread begins and ends to compile, or to load what was compiled.
COMPILING = "numba:compiler_lock"


class LoadingTime:
    """Seconds during which at least one thread was loading; overlapping loads count once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open, self._since, self._total = 0, 0.0, 0.0
        self._shown: F64 | None = None  # shape (1,)

    def begin(self) -> None:
        """Hear that a thread begins to load."""
        with self._lock:
            self._since = perf_counter() if self._open == 0 else self._since
            self._open += 1
            self._show()

    def end(self) -> None:
        """Hear that a thread has loaded."""
        with self._lock:
            if self._open:
                self._open -= 1
                self._total += perf_counter() - self._since if self._open == 0 else 0.0
                self._show()

    def add(self, seconds: float) -> None:
        """Count what another process loaded while this one waited for it."""
        with self._lock:
            self._total += seconds

    def show(self, cells: F64) -> None:
        """Keep the state in this array from now on, for those who share it."""
        with self._lock:
            self._shown = cells
            self._show()

    def _show(self) -> None:
        if self._shown is not None:
            self._shown[0] = self._total - self._since if self._open else self._total  # one number: no half of a change

    @property
    def seconds(self) -> float:
        """Seconds so far, including loading in progress."""
        with self._lock:
            return self._total + (perf_counter() - self._since if self._open else 0.0)

    def closed(self) -> float:
        """Return the seconds so far; nothing is under way: an interrupt may have come before its end was announced."""
        with self._lock:
            self._open = 0
            return self._total


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
    """Return the loading time of this process; compilation by numba is counted from the first call on."""
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


def loading_seconds() -> float:
    """Return the seconds of loading in this process so far, for executors that ask their workers."""
    return loading_time().seconds


def loading_file(path: Path, n: int) -> F64:
    """Return the file in which n workers of this machine say what they load, as an array that follows it.

    One number for each, so that it is read whole whenever it is read: the seconds of what is loaded; while the worker
    is loading, these less the time on the clock of the machine when it began, which is negative.
    """
    made: F64 = np.memmap(path, np.float64, "w+", shape=(n,))
    made[:] = 0.0
    return made


def tell_loading(path: Path, row: int) -> None:
    """Say what this process, a worker, loads, in a row of a :func:`loading_file`."""
    cells = np.memmap(path, np.float64, "r+", offset=8 * row, shape=(1,))
    loading_time().show(cells)


def told_seconds(cells: F64) -> dict[int, float]:
    """Return the seconds of loading by row of a :func:`loading_file`."""
    seconds = np.array(cells)
    return dict(enumerate(np.where(seconds < 0.0, seconds + perf_counter(), seconds).tolist()))


class LoadingElsewhere:
    """What workers load while this process waits for them: limits of time do not count it here either.

    Workers load at the same time, so that the most that one of them has loaded counts.

    Parameters
    ----------
    read_seconds : callable
        Returns the seconds of loading so far by worker, from its :func:`loading_seconds`.
    """

    def __init__(self, read_seconds: Callable[[], Mapping[Any, float]]) -> None:
        self._read_seconds = read_seconds
        self._last: dict[Any, float] = {}
        self._since: dict[Any, float] = {}
        self._counted = 0.0
        self._over: float | None = None

    def begin(self) -> None:
        """Start counting at zero for a new call."""
        self._last, self._since, self._counted, self._over = dict(self._read_seconds()), {}, 0.0, None

    def patience(self, left: float, grace: float) -> float:
        """Return the seconds to wait for the next answer of a call with many.

        The grace after the end of the limit is for all answers together: it runs from the first time that the limit was
        seen to be over, so that answers which come one shortly after the other do not go on for ever.

        Parameters
        ----------
        left : float
            Seconds until the limit, as :func:`ssvm_dsl.plugin_api.time_left` says.
        grace : float
            Seconds after it in which answers may still come.
        """
        if left > 0.0:
            self._over = None
            return left + grace
        self._over = perf_counter() if self._over is None else self._over
        return max(0.0, self._over + grace - perf_counter())

    def count(self) -> bool:
        """Count the seconds of loading since the last look; return whether there were any."""
        for worker, seconds in self._read_seconds().items():
            last = self._last.get(worker, 0.0)
            if seconds < 0.5 * last:  # another process in its place
                last = 0.0
            elif seconds < last:  # the end of a load was written after the clock was read for it
                continue
            self._since[worker] = self._since.get(worker, 0.0) + seconds - last
            self._last[worker] = seconds
        new = max(self._since.values(), default=0.0) - self._counted
        if new <= 0.0:
            return False
        self._counted += new
        loading_time().add(new)
        return True
