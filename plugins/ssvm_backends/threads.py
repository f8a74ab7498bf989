"""The ``threads`` executor: calls run in a pool of threads of this process.

Compiled kernels and BLAS release the interpreter lock, so threads share the program and the scores without
copying them.  Results come back in the order of the parts, whichever finished first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class Threads:
    """A pool of threads.

    Parameters
    ----------
    n_threads : int
        With 1, calls run in the caller's thread.
    """

    def __init__(self, n_threads: int = 1) -> None:
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="ssvm") if n_threads > 1 else None

    def map(self, function: Callable[[Any], T], parts: Sequence[Any]) -> list[T]:
        """Return ``[function(part) for part in parts]``."""
        if self._pool is None or len(parts) < 2:
            return [function(part) for part in parts]
        return list(self._pool.map(function, parts))

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Start one call."""
        if self._pool is not None:
            return self._pool.submit(function)
        done: Future[T] = Future()
        try:
            done.set_result(function())
        except BaseException as err:
            done.set_exception(err)
        return done

    def close(self) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.shutdown()
