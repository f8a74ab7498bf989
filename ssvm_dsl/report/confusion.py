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
        As given to ``fit`` and returned by ``predict``, of a model with one label; segments count by position.
    classes : sequence
        The class names.
    """
    number = {name: k for k, name in enumerate(classes)}
    counts = np.zeros((len(classes), len(classes)), dtype=np.int64)
    for right, mine in zip(truth, found, strict=True):
        pair = (np.ravel(np.asarray(by_position(one))).tolist() for one in (right, mine))
        for a, b in zip(*pair, strict=True):
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
