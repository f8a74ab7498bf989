"""``ssvm plugins``: list, describe, pair, check and write plug-ins."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.command import Subcommand, add_shared, positive, positive_int
from ssvm_dsl.cli.screen import aside, console, wrapped, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from ssvm_dsl.cli.plugins.templates import PackageTemplate
    from ssvm_dsl.learning.driver.pairings import Pairing
    from ssvm_dsl.registry import PluginProblem
    from ssvm_dsl.testing.kit import ConformanceReport

# -- ``ssvm plugins list``: everything that is installed, and what was left out and why ----------------------------

Column = tuple[str, Callable[[dict[str, Any]], str]]

#: Short words for tasks and graphs, to fit a line.
TASKS = {"map": "map", "map_clamped": "clamped", "kbest": "k-best", "marginals": "marginals", "relaxed": "relaxed"}
GRAPHS = {"chain": "chains", "forest": "forests", "loopy": "all"}

#: What answers must be at least, where a trainer does not work with any.
LEAST = {"exact": ("exact answers",), "bound": ("bounds",), "heuristic": ()}


def run_list(args: Namespace) -> int:
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


LIST = Subcommand(
    "list", "list all plug-ins with their abilities, and the errors of broken ones", run_list,
    lambda parser: add_shared(parser, "--json"),
)  # fmt: skip


# -- ``ssvm plugins show NAME``: everything about a plug-in, its options with defaults included --------------------


def show_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm plugins show``."""
    parser.add_argument("name", metavar="NAME", help="a name from `ssvm plugins list`")
    add_shared(parser, "--json")


def run_show(args: Namespace) -> int:
    """Show all plug-ins of that name (one of each kind can have it)."""
    from ssvm_dsl.cli.plugins.describe import find_all
    from ssvm_dsl.registry import registry

    descriptions = find_all(args.name, registry())
    if args.json:
        write_json(descriptions)
        return 0
    screen = console()
    for facts in descriptions:
        _show_facts(screen, facts)
    return 0


def _show_facts(screen: Console, facts: dict[str, Any]) -> None:
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
        kinds = "every kind of constraints" if facts["every_constraint"] else _value_text(facts["kinds"])
        rows.append(("rewrites", kinds))
    screen.print(two_columns(f"{facts['kind']} {facts['name']}", rows), "")
    if "caps" in facts:
        screen.print(
            two_columns("what it can do", [(name, _value_text(value)) for name, value in facts["caps"].items()]), ""
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

    needs = facts["needs"]
    answers = {"exact": "exact", "bound": "exact, or with bounds", "heuristic": "of any kind that the risk allows"}
    return [
        ("risks", _value_text(needs["risks"])),
        ("powers", "any" if needs["any_power"] else ", ".join(f"{float(power):g}" for power in needs["powers"])),
        ("regularised", "every factor" if needs["strongly_convex"] else "factors may be left unregularised"),
        ("L1 penalty", "may be added (l1=)" if needs["l1"] else "is refused"),
        ("asks for", ", ".join(["what the risk does", *besides(needs)])),
        ("answers", f"{answers[needs['guarantee']]} (ssvm plugins pairs {facts['name']})"),
    ]


def _value_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


SHOW = Subcommand("show", "show everything about a plug-in: capabilities and options", run_show, show_arguments)


# -- ``ssvm plugins pairs``: which trainer minimises which risk, with which oracles, and with which certificates ---

#: Characters that all risks take beside each other, and risks beside each other where there are fewer.
WIDE, FEW = 130, 4

LEGEND = """\
E B H    works with exact answers, bounds, a heuristic, and certifies the gap
e b h    works, and certifies nothing      -    refused
^2 ^q    also squared risks; any power of them

ssvm plugins pairs NAME: reasons, conditions and backends of a trainer or risk"""


def pairs_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm plugins pairs``."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="a trainer or a risk; all by default")
    add_shared(parser, "--json")


def run_pairs(args: Namespace) -> int:
    """Show the table, or all there is to know about one row or column of it."""
    from ssvm_dsl.errors import PluginError
    from ssvm_dsl.learning.driver.pairings import pairings

    every = pairings()
    shown = [one for one in every if args.name in (None, one.trainer, one.risk)]
    if not shown:
        names = (", ".join(dict.fromkeys(getattr(one, kind) for one in every)) for kind in ("trainer", "risk"))
        raise PluginError("'{}' is neither a trainer ({}) nor a risk ({})".format(args.name, *names))
    if args.json:
        write_json([asdict(one) for one in shown])
        return 0
    if args.name is None:
        _show_pairings(shown)
    else:
        _show_pairings_of(args.name, shown)
    return 0


def _show_pairings(pairings: list[Pairing]) -> None:
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


def _show_pairings_of(name: str, pairings: list[Pairing]) -> None:
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
        same.setdefault(_pairing_text(one), []).append(one.oracle)
    return [("all answers" if len(names) == len(row) else ", ".join(names), text) for text, names in same.items()]


def _pairing_text(one: Pairing) -> str:
    """Return the certificate and all other properties."""
    if not one.works:
        return f"refused: {one.reason}"
    certificate = f"certifies nothing: {one.reason}" if one.certificate == "none" else f"certifies {one.certificate}"
    powers = "any power" if one.powers is None else "powers " + ", ".join(f"{power:g}" for power in one.powers)
    known = [certificate, powers, *one.conditions, f"backends {', '.join(one.backends)}"]
    return "; ".join(known)


PAIRS = Subcommand("pairs", "show which trainer minimises which risk with which oracles", run_pairs, pairs_arguments)


# -- ``ssvm plugins check NAME``: the conformance kit, without pytest ----------------------------------------------


def check_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm plugins check``."""
    text = "name of the plug-in (see `ssvm plugins list`), or A through B as in plans"
    parser.add_argument("name", nargs="+", metavar="NAME", help=text)
    text = "random problems, for backends, constraints and bridges (default: 40)"
    parser.add_argument("--problems", type=positive_int, default=40, metavar="N", help=text)
    parser.add_argument("--seed", type=int, default=0, help="another seed, other problems (default: %(default)s)")
    parser.add_argument("--only", action="append", default=[], metavar="CHECK", help="run this check (may be repeated)")
    add_shared(parser, "--option")
    parser.add_argument("--quick", action="store_true", help="a shorter kit of backends, for slow solvers")
    text = "time of the whole kit; what is not reached then is a failure (default: no limit)"
    parser.add_argument("--seconds", type=positive, metavar="S", help=text)
    add_shared(parser, "--json")


def run_check(args: Namespace) -> int:
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


CHECK = Subcommand(
    "check", "check a plug-in in everything it claims, by the conformance kits", run_check, check_arguments
)


#: Kinds of plug-ins that are written, in words.
WRITABLE = {
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
    for kind, text in WRITABLE.items():
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


COMMAND = Subcommand(
    "plugins",
    "list, describe, check and start plug-ins",
    parts=(LIST, SHOW, PAIRS, CHECK, NEW),
)
