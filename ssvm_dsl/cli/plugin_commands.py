"""Subcommands that plug-ins bring: put into the table of commands, contained when they run.

The module of a command is imported only when that command is called.  What fails there becomes a message that names the
plug-in; the other commands work on.
"""

from __future__ import annotations

from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.command import Subcommand
from ssvm_dsl.cli.screen import aside, console, progress_bar, write_json

if TYPE_CHECKING:
    from ssvm_dsl.plugin_api import CommandSpec
    from ssvm_dsl.registry import Registry


def plugin_commands(known: Registry, called: str | None) -> Iterator[Subcommand]:
    """Yield the commands of plug-ins; the one that is called has its arguments.

    Parameters
    ----------
    known : Registry
    called : str or None
    """
    from ssvm_dsl.plugin_api import CommandSpec

    for spec in known.specs(CommandSpec):
        yield _called(spec, known) if spec.name == called else Subcommand(spec.name, _summary(spec), _not_called)


def _summary(spec: CommandSpec) -> str:
    return spec.summary or "a command without a description"


def _not_called(args: Namespace) -> int:
    raise AssertionError("only the command that is called runs")


def _called(spec: CommandSpec, known: Registry) -> Subcommand:
    """Return a command that was loaded; where that failed, one that takes any arguments and raises why."""
    from ssvm_dsl.errors import PluginError, SsvmError
    from ssvm_dsl.plugin_api.hosting.contained import contained

    owner = known.describe_owner(spec)
    missing = spec.missing()
    try:
        if missing:
            hint = f"; {spec.install_hint}" if spec.install_hint else ""
            raise PluginError(f"{owner} needs {', '.join(missing)}, which is not installed{hint}")
        made = known.load(spec)
        with contained(owner):
            loaded = made()
            lacking = [name for name in ("arguments", "run") if not callable(getattr(loaded, name, None))]
        if lacking:
            raise PluginError(f"{owner} lacks {', '.join(lacking)}: implement Command of ssvm_dsl.plugin_api")
    except SsvmError as err:
        return _failed(spec, err)

    def arguments(parser: ArgumentParser) -> None:
        with contained(owner):
            loaded.arguments(parser)

    def run(args: Namespace) -> int:
        return _run(owner, loaded, args)

    return Subcommand(spec.name, _summary(spec), run, arguments)


def _failed(spec: CommandSpec, error: Exception) -> Subcommand:
    """Return a placeholder for a command that cannot be loaded."""

    def anything(parser: ArgumentParser) -> None:
        parser.add_argument("rest", nargs=REMAINDER)

    def run(args: Namespace) -> int:
        raise error

    return Subcommand(spec.name, _summary(spec), run, anything)


def _run(owner: str, command: Any, args: Namespace) -> int:
    """Run a command of a plug-in; files that cannot be used and closed pipes are reported as of any other command."""
    from ssvm_dsl.errors import PluginError
    from ssvm_dsl.plugin_api.hosting.contained import contained

    try:
        with contained(owner):
            status = command.run(args, TerminalScreen())
    except PluginError as err:
        cause = err.__cause__
        if isinstance(cause, BrokenPipeError) or (isinstance(cause, OSError) and cause.filename is not None):
            raise cause from None
        raise
    if type(status) is not int or not 0 <= status <= 255:
        raise PluginError(f"{owner} returned {status!r:.60} from run, expected an exit status: 0 where all is well")
    return status


class TerminalScreen:
    """The :class:`~ssvm_dsl.plugin_api.Screen` of the command line."""

    def text(self, text: str, style: str = "") -> None:
        """Write a line of the answer."""
        console().print(text, style=style or None, markup=False, soft_wrap=True)

    def table(
        self, title: str, columns: Iterable[str], rows: Iterable[Iterable[str]], unbroken: Iterable[str] = ()
    ) -> None:
        """Write a table; cells of the columns named in ``unbroken`` are never split over lines."""
        from ssvm_dsl.report.tables import plain_table

        made, whole = plain_table(title, columns, rows), set(unbroken)
        for column in made.columns:
            column.no_wrap = str(column.header) in whole
        console().print(made)

    def json(self, value: Any) -> None:
        """Write plain data as JSON."""
        write_json(value)

    def note(self, text: str, style: str = "") -> None:
        """Write a line to standard error."""
        aside().print(text, style=style or None, markup=False, soft_wrap=True)

    def progress(self, name: str) -> AbstractContextManager[Callable[[str, float], None]]:
        """Show how far the work is, on standard error."""
        return progress_bar(name)
