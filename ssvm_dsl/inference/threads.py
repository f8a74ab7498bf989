"""``Threads``: where oracle calls run, a pool of threads of this process.

Compiled kernels and BLAS release the interpreter lock, so threads share the program and the scores without
copying them.  Results come back in the order of the parts, whichever finished first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import partial
from threading import Lock, get_ident
from typing import Any, TypeVar

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
