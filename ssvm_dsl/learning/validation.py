"""Early stopping: end training when the score on held-out examples has not improved for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import OptionError, SsvmError
from ssvm_dsl.plugin_api.training import TrainingEvent

if TYPE_CHECKING:
    from ssvm_dsl.learning.learner import Learner

F64 = NDArray[np.float64]

#: A scorer ``(estimator, X, Y) -> float``, the name of one of scikit-learn's, or ``None`` for the method ``score``.
Scoring = str | Callable[[Any, Any, Any], float] | None


class Validation:
    """Looks at the score on held-out examples after each pass, and keeps the best weights.

    Parameters
    ----------
    score : callable
        The score of weights, larger is better.
    patience : int
        How many looks without a better score end training.
    """

    def __init__(self, score: Callable[[F64], float], patience: int) -> None:
        self.score, self.patience = score, patience
        self.w: F64 | None = None
        self.best = -np.inf
        self._worse, self._next = 0, 1.0

    def enough(self, w: F64, event: TrainingEvent) -> bool:
        """Look at weights, if a pass has gone by since the last look; return whether to stop.

        The event of the iteration is told the score, as ``extra["validation_score"]``.
        """
        if event.n_passes < self._next:
            return False
        self._next = np.floor(event.n_passes) + 1.0
        score = event.extra["validation_score"] = self.score(w)
        if score > self.best:
            self.w, self.best, self._worse = w.copy(), score, 0
        else:
            self._worse += 1
        return self._worse >= self.patience


def scores_of(history: Iterable[TrainingEvent]) -> dict[int, float]:
    """Return the scores on held-out examples of a fit, by number of the event that was told."""
    told = ((k, event.extra.get("validation_score")) for k, event in enumerate(history))
    return {k: score for k, score in told if score is not None}


def scorer_of(svm: Learner) -> Callable[[Learner, Any, Any], float]:
    """Return what scores an estimator on held-out examples, by its parameter ``scoring``.

    Raises
    ------
    OptionError
        There is no scorer of that name; from the scorer: it cannot score such labels, or returns no number.
    """
    from sklearn.metrics import check_scoring

    name, expected = svm.scoring, "a function (estimator, X, Y) -> float or the name of one of scikit-learn's scorers"
    try:
        scorer = check_scoring(svm, scoring=name)
    except ValueError:
        raise OptionError(f"scoring is None, {expected}, got {name!r}") from None

    def score(estimator: Learner, X: Any, Y: Any) -> float:
        try:
            found = scorer(estimator, X, Y)
        except SsvmError:
            raise
        except (ValueError, TypeError) as err:
            if not isinstance(name, str):
                raise
            hint = "give a function (estimator, X, Y) -> float"
            raise OptionError(f"scoring={name!r} does not suit these labels ({err}); {hint}") from err
        if not (isinstance(found, int | float | np.number | np.bool_) and np.isfinite(found)):
            raise OptionError(f"scoring: a finite number, larger is better, got {found!r}")
        return float(found)

    return score
