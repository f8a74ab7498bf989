"""Results as text: the cells of their tables, and the Markdown page of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ssvm_dsl.io.atomic import write_lines
from ssvm_dsl.reproduce.catalogue import chosen
from ssvm_dsl.reproduce.experiment import Experiment, Row
from ssvm_dsl.reproduce.running import Result
from ssvm_dsl.units import seconds_text

#: Columns of a table of rows.
HEAD = ("what", "published", "ours", "tolerance", "verdict")


def authors(experiment: Experiment) -> str:
    """Return who wrote the paper, which stands before the colon."""
    return experiment.paper.partition(":")[0]


def heading(experiment: Experiment, result: Result) -> str:
    """Return the title of a result."""
    quick = ", quick: smaller data, fewer folds and passes" if result.quick else ""
    return f"{experiment.name}: {experiment.paper}, {experiment.where}{quick}"


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a row."""
    return row.what, row.published, row.ours, row.tolerance or "-", str(row.verdict)


def closing(result: Result) -> str:
    """Return when a result was found and what it took."""
    known = result.circumstances
    spent = f"{seconds_text(known.seconds)}, {seconds_text(known.processor_seconds)} of processors"
    return f"Run on {known.date} in {spent} ({known.machine})."


def write_page(path: Path, results: Sequence[Result], lacking: Mapping[str, Sequence[str]]) -> None:
    """Write a Markdown page.

    Parameters
    ----------
    path : Path
    results : sequence of Result
    lacking : mapping of str to sequence of str
        Experiments that were not run, and the files that they need and that are not there.
    """
    by_name = {one.name: one for one in chosen([])}
    lines = [
        "# Results", "",
        "Written by `ssvm reproduce --page FILE`; do not edit. `ssvm reproduce NAME --again` runs an experiment again.",
        "*agrees* and *misses* say whether the published statement was found again within the tolerance; *ours* has no",
        "published number to be compared with, or one of another machine or of data that cannot be had.", "",
    ]  # fmt: skip
    lines += _overview(results, by_name)
    for result in results:
        lines += _section(by_name[result.name], result)
    for name, files in lacking.items():
        why = f": it needs {', '.join(f'`{file}`' for file in files)}" if files else ""
        lines += [f"## {name}", "", f"Not run{why}.", ""]
    lines += _versions(results)
    write_lines(path, lines)


def _overview(results: Sequence[Result], by_name: Mapping[str, Experiment]) -> list[str]:
    """Return the table of all results."""
    rows = []
    for result in results:
        verdicts = [str(row.verdict) for row in result.findings.rows]
        run = f"{result.circumstances.date}{', quick' if result.quick else ''}"
        where = f"{authors(by_name[result.name])}; {by_name[result.name].where}"
        rows.append((f"[{result.name}](#{result.name})", where, *(str(verdicts.count(one)) for one in
                    ("agrees", "misses", "ours")), run, seconds_text(result.circumstances.seconds)))  # fmt: skip
    return [*_table(("experiment", "reproduces", "agrees", "misses", "ours", "run on", "took"), rows), ""]


def _section(experiment: Experiment, result: Result) -> list[str]:
    """Return the section of a result."""
    quick = " *Quick run: smaller data, fewer folds and passes; its verdicts say little.*" if result.quick else ""
    lines = [f"## {experiment.name}", "", f"{experiment.paper}, {experiment.where}: {experiment.summary}.{quick}", ""]
    for substitute in experiment.substitutes:
        lines += [f"*Substitute*: {substitute}.", ""]
    lines += [*_table(HEAD, map(cells, result.findings.rows)), ""]
    for table in result.findings.tables:
        lines += [f"{table.title}:", "", *_table(table.columns, table.rows), ""]
    for note in (*result.findings.notes, closing(result)):
        lines += [note, ""]
    return lines


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a table."""
    head = list(columns)
    body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *body)]


def _versions(results: Sequence[Result]) -> list[str]:
    """Return the machines and versions that results were found with, each once."""
    found = dict.fromkeys(
        f"{one.circumstances.machine}: {', '.join(f'{k} {v}' for k, v in one.circumstances.versions.items())}"
        for one in results
    )
    return ["## Machines and versions", "", *(f"* {text}" for text in found)] if found else []
