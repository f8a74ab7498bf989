"""The fits that ``ssvm tune`` plans, and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from time import process_time
from typing import Any

import numpy as np

from ssvm_dsl.cli.tune.sources import TuningSource
from ssvm_dsl.errors import OptionError
from ssvm_dsl.learning.tuning.fitting import FittingTask, Outcome, Trials
from ssvm_dsl.learning.tuning.folds import Fold
from ssvm_dsl.learning.tuning.grid import GridScores, NestedScores, inner_folds, tasks_of


@dataclass(frozen=True, eq=False)
class TuningPlan:
    """All fits: of the grid on the folds, then, for nested cross-validation, of the grid within each fold.

    The outer fits of nested cross-validation, with what was chosen within a fold, are among the first.

    Parameters
    ----------
    grid : list of dict
    folds : list of (training positions, test positions)
    groups : sequence, optional
        As for the folds.
    random_state : int, optional
        What shuffled the examples.
    nested : bool
    """

    grid: list[dict[str, Any]]
    folds: list[Fold]
    groups: Any
    random_state: int | None
    nested: bool

    @cached_property
    def tasks(self) -> list[FittingTask]:
        """The fits, in the order in which they are started.

        Raises
        ------
        OptionError
            There are fewer examples (or groups) outside a fold than folds.
        """
        tasks = list(tasks_of(self.grid, self.folds))
        for k, fold in enumerate(self.folds if self.nested else []):
            try:
                within = inner_folds(fold, len(self.folds), self.groups, self.random_state)
            except OptionError as err:
                err.add_note(f"in the cross-validation that --nested makes without the examples of fold {k + 1}")
                raise
            tasks += tasks_of(self.grid, within, f" within the training examples of fold {k + 1}")
        return tasks

    @property
    def n_cells(self) -> int:
        """Number of fits of one cross-validation of the grid."""
        return len(self.grid) * len(self.folds)


@dataclass(eq=False)
class Tuned:
    """The outcomes of the fits.

    Parameters
    ----------
    source : Source
    plan : Plan
    seed : int
    outcomes : dict
        By number of the fit.
    n_kept : int
        How many of them are from a file.
    seconds, refit_seconds : float
        Wall time of the command, and processor time of the fit on all examples.
    model : estimator, optional
        Fitted on all examples.
    saved : str, optional
        Where that was written to.
    interrupted : bool
    """

    source: TuningSource
    plan: TuningPlan
    seed: int
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    n_kept: int = 0
    seconds: float = 0.0
    refit_seconds: float = 0.0
    model: Any = None
    saved: str | None = None
    interrupted: bool = False

    def _scores(self, number: int) -> GridScores:
        """Return the scores of a cross-validation: 0 that of the grid, k that within fold k - 1."""
        n = self.plan.n_cells
        outcomes = {k - number * n: one for k, one in self.outcomes.items() if k // n == number}
        return GridScores.of(self.plan.grid, len(self.plan.folds), outcomes)

    @property
    def all_scores(self) -> GridScores:
        """Scores of the grid; ``nan`` where a fit has not been made."""
        return self._scores(0)

    @property
    def scores(self) -> GridScores | None:
        """Scores of the grid; ``None`` if no entry has been tried on all folds."""
        scores = self.all_scores
        return None if np.isnan(scores.means).all() else scores

    @property
    def nested(self) -> NestedScores | None:
        """Scores of the whole procedure; ``None`` if not requested, or if some of its fits are missing."""
        if not self.plan.nested or len(self.outcomes) < len(self.plan.tasks):
            return None
        outer, inner = self.all_scores, [self._scores(k + 1) for k in range(len(self.plan.folds))]
        scores = [outer.scores[one.best_index, k] for k, one in enumerate(inner)]
        return NestedScores(np.array(scores), [one.best for one in inner], inner)

    @property
    def processor_seconds(self) -> float:
        """Of all fits."""
        return self.refit_seconds + sum(one.seconds for one in self.outcomes.values())

    def refit(self, trials: Trials) -> Any:
        """Return the best, fitted on all examples."""
        begin = process_time()
        model = trials.fitted(self.all_scores.best, trials.data)
        if getattr(getattr(model, "report_", None), "reason", "") == "interrupt":  # half a fit is not to be saved
            raise KeyboardInterrupt
        self.refit_seconds = process_time() - begin
        self.model = model
        return model
