r"""The local polytope: the equations that tie the marginals of factors to those of variables.

A labelling y is written as 0/1 numbers mu: ``mu_v(s) = 1`` where y_v = s, ``mu_f(c) = 1`` where the variables of
factor f are in the joint state c.  The local polytope relaxes them to ``mu >= 0`` with::

    sum_s mu_v(s) = 1                              for every variable v              (one row)
    sum_{c: c_k = s} mu_f(c) - mu_v(s) = 0         for every factor f, its k-th variable v, every state s

(Wainwright and Jordan 2008, section 4.1).  Here are its rows, as entries of a sparse matrix; the way back to it, for
numbers that are off by a little, is :func:`ssvm_dsl.scores.marginals.consistent`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import pointers


@dataclass(frozen=True, eq=False)
class Equations:
    """Rows of the local polytope; the first ones, one for each variable, sum to 1 and the others to 0.

    Parameters
    ----------
    values : ndarray of float64, shape (nnz,)
    rows, columns : ndarray of int64, shape (nnz,)
        Where the values are; columns are the states of the variables, then the joint states of the factors.
    n_rows, n_columns : int
    """

    values: F64
    rows: I64
    columns: I64
    n_rows: int
    n_columns: int


def polytope_equations(
    state_ptr: I64, factors: Iterable[tuple[tuple[int, ...], I64]], redundant: bool = False
) -> Equations:
    """Return the rows of the local polytope of some variables and factors.

    Parameters
    ----------
    state_ptr : ndarray of int64, shape (n + 1,)
        States of each of the n variables.
    factors : iterable of (cards, scope)
        Factors of the same numbers of states, and their variables: ``ndarray, shape (m, r)``.
    redundant : bool
        Keep all rows.  Without, the row of the last state is left out for all but the first variable of each
        factor: it follows from the others.

    Notes
    -----
    Time and memory O(n_columns x arity), without a Python loop over factors.
    """
    n, n_columns = len(state_ptr) - 1, int(state_ptr[-1])
    rows, columns = [np.repeat(np.arange(n), np.diff(state_ptr))], [np.arange(n_columns)]
    values, n_rows = [np.ones(n_columns)], n
    for cards, scope in factors:
        height, pattern = _factor_pattern(cards, redundant)
        size, m = int(np.prod(cards)), len(scope)
        base = n_rows + height * np.arange(m)[:, None]
        rows += [(base + pattern.row).ravel(), (base + pattern.link_row).ravel()]
        own = n_columns + size * np.arange(m)[:, None] + pattern.column
        columns += [own.ravel(), (state_ptr[scope][:, pattern.link_slot] + pattern.link_state).ravel()]
        values += [np.ones(own.size), np.full(m * len(pattern.link_row), -1.0)]
        n_rows, n_columns = n_rows + m * height, n_columns + m * size
    return Equations(np.concatenate(values), np.concatenate(rows), np.concatenate(columns), n_rows, n_columns)


@dataclass(frozen=True, eq=False)
class _Pattern:
    """Entries of one factor's rows: +1 at (row, column), -1 at (link_row, state link_state of slot link_slot)."""

    row: I64
    column: I64
    link_row: I64
    link_slot: I64
    link_state: I64


def _factor_pattern(cards: tuple[int, ...], redundant: bool) -> tuple[int, _Pattern]:
    """Return the number of rows of a factor and where their entries are."""
    kept = [card if redundant or k == 0 else card - 1 for k, card in enumerate(cards)]
    first = pointers(np.array(kept, dtype=np.int64))
    states = np.indices(cards).reshape(len(cards), -1)
    slot, column = np.nonzero(states < np.array(kept)[:, None])
    link_slot = np.repeat(np.arange(len(cards)), kept)
    link_row = np.arange(first[-1])
    row = first[slot] + states[slot, column]
    return int(first[-1]), _Pattern(row, column, link_row, link_slot, link_row - first[link_slot])


def n_marginals(program: Program) -> int:
    """Return how many numbers a point has: one for each state of a variable and each joint state of a factor."""
    return program.n_states + sum(group.n_factors * group.n_configs for group in program.groups)


def labelling_marginals(program: Program, labels: I32, pause: Callable[[], None] | None = None) -> F64:
    """Return the point of a labelling of all examples: of variables state by state, then of the factors by group.

    ``pause`` is called between parts, for callers with a time limit.
    """
    mu, first, everyone = np.zeros(n_marginals(program)), program.n_states, np.arange(program.n_examples)
    mu[program.state_ptr[:-1] + labels] = 1.0
    for group in program.groups:
        for part in group.shapes.chunks(everyone):
            if pause is not None:
                pause()
            configs = labels[group.shapes.variables(everyone[part])] @ group.strides
            mu[first + np.arange(len(configs)) * group.n_configs + configs] = 1.0
            first += len(configs) * group.n_configs
    return mu
