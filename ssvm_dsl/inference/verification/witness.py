"""Labellings that are known hold an answer to account: no bound is below their score, nothing they solve is infeasible.

In training the truth is known, at no cost.  Otherwise there is the labelling of the best states of the variables, each
for itself; it counts where masks, constraints and scores allow it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ssvm_dsl.array_types import F64, I32, Bools
from ssvm_dsl.inference.verification.form import INFEASIBLE, refuse
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import first_largest, positions
from ssvm_dsl.ir.solution import Solution, Stop
from ssvm_dsl.plugin_api.hosting.contained import Fault

#: By what logarithms of sums may be off, whatever the scores are: exponentials have so many digits of 1.
OF_SUMS = 1e-12


def check_witness(solution: Solution, known: F64, task: Task, close: Callable[[F64, F64], Bools], fault: Fault) -> None:
    """Refuse an answer that a known labelling contradicts.

    Parameters
    ----------
    known : ndarray of float64, shape (n,)
        The score of a labelling of each example; ``-inf`` where none is known.
    close : callable
        Says of numbers which differences from them may be rounding.

    Raises
    ------
    BackendFault
    """
    there = known > -np.inf
    denied = there & (solution.primal == INFEASIBLE)
    if denied.any():
        i = int(np.flatnonzero(denied)[0])
        raise fault(f"it calls answer {i} infeasible, but there is a labelling of score {float(known[i])}")
    what, most = "bound", solution.bound
    if task is Task.MARGINALS:
        assert solution.log_partition is not None
        finished = solution.stop == Stop.FINISHED  # what was cut short has none
        what, most = "log partition", np.where(finished, solution.log_partition, np.nan)
    check_most(what, most, known, close, fault)


def check_most(what: str, most: F64, known: F64, close: Callable[[F64, F64], Bools], fault: Fault) -> None:
    """Refuse numbers, in words bounds or log partitions, that are below the score of a known labelling.

    Raises
    ------
    BackendFault
    """
    there = known > -np.inf
    with np.errstate(invalid="ignore"):
        missing = np.fmax(np.where(there, known - most, 0.0), 0.0)  # nan: it says nothing
    low = ~close(np.where(there, known, 0.0), missing)
    if what == "log partition":
        low &= missing > OF_SUMS
    refuse(low, f"its {what} {{}} is below the score {{}} of a labelling", fault, most, known)


def best_states(program: Program, question: Question) -> I32:
    """Return the best allowed state of every variable of the selected examples, packed; clamps are kept."""
    theta, examples, clamp = question.theta, question.examples, question.clamp
    variables = positions(program.var_ptr, examples)
    states = positions(program.state_ptr[program.var_ptr], examples)
    node, ptr = theta.node[states], program.own_state_ptr(examples)
    if program.allowed is not None:
        node = np.where(program.allowed[states], node, -np.inf)
    if len(ptr) == 1:
        return np.zeros(0, np.int32)
    labels = first_largest(node, ptr).astype(np.int32)
    return labels if clamp is None else np.where(clamp[variables] >= 0, clamp[variables], labels).astype(np.int32)
