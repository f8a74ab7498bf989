"""Numbers of results that stand on other pages: quoted by a link, so that they can be checked and rewritten.

A quote is a Markdown link to the page of an experiment.  Its text is the number, and its title names it:

    took [12.3](../results/hmm.md "seconds") s           the first number of the statement ``seconds`` of ``hmm``
    (sd [0.34](results/value-functions.md "mmsr 1"))     the second number of ``mmsr``: the standard deviation

The quote has as many decimals as it is written with.  A minus sign in the text is kept, any other sign is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.io import write_lines
from ssvm_papers.results.running import Result

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
