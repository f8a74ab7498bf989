"""Messages of a dual bound, as backends that lower such bounds hand them out to start from later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.ir.solution import Marginals


@dataclass(frozen=True, eq=False)
class Messages:
    """Messages of some examples, in whatever layout the session that made them uses.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
        The examples.
    ptr : ndarray of int64, shape (n + 1,)
        Where the messages of each start.
    values : ndarray of float64
        Packed.
    """

    ids: I64
    ptr: I64
    values: F64

    def of(self, ids: I64, ptr: I64) -> F64:
        """Return the messages of other examples, zero where there are none."""
        if np.array_equal(self.ids, ids) and np.array_equal(self.ptr, ptr):
            return self.values.copy()
        out = np.zeros(int(ptr[-1]))
        place = {int(example): k for k, example in enumerate(self.ids)}
        for i, example in enumerate(ids):
            k = place.get(int(example))
            if k is not None:
                out[ptr[i] : ptr[i + 1]] = self.values[self.ptr[k] : self.ptr[k + 1]]
        return out


class DualBound(NamedTuple):
    """Dual bounds at messages, and where they are attained.

    Parameters
    ----------
    temperature : float
        T of soft maxima ``T log sum exp(. / T)``; 0 for plain ones.
    bound : ndarray of float64, shape (n,)
        Of each example at its messages.
    marginals : Marginals
        A subgradient of the bounds in the scores: distributions of variables and, apart from them, of factors.
    messages : Messages
    """

    temperature: float
    bound: F64
    marginals: Marginals
    messages: Messages


class Prices(Messages):
    """Messages that are worth keeping from one oracle call of training to the next: few, and dear to find.

    Problems keep those of each example, give them back with the next question about it, and store them in checkpoints.
    """
