"""Early stopping: end training when the score on held-out examples has not improved for a while."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


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

    def enough(self, w: F64, n_passes: float) -> bool:
        """Look at weights, if a pass has gone by since the last look; return whether to stop."""
        if n_passes < self._next:
            return False
        self._next = np.floor(n_passes) + 1.0
        score = self.score(w)
        if score > self.best:
            self.w, self.best, self._worse = w.copy(), score, 0
        else:
            self._worse += 1
        return self._worse >= self.patience
