"""One fit of a search: a clone of the estimator with some parameters, and its score on examples it has not seen."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl.errors import MissedClassWarning, OptionError
from ssvm_dsl.learning.driver.certificate import FitReport
from ssvm_dsl.learning.metrics import scorer_of
from ssvm_dsl.learning.tuning.folds import Fold, part_of
from ssvm_dsl.values import Value

#: Scores a fitted estimator on data.
Scorer = Callable[..., float]


@dataclass(frozen=True, eq=False)
class Outcome(Value):
    """The outcome of one fit.

    Parameters
    ----------
    score : float
        On the examples that were left out; larger is better.
    seconds : float
        Processor time of the fit.
    converged : bool
        ``False`` if the fit's report says that it ended before reaching its tolerance.
    relative_gap : float
        The gap certified by the report; ``nan`` without a certificate or report.
    """

    score: float
    seconds: float
    converged: bool = True
    relative_gap: float = np.nan


@dataclass(frozen=True, eq=False)
class FittingTask:
    """A fit to do.

    Parameters
    ----------
    parameters : mapping
    fold : (training positions, test positions)
    name : str
        Its name in the output, e.g. ``"C=0.1, fold 2"``.
    """

    parameters: Mapping[str, Any]
    fold: Fold
    name: str


@dataclass(frozen=True, eq=False)
class Trials:
    """Fits of one estimator on parts of some data.

    Parameters
    ----------
    estimator : estimator
        Cloned for each fit.
    data : tuple of lists
        Arguments of ``fit``, usually (X, Y); ``score`` takes the first two.
    scorer : callable
    """

    estimator: Any
    data: tuple[Any, ...]
    scorer: Scorer

    @classmethod
    def of(cls, estimator: Any, data: tuple[Any, ...]) -> Trials:
        """Return the trials of an estimator: scored by its parameter ``scoring`` where it has one, else ``score``.

        Raises
        ------
        OptionError
            There is no scorer of that name.
        """
        if getattr(estimator, "scoring", None) is None:
            return cls(estimator, data, method_score)
        from sklearn.base import clone

        return cls(clone(estimator).set_params(scoring=None), data, scorer_of(estimator))

    def fitted(self, parameters: Mapping[str, Any], data: tuple[Any, ...]) -> Any:
        """Return a fitted clone; a fit is judged by its score: limits of passes and missed classes raise no warning."""
        from sklearn.exceptions import ConvergenceWarning

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", MissedClassWarning)  # its score tells
            return configured(self.estimator, parameters).fit(*data)

    def outcome(self, task: FittingTask) -> Outcome:
        """Fit on the training examples of a fold, and score on the others; errors name the fit."""
        train, test = task.fold
        try:
            data = tuple(part_of(values, train) for values in self.data)
            begin = time.process_time()
            fitted = self.fitted(task.parameters, data)
            seconds = time.process_time() - begin
            score = float(self.scorer(fitted, *(part_of(values, test) for values in self.data[:2])))
        except Exception as err:
            err.add_note(f"in the fit with {task.name}; examples are counted within it")
            raise
        report = getattr(fitted, "report_", None)
        gap = getattr(report, "relative_gap", np.nan)
        return Outcome(score, seconds, _converged(report), float(gap) if np.isfinite(gap) else np.nan)


def method_score(estimator: Any, *data: Any) -> float:
    """Return the result of the method ``score``."""
    return float(estimator.score(*data))


def _converged(report: Any) -> bool:
    """Return whether a report does not say that a limit, or a claim that proved wrong, ended the fit."""
    if isinstance(report, FitReport):
        return report.reason not in ("passes", "seconds", "withdrawn")
    return getattr(report, "reason", "") not in ("iterations", "seconds")  # of a CountingReport


def configured(estimator: Any, parameters: Mapping[str, Any]) -> Any:
    """Return a clone with other parameters; ``"trainer_options.keep"`` is an entry of a parameter that is a dict.

    Raises
    ------
    OptionError
        There is no such parameter, or it holds no entries.
    """
    from sklearn.base import clone

    made = clone(estimator)
    known = made.get_params(deep=True)
    for name, value in parameters.items():
        outer, dot, entry = name.partition(".")
        if outer not in known:
            raise OptionError(f"{type(made).__name__} has no parameter '{outer}'; it has: {', '.join(sorted(known))}")
        if not dot:
            made.set_params(**{name: value})
            continue
        before = made.get_params(deep=True)[outer]
        if before is not None and not isinstance(before, Mapping):
            raise OptionError(f"'{name}': the parameter '{outer}' is {before!r}, which has no entries")
        made.set_params(**{outer: {**(before or {}), entry: value}})
    return made
