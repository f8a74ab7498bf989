"""``ssvm reproduce [NAME ...]``: the experiments of the papers, published numbers next to ours."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from ssvm_dsl.datasets import ORIGINS
from ssvm_dsl.errors import OptionError
from ssvm_dsl.plugin_api import Screen
from ssvm_papers.experiments.catalogue import chosen
from ssvm_papers.results.experiment import Experiment
from ssvm_papers.results.page import HEAD, authors, cells, fill_quotes, heading, notes, write_page
from ssvm_papers.results.running import (
    Result,
    Size,
    as_json,
    missing_data,
    read_record,
    record_path,
    result_path,
    run_experiment,
    save_result,
    saved_result,
    size_of,
    sized,
    under_its_rules,
    write_record,
)

#: Where results are kept by default.
FOLDER = "reproduced"

#: Sizes of runs, from the smallest.
_ORDER = list(Size)


class Reproduce:
    """The command."""

    def arguments(self, parser: ArgumentParser) -> None:
        """Add the arguments of ``ssvm reproduce``."""
        parser.add_argument(
            "names", metavar="NAME", nargs="*",
            help="experiments or families to run (default: all); 'list' lists them",
        )  # fmt: skip
        size = parser.add_mutually_exclusive_group()
        size.add_argument("--quick", action="store_true", help="smaller data, fewer folds and passes; judges nothing")
        size.add_argument(
            "--full", action="store_true", help="all draws, seeds and data, where the default says that it takes fewer"
        )
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--again", action="store_true", help="run what was run before, too")
        which.add_argument(
            "--kept", action="store_true",
            help="run nothing: take kept results, the largest run of each; else those of --page",
        )  # fmt: skip
        parser.add_argument(
            "--results", metavar="DIR", default=FOLDER, help="where results are kept (default: %(default)s)"
        )
        parser.add_argument("--plot", metavar="DIR", help="draw the figures into this folder (needs matplotlib)")
        parser.add_argument(
            "--page", metavar="FILE",
            help="write the results as a Markdown page, a page for each in the folder of its name, and as JSON next to "
            "it; experiments that are not named here stay as they are there",
        )  # fmt: skip
        parser.add_argument(
            "--quotes", metavar="DIR",
            help="update the numbers that pages of this folder quote from the page of --page",
        )  # fmt: skip
        parser.add_argument("--json", action="store_true", help="print JSON and nothing else")

    def run(self, args: Namespace, screen: Screen) -> int:
        """Run experiments; the exit status is 1 when one has no result, e.g. because its data are missing."""
        names = args.names[1:] if args.names[:1] in (["run"], ["list"]) else args.names
        experiments = chosen(names)
        if args.names[:1] == ["list"]:
            _list(experiments, args.json, screen)
            return 0
        if args.plot:
            new_figure(1.0, 1.0)  # fails now if matplotlib is missing
        _require_folders(args)
        results, lacking = _results(experiments, args, screen)
        if args.json:
            screen.json({"results": [as_json(one) for one in results], "missing_data": lacking})
        if args.page:
            _write_page(Path(args.page), results, lacking, args.quotes, screen)
        return 1 if lacking else 0


def _results(
    experiments: list[Experiment], args: Namespace, screen: Screen
) -> tuple[list[Result], dict[str, list[str]]]:
    """Return the results of experiments; and those without one, with the files that they lack."""
    folder, results, lacking = Path(args.results), list[Result](), dict[str, list[str]]()
    recorded = _recorded(args.page) if args.kept else {}
    for one in experiments:
        missing = [] if args.kept else missing_data(one)
        if missing:
            lacking[one.name] = missing
            screen.note(f"{one.name}: {_lack(missing)}", "yellow")
            continue
        result = _result(one, folder, args, screen) or recorded.get(one.name)
        if result is None:
            lacking[one.name] = []
            screen.note(f"{one.name}: no result is kept in {folder}", "yellow")
            continue
        results.append(result)
        if args.plot:
            _plot(one, result, Path(args.plot), screen)
        if not args.json:
            _show(one, result, screen)
    return results, lacking


def _recorded(page: str | None) -> dict[str, Result]:
    """Return the results that a page shows, by experiment."""

    return read_record(record_path(Path(page)), chosen([])) if page else {}


def _write_page(
    page: Path, results: list[Result], lacking: dict[str, list[str]], quotes: str | None, screen: Screen
) -> None:
    """Write a page and its record; what they held of other experiments stays, and runs are not lost to smaller ones.

    Quotes are filled in from it.
    """

    kept = _recorded(str(page))
    for result in results:
        if result.name not in kept or _ORDER.index(result.size) >= _ORDER.index(kept[result.name].size):
            kept[result.name] = result
    shown = [kept[one.name] for one in chosen([]) if one.name in kept]
    write_record(record_path(page), shown)
    write_page(page, shown, {name: files for name, files in lacking.items() if name not in kept})
    for path in fill_quotes(Path(quotes), kept, page.name) if quotes else ():
        screen.note(f"{path}: numbers of the results updated")


def _require_folders(args: Namespace) -> None:
    """Make the output folders, and try to write to them, so that errors come before hours of work.

    Raises
    ------
    OSError
    OptionError
        The page would be its own record or the folder of its parts, or there is none to quote from.
    """

    if args.page and Path(args.page).suffix == ".json":
        raise OptionError(f"--page {args.page}: a Markdown page; its numbers go to a file .json next to it")
    if args.page and not Path(args.page).suffix:
        raise OptionError(f"--page {args.page}: a file such as {args.page}.md; the folder {args.page} holds its parts")
    if args.quotes and not args.page:
        raise OptionError("--quotes needs --page: the page that is quoted")
    parts = None if args.page is None else Path(args.page).absolute().with_suffix("")
    for folder in (None if args.kept else args.results, args.plot, parts and parts.parent, parts):
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=folder):
                pass


def _lack(missing: list[str]) -> str:
    """Return the missing files of an experiment, and their sources."""
    where = "" if os.environ.get("SSVM_DATA") else ", which is not set"
    folders = sorted({name.split("/")[0] for name in missing})
    origins = "; ".join(f"{name}/ holds {ORIGINS[name]}" for name in folders if name in ORIGINS)
    return f"needs {', '.join(missing)} in the folder SSVM_DATA{where}{f' ({origins})' if origins else ''}"


def _list(experiments: list[Experiment], in_json: bool, screen: Screen) -> None:
    """List experiments with the files that they need."""

    if in_json:
        screen.json([
            {"name": one.name, "family": one.family, "paper": one.paper, "where": one.where, "summary": one.summary,
             "smaller": one.smaller, "data": list(one.data), "missing_data": missing_data(one),
             "substitutes": list(one.substitutes)}
            for one in experiments
        ])  # fmt: skip
        return
    rows = []
    for one in experiments:
        missing = missing_data(one)
        state = f"missing: {', '.join(missing)}" if missing else ", ".join(one.data) or "embedded or generated"
        rows.append([one.name, f"{authors(one)}; {one.where}", one.summary, state])
    screen.table("", ("name", "reproduces", "what", "data"), rows, unbroken=("name",))  # to be typed


def _result(experiment: Experiment, folder: Path, args: Namespace, screen: Screen) -> Result | None:
    """Return the kept result, or that of a run now; ``None`` where none is kept and runs are not asked for."""

    if args.kept:
        results = (saved_result(folder, experiment.name, size) for size in reversed(_ORDER))
        kept = next((one for one in results if one is not None), None)
        return None if kept is None else under_its_rules(experiment, kept)
    size = size_of(experiment, args.quick, args.full)
    kept = None if args.again else saved_result(folder, experiment.name, size)
    if kept is not None and under_its_rules(experiment, kept).findings.rows == kept.findings.rows:
        path = result_path(folder, experiment.name, size)
        text = f"{experiment.name}: run on {kept.circumstances.date}, kept in {path}; --again runs it again"
        screen.note(text)
        return kept
    try:
        with screen.progress(experiment.name) as progress:
            result = run_experiment(experiment, size, progress)
    except KeyboardInterrupt as err:
        err.add_note(f"{experiment.name} starts again next time; results of finished experiments are kept in {folder}")
        raise
    save_result(folder, result)
    return result


def _show(experiment: Experiment, result: Result, screen: Screen) -> None:
    """Print the rows and tables of a result."""

    screen.text(heading(experiment, result), "bold")
    for substitute in experiment.substitutes:
        screen.text(f"  substitute: {substitute}")
    screen.table("", HEAD, map(cells, result.findings.rows))
    for table in result.findings.tables:
        screen.text("")
        screen.table(table.title, table.columns, table.rows)
    for note in notes(experiment, result):
        screen.text(note)
    screen.text("")


def _plot(experiment: Experiment, result: Result, folder: Path, screen: Screen) -> None:
    """Save the figure of a result, if it has one."""

    if experiment.draw is None:
        return
    figure = new_figure(*experiment.size)
    figure.set_layout_engine("constrained")
    experiment.draw(result.findings.arrays, figure)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{sized(experiment.name, result.size)}.png"
    figure.savefig(path, dpi=120)
    screen.note(f"{experiment.name}: figure in {path}")


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of a size in inches, which no window shows."""
    try:
        from matplotlib.figure import Figure
    except ImportError as err:
        raise OptionError("figures need matplotlib: pip install ssvm-dsl[plots]") from err
    return Figure(figsize=(width, height))
