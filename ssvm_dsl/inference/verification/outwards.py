"""Bounds that hold in exact arithmetic: rounded outwards, away from the best score."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir.analysis.tolerance import Terms
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Solution


def round_outwards(program: Program, question: Question, solution: Solution) -> Solution:
    """Return the solution with bounds that rounding cannot have left below the best score.

    They then hold for exact arithmetic on the scores given (:mod:`ssvm_dsl.ir.analysis.tolerance`).
    """
    task = question.task
    if task is not Task.MARGINALS:
        score = solution.best if task is not Task.RELAXED else np.full_like(solution.bound, -np.inf)
        solution.terms = Terms.of(program, question.theta, question.examples)
        solution.bound = solution.terms.outwards(solution.bound, score, labelled=task is not Task.RELAXED)
    return solution
