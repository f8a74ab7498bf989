"""Choose parameters by cross-validation, and judge the choice by nested cross-validation.

scikit-learn's ``GridSearchCV`` and ``cross_val_score`` work on the estimators of this package, too; these functions
keep the score, the processor time and the certificate of every single fit, and report progress.

Every fit starts from zero.  A start from the weights of the next smaller C was measured on 560 words of OCR letters
(C = 0.001, 0.01, 0.1, 1): 1.01 times the processor time for ``bcfw`` (1.04 with its cached planes taken over, too),
0.88 for ``lbfgs`` and 0.74 for ``bundle`` with log-loss, 0.77 for ``one-slack``.  It would make every score depend on
the rest of the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, Bools
from ssvm_dsl.calls import checked_call
from ssvm_dsl.compiler.inputs import check_sequence
from ssvm_dsl.errors import OptionError
from ssvm_dsl.lang.arrays import is_number
from ssvm_dsl.learning.tuning.fitting import FittingTask, Outcome, Trials
from ssvm_dsl.learning.tuning.folds import Fold, make_folds, part_of, size_of
from ssvm_dsl.notebook_tables import aligned

#: Called before each fit with the parameters and the number of the fold.
Listener = Callable[[Mapping[str, Any], int], None]


@dataclass(frozen=True, eq=False)
class GridScores:
    """Scores of all parameters of a grid on all folds.

    Parameters
    ----------
    grid : list of dict
        Parameters, in scikit-learn's order.
    scores : ndarray, shape (n_parameters, n_folds)
        On the fold that was left out; larger is better.  ``nan``: not known (yet).
    seconds : ndarray, shape (n_parameters, n_folds)
        Processor time of each fit.
    converged : ndarray of bool, shape (n_parameters, n_folds)
        ``False`` if the fit's report says that it ended before reaching its tolerance.
    relative_gaps : ndarray, shape (n_parameters, n_folds)
        Certified gaps of the reports; ``nan`` for reports without a certificate.
    """

    grid: list[dict[str, Any]]
    scores: F64
    seconds: F64
    converged: Bools
    relative_gaps: F64

    @classmethod
    def of(cls, grid: list[dict[str, Any]], n_folds: int, outcomes: Mapping[int, Outcome]) -> GridScores:
        """Return the scores of outcomes by number of the fit, all folds of the first parameters first."""
        columns = np.full((3, len(grid) * n_folds), np.nan)
        converged = np.ones(len(grid) * n_folds, dtype=bool)
        for k, one in outcomes.items():
            columns[:, k] = one.score, one.seconds, one.relative_gap
            converged[k] = one.converged
        scores, seconds, gaps = columns.reshape(3, len(grid), n_folds)
        return cls(grid, scores, seconds, converged.reshape(len(grid), n_folds), gaps)

    @property
    def means(self) -> F64:
        """The mean score of each entry of the grid; ``nan`` where a fold is missing."""
        return np.asarray(self.scores.mean(axis=1))

    @property
    def deviations(self) -> F64:
        """The standard deviation of the scores over the folds (over n_folds - 1)."""
        return np.asarray(self.scores.std(axis=1, ddof=1))

    @property
    def best_index(self) -> int:
        """Which entry has the best mean score; the first of equals.

        Raises
        ------
        OptionError
            No entry has been tried on all folds.
        """
        if np.isnan(self.means).all():
            raise OptionError("no parameters have been tried on all folds")
        return int(np.nanargmax(self.means))

    @property
    def best(self) -> dict[str, Any]:
        """The parameters with the best mean score; the first of equals."""
        return self.grid[self.best_index]

    def at_edge(self) -> dict[str, str]:
        """Return the numbers of the best entry that are the ``"smallest"`` or the ``"largest"`` of the grid.

        Better ones may lie beyond.  Parameters with a single value, or with values that are no numbers, have no edge.
        """
        found, best = {}, self.best
        for name, value in best.items():
            tried = {one[name] for one in self.grid}
            if len(tried) > 1 and all(is_number(one) for one in tried) and value in (min(tried), max(tried)):
                found[name] = "smallest" if value == min(tried) else "largest"
        return found

    def __str__(self) -> str:
        """Return a line for each entry, the best one marked: parameters, mean score, deviation, time."""
        names = list(dict.fromkeys(name for one in self.grid for name in one))
        best = None if np.isnan(self.means).all() else self.best_index
        rows = [[*names, "mean", "sd", "seconds", ""]]
        for k, one in enumerate(self.grid):
            values = [str(one.get(name, "")) for name in names]
            mean, sd, seconds = self.means[k], self.deviations[k], np.nansum(self.seconds[k])
            rows.append([*values, f"{mean:.4f}", f"{sd:.4f}", f"{seconds:.1f}", "best" if k == best else ""])
        return aligned(rows)


@dataclass(frozen=True, eq=False)
class NestedScores:
    """Scores of parameters chosen by cross-validation, on examples that the choice has not seen.

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

    def __str__(self) -> str:
        """Return the mean score, and the score and the parameters of each outer fold."""
        names = list(dict.fromkeys(name for one in self.chosen for name in one))
        rows = [["fold", "score", *names]]
        for fold, (score, one) in enumerate(zip(self.scores, self.chosen, strict=True)):
            rows.append([str(fold), f"{score:.4f}", *(str(one.get(name, "")) for name in names)])
        spread = f", sd {self.scores.std(ddof=1):.4f}" if len(self.scores) > 1 else ""
        return f"mean {self.scores.mean():.4f}{spread}\n{aligned(rows)}"


