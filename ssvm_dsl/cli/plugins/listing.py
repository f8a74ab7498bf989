"""``ssvm plugins list``: everything that is installed, and what was left out and why."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.command import Subcommand, add_json
from ssvm_dsl.cli.screen import console, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from ssvm_dsl.registry import PluginProblem

Column = tuple[str, Callable[[dict[str, Any]], str]]

#: Short words for tasks and graphs, to fit a line.
TASKS = {"map": "map", "map_clamped": "clamped", "kbest": "k-best", "marginals": "marginals", "relaxed": "relaxed"}
GRAPHS = {"chain": "chains", "forest": "forests", "loopy": "all"}

#: What answers must be at least, where a trainer does not work with any.
LEAST = {"exact": ("exact answers",), "bound": ("bounds",), "heuristic": ()}


def run(args: Namespace) -> int:
    """List plug-ins and problems."""
    from ssvm_dsl.cli.plugins.describe import all_specs, describe
    from ssvm_dsl.registry import registry

    known = registry()
    facts = [describe(spec, known) for spec in all_specs(known)]
    if args.json:
        problems = [{"plugin": problem.plugin, "text": problem.text} for problem in known.problems]
        write_json({"plugins": facts, "problems": problems})
        return 0
    screen = console()
    _show_tables(screen, facts)
    _show_problems(screen, known.problems)
    screen.print("[dim]ssvm plugins show NAME: everything about one of them[/dim]")
    screen.print("[dim]ssvm plugins pairs: which trainers support which risks and backends[/dim]")
    return 0


def _show_tables(screen: Console, facts: list[dict[str, Any]]) -> None:
    """Show one table for each kind that has entries."""
    from ssvm_dsl.report.tables import plain_table

    columns = _columns()
    for kind in dict.fromkeys(one["kind"] for one in facts):
        mine = [one for one in facts if one["kind"] == kind]
        wanted = columns.get(kind, columns["other"])
        rows = [[cell(one) for _, cell in wanted] for one in mine]
        screen.print(plain_table(f"{kind}s", [name for name, _ in wanted], rows), "")
    outsiders = [one["name"] for one in facts if not one.get("auto", True)]
    if outsiders:
        text = f"backend='auto' takes none of: {', '.join(outsiders)}; name them, or allow them with SSVM_PLUGINS=..."
        screen.print(text, "", style="dim", sep="\n")


def _columns() -> dict[str, list[Column]]:
    """Return the columns for each kind of plug-in."""
    from ssvm_dsl.cli.plugins.describe import origin, status

    name: Column = ("name", lambda one: str(one["name"]))
    ends: list[Column] = [("from", origin), ("status", status)]
    return {
        "backend": [
            name,
            ("answers", lambda one: str(one["caps"]["guarantee"])),
            ("graphs", lambda one: GRAPHS[one["caps"]["topology"]]),
            ("gives", _gives),
            *ends,
        ],
        "trainer": [
            name,
            ("needs", lambda one: ", ".join(besides(one["needs"]))),
            ("streams", lambda one: "yes" if one["incremental"] else "no"),
            ("risks", lambda one: ", ".join(one["needs"]["risks"])),
            *ends,
        ],
        "other": [name, ("what", lambda one: str(one["summary"])), *ends],
    }


def _gives(facts: dict[str, Any]) -> str:
    """Return the abilities of a backend in a few words: tasks, messages of its bounds, best labellings by counts."""
    caps = facts["caps"]
    words = [word for task, word in TASKS.items() if task in caps["tasks"]]
    return ", ".join([*words, *(one for one in ("messages", "counts") if one in caps["abilities"])])


def besides(needs: dict[str, Any]) -> list[str]:
    """Return the requirements of a trainer on the backend in addition to the risk's, in short words."""
    words = [TASKS[task] for task in needs["tasks"] if task != "map"]
    words += ["messages"] if needs["messages"] else []
    return [*words, *(["small treewidth"] if needs["factored"] else []), *LEAST[needs["guarantee"]]]


def _show_problems(screen: Console, problems: list[PluginProblem]) -> None:
    """Show the plug-ins that were left out because they are broken."""
    from rich.text import Text

    if problems:
        screen.print("left out, because something is wrong with them", style="bold red")
    for problem in problems:
        screen.print(Text("  ").append(problem.plugin, style="red").append(f": {problem.text}"))
    if problems:
        screen.print()


COMMAND = Subcommand("list", "list all plug-ins with their abilities, and the errors of broken ones", run, add_json)
