"""What is otherwise in this process while something is compiled, so that it takes less time."""

from __future__ import annotations

import gc
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from numba.core.types.functions import BaseFunction

#: The method of numba that finds the types of a call.
METHOD = "get_call_type"


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


class KnownCalls(WhileCompiling):
    """Lets numba find the types of a call of its own functions once, not wherever a kernel has such a call.

    For each ``+`` and each ``array[i]`` numba goes through all implementations that there are, and keeps texts of why
    most of them do not fit: a seventh of the time of a first fit.  What it finds depends on the function, which is
    another one where implementations were added, and on the types of the arguments; those of lists that are still to
    be filled, and failures, are not remembered.
    """

    def __init__(self) -> None:
        super().__init__()
        #: By function and typing context, which are kept so that their numbers stay theirs.
        self._known: dict[tuple[int, int], tuple[Any, Any, dict[Any, Any]]] = {}

    def _begin(self) -> None:
        self._before: Callable[..., Any] = BaseFunction.get_call_type
        self._ours = self._remembering(self._before)
        setattr(BaseFunction, METHOD, self._ours)

    def _end(self) -> None:
        if BaseFunction.get_call_type is self._ours:
            setattr(BaseFunction, METHOD, self._before)

    def _remembering(self, find: Callable[..., Any]) -> Callable[..., Any]:
        """Return numba's method with a memory."""

        def get_call_type(function: Any, context: Any, args: Any, kws: Mapping[str, Any]) -> Any:
            where = id(function), id(context)
            if where not in self._known:
                self._known[where] = function, context, {}
            signatures, key = self._known[where][2], (tuple(args), tuple(kws.items()))
            found = signatures.get(key)
            if found is None:
                found = find(function, context, args, kws)
                if found.recvr is None and all(kind.is_precise() for kind in (*args, *kws.values())):
                    signatures[key] = found
            return found

        return get_call_type
