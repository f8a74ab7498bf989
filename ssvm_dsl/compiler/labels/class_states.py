"""States of class names, and back."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I32, Bools
from ssvm_dsl.lang.arrays import whole_numbers
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.variables import ClassName


@lru_cache(maxsize=64)
def class_array(classes: tuple[ClassName, ...], of_objects: bool = False) -> NDArray[Any]:
    """Return class names as an array of strings or of int64, or of Python's own objects."""
    if of_objects:
        return np.array(classes, dtype=object)
    return np.array(classes, dtype=np.str_ if isinstance(classes[0], str) else np.int64)


def equal_to(flat: NDArray[Any], value: object) -> Bools:
    """Return which labels are a value of the type of the classes."""
    if isinstance(value, str):
        return np.asarray(flat == value) if flat.dtype.kind == "U" else np.zeros(len(flat), dtype=bool)
    whole, exact = whole_numbers(flat)
    return np.asarray(exact & (whole == value))


def states_of(label: Label, flat: NDArray[Any]) -> I32:
    """Return the state of each class name, -1 where it is not a class; whole numbers may be floats."""
    if label.classes is None:
        whole, exact = whole_numbers(flat)
        return np.where(exact & (whole >= 0) & (whole < label.n_states), whole, -1).astype(np.int32)
    names = class_array(label.classes)
    exact = np.asarray(flat.dtype.kind == "U")
    if names.dtype.kind != "U":
        flat, exact = whole_numbers(flat)
    elif not exact:
        return np.full(len(flat), -1, dtype=np.int32)
    order = np.argsort(names, kind="stable")
    place = np.minimum(np.searchsorted(names[order], flat), len(names) - 1)
    state = order[place]
    return np.where(exact & (names[state] == flat), state, -1).astype(np.int32)
