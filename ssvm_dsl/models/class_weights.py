"""``class_weight`` of ready models: how much the classes count, as numbers by class or ``"balanced"``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import OptionError
from ssvm_dsl.lang.arrays import is_number
from ssvm_dsl.lang.symbols import show

#: All classes count the same, however many labels they have: n / (number of classes * labels of the class).
BALANCED = "balanced"


def counts_of(classes: Sequence[Any], labels: Iterable[Any]) -> F64:
    """Return how many labels each class has in all examples, arrays or lists of them; what is no class is left out."""
    counted: Counter[Any] = Counter()
    for one in labels:
        counted.update(one if isinstance(one, list | tuple) else np.ravel(np.asarray(one)).tolist())
    return np.array([counted[name] for name in classes], dtype=np.float64)


def weights_of_classes(class_weight: Any, classes: Sequence[Any], counts: F64) -> F64:
    """Return the weight of each class.

    Parameters
    ----------
    class_weight : "balanced" or mapping
        Numbers by class; 1 for classes that are not mentioned.
    classes : sequence
    counts : ndarray, shape (n_classes,)
        Number of labels of each class.

    Raises
    ------
    OptionError
        It is something else, names what is no class, or a weight is negative or not finite.
    """
    if isinstance(class_weight, str) and class_weight == BALANCED:
        there = counts > 0
        return np.where(there, counts.sum() / (len(classes) * np.where(there, counts, 1.0)), 1.0)
    if not isinstance(class_weight, Mapping):
        raise OptionError(f"class_weight is None, 'balanced' or a dict of numbers by class, got {class_weight!r}")
    given = {key.item() if isinstance(key, np.generic) else key: value for key, value in class_weight.items()}
    unknown = [key for key in given if key not in classes]
    if unknown:
        raise OptionError(f"class_weight: {show(unknown[0])} is no class; these are: {', '.join(map(show, classes))}")
    for key, value in given.items():
        if not (is_number(value) and 0 <= value < np.inf):
            raise OptionError(f"class_weight: a non-negative number for {show(key)}, got {value!r}")
    return np.array([float(given.get(name, 1.0)) for name in classes])
