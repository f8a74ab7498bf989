"""Arcs of directed trees as matrices: literals in, heads out.

Token d (1..n) has one head h (0 is the artificial root); ``matrix[h, d]`` is the gain of the best literal for the arc,
``-inf`` where there is none.  An arc that has to be there rules out all other arcs to its dependent.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I32, Bools
from ssvm_dsl.kernels import njit


@njit(cache=True, nogil=True)
def arc_matrix(n: int, head: I32, dependent: I32, gain: F64, soft: bool, matrix: F64, literal: I32) -> bool:
    """Write the gains of arcs; return whether the literals that have to be true leave room for a tree.

    Parameters
    ----------
    n : int
        Number of tokens.
    head, dependent : ndarray of int32
        The arc of each literal.  Literals with an arc from a token to itself, or to the root, are never true.
    gain : ndarray of float64
        See :mod:`ssvm_backends.structures.literals`; changed: required literals get 0, excluded ones -inf.
    soft : bool
        Whether the gains of several literals for one arc are summed as exponentials (else the best one stands).
    matrix : ndarray of float64, shape (at least (n + 1)^2,)
        Written, row by head.
    literal : ndarray of int32, shape (at least (n + 1)^2,)
        Written: the literal of each arc (the best one), -1 without.
    """
    m = n + 1
    matrix[: m * m] = -np.inf
    literal[: m * m] = -1
    forced = np.full(m, -1, dtype=np.int32)
    for l in range(len(head)):
        if np.isnan(gain[l]):
            return False
        if gain[l] == np.inf:
            if dependent[l] == 0 or head[l] == dependent[l] or forced[dependent[l]] >= 0:
                return False
            forced[dependent[l]] = l
    for l in range(len(head)):
        d = dependent[l]
        if d == 0 or head[l] == d or (forced[d] >= 0 and forced[d] != l):
            gain[l] = -np.inf
            continue
        if forced[d] == l:
            gain[l] = 0.0
        at = head[l] * m + d
        if gain[l] > matrix[at]:
            literal[at] = l
        if soft:
            matrix[at] = np.logaddexp(matrix[at], gain[l])
        else:
            matrix[at] = max(matrix[at], gain[l])
    return True


@njit(cache=True, nogil=True)
def choose_arcs(n: int, heads: I32, literal: I32, chosen: Bools) -> None:
    """Write which literals are true in a tree.

    Parameters
    ----------
    n : int
        Number of tokens.
    heads : ndarray of int32, shape (at least n + 1,)
        The head of every token; entry 0 has no meaning.
    literal : ndarray of int32
        As written by :func:`arc_matrix`.
    chosen : ndarray of bool
        Written, one for each literal.
    """
    chosen[:] = False
    for d in range(1, n + 1):
        chosen[literal[heads[d] * (n + 1) + d]] = True
