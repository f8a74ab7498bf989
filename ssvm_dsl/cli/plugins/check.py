"""``ssvm plugins check NAME``: the conformance kit, without pytest."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ssvm_dsl.cli.command import Subcommand, add_json, add_options, positive, positive_int
from ssvm_dsl.cli.screen import aside, console, write_json

if TYPE_CHECKING:
    from ssvm_dsl.testing.report import ConformanceReport


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm plugins check``."""
    text = "name of the plug-in (see `ssvm plugins list`), or A through B as in plans"
    parser.add_argument("name", nargs="+", metavar="NAME", help=text)
    text = "random problems, for backends, constraints and bridges (default: 40)"
    parser.add_argument("--problems", type=positive_int, default=40, metavar="N", help=text)
    parser.add_argument("--seed", type=int, default=0, help="another seed, other problems (default: %(default)s)")
    parser.add_argument("--only", action="append", default=[], metavar="CHECK", help="run this check (may be repeated)")
    add_options(parser, "the plug-in")
    parser.add_argument("--quick", action="store_true", help="a shorter kit of backends, for slow solvers")
    text = "time of the whole kit; what is not reached then is a failure (default: no limit)"
    parser.add_argument("--seconds", type=positive, metavar="S", help=text)
    add_json(parser)


def run(args: Namespace) -> int:
    """Run the kit of each kind of plug-in that has that name; exit status 1 when one fails.

    Of a backend with bridges, as plans name it (``junction-tree through spaced-to-pairs``), each is checked.
    """
    from ssvm_dsl.inference.planning.plans import THROUGH, named_in

    whole = " ".join(args.name)
    names = named_in(whole) if THROUGH in whole else whole.split()
    named = [(name, _kits(args, name)) for name in names]  # all are known before one is checked
    reports = [_check(args, kind, name, kit) for name, kits in named for kind, kit in kits.items()]
    if args.json:
        write_json(reports[0].summary() if len(reports) == 1 else [report.summary() for report in reports])
    else:
        for report in reports:
            console().print(report.text(timed=True), markup=False)
    return 0 if all(report.ok for report in reports) else 1


def _kits(args: Namespace, name: str) -> dict[str, Callable[..., ConformanceReport]]:
    """Return the kits that check the plug-ins of a name, by their kinds."""
    from ssvm_dsl import testing
    from ssvm_dsl.cli.plugins.describe import find_all
    from ssvm_dsl.errors import OptionError, PluginError
    from ssvm_dsl.registry import registry

    kits: dict[str, Callable[..., ConformanceReport]] = {
        "backend": partial(testing.check_backend, n_problems=args.problems, quick=args.quick),
        "bridge": partial(testing.check_bridge, n_problems=args.problems),
        "constraint": partial(testing.check_constraint, n_problems=args.problems),
        "executor": testing.check_executor,
        "loss": testing.check_loss,
        "trainer": testing.check_trainer,
    }
    kinds = sorted({facts["kind"] for facts in find_all(name, registry())})
    if not kits.keys() & set(kinds):
        what = "the conformance kits check backends, trainers, losses, kinds of constraints, bridges and executors"
        raise PluginError(f"{what}; '{name}' is a {', '.join(kinds)}")
    options = {"options": dict(args.option)} if args.option else {}
    if options and (kinds_without := sorted(kits.keys() & set(kinds) & {"bridge", "constraint"})):
        raise OptionError(f"--option {args.option[0][0]}=...: '{name}' is a {kinds_without[0]}, which has no options")
    return {kind: partial(kits[kind], **options) for kind in kinds if kind in kits}


def _check(args: Namespace, kind: str, name: str, kit: Callable[..., ConformanceReport]) -> ConformanceReport:
    side = aside()
    side.quiet = args.json
    with side.status(f"checking {kind} '{name}'") as shown:

        def show(check: str) -> None:
            shown.update(f"checking {kind} '{name}': {check}")

        def tell(text: str) -> None:
            side.print(text, markup=False, soft_wrap=True)

        return kit(name, seed=args.seed, only=args.only, progress=show, seconds=args.seconds, notice=tell)


COMMAND = Subcommand("check", "check a plug-in in everything it claims, by the conformance kits", run, arguments)