@checked_call
def grid_scores(
    estimator: Any,
    grid: Mapping[str, Sequence[Any]],
    X: Sequence[Any],
    Y: Sequence[Any],
    folds: Any = 5,
    listener: Listener | None = None,
    *,
    groups: Any = None,
    random_state: int | None = None,
) -> GridScores:
    """Return the score of each parameter combination on each fold.

    Parameters
    ----------
    estimator : estimator
        Cloned for each fit.  Scored by its parameter ``scoring`` where it has one and that is given, else by ``score``.
    grid : mapping of str to sequence
        Values to try, by parameter, e.g. ``{"C": [0.1, 1.0, 10.0]}``; ``"trainer_options.keep"`` is an entry of a
        parameter that is a dict.
    X, Y : list
        Examples.
    folds : int, splitter of scikit-learn, or iterable of (training, test) positions
    listener : callable, optional
        Called before each fit.
    groups : sequence, shape (n,), optional
        Examples of one group are in one fold.
    random_state : int, optional
        Shuffles the examples; by default a fold is a run of examples, in the given order.

    Raises
    ------
    OptionError
        The grid is empty, or there are fewer examples (or groups) than folds.
    """
    trials, parts = Trials.of(estimator, _data(estimator, X, Y)), make_folds(size_of(X), folds, groups, random_state, Y)
    return _grid_scores(trials, combinations(grid), parts, listener)


@checked_call
def nested_scores(
    estimator: Any,
    grid: Mapping[str, Sequence[Any]],
    X: Sequence[Any],
    Y: Sequence[Any],
    outer: Any = 5,
    inner: Any = 5,
    listener: Listener | None = None,
    *,
    groups: Any = None,
    random_state: int | None = None,
) -> NestedScores:
    """Return the scores of nested cross-validation.

    On each outer fold the parameters are chosen by :func:`grid_scores` on the other folds alone, so that the scores are
    not those of the examples that the choice was made on.

    Parameters
    ----------
    estimator, grid, X, Y
        As for :func:`grid_scores`.
    outer, inner : int, or splitter of scikit-learn
        Numbers of folds, or what makes them.
    listener : callable, optional
        Called before each fit of the inner cross-validations.
    groups, random_state
        As for :func:`grid_scores`, outside and inside.

    Raises
    ------
    OptionError
        As for :func:`grid_scores`.
    """
    trials, listed = Trials.of(estimator, _data(estimator, X, Y)), combinations(grid)
    scores: list[float] = []
    searches: list[GridScores] = []
    for fold in make_folds(size_of(X), outer, groups, random_state, Y):
        searches.append(_grid_scores(trials, listed, inner_folds(fold, inner, groups, random_state, Y), listener))
        scores.append(trials.outcome(FittingTask(searches[-1].best, fold, described(searches[-1].best))).score)
    return NestedScores(np.array(scores), [one.best for one in searches], searches)


def inner_folds(
    fold: Fold, n_folds: Any, groups: Any, random_state: int | None, labels: Any = None
) -> list[Fold]:  # fmt: skip
    """Return folds of the training examples of a fold, as positions among all examples."""
    own = fold[0]
    kept, known = (None if one is None else part_of(one, own) for one in (groups, labels))
    return [(own[train], own[test]) for train, test in make_folds(len(own), n_folds, kept, random_state, known)]


def combinations(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return all combinations of the values of a grid, in scikit-learn's order.

    Raises
    ------
    OptionError
        A parameter has no values.
    """
    if not isinstance(grid, Mapping):
        raise OptionError(f"grid: expected a dict of lists, e.g. {{'C': [0.1, 1.0]}}, got {grid!r}")
    for name, values in grid.items():
        if isinstance(values, str) or not hasattr(values, "__len__") or not len(values):
            raise OptionError(f"grid: expected a list of values of '{name}', got {values!r}")
    names = sorted(grid)
    return [dict(zip(names, values, strict=True)) for values in product(*(grid[name] for name in names))]


def described(parameters: Mapping[str, Any], fold: int | None = None) -> str:
    """Return parameters as one writes them, and the number of the fold, from 1."""
    parts = [f"{name}={value:g}" if is_number(value) else f"{name}={value}" for name, value in parameters.items()]
    return ", ".join([*parts, *([] if fold is None else [f"fold {fold + 1}"])]) or "the parameters given"


def tasks_of(grid: Sequence[Mapping[str, Any]], folds: Sequence[Fold], where: str = "") -> Iterator[FittingTask]:
    """Yield the fits of a grid: all folds of its first entry, of its second, and so on."""
    for parameters in grid:
        for k, fold in enumerate(folds):
            yield FittingTask(parameters, fold, described(parameters, k) + where)


def _grid_scores(
    trials: Trials, grid: list[dict[str, Any]], folds: list[Fold], listener: Listener | None
) -> GridScores:
    if listener is not None and not callable(listener):
        raise OptionError(f"listener must be a function of (parameters, fold), got {listener!r}")
    outcomes = {}
    for k, task in enumerate(tasks_of(grid, folds)):
        if listener is not None:
            listener(task.parameters, k % len(folds))
        outcomes[k] = trials.outcome(task)
    return GridScores.of(grid, len(folds), outcomes)


def _data(estimator: Any, X: Sequence[Any], Y: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the lists; refuse lists of different lengths, and objects that are not estimators."""
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        hint = f"; write {estimator.__name__}(...)" if isinstance(estimator, type) else ""
        raise OptionError(f"estimator: expected one such as StructuredSVM(Model), got {estimator!r}{hint}")
    declaration = getattr(getattr(estimator, "model", None), "declaration", None)
    if size_of(check_sequence(X, "X", declaration)) != size_of(check_sequence(Y, "Y")):
        raise OptionError(f"X and Y are lists of one length, got {size_of(X)} and {size_of(Y)}")
    return X, Y
