r"""CRFsuite's format: a token a line, its label, then its attributes, separated by tabs; empty lines end sequences.

An attribute is a name, or a name, a colon and a number.  Within names ``\:`` is a colon and ``\\`` a backslash.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from ssvm_dsl.datasets.formats.examples import DataSettings, LabelledData, require_examples
from ssvm_dsl.datasets.formats.lines import bad_line, lines_of, shortened, write_text
from ssvm_dsl.errors import OptionError

#: A colon that separates a name from its number, and what stands for another character.
_COLON, _ESCAPED = re.compile(r"(?<!\\)(?:\\\\)*:"), re.compile(r"\\([:\\])")


def read(source: str, settings: DataSettings) -> LabelledData:
    """Return sequences of dicts of attributes, and of labels.

    Raises
    ------
    FileFormatError
        An attribute has a number that is none; names file and line.
    """
    X: list[list[dict[str, float]]] = []
    Y: list[list[str]] = []
    starts: list[int] = []
    at_start = True
    for number, line in lines_of(source):
        if not line:
            at_start = True
            continue
        if at_start:
            X.append([])
            Y.append([])
            starts.append(number)
        at_start = False
        label, *attributes = line.split("\t")
        X[-1].append(_attributes(attributes, source, number))
        Y[-1].append(sys.intern(label))
    require_examples(source, len(X), "sequence")
    labelled = all(name for names in Y for name in names)
    return LabelledData(source, replace(settings, learnt=True), X, Y if labelled else None, starts)


def _attributes(texts: Sequence[str], source: str, number: int) -> dict[str, float]:
    """Return the attributes of a token; a name that stands there twice counts twice."""
    values: dict[str, float] = {}
    for text in texts:
        name, value = text, 1.0
        if ":" in text or "\\" in text:
            name, value = _attribute(text, source, number)
        if name:
            name = sys.intern(name)
            values[name] = values.get(name, 0.0) + value
    return values


def _attribute(text: str, source: str, number: int) -> tuple[str, float]:
    """Return name and value of an attribute with a colon or a backslash."""
    split = _COLON.search(text)
    if split is None:
        return _ESCAPED.sub(r"\1", text), 1.0
    name, value = _ESCAPED.sub(r"\1", text[: split.end() - 1]), text[split.end() :]
    try:
        weight = float(value)
    except ValueError:
        weight = float("nan")
    if not isfinite(weight):
        expected = "an attribute NAME or NAME:NUMBER"
        raise bad_line(source, number, expected, shortened(text), r"write a colon within a name as \:")
    return name, weight


def read_answers(source: str, data: LabelledData) -> Any:
    """Return the labels of a file, in which predictions are."""
    return read(source, data.settings).require_labels()


def write_answers(out: str, data: LabelledData, predicted: Sequence[Any]) -> None:
    """Write the predicted labels, a token a line, as ``crfsuite tag`` does."""
    write_text(out, (line for tags in predicted for line in (*map(str, tags), "")))


def write_data(out: str, data: LabelledData) -> None:
    """Write sequences of named features and their labels."""
    write_text(out, _lines(data))


def _lines(data: LabelledData) -> Iterator[str]:
    for i, tokens in enumerate(data.X):
        if not isinstance(tokens, list):
            raise OptionError("--to crfsuite: expected sequences of named features; others: jsonl, npz, svmlight")
        names = data.Y[i] if data.Y is not None else [""] * len(tokens)
        for token, label in zip(tokens, names, strict=True):
            yield "\t".join([_checked(str(label)), *map(_checked, _written(token))])
        yield ""


def _checked(text: str) -> str:
    if "\t" in text or "\n" in text or "\r" in text:
        raise OptionError(f"--to crfsuite: names cannot hold tabs or ends of lines, found {shortened(text)}")
    return text


def _written(token: Any) -> Iterator[str]:
    """Yield the attributes of a token."""
    named = token if isinstance(token, dict) else dict.fromkeys(token, 1.0)
    for key, value in named.items():
        name = str(key).replace("\\", "\\\\").replace(":", "\\:")
        if isinstance(value, str):  # text becomes a part of the name
            text = value.replace("\\", "\\\\").replace(":", "\\:")
            yield f"{name}\\:{text}"
        else:
            yield name if value == 1 else f"{name}:{float(value)!r}"
