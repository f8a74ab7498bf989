"""Where oracle calls run: a pool of threads of this process, while BLAS keeps to one.

Compiled kernels and BLAS release the interpreter lock, so threads share the program and the scores without
copying them.  Results come back in the order of the parts, whichever finished first.

Parallelism is over examples, so that BLAS has one thread while anything is computed here.  The number of threads of a
BLAS library belongs to the whole process.  Calls that overlap, from several threads, share
one limit, which ends with the last of them; otherwise each would put back what it found when it began, and that may be
the limit of another.  The last call to end may run in another thread than the first one, which set the limit.

threadpoolctl finds the libraries.  The two functions of OpenBLAS that read and set its number are then called directly:
through threadpoolctl a limit costs 14 microseconds of a prediction of 130, and from 3.8 on it ignores all threads but
one, as long as that one lives.

Libraries built on OpenMP have a number for each thread; there each call has its own limit.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import lru_cache, partial
from threading import Lock, get_ident
from typing import Any, NamedTuple, Self, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")

#: Seconds to wait, after Ctrl-C, for calls that are under way to end.
PATIENCE = 5.0


class Threads:
    """A pool of threads.

    They work within the deadline of the caller (:mod:`ssvm_dsl.deadline`).

    Python delivers Ctrl-C to the main thread alone, which waits here; it passes it on to the threads at work, so that
    what they do ends, too.

    Parameters
    ----------
    n_threads : int
        With 1, calls run in the caller's thread.
    """

    def __init__(self, n_threads: int = 1) -> None:
        self._n_threads = n_threads
        self._started: ThreadPoolExecutor | None = None
        self._lock, self._at_work = Lock(), set[int]()

    @property
    def _pool(self) -> ThreadPoolExecutor | None:
        """The pool, which is made for the first work to be shared."""
        if self._n_threads > 1 and self._started is None:
            with self._lock:
                if self._started is None:
                    self._started = ThreadPoolExecutor(self._n_threads, thread_name_prefix="ssvm")
        return self._started

    def map(self, function: Callable[[Any], T], parts: Sequence[Any]) -> list[T]:
        """Return ``[function(part) for part in parts]``."""
        return self._shared(function, parts, 0)

    def share(self, function: Callable[[Any], T], parts: Sequence[Any]) -> list[T]:
        """Return the same; the caller's thread takes the last part, which saves waking another one.

        For short calls: Ctrl-C waits for that part.
        """
        return self._shared(function, parts, 1)

    def _shared(self, function: Callable[[Any], T], parts: Sequence[Any], own: int) -> list[T]:
        """Share parts, ``own`` of which the caller's thread takes."""
        if len(parts) < 2 or self._pool is None:
            return [function(part) for part in parts]
        if self._at_work:  # after Ctrl-C: what they work on is not to be touched
            raise KeyboardInterrupt
        n = len(parts) - own
        futures = [self._pool.submit(copy_context().run, self._run, partial(function, part)) for part in parts[:n]]
        try:
            mine = [function(part) for part in parts[n:]]
            return [*(future.result() for future in futures), *mine]
        except BaseException as err:
            for future in futures:
                future.cancel()
            if isinstance(err, KeyboardInterrupt):
                self._interrupt()
            wait(futures, timeout=PATIENCE if isinstance(err, KeyboardInterrupt) else None)
            raise

    def close(self) -> None:
        """Stop the threads; do not wait for those that Ctrl-C did not end."""
        if self._started is not None:
            self._started.shutdown(wait=not self._at_work, cancel_futures=True)

    def _run(self, function: Callable[[], T]) -> T:
        """Call a function in a thread that hears of Ctrl-C."""
        me = get_ident()
        with self._lock:
            self._at_work.add(me)
        try:
            return function()
        finally:
            with self._lock:
                self._at_work.discard(me)

    def _interrupt(self) -> None:
        """Raise ``KeyboardInterrupt`` in the threads at work, at the next step of Python that they take.

        Those that compile finish that first.
        """
        from ssvm_dsl.kernels.compiling.while_compiling import interrupt

        with self._lock:
            for thread in self._at_work:
                interrupt(thread)


class _Library(NamedTuple):
    """The functions of a BLAS library that read and set its number of threads."""

    number: Callable[[], int | None]
    set_number: Callable[[int], object]


#: BLAS libraries, and the numbers of threads to put back.
_Found = list[tuple[_Library, int]]


class _Calls:
    """The calls that are under way, and what to put back for the process after the last one."""

    def __init__(self) -> None:
        self.lock, self.n = threading.Lock(), 0
        self.found: _Found = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        """Replace the lock, which a thread may have held that is not in the new process."""
        self.lock = threading.Lock()


_CALLS = _Calls()


class one_blas_thread:
    """Keep BLAS to one thread within a ``with`` statement."""

    def __enter__(self) -> Self:
        shared, own = _libraries(len(sys.modules))
        with _CALLS.lock:
            if not _CALLS.n:
                _CALLS.found = _lowered(shared)
            _CALLS.n += 1
        self._own = _lowered(own) if own else []  # to put back in this thread
        return self

    def __exit__(self, *error: object) -> None:
        if self._own:
            _put_back(self._own)
        with _CALLS.lock:
            _CALLS.n -= 1
            if not _CALLS.n and _CALLS.found:
                _put_back(_CALLS.found)


def _lowered(libraries: Iterable[_Library]) -> _Found:
    """Set one thread; return the libraries that had more."""
    lowered: _Found = []
    for library in libraries:
        n = library.number()
        if n is not None and n > 1:
            library.set_number(1)
            if library.number() == 1:
                lowered.append((library, n))
    return lowered


def _put_back(lowered: _Found) -> None:
    """Set the numbers of threads that were found, where they have not been changed since."""
    for library, n in lowered:
        if library.number() == 1:
            library.set_number(n)


def _functions_of(library: Any) -> _Library:
    """Return the functions of a library that threadpoolctl has found, its own where they are not those of OpenBLAS."""
    names = getattr(library, "check_symbols", ()) if getattr(library, "internal_api", "") == "openblas" else ()
    if getattr(library, "threading_layer", None) != "openmp":
        for name in names:  # openblas_get_num_threads, with what a build may put before and after it
            number = getattr(library.dynlib, name, None)
            set_number = getattr(library.dynlib, name.replace("_get_", "_set_"), None)
            if number is not None and set_number is not None:
                return _Library(number, set_number)
    return _Library(library.get_num_threads, library.set_num_threads)


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> tuple[list[_Library], list[_Library]]:
    """Return the BLAS libraries with a number for the process and those with one for each thread.

    Finding them takes milliseconds; it is done again when modules have been imported since, as libraries come with
    them.
    """
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    own = [library for library in libraries if getattr(library, "threading_layer", None) == "openmp"]
    shared = [library for library in libraries if library not in own]
    return [_functions_of(library) for library in shared], [_functions_of(library) for library in own]


class CallThreads(Threads, one_blas_thread):
    """The threads of one call, in a ``with`` statement: BLAS keeps to one, parallelism is over examples."""

    def __exit__(self, *error: object) -> None:
        try:
            super().__exit__(*error)
        finally:
            if self._started is not None:
                self.close()
