"""Early stopping: end training when the score on held-out examples has not improved for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.plugin_api.training import TrainingEvent


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
        """Score weights, if a pass has ended since the last score; return whether to stop.

        The event of the iteration holds the score, as ``extra["validation_score"]``.
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
    """Return the scores on held-out examples of a fit, by number of the event."""
    scores = ((k, event.extra.get("validation_score")) for k, event in enumerate(history))
    return {k: score for k, score in scores if score is not None}
