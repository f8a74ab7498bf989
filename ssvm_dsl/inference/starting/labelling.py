"""The labelling that a search begins with: best states, repaired where tables and constraints rule them out.

A labelling is looked for in milliseconds, so that it is there when a limit ends a search at any moment:

1. every variable takes its best state that masks and clamps allow;
2. where tables rule that out, states are taken one after the other so that none is ruled out
   (:mod:`ssvm_dsl.kernels.propagation`): always possible on forests;
3. where constraints are broken, their kinds say what keeps them (:class:`~ssvm_dsl.plugin_api.StartingKind`), a few
   rounds where they share variables;
4. what is left is given to an integer program without an objective, if it is small, for a tenth of a second.

Only where finding any labelling is hard may it stay unknown.

Answers that a limit cut short are filled in by the host.  A backend that has no labelling yet when time is up says so
(``Primal.NONE``); what the caller sees is the starting labelling, with ``stop = TIME``, and a bound that always holds.
So it is for backends that give bounds and have none yet.  Answers that are there are left alone, and calls that finish
cost nothing.  What is filled in goes through the verifier like everything else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.errors import PluginError
from ssvm_dsl.inference.starting.repair import HardFactors, Repair
from ssvm_dsl.inference.verification.checks import best_states
from ssvm_dsl.ir.constraints import ConstraintGroup, LinearRows, broken_constraints
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, owners, positions, reduced
from ssvm_dsl.ir.solution import Primal, Solution, Stop
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.loading import loading
from ssvm_dsl.scores.labellings import score_labels

#: Seconds after which repairs end with what they have, for all examples of a call; and for integer programs.
REPAIR_SECONDS, SEARCH_SECONDS = 0.5, 0.1


@dataclass(frozen=True, eq=False)
class Start:
    """A labelling of each example, where one was found.

    Parameters
    ----------
    labels : ndarray of int32
        Packed over the examples asked for; any states where there is none.
    score : ndarray of float64, shape (n,)
        ``-inf`` where there is none.
    impossible : ndarray of bool, shape (n,)
        Whether it is proved that there is none.
    """

    labels: I32
    score: F64
    impossible: Bools


def starting_labelling(program: Program, question: Question) -> Start:
    """Return a labelling of each example asked for, found at once.

    Parameters
    ----------
    program : Program
        With the rules of its constraints.
    question : Question
        Its scores, examples and clamp count.
    """
    ids, ptr = question.ids(program), question.label_ptr(program)
    labels, node = best_states(program, question), question.masked_node(program)
    states = positions(program.state_ptr[program.var_ptr], ids)
    own, at = node[states], _entries(program, ids, labels)
    bad = score_labels(program, question.theta, labels, ids) == -np.inf
    bad |= _any_of(own[at] == -np.inf, ptr)
    if program.constraints:
        bad |= broken_constraints(program.constraints, labels, ptr, ids)
    impossible = np.zeros(len(ids), dtype=bool)
    if bad.any():
        some = np.flatnonzero(bad)
        inner = members(ptr, some)
        sub, theta = _part(program, question, node, ids[some])
        repaired = _repaired(sub, theta, labels[inner])
        labels[inner], bad[some], impossible[some] = repaired
    score = score_labels(program, question.theta, labels, ids)
    return Start(labels, np.where(bad, -np.inf, score), impossible)


def _entries(program: Program, ids: I64, labels: I32) -> I64:
    """Return where the state of each variable is in the states of the examples."""
    return np.asarray(program.own_state_ptr(ids)[:-1] + labels)


def _any_of(flags: Bools, ptr: I64) -> Bools:
    """Return for each example whether a flag of one of its variables is set."""
    return np.bincount(owners(ptr)[flags], minlength=len(ptr) - 1) > 0


def _part(program: Program, question: Question, node: F64, ids: I64) -> tuple[Program, Theta]:
    """Return the program of some examples, and its scores under masks and clamps."""
    theta = question.theta
    if len(ids) == program.n_examples and (ids == np.arange(len(ids))).all():
        return program, Theta(node, theta.pool, theta.tables, theta.const)
    sub = program.take(ids)
    states = members(program.state_ptr[program.var_ptr], ids)
    return sub, Theta(node[states], theta.pool, theta.tables, theta.const[ids])


def _repaired(program: Program, theta: Theta, labels: I32) -> tuple[I32, Bools, Bools]:
    """Return (labels, which examples have none yet, and which are proved to have none)."""
    out, until = labels, Deadline(REPAIR_SECONDS)
    hard, ptr = HardFactors.of(program, theta), program.var_ptr
    alive = reduced(np.maximum, theta.node, program.state_ptr[:-1])
    impossible = _any_of(alive == -np.inf, ptr)
    if hard.n_factors:
        out, dead = hard.labels(theta.node)
        impossible |= _any_of(dead, ptr)
    every = Repair(program, theta, out, hard)
    bad = ~every.run(until, rounds=1)
    out = every.labels
    for i in np.flatnonzero(bad & ~impossible).tolist() if program.constraints else []:
        one = every.example(i)
        if one.run(until).all():
            out[slice(*ptr[i : i + 2].tolist())], bad[i] = one.labels, False
    search = Deadline(SEARCH_SECONDS)
    for i in np.flatnonzero(bad & ~impossible).tolist():
        one = every.example(i)
        states = by_rows(one.program, one.theta, search)
        if states is not None:
            out[slice(*ptr[i : i + 2].tolist())], bad[i] = states, False
    return out, bad, impossible


#: States, literals and joint states that are ruled out, at most: rows are built in Python.
MOST_STATES, MOST_LITERALS, MOST_CONFIGS = 5_000, 1_000, 20_000


def by_rows(program: Program, theta: Theta, until: Deadline) -> I32 | None:
    """Return a labelling that keeps masks, tables and constraints; ``None`` where none is found in time.

    There is a binary column for each state.  The rows of the constraints are those of their kinds
    (:class:`~ssvm_dsl.ir.LinearRows`); a joint state that is ruled out has a row that not all of its states are taken.

    Parameters
    ----------
    program : Program
        One example, with the rules of its constraints.
    theta : Theta
        Its scores; ``-inf`` where masks and clamps rule a state out.
    until : Deadline
    """
    n_literals = sum(len(group.variable) for group in program.constraints)
    if until.over or not 0 < program.n_states <= MOST_STATES or n_literals > MOST_LITERALS:
        return None
    rows = _StartRows(program, theta)
    hard = HardFactors.of(program, theta)
    try:
        fits = rows.add_tables(hard) and all(rows.add(group, until) for group in program.constraints)
    except PluginError:  # a Custom has no rows
        return None
    states = rows.solved(until) if fits else None
    if states is None:
        return None
    everyone = np.zeros(1, dtype=np.int64)
    broken = len(hard.hurt(states)) or broken_constraints(program.constraints, states, program.var_ptr, everyone).any()
    return None if broken else states


class _StartRows:
    """``lower <= A x <= upper`` over the states, and what rows of constraints have besides."""

    def __init__(self, program: Program, theta: Theta) -> None:
        self.program, self.node = program, theta.node
        self._row: list[I64] = []
        self._column: list[I64] = []
        self._value: list[F64] = []
        self._lower: list[F64] = []
        self._upper: list[F64] = []
        self._n_rows, self._n_columns = 0, program.n_states
        self._most, self._whole = [(theta.node > -np.inf).astype(np.float64)], [np.ones(program.n_states)]
        self._least = [np.zeros(program.n_states)]
        ones = np.ones(program.n_variables)
        self._add(program.state_ptr, np.arange(program.n_states), np.ones(program.n_states), ones, ones)

    def _add(self, ptr: I64, column: I64, value: F64, lower: F64, upper: F64) -> None:
        self._row.append(self._n_rows + np.repeat(np.arange(len(lower)), np.diff(ptr)))
        self._column.append(column.astype(np.int64))
        self._value.append(value)
        self._lower.append(lower)
        self._upper.append(upper)
        self._n_rows += len(lower)

    def add_tables(self, hard: HardFactors) -> bool:
        """Add the joint states that tables rule out; return whether they are few."""
        card, n = self.program.card, 0
        for f in range(hard.n_factors):
            scope = hard.scope[hard.slot_ptr[f] : hard.slot_ptr[f + 1]]
            cards = card[scope].tolist()
            first = int(hard.table[f])
            never = np.flatnonzero(hard.pool[first : first + int(np.prod(cards))] == -np.inf)
            n += len(never)
            if n > MOST_CONFIGS:
                return False
            states = np.stack(np.unravel_index(never, cards), axis=1)
            columns = self.program.state_ptr[scope] + states
            ends = np.arange(len(never) + 1, dtype=np.int64) * len(scope)
            most = np.full(len(never), len(scope) - 1.0)
            self._add(ends, columns.ravel(), np.ones(columns.size), np.full(len(never), -np.inf), most)
        return True

    def add(self, group: ConstraintGroup, until: Deadline) -> bool:
        """Add the constraints of a group; return whether that was done in time."""
        assert group.rules is not None
        for k in range(group.n_constraints):
            if until.over:
                return False
            part = group.literals(k)
            entry = self.program.state_ptr[group.variable[part]] + group.state[part]
            self._add_rows(group.rules.rows(group, k), entry, group.negated[part])
        return True

    def _add_rows(self, rows: LinearRows, entry: I64, negated: np.ndarray) -> None:
        """Add the rows of one constraint; a negated literal is 1 less its state."""
        n, extra = len(entry), rows.n_auxiliary
        sign = np.concatenate([np.where(negated, -1.0, 1.0), np.ones(extra)])
        place = np.concatenate([entry, self._n_columns + np.arange(extra)])
        owner = np.repeat(np.arange(rows.n_rows), np.diff(rows.ptr))
        flipped = (rows.column < n) & (sign[rows.column] < 0.0)
        moved = np.bincount(owner[flipped], rows.coefficient[flipped], rows.n_rows)
        self._n_columns += extra
        self._least.append(rows.least)
        self._most.append(rows.most)
        self._whole.append(rows.whole.astype(np.float64))
        value = rows.coefficient * sign[rows.column]
        self._add(rows.ptr, place[rows.column], value, rows.lower - moved, rows.upper - moved)

    def solved(self, until: Deadline) -> I32 | None:
        """Return states that keep all rows; ``None`` where none are found in time."""
        with loading():
            from scipy.optimize import Bounds, LinearConstraint, milp
            from scipy.sparse import csr_array
        entries = (np.concatenate(one) for one in (self._value, self._row, self._column))
        value, row, column = entries
        matrix = csr_array((value, (row, column)), shape=(self._n_rows, self._n_columns))
        limit = max(until.left, 1e-3)
        result = milp(
            np.zeros(self._n_columns),
            integrality=np.concatenate(self._whole),
            bounds=Bounds(np.concatenate(self._least), np.concatenate(self._most)),
            constraints=LinearConstraint(matrix, np.concatenate(self._lower), np.concatenate(self._upper)),
            options={"time_limit": limit},
        )
        if result.x is None:
            return None
        taken, first = result.x[: self.program.n_states] > 0.5, self.program.state_ptr[:-1]
        labels = np.zeros(self.program.n_variables, dtype=np.int32)
        owner = np.repeat(np.arange(self.program.n_variables), np.diff(self.program.state_ptr))
        labels[owner[taken]] = np.flatnonzero(taken) - first[owner[taken]]
        return labels


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
