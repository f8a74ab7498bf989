"""The kernel of weighted sums; the method is in :mod:`ssvm_backends.structures.counts.whole_sums`."""

from __future__ import annotations

import numpy as np

from ssvm_backends.structures.counts.whole_sums import WholeSums
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import borrow, njit


@njit(cache=True, nogil=True)
def choose_sums(
    sums: WholeSums, var_ptr: I64, node: F64, ids: I64, label_ptr: I64, labels: I32, feasible: Bools
) -> None:
    """Write the labels of largest score whose weighted sums are within their bounds.

    Parameters
    ----------
    sums : WholeSums
        Read only.
    var_ptr : ndarray of int64, shape (B + 1,)
        Variables of each example.
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that are ruled out.
    ids : ndarray of int64, shape (n,)
        The examples.
    label_ptr : ndarray of int64, shape (at least n,)
        Where the labels of each start.
    labels : ndarray of int32
        Written.
    feasible : ndarray of bool, shape (n,)
        Set to false where no sum is within its bounds.
    """
    s, node = borrow(sums), borrow(node)
    for e in range(len(ids)):
        shift = label_ptr[e] - var_ptr[ids[e]]
        for k in range(s.ptr[ids[e]], s.ptr[ids[e] + 1]):
            if not best_sum(s, k, node, shift, labels):
                feasible[e] = False


@njit(cache=True, nogil=True)
def best_sum(s: WholeSums, k: int, node: F64, shift: int, labels: I32) -> bool:
    """Write the best labels of the variables of constraint k; return whether there are any.

    ``low[j] .. high[j]`` are the sums of the first j variables from which the others can still reach the bounds; the
    best state of variable j for each of them stays in ``choice`` for the way back.

    Parameters
    ----------
    s, node
        As for :func:`choose_sums`.
    k : int
        The constraint.
    shift : int
        Offset from a variable's number to the place of its label.
    labels : ndarray of int32
        Written where there is a labelling.
    """
    first, n = s.variable_ptr[k], s.variable_ptr[k + 1] - s.variable_ptr[k]
    low, high = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    least, most = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for j in range(n):
        v, at = s.variable[first + j], s.weight_ptr[first + j]
        feasible = False
        for x in range(s.state_ptr[v + 1] - s.state_ptr[v]):
            if node[s.state_ptr[v] + x] > -np.inf:
                w = s.weight[at + x]
                least[j], most[j] = (min(least[j], w), max(most[j], w)) if feasible else (w, w)
                feasible = True
        if not feasible:
            return False
        low[j + 1], high[j + 1] = low[j] + least[j], high[j] + most[j]
    low[n], high[n] = max(low[n], s.lower[k]), min(high[n], s.upper[k])
    for j in range(n - 1, -1, -1):
        low[j], high[j] = max(low[j], low[j + 1] - most[j]), min(high[j], high[j + 1] - least[j])
    start = np.zeros(n + 2, np.int64)
    for j in range(n + 1):
        if low[j] > high[j]:
            return False
        start[j + 1] = start[j] + high[j] - low[j] + 1
    choice, before = np.full(start[n + 1], -1, np.int32), np.zeros(1)
    for j in range(n):
        v, at = s.variable[first + j], s.weight_ptr[first + j]
        now = np.full(high[j + 1] - low[j + 1] + 1, -np.inf)
        for x in range(s.state_ptr[v + 1] - s.state_ptr[v]):
            value, w = node[s.state_ptr[v] + x], s.weight[at + x]
            if value > -np.inf:
                for t in range(max(low[j], low[j + 1] - w), min(high[j], high[j + 1] - w) + 1):
                    total = before[t - low[j]] + value
                    if total > now[t + w - low[j + 1]]:
                        now[t + w - low[j + 1]] = total
                        choice[start[j + 1] + t + w - low[j + 1]] = x
        before = now
    best = 0
    for t in range(len(before)):
        if before[t] > before[best]:
            best = t
    if not before[best] > -np.inf:
        return False
    t = low[n] + best
    for j in range(n - 1, -1, -1):
        x = choice[start[j + 1] + t - low[j + 1]]
        labels[s.variable[first + j] + shift] = x
        t -= s.weight[s.weight_ptr[first + j] + x]
    return True
