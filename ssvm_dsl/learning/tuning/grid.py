"""Choose parameters by cross-validation, and judge the choice by nested cross-validation.

scikit-learn's ``GridSearchCV`` and ``cross_val_score`` work on the estimators of this package, too; these functions
keep the score and the processor time of every single fit, and tell how far they are.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, ParameterGrid

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.compiler.validate import check_sequence
from ssvm_dsl.errors import OptionError

#: Told before each fit: the parameters, and the number of the fold.
Listener = Callable[[Mapping[str, Any], int], None]


@dataclass(frozen=True, eq=False)
class GridScores:
    """Scores of all parameters of a grid on all folds.

    Parameters
    ----------
    grid : list of dict
        Parameters, in scikit-learn's order.
    scores : ndarray, shape (n_parameters, n_folds)
        Of the estimator's ``score`` on the fold that was left out; larger is better.
    seconds : ndarray, shape (n_parameters, n_folds)
        Processor time of each fit.
    """

    grid: list[dict[str, Any]]
    scores: F64
    seconds: F64

    @property
    def best(self) -> dict[str, Any]:
        """The parameters with the best mean score; the first of equals."""
        return self.grid[int(self.scores.mean(axis=1).argmax())]


@dataclass(frozen=True, eq=False)
class NestedScores:
    """What parameters chosen by cross-validation are worth on examples that the choice has not seen.

    Parameters
    ----------
    scores : ndarray, shape (n_folds,)
        On each outer fold, of a fit on the others with the parameters that were best in an inner cross-validation.
    chosen : list of dict
        These parameters.
    inner : list of GridScores
        The inner cross-validations.
    """

    scores: F64
    chosen: list[dict[str, Any]]
    inner: list[GridScores]


def grid_scores(
    estimator: BaseEstimator,
    grid: Mapping[str, Sequence[Any]],
    X: Sequence[Any],
    Y: Sequence[Any],
    folds: int = 5,
    listener: Listener | None = None,
) -> GridScores:
    """Return the score of each parameter combination on each fold.

    Parameters
    ----------
    estimator : estimator
        Cloned for each fit.
    grid : mapping of str to sequence
        Values to try, by parameter, e.g. ``{"C": [0.1, 1.0, 10.0]}``.
    X, Y : list
        Examples; a fold is a run of examples, in the given order.
    folds : int
    listener : callable, optional
        Told before each fit.

    Raises
    ------
    OptionError
        The grid is empty, or there are fewer examples than folds.
    """
    combinations, parts = list(ParameterGrid(dict(grid))), _folds(X, Y, folds)
    scores, seconds = np.zeros((2, len(combinations), folds))
    for i, parameters in enumerate(combinations):
        for k, (train, test) in enumerate(parts):
            if listener is not None:
                listener(parameters, k)
            begin = time.process_time()
            fitted = _fit(estimator, parameters, _of(X, train), _of(Y, train))
            seconds[i, k] = time.process_time() - begin
            scores[i, k] = fitted.score(_of(X, test), _of(Y, test))
    return GridScores(combinations, scores, seconds)


def nested_scores(
    estimator: BaseEstimator,
    grid: Mapping[str, Sequence[Any]],
    X: Sequence[Any],
    Y: Sequence[Any],
    outer: int = 5,
    inner: int = 5,
    listener: Listener | None = None,
) -> NestedScores:
    """Return the scores of nested cross-validation.

    On each outer fold the parameters are chosen by :func:`grid_scores` on the other folds alone, so that the scores are
    not those of the examples that the choice was made on.

    Parameters
    ----------
    estimator, grid, X, Y
        As for :func:`grid_scores`.
    outer, inner : int
        Numbers of folds.
    listener : callable, optional
        Told before each fit of the inner cross-validations.

    Raises
    ------
    OptionError
        As for :func:`grid_scores`.
    """
    scores: list[float] = []
    searches: list[GridScores] = []
    for train, test in _folds(X, Y, outer):
        searches.append(grid_scores(estimator, grid, _of(X, train), _of(Y, train), inner, listener))
        fitted = _fit(estimator, searches[-1].best, _of(X, train), _of(Y, train))
        scores.append(fitted.score(_of(X, test), _of(Y, test)))
    return NestedScores(np.array(scores), [one.best for one in searches], searches)


def _folds(X: Sequence[Any], Y: Sequence[Any], n: int) -> list[tuple[I64, I64]]:
    """Return (training, test) positions of each fold."""
    if len(check_sequence(X, "X")) != len(check_sequence(Y, "Y")):
        raise OptionError(f"X and Y are lists of one length, got {len(X)} and {len(Y)}")
    if not isinstance(n, int | np.integer) or not 2 <= n <= len(X):
        raise OptionError(f"folds: an int from 2 to the number of examples, {len(X)}, got {n!r}")
    return list(KFold(int(n)).split(np.arange(len(X))))


def _of(values: Sequence[Any], positions: I64) -> list[Any]:
    return [values[i] for i in positions.tolist()]


def _fit(estimator: BaseEstimator, parameters: Mapping[str, Any], X: list[Any], Y: list[Any]) -> Any:
    """Return a fitted clone; a fit that ends at its limit of passes is judged like any other."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(estimator).set_params(**parameters).fit(X, Y)
