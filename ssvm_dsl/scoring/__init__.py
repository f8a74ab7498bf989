"""Open a declared model once, pour in scores, get answers: what neural layers stand on.

Public: :class:`Scorer`, the :class:`ScoredAnswers` that it gives, and the :class:`Template` of each factor;
:func:`solve_problem` for factor graphs without a model, and its :class:`SolveAnswer`.
"""

from ssvm_dsl.inference.problems import SolveAnswer, solve_problem
from ssvm_dsl.scoring.answers import ScoredAnswers
from ssvm_dsl.scoring.scorer import Scorer
from ssvm_dsl.scoring.templates import Template

__all__ = ["ScoredAnswers", "Scorer", "SolveAnswer", "Template", "solve_problem"]
