"""``ssvm plugins check NAME``: the conformance kit on a backend, without pytest."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from ssvm_dsl.cli.command import Command, add_json, positive_int
from ssvm_dsl.cli.screen import aside, console, write_json

if TYPE_CHECKING:
    from ssvm_dsl.testing.report import ConformanceReport


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm plugins check``."""
    parser.add_argument("name", metavar="NAME", help="a backend from `ssvm plugins list`")
    parser.add_argument(
        "--problems", type=positive_int, default=40, metavar="N", help="how many random problems (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="another seed, other problems (default: %(default)s)")
    parser.add_argument("--only", action="append", default=[], metavar="CHECK", help="run this check (may be repeated)")
    add_json(parser)


def run(args: Namespace) -> int:
    """Check a backend; the exit status is 1 when it fails."""
    from ssvm_dsl.cli.describe import find_all
    from ssvm_dsl.errors import PluginError
    from ssvm_dsl.registry import registry

    kinds = {told["kind"] for told in find_all(args.name, registry())}
    if "backend" not in kinds:
        raise PluginError(f"the conformance kit checks backends; '{args.name}' is a {', '.join(sorted(kinds))}")
    report = _check(args)
    if args.json:
        write_json(report.summary())
    else:
        console().print(str(report), markup=False)
    return 0 if report.ok else 1


def _check(args: Namespace) -> ConformanceReport:
    from ssvm_dsl.testing.conformance import check_backend

    side = aside()
    side.quiet = args.json
    with side.status(f"checking '{args.name}' against brute force") as shown:

        def tell(check: str) -> None:
            shown.update(f"checking '{args.name}' against brute force: {check}")

        return check_backend(args.name, n_problems=args.problems, seed=args.seed, only=args.only, progress=tell)


COMMAND = Command("check", "check a backend against brute force in everything it claims", run, arguments)
