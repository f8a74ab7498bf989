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
from ssvm_dsl.learning.check_parameters import is_number
from ssvm_dsl.learning.estimator import StructuredSVM
from ssvm_dsl.plugin_api.specs import TrainerSpec
from ssvm_dsl.registry import registry

F64 = NDArray[np.float64]

#: Trainers that tell the plane behind their lower bound, whose bound follows for every C.
CARRIERS = ("bcfw", "smo", "eg", "extragradient", "lp-dual-qp")


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
        Trainer, risk or backend give no certificate that carries over to other C, or the fit did not reach it.

    Examples
    --------
    >>> for point, fitted in regularization_path(StructuredSVM(OCR), X, Y, 1e-3, 1.0):
    ...     print(f"{point.C:.3g} - {point.C_end:.3g}: {fitted.score(X_test, Y_test):.3f}")
    """
    for name, value in (("C_min", C_min), ("C_max", C_max)):
        if not (is_number(value) and 0.0 < value < np.inf):
            raise OptionError(f"{name} is a positive number, got {value!r}")
    if C_min > C_max:
        raise OptionError(f"C_min is at most C_max, got C_min={C_min!r} and C_max={C_max!r}")
    if not (is_number(epsilon) and 0.0 < epsilon < 1.0):
        raise OptionError(f"epsilon is a number between 0 and 1, got {epsilon!r}")
    if svm.lam is not None:
        raise OptionError("the path is over C; leave lam out")
    fitted = clone(svm).set_params(tol=0.25 * epsilon, warm_start=True)
    C = float(C_min)
    while True:
        fitted.set_params(C=C).fit(X, Y)
        gap = fitted.certified_gap(C)
        if np.isnan(gap):
            raise TrainingError(_why_not(fitted))
        if not gap <= 0.5 * epsilon:
            text = f"at C = {C:g} the fit certifies a relative gap of {gap:.2g}, not {0.25 * epsilon:.2g}"
            raise TrainingError(f"{text}; raise max_passes or max_seconds, or epsilon")
        end = _furthest(fitted, C, float(C_max), epsilon)
        report = fitted.report_
        yield PathPoint(C, end, fitted.coef_.copy(), gap, report.n_passes, report.seconds), fitted
        if end >= C_max:
            return
        C = end


def _why_not(fitted: StructuredSVM) -> str:
    """Return why a fit certifies nothing for other values of C, and what would."""
    report = fitted.report_
    if not report.certified:
        text = f"backend '{report.plan.backend}' gives no bounds, so that nothing is certified"
        return f"{text}; a path needs exact answers or bounds: backend='auto' with guarantee='exact' or 'bound'"
    needs = {spec.name: spec.needs for spec in registry().specs(TrainerSpec)}
    able = [name for name in CARRIERS if name in needs and needs[name].covers(fitted.risk, fitted.power)]
    text = f"trainer '{report.trainer}' gives no lower bound that holds for other C than its own"
    if able:
        return f"{text}; these do for risk '{fitted.risk}': {', '.join(able)}"
    return f"{text}, and none does for risk '{fitted.risk}' (power {fitted.power:g}); fit each C for itself"


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
