"""Batches whose shapes were met before: where the scores of each array go is known, only the scores are looked at."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.scoring.batch import Pouring, Sizes
from ssvm_dsl.scoring.grounded_batch import GroundedBatch

#: Types of arrays that are taken as they are.
FLOATS = (np.dtype(np.float64), np.dtype(np.float32))

_SUM = np.add.reduce


class BatchLayout(NamedTuple):
    """How the scores of a batch lie in arrays of some shapes.

    Parameters
    ----------
    grounded : GroundedBatch
        The model, laid over the batch.
    sizes : Sizes
    pourings : dict of str to Pouring
        By template.
    """

    grounded: GroundedBatch
    sizes: Sizes
    pourings: dict[str, Pouring]

    def theta(self, arrays: Mapping[str, Any]) -> Theta:
        """Return the Theta of scores, once they are found to be scores.

        Whatever is wrong with one of them shows in the sum of all, but for signs.

        Raises
        ------
        DataError
            A score is nan, infinite or of the wrong sign: names the template and the example.
        """
        packed = {name: one.packed(arrays[name]) for name, one in self.pourings.items()}
        with np.errstate(invalid="ignore", over="ignore"):
            theta = self.grounded.theta(packed)
            sound = isfinite(_SUM(theta.node) + _SUM(theta.pool))
        for name, one in self.pourings.items():
            if not sound or one.template.nonneg:
                one.check(packed[name])
        return theta


def signature(scores: object, lengths: object, mask: object) -> Any:
    """Return the key of the layout of a batch of arrays; ``None`` for lists, whose layout is not cached."""
    if type(scores) is not dict:
        return None
    parts: list[Any] = []
    for name, value in scores.items():
        if type(name) is not str or type(value) is not np.ndarray or value.dtype not in FLOATS:
            return None
        parts.append((name, value.shape))
    for given in (lengths, mask):
        named = given if isinstance(given, Mapping) else {"": given}
        for name, value in named.items():
            try:
                array = None if value is None else np.asarray(value)
            except ValueError:  # lists of different lengths, which are refused later
                return None
            parts.append(None if array is None else (str(name), array.dtype.str, array.shape, array.tobytes()))
    return tuple(parts)
