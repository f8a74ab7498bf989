"""One thread for BLAS while anything is computed here: parallelism is over examples.

The number of threads of a BLAS library belongs to the whole process.  Calls that overlap, from several threads, share
one limit, which ends with the last of them; otherwise each would put back what it found when it began, and that may be
the limit of another.  The last call to end may run in another thread than the first one, which set the limit, so that
no thread keeps the right to change it: threadpoolctl (from 3.8 on) ignores all others as long as that one lives.

Libraries built on OpenMP have a number for each thread; there each call has its own limit.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

from ssvm_dsl.inference.threads import Threads

#: BLAS libraries, and the numbers of threads to put back.
_Found = list[tuple[Any, int]]


class _Limit:
    """Counts the calls that are under way."""

    def __init__(self) -> None:
        self.lock, self.n_calls = threading.Lock(), 0
        self.found: _Found = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def enter(self) -> _Found:
        """Begin a call, the first one with the limit of the process; return what to put back in this thread."""
        shared, own = _libraries(len(sys.modules))
        with self.lock:
            if not self.n_calls:
                self.found = _lowered(shared)
            self.n_calls += 1
        return _lowered(own)

    def leave(self, own: _Found) -> None:
        """End a call; the last one puts back what was there for the process."""
        _put_back(own)
        with self.lock:
            self.n_calls -= 1
            if not self.n_calls:
                _put_back(self.found)

    def _after_fork(self) -> None:
        """Replace the lock, which a thread may have held that is not in the new process."""
        self.lock = threading.Lock()


_LIMIT = _Limit()


class one_blas_thread:
    """Keep BLAS to one thread within a ``with`` statement."""

    def __enter__(self) -> None:
        self._own = _LIMIT.enter()

    def __exit__(self, *error: object) -> None:
        _LIMIT.leave(self._own)


class CallThreads(Threads):
    """The threads of one call, in a ``with`` statement: BLAS keeps to one, parallelism is over examples."""

    def __enter__(self) -> CallThreads:
        self._blas = one_blas_thread()
        self._blas.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._blas.__exit__()
        finally:
            self.close()


def _lowered(libraries: Iterable[Any]) -> _Found:
    """Set one thread; return the libraries that had more, unless someone else holds on to their number."""
    found: _Found = []
    for library in libraries:
        n = library.get_num_threads()
        if n is not None and n > 1:
            _set(library, 1)
            if library.get_num_threads() == 1:
                found.append((library, n))
    return found


def _put_back(found: _Found) -> None:
    """Set the numbers of threads that were found, where they have not been changed since."""
    for library, n in found:
        if library.get_num_threads() == 1:
            _set(library, n)


def _set(library: Any, n: int) -> None:
    """Set the number of threads, and let other threads set it later."""
    library.set_num_threads(n)
    let_go = getattr(library, "clear_controlling_thread", None)
    if let_go is not None:
        let_go()


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> tuple[list[Any], list[Any]]:
    """Return the BLAS libraries with a number for the process and those with one for each thread.

    Finding them takes milliseconds; it is done again when modules have been imported since, as libraries come with
    them.
    """
    found = ThreadpoolController().select(user_api="blas").lib_controllers
    own = [library for library in found if getattr(library, "threading_layer", None) == "openmp"]
    return [library for library in found if library not in own], own
