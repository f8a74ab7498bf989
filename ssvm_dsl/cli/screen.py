"""Where commands write: people's text through rich, programs' JSON plain, complaints to standard error.

Standard output belongs to the command.  What others print while it runs (plug-ins, the user's file, C libraries that
they call) goes to standard error, so that it cannot spoil JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderHook
    from rich.segment import Segment

#: What steers a terminal and is no text: control characters but tab and line break, line separators, and characters
#: that turn the direction of writing, so that a name reads as another one.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

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


def console() -> Console:
    """Return the console of standard output."""
    from rich.console import Console

    return _plain(Console(file=output(), highlight=False))


def aside() -> Console:
    """Return the console of standard error, for progress and complaints."""
    from rich.console import Console

    return _plain(Console(stderr=True, highlight=False))


def _plain(made: Console) -> Console:
    """Return a console that shows control characters of texts, such as names from files, and does not send them."""
    made.push_render_hook(cast("RenderHook", _Escaping()))  # a base class would load rich
    return made


class _Escaping:
    """A hook of rich that has all that is printed escaped."""

    def process_renderables(self, renderables: list[Any]) -> list[Any]:
        """Wrap what is printed."""
        return [_Escaped(one) for one in renderables]


@dataclass(frozen=True)
class _Escaped:
    """Something to print, whose texts have no control characters but line breaks and tabs."""

    inner: Any

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self.inner, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))


def escaped(text: str) -> str:
    """Return a text with control characters as Python writes them."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def write_json(value: Any) -> None:
    """Write plain data to standard output as JSON."""
    output().write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def wrapped(text: str, width: int) -> str:
    """Return a paragraph in lines of a width, all but the first indented by 4; names with hyphens stay whole."""
    return fill(text, width, subsequent_indent=4 * " ", break_on_hyphens=False)


def complain(text: str) -> None:
    """Write one message to standard error, in one colour where memory is too short to load what colours it."""
    try:
        from rich.text import Text

        line = Text("ssvm: ", style="bold red").append(text, style="not bold default")
        aside().print(line, soft_wrap=True)
    except (MemoryError, ImportError, OSError):
        sys.stderr.write(f"ssvm: {escaped(text)}\n")
