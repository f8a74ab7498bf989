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
        self.plain = bool((objective.scale > 0).all() and (objective.lower == -np.inf).all())
        self.v: F64 | None = None
        self.b = 0.0

    def add(self, v: F64, b: float) -> float:
        """Mix in a plane and return the lower bound."""
        if self.v is None:
            self.v, self.b = v.copy(), b
        else:
            share = best_share(self.objective, self.v, v - self.v, b - self.b)
            self.v += share * (v - self.v)
            self.b += share * (b - self.b)
        return self.objective.dual(self.v, self.b)


def best_share(objective: Objective, v: F64, direction: F64, rise: float) -> float:
    """Return the t in [0, 1] that maximises ``D(v + t direction, b + t rise)``, which is concave, by bisection.

    Parameters
    ----------
    objective : Objective
    v, direction : ndarray of float64, shape (dim,)
    rise : float
    """

    def slope(t: float) -> float:
        return rise - float(np.dot(direction, objective.weights(v + t * direction)))

    low, high = 0.0, 1.0
    if slope(1.0) >= 0.0:
        return 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        if slope(middle) > 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)
