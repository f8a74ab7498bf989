"""Batch training: the non-linear conjugate gradient method of SciPy (Polak and Ribiere) on the coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.learning.counting.objective import CountingObjective


@dataclass(eq=False)
class Trained:
    """The result of a solver.

    Parameters
    ----------
    alpha : ndarray, shape (n, d)
    n_iterations : int
    reason : str
        Why it ended: a key of :data:`ssvm_dsl.learning.counting.report.REASONS`.
    bound : float
        The best lower bound of the objective that was met on the way.
    """

    alpha: F64
    n_iterations: int
    reason: str
    bound: float = -np.inf


def conjugate_gradient(objective: CountingObjective, tol: float, max_iter: int, max_seconds: float) -> Trained:
    """Minimise the objective until the relative gap that strong convexity certifies is at most ``tol``.

    An iteration takes two products with the Gram matrix or more, O(n^2 d).

    Parameters
    ----------
    objective : CountingObjective
    tol : float
    max_iter : int
    max_seconds : float
    """
    from scipy.optimize import minimize

    shape, end = objective.risk.truth.shape, perf_counter() + max_seconds
    trained = Trained(np.zeros(shape), 0, "")

    def evaluated(flat: F64) -> tuple[float, F64]:
        there = objective.evaluate(flat.reshape(shape))
        trained.bound = max(trained.bound, there.bound)
        return there.value, there.gradient.ravel()

    def close(value: float) -> bool:
        return value - trained.bound <= tol * abs(value)

    def check(intermediate_result: Any) -> None:
        trained.n_iterations += 1
        if close(intermediate_result.fun):
            trained.reason = "tolerance"
        elif perf_counter() > end:
            trained.reason = "seconds"
        if trained.reason:
            raise StopIteration

    options = {"maxiter": max_iter, "gtol": 0.0}
    result = minimize(evaluated, trained.alpha.ravel(), jac=True, method="CG", callback=check, options=options)
    trained.alpha = np.asarray(result.x).reshape(shape)
    if not trained.reason:  # no step at all, or one that found nothing lower
        ended = "iterations" if trained.n_iterations >= max_iter else "rounding"
        trained.reason = "tolerance" if close(result.fun) else ended
    return trained
