"""The content of a file of data: examples, labels, their places, and how the file was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from ssvm_dsl.datasets.formats.lines import bad_line, source_name
from ssvm_dsl.errors import DataError, FileFormatError, OptionError
from ssvm_dsl.lang.arrays import is_sparse


@dataclass(frozen=True)
class DataSettings:
    """How a file is read.  Model files keep it, so that new data are read as the training data were.

    Parameters
    ----------
    format : str
        Name of the format.
    learnt : bool
        Whether the rest is known from training data.
    template : tuple of str
        Lines of a feature template (``conll``).
    columns : int
        Number of columns of the training data, with the label (``conll``).
    labels : tuple of str
        Columns with labels (``csv``), or the labels of which each example has a set (``svmlight``).
    sequence : str
        The column whose equal values make one sequence (``csv``).
    features, numeric : tuple of str
        Columns with features, and those among them that hold numbers (``csv``).
    width : int
        Number of features (``svmlight``).
    several : bool
        Whether an example has a set of labels.
    inputs : tuple of str
        The inputs of the user's model (``images``).
    """

    format: str
    learnt: bool = False
    template: tuple[str, ...] = ()
    columns: int = 0
    labels: tuple[str, ...] = ()
    sequence: str = ""
    features: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    width: int = 0
    several: bool = False
    inputs: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return plain data for a model file."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def of_plain(cls, content: Mapping[str, Any], where: str) -> DataSettings:
        """Return the settings that a model file holds.

        Raises
        ------
        FileFormatError
            They are none.
        """
        given: dict[str, Any] = {}
        for field in fields(cls):
            value, default = content.get(field.name, field.default), field.default
            listed = isinstance(value, list) and all(isinstance(one, str) for one in value)
            value = tuple(value) if listed and isinstance(default, tuple) else value
            kind = str if field.name == "format" else type(default)
            if type(value) is not kind:
                raise FileFormatError(f"{where}: expected how data are read, found {field.name} = {value!r}")
            given[field.name] = value
        return cls(**given)


@dataclass(frozen=True, eq=False)
class LabelledData:
    """Examples of a file, and their labels where it has any.

    Parameters
    ----------
    source : str
        The file.
    settings : DataSettings
        How it was read.
    X : sequence of examples
        In the form that ``fit`` takes.
    Y : sequence of labels, or None
    lines : sequence of int
        The line at which each example begins; empty where the format has no lines.
    raw : object
        What predictions are written beside.
    """

    source: str
    settings: DataSettings
    X: Any
    Y: Any
    lines: Sequence[int] = ()
    raw: Any = None

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return int(self.X.shape[0]) if hasattr(self.X, "shape") else len(self.X)

    def require_labels(self) -> Any:
        """Return the labels.

        Raises
        ------
        FileFormatError
            There are none.
        """
        if self.Y is None:
            raise FileFormatError(f"{source_name(self.source)}: expected examples with labels, found none")
        return self.Y

    @contextmanager
    def naming_lines(self) -> Iterator[None]:
        """Add to errors about an example the line at which it begins."""
        try:
            yield
        except DataError as err:
            if err.example is not None and err.example < len(self.lines):
                where = f"line {self.lines[err.example]} of {source_name(self.source)}"
                err.add_note(f"example {err.example} (counted from 0) begins at {where}")
            raise


def number_blocks(data: LabelledData, name: str) -> tuple[list[Any], Any, bool]:
    """Return a matrix for each sequence, the labels of each, and True; of plain rows one matrix, and False.

    Parameters
    ----------
    data : LabelledData
    name : str
        The format that asks for them.

    Raises
    ------
    OptionError
        The examples are something else.
    """
    X, Y = data.X, data.Y
    rows = isinstance(X, list) and all(isinstance(one, np.ndarray) and one.ndim == 1 for one in X)
    sequences = isinstance(X, list) and not (rows and len(set(map(len, X))) == 1)
    blocks, labels = (X, Y) if sequences else ([np.array(X) if rows else X], [Y])
    tables = all(is_sparse(one) or (isinstance(one, np.ndarray) and one.dtype.kind in "fiub") for one in blocks)
    if not tables or any(len(one.shape) != 2 for one in blocks):
        raise OptionError(f"--to {name}: expected rows of numbers, or sequences of them; others: jsonl")
    return blocks, labels, sequences


def encoded_sets(sets: Sequence[Sequence[str]], names: Sequence[str], source: str, lines: Sequence[int]) -> Any:
    """Return sets of labels as a matrix of 0 and 1.

    Raises
    ------
    FileFormatError
        There is no label of a name; names file and line.
    """
    numbers = {name: k for k, name in enumerate(names)}
    out = np.zeros((len(sets), len(names)), dtype=np.int64)
    for i, one in enumerate(sets):
        for name in one:
            if name not in numbers:
                raise bad_line(source, lines[i], f"labels of the training data, {', '.join(names[:20])}", repr(name))
            out[i, numbers[name]] = 1
    return out


def names_of_set(row: Any, names: Sequence[str]) -> list[str]:
    """Return the names of the labels that are 1; numbers where labels have no names."""
    return [names[k] if names else str(k) for k in np.flatnonzero(row).tolist()]


def require_examples(source: str, n: int, what: str) -> None:
    """Refuse a file without examples."""
    if not n:
        raise FileFormatError(f"{source_name(source)}: expected at least one {what}, found none")
