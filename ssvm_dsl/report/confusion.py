"""How often classes are taken for each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import OptionError


def confusion_matrix(truth: Iterable[Any], found: Iterable[Any], classes: Sequence[Any]) -> NDArray[np.int64]:
    """Return how often each true class was taken for each class; ``shape (n_classes, n_classes)``.

    Parameters
    ----------
    truth, found : lists of labels
        As given to ``fit`` and returned by ``predict``, of a model with one label.
    classes : sequence
        The class names.
    """
    number = {name: k for k, name in enumerate(classes)}
    counts = np.zeros((len(classes), len(classes)), dtype=np.int64)
    for right, mine in zip(truth, found, strict=True):
        for a, b in zip(np.ravel(np.asarray(right)).tolist(), np.ravel(np.asarray(mine)).tolist(), strict=True):
            if a not in number or b not in number:
                raise OptionError(f"{a if a not in number else b!r} is not one of the classes")
            counts[number[a], number[b]] += 1
    return counts
