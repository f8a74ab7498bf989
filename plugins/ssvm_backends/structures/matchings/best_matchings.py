"""Assignment problems of some examples from scores to labels: cost matrices, matches, labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.structures.literals import Batch, Literals
from ssvm_backends.structures.matchings.matching_kernels import (
    ASSIGNMENT,
    N_ARRAYS,
    CostMatrices,
    Matchings,
    fill_matrices,
    matchings_in,
    take_matches,
    take_rows_alone,
)
from ssvm_backends.structures.packing import OF_LITERALS, begin_call, end_call, group_arrays, literals_in
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import SIGNATURE, borrow, cfunc, njit

# -- Assignment problems by shortest augmenting paths (Jonker and Volgenant 1987; rectangular as in Crouse 2016) -----
#
# With duals u, v of rows and columns, ``c[i, j] - u[i] - v[j] >= 0`` and zero where i is matched with j.  It begins
# with ``u[i] = min_j c[i, j]`` and rows whose cheapest column is free; each other row is matched along a shortest
# path in reduced costs (Dijkstra's) to a free column.  Problems with more rows than columns are solved the other way
# round.
#
# O(n^3), like ``scipy.optimize.linear_sum_assignment``, which it was measured against (``make bench ARGS=assignment``;
# CPU time of batches, random costs of which half are cut off at 0): 0.41 of its time at 5 x 5, 0.59 at 10 x 20, 0.79 at
# 15 x 15, 0.91 at 30 x 30, 1.03 at 100 x 100, 1.06 at 300 x 300.


class PathWork(NamedTuple):
    """Duals and matches of one problem after the other, for the largest of them.

    Parameters
    ----------
    u, v : ndarray of float64, shape (n,)
        Duals of rows and columns.
    reach : ndarray of float64, shape (n,)
        Length of the shortest path to each column so far.
    before : ndarray of int32, shape (n,)
        The row by which a path came to each column.
    row_of, col_of : ndarray of int32, shape (n,)
        The row of each column and the column of each row, -1 without one.
    open : ndarray of int32, shape (n,)
        Columns: those that the search has not settled, then those that it has.
    """

    u: F64
    v: F64
    reach: F64
    before: I32
    row_of: I32
    col_of: I32
    open: I32


@njit(cache=True, nogil=True)
def match_row(work: PathWork, cost: F64, n_cols: int, row_step: int, col_step: int, row: int) -> bool:
    """Match one more row along a shortest path; return whether there is one.

    Parameters
    ----------
    work : PathWork
        Duals and matches; changed in place.
    cost : ndarray of float64
        That of row i and column j at ``i row_step + j col_step``; ``inf`` where no match is allowed.
    n_cols, row_step, col_step : int
    row : int
        The row, which has no column yet.
    """
    u, v, reach, before, row_of, col_of, left = work
    for j in range(n_cols):
        left[j], reach[j] = j, np.inf
    n_left, i, length, sink = n_cols, row, 0.0, -1
    while sink < 0:
        at, shortest, shift = -1, np.inf, length - u[i]
        for k in range(n_left):
            j = left[k]
            d = shift + cost[i * row_step + j * col_step] - v[j]
            if d < reach[j]:
                reach[j], before[j] = d, i
            if reach[j] < shortest or (reach[j] == shortest and row_of[j] < 0):  # of equals one that ends the search
                shortest, at = reach[j], k
        if shortest == np.inf:
            return False
        j, length = left[at], shortest
        n_left -= 1
        left[at], left[n_left] = left[n_left], j
        if row_of[j] < 0:
            sink = j
        i = row_of[j]
    u[row] += length
    for k in range(n_left + 1, n_cols):  # settled before the sink, which is at n_left and keeps its dual
        j = left[k]
        u[row_of[j]] += length - reach[j]
        v[j] -= length - reach[j]
    j = sink
    while True:
        i = before[j]
        row_of[j] = i
        j, col_of[i] = col_of[i], j
        if i == row:
            return True


@njit(cache=True, nogil=True)
def match_cheapest(work: PathWork, cost: F64, n_rows: int, n_cols: int, row_step: int, col_step: int) -> bool:
    """Begin a problem: match rows with their cheapest column where it is free; return whether all rows have one.

    Parameters
    ----------
    work, cost, n_cols, row_step, col_step
        As for :func:`match_row`.
    n_rows : int
    """
    for j in range(n_cols):
        work.v[j], work.row_of[j] = 0.0, -1
    for i in range(n_rows):
        least, at = np.inf, -1
        for j in range(n_cols):
            x = cost[i * row_step + j * col_step]
            if x < least or (x == least and at >= 0 and work.row_of[at] >= 0 and work.row_of[j] < 0):
                least, at = x, j
        if at < 0:
            return False
        work.u[i], work.col_of[i] = least, -1
        if work.row_of[at] < 0:
            work.row_of[at], work.col_of[i] = i, at
    return True


@njit(cache=True, nogil=True)
def match_all(cost: F64, start: I64, n_rows: I64, n_cols: I64, match_start: I64, match: I32, possible: Bools) -> None:
    """Solve assignment problems one after the other.

    Parameters
    ----------
    cost : ndarray of float64
        Cost matrices, one after the other, row by row; ``inf`` where no match is allowed.
    start : ndarray of int64, shape (n + 1,)
        Where each matrix starts.
    n_rows, n_cols : ndarray of int64, shape (n,)
        Size of each.  All rows are matched, or all columns if there are fewer.
    match_start : ndarray of int64, shape (n + 1,)
        Where the rows of each start in ``match``.
    match : ndarray of int32
        Written: the column of each row; left as it is where there is none.
    possible : ndarray of bool, shape (n,)
        Which to solve; set to false where there is no solution.
    """
    cost, match, most = borrow(cost), borrow(match), 0
    for k in range(len(n_rows)):
        most = max(most, n_rows[k], n_cols[k])
    reals, ints = np.empty((3, most)), np.empty((4, most), np.int32)
    work = PathWork(reals[0], reals[1], reals[2], ints[0], ints[1], ints[2], ints[3])
    for k in range(len(n_rows)):
        if not possible[k] or start[k] == start[k + 1]:
            continue
        wide = n_rows[k] <= n_cols[k]
        few, many = (n_rows[k], n_cols[k]) if wide else (n_cols[k], n_rows[k])
        row_step, col_step = (n_cols[k], 1) if wide else (1, n_cols[k])
        mine = cost[start[k] : start[k + 1]]
        possible[k] = match_cheapest(work, mine, few, many, row_step, col_step)
        for i in range(few):
            if possible[k] and work.col_of[i] < 0:
                possible[k] = match_row(work, mine, many, row_step, col_step, i)
        if possible[k]:
            for i in range(few):
                if wide:
                    match[match_start[k] + i] = work.col_of[i]
                else:
                    match[match_start[k] + work.col_of[i]] = i


@njit(cache=True, nogil=True)
def assign_all(literals: Literals, matchings: Matchings, batch: Batch) -> None:
    """Write the labels of the best matchings that are assignment problems.

    Parameters
    ----------
    literals, matchings
        Read only.
    batch : Batch
        An example is not feasible where there is no matching.
    """
    literals, matchings, m = borrow(literals), borrow(matchings), 0
    ids = batch.ids
    for i in ids:
        m += literals.ptr[i + 1] - literals.ptr[i]
    # few allocations: oracles are called for one example, whose matching may take less time than thirty of them
    numbers, flags = np.zeros((5, m + 1), np.int64), np.zeros((3, m), np.bool_)
    rows, cols, owner, start, match_start = numbers[0][:m], numbers[1][:m], numbers[2][:m], numbers[3], numbers[4]
    possible, forced, fits = flags[0], flags[1], flags[2]
    c = 0
    for e in range(len(ids)):
        for k in range(literals.ptr[ids[e]], literals.ptr[ids[e] + 1]):
            possible[c], fits[c] = True, True
            if matchings.method[k] == ASSIGNMENT:
                rows[c], cols[c] = matchings.n_rows[k], matchings.n_cols[k]
                fits[c] = matchings.row_least[k] <= 0 or rows[c] <= cols[c]
                fits[c] = fits[c] and (matchings.col_least[k] <= 0 or cols[c] <= rows[c])
            owner[c] = e
            start[c + 1], match_start[c + 1] = start[c] + rows[c] * cols[c], match_start[c] + rows[c]
            c += 1
    cost, places = np.empty(start[m]), np.empty(start[m] + match_start[m], dtype=np.int32)
    literal, match = places[: start[m]], places[start[m] :]
    match[:] = -1
    matrices = CostMatrices(start, cost, literal, possible, forced, match_start, match)
    fill_matrices(literals, matchings, batch.node, ids, matrices)
    for c in range(m):
        possible[c] = possible[c] and fits[c]
    match_all(cost, start, rows, cols, match_start, match, possible)
    take_matches(literals, matchings, matrices, batch)
    for c in range(m):
        if not possible[c]:
            batch.feasible[owner[c]] = False


@cfunc(SIGNATURE)
def assignment_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Write the best labels of one example; return their score, without the constant.

    Parameters
    ----------
    ints, longs, example, pool, node, labels, work
        As of :class:`~ssvm_dsl.plugin_api.CompiledOracle`.
    """
    call = begin_call(ints, longs, example, node, labels)
    for first in group_arrays(longs, N_ARRAYS):
        matchings = matchings_in(call.ints, call.longs, first + OF_LITERALS)
        literals = literals_in(call.ints, call.longs, first)
        assign_all(literals, matchings, call.batch)
    return end_call(call)


@cfunc(SIGNATURE)
def rows_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Write the best labels of one example; return their score, without the constant.

    Parameters
    ----------
    ints, longs, example, pool, node, labels, work
        As of :class:`~ssvm_dsl.plugin_api.CompiledOracle`.
    """
    call = begin_call(ints, longs, example, node, labels)
    for first in group_arrays(longs, N_ARRAYS):
        literals = literals_in(call.ints, call.longs, first)
        matchings = matchings_in(call.ints, call.longs, first + OF_LITERALS)
        assign_all(literals, matchings, call.batch)
        take_rows_alone(literals, matchings, call.batch)
    return end_call(call)
