"""The best state of each variable by itself."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, pointers


def top_states(worth: F64, card: I32 | I64) -> I32:
    """Return the state of largest worth of each variable, the first among equals.

    Parameters
    ----------
    worth : ndarray of float64
        Of the states of each variable, one after the other.
    card : ndarray of int, shape (n,)
        Their numbers.
    """
    if not len(card):
        return np.zeros(0, np.int32)
    first = pointers(card)[:-1]
    at_top = np.flatnonzero(worth == np.repeat(np.maximum.reduceat(worth, first), card))
    return (at_top[np.searchsorted(at_top, first)] - first).astype(np.int32)
