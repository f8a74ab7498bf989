"""Weights ``w = s u`` with one number s, and the sum of all iterates, for steps that shrink all weights.

The shrinking of a step costs one multiplication, not one for each weight.  The sum of the iterates, each times its
share, is ``c u - v`` with two running quantities: c, the sum of share times s so far, and v, which takes c times each
change of u.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, slices
from ssvm_dsl.kernels import njit

#: A scale below this is multiplied into the weights again.
SMALL = 1e-9


class ScaledWeights(NamedTuple):
    """The weights, and the sum of those met so far; changed in place.

    Parameters
    ----------
    u : ndarray of float64, shape (dim,)
        The weights over s.
    v : ndarray of float64, shape (dim,)
        See above; of any length where no sum is kept.
    scale, share : ndarray of float64, shape (1,)
        s, and c, which is 0 where no sum is kept.
    """

    u: F64
    v: F64
    scale: F64
    share: F64

    @classmethod
    def of(cls, w: F64, summed: bool) -> ScaledWeights:
        """Return weights of scale 1 in the same memory, with or without a sum."""
        return cls(w, np.zeros(len(w) if summed else 0), np.ones(1), np.zeros(1))

    def close(self) -> None:
        """Write the sum to v, and the weights to u."""
        for part in slices(len(self.v)):
            self.v[part] = self.share[0] * self.u[part] - self.v[part]
        np.multiply(self.u, self.scale[0], out=self.u)


@njit(cache=True, nogil=True, borrowed=True)
def normalise(weights: ScaledWeights) -> float:
    """Multiply a small scale into u, and take c times u from v; return the old scale, or 1 if it is not small.

    v is not touched where no sum is kept (c = 0).
    """
    u, v, s, c = weights.u, weights.v, weights.scale[0], weights.share[0]
    if abs(s) >= SMALL:
        return 1.0
    for p in range(len(u)):
        if c != 0.0:
            v[p] -= c * u[p]
        u[p] *= s
    weights.scale[0], weights.share[0] = 1.0, 0.0
    return float(s)
