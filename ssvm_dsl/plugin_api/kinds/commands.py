"""What commands implement (``CommandSpec``): subcommands of ``ssvm`` that a plug-in brings.

Standard output holds the answer of a command; all other output goes to standard error.  So a command
writes through the :class:`Screen` that it is given.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable


class Screen(Protocol):
    """The output of a command.  The host passes it to ``Command.run``."""

    def text(self, text: str, style: str = "") -> None:
        """Write a line of the answer in a style of rich, such as ``"bold"``."""

    def table(
        self, title: str, columns: Iterable[str], rows: Iterable[Iterable[str]], unbroken: Iterable[str] = ()
    ) -> None:
        """Write a table, in which cells of the columns named in ``unbroken`` are never split over lines."""

    def json(self, value: Any) -> None:
        """Write plain data as JSON: the whole answer of a command that was asked for JSON."""

    def note(self, text: str, style: str = "") -> None:
        """Write a line to standard error: warnings, and files that were written."""

    def progress(self, name: str) -> AbstractContextManager[Callable[[str, float], None]]:
        """Show how far the work is, on standard error.

        The context gives a function that is called with what is done now and the share of the work that is done.
        """


@runtime_checkable
class Command(Protocol):
    """A subcommand of ``ssvm``; the factory of a ``CommandSpec`` makes one, without arguments."""

    def arguments(self, parser: ArgumentParser) -> None:
        """Add the arguments of the command to its parser."""

    def run(self, args: Namespace, screen: Screen) -> int:
        """Do the work and return the exit status: 0 all is well, 1 the answer is no, 2 it could not be done."""
