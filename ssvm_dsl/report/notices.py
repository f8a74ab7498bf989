"""Lines on standard error for a waiting user: kernels are being compiled, and which worker has which parts of the data.

Kernels are compiled once on a machine.  Nothing is printed if kernels are read from the disk, if compiling ends within
seconds, and if nobody watches: a file or a pipe gets lines with ``verbose=True`` only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache
from time import perf_counter
from typing import Any, TextIO

#: What numba announces when it begins to compile a function, not when it reads one from the disk.
COMPILE = "numba:compile"

#: Seconds of compiling that need no explanation.
SHORT = 2.0

TEXT = "compiling kernels, once: up to half a minute for a trainer with a backend (`ssvm warm` does it ahead)\n"


class Notice:
    """Prints once that kernels are being compiled, as soon as that has taken a while.

    Parameters
    ----------
    say : callable
        Takes the line.
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self.say, self.begin, self.said = say, float("inf"), False

    def hear(self, now: float) -> None:
        """Hear that a function begins to be compiled; one after the other is, so that this is heard all along."""
        self.begin = min(self.begin, now)
        if not self.said and now - self.begin > SHORT:
            self.said = True
            self.say(TEXT)


def watched(stream: TextIO) -> bool:
    """Return whether output is visible to a person: on a terminal, or in a notebook."""
    return stream.isatty() or "ipykernel" in sys.modules


@cache
def announce_compiling() -> None:
    """Say so, once in this process, when a user waits for kernels that are compiled."""
    if not watched(sys.stderr):
        return
    from numba.core.event import Listener, register

    notice = Notice(lambda text: sys.stderr.write(text))  # a bar may have taken its place by then

    class CompilingNotice(Listener):  # type: ignore[misc]
        """Passes on what numba announces."""

        def on_start(self, event: Any) -> None:
            """Hear of a beginning."""
            notice.hear(perf_counter())

        def on_end(self, event: Any) -> None:
            """Hear of an end."""
            notice.hear(perf_counter())

    register(COMPILE, CompilingNotice())


def tell_workers(lines: Iterable[str]) -> None:
    """Write the lines to standard error, above the line of progress."""
    for line in lines:
        sys.stderr.write(f"{line}\n")
