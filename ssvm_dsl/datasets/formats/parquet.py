"""Parquet: a column ``y`` with the labels, and ``x`` with the examples, or a column for each input of the model.

Each row is an example, as a line of ``jsonl`` is: numbers, names, lists of them, lists of lists.  Reading needs pyarrow
(``pip install pyarrow``).  Predictions are a column ``y``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from itertools import pairwise
from typing import Any

import numpy as np

from ssvm_dsl.datasets.formats.examples import DataSettings, LabelledData, require_examples
from ssvm_dsl.datasets.formats.lines import opened, source_name, write_bytes
from ssvm_dsl.errors import FileFormatError, OptionError
from ssvm_dsl.lang.arrays import is_sparse
from ssvm_dsl.learning.json_ready import as_json


def _pyarrow() -> Any:
    """Return the library.

    Raises
    ------
    OptionError
        It is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as err:
        raise OptionError("the format parquet needs pyarrow: pip install pyarrow") from err
    return pyarrow


def _read_columns(source: str) -> dict[str, list[Any]]:
    """Return the columns of a file by name, an entry for each example."""
    arrow = _pyarrow()
    try:
        if os.path.isdir(source):  # a data set in several files
            table = arrow.parquet.read_table(source)
        else:
            with opened(source) as stream:
                table = arrow.parquet.read_table(stream if stream.seekable() else BytesIO(stream.read()))
    except arrow.ArrowInvalid as err:
        text = f"{source_name(source)}: expected a Parquet file, found another or a damaged one"
        raise FileFormatError(f"{text} ({str(err).splitlines()[0]})") from err
    require_examples(source, table.num_rows, "row")
    return {name: _entries(arrow, table.column(name).combine_chunks()) for name in table.column_names}


def _entries(arrow: Any, column: Any) -> list[Any]:
    """Return the entries of a column: arrays for lists of numbers, and for lists of lists of one length."""
    if column.null_count or not arrow.types.is_list(column.type):
        return [np.asarray(one) if _are_numbers(one) else one for one in column.to_pylist()]
    inner, bounds = column.flatten(), np.cumsum([0, *column.value_lengths().to_pylist()])
    matrix = _matrix(arrow, inner)
    if matrix is None:
        return [np.asarray(one) if _are_numbers(one) else one for one in column.to_pylist()]
    return [matrix[lo:hi] for lo, hi in pairwise(bounds.tolist())]


def _matrix(arrow: Any, values: Any) -> Any:
    """Return numbers, or lists of numbers of one length, as an array; ``None`` for others."""
    if values.null_count:
        return None
    if arrow.types.is_integer(values.type) or arrow.types.is_floating(values.type):
        return values.to_numpy(zero_copy_only=False)
    if not (arrow.types.is_list(values.type) or arrow.types.is_fixed_size_list(values.type)) or not len(values):
        return None
    lengths = np.unique(values.value_lengths().to_numpy(zero_copy_only=False))
    flat = _matrix(arrow, values.flatten())
    return None if flat is None or len(lengths) != 1 else flat.reshape(len(values), -1, *flat.shape[1:])


def _are_numbers(value: Any) -> bool:
    """Whether this is a list of numbers, or of lists of numbers of one length."""
    try:
        return isinstance(value, list) and bool(value) and np.asarray(value).dtype.kind in "iuf"
    except ValueError:
        return False


def read(source: str, settings: DataSettings) -> LabelledData:
    """Return the examples of a file, and their labels where it has a column ``y``.

    Raises
    ------
    FileFormatError
        It is no Parquet file, or it has no column besides ``y``.
    """
    columns = _read_columns(source)
    Y = columns.pop("y", None)
    if not columns:
        raise FileFormatError(f"{source_name(source)}: expected a column x, or one for each input, found none")
    X = columns["x"] if list(columns) == ["x"] else _objects(columns)
    return LabelledData(source, replace(settings, learnt=True), X, Y)


def _objects(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Return an object for each row."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def read_answers(source: str, data: LabelledData) -> list[Any]:
    """Return the column ``y`` of a file."""
    columns = _read_columns(source)
    if "y" not in columns:
        raise FileFormatError(f"{source_name(source)}: expected a column y, found {', '.join(columns)}")
    return columns["y"]


def write_answers(out: str, data: LabelledData, predicted: Sequence[Any]) -> None:
    """Write the predicted labels as column ``y``."""
    _write(out, {"y": [as_json(one) for one in predicted]})


def write_data(out: str, data: LabelledData) -> None:
    """Write examples and labels."""
    X = data.X.toarray() if is_sparse(data.X) else data.X
    rows = [as_json(one.toarray() if is_sparse(one) else one) for one in X]
    columns = {"x": rows} if data.Y is None else {"x": rows, "y": [as_json(one) for one in data.Y]}
    _write(out, columns)


def _write(out: str, columns: dict[str, list[Any]]) -> None:
    arrow = _pyarrow()
    try:
        table = arrow.table(columns)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError) as err:
        raise OptionError(f"parquet: expected examples of one form in a column, found others ({err})") from err
    write_bytes(out, lambda file: arrow.parquet.write_table(table, file))
