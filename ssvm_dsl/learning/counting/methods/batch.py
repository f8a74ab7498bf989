"""Training that looks at all examples at once: one linear system, or SciPy's conjugate gradients (Polak and Ribiere).

The counting objective is quadratic.  With ``K = F F'``, F of shape (n, r), r the rank of the Gram matrix, and policies
``f_i = W' F_i``, its gradient by W is 0 where

    lam W + 1/n sum_i weight_i F_i (Q_i f_i)' = 1/n sum_i weight_i F_i b_i' ,

r d equations with a positive definite matrix (Q_i and b_i: the Hessian and the negative gradient at 0 of risk i).  The
factor comes from Cholesky's method with the largest remaining diagonal entry as pivot (Fine and Scheinberg 2001), which
needs r columns of the Gram matrix only and stops at the rank; the solution is a combination of the r pivots.  (LAPACK's
``dpstrf`` needs the whole matrix.)
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.learning.counting.kernels import InputKernel
from ssvm_dsl.learning.counting.objective import CountingObjective, CountingRisk
from ssvm_dsl.memory import require_memory

#: What is left of the diagonal of the Gram matrix, relative to its largest entry, where its rank ends.
RANK_TOLERANCE = 1e-13

#: Examples whose Hessians are held at once.
BLOCK = 128


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """The optimum.

    Parameters
    ----------
    alpha : ndarray, shape (n, d)
        Its coefficients, zero but for the pivots.
    value, bound : float
        The objective, and what it cannot be below (the same but for rounding).
    n_unknowns : int
    """

    alpha: F64
    value: float
    bound: float
    n_unknowns: int


def closed_form(kernel: InputKernel, X: F64, risk: CountingRisk, lam: float, most: float = np.inf) -> ClosedForm | None:
    """Return the optimum; ``None`` if it takes more than ``most`` unknowns, or if kernels are so large beside lam that
    rounding hides it: the matrix is not positive definite then in double precision.

    Parameters
    ----------
    kernel : InputKernel
    X : ndarray of float64, shape (n, p)
    risk : CountingRisk
    lam : float
    most : float

    Raises
    ------
    TooLargeError
        The system does not fit into memory.
    """
    n, d = risk.truth.shape
    found = pivoted_cholesky(kernel, X, most / d)
    if found is None:
        return None
    F, pivots = found
    rank = F.shape[1]
    instead = "set solver='ncg' or 'sgd'"
    require_memory(16.0 * (rank * d) ** 2, f"a linear system of {rank} x {d} unknowns", instead)
    system, share = np.zeros((rank * rank, d * d)), risk.weight / n
    for lo in range(0, n, BLOCK):
        hi = min(lo + BLOCK, n)
        outer = (F[lo:hi, :, None] * (share[lo:hi, None] * F[lo:hi])[:, None, :]).reshape(hi - lo, -1)
        system += outer.T @ risk.hessians(lo, hi).reshape(hi - lo, -1)
    matrix = system.reshape(rank, rank, d, d).transpose(0, 2, 1, 3).reshape(rank * d, rank * d)
    matrix[np.diag_indices(rank * d)] += lam
    right = -F.T @ (share[:, None] * risk.gradients(np.zeros((n, d))))
    try:
        factor = cho_factor(matrix, lower=True, overwrite_a=True)
    except LinAlgError:
        return None
    W = cho_solve(factor, right.ravel()).reshape(rank, d)
    gradient = lam * W + F.T @ (share[:, None] * risk.gradients(F @ W))
    value = 0.5 * lam * float(np.vdot(W, W)) + float(share @ risk.values(F @ W))
    alpha = np.zeros((n, d))
    alpha[pivots] = solve_triangular(F[pivots], W, lower=True, trans="T")
    return ClosedForm(alpha, value, value - 0.5 * float(np.vdot(gradient, gradient)) / lam, rank * d)


def pivoted_cholesky(kernel: InputKernel, X: F64, most: float) -> tuple[F64, I64] | None:
    """Return (F, pivots) with ``K = F F'``, lower triangular at the pivots; ``None`` beyond rank ``most``."""
    left = kernel.diagonal(X)
    largest = float(left.max())
    F = np.zeros((len(X), 8))
    pivots: list[int] = []
    while len(pivots) < len(X):
        rank, at = len(pivots), int(left.argmax())
        if left[at] <= RANK_TOLERANCE * largest:
            break
        if rank + 1 > most:
            return None
        if rank == F.shape[1]:
            F = np.concatenate([F, np.zeros_like(F)], axis=1)
        column = kernel(X, X[at : at + 1])[:, 0] - F[:, :rank] @ F[at, :rank]
        column[pivots] = 0.0
        F[:, rank] = column / np.sqrt(left[at])
        left -= F[:, rank] ** 2
        pivots.append(at)
        left[pivots] = 0.0
    return F[:, : len(pivots)], np.array(pivots, dtype=np.int64)


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
