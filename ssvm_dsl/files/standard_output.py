"""Standard output belongs to the command that runs, if one does.

What others print meanwhile (plug-ins, the user's file, C libraries that they call) goes to standard error, so that it
cannot spoil JSON or predictions.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TextIO

_OUTPUT: ContextVar[TextIO | None] = ContextVar("standard output of the command", default=None)


def output() -> TextIO:
    """Return the standard output of the command."""
    return _OUTPUT.get() or sys.stdout


@contextmanager
def own_output() -> Iterator[None]:
    """Keep standard output for the command; everything else that is printed goes to standard error."""
    before = sys.stdout
    mine = _moved(before)
    token = _OUTPUT.set(mine)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = before
        _OUTPUT.reset(token)
        if mine is not before:
            with suppress(OSError, AttributeError, TypeError):  # what C libraries have printed and still keep
                ctypes.CDLL(None).fflush(None)
            with suppress(OSError):
                mine.flush()
            os.dup2(mine.fileno(), 1)
            with suppress(OSError):
                mine.close()


def _moved(stream: TextIO) -> TextIO:
    """Return the stream moved to another file descriptor, 1 being that of standard error now; itself if it is not 1."""
    if stream is not sys.__stdout__:
        return stream
    try:
        if stream.fileno() != 1:
            return stream
        stream.flush()
        made = os.fdopen(os.dup(1), "w", encoding=stream.encoding, errors=stream.errors)
        os.dup2(2, 1)
    except (OSError, ValueError):  # closed
        return stream
    return made
