"""A lower bound of the optimum from the aggregated planes seen so far."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ssvm_dsl.ir import F64, slices
from ssvm_dsl.plugin_api import Objective
from ssvm_trainers.shared.resumable import NUMBERS, Stateful, StateRule

#: Relative error of a bound: some tens of roundings.
ROUNDING = 1e-14

#: Evaluated mixtures with a new plane under an L1 penalty; later planes make up for the error of few evaluations.
MIXTURES = 12

#: The golden section.
GOLDEN = 0.5 * (5.0**0.5 - 1.0)


class PlaneHull(Stateful):
    """Keeps one aggregated plane: the best convex combination found of all planes.

    Each new plane is mixed in by line search on the dual value D(v, b), which is concave: batch Frank-Wolfe.

    Parameters
    ----------
    objective : Objective
    """

    v: Annotated[F64 | None, StateRule(shape=("dim",), optional=True)]
    b: Annotated[float, NUMBERS]

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.v: F64 | None = None
        self.b = 0.0

    @property
    def plane(self) -> tuple[F64, float] | None:
        """The plane (v, b), not a copy; ``None`` before the first."""
        return None if self.v is None else (self.v, self.b)

    def add(self, v: F64, b: float) -> float:
        """Mix in a plane and return the lower bound; a plane that is not finite is left out."""
        with np.errstate(over="ignore", invalid="ignore"):
            known = bool(np.isfinite(b) and np.isfinite(np.dot(v, v)))
        if not known:
            return self._value()
        if self.v is None:
            self.v, self.b = v.copy(), b
        else:
            share = self._share(v, b)
            for part in slices(len(v)):  # not v + share (other - v): a large v would leave its rounding behind
                self.v[part] *= 1.0 - share
                self.v[part] += share * v[part]
            self.b = (1.0 - share) * self.b + share * b
        return self._value()

    def _share(self, v: F64, b: float) -> float:
        """Return the share of a new plane in the mixture."""
        assert self.v is not None
        if not self.objective.l1:
            return best_share(self.objective, self.v, v, b - self.b)
        return best_scaled_share(self.objective, (self.v, self.b), (v, b))

    def _value(self) -> float:
        """Return the lower bound, less the largest rounding error of its sums and products."""
        if self.v is None:
            return -np.inf
        value = self.objective.bound(self.v, self.b)
        return value - ROUNDING * (2.0 * abs(self.b) + abs(value)) if np.isfinite(value) else -np.inf


def best_share(objective: Objective, v: F64, other: F64, rise: float) -> float:
    """Return the t in [0, 1] that maximises ``D(v + t (other - v), b + t rise)``, which is concave.

    Where all weights are regularised and none has a lower bound, D is a parabola; with ``d = other - v``,

        t = (rise - v . H d) / (d . H d) ,     H = diag(1 / (lam scale)) ;

    otherwise it is found by bisection.

    Parameters
    ----------
    objective : Objective
    v, other : ndarray of float64, shape (dim,)
    rise : float
    """
    if is_plain(objective):
        fall, bend = 0.0, 0.0
        for part in slices(len(v)):
            direction = other[part] - v[part]
            curve = direction / (objective.lam * objective.scale[part])
            fall += float(np.dot(v[part], curve))
            bend += float(np.dot(direction, curve))
        return float(np.clip((rise - fall) / bend, 0.0, 1.0)) if bend > 0.0 else float(rise > 0.0)
    direction = other - v

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


def best_scaled_share(objective: Objective, plane: tuple[F64, float], new: tuple[F64, float]) -> float:
    """Return the t in [0, 1] at which ``bound`` of the mixture is largest, about; by golden sections.

    Planes whose bound is at least some number above 0 are a convex set, so that bounds along a line have one top.
    Weights whose slopes are within the threshold on both planes count for none of them.
    """
    one_plane, other = plane[0], new[0]
    counts = np.flatnonzero(np.maximum(np.abs(one_plane), np.abs(other)) > objective.l1 * objective.scale)
    if len(counts) < len(other):
        objective, one_plane, other = objective.of_some(counts), one_plane[counts], other[counts]

    def value(t: float) -> float:
        return objective.bound((1.0 - t) * one_plane + t * other, (1.0 - t) * plane[1] + t * new[1])

    low, high = 0.0, 1.0
    one, two = 1.0 - GOLDEN, GOLDEN
    at_one, at_two = value(one), value(two)
    for _ in range(MIXTURES):
        if at_one >= at_two:
            high, two, at_two = two, one, at_one
            one = high - GOLDEN * (high - low)
            at_one = value(one)
        else:
            low, one, at_one = one, two, at_two
            two = low + GOLDEN * (high - low)
            at_two = value(two)
    shares = {0.0: value(0.0), 1.0: value(1.0), one: at_one, two: at_two}
    return max(shares, key=lambda t: shares[t])


def is_plain(objective: Objective) -> bool:
    """Return whether all weights are regularised by squares alone and none has a lower bound."""
    return bool(not objective.l1 and (objective.scale > 0).all() and (objective.lower == -np.inf).all())
