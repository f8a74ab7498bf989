"""CoNLL columns: a token a line, an empty line after each sentence, the label in the last column.

Columns are separated by tabs where the first line has one, else by blanks.  Predictions stand in a column of their own
behind the others, which is what CRF++ writes and ``conlleval`` reads.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

from ssvm_dsl.datasets.formats.examples import DataSettings, LabelledData, require_examples
from ssvm_dsl.datasets.formats.lines import bad_line, lines_of, shortened, source_name, write_text
from ssvm_dsl.errors import FileFormatError, OptionError
from ssvm_dsl.files.text_lines import BLANKS, blocks_in, columns_of

# -- templates -----------------------------------------------------------------------------------------------------
#
# Feature templates of CRF++: named features of a token from the columns around it.
#
#     U01:%x[-1,0]            column 0 of the token before
#     U02:%x[0,0]/%x[0,1]     columns 0 and 1 together
#     B                       a weight for every two labels in succession
#
# Beyond the ends of a sentence stand ``_B-1``, ``_B-2`` ... and ``_B+1`` ..., as in CRF++.

#: One reference to a column.
_MACRO = re.compile(r"%x\[(-?\d{1,4}),(\d{1,4})\]")


@dataclass(frozen=True)
class UnigramTemplate:
    """A line of a template: texts, and between each two of them a column of a token.

    Parameters
    ----------
    texts : tuple of str
        One more than places.
    places : tuple of (offset, column)
    """

    texts: tuple[str, ...]
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class AttributeTemplate:
    """A feature template.

    Parameters
    ----------
    unigrams : tuple of UnigramTemplate
    transitions : bool
        Whether it has the line ``B``.
    """

    unigrams: tuple[UnigramTemplate, ...]
    transitions: bool

    @classmethod
    def of_lines(cls, lines: Iterable[tuple[int, str]], source: str) -> AttributeTemplate:
        """Return the template of numbered lines.

        Raises
        ------
        FileFormatError
            A line is not understood, or there is no unigram.
        """
        unigrams, transitions = [], False
        for number, line in lines:
            text = line.strip(BLANKS)
            if not text or text.startswith("#"):
                continue
            if text.startswith("B") and _MACRO.search(text):
                hint = "leave it out, or declare Factor(chain(y), features=x) in a model of your own (FILE.py:Model)"
                raise bad_line(source, number, "B alone", f"{shortened(text)}, features of transitions", hint)
            pieces = _MACRO.split(text)
            if text[0] not in "UB" or any("%" in piece for piece in pieces[::3]):
                raise bad_line(source, number, "U...:%x[row,column] or B", shortened(text))
            if text[0] == "B":
                transitions = True
                continue
            places = zip(map(int, pieces[1::3]), map(int, pieces[2::3]), strict=True)
            unigrams.append(UnigramTemplate(tuple(pieces[::3]), tuple(places)))
        if not unigrams:
            raise FileFormatError(f"{source}: expected a template with a line such as U00:%x[0,0], found none")
        return cls(tuple(unigrams), transitions)

    @property
    def n_columns(self) -> int:
        """How many columns it reads at least."""
        return 1 + max((column for one in self.unigrams for _, column in one.places), default=-1)

    def attributes(self, columns: Sequence[list[str]]) -> list[list[str]]:
        """Return the names of features of each token.

        Parameters
        ----------
        columns : sequence of lists of str
            The columns of a sentence, without the labels.
        """
        n, shifted = len(columns[0]), dict[tuple[int, int], list[str]]()
        named = []
        for one in self.unigrams:
            parts: list[Iterable[str]] = [repeat(one.texts[0], n)]
            for place, text in zip(one.places, one.texts[1:], strict=True):
                if place not in shifted:
                    shifted[place] = _shifted(columns[place[1]], place[0])
                parts.append(shifted[place])
                if text:
                    parts.append(repeat(text, n))
            named.append(map(sys.intern, map("".join, zip(*parts, strict=True))))
        return list(map(list, zip(*named, strict=True)))


def _shifted(column: list[str], offset: int) -> list[str]:
    """Return what stands ``offset`` tokens further, at each token."""
    n = len(column)
    before = [f"_B{place}" for place in range(offset, min(0, offset + n))]
    behind = [f"_B+{place - n + 1}" for place in range(max(n, offset), offset + n)]
    return before + column[max(0, offset) : max(0, n + offset)] + behind


def read_template(path: str) -> tuple[str, ...]:
    """Return the lines of a template's file, checked."""
    lines = list(lines_of(path))
    AttributeTemplate.of_lines(lines, path)
    return tuple(line for _, line in lines)


