"""What answers are held against: their form, probabilities, labellings that are known.

The form comes before anything reads an answer: types, shapes, codes, and numbers that contradict each other.  Marginals
and fractional solutions are probabilities, and those of factors add up to those of variables.  No bound is below the
score of a known labelling, and nothing that has one is infeasible: in training the truth is known, at no cost;
otherwise there is the labelling of the best states of the variables, each for itself; it counts where masks,
constraints and scores allow it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.ir.analysis.tolerance import Terms
from ssvm_dsl.ir.need import Caps, Guarantee, Task
from ssvm_dsl.ir.program import ONE_SPAN, Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import first_largest, members, pointers, positions
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
