"""``ssvm plugins pairs``: which trainer minimises which risk, with which oracles, and with which certificates."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from ssvm_dsl.cli.command import Subcommand, add_json
from ssvm_dsl.cli.screen import console, wrapped, write_json

if TYPE_CHECKING:
    from ssvm_dsl.learning.driver.pairings import Pairing

#: Characters that all risks take beside each other, and risks beside each other where there are fewer.
WIDE, FEW = 130, 4

LEGEND = """\
E B H    works with exact answers, bounds, a heuristic, and certifies the gap
e b h    works, and certifies nothing      -    refused
^2 ^q    also squared risks; any power of them

ssvm plugins pairs NAME: reasons, conditions and backends of a trainer or risk"""


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm plugins pairs``."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="a trainer or a risk; all by default")
    add_json(parser)


def run(args: Namespace) -> int:
    """Show the table, or all there is to know about one row or column of it."""
    from ssvm_dsl.errors import PluginError
    from ssvm_dsl.learning.driver.pairings import pairings

    every = pairings()
    found = [one for one in every if args.name in (None, one.trainer, one.risk)]
    if not found:
        names = (", ".join(dict.fromkeys(getattr(one, kind) for one in every)) for kind in ("trainer", "risk"))
        raise PluginError("'{}' is neither a trainer ({}) nor a risk ({})".format(args.name, *names))
    if args.json:
        write_json([asdict(one) for one in found])
        return 0
    if args.name is None:
        _show_table(found)
    else:
        _show_details(args.name, found)
    return 0


def _show_table(pairings: list[Pairing]) -> None:
    from ssvm_dsl.report.tables import plain_table

    risks = list(dict.fromkeys(one.risk for one in pairings))
    rows: dict[str, dict[str, list[Pairing]]] = {}
    for one in pairings:
        rows.setdefault(one.trainer, {}).setdefault(one.risk, []).append(one)
    screen = console()
    per = len(risks) if screen.width >= WIDE else FEW
    for lo in range(0, len(risks), per):
        shown = risks[lo : lo + per]
        cells = [[trainer, *(_cell(row[risk]) for risk in shown)] for trainer, row in rows.items()]
        screen.print(plain_table("", ["trainer", *shown], cells), "")
    screen.print(LEGEND)


def _cell(pairings: list[Pairing]) -> str:
    """Return the letters of the three guarantees and the powers."""
    letters = [one.oracle[0] if one.certificate == "none" else one.oracle[0].upper() for one in pairings if one.works]
    powers = next((one.powers for one in pairings if one.works), ())
    if powers is None:
        letters.append("^q")
    elif 2.0 in powers:
        letters.append("^2")
    return "".join(letters) or "-"


def _show_details(name: str, pairings: list[Pairing]) -> None:
    """Show a trainer with all risks, or a risk with all trainers; pairs with equal properties are shown together."""
    screen = console()
    for kind, other in (("trainer", "risk"), ("risk", "trainer")):
        cells: dict[str, list[Pairing]] = {}
        for one in pairings:
            if getattr(one, kind) == name:
                cells.setdefault(getattr(one, other), []).append(one)
        alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
        for partner, row in cells.items():
            alike.setdefault(tuple(_answers(row)), []).append(partner)
        for answers, partners in alike.items():
            lines = [wrapped(f"{kind} {name}, {other} {', '.join(partners)}", screen.width)]
            lines += [wrapped(f"  {oracles}: {text}", screen.width) for oracles, text in answers]
            screen.print(*lines, "", sep="\n", markup=False, soft_wrap=True)


def _answers(row: list[Pairing]) -> list[tuple[str, str]]:
    """Return (guarantees of the answers, properties) of a trainer and a risk, each text once."""
    same: dict[str, list[str]] = {}
    for one in row:
        same.setdefault(_words(one), []).append(one.oracle)
    return [("all answers" if len(names) == len(row) else ", ".join(names), text) for text, names in same.items()]


def _words(one: Pairing) -> str:
    """Return the certificate and all other properties."""
    if not one.works:
        return f"refused: {one.reason}"
    certificate = f"certifies nothing: {one.reason}" if one.certificate == "none" else f"certifies {one.certificate}"
    powers = "any power" if one.powers is None else "powers " + ", ".join(f"{power:g}" for power in one.powers)
    known = [certificate, powers, *one.conditions, f"backends {', '.join(one.backends)}"]
    return "; ".join(known)


COMMAND = Subcommand("pairs", "show which trainer minimises which risk with which oracles", run, arguments)
