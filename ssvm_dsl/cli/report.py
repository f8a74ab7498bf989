"""``ssvm report FILE``: a page about a saved model."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ssvm_dsl.cli.command import Subcommand
from ssvm_dsl.cli.screen import console


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm report``."""
    parser.add_argument("file", metavar="FILE", help="a model that svm.save wrote")
    parser.add_argument(
        "-o", "--output", metavar="PAGE", help="the page to write (default: beside FILE, with the ending .html)"
    )
    parser.add_argument(
        "--trust", action="append", default=[], metavar="MODULE:NAME",
        help="import this function, which the model calls (may be repeated)",
    )  # fmt: skip


def run(args: Namespace) -> int:
    """Write the page."""
    from ssvm_dsl.errors import OptionError
    from ssvm_dsl.learning.estimators.saved import read_fit
    from ssvm_dsl.learning.pages.page import model_page, write_page

    place = Path(args.file).with_suffix(".html") if args.output is None else Path(args.output)
    if place.resolve() == Path(args.file).resolve():
        raise OptionError(f"-o {place}: this is the model itself; name another file for the page")
    model, weights, report = read_fit(args.file, args.trust)
    write_page(place, model_page(model, weights, report))
    console().print(f"wrote {place}", markup=False, soft_wrap=True)
    return 0


COMMAND = Subcommand("report", "write a page about a saved model: plan, certificate, weights", run, arguments)
