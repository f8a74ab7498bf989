"""``ssvm plugins new NAME``: writes a plug-in package that works, installs and passes its own tests."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, Namespace
from importlib.util import find_spec
from pathlib import Path

from ssvm_dsl.cli.command import Subcommand
from ssvm_dsl.cli.screen import console

#: Lower-case words joined by hyphens: good as a distribution, and with underscores as a module.
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm plugins new``."""
    parser.add_argument("name", metavar="NAME", help="name of the plug-in and of its package, e.g. my-solver")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--trainer", action="store_true", help="write a trainer (default: a backend)")
    which.add_argument("--executor", action="store_true", help="write an executor of training on shards")
    which.add_argument("--command", action="store_true", help="write a subcommand of ssvm")
    parser.add_argument(
        "--dir", type=Path, default=Path(), metavar="DIR", help="where to put the folder NAME (default: here)"
    )


def run(args: Namespace) -> int:
    """Write the package and say what to do next."""
    folder = args.dir / args.name
    kind = next((kind for kind in ("trainer", "executor", "command") if getattr(args, kind)), "backend")
    check_name(args.name, folder, kind)
    written = write_package(args.name, folder, kind)
    screen = console()
    for path in written:
        screen.print(f"wrote {path}", markup=False)
    screen.print("\n[bold]Next[/bold]")
    screen.print(f"  pip install --editable {folder}", markup=False)
    tried = f"ssvm {args.name} --help" if kind == "command" else f"ssvm plugins check {args.name}"
    screen.print(f"  {tried}", markup=False)
    screen.print(f"  python -m pytest {folder}", markup=False)
    return 0


def check_name(name: str, folder: Path, kind: str) -> None:
    """Refuse names that cannot be used, before anything is written.

    Raises
    ------
    OptionError
        The name is not allowed, or something is in the way; says which.
    """
    from ssvm_dsl.errors import OptionError
    from ssvm_dsl.plugin_api.hosting.check_spec import CORE_COMMANDS
    from ssvm_dsl.plugin_api.specs import BackendSpec, CommandSpec, ExecutorSpec, Spec, TrainerSpec
    from ssvm_dsl.registry import registry

    module = module_name(name)
    if not NAME.fullmatch(name):
        raise OptionError(f"NAME: lower-case words joined by hyphens, e.g. my-solver, got {name!r}")
    kinds: dict[str, type[Spec]] = {"backend": BackendSpec, "trainer": TrainerSpec}
    kinds |= {"executor": ExecutorSpec, "command": CommandSpec}
    taken = {spec.name for spec in registry().specs(kinds[kind])}
    if name in taken or (kind == "command" and name in CORE_COMMANDS):
        raise OptionError(f"there is a {kind} '{name}' already; choose another name")
    if folder.exists():
        raise OptionError(f"{folder} is there already; choose another name or another --dir")
    if module in sys.stdlib_module_names or find_spec(module) is not None:
        raise OptionError(f"a module '{module}' is installed already; choose another name")


def module_name(name: str) -> str:
    """Return the module of a distribution: ``my-solver`` -> ``my_solver``."""
    return name.replace("-", "_")


def write_package(name: str, folder: Path, kind: str) -> list[Path]:
    """Write the files of a plug-in package and return their paths.

    Raises
    ------
    OptionError
        The folder cannot be written.
    """
    from ssvm_dsl.cli.plugins.backend_template import FILES
    from ssvm_dsl.cli.plugins.command_template import COMMAND_FILES
    from ssvm_dsl.cli.plugins.executor_template import EXECUTOR_FILES
    from ssvm_dsl.cli.plugins.trainer_template import TRAINER_FILES
    from ssvm_dsl.errors import OptionError

    what, files = {
        "backend": ("The inference backend", FILES),
        "trainer": ("The trainer", TRAINER_FILES),
        "executor": ("The executor", EXECUTOR_FILES),
        "command": ("The command", COMMAND_FILES),
    }[kind]
    words = {"{name}": name, "{module}": module_name(name), "{what}": what}
    written = []
    try:
        for path, text in files.items():
            for word, value in words.items():
                path, text = path.replace(word, value), text.replace(word, value)
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            written.append(target)
    except OSError as err:
        raise OptionError(f"cannot write {folder}: {err}") from err
    return written


COMMAND = Subcommand("new", "write a package with a backend, trainer, executor or command that works", run, arguments)
