"""Labels without a state: those that are not known, and classes that a model does not know.

Not known are ``None``, nan, masked entries, and the value that the label declares as unknown.  What is scored may have
classes that training never saw: they count as wrong.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import Bools
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.lang.arrays import is_masked
from ssvm_dsl.lang.frames import is_gap
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.variables import ClassName
from ssvm_dsl.lang.symbols import plain, show

#: What the habit of other libraries means by "not known", or by the first of two classes.
MINUS_ONE = -1


def missing_entries(label: Label, value: Any) -> Bools | None:
    """Return which labels of an example are not known, ``None`` where all are; without axes for the whole example."""
    if value is None or (not hasattr(value, "__len__") and is_gap(value)):
        return np.ones((), dtype=bool)
    marker = label.unknown
    if isinstance(value, np.ndarray) and is_masked(value):
        return np.asarray(np.ma.getmaskarray(value) | _marked(np.ma.getdata(value), marker))
    if isinstance(value, str) and label.dims:
        value = list(value) if isinstance(marker, str) and marker in value else None
    if isinstance(value, list | tuple):
        value = np.array(value, dtype=object) if _may_miss(value, marker) else None
    elif marker is not None and isinstance(value, str | int | float | np.generic):
        value = np.array(plain(value), dtype=object)
    if not isinstance(value, np.ndarray) or (marker is None and value.dtype.kind not in "Of"):
        return None
    mask = _marked(value, marker)
    return mask if mask.any() else None


def _marked(array: Any, marker: ClassName | None) -> Bools:
    """Return which entries of an array are ``None``, nan or the value that marks what is not known."""
    if array.dtype == object:
        flat = [is_gap(one) or is_marker(one, marker) for one in array.ravel()]
        return np.array(flat, dtype=bool).reshape(array.shape)
    gaps = np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, dtype=bool)
    kinds = "U" if isinstance(marker, str) else "iuf"
    if marker is None or array.dtype.kind not in kinds:
        return np.asarray(gaps)
    return np.asarray(gaps | (array == marker))


def _may_miss(value: Any, marker: ClassName | None) -> bool:
    """Whether a list may hold marks of unknown labels: nested lists are searched later."""
    return any(
        one is None or isinstance(one, list | tuple | np.ndarray) or is_gap(one) or is_marker(one, marker)
        for one in value
    )  # fmt: skip


def is_marker(one: Any, marker: ClassName | None) -> bool:
    """Whether one entry is the value that marks what is not known; ints may be floats, but no digits."""
    if marker is None or isinstance(one, bool | np.bool_):
        return False
    kinds = str if isinstance(marker, str) else (int, float, np.number)
    return isinstance(one, kinds) and bool(one == marker)


def signed_hint(label: Label, value: object) -> str:
    """Return what to do about a -1 where it is no class: it has two meanings elsewhere, none of them is guessed."""
    if isinstance(value, bool | str) or value != MINUS_ONE or label.unknown is not None:
        return ""
    unknown = f"if it means not known, declare unknown={MINUS_ONE} (None and masked entries always mean it)"
    if label.n_states == 2 and label.classes is None and not label.pointer:
        axes = "".join(f"{dim.name}, " for dim in label.dims)
        signed = f"labels of -1 and 1 are the classes 0 and 1 here: pass np.where({label.name} > 0, 1, 0), or declare"
        return f"{signed} Label({axes}[-1, 1]); {unknown}: Label({axes}2, unknown={MINUS_ONE})"
    return unknown


@dataclass(frozen=True, eq=False)
class UnseenClasses:
    """Labels of classes that the model does not know.

    Parameters
    ----------
    variables : ndarray of bool, shape (V,)
        Which variables have such a class.
    counts : Counter
        How often each of these classes occurs.
    """

    variables: Bools
    counts: Counter[ClassName] = field(default_factory=Counter)

    def take(self, label: Label, wrong: NDArray[np.bool_], values: NDArray[Any]) -> Bools:
        """Count the values that may be classes; return which of those that are none are left."""
        left = np.zeros(len(wrong), dtype=bool)
        for at in np.flatnonzero(wrong).tolist():
            value = plain(values[at])
            if may_be_class(label, value):
                self.counts[value] += 1
            else:
                left[at] = True
        return left


def may_be_class(label: Label, value: Any) -> bool:
    """Whether a value is of the kind of a label's classes, so that only training lacked it."""
    from unicodedata import normalize

    if signed_hint(label, value):
        return False
    if label.classes is None or not isinstance(label.classes[0], str):
        return isinstance(value, int) and not isinstance(value, bool)
    if not isinstance(value, str):
        return False
    return normalize("NFC", value) not in {normalize("NFC", str(name)) for name in label.classes}


def unseen_text(counts: Counter[ClassName]) -> str:
    """Return what to say of labels whose classes training never saw; nothing if there are none.

    Parameters
    ----------
    counts : Counter
        How often each class occurs.
    """
    n = counts.total()
    if not n:
        return ""
    listed = ", ".join(f"{show(name)}: {k}" for name, k in counts.most_common(5))
    listed += ", ..." if len(counts) > 5 else ""
    are = "label is of a class" if n == 1 else "labels are of classes"
    return f"{n} {are} that training never saw ({listed}); {'it counts' if n == 1 else 'they count'} as wrong"


def warn_of_unseen(counts: Counter[ClassName]) -> None:
    """Warn of labels whose classes training never saw, if there are any."""
    if text := unseen_text(counts):
        warn_caller(text)
