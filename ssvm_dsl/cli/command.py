"""Subcommands, and the parser made of a tree of them.

Modules of commands import nothing heavy: all of them are read for ``ssvm --help``.  What a command needs to
run, it imports when it runs.
"""

from __future__ import annotations

import json
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ssvm_dsl.files.standard_output import output


class Parser(ArgumentParser):
    """A parser whose complaints are one line."""

    #: Where a command that is missing may be.
    hint = ""

    def error(self, message: str) -> NoReturn:
        """Print the error, and how to show the usage."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help{self.hint})\n")


def no_arguments(parser: ArgumentParser) -> None:
    """Add nothing: the command takes no arguments."""


@dataclass(frozen=True)
class Subcommand:
    """A subcommand, or a group of them.

    Parameters
    ----------
    name : str
    summary : str
        One line for the list of commands.
    run : callable, optional
        Does the work and returns the exit status; ``None`` for a group.
    arguments : callable
        Adds the command's arguments to its parser.
    parts : sequence of Command
        The commands of a group.
    """

    name: str
    summary: str
    run: Callable[[Namespace], int] | None = None
    arguments: Callable[[ArgumentParser], None] = no_arguments
    parts: Sequence[Subcommand] = ()


def add_commands(parser: ArgumentParser, commands: Sequence[Subcommand], called: str | None = None) -> None:
    """Add subcommands to a parser; without one of them, its help is shown.

    Where one is known to be called, it alone has its arguments.
    """
    parser.set_defaults(run=lambda args: _help(parser))
    below = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in commands:
        text = command.summary[:1].upper() + command.summary[1:] + "."
        made = below.add_parser(command.name, help=command.summary, description=text)
        if called not in (None, command.name):
            continue
        # The same flags as before the command; unset here, so that the ones given there stay.
        add_shared(made, *FLAGS, default=SUPPRESS)
        if command.parts:
            add_commands(made, command.parts)
        else:
            command.arguments(made)
            made.set_defaults(run=command.run)


def positive_int(text: str) -> int:
    """Read an argument that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"expected a positive int, got {text!r}")
    return int(text)


def positive(text: str) -> float:
    """Read an argument that is a positive number."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 < number < float("inf"):
        raise ArgumentTypeError(f"expected a positive number, got {text!r}")
    return number


def name_value(text: str) -> tuple[str, Any]:
    """Read ``K=V``; the value is JSON where it can be, else a string."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


#: The flags that every command has.
FLAGS = ("--no-plugins", "--traceback")

#: Options that several commands have.
SHARED: dict[str, dict[str, Any]] = {
    "--no-plugins": {"action": "store_true", "help": "load the bundled plug-ins only, no foreign ones"},
    "--traceback": {"action": "store_true", "help": "show where an error came from, for reports of bugs"},
    "--json": {"action": "store_true", "help": "print JSON and nothing else"},
    "--trust": {
        "action": "append", "default": [], "metavar": "MODULE:NAME",
        "help": "import this function, which the model calls (may be repeated)",
    },
    "--option": {
        "type": name_value, "action": "append", "default": [], "metavar": "K=V",
        "help": "an option of what is named (may be repeated)",
    },
    "--threads": {"type": positive_int, "metavar": "N", "help": "number of threads (default: all processors)"},
    "--trees": {"action": "store_true", "help": "make up edge lists that are trees"},
}  # fmt: skip


def add_shared(parser: ArgumentParser, *options: str, **settings: Any) -> None:
    """Add options that several commands have, with other settings where these are given."""
    for option in options:
        parser.add_argument(option, **SHARED[option] | settings)


def _help(parser: ArgumentParser) -> int:
    parser.print_help(output())
    return 0
