"""Matchings as cost matrices: literals in, chosen literals out.

A literal stands at (row, column) of its constraint.  In an assignment problem every row and column has at most one
true literal.  Costs are negative gains.  Where rows and columns may stay empty, entries are ``min(cost, 0)``: to match
at 0 is to leave out, and a literal is taken only if it pays.  Where rows or columns must be matched, what is not
allowed costs ``inf``.  A literal that has to be true leaves room for no other one in its row and column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.structures.literals import Batch, Literals, on_and_off, set_literals, write_gains
from ssvm_dsl.ir import F64, I8, I32, I64, Bools
from ssvm_dsl.kernels import borrow, njit, packed_record

#: Ways to solve a constraint: an assignment problem, row by row, a flow.
ASSIGNMENT, ROWS_ALONE, FLOW = 0, 1, 2


class Matchings(NamedTuple):
    """A group of constraints of kind ``matching``.

    Parameters
    ----------
    row, col : ndarray of int32, shape (l,)
        Where each literal stands.
    n_rows, n_cols, row_least, row_most, col_least, col_most : ndarray of int64, shape (m,)
        Size of each constraint's matrix, and how many literals of a row and of a column hold.
    method : ndarray of int8, shape (m,)
        Who solves it: :data:`ASSIGNMENT`, :data:`ROWS_ALONE` or :data:`FLOW`.
    grid : ndarray of bool, shape (m,)
        Whether its literals are "has state 1" of consecutive binary variables, one for each place, row by row.
    """

    row: I32
    col: I32
    n_rows: I64
    n_cols: I64
    row_least: I64
    row_most: I64
    col_least: I64
    col_most: I64
    method: I8
    grid: Bools


#: How kernels of others read the packed arrays of a :class:`Matchings`, and how many there are.
matchings_in, N_ARRAYS = packed_record(Matchings), len(Matchings._fields)


class CostMatrices(NamedTuple):
    """The assignment problems of some examples, constraint by constraint (those of other kinds are empty).

    Parameters
    ----------
    start : ndarray of int64, shape (m + 1,)
        Where the matrix of each constraint starts.
    cost : ndarray of float64
        One matrix after the other, row by row.
    literal : ndarray of int32
        The best literal at each place, -1 where none is worth it; grids without forced literals leave it alone.
    possible : ndarray of bool, shape (m,)
        Whether literals that have to be true leave room for each other.
    forced : ndarray of bool, shape (m,)
        Whether there are such literals.
    match_start : ndarray of int64, shape (m + 1,)
        Where the rows of each constraint start in ``match``.
    match : ndarray of int32
        The column of each row, -1 for none.
    """

    start: I64
    cost: F64
    literal: I32
    possible: Bools
    forced: Bools
    match_start: I64
    match: I32


@njit(cache=True, nogil=True)
def fill_matrix(
    literals: Literals, matchings: Matchings, node: F64, lo: int, k: int, optional: bool, cost: F64, literal: I32
) -> bool:
    """Write the costs of one constraint; return whether every literal may be true or false.

    Parameters
    ----------
    literals, node, lo, k
        As for :func:`~ssvm_backends.structures.literals.write_gains`.
    matchings : Matchings
        Where the literals stand; read only.
    optional : bool
        Whether all rows and columns may stay empty.
    cost : ndarray of float64, shape (n_rows * n_cols,)
        Written.
    literal : ndarray of int32, shape (n_rows * n_cols,)
        Written: the best literal at each place, -1 where none is worth it.
    """
    cost[:] = 0.0 if optional else np.inf
    literal[:] = -1
    start, plain, n_cols = literals.literal_ptr[k], True, matchings.n_cols[k]
    row, col = matchings.row[start:], matchings.col[start:]
    for l in range(literals.literal_ptr[k + 1] - start):
        on, off = on_and_off(literals, node, lo, start + l, False)
        value, at = off - on, row[l] * n_cols + col[l]
        # both are written in any case: a branch would be mispredicted every other time
        old, which = cost[at], literal[at]
        cost[at], literal[at] = value if value < old else old, l if value < old else which
        plain = plain and off > -np.inf
    return plain


@njit(cache=True, nogil=True)
def fill_grid(node: F64, optional: bool, cost: F64) -> bool:
    """Write the costs of a grid of binary variables; return whether every literal may be true or false.

    Parameters
    ----------
    node : ndarray of float64, shape (at least 2 n_rows n_cols,)
        The scores of their states.
    optional : bool
        Whether all rows and columns may stay empty.
    cost : ndarray of float64, shape (n_rows * n_cols,)
        Written.
    """
    plain, most = True, 0.0 if optional else np.inf
    for l in range(len(cost)):
        off = node[2 * l]
        value = off - node[2 * l + 1]
        cost[l] = value if value < most else most
        plain = plain and off > -np.inf
    return plain


@njit(cache=True, nogil=True)
def keep_forced(
    n_cols: int, row: I32, col: I32, gain: F64, optional: bool, cost: F64, literal: I32
) -> bool:
    """Rule out what literals that have to be true leave no room for; return whether they leave room for each other.

    Parameters
    ----------
    n_cols : int
        Number of columns.
    row, col : ndarray of int32
        Where each literal of the constraint stands.
    optional : bool
        As for :func:`fill_matrix`.
    gain : ndarray of float64
        See :mod:`ssvm_backends.structures.literals`.
    cost, literal : ndarray
        As written by :func:`fill_matrix`; changed in the rows and columns of such literals.
    """
    n_rows = len(cost) // n_cols if n_cols else 0
    row_taken, col_taken = np.full(n_rows, -1), np.full(n_cols, -1)
    for l in range(len(row)):
        if np.isnan(gain[l]):
            return False
        if gain[l] == np.inf:
            if row_taken[row[l]] >= 0 or col_taken[col[l]] >= 0:
                return False
            row_taken[row[l]], col_taken[col[l]] = l, l
    for r in range(n_rows):
        for c in range(n_cols):
            at = r * n_cols + c
            if row_taken[r] >= 0 and row_taken[r] == col_taken[c]:
                cost[at], literal[at] = 0.0, row_taken[r]
            elif row_taken[r] >= 0 or col_taken[c] >= 0:
                cost[at], literal[at] = 0.0 if optional else np.inf, -1
    return True


@njit(cache=True, nogil=True)
def grid_states(literals: Literals, lo: int, k: int) -> int:
    """Return where the states of the first variable of a grid are."""
    return literals.state_ptr[lo + literals.variable[literals.literal_ptr[k]]]


@njit(cache=True, nogil=True)
def fill_matrices(literals: Literals, matchings: Matchings, node: F64, ids: I64, matrices: CostMatrices) -> None:
    """Write the costs of the assignment problems of some examples.

    Parameters
    ----------
    literals, matchings
        Read only.
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that are ruled out.
    ids : ndarray of int64, shape (n,)
        The examples.
    matrices : CostMatrices
        All but the matches are written, at ``start``.
    """
    literals, matchings, node = borrow(literals), borrow(matchings), borrow(node)
    start, cost, literal, possible, forced = borrow(matrices)[:5]
    c = 0
    for i in ids:
        for k in range(literals.ptr[i], literals.ptr[i + 1]):
            if matchings.method[k] == ASSIGNMENT:
                first, stop = literals.literal_ptr[k], literals.literal_ptr[k + 1]
                lo, n_cols = literals.var_ptr[i], matchings.n_cols[k]
                optional = matchings.row_least[k] == 0 and matchings.col_least[k] == 0
                row, col = matchings.row[first:stop], matchings.col[first:stop]
                mine, which = cost[start[c] : start[c + 1]], literal[start[c] : start[c + 1]]
                possible[c], forced[c] = True, False
                if matchings.grid[k] and fill_grid(node[grid_states(literals, lo, k) :], optional, mine):
                    c += 1
                    continue
                if not fill_matrix(literals, matchings, node, lo, k, optional, mine, which):
                    gain, forced[c] = np.empty(stop - first), True
                    write_gains(literals, node, lo, k, False, gain)
                    possible[c] = keep_forced(n_cols, row, col, gain, optional, mine, which)
            c += 1


@njit(cache=True, nogil=True)
def take_grid(n_cols: int, match: I32, cost: F64, optional: bool, labels: I32) -> None:
    """Write the labels of a grid of binary variables, given the column of each row (-1 for none)."""
    labels[: len(match) * n_cols] = 0
    for r in range(len(match)):
        if match[r] >= 0 and (not optional or cost[r * n_cols + match[r]] < 0.0):
            labels[r * n_cols + match[r]] = 1


@njit(cache=True, nogil=True)
def take_matches(literals: Literals, matchings: Matchings, matrices: CostMatrices, batch: Batch) -> None:
    """Write the labels that the solutions of assignment problems mean.

    Parameters
    ----------
    literals, matchings
        As for :func:`fill_matrices`.
    matrices : CostMatrices
        With the matches; read only.
    batch : Batch
    """
    literals, matchings, c = borrow(literals), borrow(matchings), 0
    node, ids, ptr, labels, _ = borrow(batch)
    start, cost, literal, _, forced, match_start, match = borrow(matrices)
    for e in range(len(ids)):
        lo = literals.var_ptr[ids[e]]
        for k in range(literals.ptr[ids[e]], literals.ptr[ids[e] + 1]):
            if matchings.method[k] == ASSIGNMENT:
                first, stop = literals.literal_ptr[k], literals.literal_ptr[k + 1]
                if matchings.grid[k] and not forced[c]:
                    mine = labels[ptr[e] + literals.variable[first] :]
                    optional = matchings.row_least[k] == 0 and matchings.col_least[k] == 0
                    columns = match[match_start[c] : match_start[c + 1]]
                    take_grid(matchings.n_cols[k], columns, cost[start[c] :], optional, mine)
                    c += 1
                    continue
                chosen = np.zeros(stop - first, dtype=np.bool_)
                for r in range(matchings.n_rows[k]):
                    column = match[match_start[c] + r]
                    if column >= 0:
                        l = literal[start[c] + r * matchings.n_cols[k] + column]
                        if l >= 0:
                            chosen[l] = True
                for l in range(first, stop if forced[c] else first):
                    # a row whose literal has to be true may be matched elsewhere, to a place at no cost
                    if on_and_off(literals, node, lo, l, False)[1] == -np.inf:
                        chosen[l - first] = True
                set_literals(literals, node, lo, k, chosen, labels[ptr[e] :])
            c += 1


@njit(cache=True, nogil=True)
def take_rows_alone(literals: Literals, matchings: Matchings, batch: Batch) -> None:
    """Solve constraints whose columns hold any number of literals: the best ones of each row.

    Parameters
    ----------
    literals, matchings
        As for :func:`take_matches`.
    batch : Batch
        An example is not feasible where a row has too few literals, or too many that have to be true.
    """
    literals, matchings = borrow(literals), borrow(matchings)
    node, ids, ptr, labels, feasible = borrow(batch)
    for e in range(len(ids)):
        lo = literals.var_ptr[ids[e]]
        for k in range(literals.ptr[ids[e]], literals.ptr[ids[e] + 1]):
            if matchings.method[k] != ROWS_ALONE:
                continue
            first, stop = literals.literal_ptr[k], literals.literal_ptr[k + 1]
            gain, count = np.empty(stop - first), np.zeros(matchings.n_rows[k], dtype=np.int64)
            write_gains(literals, node, lo, k, False, gain)
            chosen = np.zeros(stop - first, dtype=np.bool_)
            for l in np.argsort(-gain):  # nan last
                r, forced = matchings.row[first + l], gain[l] == np.inf
                wanted = gain[l] > 0.0 or (gain[l] > -np.inf and count[r] < matchings.row_least[k])
                if forced or (wanted and count[r] < matchings.row_most[k]):
                    chosen[l] = True
                    count[r] += 1
                if np.isnan(gain[l]):
                    feasible[e] = False
            for r in range(len(count)):
                if count[r] < matchings.row_least[k] or count[r] > matchings.row_most[k]:
                    feasible[e] = False
            set_literals(literals, node, lo, k, chosen, labels[ptr[e] :])
