"""Which labels of an example are not known: ``None``, masked entries, and -1 where that is no class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ssvm_dsl.array_types import Bools
from ssvm_dsl.lang.arrays import is_masked
from ssvm_dsl.lang.outputs.labels import Label


def missing_entries(label: Label, value: Any) -> Bools | None:
    """Return which labels of an example are not known, ``None`` where all are; without axes for the whole example."""
    if value is None:
        return np.ones((), dtype=bool)
    if isinstance(value, np.ndarray) and is_masked(value):
        return np.ma.getmaskarray(value)
    marked = label.classes is None or -1 not in label.classes  # -1 is no class
    if isinstance(value, list | tuple):
        value = np.array(value, dtype=object) if _may_miss(value) else None
    elif isinstance(value, int | np.integer) and not isinstance(value, bool):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iufO":
        return None
    mask = np.asarray(value == -1) if marked and value.dtype != object else np.zeros(value.shape, dtype=bool)
    if value.dtype == object:
        flat = [one is None or (marked and _is_minus_one(one)) for one in value.ravel()]
        mask = np.array(flat, dtype=bool).reshape(value.shape)
    return mask if mask.any() else None


def _may_miss(value: Sequence[Any]) -> bool:
    """Whether a list may hold what marks a label that is not known: lists inside are looked through later."""
    return any(one is None or isinstance(one, list | tuple | np.ndarray) or _is_minus_one(one) for one in value)


def _is_minus_one(one: Any) -> bool:
    return isinstance(one, int | float | np.number) and one == -1
