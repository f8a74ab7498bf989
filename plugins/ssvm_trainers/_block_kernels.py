"""Dual coordinate steps over sparse planes with one slack for each example: the inner solver of ``n-slack``.

With ``psi_k`` the rows, ``c_i = weight_i / n`` and A_i the sum of the dual weights of example i, the dual is

    max_a  D(sum_k a_k psi_k, sum_k a_k loss_k)                      with a >= 0, A_i <= c_i     (slacks)
    max_a  D(sum_k a_k psi_k, sum_k a_k loss_k) - sum_i A_i^2 / (4 c_i)    with a >= 0           (squared slacks)

A step moves dual weight between two planes of one example, or between a plane and the truth (whose row is zero,
whose slope is 0 for slacks and ``A_i / (2 c_i)``, the slack itself, for squared ones).  The length is that of the
maximum of the quadratic without lower bounds on weights, which lies below the dual: no step loses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Index = NDArray[np.int32] | NDArray[np.int64]

#: The number of the truth among planes; of a type, for numba compiles anew what is called with a literal.
TRUTH: Any = np.int64(-1)


@njit(cache=True, nogil=True)
def row_dot(ptr: I64, columns: Index, data: F64, k: int, w: F64) -> float:
    """Return the product of a row with a dense vector."""
    total = 0.0
    for e in range(ptr[k], ptr[k + 1]):
        total += data[e] * w[columns[e]]
    return total


@njit(cache=True, nogil=True)
def add_row(ptr: I64, columns: Index, data: F64, k: int, factor: float, out: F64) -> None:
    """Add a multiple of a row to a dense vector."""
    for e in range(ptr[k], ptr[k + 1]):
        out[columns[e]] += factor * data[e]


@njit(cache=True, nogil=True)
def move_weights(
    ptr: I64, columns: Index, data: F64, k: int, step: float, metric: F64, lower: F64, free: F64, w: F64
) -> None:
    """Follow a change of a plane's dual weight: ``free += step metric row``, ``w = max(free, lower)``."""
    for e in range(ptr[k], ptr[k + 1]):
        j = columns[e]
        free[j] += step * metric[j] * data[e]
        w[j] = max(free[j], lower[j])


@njit(cache=True, nogil=True)
def curvature(ptr: I64, columns: Index, data: F64, up: int, down: int, metric: F64, work: F64) -> float:
    """Return the squared length of the difference of two rows (-1: the truth, zero) in the metric."""
    if up >= 0:
        add_row(ptr, columns, data, up, 1.0, work)
    if down >= 0:
        add_row(ptr, columns, data, down, -1.0, work)
    total = 0.0
    for k in (up, down):
        if k >= 0:
            for e in range(ptr[k], ptr[k + 1]):
                j = columns[e]
                total += metric[j] * work[j] * work[j]
                work[j] = 0.0
    return total


@njit(cache=True, nogil=True)
def visit(
    own: I64, c: float, squared: bool, ptr: I64, columns: Index, data: F64, loss: F64, alpha: F64,
    slope: F64, metric: F64, lower: F64, free: F64, w: F64, work: F64,
) -> float:  # fmt: skip
    """Take one step within an example, whose planes are ``own``; return its duality gap before the step."""
    total, inner, top, low = 0.0, 0.0, TRUTH, TRUTH
    for k in own:
        slope[k] = loss[k] - row_dot(ptr, columns, data, k, w)
        total += alpha[k]
        inner += alpha[k] * slope[k]
        if top < 0 or slope[k] > slope[top]:
            top = k
        if alpha[k] > 0.0 and (low < 0 or slope[k] < slope[low]):
            low = k
    slack = max(slope[top], 0.0)
    of_truth = total / (2.0 * c) if squared else 0.0
    gap = c * slack * slack + total * total / (4.0 * c) - inner if squared else c * slack - inner
    up = top if slope[top] > of_truth else TRUTH
    truth_can_give = squared or total < c
    down = low
    if low < 0 or (truth_can_give and of_truth < slope[low]):
        down = TRUTH
    if up == down or (down < 0 and not truth_can_give):
        return gap
    rise = (slope[up] if up >= 0 else of_truth) - (slope[down] if down >= 0 else of_truth)
    bend = curvature(ptr, columns, data, up, down, metric, work)
    if squared and (up < 0 or down < 0):
        bend += 1.0 / (2.0 * c)
    room = alpha[down] if down >= 0 else (np.inf if squared else c - total)
    step = min(room, rise / bend) if bend > 0.0 else room
    if not (step > 0.0 and step < np.inf):
        return gap
    if up >= 0:
        alpha[up] += step
        move_weights(ptr, columns, data, up, step, metric, lower, free, w)
    if down >= 0:
        alpha[down] = 0.0 if step == alpha[down] else alpha[down] - step
        move_weights(ptr, columns, data, down, -step, metric, lower, free, w)
    return gap


@njit(cache=True, nogil=True)
def sweep(
    order: I64, block: I64, planes: I64, share: F64, squared: bool, ptr: I64, columns: Index, data: F64, loss: F64,
    alpha: F64, slope: F64, metric: F64, lower: F64, free: F64, w: F64, work: F64, steps: int,
) -> float:  # fmt: skip
    """Visit the listed examples, some steps each; return the sum of the gaps met first.

    Example i has the planes ``planes[block[i] : block[i + 1]]``.
    """
    gap = 0.0
    for i in order:
        if block[i] < block[i + 1] and share[i] > 0.0:
            for repeat in range(steps):
                found = visit(
                    planes[block[i] : block[i + 1]], share[i], squared, ptr, columns, data, loss, alpha,
                    slope, metric, lower, free, w, work,
                )  # fmt: skip
                gap += found if repeat == 0 else 0.0
    return gap
