"""A lower bound of the optimum from the aggregated planes seen so far."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.plugin_api import Objective
from ssvm_trainers._resumable import Stateful

F64 = NDArray[np.float64]


class PlaneHull(Stateful):
    """Keeps one aggregated plane, the best found convex combination of all planes given.

    Each new plane is mixed in by line search on the dual value D(v, b), which is concave: batch Frank-Wolfe.

    Parameters
    ----------
    objective : Objective
    """

    STATE = ("v", "b")

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.v: F64 | None = None
        self.b = 0.0

    def add(self, v: F64, b: float) -> float:
        """Mix in a plane and return the lower bound."""
        if self.v is None:
            self.v, self.b = v.copy(), b
        else:
            direction = v - self.v
            share = best_share(self.objective, self.v, direction, b - self.b)
            direction *= share
            self.v += direction
            self.b += share * (b - self.b)
        return self.objective.dual(self.v, self.b)


def best_share(objective: Objective, v: F64, direction: F64, rise: float) -> float:
    """Return the t in [0, 1] that maximises ``D(v + t direction, b + t rise)``, which is concave.

    Where all weights are regularised and none has a lower bound, D is a parabola,

        t = (rise - v . H direction) / (direction . H direction) ,     H = diag(1 / (lam scale)) ;

    otherwise it is found by bisection.

    Parameters
    ----------
    objective : Objective
    v, direction : ndarray of float64, shape (dim,)
    rise : float
    """
    if is_plain(objective):
        curve = objective.weights(direction)  # H direction
        bend = float(np.dot(direction, curve))
        return float(np.clip((rise - float(np.dot(v, curve))) / bend, 0.0, 1.0)) if bend > 0.0 else float(rise > 0.0)

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


def is_plain(objective: Objective) -> bool:
    """Return whether all weights are regularised and none has a lower bound."""
    return bool((objective.scale > 0).all() and (objective.lower == -np.inf).all())
