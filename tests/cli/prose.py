"""The prose of a Markdown page: its words and its sentences, without code blocks, headings and displayed formulas."""

from __future__ import annotations

import re
from collections.abc import Iterator

from snippets import FENCE

#: Formulas on lines of their own, blocks of directives, and comments.
APART = re.compile(r"\$\$.*?\$\$|^:{3,}.*?^:{3,}$|<!--.*?-->", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")
CODE = re.compile(r"(`+)[^`]+?\1|\$[^$\n]+\$")
ITEM = re.compile(r"\s*(?:[*+-]|\d+\.)\s+")
#: Full stops that end no sentence.
SHORT = re.compile(r"\b(?:e\.g|i\.e|et al|etc|vs|cf|Fig|Eq|Sec|No)\.")
END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_]*[A-Z0-9])")
WORD = re.compile(r"\w")


def count_words(page: str) -> int:
    """Return how many words a page has, as ``wc -w`` counts them: code and tables included."""
    return len(page.split())


def paragraphs(page: str) -> Iterator[str]:
    """Yield paragraphs, list items and cells of tables; an inline formula or piece of code is the word ``X``."""
    text = CODE.sub("X", LINK.sub(r"\1", APART.sub("\n\n", FENCE.sub("\n\n", page))))
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        indented = line.startswith("    ") and not lines
        table = line.lstrip().startswith("|")
        apart = not line.strip() or table or line.startswith("#") or indented
        if (apart or ITEM.match(line)) and lines:
            yield " ".join(lines)
            lines = []
        if table:
            yield from (cell.strip() for cell in line.strip().strip("|").split("|"))
        elif not apart:
            lines.append(ITEM.sub("", line, count=1).strip() if ITEM.match(line) else line.strip())


def sentences(page: str) -> Iterator[str]:
    """Yield the sentences of a page."""
    for paragraph in paragraphs(page):
        yield from END.split(SHORT.sub(lambda found: found[0][:-1], paragraph))


def long_sentences(page: str, most: int) -> list[str]:
    """Return the sentences of more than ``most`` words, each with its number of words."""
    counted = ((sum(bool(WORD.search(word)) for word in one.split()), one) for one in sentences(page))
    return [f"{n} words: {one}" for n, one in counted if n > most]
