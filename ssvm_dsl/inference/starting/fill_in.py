"""Answers that a limit cut short, filled in by the host: a labelling that is found at once, a bound that always holds.

A backend that has no labelling yet when time is up says so (``Primal.NONE``); what the caller sees is the starting
labelling, with ``stop = TIME``.  So it is for backends that give bounds and have none yet.  Answers that are there are
left alone, and calls that finish cost nothing.  What is filled in goes through the verifier like everything else.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.inference.starting.labelling import Start, starting_labelling
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, positions, reduced
from ssvm_dsl.ir.solution import Primal, Solution, Stop

#: Tasks that a labelling answers.
LABELLED = frozenset({Task.MAP, Task.MAP_CLAMPED, Task.KBEST})


def filled_in(
    program: Program, question: Question, solution: Solution, guarantee: Guarantee, completes: bool = False
) -> Solution:
    """Return the answer with what a limit left out.

    Parameters
    ----------
    program : Program
        With the rules of its constraints.
    question : Question
    solution : Solution
        One of the right form.
    guarantee : Guarantee
        What the backend promises: bounds are filled in where it gives some.
    completes : bool
        Whether a labelling is shown where the search has finished without one, or with a fractional solution.
    """
    done = not (solution.stop.any() or solution.primal.any())  # finished, with a labelling of every example
    if done or question.task not in LABELLED:
        return solution
    primal = solution.primal
    early = (solution.stop == Stop.TIME) | (solution.stop == Stop.ITERATIONS)
    none, fractional = primal == Primal.NONE, primal == Primal.FRACTIONAL
    if completes and guarantee is not Guarantee.EXACT:
        without = none | fractional
    else:
        without = early & (none | fractional) if completes else early & none
    if not early.any() and not without.any():
        return solution
    bounded = np.isfinite(solution.bound) | (primal == Primal.INFEASIBLE) | (guarantee is Guarantee.HEURISTIC)
    missing, open_ended = np.flatnonzero(without), np.flatnonzero(early & ~bounded)
    if not len(missing) and not len(open_ended):
        return solution
    ids, made = question.ids(program), replace(
        solution, labels=solution.labels.copy(), score=solution.score.copy(), bound=solution.bound.copy(),
        primal=solution.primal.copy(),
    )  # fmt: skip
    if len(missing):
        some = question.replace(examples=ids[missing], task=Task.MAP)
        _add_labels(program, question, made, missing, starting_labelling(program, some))
    if len(open_ended):
        most = trivial_bound(program, question.replace(examples=ids[open_ended]))
        score = made.best[open_ended]
        made.bound[open_ended] = np.maximum(most, score)  # apart by no more than the rounding of sums
    return made


def unanswered(program: Program, question: Question, why: Stop = Stop.TIME) -> Solution:
    """Return the answer of a search that time, or Ctrl-C, did not let begin."""
    n, size = len(question.ids(program)), int(question.label_ptr(program)[-1])
    if question.task is Task.MARGINALS:
        never, none = np.full(n, np.nan), np.full(n, Primal.NONE, np.int8)
        return Solution(
            np.zeros(0, np.int32), never, never.copy(), np.full(n, why, np.int8), none, log_partition=never.copy()
        )
    rows = (question.k,) if question.task is Task.KBEST else ()
    stop, primal = np.full(n, why, np.int8), np.full(n, Primal.NONE, np.int8)
    labels, score = np.zeros((*rows, size), np.int32), np.full((*rows, n), -np.inf)
    return Solution(labels, score, np.full(n, np.nan), stop, primal)


def _add_labels(program: Program, question: Question, solution: Solution, missing: np.ndarray, start: Start) -> None:
    """Write starting labellings for some examples; those of the first row, for the k best."""
    ptr = question.label_ptr(program)
    inner = members(ptr, missing)
    labels = solution.labels if solution.labels.ndim == 1 else solution.labels[0]
    labels[inner] = start.labels
    solution.best[missing] = start.score
    there = start.score > -np.inf
    solution.primal[missing[there]] = Primal.FEASIBLE
    solution.primal[missing[start.impossible]] = Primal.INFEASIBLE
    solution.bound[missing[start.impossible]] = -np.inf


def trivial_bound(program: Program, question: Question) -> F64:
    """Return the constant, plus the best scores of all variables and the best entries of all tables.

        const + sum_v max_s node[v, s] + sum_f max_j table[f, j]

    Masks and clamps count.  Time is linear in the size of the scores.

    Parameters
    ----------
    program : Program
    question : Question

    Returns
    -------
    ndarray of float64, shape (n,)
        ``-inf`` where a variable or a factor has no state left.
    """
    ids = question.ids(program)
    total = question.theta.const[ids].copy()
    node, states = question.masked_node(program), positions(program.state_ptr[program.var_ptr], ids)
    best = reduced(np.maximum, node[states], program.own_state_ptr(ids)[:-1])
    total += _sums(best, np.diff(program.var_ptr)[ids])
    for group, tables in zip(program.groups, question.theta.tables, strict=True):
        if group.n_factors:
            rows = group.table_rows(ids)
            used = np.unique(rows) if len(rows) < len(tables) else slice(None)
            most = np.full(len(tables), -np.inf)
            most[used] = tables[used].max(axis=1)
            if group.of_spans:
                most = np.maximum(most, 0.0)  # where no segment begins
            total += _sums(most[rows], group.shapes.counts[ids])
    return total


def _sums(values: F64, counts: I64) -> F64:
    """Return the sum of each run of values."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return np.asarray(np.bincount(owner, values, len(counts)), dtype=np.float64)
