"""What commands and readers of files implement (``CommandSpec``, ``ReaderSpec``): what ``ssvm`` calls.

Standard output holds the answer of a command; all other output goes to standard error.  So a command
writes through the :class:`Screen` that it is given.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from ssvm_dsl.ir.graph_problem import GraphProblem


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


# -- readers of files ----------------------------------------------------------------------------------------------


class ReadLimits(Protocol):
    """How much memory a file may ask for; files come from strangers, too."""

    @property
    def n_bytes(self) -> int:
        """Length of the content, which the host has looked at."""

    @property
    def n_entries(self) -> int:
        """States of all variables and entries of all tables together: compare what a file announces with it."""


class ProblemReader(Protocol):
    """A reader of factor graphs with scores, for ``ssvm solve`` and ``read_problem``: a function, or a class with it.

    It raises :class:`~ssvm_dsl.errors.FileFormatError` for a file that is not of the format, and names the file, the
    line, what was expected and what was found.
    """

    def read(self, source: str, content: bytes, limits: ReadLimits) -> GraphProblem:
        """Return the problem of a file.

        Parameters
        ----------
        source : str
            The name of the file, for messages.
        content : bytes
            Unpacked, where the file was packed.
        limits : ReadLimits
        """


class ReadSettings(Protocol):
    """How a file of examples is read: what the user asked for, or what was learnt from the training data."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The option ``--label``: names of what is to be predicted."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs of the user's model; empty for ready models."""


class ExamplesReader(Protocol):
    """A reader of examples and labels, for ``ssvm train``, ``ssvm predict`` and ``read_examples``.

    A function, or a class with ``read`` that is made without arguments.
    """

    def read(self, source: str, settings: ReadSettings) -> tuple[Any, Any]:
        """Return the examples and the labels of a file, as ``fit`` takes them; labels are ``None`` if there are none.

        Parameters
        ----------
        source : str
            The path as the user gave it; ``"-"`` is standard input.
        settings : ReadSettings
        """


@runtime_checkable
class AnswersWriter(Protocol):
    """An optional method of a class of :class:`ExamplesReader`: predictions in the same format.

    Without it ``ssvm predict`` writes a line of JSON for each example.
    """

    def write_answers(self, out: str, data: Any, predicted: Sequence[Any]) -> None:
        """Write predicted labels.

        Parameters
        ----------
        out : str
            A path; ``"-"`` is standard output.
        data : object
            The examples, ``data.X``, and the file that they came from, ``data.source``.
        predicted : sequence
            The labels of each example.
        """
