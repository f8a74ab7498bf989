"""The best state of each variable by itself."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, first_largest, pointers


def top_states(worth: F64, card: I32 | I64) -> I32:
    """Return the state of largest worth of each variable, the first among equals.

    Parameters
    ----------
    worth : ndarray of float64
        Of the states of each variable, one after the other.
    card : ndarray of int, shape (n,)
        Their numbers.
    """
    return first_largest(worth, pointers(card)).astype(np.int32)