def standard_template(n_columns: int) -> tuple[str, ...]:
    """Return the template for files without one: each column in a window of two, neighbours in pairs, and ``B``."""
    lines = []
    for c in range(n_columns):
        lines += [f"U{c}[{k}]:%x[{k},{c}]" for k in range(-2, 3)]
        lines += [f"U{c}[{k}|{k + 1}]:%x[{k},{c}]/%x[{k + 1},{c}]" for k in (-1, 0)]
    return (*lines, "B")


@dataclass(frozen=True, eq=False)
class ColumnsFile:
    """The tokens of a file.

    Parameters
    ----------
    sentences : list of lists of str
        The lines of each sentence.
    rows : list of lists of lists of str
        Their columns.
    starts : list of int
        The line at which each sentence begins.
    separator : str
        What predictions are separated by.
    """

    sentences: list[list[str]]
    rows: list[list[list[str]]]
    starts: list[int]
    separator: str


def read(source: str, settings: DataSettings) -> LabelledData:
    """Return sentences as named features of each token, by the template, and their labels.

    Once the number of columns is known, files without the last one, the label, are read, too.

    Raises
    ------
    FileFormatError
        A line has another number of columns; names file and line.
    """
    expected = (settings.columns, settings.columns - 1) if settings.learnt else ()
    file = read_columns(source, expected)
    n = len(file.rows[0][0])
    labelled = not settings.learnt or n == settings.columns
    n_features = n - labelled
    if n_features < 1:
        raise one_column(source, file)
    lines = settings.template or standard_template(n_features)
    template = AttributeTemplate.of_lines(enumerate(lines, 1), "the template")
    if template.n_columns > n_features:
        text = f"column {template.n_columns - 1} (counted from 0); {source_name(source)} has {n_features} columns"
        raise FileFormatError(f"the template reads {text} besides the label")
    columns = [list(map(list, zip(*rows, strict=True))) for rows in file.rows]
    X = [template.attributes(one[:n_features]) for one in columns]
    Y = [one[-1] for one in columns] if labelled else None
    settings = replace(settings, learnt=True, template=tuple(lines), columns=n_features + 1)
    return LabelledData(source, settings, X, Y, file.starts, file)


def one_column(source: str, file: ColumnsFile) -> FileFormatError:
    """Return the error for a file with nothing but labels."""
    return bad_line(source, file.starts[0], "at least two columns, the last one the label", "one column")


def read_columns(source: str, expected: Sequence[int] = ()) -> ColumnsFile:
    """Return the sentences of a file, all of whose lines have the same number of columns."""
    tabs, n = False, 0
    file = ColumnsFile([], [], [], " ")
    for block in blocks_in(lines_of(source)):
        rows = []
        for number, line in block:
            if not n:
                tabs = "\t" in line
                file = replace(file, separator="\t" if tabs else " ")
            columns = list(map(sys.intern, line.split("\t") if tabs else columns_of(line)))
            if not n:
                n = len(columns)
                if expected and n not in expected:
                    text = f"{expected[0]} columns, as in training, or {expected[1]} without the label"
                    raise bad_line(source, number, text, f"{n}: {shortened(line)}")
            if len(columns) != n:
                raise bad_line(source, number, f"{n} columns, as before", f"{len(columns)}: {shortened(line)}")
            rows.append(columns)
        file.starts.append(block[0][0])
        file.sentences.append([line for _, line in block])
        file.rows.append(rows)
    require_examples(source, len(file.sentences), "sentence")
    return file


def read_answers(source: str, data: LabelledData) -> list[list[str]]:
    """Return the last column of a file, in which predictions are."""
    return [[row[-1] for row in rows] for rows in read_columns(source).rows]


def write_answers(out: str, data: LabelledData, predicted: Sequence[Any]) -> None:
    """Write the lines of the data with the predicted labels behind them."""
    write_text(out, _lines(data.raw, predicted))


def _lines(file: ColumnsFile, predicted: Sequence[Any]) -> Iterator[str]:
    for lines, tags in zip(file.sentences, predicted, strict=True):
        yield from (f"{line}{file.separator}{tag}" for line, tag in zip(lines, tags, strict=True))
        yield ""


def write_data(out: str, data: LabelledData) -> None:
    """Refuse: named features are no columns."""
    raise OptionError("--to conll: columns cannot be made from features; other formats: crfsuite, jsonl")
