"""When the call at hand must end, for code that is not told: long loops of Python ask :func:`pause` as they go.

Backends get a limit with each question.  What comes before that (plans, orders of elimination, bridges, rows of
constraints) is asked for by signatures that know of no time, those of plug-ins included.  It runs inside
:func:`within`, which holds for the thread (:mod:`contextvars`), as cancel scopes of asynchronous libraries do.
"""

from __future__ import annotations

from contextvars import ContextVar
from math import inf
from time import perf_counter
from typing import Protocol

from ssvm_dsl.errors import OutOfTime


class Ending(Protocol):
    """What knows when a call must end."""

    @property
    def left(self) -> float:
        """Seconds left, at least 0; ``inf`` without an end."""


class within:
    """Let :func:`pause` look at this end inside a ``with`` statement, and at what holds outside as well.

    Parameters
    ----------
    end : Ending
        A :class:`~ssvm_dsl.inference.deadline.Deadline`, a :class:`~ssvm_dsl.plugin_api.Clock`.
    """

    __slots__ = ("_end", "_outer", "_token", "sure")

    def __init__(self, end: Ending) -> None:
        self._end = end
        self.sure = 0.0  # until then on the wall nothing is over: clocks of limits do not run faster

    def __enter__(self) -> None:
        self._outer = _SCOPE.get()
        self._token = _SCOPE.set(self)

    def __exit__(self, *error: object) -> None:
        _SCOPE.reset(self._token)

    @property
    def left(self) -> float:
        """Seconds until the first of the ends."""
        return min(self._end.left, inf if self._outer is None else self._outer.left)


_SCOPE: ContextVar[within | None] = ContextVar("ssvm_dsl_end", default=None)


def time_left() -> float:
    """Return the seconds that the call at hand has left; ``inf`` where it has no limit."""
    scope = _SCOPE.get()
    return inf if scope is None else scope.left


def pause(ahead: float = 0.0) -> None:
    """Raise :class:`~ssvm_dsl.errors.OutOfTime` when the call at hand must end; do nothing where it has no limit.

    It takes a fraction of a microsecond: right for every round of a loop in Python.

    Parameters
    ----------
    ahead : float
        Expected seconds of the next step, where nothing can cut that step short: the call ends now if the step would
        end too late.
    """
    scope = _SCOPE.get()
    if scope is None or (now := perf_counter()) + ahead < scope.sure:
        return
    left = scope.left
    if left <= ahead:
        raise OutOfTime("the time limit of the call is over")
    scope.sure = now + left
