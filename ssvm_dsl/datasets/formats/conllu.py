"""CoNLL-X and CoNLL-U: a word a line in ten columns, among them its part of speech and its head; 0 is the root.

Lines of three or four columns (word, part of speech, head, relation) are read, too: MaltParser's columns, and those of
NLTK's treebank.  Comments, words of several tokens (``1-2``) and words that are not written (``1.1``) are left out of
the sentence and written as they are.  Predictions are the lines of the data with the predicted heads; relations are not
predicted and become ``_`` in ten columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ssvm_dsl.datasets.formats.examples import DataSettings, LabelledData, require_examples
from ssvm_dsl.datasets.formats.lines import bad_line, lines_of, shortened, write_text
from ssvm_dsl.errors import OptionError
from ssvm_dsl.files.text_lines import blocks_in, columns_of

#: Number of columns of CoNLL-X and CoNLL-U.
TEN = 10

#: The columns of the word, its part of speech, a finer one and its head, by number of columns.
_PLACES = {TEN: (1, 3, 4, 6), 4: (0, 1, 1, 2), 3: (0, 1, 1, 2), 2: (0, 1, 1, 2)}

#: The first column of lines that are no words of the sentence.
_NO_WORD = re.compile(r"\d+[-.]\d+")


@dataclass(eq=False)
class TreeLines:
    """A sentence: its lines, and which of them are words.

    Parameters
    ----------
    start : int
        The number of its first line.
    lines : list of (number, columns)
    words : list of int
        The places of words among the lines.
    """

    start: int
    lines: list[tuple[int, list[str]]] = field(default_factory=list)
    words: list[int] = field(default_factory=list)

    def rows(self) -> list[tuple[int, list[str]]]:
        """Return (number, columns) of the words."""
        return [self.lines[k] for k in self.words]


def read(source: str, settings: DataSettings) -> LabelledData:
    """Return sentences as (words, parts of speech), and the heads of words where all have one.

    Raises
    ------
    FileFormatError
        A line has another number of columns, or no head within its sentence; names file and line.
    """
    sentences = _sentences(source)
    X = [_words(one) for one in sentences]
    Y = [_heads(source, one) for one in sentences]
    unknown = next((one for one, heads in zip(sentences, Y, strict=True) if heads is None), None)
    if unknown is not None and any(heads is not None for heads in Y):
        raise bad_line(source, unknown.start, "a head for each word, as in other sentences", "none")
    lines = [one.start for one in sentences]
    return LabelledData(source, replace(settings, learnt=True), X, None if unknown else Y, lines, sentences)


def _sentences(source: str) -> list[TreeLines]:
    sentences: list[TreeLines] = []
    n = 0
    for block in blocks_in(lines_of(source)):
        sentences.append(TreeLines(block[0][0]))
        for number, line in block:
            columns = line.split("\t") if "\t" in line else columns_of(line)
            if not line.startswith("#") and not _NO_WORD.fullmatch(columns[0]):
                n = n or len(columns)
                if len(columns) != n or n not in _PLACES:
                    expected = f"{n} columns, as before" if n in _PLACES else "ten columns of CoNLL-U, or WORD TAG HEAD"
                    raise bad_line(source, number, expected, f"{len(columns)}: {shortened(line)}")
                sentences[-1].words.append(len(sentences[-1].lines))
            elif line.startswith("#"):
                columns = [line]
            sentences[-1].lines.append((number, columns))
    kept = [one for one in sentences if one.words]
    require_examples(source, len(kept), "sentence")
    return kept


def _words(one: TreeLines) -> tuple[list[str], list[str]]:
    """Return words and parts of speech; the finer ones where there are no others."""
    rows = [columns for _, columns in one.rows()]
    word, tag, finer, _ = _PLACES[len(rows[0])]
    return [row[word] for row in rows], [row[finer] if row[tag] == "_" else row[tag] for row in rows]


def _heads(source: str, one: TreeLines) -> list[int] | None:
    """Return the heads, counted from 0, -1 for the root; ``None`` where no word has one."""
    n, place = len(one.words), _PLACES[len(one.rows()[0][1])][3]
    given = [columns[place] if place < len(columns) else "_" for _, columns in one.rows()]
    if set(given) == {"_"}:
        return None
    for (number, _), text in zip(one.rows(), given, strict=True):
        if not text.isascii() or not text.isdecimal() or int(text) > n:
            raise bad_line(source, number, f"the head of the word, 0 to {n}", shortened(text))
    return [int(text) - 1 for text in given]


def read_answers(source: str, data: LabelledData) -> Any:
    """Return the heads of a file, in which predictions are."""
    return read(source, data.settings).require_labels()


def write_answers(out: str, data: LabelledData, predicted: Sequence[Any]) -> None:
    """Write the lines of the data with the predicted heads."""
    write_text(out, _lines(data.raw, predicted))


def _lines(sentences: Sequence[TreeLines], predicted: Sequence[Any]) -> Iterator[str]:
    for one, heads in zip(sentences, predicted, strict=True):
        new = dict(zip(one.words, heads, strict=True))
        for k, (_, columns) in enumerate(one.lines):
            yield "\t".join(_with_head(columns, int(new[k]) + 1) if k in new else columns)
        yield ""


def _with_head(columns: list[str], head: int) -> list[str]:
    if len(columns) < TEN:
        return [*columns[:2], str(head)]
    return [*columns[:6], str(head), "_", *columns[8:]]


def write_data(out: str, data: LabelledData) -> None:
    """Refuse: other formats hold no sentences."""
    raise OptionError("--to conllu: sentences cannot be made from features; other formats: jsonl")
