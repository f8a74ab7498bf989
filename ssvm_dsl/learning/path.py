"""Weights for every C of an interval, each certified: an approximate regularisation path.

The gap that a solution certifies at another C is known without looking at the data
(:meth:`~ssvm_dsl.StructuredSVM.certified_gap`).  So the path fits at the smallest C, asks up to which C those weights
stay good enough, and fits there again, starting from what it has (Giesen, Jaggi and Laue, "Approximating parameterized
convex optimization problems", 2012).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from ssvm_dsl.errors import OptionError, TrainingError
from ssvm_dsl.learning.estimator import StructuredSVM

F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PathPoint:
    """Weights that are good for an interval of C.

    Parameters
    ----------
    C, C_end : float
        Where they were fitted, and up to where their certified relative gap is at most epsilon.
    coef : ndarray of float64, shape (dim,)
    relative_gap : float
        Certified at ``C``.
    n_passes, seconds : float
        What the fit cost.
    """

    C: float
    C_end: float
    coef: F64
    relative_gap: float
    n_passes: float
    seconds: float


def regularization_path(
    svm: StructuredSVM, X: Sequence[Any], Y: Sequence[Any], C_min: float, C_max: float, epsilon: float = 0.01
) -> Iterator[tuple[PathPoint, StructuredSVM]]:
    """Yield (point, fitted estimator) from the smallest C to the largest.

    Together the points cover ``C_min ... C_max``: for each C in between, the weights of the point whose interval holds
    it have a certified relative gap of at most ``epsilon``.

    Parameters
    ----------
    svm : StructuredSVM
        Its model, trainer and options are used (a copy; its ``C``, ``tol`` and ``warm_start`` are set here).
    X, Y : list
        As for ``fit``.
    C_min, C_max : float
    epsilon : float
        Relative gap that is good enough.  Each fit ends at a quarter of it, the rest is for moving C.

    Raises
    ------
    OptionError
        No such interval.
    TrainingError
        The trainer gives no certificate that carries over (``bcfw`` does), or did not reach it.

    Examples
    --------
    >>> for point, fitted in regularization_path(StructuredSVM(OCR), X, Y, 1e-3, 1.0):
    ...     print(f"{point.C:.3g} - {point.C_end:.3g}: {fitted.score(X_test, Y_test):.3f}")
    """
    if not (0.0 < C_min <= C_max < np.inf and 0.0 < epsilon < 1.0):
        raise OptionError(f"expected 0 < C_min <= C_max and 0 < epsilon < 1, got {C_min!r}, {C_max!r}, {epsilon!r}")
    if svm.lam is not None:
        raise OptionError("the path is over C; leave lam out")
    fitted = clone(svm).set_params(tol=0.25 * epsilon, warm_start=True)
    C = float(C_min)
    while True:
        fitted.set_params(C=C).fit(X, Y)
        gap = fitted.certified_gap(C)
        if not gap <= 0.5 * epsilon:
            raise TrainingError(f"at C = {C:g} the fit certifies a relative gap of {gap:.2g}, not {0.25 * epsilon:.2g}")
        end = _furthest(fitted, C, float(C_max), epsilon)
        report = fitted.report_
        yield PathPoint(C, end, fitted.coef_.copy(), gap, report.n_passes, report.seconds), fitted
        if end >= C_max:
            return
        C = end


def _furthest(fitted: StructuredSVM, C: float, C_max: float, epsilon: float) -> float:
    """Return the largest C up to ``C_max`` for which the weights are good enough, by bisection on its logarithm."""
    if fitted.certified_gap(C_max) <= epsilon:
        return C_max
    low, high = np.log(C), np.log(C_max)
    for _ in range(50):
        middle = 0.5 * (low + high)
        if fitted.certified_gap(float(np.exp(middle))) <= epsilon:
            low = middle
        else:
            high = middle
    return float(np.exp(low))
