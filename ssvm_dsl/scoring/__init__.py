"""Open a declared model once, pour in scores, get answers: what neural layers stand on.

Public: :class:`Scorer` and the :class:`ScoredAnswers` that it gives.
"""

from ssvm_dsl.scoring.answers import ScoredAnswers
from ssvm_dsl.scoring.scorer import Scorer

__all__ = ["ScoredAnswers", "Scorer"]
