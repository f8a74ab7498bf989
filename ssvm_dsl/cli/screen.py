"""Where commands write: people's text through rich, programs' JSON plain, complaints to standard error."""

from __future__ import annotations

import json
import sys
from textwrap import fill
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def console() -> Console:
    """Return the console of standard output."""
    from rich.console import Console

    return Console(highlight=False)


def aside() -> Console:
    """Return the console of standard error, for progress and complaints."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def write_json(value: Any) -> None:
    """Write plain data to standard output as JSON."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def wrapped(text: str, width: int) -> str:
    """Return a paragraph in lines of a width, all but the first indented by 4; names with hyphens stay whole."""
    return fill(text, width, subsequent_indent=4 * " ", break_on_hyphens=False)


def complain(text: str) -> None:
    """Write one message to standard error."""
    from rich.text import Text

    line = Text("ssvm: ", style="bold red").append(text, style="not bold default")
    aside().print(line, soft_wrap=True)
