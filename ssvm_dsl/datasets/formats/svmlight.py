"""SVMlight and LIBSVM: ``LABEL INDEX:VALUE INDEX:VALUE ... # comment``, an example on each line.

Labels of a set are joined by commas, ``1,3 7:0.5``.  With ``qid:NAME`` behind the label, as SVM-HMM writes sequences,
lines of one NAME are the positions of a sequence.  Features that training has not seen have no weight and are left out.
Predictions are a label on each line, with an empty line after each sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ssvm_dsl.datasets.formats.examples import (
    DataSettings,
    LabelledData,
    encoded_sets,
    names_of_set,
    number_blocks,
    require_examples,
)
from ssvm_dsl.datasets.formats.lines import bad_line, lines_of, shortened, write_text
from ssvm_dsl.errors import OptionError
from ssvm_dsl.files.text_lines import BLANKS, columns_of
from ssvm_dsl.learning.json_ready import as_json

#: Largest index of a feature.
MOST_FEATURES = 2**31 - 2

#: What labels cannot hold.
_NO_LABEL = frozenset(f"#:\r\n{BLANKS}")


@dataclass(eq=False)
class SparseLines:
    """What lines hold: labels, sequences, and the entries of a sparse matrix."""

    source: str
    labels: list[str] = field(default_factory=list)
    queries: list[str | None] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    ends: list[int] = field(default_factory=lambda: [0])
    lines: list[int] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def take(self, number: int, tokens: list[str]) -> None:
        """Take a line."""
        label = "" if ":" in tokens[0] else tokens.pop(0)
        query = tokens.pop(0)[4:] if tokens and tokens[0].startswith("qid:") else None
        for token in tokens:
            index, colon, value = token.partition(":")
            try:
                place, amount = int(index), float(value)
            except ValueError:
                place, amount = -1, float("nan")
            if not colon or not 0 <= place <= MOST_FEATURES or not isfinite(amount):
                expected = "LABEL INDEX:VALUE ..., indices from 0 and finite values"
                raise bad_line(self.source, number, expected, shortened(token))
            self.indices.append(place)
            self.values.append(amount)
        if self.queries and (query is None) != (self.queries[-1] is None):
            raise bad_line(self.source, number, "qid:NAME on all lines or on none", "it on some")
        if query is not None and query in self.seen and self.queries[-1] != query:
            raise bad_line(self.source, number, f"all lines of qid:{query} together", "one apart from the others")
        if query is not None:
            self.seen.add(query)
        self.ends.append(len(self.indices))
        self.labels.append(label)
        self.queries.append(query)
        self.lines.append(number)

    def matrix(self, width: int) -> Any:
        """Return the rows as a CSR matrix of so many columns; further features are left out."""
        indices, values = np.array(self.indices, dtype=np.int64), np.array(self.values, dtype=np.float64)
        rows = np.repeat(np.arange(len(self.labels)), np.diff(self.ends))
        known = indices < width
        made = csr_array((values[known], (rows[known], indices[known])), shape=(len(self.labels), width))
        made.sum_duplicates()
        return made


def read(source: str, settings: DataSettings) -> LabelledData:
    """Return a sparse matrix and its labels, or sequences of sparse rows.

    Raises
    ------
    FileFormatError
        A line is not understood; names file and line.
    """
    file = SparseLines(source)
    for number, line in lines_of(source):
        tokens = columns_of(line.partition("#")[0])
        if tokens:
            file.take(number, tokens)
    require_examples(source, len(file.labels), "line LABEL INDEX:VALUE ...")
    if not settings.learnt:
        several = settings.several or any("," in label for label in file.labels)
        names = _names(file.labels) if several else ()
        width = max(file.indices, default=0) + 1
        settings = replace(settings, learnt=True, width=width, several=several, labels=names)
    X = file.matrix(settings.width)
    Y: Any = _sets(file, settings.labels) if settings.several else _classes(file)
    starts = [k for k, query in enumerate(file.queries) if k == 0 or query is None or query != file.queries[k - 1]]
    lines = [file.lines[k] for k in starts]
    if file.queries[0] is not None:
        bounds = list(pairwise([*starts, len(file.labels)]))
        X, Y = [X[lo:hi] for lo, hi in bounds], None if Y is None else [Y[lo:hi] for lo, hi in bounds]
    return LabelledData(source, settings, X, Y, lines)


def _names(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels of sets, sorted; numbers by value."""
    names = {name for label in labels for name in label.split(",") if name}
    return tuple(sorted(names, key=lambda name: (float(name) if _is_int(name) else float("inf"), name)))


def _is_int(text: str) -> bool:
    return text.lstrip("+-").isdecimal()


def _sets(file: SparseLines, names: Sequence[str]) -> Any:
    """Return a matrix of 0 and 1."""
    sets = [[name for name in label.split(",") if name] for label in file.labels]
    return encoded_sets(sets, names, file.source, file.lines)


def _classes(file: SparseLines) -> list[Any] | None:
    """Return the class of each line, as ints where all are; ``None`` where no line has one."""
    empty = [k for k, label in enumerate(file.labels) if not label]
    if len(empty) == len(file.labels):
        return None
    if empty:
        raise bad_line(file.source, file.lines[empty[0]], "a label first, as on other lines", "none")
    return list(map(int, file.labels)) if all(map(_is_int, file.labels)) else file.labels


def read_answers(source: str, data: LabelledData) -> Any:
    """Return the predicted labels: a line for each example, or for each position."""
    lines = [line.strip(BLANKS) for _, line in lines_of(source)]
    if isinstance(data.X, list):
        blocks = "\n".join(lines).strip("\n").split("\n\n")
        return [block.split("\n") for block in blocks]
    if not data.settings.several:
        return lines
    file = SparseLines(source, labels=lines, lines=list(range(1, len(lines) + 1)))
    return _sets(file, data.settings.labels)


def write_answers(out: str, data: LabelledData, predicted: Sequence[Any]) -> None:
    """Write a label, or labels of a set, on each line."""
    if isinstance(data.X, list):
        write_text(out, (line for tags in predicted for line in (*map(str, tags), "")))
    elif data.settings.several:
        write_text(out, (_joined(one, data.settings.labels) for one in predicted))
    else:
        write_text(out, map(str, predicted))


def _joined(row: Any, names: Sequence[str]) -> str:
    return ",".join(names_of_set(row, names))


def write_data(out: str, data: LabelledData) -> None:
    """Write rows of numbers; indices count from 1, those of a file of this format stay."""
    write_text(out, _lines(data))


def _lines(data: LabelledData) -> Iterator[str]:
    blocks, each, sequences = number_blocks(data, "svmlight")
    first = int(data.settings.format != "svmlight")
    several = not sequences and np.ndim(data.Y) == 2
    for i, block in enumerate(blocks):
        rows = csr_array(block, dtype=np.float64)
        rows.sort_indices()
        labels = [""] * rows.shape[0] if data.Y is None else each[i]
        for k in range(rows.shape[0]):
            label = _joined(labels[k], data.settings.labels) if several else str(as_json(labels[k]))
            if set(label) & _NO_LABEL:
                raise OptionError(f"--to svmlight: a label is one word without : and #, found {shortened(label)}")
            lo, hi = rows.indptr[k], rows.indptr[k + 1]
            entries = zip((rows.indices[lo:hi] + first).tolist(), rows.data[lo:hi].tolist(), strict=True)
            query = [f"qid:{i + 1}"] if sequences else []
            yield " ".join([*([label] if label else []), *query, *(f"{c}:{v!r}" for c, v in entries)])
