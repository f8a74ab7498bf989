"""One thread for BLAS while anything is computed here: parallelism is over examples.

The number of threads of a BLAS library belongs to the whole process.  Calls that overlap, from several threads, share
one limit, which ends with the last of them; otherwise each would put back what it found when it began, and that may be
the limit of another.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


class _Limit:
    """Counts the calls that are under way."""

    def __init__(self) -> None:
        self.lock, self.n_calls, self.limiter = threading.Lock(), 0, None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    limiter: Any

    def enter(self) -> None:
        """Begin a call; the first one sets the limit."""
        with self.lock:
            if not self.n_calls:
                self.limiter = _libraries().limit(limits=1, user_api="blas")
            self.n_calls += 1

    def leave(self) -> None:
        """End a call; the last one puts back what was there."""
        with self.lock:
            self.n_calls -= 1
            if not self.n_calls:
                self.limiter.restore_original_limits()

    def _after_fork(self) -> None:
        """Replace the lock, which a thread may have held that is not in the new process."""
        self.lock = threading.Lock()


_LIMIT = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread within a ``with`` statement."""
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    """Return the controller of the BLAS libraries in this process (finding them takes milliseconds)."""
    return ThreadpoolController()
