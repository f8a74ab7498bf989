"""Piecewise-linear functions in coordinates: what ``PLiF`` makes of a feature."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import F64


def hat_functions(x: F64, knots: F64) -> F64:
    """Return the coordinates c_p(x) of a piecewise-linear function on its knots (thesis, Eq. 4.2).

    Parameters
    ----------
    x : ndarray, shape (n,)
    knots : ndarray, shape (P,)
        Non-decreasing; of equal knots the first one takes the weight.

    Returns
    -------
    ndarray, shape (n, P)
        Rows sum to 1.
    """
    right = np.clip(np.searchsorted(knots, x, side="left"), 1, len(knots) - 1)
    left = right - 1
    # halves: the difference of two large numbers may be beyond the largest float
    gap = 0.5 * knots[right] - 0.5 * knots[left]
    share = np.clip((0.5 * x - 0.5 * knots[left]) / np.where(gap > 0, gap, 0.5), 0.0, 1.0)
    out = np.zeros((len(x), len(knots)))
    every = np.arange(len(x))
    out[every, left] = 1.0 - share
    out[every, right] += share
    return out
