"""How often classes are taken for each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import DataError, OptionError


def confusion_matrix(truth: Iterable[Any], found: Iterable[Any], classes: Sequence[Any]) -> NDArray[np.int64]:
    """Return how often each true class was taken for each class; ``shape (n_classes, n_classes)``.

    Parameters
    ----------
    truth, found : lists of labels
        As given to ``fit`` and returned by ``predict``, of a model with one label; segments count by position.
    classes : sequence
        The class names.
    """
    number = {name: k for k, name in enumerate(classes)}
    counts = np.zeros((len(classes), len(classes)), dtype=np.int64)
    for i, (right, mine) in enumerate(zip(truth, found, strict=True)):
        y, predicted = (np.asarray(by_position(one)) for one in (right, mine))
        if y.shape != predicted.shape:
            raise DataError("found", example=i, expected=f"labels of shape {y.shape}", found=f"shape {predicted.shape}")
        for a, b in zip(y.ravel().tolist(), predicted.ravel().tolist(), strict=True):
            if a not in number or b not in number:
                raise OptionError(f"{a if a not in number else b!r} is not one of the classes")
            counts[number[a], number[b]] += 1
    return counts


def are_segments(labels: Any) -> bool:
    """Whether these are segments ``(start, end, class)``, at least one."""
    if not isinstance(labels, list | tuple) or not labels:
        return False
    return all(isinstance(one, list | tuple) and len(one) == 3 for one in labels)


def by_position(labels: Any) -> Any:
    """Return segments as a label of each position; other labels as they are."""
    if not are_segments(labels):
        return labels
    return [name for start, end, name in labels for _ in range(start, end)]
