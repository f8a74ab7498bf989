"""The ``ssvm`` command: a table of subcommands, and the one place where errors become messages and exit statuses.

Exit statuses: 0 all is well; 1 the answer is no (a backend failed its check, no backend fits a model);
2 the command could not be carried out; 130 interrupted.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence

from ssvm_dsl.cli import demo, reproduce, warm, weights
from ssvm_dsl.cli.command import Parser, add_commands, add_flags
from ssvm_dsl.cli.explain import command as explain
from ssvm_dsl.cli.plugins import command as plugins
from ssvm_dsl.cli.screen import complain, output, own_output
from ssvm_dsl.cli.solve import command as solve
from ssvm_dsl.cli.tune import command as tune
from ssvm_dsl.errors import SsvmError
from ssvm_dsl.version import __version__

COMMANDS = (
    *(demo.COMMAND, explain.COMMAND, tune.COMMAND, solve.COMMAND, warm.COMMAND, weights.COMMAND, reproduce.COMMAND),
    plugins.COMMAND,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process by default.
    """
    args = make_parser().parse_args(argv)
    if args.no_plugins:
        os.environ["SSVM_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with own_output():
        return _run(args)


def _run(args: Namespace) -> int:
    """Run a command; what goes wrong becomes a message and an exit status."""
    try:
        status: int = args.run(args)
        output().flush()
    except SsvmError as err:
        if args.traceback:
            raise
        complain("\n  ".join([str(err), *_notes(err)]))
        return 2
    except MemoryError as err:
        if args.traceback:
            raise
        found = " ".join(str(err).split())
        complain(f"out of memory{f': {found}' if found else ''}; what was asked does not fit this machine")
        return 2
    except KeyboardInterrupt as err:
        complain("; ".join(["interrupted", *(note.removeprefix("interrupted ") for note in _notes(err))]))
        return 130
    except BrokenPipeError:  # `ssvm plugins list | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), output().fileno())
        return 0
    except OSError as err:
        if args.traceback or err.filename is None:  # not about a file that was named
            raise
        complain(f"{err.filename}: {err.strerror}")
        return 2
    return status


def _notes(error: BaseException) -> list[str]:
    """Return what was added to an exception on its way, such as the plug-in it struck."""
    return list(getattr(error, "__notes__", ()))


def make_parser() -> Parser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="ssvm", description="Structured support vector machines: declare a model, train it, look inside."
    )
    parser.add_argument("--version", action="version", version=f"ssvm-dsl {__version__}")
    add_flags(parser, default=False)
    add_commands(parser, COMMANDS)
    return parser
