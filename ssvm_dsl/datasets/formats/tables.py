"""CSV: a header with names, then a row for each example, or for each position of a sequence.

Columns are separated by commas, semicolons or tabs, whichever the header has most of.  The label is the last column
unless others are named.  With a column that tells sequences apart (``--sequence``), rows with the same value stand
together and are the positions of one sequence; then columns may hold words as well as numbers.  Predictions are columns
behind the others, ``predicted`` or ``predicted_NAME``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from math import isfinite
from typing import Any

import numpy as np

from ssvm_dsl.datasets.formats.examples import DataSettings, LabelledData, number_blocks, require_examples
from ssvm_dsl.datasets.formats.lines import bad_line, lines_of, shortened, source_name, write_text
from ssvm_dsl.errors import FileFormatError, OptionError
from ssvm_dsl.files.text_lines import BLANKS
from ssvm_dsl.lang.arrays import is_sparse
from ssvm_dsl.learning.json_ready import as_json

#: What columns may be separated by.
_SEPARATORS = ",;\t"

#: How the columns of predictions begin.
PREDICTED = "predicted"


@dataclass(frozen=True, eq=False)
class CsvTable:
    """The cells of a file.

    Parameters
    ----------
    source, separator : str
    header : list of str
    rows : list of lists of str
    lines : list of int
        The line of each row.
    """

    source: str
    separator: str
    header: list[str]
    rows: list[list[str]]
    lines: list[int]

    def column(self, name: str) -> list[str]:
        """Return the cells of a column."""
        c = self.header.index(name)
        return [row[c] for row in self.rows]

    def require(self, names: Sequence[str], what: str) -> None:
        """Refuse a file without columns of these names."""
        missing = [name for name in names if name not in self.header]
        if missing:
            listed = ", ".join(self.header[:20])
            raise bad_line(self.source, 1, f"a column '{missing[0]}' ({what})", f"the columns {listed}")


def _read_table(source: str) -> CsvTable:
    numbered = lines_of(source)
    first = next(numbered, None)
    if first is None:
        raise FileFormatError(f"{source_name(source)}: expected a header with names of columns, found an empty file")
    separator = max(_SEPARATORS, key=first[1].count)
    reader = csv.reader((f"{line}\n" for _, line in _chained(first, numbered)), delimiter=separator, strict=True)
    table = CsvTable(source, separator, [], [], [])
    begin = 1
    try:
        for row in reader:
            if not table.header:
                table.header.extend(_header(source, row))
            elif row:
                if len(row) != len(table.header):
                    raise bad_line(source, begin, f"{len(table.header)} columns, as in the header", f"{len(row)}")
                table.rows.append(row)
                table.lines.append(begin)
            begin = reader.line_num + 1
    except csv.Error as err:
        raise bad_line(source, begin, "columns, with quotes in pairs", str(err)) from None
    require_examples(source, len(table.rows), "row below the header")
    return table


def _chained(first: tuple[int, str], rest: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield first
    yield from rest


def _header(source: str, row: list[str]) -> list[str]:
    """Return the names of columns, checked."""
    names = [name.strip(BLANKS) for name in row]
    if all(_number(name) is not None for name in names):
        raise bad_line(source, 1, "a header with the names of columns", shortened(",".join(row)))
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise bad_line(source, 1, "columns with different names", f"{shortened(twice)} twice")
    return names


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def read(source: str, settings: DataSettings) -> LabelledData:
    """Return rows of numbers and their labels, or sequences of rows.

    Raises
    ------
    FileFormatError
        A column is missing, or a cell holds no number; names line and column.
    """
    table = _read_table(source)
    settings = settings if settings.learnt else _learnt(table, settings)
    table.require(settings.features, "a feature in training")
    labelled = [name for name in settings.labels if name in table.header]
    if labelled and len(labelled) < len(settings.labels):
        table.require(settings.labels, "a label")
    if settings.sequence:
        table.require([settings.sequence], "tells sequences apart")
    bounds = _bounds(table, settings.sequence)
    X = _features(table, settings)
    Y = _labels(table, settings.labels) if labelled else None
    lines = [table.lines[lo] for lo, _ in bounds]
    if settings.sequence:
        X = [X[lo:hi] for lo, hi in bounds]
        Y = None if Y is None else [Y[lo:hi] for lo, hi in bounds]
    return LabelledData(source, settings, X, Y, lines, table)


def _learnt(table: CsvTable, settings: DataSettings) -> DataSettings:
    """Return the settings with the columns of training data."""
    if settings.several and not settings.labels:
        raise OptionError("name the columns with labels: --label A --label B ...")
    others = [name for name in table.header if name != settings.sequence]
    labels = settings.labels or tuple(others[-1:])
    table.require(labels, "a label")
    features = tuple(name for name in others if name not in labels)
    if not features:
        raise bad_line(table.source, 1, "at least one column besides the label", f"{len(table.header)} in all")
    words_allowed = settings.sequence or settings.inputs
    numeric = tuple(name for name in features if not words_allowed or all(_is_number(table.column(name))))
    return replace(settings, learnt=True, labels=labels, features=features, numeric=numeric)


def _is_number(cells: list[str]) -> Iterator[bool]:
    return (_number(cell) is not None for cell in cells)


def _bounds(table: CsvTable, sequence: str) -> list[tuple[int, int]]:
    """Return the first row of each example, and the one behind its last."""
    n = len(table.rows)
    if not sequence:
        return [(k, k + 1) for k in range(n)]
    keys, seen = table.column(sequence), set[str]()
    starts = [k for k in range(n) if k == 0 or keys[k] != keys[k - 1]]
    for k in starts:
        if keys[k] in seen:
            expected = f"all rows of sequence {shortened(keys[k])} together"
            raise bad_line(table.source, table.lines[k], expected, "one apart from the others")
        seen.add(keys[k])
    return list(zip(starts, [*starts[1:], n], strict=True))


def _features(table: CsvTable, settings: DataSettings) -> Any:
    """Return a matrix where all columns hold numbers, else a dict for each row; empty cells of words are left out."""
    columns = {name: table.column(name) for name in settings.features}
    numbers = {name: _numbers(table, name, columns[name]) for name in settings.numeric}
    if len(numbers) == len(columns):
        return np.array([numbers[name] for name in settings.features]).T
    return [
        {name: numbers[name][k] if name in numbers else columns[name][k]
         for name in settings.features if name in numbers or columns[name][k]}
        for k in range(len(table.rows))
    ]  # fmt: skip


def _numbers(table: CsvTable, name: str, cells: list[str]) -> list[float]:
    numbers = []
    for k, cell in enumerate(cells):
        value = _number(cell)
        if value is None:
            hint = "words are features of sequences (--sequence); else encode them as numbers"
            place = f"a number in column '{name}'"
            raise bad_line(table.source, table.lines[k], place, shortened(cell), hint)
        numbers.append(value)
    return numbers


def _labels(table: CsvTable, names: Sequence[str]) -> Any:
    """Return the label of each row; of several columns a matrix of 0 and 1."""
    if len(names) == 1:
        return _classes(table.column(names[0]))
    for name in names:
        for k, cell in enumerate(table.column(name)):
            if cell.strip(BLANKS) not in ("0", "1"):
                raise bad_line(table.source, table.lines[k], f"0 or 1 in column '{name}'", shortened(cell))
    return np.array([[int(cell) for cell in table.column(name)] for name in names]).T


def _classes(cells: list[str]) -> list[Any]:
    """Return classes as ints where all are, else as texts."""
    try:
        return [int(cell) for cell in cells]
    except ValueError:
        return cells


def read_answers(source: str, data: LabelledData) -> Any:
    """Return the labels in the columns of predictions."""
    table = _read_table(source)
    names = [name for name in table.header if name == PREDICTED or name.startswith(f"{PREDICTED}_")]
    if not names:
        raise bad_line(source, 1, f"a column '{PREDICTED}', which ssvm predict writes", ", ".join(table.header[:20]))
    labels = _labels(table, names)
    if not data.settings.sequence:
        return labels
    return [labels[lo:hi] for lo, hi in _bounds(table, data.settings.sequence)]


def write_answers(out: str, data: LabelledData, predicted: Sequence[Any]) -> None:
    """Write the table of the data with columns of predictions."""
    names = data.settings.labels
    rows = [one for some in predicted for one in some] if data.settings.sequence else predicted
    several = len(names) > 1
    more = [f"{PREDICTED}_{name}" for name in names] if several else [PREDICTED]
    cells = [as_json(one) if several else [as_json(one)] for one in rows]
    write_text(out, _written(data.raw, more, cells))


def _written(table: CsvTable, more: list[str], cells: list[list[Any]]) -> Iterator[str]:
    kept = [c for c, name in enumerate(table.header) if name not in more]
    yield _line([*(table.header[c] for c in kept), *more], table.separator)
    for row, new in zip(table.rows, cells, strict=True):
        yield _line([*(row[c] for c in kept), *new], table.separator)


def _line(cells: Sequence[Any], separator: str) -> str:
    text = StringIO()
    csv.writer(text, delimiter=separator, lineterminator="").writerow(cells)
    return text.getvalue()


def write_data(out: str, data: LabelledData) -> None:
    """Write rows of numbers, or sequences of them, and their labels."""
    write_text(out, _data_lines(data))


def _data_lines(data: LabelledData) -> Iterator[str]:
    blocks, labels, sequences = number_blocks(data, "csv")
    blocks = [one.toarray() if is_sparse(one) else one for one in blocks]
    sequences, width = (labels is data.Y and data.Y is not None) or len(blocks) > 1, blocks[0].shape[1]
    known = data.settings
    n_labels = 0 if data.Y is None else int(np.shape(labels[0])[1]) if np.ndim(labels[0]) == 2 else 1
    names = list(known.features) if len(known.features) == width else [f"x{k}" for k in range(width)]
    own = ["y"] if n_labels == 1 else [f"y{k}" for k in range(n_labels)]
    own = list(known.labels) if len(known.labels) == n_labels else own
    yield _line([*(["sequence"] if sequences else []), *names, *own], ",")
    for i, block in enumerate(blocks):
        tags = [[]] * len(block) if data.Y is None else labels[i]
        for row, tag in zip(block.tolist(), tags, strict=True):
            yield _line([*([i] if sequences else []), *row, *np.ravel(as_json(tag)).tolist()], ",")
