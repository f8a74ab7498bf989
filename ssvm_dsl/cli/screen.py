"""Where commands write: people's text through rich, programs' JSON plain, complaints to standard error.

What others print while a command runs goes to standard error (:mod:`ssvm_dsl.files.standard_output`).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import fill
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from ssvm_dsl.files.standard_output import output

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderHook
    from rich.segment import Segment


#: What steers a terminal and is no text: control characters but tab and line break, line separators, and characters
#: that turn the direction of writing, so that a name reads as another one.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


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


#: Seconds between lines where the screen is not a terminal.
SELDOM = 30.0


@contextmanager
def progress_bar(name: str) -> Iterator[Callable[[str, float], None]]:
    """Report the current step in words, and the completed share of all steps."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    side, last = aside(), -SELDOM
    text = TextColumn("{task.fields[text]}", markup=False)
    bar = Progress(TextColumn("[bold]{task.description}"), BarColumn(bar_width=24), text, TimeElapsedColumn(),
                   console=side, transient=True)  # fmt: skip
    task = bar.add_task(name, total=1.0, text="")

    def live(doing: str, done: float) -> None:
        bar.update(task, completed=done, text=doing)

    def plain(doing: str, done: float) -> None:
        nonlocal last
        if monotonic() >= last + SELDOM:
            last = monotonic()
            side.print(f"{name}: {done:.0%}, {doing}", markup=False, soft_wrap=True)

    if not side.is_terminal:
        yield plain
        return
    with bar:
        yield live
