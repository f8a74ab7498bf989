"""Assignment problems of some examples from scores to labels: cost matrices, matches, labels."""

from __future__ import annotations

import numpy as np

from ssvm_backends.structures.literals import Literals
from ssvm_backends.structures.matchings.augmenting_paths import match_all
from ssvm_backends.structures.matchings.matching_kernels import (
    ASSIGNMENT,
    CostMatrices,
    Matchings,
    fill_matrices,
    take_matches,
)
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import borrow, njit


@njit(cache=True, nogil=True)
def assign_all(
    literals: Literals, matchings: Matchings, node: F64, ids: I64, label_ptr: I64, labels: I32, feasible: Bools
) -> None:
    """Write the labels of the best matchings that are assignment problems.

    Parameters
    ----------
    literals, matchings
        Read only.
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that are ruled out.
    ids : ndarray of int64, shape (n,)
        The examples.
    label_ptr : ndarray of int64, shape (at least n,)
        Where the labels of each start.
    labels : ndarray of int32
        Written.
    feasible : ndarray of bool, shape (n,)
        Set to false where there is no matching.
    """
    literals, matchings, node, labels = borrow(literals), borrow(matchings), borrow(node), borrow(labels)
    m = 0
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
    fill_matrices(literals, matchings, node, ids, matrices)
    for c in range(m):
        possible[c] = possible[c] and fits[c]
    match_all(cost, start, rows, cols, match_start, match, possible)
    take_matches(literals, matchings, node, ids, matrices, label_ptr, labels)
    for c in range(m):
        if not possible[c]:
            feasible[owner[c]] = False
