"""What fitted features of other packages have learnt: arrays of numbers, as files of models hold nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import DataError


def learnt_arrays(what: str, learnt: object) -> dict[str, NDArray[Any]]:
    """Return copies of what the method ``learn`` of a feature has returned.

    Raises
    ------
    DataError
        It is something else than a dict of arrays of numbers.
    """
    if isinstance(learnt, Mapping) and all(isinstance(name, str) for name in learnt):
        arrays = {name: np.array(value) for name, value in learnt.items()}
        if are_arrays(arrays):
            return arrays
    raise DataError(what, expected="a dict of arrays of numbers from its method learn", found=f"{learnt!r}"[:80])


def are_arrays(learnt: object) -> bool:
    """Whether something is a dict of arrays of numbers: of a feature of another package, nothing else is known."""
    if not isinstance(learnt, Mapping):
        return False
    return all(isinstance(array, np.ndarray) and array.dtype.kind in "biuf" for array in learnt.values())
