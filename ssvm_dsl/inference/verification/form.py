"""The form of an answer: types, shapes, codes, and numbers that contradict each other, before anything reads it."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import F64, Bools
from ssvm_dsl.ir.need import Caps, Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Marginals, Primal, Solution, Stop
from ssvm_dsl.plugin_api.hosting.contained import Fault

#: Tasks that labels need not answer.
LABELS_OPTIONAL = (Task.MARGINALS, Task.RELAXED)

#: Codes of an answer, and the largest: looking at an enumeration costs more than at an array.
CODES = (("stop", Stop, int(max(Stop))), ("primal", Primal, int(max(Primal))))
FEASIBLE, INFEASIBLE = int(Primal.FEASIBLE), int(Primal.INFEASIBLE)


def check_form(program: Program, solution: Solution, question: Question, fault: Fault) -> None:
    """Refuse an answer whose parts are not arrays of the right types and shapes with known codes.

    Parameters
    ----------
    fault : callable
        Makes the error from a text.

    Raises
    ------
    BackendFault
    """
    if not isinstance(solution, Solution):
        raise fault(f"it returned {type(solution).__name__}, expected a Solution")
    task, n = question.task, len(question.ids(program))
    size = int(question.label_ptr(program)[-1])
    rows = (question.k,) if task is Task.KBEST else ()
    no_labels = task in LABELS_OPTIONAL and isinstance(solution.labels, np.ndarray) and solution.labels.size == 0
    if not no_labels:
        _array("labels", solution.labels, np.int32, (*rows, size), f"{size} variables", fault)
    _array("score", solution.score, np.float64, (*rows, n), f"{n} examples", fault)
    if task not in LABELS_OPTIONAL and np.isnan(solution.score).any():
        raise fault("a score is nan")
    _array("bound", solution.bound, np.float64, (n,), f"{n} examples", fault)
    for what, codes, largest in CODES:
        array = getattr(solution, what)
        _array(what, array, np.int8, (n,), f"{n} examples", fault)
        if array.view(np.uint8).max(initial=0) > largest:
            known = ", ".join(f"{code.name} = {code.value}" for code in codes)
            raise fault(f"{what} holds {int(array.view(np.uint8).max())}; known are {known}")
    if task in LABELS_OPTIONAL:
        _check_marginals_form(program, solution, question, fault)


def _array(what: str, array: object, dtype: type, shape: tuple[int, ...], where: str, fault: Fault) -> None:
    if type(array) is not np.ndarray:
        raise fault(f"{what}: expected an array, got a {type(array).__name__}")
    if array.dtype != dtype:
        raise fault(f"{what}: expected {np.dtype(dtype).name}, got {array.dtype}")
    if array.shape != shape:
        raise fault(f"{what}: expected shape {shape} for {where}, got {array.shape}")


def _check_marginals_form(program: Program, solution: Solution, question: Question, fault: Fault) -> None:
    task, ids = question.task, question.ids(program)
    n, marginals = len(ids), solution.marginals
    counted = f"{n} examples"
    if task is Task.MARGINALS:
        _array("log_partition", solution.log_partition, np.float64, (n,), counted, fault)
    if marginals is None and task is Task.MARGINALS:
        return  # log partitions alone were asked for: an option of some backends
    if not isinstance(marginals, Marginals):
        raise fault(f"marginals is a {type(marginals).__name__}, expected Marginals")
    starts = program.state_ptr[program.var_ptr]
    states = int((starts[ids + 1] - starts[ids]).sum())
    _array("marginals.node", marginals.node, np.float64, (states,), counted, fault)
    if not (question.tables or marginals.tables):
        return
    if len(marginals.tables) != len(program.groups):
        expected = f"one for each of {len(program.groups)} groups"
        raise fault(f"marginals.tables are {len(marginals.tables)}, expected {expected}")
    for group, table in zip(program.groups, marginals.tables, strict=True):
        shape = (int(group.answer_rows(ids).sum()), group.n_configs)
        _array(f"marginals.tables of group '{group.name}'", table, np.float64, shape, counted, fault)


def check_consistent(solution: Solution, task: Task, caps: Caps, fault: Fault) -> None:
    """Refuse numbers that contradict each other: scores without a labelling, claims without a bound.

    Raises
    ------
    BackendFault
    """
    best = solution.score if solution.score.ndim == 1 else solution.score[0]
    feasible = solution.primal == FEASIBLE
    if task not in LABELS_OPTIONAL:
        if (solution.score == np.inf).any():
            raise fault("a score is inf")
        odd = (best > -np.inf) != feasible
        if odd.any():
            i = int(np.flatnonzero(odd)[0])
            what = Primal(int(solution.primal[i])).name
            raise fault(f"it calls answer {i} {what} and gives it score {float(best[i])}")
    if task is Task.MARGINALS or caps.guarantee is Guarantee.HEURISTIC:
        return
    missing = np.isnan(solution.bound)
    if not missing.any():
        return
    missing &= (solution.stop == Stop.FINISHED) & (solution.primal != Primal.INFEASIBLE)
    if missing.any():
        claim = "exactness" if caps.guarantee is Guarantee.EXACT else "certified bounds"
        refuse(missing, f"it claims {claim} but its bound nan differs from its score {{}}", fault, best)


def refuse(wrong: Bools, text: str, fault: Fault, *numbers: F64) -> None:
    """Raise where an answer is wrong; the text has a place for a number of each kind, those of the first such answer.

    Raises
    ------
    BackendFault
    """
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        raise fault(f"{text.format(*(float(each[i]) for each in numbers))} (answer {i})")
