"""A bound on the number of true literals of each example, as tables of counts that dynamic programming goes by.

Every state counts as many as it makes literals true; labellings whose count is within the bounds are worth their score,
others nothing.  Where few literals may be *false*, these are counted instead: tables are as large as the smaller of the
two numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ssvm_dsl.ir import I64, CountTables, Need, Program, Task, owners, pointers


def refusal(need: Need) -> str:
    """Return why the constraints of a need are too much, in words; empty where they are not."""
    if not need.constraint_kinds:
        return ""
    if need.max_constraints > 1:
        return f"handles one constraint for each example, this has {need.max_constraints}"
    if Task.KBEST in need.tasks:
        return f"with constraints it lists no k best labellings, asked for {Task.KBEST}"
    return ""


#: Operations that a variable takes besides where counts are kept, and times as many that a step takes for each count.
VARIABLE, STEP = 1400.0, 1.3

#: Times as many that sums take, in logarithms.
SUMS = 12.0


def counting(need: Need) -> tuple[float, float]:
    """Return (operations, bytes) of dynamic programming that counts as far as the bounds make it."""
    steps = need.n_variables * float(need.max_card) ** 2
    if not need.constraint_kinds:
        return steps, 0.0
    rows, sums = 1.0 + need.max_count, Task.MARGINALS in need.tasks
    step, each = (SUMS * STEP, 32.0) if sums else (STEP, 24.0)
    return VARIABLE * need.n_variables + step * rows * steps, each * need.max_variables * rows * need.max_card


@dataclass(frozen=True, eq=False)
class _Counts:
    """The count of each state, and the bounds on the sum of each example.

    Parameters
    ----------
    states : ndarray of int64, shape (S,)
    lower, upper : ndarray of int64, shape (B,)
    """

    states: I64
    lower: I64
    upper: I64


def count_tables(program: Program) -> CountTables:
    """Return the tables of a program whose examples have at most one ``count`` constraint each."""
    found = _of_literals(program)
    states, largest = found.states, _largest(program, found.states)
    most = np.bincount(owners(program.var_ptr), largest, program.n_examples).astype(np.int64)
    lower, upper = np.maximum(found.lower, 0), np.minimum(found.upper, most)
    free = (lower == 0) & (upper == most)  # nothing is ruled out, so that nothing is counted
    states = np.where(np.repeat(free[owners(program.var_ptr)], program.card), 0, states)
    largest, most = np.where(free[owners(program.var_ptr)], 0, largest), np.where(free, 0, most)
    upper = np.where(free, 0, upper)
    fewer = most - lower < upper  # count the false ones
    flip = fewer[owners(program.var_ptr)]
    opposite = np.repeat(largest, program.card) - states
    states = np.where(np.repeat(flip, program.card), opposite, states)
    lower, upper = np.where(fewer, most - upper, lower), np.where(fewer, most - lower, upper)
    rows = np.where((upper >= lower) & (lower >= 0), upper + 1, 0)
    start = pointers(rows)
    count = np.arange(start[-1]) - np.repeat(start[:-1], rows)
    offset = np.where(count >= np.repeat(lower, rows), 0.0, -np.inf)
    shape = np.stack([rows, np.ones_like(rows)], axis=1)
    counts = np.stack([states, np.zeros_like(states)], axis=1)
    return CountTables.of_prices(counts, shape, start[:-1], offset)


def _of_literals(program: Program) -> _Counts:
    """Add up the literals of each state."""
    states = np.zeros(program.n_states, dtype=np.int64)
    lower, upper = np.zeros(program.n_examples, np.int64), np.zeros(program.n_examples, np.int64)
    for group in program.constraints:
        example = group.example_of
        lower[example], upper[example] = group.meta["lower"], group.meta["upper"]
        variable = program.var_ptr[:-1][example[group.constraint_of]] + group.variable
        sign = np.where(group.negated, -1, 1)
        np.add.at(states, program.state_ptr[:-1][variable] + group.state, sign)
        every = np.bincount(variable[group.negated], minlength=program.n_variables)
        states += np.repeat(every, program.card)
    return _Counts(states, lower, upper)


def _largest(program: Program, states: I64) -> I64:
    """Return the most that a state of each variable counts."""
    if not program.n_variables:
        return np.zeros(0, dtype=np.int64)
    return np.asarray(np.maximum.reduceat(states, program.state_ptr[:-1]))
