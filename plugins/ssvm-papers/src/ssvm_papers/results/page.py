"""Results as text: the cells of their tables, and Markdown pages: one of all of them, and one for each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.io import write_lines
from ssvm_dsl.plugin_api import seconds_text
from ssvm_papers.experiments.catalogue import chosen
from ssvm_papers.results.experiment import Experiment
from ssvm_papers.results.running import Result, Size
from ssvm_papers.results.statements import Judgement, Row

#: Columns of a table of rows.
HEAD = ("what", "published", "ours", "agrees if", "verdict")


def authors(experiment: Experiment) -> str:
    """Return who wrote the paper, which stands before the colon."""
    return experiment.paper.partition(":")[0]


def heading(experiment: Experiment, result: Result) -> str:
    """Return the title of a result."""
    smaller = smaller_text(experiment, result)
    return f"{experiment.name}: {experiment.paper}, {experiment.where}{f' ({smaller})' if smaller else ''}"


def smaller_text(experiment: Experiment, result: Result) -> str:
    """Return in which way a run is not the largest one; empty for that."""
    if result.size is Size.QUICK:
        return "quick run: smaller data, fewer folds and passes; nothing is judged"
    if result.size is Size.USUAL and experiment.run_full is not None:
        return f"smaller run: {experiment.smaller}; --full takes all"
    return ""


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a row."""
    return row.what, row.published, row.ours, row.tolerance or "-", str(row.verdict)


def reasons(result: Result) -> list[str]:
    """Return why statements are not compared, and what else keeps verdicts away."""
    rows = result.findings.rows
    texts = [f"*{row.what}* is not compared: {row.why}." for row in rows if row.why]
    if any(row.verdict is Judgement.EARLIER for row in rows):
        texts.append(
            "The rules of this experiment have changed since the stored run: statements whose rule is another one now "
            "have no verdict until it is run again."
        )
    return texts


def notes(experiment: Experiment, result: Result) -> list[str]:
    """Return all that stands below the tables: reasons, what is missing, notes, when it was found."""
    missing = [] if result.size is Size.QUICK else experiment.unanswered(result.findings)
    left_out = [f"Not in the stored run: {'; '.join(one.what for one in missing)}."] if missing else []
    judged = () if result.size is Size.QUICK else experiment.notes
    return [*reasons(result), *left_out, *judged, *result.findings.notes, closing(result)]


def closing(result: Result) -> str:
    """Return when a result was found, by which code, and what it took."""
    known = result.circumstances
    spent = f"{seconds_text(known.seconds)}, {seconds_text(known.processor_seconds)} of processors"
    commit = f" at commit {known.commit}" if known.commit else ""
    return f"Run on {known.date}{commit} in {spent} ({known.machine})."


def section_path(page: Path, name: str) -> Path:
    """Return where the page of one experiment is: in a folder called as the page of all."""
    return page.with_suffix("") / f"{name}.md"


def write_page(path: Path, results: Sequence[Result], lacking: Mapping[str, Sequence[str]]) -> None:
    """Write a Markdown page with the verdicts of all results, and a page for each of them (:func:`section_path`).

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
        "The results file next to this page holds the same numbers as data. Other pages quote them from there.", "",
        "What counts as agreement is declared with each experiment before it runs. There is a lower and an upper limit",
        "wherever the paper has a number. No rule looks at seconds, so verdicts do not depend on the machine.", "",
        "* *agrees* and *misses*: whether the published statement was found again.",
        "* *not comparable*: there is a published number, but ours cannot be set against it. The reason is below.",
        "* *too short to judge*: the run ended before a verdict was possible.",
        "* *older rule*: the stored run is older than the rule declared now.",
        "* *ours*: there is no published number.", "",
    ]  # fmt: skip
    lines += _overview(path, results, by_name)
    path.with_suffix("").mkdir(parents=True, exist_ok=True)
    for result in results:
        write_lines(section_path(path, result.name), _section(path, by_name[result.name], result))
    for name, files in lacking.items():
        why = f": it needs {', '.join(f'`{file}`' for file in files)}" if files else ""
        lines += [f"## {name}", "", f"Not run{why}.", ""]
    lines += _versions(results)
    write_lines(path, lines)


def _is_smaller(result: Result, by_name: Mapping[str, Experiment]) -> bool:
    return bool(smaller_text(by_name[result.name], result))


def _overview(path: Path, results: Sequence[Result], by_name: Mapping[str, Experiment]) -> list[str]:
    """Return the table of all results."""
    rows = []
    for result in results:
        verdicts = [row.verdict for row in result.findings.rows]
        known = result.circumstances
        smaller = {Size.QUICK: ", quick", Size.USUAL: ", smaller"}[result.size] if _is_smaller(result, by_name) else ""
        run = f"{known.date}{f', {known.commit}' if known.commit else ''}{smaller}"
        where = f"{authors(by_name[result.name])}; {by_name[result.name].where}"
        counts = (str(verdicts.count(one)) for one in Judgement)
        page = section_path(path, result.name).relative_to(path.parent).as_posix()
        rows.append((f"[{result.name}]({page})", where, *counts, run, seconds_text(known.processor_seconds)))
    return [*_table(("experiment", "reproduces", *map(str, Judgement), "run on", "processors"), rows), ""]


def _section(path: Path, experiment: Experiment, result: Result) -> list[str]:
    """Return the page of a result; ``path`` is the page of all."""
    smaller = smaller_text(experiment, result)
    about = f"[All results](../{path.name}) says what verdicts mean. `ssvm reproduce` wrote this page; do not edit."
    lines = [f"# {experiment.name}", "", about, ""]
    lines += [f"{experiment.paper}, {experiment.where}: {experiment.summary}.", ""]
    lines += [f"*{smaller[0].upper()}{smaller[1:]}.*", ""] if smaller else []
    for substitute in experiment.substitutes:
        lines += [f"*Substitute*: {substitute}.", ""]
    lines += [*_table(HEAD, map(cells, result.findings.rows)), ""]
    for table in result.findings.tables:
        lines += [f"{table.title}:", "", *_table(table.columns, table.rows), ""]
    for note in notes(experiment, result):
        lines += [note, ""]
    return lines[:-1]


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a table."""
    head = list(columns)
    body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *body)]


