"""``ssvm plugins show NAME``: everything about a plug-in, its options with defaults included."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.command import Command, add_json
from ssvm_dsl.cli.screen import console, write_json

if TYPE_CHECKING:
    from rich.console import Console


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm plugins show``."""
    parser.add_argument("name", metavar="NAME", help="a name from `ssvm plugins list`")
    add_json(parser)


def run(args: Namespace) -> int:
    """Show all plug-ins of that name (one of each kind can have it)."""
    from ssvm_dsl.cli.describe import find_all
    from ssvm_dsl.registry import registry

    found = find_all(args.name, registry())
    if args.json:
        write_json(found)
        return 0
    screen = console()
    for told in found:
        _show(screen, told)
    return 0


def _show(screen: Console, told: dict[str, Any]) -> None:
    from ssvm_dsl.cli.describe import origin, status
    from ssvm_dsl.report.tables import plain_table, two_columns

    rows = [("what", told["summary"]), ("from", f"{origin(told)} (plug-in '{told['plugin']}')")]
    rows += [("status", status(told)), ("factory", told["factory"]), ("contract", f"version {told['api_version']}")]
    if "auto" in told:
        rows.append(("auto", "may choose it" if told["auto"] else "does not choose it: name it, or set SSVM_PLUGINS"))
    if "incremental" in told:
        rows.append(("streams", "partial_fit works" if told["incremental"] else "no partial_fit"))
        rows.append(("checkpoints", "fits go on from them" if told["resumable"] else "none"))
        rows.append(("certificate", "lower bounds of the optimum" if told["certifies"] else "no lower bound"))
    screen.print(two_columns(f"{told['kind']} {told['name']}", rows), "")
    if "caps" in told:
        screen.print(two_columns("what it can do", [(name, _words(value)) for name, value in told["caps"].items()]), "")
    if "needs" in told:
        screen.print(two_columns("what it is for", _needs(told)), "")
    options = told.get("options", [])
    if options:
        table = [[one["name"], repr(one["default"]), _choices(one), one["doc"]] for one in options]
        screen.print(plain_table("options", ["name", "default", "choices", "what it does"], table), "")
    elif "options" in told:
        screen.print("no options\n")


def _needs(told: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (name, text) of what a trainer minimises, and what it takes for that."""
    from ssvm_dsl.cli.plugins_list import besides

    needs = told["needs"]
    answers = {"exact": "exact", "bound": "exact, or with bounds", "heuristic": "of any kind that the risk allows"}
    return [
        ("risks", _words(needs["risks"])),
        ("powers", "any" if needs["any_power"] else ", ".join(f"{float(power):g}" for power in needs["powers"])),
        ("regularised", "every factor" if needs["strongly_convex"] else "factors may be left unregularised"),
        ("asks for", ", ".join(["what the risk does", *besides(needs)])),
        ("answers", f"{answers[needs['guarantee']]} (ssvm plugins pairs {told['name']})"),
    ]


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _choices(option: dict[str, Any]) -> str:
    ranges = [("at least", option["least"]), ("above", option["above"])]
    listed = [f"{words} {bound:g}" for words, bound in ranges if bound is not None]
    return ", ".join([*map(repr, option["choices"]), *listed])


COMMAND = Command("show", "show everything about a plug-in: capabilities and options", run, arguments)
