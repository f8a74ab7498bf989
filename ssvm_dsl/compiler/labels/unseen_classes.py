"""Classes that labels hold and a model does not know: what is scored may have them, and they count as wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import Bools
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler.labels.missing_labels import signed_hint
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.variables import ClassName
from ssvm_dsl.lang.symbols import plain, show


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
