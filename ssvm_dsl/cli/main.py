"""The ``ssvm`` command: a table of subcommands, and the one place where errors become messages and exit statuses.

Exit statuses: 0 all is well; 1 the answer is no (a backend failed its check, no backend fits a model);
2 the command could not be carried out; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from operator import attrgetter

from ssvm_dsl.cli import demo, report, solve, warm
from ssvm_dsl.cli.command import FLAGS, Parser, Subcommand, add_commands, add_shared
from ssvm_dsl.cli.explain import command as explain
from ssvm_dsl.cli.learn import convert, info, predict, train
from ssvm_dsl.cli.plugins import command as plugins
from ssvm_dsl.cli.screen import complain
from ssvm_dsl.cli.tune import command as tune
from ssvm_dsl.errors import SsvmError
from ssvm_dsl.files.standard_output import output, own_output
from ssvm_dsl.memory import free_memory
from ssvm_dsl.units import bytes_text
from ssvm_dsl.version import __version__

#: The commands of the core; those of plug-ins come behind.
COMMANDS = (
    *(train.COMMAND, predict.PREDICT, predict.EVALUATE, convert.COMMAND, info.INFO),
    *(demo.COMMAND, explain.COMMAND, tune.COMMAND, solve.COMMAND, warm.COMMAND, info.WEIGHTS),
    report.COMMAND,
    plugins.COMMAND,
)

#: Commands of packages that may not be installed.
PACKAGED = {"reproduce": "ssvm-papers"}

#: Where less is free, libraries that cannot be loaded are not broken: NumPy, SciPy, scikit-learn, llvmlite and OR-Tools
#: take up to so much address space.
LOADING_BYTES = 6e8


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process by default.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if "--no-plugins" in words:
        os.environ["SSVM_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    traceback = "--traceback" in words
    try:
        with own_output():  # plug-ins may be imported
            parser = make_parser(words)
        args = parser.parse_args(words)
        with own_output():
            try:
                status = args.run(args) or 0
                output().flush()
            except BrokenPipeError:  # `ssvm plugins list | head`: the reader has seen enough
                os.dup2(os.open(os.devnull, os.O_WRONLY), output().fileno())
                status = 0
        return status
    except SsvmError as err:
        if traceback:
            raise
        complain("\n  ".join([str(err), *_notes(err)]))
    except MemoryError as err:
        if traceback:
            raise
        found = " ".join(str(err).split())
        complain(f"out of memory{f': {found}' if found else ''}; the task does not fit into the memory of this machine")
    except KeyboardInterrupt as err:
        complain("; ".join(["interrupted", *(note.removeprefix("interrupted ") for note in _notes(err))]))
        return 130
    except (OSError, ImportError, SystemError) as err:  # the last one is Python's where it cannot load a module
        if not traceback and isinstance(err, OSError) and err.filename is not None:  # a file that was named
            complain(f"{err.filename}: {err.strerror}")
            return 2
        free = free_memory()
        if traceback or free > LOADING_BYTES:
            raise
        found = f"{err}; {bytes_text(max(free, 0.0))} are free, as far as limits (ulimit -v, containers) allow"
        complain(f"not enough memory to load a library: {found}")
    return 2


def _notes(error: BaseException) -> list[str]:
    """Return the notes of an exception, such as the plug-in in which it was raised."""
    return list(getattr(error, "__notes__", ()))


def make_parser(words: Sequence[str]) -> Parser:
    """Return the parser of the whole command line.

    Plug-ins are read only for their own commands and for ``ssvm --help``, not for commands of the core.

    Parameters
    ----------
    words : sequence of str
        The command line.
    """
    called = next((word for word in words if not word.startswith("-")), None)
    of_core = called in map(attrgetter("name"), COMMANDS)
    more, hint = ((), "") if of_core else _of_plugins(called)
    parser = Parser(
        prog="ssvm", description="Structured support vector machines: declare a model, train it, look inside."
    )
    parser.add_argument("--version", action="version", version=f"ssvm-dsl {__version__}")
    parser.hint = hint
    add_shared(parser, *FLAGS)
    add_commands(parser, (*COMMANDS, *more), called if of_core else None)
    return parser


def _of_plugins(called: str | None) -> tuple[Sequence[Subcommand], str]:
    """Return the commands of plug-ins, and where the command that was called may be if it is not among them."""
    from ssvm_dsl.cli.plugin_commands import plugin_commands
    from ssvm_dsl.registry import registry

    known = registry()
    hint = f"; '{called}' comes with pip install {PACKAGED[called]}" if called in PACKAGED else ""
    hint += "; broken plug-ins are left out: see ssvm plugins list" if known.problems else ""
    return tuple(plugin_commands(known, called)), hint
