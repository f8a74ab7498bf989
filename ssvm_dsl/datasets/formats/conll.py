"""CoNLL columns: a token a line, an empty line after each sentence, the label in the last column.

Columns are separated by tabs where the first line has one, else by blanks.  Predictions stand in a column of their own
behind the others, which is what CRF++ writes and ``conlleval`` reads.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ssvm_dsl.datasets.formats.examples import DataSettings, LabelledData, require_examples
from ssvm_dsl.datasets.formats.lines import bad_line, lines_of, shortened, source_name, write_text
from ssvm_dsl.datasets.formats.templates import AttributeTemplate, standard_template
from ssvm_dsl.errors import FileFormatError, OptionError
from ssvm_dsl.files.text_lines import blocks_in, columns_of


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
