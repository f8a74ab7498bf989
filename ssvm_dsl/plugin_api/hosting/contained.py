"""``contained``: code of a plug-in at work.  Whatever goes wrong in it becomes an error that names the plug-in.

Plug-ins are foreign programs: they may raise anything, ``SystemExit`` included.  Two things are not theirs:
``KeyboardInterrupt`` (the user's; a note says where it struck) and what a signal handler of the host raises while
their code runs, such as the ``sys.exit`` of a handler for SIGTERM.  A plug-in that hangs cannot be stopped from inside
the process; Ctrl-C is then what ends it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import CodeType, TracebackType
from typing import Any

from ssvm_dsl.errors import PluginError, SsvmError, TooLargeError


class contained:
    """Run code of a plug-in, as a context manager.

    Parameters
    ----------
    what : str
        The owner of the code, e.g. ``"backend 'x' (plug-in 'y' of z 1.0)"``.
    error : callable, optional
        Makes the error from a text like ``"it failed with ValueError: ..."``; a :class:`PluginError` by default.

    Raises
    ------
    PluginError
        The code raised an exception that is not one of this package's errors.  ``__cause__`` holds the exception.
    TooLargeError
        It ran out of memory.
    """

    __slots__ = ("error", "what")

    def __init__(self, what: str, error: Callable[[str], SsvmError] | None = None) -> None:
        self.what, self.error = what, error

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, SsvmError):
            return
        if isinstance(error, KeyboardInterrupt):
            error.add_note(f"interrupted in {self.what}")
            return
        if from_signal(trace):
            return
        if isinstance(error, MemoryError):
            raise TooLargeError(f"{self.what} ran out of memory; give it less at once, or take another") from error
        text = f"it failed with {words(error)}"
        raise (self.error(text) if self.error is not None else PluginError(f"{self.what}: {text}")) from error


def words(error: BaseException) -> str:
    """Return an exception as one line; one that cannot be printed by its type alone."""
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except BaseException:
        text = ""
    return f"{name}: {text[:500]}" if text else name


def from_signal(trace: TracebackType | None) -> bool:
    """Return whether an exception comes from a signal handler, which runs on top of whatever code is at work."""
    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    while trace is not None and handlers:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def _code(handler: Any) -> CodeType | None:
    """Return the code of a signal handler written in Python."""
    while hasattr(handler, "func"):  # functools.partial
        handler = handler.func
    if callable(handler) and not hasattr(handler, "__code__") and not hasattr(handler, "__func__"):
        handler = type(handler).__call__
    code = getattr(getattr(handler, "__func__", handler), "__code__", None)
    return code if isinstance(code, CodeType) else None
