"""When the call at hand must end, for code that is not told: long loops of Python ask :func:`pause` as they go.

Backends get a limit with each question.  What comes before that (plans, orders of elimination, bridges, rows of
constraints) is asked for by signatures that know of no time, those of plug-ins included.  It runs inside
:func:`within`, which holds for the thread (:mod:`contextvars`), as cancel scopes of asynchronous libraries do.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

_CHECK: ContextVar[Callable[[], None] | None] = ContextVar("ssvm_dsl_end", default=None)


@contextmanager
def within(check: Callable[[], None]) -> Generator[None, None, None]:
    """Let :func:`pause` call this inside, and what holds outside as well.

    Parameters
    ----------
    check : callable
        Raises :class:`~ssvm_dsl.errors.OutOfTime` when time is up.
    """
    outer = _CHECK.get()

    def both() -> None:
        check()
        if outer is not None:
            outer()

    token = _CHECK.set(both)
    try:
        yield
    finally:
        _CHECK.reset(token)


def pause() -> None:
    """Raise :class:`~ssvm_dsl.errors.OutOfTime` when the call at hand must end; do nothing where it has no limit.

    It takes a fraction of a microsecond: right for every round of a loop in Python.
    """
    check = _CHECK.get()
    if check is not None:
        check()
