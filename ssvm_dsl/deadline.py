"""The one clock for time limits: deadlines, and the deadline of the current call.

A time limit counts seconds of work.  Compiling kernels, and loading them and solver libraries, happens once on a
machine or in a process; these seconds are measured separately (:mod:`ssvm_dsl.loading`) and do not count.

A call runs inside ``with within(deadline)``, which applies to the current thread (:mod:`contextvars`), like the cancel
scopes of asynchronous libraries.  Functions in between take no deadline as an argument: sessions pass the remaining
time to backends with each question, and long Python loops (plans, elimination orders, bridges, rows of constraints)
call :func:`pause`, which raises ``OutOfTime``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from math import inf
from numbers import Real
from time import perf_counter
from typing import Any, Protocol

from ssvm_dsl.errors import OptionError, OutOfTime
from ssvm_dsl.loading import loading_time


def work_seconds() -> float:
    """Return the time on a clock that stands still while something is loaded."""
    return perf_counter() - loading_time().seconds


class Deadline:
    """The time at which a call must end; its seconds begin when it is made.

    Parameters
    ----------
    seconds : float
        For the work, loading not counted; ``inf`` for no limit.

    Attributes
    ----------
    reserve : float
        Seconds of these that are kept back for work that comes last.
    """

    def __init__(self, seconds: float = inf) -> None:
        self._meter = loading_time()
        self._loaded = self._meter.closed() if _SCOPE.get() is None else self._meter.seconds
        self._wall = perf_counter()
        self._begin = self._wall - self._loaded  # on the clock of work_seconds
        self.limit, self.reserve = seconds, 0.0

    @classmethod
    def of(cls, time_limit: Any) -> Deadline:
        """Return the deadline of a call with this limit in seconds, ``None`` for no limit.

        Raises
        ------
        OptionError
            It is something else.
        """
        if time_limit is None:
            return cls()
        if not isinstance(time_limit, Real) or isinstance(time_limit, bool) or not float(time_limit) > 0.0:
            raise OptionError(f"time_limit must be None or a positive number of seconds, got {time_limit!r}")
        return cls(float(time_limit))

    @property
    def loaded(self) -> float:
        """Seconds of loading since the beginning."""
        return self._meter.seconds - self._loaded

    @property
    def spent(self) -> float:
        """Seconds of work since the beginning."""
        return work_seconds() - self._begin

    @property
    def left(self) -> float:
        """Seconds of work that are left, at least 0."""
        return max(0.0, self.limit - self.reserve - self.spent) if self.limit < inf else inf

    @property
    def over(self) -> bool:
        """Whether time is up."""
        return self.left <= 0.0

    def end(self) -> None:
        """Let time be up from now on."""
        self.limit = min(self.limit, self.spent)

    def share(self, part: float) -> Deadline:
        """Return a deadline for a part of the work that is left: it may take this share of the time."""
        left = self.left
        return Deadline(left if left == inf else part * left)

    def check(self, ahead: float = 0.0) -> None:
        """Raise :class:`OutOfTime` when time is up, or will be within ``ahead`` seconds."""
        if perf_counter() - self._wall + ahead < self.limit - self.reserve:  # loading or not: most calls end here
            return
        if self.left <= ahead:
            raise OutOfTime(f"the time limit of {self.limit:g} s is over")


class _Ending(Protocol):
    @property
    def left(self) -> float:
        """Seconds left, at least 0; ``inf`` without an end."""


def within(deadline: _Ending) -> AbstractContextManager[Any]:
    """Let what runs inside a ``with`` statement end with a deadline, and with those that hold outside as well.

    Parameters
    ----------
    deadline : Deadline
        Or whatever else knows the seconds ``left``, such as a :class:`~ssvm_dsl.plugin_api.Clock`.  One without an end
        costs nothing inside.
    """
    return _UNLIMITED if deadline.left == inf else _Scope(deadline)


class _Scope:
    """What holds inside of :func:`within`."""

    __slots__ = ("_deadline", "_outer", "_token", "sure")

    def __init__(self, deadline: _Ending) -> None:
        self._deadline = deadline
        self.sure = 0.0  # until then on the wall nothing is over: clocks of limits do not run faster

    def __enter__(self) -> None:
        self._outer = _SCOPE.get()
        self._token = _SCOPE.set(self)

    def __exit__(self, *error: object) -> None:
        _SCOPE.reset(self._token)

    @property
    def left(self) -> float:
        """Seconds until the first of the ends."""
        return min(self._deadline.left, inf if self._outer is None else self._outer.left)


_UNLIMITED = nullcontext()

_SCOPE: ContextVar[_Scope | None] = ContextVar("ssvm_dsl_deadline", default=None)


def time_left() -> float:
    """Return the seconds that are left of the current call; ``inf`` where it has no limit."""
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
