"""``ssvm plugins new NAME``: writes a plug-in package that works, installs and passes its own tests."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, Namespace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ssvm_dsl.cli.command import Subcommand
from ssvm_dsl.cli.screen import console

if TYPE_CHECKING:
    from ssvm_dsl.cli.plugins.templates import PackageTemplate

#: Kinds of plug-ins that are written, in words.
KINDS = {
    "backend": "an inference backend (the default)",
    "trainer": "a trainer",
    "risk": "a risk",
    "loss": "a loss",
    "constraint": "a kind of hard constraints",
    "bridge": "a bridge from constraints to tables",
    "executor": "an executor of training on shards",
    "command": "a subcommand of ssvm",
    "reader": "readers of files: problems and examples",
}

#: Lower-case words joined by hyphens: good as a distribution, and with underscores as a module.
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def new_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm plugins new``."""
    parser.add_argument("name", metavar="NAME", help="name of the plug-in and of its package, e.g. my-solver")
    which = parser.add_mutually_exclusive_group()
    for kind, text in KINDS.items():
        which.add_argument(f"--{kind}", action="store_const", const=kind, dest="kind", help=f"write {text}")
    parser.set_defaults(kind="backend")
    parser.add_argument(
        "--dir", type=Path, default=Path(), metavar="DIR", help="where to put the folder NAME (default: here)"
    )


def run_new(args: Namespace) -> int:
    """Write the package and say what to do next."""
    folder, kind = args.dir / args.name, args.kind
    check_name(args.name, folder, kind)
    template = template_of(kind)
    written = write_package(args.name, folder, template)
    screen = console()
    for path in written:
        screen.print(f"wrote {path}", markup=False, soft_wrap=True)
    screen.print("\n[bold]Next[/bold]")
    tried = template.filled(template.tried.replace("{folder}", str(folder)), args.name)
    for command in (f"pip install --editable {folder}", tried, f"python -m pytest {folder}"):
        screen.print(f"  {command}", markup=False, soft_wrap=True)
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
    from ssvm_dsl.registry import KINDS as SPECS
    from ssvm_dsl.registry import registry, word

    module = module_name(name)
    if not NAME.fullmatch(name):
        raise OptionError(f"NAME: lower-case words joined by hyphens, e.g. my-solver, got {name!r}")
    specs = next(one for one in SPECS.values() if word(one) == kind)
    taken = {spec.name for spec in registry().specs(specs)}
    if name in taken or (kind == "command" and name in CORE_COMMANDS):
        raise OptionError(f"there is a {kind} '{name}' already; choose another name")
    if folder.exists():
        raise OptionError(f"{folder} is there already; choose another name or another --dir")
    if module in sys.stdlib_module_names or find_spec(module) is not None:
        raise OptionError(f"a module '{module}' is installed already; choose another name")


def module_name(name: str) -> str:
    """Return the module of a distribution: ``my-solver`` -> ``my_solver``."""
    return name.replace("-", "_")


def template_of(kind: str) -> PackageTemplate:
    """Return the template of a kind of plug-in."""
    from importlib import import_module

    template: PackageTemplate = import_module(f"ssvm_dsl.cli.plugins.templates.{kind}").TEMPLATE
    return template


def write_package(name: str, folder: Path, template: PackageTemplate) -> list[Path]:
    """Write the files of a plug-in package and return their paths.

    Raises
    ------
    OptionError
        The folder cannot be written.
    """
    from ssvm_dsl.errors import OptionError

    written = []
    try:
        for path, text in template.written(name).items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            written.append(target)
    except OSError as err:
        raise OptionError(f"cannot write {folder}: {err}") from err
    return written


NEW = Subcommand("new", "write a package with a plug-in that works", run_new, new_arguments)
