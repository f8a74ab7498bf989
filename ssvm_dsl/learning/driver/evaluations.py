"""``Evaluations``: the values of the objective that a training problem computed last, and at which weights.

Claims of a trainer about its weights are not trusted: iterates get the values that were computed here, for the
very same weights, and claims about any others are computed anew by the driver.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from zlib import adler32

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64

#: Evaluations that are remembered: trainers look at a few weights before they decide which to yield.
NEWEST = 8

#: Numbers of a long vector whose order counts in its fingerprint.
SAMPLE = 2**15

#: A risk and its bound that differ by this much, relative to the larger of the bound and 1, are the same.
PROVED = 1e-6

Fingerprint = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The objective at some weights, by one pass of the oracle over all examples.

    Parameters
    ----------
    estimate : float
        The objective with the answers that were found: its value when the oracle is exact, else at most that.
    upper : float
        Certified upper bound of the objective; equal to ``estimate`` with an exact oracle, ``nan`` with a heuristic.
    value, bound : ndarray of float64, shape (n,)
        The same of each example's risk; where nobody was asked, 0 and what is known without the oracle.
    n_late : int
        Examples whose answers time cut short, or came before.
    """

    estimate: float
    upper: float
    value: F64
    bound: F64
    n_late: int = 0


class Evaluations:
    """The newest evaluations, by weights."""

    def __init__(self) -> None:
        self._known: OrderedDict[Fingerprint, Evaluation] = OrderedDict()

    def add(self, w: F64, evaluation: Evaluation) -> None:
        """Remember an evaluation, and forget the oldest one."""
        key = fingerprint(w)
        self._known[key] = evaluation
        self._known.move_to_end(key)
        if len(self._known) > NEWEST:
            self._known.popitem(last=False)

    def at(self, w: F64) -> Evaluation | None:
        """Return the evaluation at these weights, ``None`` when it is not known."""
        return self._known.get(fingerprint(w))


def fingerprint(w: F64) -> Fingerprint:
    """Return numbers that differ for different weights, to the last bit (all but surely: they are no secret)."""
    bits = np.ascontiguousarray(w, dtype=np.float64).view(np.uint64)
    sample = np.ascontiguousarray(bits[:: max(1, len(bits) // SAMPLE)])
    return int(np.bitwise_xor.reduce(bits)), int(np.add.reduce(bits)), adler32(sample.data)


def proved_share(value: F64, bound: F64) -> float:
    """Return the share of risks that their bounds prove; ``nan`` where the oracle gives no bounds."""
    if np.isnan(bound).any():
        return np.nan
    return float(np.mean(proved(value, bound)))


def proved(value: F64, bound: F64) -> NDArray[np.bool_]:
    """Return which values reach their bounds; none where there is no bound."""
    tight: NDArray[np.bool_] = bound - value <= PROVED * np.maximum(1.0, bound)
    return tight
