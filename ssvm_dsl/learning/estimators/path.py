"""Weights for every C of an interval, each certified: an approximate regularisation path.

The gap that a solution certifies at another C is known without looking at the data
(:meth:`~ssvm_dsl.StructuredSVM.certified_gap`).  So the path fits at the smallest C, asks up to which C those weights
stay good enough, and fits there again, starting from what it has (Giesen, Jaggi and Laue, "Approximating parameterized
convex optimization problems", 2012).

With a plane ``b - v . w`` below the mean risk, which is r at the weights, both sides of the gap are known at any C: for
``x = C n``, and s the sum of the squares of v over 2 scale
(:class:`~ssvm_dsl.learning.driver.certificate.Certificate`),

    1/2 sum_j scale_j w_j^2 + x r   >=   optimum   >=   x b - x^2 s .

The right side over the left, a concave function over a positive affine one, has no valley: the C where the gap is small
enough are an interval, and bisection finds its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import DataError, OptionError, TrainingError
from ssvm_dsl.lang.arrays import is_number
from ssvm_dsl.learning.driver.certificate import REASONS
from ssvm_dsl.learning.estimator import clone, warn_unconverged
from ssvm_dsl.learning.estimators.parameters import check_validation
from ssvm_dsl.learning.estimators.regressor import StructuredRegressor
from ssvm_dsl.learning.estimators.structured import StructuredEstimator
from ssvm_dsl.learning.metrics import scorer_of
from ssvm_dsl.plugin_api.specs import TrainerSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.units import seconds_text


@dataclass(frozen=True, eq=False)
class PathPoint:
    """Weights that are good for an interval of C.

    Parameters
    ----------
    C, C_end : float
        Where they were fitted, and up to where their certified relative gap is at most epsilon; the same C twice where
        a limit has left a larger gap.
    coef : ndarray of float64, shape (dim,)
    relative_gap : float
        Certified at ``C``.
    n_passes, seconds : float
        Cost of the fit.
    validation_score : float
        Their score on the examples of ``validation``; ``nan`` without them.
    """

    C: float
    C_end: float
    coef: F64
    relative_gap: float
    n_passes: float
    seconds: float
    validation_score: float = np.nan

    def __str__(self) -> str:
        score = f", validation score {self.validation_score:.4f}" if np.isfinite(self.validation_score) else ""
        cost = f"{self.n_passes:.4g} passes, {seconds_text(self.seconds)}"
        return f"C = {self.C:.4g} to {self.C_end:.4g}: relative gap {self.relative_gap:.2e}{score} ({cost})"


@checked_call
def regularization_path(
    svm: StructuredEstimator,
    X: Sequence[Any],
    Y: Sequence[Any],
    C_min: float,
    C_max: float,
    epsilon: float = 0.01,
    *,
    values: Any = None,
    sample_weight: Any = None,
    validation: tuple[Sequence[Any], Any] | None = None,
) -> Iterator[tuple[PathPoint, StructuredEstimator]]:
    """Yield (point, fitted estimator) from the smallest C to the largest.

    Together the points cover ``C_min ... C_max``: for each C in between, the weights of the point whose interval holds
    it have a certified relative gap of at most ``epsilon``.  Where a limit of the estimator (``max_seconds`` and
    ``max_passes`` are those of each fit) ends a fit before it is good enough, its point is the last one, with the gap
    that it certifies, and a warning names the C at which the path ends.

    Parameters
    ----------
    svm : StructuredSVM or StructuredRegressor
        Its model, risk, trainer and options are used (a copy; its ``C``, ``tol`` and ``warm_start`` are set here).
        Every trainer will do that gives lower bounds, for risks of any kind and power.
    X, Y : list
        Examples and their labels, as for ``fit``.
    C_min, C_max : float
    epsilon : float
        Relative gap that is good enough.  Each fit ends at a quarter of it, the rest is for moving C.
    values : array_like, shape (n,)
        The numbers to predict, for a regressor only.
    sample_weight : array_like, shape (n,), optional
        As for ``fit``.
    validation : tuple (X, Y), or (X, values) for a regressor, optional
        Held-out examples: each point gets the score of its weights on them, by ``scoring`` of the estimator.  No
        fit ends early for it.

    Raises
    ------
    OptionError
        No such interval; parameters that a path cannot have.
    DataError
        Bad data, named with input and example.
    TrainingError
        Trainer, risk or backend give no certificate that carries over to other C.

    Examples
    --------
    >>> for point, fitted in regularization_path(StructuredSVM(OCR), X, Y, 1e-3, 1.0):
    ...     print(f"{point.C:.3g} - {point.C_end:.3g}: {fitted.score(X_test, Y_test):.3f}")
    """
    for name, value in (("C_min", C_min), ("C_max", C_max)):
        if not (is_number(value) and 0.0 < value < np.inf):
            raise OptionError(f"{name} must be a positive number, got {value!r}")
    if C_min > C_max:
        raise OptionError(f"C_min is at most C_max, got C_min={C_min!r} and C_max={C_max!r}")
    if not (is_number(epsilon) and 0.0 < epsilon < 1.0):
        raise OptionError(f"epsilon must be a number between 0 and 1, got {epsilon!r}")
    _check_estimator(svm, values)
    check_validation(svm, validation)
    labels = (Y,) if values is None else (values, Y)
    return _points(svm, (X, *labels, sample_weight), float(C_min), float(C_max), float(epsilon), validation)


def _points(
    svm: StructuredEstimator, data: tuple[Any, ...], C: float, C_max: float, epsilon: float, held_out: Any
) -> Iterator[tuple[PathPoint, StructuredEstimator]]:
    """Yield (point, fitted estimator); ``data`` are the arguments of ``fit``."""
    fitted = clone(svm).set_params(tol=0.25 * epsilon, warm_start=True)
    while True:
        fitted.set_params(C=C, scoring=None).fit(*data)  # the score is looked at after the fit
        fitted.set_params(scoring=svm.scoring)
        if fitted.report_.reason == "interrupt":  # the points so far have been given out
            raise KeyboardInterrupt
        gap = fitted.certified_gap(C)
        if np.isnan(gap):
            raise TrainingError(_why_not(fitted))
        end, report = _furthest(fitted, C, C_max, epsilon) if gap <= epsilon else C, fitted.report_
        complete = gap <= epsilon and end >= C_max
        score = _score(fitted, held_out)
        if not complete and gap > 0.5 * epsilon:  # what is left is less than moving C takes
            warn_unconverged(_cut_short(report.reason, C, end, gap, epsilon))
            complete = True
        yield PathPoint(C, end, fitted.coef_.copy(), gap, report.n_passes, report.seconds, score), fitted
        if complete:
            return
        C = end


def _check_estimator(svm: StructuredEstimator, values: Any) -> None:
    """Refuse estimators whose path is not over C, or whose trainer certifies nothing."""
    if not isinstance(svm, StructuredEstimator):
        raise OptionError(f"expected a StructuredSVM or a StructuredRegressor, got {svm!r}")
    if isinstance(svm, StructuredRegressor) and values is None:
        text = "the path of a regressor needs the numbers to predict"
        raise OptionError(f"{text}: call regularization_path(reg, X, Y, C_min, C_max, values=values)")
    if not isinstance(svm, StructuredRegressor) and values is not None:
        raise OptionError(f"values are for a StructuredRegressor, got a {type(svm).__name__}; leave them out")
    if svm.lam is not None:
        raise OptionError("the path is over C; leave lam out")
    if svm.l1:
        raise OptionError("with an L1 penalty certificates hold for one C: use grid_scores, or set l1=0 for the path")
    if svm.checkpoint is not None:
        raise OptionError("a path keeps no checkpoints: its fits are of different C; leave checkpoint out")
    if not svm._trainer().spec.certifies:
        raise TrainingError(_no_plane(svm))


def _why_not(fitted: StructuredEstimator) -> str:
    """Return why a fit certifies nothing for other values of C, and what would."""
    report = fitted.report_
    if report.withdrawn:
        return f"nothing is certified: {report.withdrawn}"
    if not report.bounded:
        text = f"backend '{report.plan.title}' gives no bounds, so that nothing is certified"
        return f"{text}; a path needs exact answers or bounds: backend='auto' with guarantee='exact' or 'bound'"
    if report.dual == -np.inf and any(scale == 0 for scale in (fitted.regularization or {}).values()):
        text = "weights that are not regularised have no lower bound of the optimum to go by"
        return f"{text}; a path needs every factor regularised (regularization above 0, e.g. 1e-3)"
    return _no_plane(fitted)


def _cut_short(reason: str, C: float, end: float, gap: float, epsilon: float) -> str:
    """Return where a path ends too early, and why."""
    limit = f"max_{reason}" if reason in ("passes", "seconds") else ""
    cause = f"{limit} ended the fit" if limit else REASONS[reason]
    text = f"the path ends at C = {end:g}: the fit at C = {C:g} certifies a relative gap of {gap:.2g}, not"
    advice = f"raise {limit} or epsilon" if limit else "raise epsilon"
    return f"{text} {0.25 * epsilon:.2g} ({cause}); {advice}, or continue from there with C_min={C:g}"


def _no_plane(svm: StructuredEstimator) -> str:
    """Return the error text for a trainer that gives no plane."""
    risk, mine = svm._risk(), svm._trainer().spec.name
    specs = [spec for spec in registry().specs(TrainerSpec) if spec.certifies and spec.name != mine]
    able = ", ".join(spec.name for spec in specs if spec.needs.covers(risk.spec, svm.power)) or "none"
    asked = f"risk '{risk.name}'" + (f" to the power {svm.power:g}" if svm.power != 1.0 else "")
    text = f"trainer '{mine}' gives no lower bound that holds for other C than its own"
    return f"{text}; these do for {asked}: {able}"


def _furthest(fitted: StructuredEstimator, C: float, C_max: float, epsilon: float) -> float:
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


def _score(fitted: StructuredEstimator, held_out: Any) -> float:
    """Return the score on held-out examples, ``nan`` without any."""
    if held_out is None:
        return np.nan
    try:
        return scorer_of(fitted)(fitted, *held_out)
    except DataError as err:
        raise err.of("validation") from err.__cause__
