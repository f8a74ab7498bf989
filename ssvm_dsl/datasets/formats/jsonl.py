"""JSON lines: an object ``{"x": ..., "y": ...}`` on each line, examples and labels in the form that ``fit`` takes.

``x`` is a list of lists of numbers, a list of named features of each position, or an object with an entry for each
input of the model.  Sets of labels are lists of 0 and 1, or of names.  Predictions are objects ``{"y": ...}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ssvm_dsl.datasets.formats.examples import (
    DataSettings,
    LabelledData,
    encoded_sets,
    names_of_set,
    require_examples,
)
from ssvm_dsl.datasets.formats.lines import bad_line, lines_of, shortened, write_text
from ssvm_dsl.files.text_lines import is_blank
from ssvm_dsl.lang.arrays import is_sparse
from ssvm_dsl.learning.json_ready import as_json


def read(source: str, settings: DataSettings) -> LabelledData:
    """Return the examples of a file, and their labels where all have some.

    Raises
    ------
    FileFormatError
        A line is no such object; names file and line.
    """
    objects = _objects(source, "x")
    X = [_arrays(one["x"]) for _, one in objects]
    labelled = ["y" in one for _, one in objects]
    if any(labelled) and not all(labelled):
        number = objects[labelled.index(False)][0]
        raise bad_line(source, number, "an object with 'y', as on other lines", "none")
    lines = [number for number, _ in objects]
    Y = [_arrays(one["y"]) for _, one in objects] if all(labelled) else None
    if Y is not None and settings.several and _are_names(Y):
        names = settings.labels or tuple(sorted({name for one in Y for name in one}))
        settings, Y = replace(settings, labels=names), encoded_sets(Y, names, source, lines)
    return LabelledData(source, replace(settings, learnt=True), X, Y, lines)


def _are_names(Y: Sequence[Any]) -> bool:
    """Whether these are lists of names, not all of them empty."""
    listed = all(isinstance(one, list) and all(isinstance(name, str) for name in one) for one in Y)
    return listed and any(Y)


def _objects(source: str, name: str) -> list[tuple[int, dict[str, Any]]]:
    """Return (line, object) of a file whose objects have an entry of that name."""
    objects = []
    for number, line in lines_of(source):
        if is_blank(line):
            continue
        try:
            one = json.loads(line)
        except (ValueError, RecursionError) as err:
            raise bad_line(source, number, "a JSON object", f"{shortened(line)} ({err})") from None
        if not isinstance(one, dict) or name not in one:
            raise bad_line(source, number, f'an object with an entry "{name}"', shortened(line))
        objects.append((number, one))
    require_examples(source, len(objects), "line with an object")
    return objects


def _arrays(value: Any) -> Any:
    """Return lists of numbers as arrays, also within an object; all else as it is."""
    if isinstance(value, Mapping):
        return {name: _arrays(one) for name, one in value.items()}
    if isinstance(value, list) and value and _is_number(value):
        try:
            return np.asarray(value)
        except (ValueError, OverflowError):  # ragged; the model's check says what is wrong
            return value
    return value


def _is_number(value: Any) -> bool:
    """Whether this is a number, or nested lists of nothing else."""
    if isinstance(value, list):
        return all(map(_is_number, value))
    return isinstance(value, int | float)


def read_answers(source: str, data: LabelledData) -> list[Any]:
    """Return the labels of a file."""
    objects = _objects(source, "y")
    Y = [_arrays(one["y"]) for _, one in objects]
    names = data.settings.labels
    return encoded_sets(Y, names, source, [number for number, _ in objects]) if names and _are_names(Y) else Y


def write_answers(out: str, data: LabelledData, predicted: Sequence[Any]) -> None:
    """Write an object with the predicted labels for each example."""
    names = data.settings.labels
    labels = (names_of_set(one, names) for one in predicted) if names else map(as_json, predicted)
    write_text(out, (json.dumps({"y": one}) for one in labels))


def write_data(out: str, data: LabelledData) -> None:
    """Write examples and labels."""
    X = data.X.toarray() if is_sparse(data.X) else data.X
    labels = [{}] * data.n_examples if data.Y is None else [{"y": as_json(one)} for one in data.Y]
    pairs = zip(X, labels, strict=True)
    write_text(out, (json.dumps({"x": as_json(one.toarray() if is_sparse(one) else one), **y}) for one, y in pairs))
