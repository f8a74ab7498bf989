"""What scores an estimator on held-out examples, by its parameter ``scoring``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl.errors import OptionError, SsvmError
from ssvm_dsl.learning.metrics import SCORERS, named_scorer

#: A scorer ``(estimator, X, Y) -> float``, the name of one, or ``None`` for the method ``score``.
Scoring = str | Callable[[Any, Any, Any], float] | None


@dataclass(frozen=True, eq=False)
class NamedScorer:
    """Calls a scorer, and explains failures.

    Parameters
    ----------
    scoring : str, callable or None
        The user's value.
    scorer : callable
        The scorer, ``(estimator, X, Y) -> float``.
    """

    scoring: Scoring
    scorer: Callable[[Any, Any, Any], float]

    def __call__(self, estimator: Any, X: Any, Y: Any) -> float:
        """Return the score."""
        name = self.scoring
        try:
            score = self.scorer(estimator, X, Y)
        except SsvmError:
            raise
        except (ValueError, TypeError) as err:
            if not isinstance(name, str):
                raise
            hint = "give a function (estimator, X, Y) -> float"
            raise OptionError(f"scoring={name!r} does not suit these labels ({err}); {hint}") from err
        if not (isinstance(score, int | float | np.number | np.bool_) and np.isfinite(score)):
            raise OptionError(f"scoring: a finite number, larger is better, got {score!r}")
        return float(score)


def scorer_of(svm: Any) -> NamedScorer:
    """Return what scores an estimator on held-out examples, by its parameter ``scoring``.

    Raises
    ------
    OptionError
        There is no scorer of that name; from the scorer: it cannot score such labels, or returns no number.
    """
    if isinstance(svm.scoring, str) and svm.scoring in SCORERS:
        return NamedScorer(svm.scoring, named_scorer(svm.scoring))
    from sklearn.metrics import check_scoring

    name, expected = svm.scoring, "a function (estimator, X, Y) -> float or the name of a scorer"
    try:
        return NamedScorer(name, check_scoring(svm, scoring=name))
    except ValueError:
        known = f"({', '.join(SCORERS)}, or one of scikit-learn's)"
        raise OptionError(f"scoring is None, {expected} {known}, got {name!r}") from None