def _versions(results: Sequence[Result]) -> list[str]:
    """Return the machines and versions that results were found with, each once."""
    versions = dict.fromkeys(
        f"{one.circumstances.machine}: {', '.join(f'{k} {v}' for k, v in one.circumstances.versions.items())}"
        for one in results
    )
    return ["## Machines and versions", "", *(f"* {text}" for text in versions)] if versions else []


# -- Numbers of results on other pages: quoted by a link, to be checked and rewritten --------------------------------
#
# A quote is a Markdown link to the page of an experiment.  Its text is the number, and its title names it:
#
#     took [12.3](../results/hmm.md "seconds") s           the first number of the statement ``seconds`` of ``hmm``
#     (sd [0.34](results/value-functions.md "mmsr 1"))     the second number of ``mmsr``: the standard deviation
#
# The quote has as many decimals as it is written with.  A minus sign in the text is kept, any other sign is lost.

QUOTE = re.compile(
    r"\[(?P<text>-?\d+(?:\.(?P<decimals>\d+))?)\]"
    r'\((?P<folder>[^)\s#]+)/(?P<name>[\w-]+)\.md\s"(?P<key>[^"]+)"\)'
)


@dataclass(frozen=True)
class Quote:
    """A number on a page that is quoted from results.

    Parameters
    ----------
    line : int
        Of the page, from 1.
    name, key : str
        The experiment, and the statement with the place of the number.
    found : str
        What stands there.
    right : str
        What is to stand there; empty where the results have no such number.
    """

    line: int
    name: str
    key: str
    found: str
    right: str


def number_of(results: Mapping[str, Result], name: str, key: str) -> float | None:
    """Return a number of a result; ``None`` where there is none."""
    statement, _, place = key.partition(" ")
    rows = results[name].findings.rows if name in results else ()
    numbers = next((row.numbers for row in rows if row.key == statement), ())
    at = int(place or 0) if place.isdigit() or not place else len(numbers)
    return numbers[at] if at < len(numbers) else None


def _of(match: re.Match[str], page: str) -> bool:
    """Return whether a quote leads to the folder of a page of results."""
    return Path(match["folder"]).name == Path(page).stem


def _right(match: re.Match[str], results: Mapping[str, Result]) -> str:
    number = number_of(results, match["name"], match["key"])
    return "" if number is None else f"{number:.{len(match['decimals'] or '')}f}"


def quotes_in(text: str, results: Mapping[str, Result], page: str) -> Iterator[Quote]:
    """Yield the quotes of a text from the results that the page of this name lists."""
    for match in QUOTE.finditer(text):
        if _of(match, page):
            line = text.count("\n", 0, match.start()) + 1
            yield Quote(line, match["name"], match["key"], match["text"], _right(match, results))


def fill_quotes(folder: Path, results: Mapping[str, Result], page: str) -> list[Path]:
    """Update the quotes of all Markdown pages of a folder; return the pages that were changed.

    Raises
    ------
    FileFormatError
        A page quotes what the results do not have.  No page is written then.
    """
    changed: dict[Path, str] = {}
    for path in sorted(folder.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        for quote in quotes_in(text, results, page):
            if not quote.right:
                raise FileFormatError(
                    f"{path}, line {quote.line}: quotes '{quote.key}' of {quote.name}, which {page} does not have"
                )
        new = QUOTE.sub(lambda m: _filled(m, results, page), text)
        if new != text:
            changed[path] = new
    for path, new in changed.items():
        write_lines(path, new.split("\n")[:-1] if new.endswith("\n") else new.split("\n"))
    return list(changed)


def _filled(match: re.Match[str], results: Mapping[str, Result], page: str) -> str:
    """Return a quote with the right number."""
    if not _of(match, page):
        return match[0]
    return match[0].replace(f"[{match['text']}]", f"[{_right(match, results)}]", 1)
