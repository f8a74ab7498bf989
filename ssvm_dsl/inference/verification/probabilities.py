"""Whether marginals and fractional solutions are probabilities, and those of factors add up to those of variables."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import I64, Bools
from ssvm_dsl.ir.analysis.tolerance import Terms
from ssvm_dsl.ir.need import Caps, Guarantee, Task
from ssvm_dsl.ir.program import ONE_SPAN, Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, pointers
from ssvm_dsl.ir.solution import Marginals, Primal, Solution, Stop
from ssvm_dsl.plugin_api.hosting.contained import Fault

#: Accuracy of sums of probabilities: of exact backends, and of solvers that end with some accuracy.
EXACT_ATOL, SOLVER_ATOL = 1e-7, 1e-5

#: Roundings of the largest score that an exponential of differences of scores may be off by.
ROUNDINGS = 64.0

#: Entries of factor tables that are looked at in an answer of a bundled backend.
SPOT = 65536


def check_probabilities(
    program: Program,
    question: Question,
    solution: Solution,
    caps: Caps,
    most: float,
    fault: Fault,
) -> None:
    """Refuse marginals that are no distributions; compare factors with variables unless the backend is a heuristic.

    Parameters
    ----------
    most : float
        Check about this many entries of the tables of each group.

    Raises
    ------
    BackendFault
    """
    atol, there = SOLVER_ATOL, _there(solution, question.task, fault)
    heuristic = caps.guarantee is Guarantee.HEURISTIC
    if caps.guarantee is Guarantee.EXACT and question.task is Task.MARGINALS:
        atol = EXACT_ATOL
    if not _wrong(program, solution, question.ids(program), there, heuristic, atol, most):
        return
    size = Terms.of(program, question.theta, question.examples).size.max(initial=0.0)
    atol += ROUNDINGS * float(np.spacing(size))
    wrong = _wrong(program, solution, question.ids(program), there, heuristic, atol, most)
    if wrong:
        raise fault(wrong)


def _wrong(
    program: Program, solution: Solution, ids: I64, there: Bools, heuristic: bool, atol: float, most: float
) -> str:
    """Return the marginals that are no distributions up to an accuracy, as text; empty if there are none."""
    marginals = solution.marginals
    if marginals is None:  # log partitions alone
        return ""
    variables = members(program.var_ptr, ids)
    starts = pointers(program.card[variables])[:-1]
    if len(variables):
        live = np.repeat(there, program.var_ptr[ids + 1] - program.var_ptr[ids])
        total = np.add.reduceat(marginals.node, starts)
        wrong = live & ~((np.minimum.reduceat(marginals.node, starts) >= -atol) & (np.abs(total - 1.0) <= atol))
        if wrong.any():
            v = int(variables[np.flatnonzero(wrong)[0]])
            return f"the marginals of variable {v} are no probabilities; they sum to {float(total[wrong][0])}"
    if heuristic or not marginals.tables:
        return ""
    place = np.zeros(program.n_variables, np.int64)
    place[variables] = starts
    return _wrong_factor(program, marginals, ids, there, place, atol, most)


def _there(solution: Solution, task: Task, fault: Fault) -> Bools:
    """Return which examples have probabilities that count."""
    there = (solution.stop == Stop.FINISHED) & (solution.primal != Primal.INFEASIBLE)
    if task is Task.RELAXED:
        return np.asarray(there & (solution.primal != Primal.NONE))
    log_z = solution.log_partition
    assert log_z is not None
    if (there & np.isnan(log_z)).any() or (log_z == np.inf).any():
        raise fault("a log partition is nan or inf")
    return np.asarray(there & (log_z > -np.inf))


def _wrong_factor(
    program: Program, marginals: Marginals, ids: I64, there: Bools, place: I64, atol: float, most: float
) -> str:
    """Look at the tables of factors: not negative, and their sums are the marginals of the variables at ``place``."""
    for group, whole in zip(program.groups, marginals.tables, strict=True):
        if group.kind == ONE_SPAN:
            if not (whole >= -atol).all() or not (whole.sum(axis=1) <= 1.0 + atol).all():
                return f"what '{group.name}' says of spans are no probabilities"
            continue
        if group.of_spans:  # a row for each example: the segments of each class and length
            expected, n = whole.reshape(-1, *group.cards)[there], group.shapes.counts[ids][there]
            covered = expected.sum(axis=1) @ np.arange(1, group.cards[1] + 1)
            if not (expected >= -atol).all() or (np.abs(covered - n) > atol * np.maximum(n, 1)).any():
                return f"the expected segments of '{group.name}' do not cover the positions once"
            continue
        counts, limit = group.shapes.counts[ids], int(max(1.0, most // group.n_configs))
        enough = 1 + int(np.searchsorted(np.cumsum(counts * there), limit))  # examples whose factors are looked at
        chosen = np.flatnonzero(np.repeat(there[:enough], counts[:enough]))[:limit]
        scope = group.shapes.variables(ids[:enough])[chosen]
        table = whole[chosen].reshape(len(chosen), *group.cards)
        wrong = not (table >= -atol).all()
        for r, n_states in enumerate(group.cards):
            others = tuple(axis + 1 for axis in range(group.arity) if axis != r)
            expected = marginals.node[place[scope[:, r]][:, None] + np.arange(n_states)]
            wrong = wrong or not (np.abs(table.sum(axis=others) - expected) <= atol).all()
        if wrong:
            return f"the marginals of a factor of '{group.name}' do not add up to those of its variables"
    return ""
