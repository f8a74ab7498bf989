"""Recognise right answers at small cost: a finished best labelling of each example, whose numbers agree.

It makes the comparisons of :class:`~ssvm_dsl.inference.verification.verify.Verifier` in one pass, without words for
what is wrong: an answer that it does not recognise is looked at in full.
"""

from __future__ import annotations

from math import inf, isfinite

import numpy as np

from ssvm_dsl.array_types import F64, I32
from ssvm_dsl.ir.constraints import broken_constraints
from ssvm_dsl.ir.need import Caps, Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import positions
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.scores.labellings import score_states

#: Tasks that one labelling answers.
ONE_LABELLING = (Task.MAP, Task.MAP_CLAMPED)

_DTYPES = tuple(map(np.dtype, (np.int32, np.float64, np.float64, np.int8, np.int8)))
_ALL, _ANY = np.logical_and.reduce, np.logical_or.reduce


def recognised(program: Program, question: Question, solution: Solution, caps: Caps, known: F64 | None) -> F64 | None:
    """Return the scores of an answer that keeps the contract for all that can be seen here; ``None`` otherwise.

    Parameters
    ----------
    program : Program
        With the rules of its constraints.
    question : Question
    solution : Solution
        Whatever a backend returned.
    caps : Caps
        What it claims.
    known : ndarray of float64, shape (n,), optional
        Scores that labellings of the examples are known to have.
    """
    if question.task not in ONE_LABELLING or type(solution) is not Solution:
        return None
    ids, ptr = question.ids(program), question.label_ptr(program)
    n, labels, claimed, bound = len(ids), solution.labels, solution.score, solution.bound
    given = (labels, claimed, bound, solution.stop, solution.primal)
    if not _formed(given, int(ptr[-1]), n):
        return None
    if solution.stop[0] or solution.primal[0] if n == 1 else _ANY(solution.stop) or _ANY(solution.primal):
        return None  # unfinished, or infeasible
    score = score_states(program, question.theta, labels, ids, ptr)
    ruled = program.allowed is not None or question.clamp is not None
    if score is None or (ruled and _masked(program, question, labels)):
        return None
    if program.constraints and _ANY(broken_constraints(program.constraints, labels, ptr, question.examples)):
        return None
    if n == 1 and known is None:
        return score if _agrees(float(score[0]), float(claimed[0]), float(bound[0]), caps) else None
    if not _ALL(np.isfinite(score)):
        return None
    size = caps.score_atol * np.abs(score)
    above = bound - score
    right = (np.abs(score - claimed) <= size) & (above >= -size)
    if caps.guarantee is Guarantee.EXACT:
        right &= above <= 2.0 * size
    if known is not None:
        right &= known - bound <= caps.score_atol * np.abs(known)
    return score if _ALL(right) else None


def _masked(program: Program, question: Question, labels: I32) -> bool:
    """Whether labels have states that masks or clamps rule out."""
    allowed, clamp = program.allowed, question.clamp
    variables = positions(program.var_ptr, question.examples)
    if allowed is not None and not _ALL(allowed[program.state_ptr[:-1][variables] + labels]):
        return True
    return clamp is not None and bool(_ANY((clamp[variables] >= 0) & (clamp[variables] != labels)))


def _agrees(score: float, claimed: float, bound: float, caps: Caps) -> bool:
    """Whether the numbers of one example agree: a dozen operations on arrays of one number are ten microseconds."""
    if not isfinite(score):
        return False
    size, above = caps.score_atol * abs(score), bound - score
    most = 2.0 * size if caps.guarantee is Guarantee.EXACT else inf
    return abs(score - claimed) <= size and -size <= above <= most


def _formed(given: tuple[object, ...], n_labels: int, n: int) -> bool:
    """Whether labels, scores, bounds, stops and primals are arrays of the right kinds and lengths."""
    for array, dtype, size in zip(given, _DTYPES, (n_labels, n, n, n, n), strict=True):
        if type(array) is not np.ndarray or array.dtype != dtype or array.shape != (size,):
            return False
    return True
