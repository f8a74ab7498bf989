"""Rows of clusterings that are stronger than triangles: an item against a set of items.

Let T be a set of items without i.  Those that are together with i are together with each other, so that
``x(i, T) - x(T) <= 1``, where ``x(i, T)`` sums the pairs of i with T and ``x(T)`` those within T.  These are
2-partition inequalities (Groetschel and Wakabayashi, Mathematical Programming 47, 1990), and triangles where T has two
items.  Where noise outweighs clusters, they close most of the gap that triangles leave.  A violated one is not found
for certain: bounds may use them, but not relaxations that are to be the same from call to call.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, LinearRows, pointers, runs
from ssvm_dsl.kernels import assign, njit

#: Items that a set has at most, and pairs that a search looks at, about.
LARGEST, LOOKS = 20, 20_000_000

#: Sets begin with items that are together with i by more than this, and by less than the rest.
UNDECIDED = 0.05

#: Rows that are returned at most, for each item.
MOST = 5


def partition_rows(n: int, point: F64, least: float) -> LinearRows:
    """Return rows that a point violates, of those found the ones that it violates most.

    Parameters
    ----------
    n : int
        Number of items.
    point : ndarray of float64, shape (n (n - 1) / 2,)
        Of all pairs a < b, in the order of ``np.triu_indices(n, 1)``.
    least : float
        Rows that are violated by less are left out.
    """
    value, number = np.zeros((n, n)), np.zeros((n, n), dtype=np.int32)
    above = np.triu_indices(n, 1)
    value[above], number[above] = point, np.arange(len(point))
    ptr, column, violation = found_rows(value + value.T, number + number.T, least)
    most = np.argsort(-violation, kind="stable")[: MOST * n]
    length = np.diff(ptr)[most]
    kept = column[runs(ptr[:-1][most], length)]
    sign = np.where(kept < 0, -1.0, 1.0)
    lower = np.full(len(most), -1.0)
    return LinearRows(pointers(length), np.where(kept < 0, ~kept, kept), sign, lower, np.full(len(most), np.inf))


@njit(cache=True, nogil=True)
def found_rows(value: F64, number: I32, least: float) -> tuple[I64, I32, F64]:
    """Return violated rows, found by adding to a set whatever raises the violation most.

    Parameters
    ----------
    value : ndarray of float64, shape (n, n)
        How much two items are together, symmetric.
    number : ndarray of int32, shape (n, n)
        The number of each pair, symmetric.
    least : float

    Returns
    -------
    ptr : ndarray of int64
    column : ndarray of int32
        Pairs within the set, and ``~pair`` for those with the single item.
    violation : ndarray of float64
    """
    n, looks, used, made = len(value), 0, 0, 0
    ptr, violation, column = np.zeros(n * n + 1, np.int64), np.empty(n * n), np.empty(4 * LARGEST * LARGEST, np.int32)
    raised, members = np.empty(n), np.empty(LARGEST, np.int64)
    for i in range(n):
        for start in range(n):
            if start == i or not UNDECIDED < value[i, start] < 1.0 - UNDECIDED:
                continue
            if looks > LOOKS:
                return ptr[: made + 1], column[:used], violation[:made]
            for j in range(n):
                raised[j] = value[i, j] - value[start, j]
            raised[start] = raised[i] = -np.inf
            members[0], size, smallest, total = start, 1, start, value[i, start] - 1.0
            while size < LARGEST:
                best = int(np.argmax(raised))
                if raised[best] <= UNDECIDED * least:
                    break
                total += raised[best]
                members[size], size, smallest = best, size + 1, min(smallest, best)
                for j in range(n):
                    raised[j] -= value[best, j]
                raised[best] = -np.inf
            looks += (size + 1) * n
            if size < 3 or total < least or smallest < start:  # it is found from its first item, too
                continue
            if used + LARGEST * LARGEST > len(column):
                longer = np.empty(2 * len(column), np.int32)
                assign(longer[:used], column)
                column = longer
            for p in range(size):
                column[used], used = ~number[i, members[p]], used + 1
                for q in range(p):
                    column[used], used = number[members[p], members[q]], used + 1
            violation[made], made = total, made + 1
            ptr[made] = used
    return ptr[: made + 1], column[:used], violation[:made]
