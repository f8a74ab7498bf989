"""Settings of this process that change while something is compiled, so that compiling takes less time."""

from __future__ import annotations

import gc
import threading
from abc import ABC, abstractmethod


class WhileCompiling(ABC):
    """A context for all threads: it begins when the first enters it, and ends when the last leaves it."""

    def __init__(self) -> None:
        self._lock, self._depth = threading.Lock(), 0

    def __enter__(self) -> None:
        """Begin."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._begin()

    def __exit__(self, *error: object) -> None:
        """End."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._end()

    @abstractmethod
    def _begin(self) -> None:
        """Change the process."""

    @abstractmethod
    def _end(self) -> None:
        """Take the change back, unless somebody else has made another one."""


class FewCollections(WhileCompiling):
    """Lets Python look for garbage seldom.

    Compiling makes millions of objects that live until it ends, and Python goes through all of them again and again: a
    sixth of the time of a first fit, for 20 MB less.
    """

    #: New objects before a look, and looks before a look at older ones.
    THRESHOLD = (200_000, 50, 100)

    def _begin(self) -> None:
        self._before = gc.get_threshold()
        if 0 < self._before[0] < self.THRESHOLD[0]:
            gc.set_threshold(*self.THRESHOLD)

    def _end(self) -> None:
        if gc.get_threshold() == self.THRESHOLD:
            gc.set_threshold(*self._before)
