"""When a fit must end: the clock starts with the outermost call, which for ready models reads the data first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from ssvm_dsl.deadline import Deadline
from ssvm_dsl.lang.arrays import is_number


class Limited(Protocol):
    """An estimator whose fit has a limit."""

    max_seconds: float | None
    _deadline: Deadline | None


@contextmanager
def limited(estimator: Limited) -> Iterator[Deadline]:
    """Yield the deadline of a fit, which begins with the outermost call that asks for it.

    Parameters
    ----------
    estimator : Limited
        A ``max_seconds`` that is no number is refused later, with the other parameters.
    """
    if estimator._deadline is not None:
        yield estimator._deadline
        return
    seconds = estimator.max_seconds
    estimator._deadline = Deadline(np.inf if seconds is None or not is_number(seconds) else float(seconds))
    try:
        yield estimator._deadline
    finally:
        del estimator._deadline
