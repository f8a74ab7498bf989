"""``ssvm plugins show NAME``: everything about a plug-in, its options with defaults included."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.command import Subcommand, add_json
from ssvm_dsl.cli.screen import console, write_json

if TYPE_CHECKING:
    from rich.console import Console


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm plugins show``."""
    parser.add_argument("name", metavar="NAME", help="a name from `ssvm plugins list`")
    add_json(parser)


def run(args: Namespace) -> int:
    """Show all plug-ins of that name (one of each kind can have it)."""
    from ssvm_dsl.cli.plugins.describe import find_all
    from ssvm_dsl.registry import registry

    descriptions = find_all(args.name, registry())
    if args.json:
        write_json(descriptions)
        return 0
    screen = console()
    for facts in descriptions:
        _show(screen, facts)
    return 0


def _show(screen: Console, facts: dict[str, Any]) -> None:
    from ssvm_dsl.cli.plugins.describe import origin, status
    from ssvm_dsl.report.tables import plain_table, two_columns

    rows = [("what", facts["summary"]), ("from", f"{origin(facts)} (plug-in '{facts['plugin']}')")]
    rows += [("status", status(facts)), ("factory", facts["factory"]), ("contract", f"version {facts['api_version']}")]
    if "auto" in facts:
        rows.append(("auto", _of_auto(facts)))
    if "incremental" in facts:
        rows.append(("streams", "partial_fit works" if facts["incremental"] else "no partial_fit"))
        rows.append(("checkpoints", "fits resume from them" if facts["resumable"] else "none"))
        rows.append(("certificate", "lower bounds of the optimum" if facts["certifies"] else "no lower bound"))
    if facts["kind"] == "bridge":
        rows.append(("rewrites", "every kind of constraints" if facts["every_constraint"] else _words(facts["kinds"])))
    screen.print(two_columns(f"{facts['kind']} {facts['name']}", rows), "")
    if "caps" in facts:
        screen.print(
            two_columns("what it can do", [(name, _words(value)) for name, value in facts["caps"].items()]), ""
        )
    if "needs" in facts:
        screen.print(two_columns("what it is for", _needs(facts)), "")
    options = facts.get("options", [])
    if options:
        table = [[one["name"], repr(one["default"]), one["takes"], one["doc"]] for one in options]
        screen.print(plain_table("options", ["name", "default", "takes", "what it does"], table), "")
    elif "options" in facts:
        screen.print("no options\n")


def _of_auto(facts: dict[str, Any]) -> str:
    """Return whether, and for trainers why, ``auto`` takes it."""
    if facts["auto"]:
        reasons = dict.fromkeys(f"{rule['rank']}. {rule['reason']}" for rule in facts.get("rules", ()))
        return "may choose it" + (f" (by rank: {'; '.join(reasons)})" if reasons else "")
    unnamed = "" if facts["bundled"] else ", or set SSVM_PLUGINS"
    return f"does not choose it: name it{unnamed}"


def _needs(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (name, text) of what a trainer minimises, and what it takes for that."""
    from ssvm_dsl.cli.plugins.listing import besides

    needs = facts["needs"]
    answers = {"exact": "exact", "bound": "exact, or with bounds", "heuristic": "of any kind that the risk allows"}
    return [
        ("risks", _words(needs["risks"])),
        ("powers", "any" if needs["any_power"] else ", ".join(f"{float(power):g}" for power in needs["powers"])),
        ("regularised", "every factor" if needs["strongly_convex"] else "factors may be left unregularised"),
        ("L1 penalty", "may be added (l1=)" if needs["l1"] else "is refused"),
        ("asks for", ", ".join(["what the risk does", *besides(needs)])),
        ("answers", f"{answers[needs['guarantee']]} (ssvm plugins pairs {facts['name']})"),
    ]


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


COMMAND = Subcommand("show", "show everything about a plug-in: capabilities and options", run, arguments)
