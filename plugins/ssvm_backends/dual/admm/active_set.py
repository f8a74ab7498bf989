"""Projection onto the mixtures of feasible truth values, by active sets (Wolfe 1976).

A mixture is ``sum_t weight_t truth_t``, where the weights are a distribution over feasible vectors of truth values.
The kind of the constraint finds the feasible vector of the highest score.  The active set holds the vectors of positive
weight.  Their weights solve a linear system of their inner products.  A vector whose weight would become negative
leaves the set; otherwise the best vector at the slope enters.  The search starts from the set of the last call, and the
result is exact up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ssvm_dsl.ir import F64, I64, Bools

#: What the next member could still gain, relative to the size of what is there.
CLOSE = 1e-12

#: Members that enter at most, in one call; more follow in the next iteration of the caller.
MOST_STEPS = 30


class MixtureProjection:
    """The truth values whose mixture was the nearest one to the last point.

    Parameters
    ----------
    best : callable
        Returns, for a gain of each literal, the truth values of the highest total gain.
    decided : ndarray of float64, shape (l,)
        ``inf`` where a literal is true, ``-inf`` where it is false, 0 elsewhere.
    """

    def __init__(self, best: Callable[[F64], Bools | None], decided: F64) -> None:
        self._best, self._gain, self._free = best, decided.copy(), decided == 0.0
        self._truth, self._weight = np.zeros((0, int(self._free.sum()))), np.zeros(0)

    def nearest(self, point: F64, most_steps: int = MOST_STEPS) -> F64:
        """Return the nearest mixture to a point, of the literals that are not decided.

        Parameters
        ----------
        point : ndarray of float64, shape (free literals,)
        most_steps : int
        """
        if not len(self._weight):
            self._truth, self._weight = self._entering(point)[None, :], np.ones(1)
        corners = self._truth - point
        products = corners @ corners.T
        for _ in range(most_steps):
            kept, weight = _nearest_on(products, self._weight)
            self._truth, self._weight = self._truth[kept], weight[kept]
            corners, products = corners[kept], products[np.ix_(kept, kept)]
            away = self._weight @ corners
            truth = self._entering(-away)
            corner = truth - point
            beside = corners @ corner
            if away @ away - self._weight @ beside <= CLOSE * (1.0 + away @ away) or (corner == corners).all(1).any():
                break
            corners, self._truth = np.vstack([corners, corner]), np.vstack([self._truth, truth])
            products = np.block([[products, beside[:, None]], [beside, corner @ corner]])
            self._weight = np.append(self._weight, 0.0)
        return np.clip(self._weight @ self._truth, 0.0, 1.0)

    def _entering(self, slope: F64) -> F64:
        """Return the best truth values at a slope, of the literals that are not decided."""
        self._gain[self._free] = slope
        found = self._best(self._gain)
        if found is None:
            raise ValueError("best_truth() is None at some gains, and was none at others")
        return found[self._free].astype(np.float64)


def _nearest_on(products: F64, weight: F64) -> tuple[I64, F64]:
    """Return the members of positive weight in the mixture of the least norm, and the weights of all.

    Parameters
    ----------
    products : ndarray of float64, shape (m, m)
        Of each two members.
    weight : ndarray of float64, shape (m,)
        A distribution.
    """
    weight, left = weight.copy(), np.arange(len(weight))
    while True:
        try:
            wanted = np.linalg.solve(1.0 + products[np.ix_(left, left)], np.ones(len(left)))
        except np.linalg.LinAlgError:
            wanted = np.full(len(left), np.nan)
        if not np.isfinite(wanted).all() or wanted.sum() <= 0.0:  # the newest one is a combination of the others
            return left[weight[left] > 0.0], weight
        wanted /= wanted.sum()
        if (wanted > 0.0).all():
            weight[left] = wanted
            return left, weight
        mine = weight[left]
        ends = np.where(wanted <= 0.0, mine / np.maximum(mine - wanted, 1e-300), 1.0)
        mine = np.maximum(mine + ends.min() * (wanted - mine), 0.0)
        mine[np.argmin(ends)] = 0.0
        if not mine.sum() > 0.0:
            return left[weight[left] > 0.0], weight
        weight[left] = mine / mine.sum()
        left = left[mine > 0.0]
