"""Labels of examples that came as data frames have the index of their rows."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.frames import is_frame, with_index
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.outputs.labels import Label


def indexed(declaration: Declaration, X: Any, labels: list[Any]) -> Any:
    """Return labellings, those of data frames of pandas as series with the index of the rows they label.

    They are labels along the axis of the frame's rows; where the frame itself is the list of examples, one series of
    all.  Other labellings are left as they are.
    """
    if type(X) is list and ("pandas" not in sys.modules or not any(map(_holds_frames, X))):
        return labels
    if is_frame(X):
        single = len(declaration.outputs) == 1 and not declaration.outputs[0].dims
        if not single:
            return labels
        return with_index(np.array(labels, dtype=object if None in labels else None), X)
    if isinstance(X, Sequence) and any(map(_holds_frames, X)):
        return [_of_example(declaration, x, one) for x, one in zip(X, labels, strict=True)]
    return labels


def _holds_frames(example: Any) -> bool:
    if type(example) is np.ndarray:
        return False
    return is_frame(example) or (isinstance(example, Mapping) and any(map(is_frame, example.values())))


def _of_example(declaration: Declaration, example: Any, labels: Any) -> Any:
    """Return the labels of an example, by name where there are several outputs."""
    if isinstance(labels, dict):
        by_name = {label.name: label for label in declaration.outputs}
        return {name: _along(declaration, example, by_name[name], one) for name, one in labels.items()}
    return _along(declaration, example, declaration.outputs[0], labels)


def _along(declaration: Declaration, example: Any, label: Label, labels: Any) -> Any:
    """Return labels with the index of the frame whose rows they label, if there is one."""
    if not isinstance(labels, np.ndarray) or len(label.dims) != 1:
        return labels
    for symbol in declaration.inputs:
        if getattr(symbol, "dims", ()) != label.dims:
            continue
        frame = example.get(symbol.name) if isinstance(example, Mapping) else example
        if is_frame(frame) and isinstance(symbol, Input):
            return with_index(labels, frame)
    return labels
