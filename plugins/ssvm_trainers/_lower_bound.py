"""A lower bound of the optimum from the aggregated planes seen so far."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.plugin_api import Objective

F64 = NDArray[np.float64]


class PlaneHull:
    """Keeps one aggregated plane, the best found convex combination of all planes given.

    Each new plane is mixed in by line search on the dual value D(v, b), which is concave: batch Frank-Wolfe.

    Parameters
    ----------
    objective : Objective
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.v: F64 | None = None
        self.b = 0.0

    def add(self, v: F64, b: float) -> float:
        """Mix in a plane and return the lower bound."""
        if self.v is None:
            self.v, self.b = v.copy(), b
        else:
            share = self._line_search(v - self.v, b - self.b)
            self.v += share * (v - self.v)
            self.b += share * (b - self.b)
        return self.objective.dual(self.v, self.b)

    def _line_search(self, direction: F64, rise: float) -> float:
        """Return the share of the new plane: where the derivative of D changes sign, by bisection."""
        assert self.v is not None
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            w = self.objective.weights(self.v + middle * direction)
            if rise - float(np.dot(direction, w)) > 0.0:
                low = middle
            else:
                high = middle
        return 0.5 * (low + high)
