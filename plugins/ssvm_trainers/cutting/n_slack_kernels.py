"""Dual coordinate steps over sparse planes with one slack for each example: the inner solver of ``n-slack``.

With ``psi_k`` the rows, ``c_i = weight_i / n`` and A_i the sum of the dual weights of example i, the dual is

    max_a  D(sum_k a_k psi_k, sum_k a_k loss_k)                      with a >= 0, A_i <= c_i     (slacks)
    max_a  D(sum_k a_k psi_k, sum_k a_k loss_k) - sum_i A_i^2 / (4 c_i)    with a >= 0           (squared slacks)

A step moves dual weight between two planes of one example, or between a plane and the truth (whose row is zero,
whose slope is 0 for slacks and ``A_i / (2 c_i)``, the slack itself, for squared ones).  The length is that of the
maximum of the quadratic without lower bounds on weights, which lies below the dual: no step loses.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import njit

Index = NDArray[np.int32] | NDArray[np.int64]

#: The number of the truth among planes; typed, since numba compiles a function again for each literal argument.
TRUTH: Any = np.int64(-1)


class PlaneRows(NamedTuple):
    """The rows ``psi`` of all planes, in CSR form; ascending columns in each.

    Parameters
    ----------
    ptr : ndarray of int64, shape (n_planes + 1,)
        Where each row starts in ``columns`` and ``data``.
    columns : ndarray of int32 or int64, shape (n_entries,)
    data : ndarray of float64, shape (n_entries,)
    """

    ptr: I64
    columns: Index
    data: F64


class PlaneDuals(NamedTuple):
    """Losses, dual weights and slopes of all planes.

    Parameters
    ----------
    loss : ndarray of float64, shape (n_planes,)
        Loss of each plane; read only.
    alpha : ndarray of float64, shape (n_planes,)
        Dual weights; those of an example add up to at most its ``c`` (slacks).  Changed in place.
    slope : ndarray of float64, shape (n_planes,)
        Work space: written with the slopes before a step.
    block : ndarray of int64, shape (n + 1,)
    planes : ndarray of int64, shape (n_planes,)
        Example i has the planes ``planes[block[i] : block[i + 1]]``.
    """

    loss: F64
    alpha: F64
    slope: F64
    block: I64
    planes: I64


class MovedWeights(NamedTuple):
    """The weights, and how they follow the dual weights.

    Parameters
    ----------
    metric, lower : ndarray of float64, shape (dim,)
        ``1 / (lam scale_j)``, and the lower bounds of weights (-inf: none); read only.
    free, w : ndarray of float64, shape (dim,)
        ``metric sum_k alpha_k psi_k``, and the same raised to ``lower``; changed in place.
    work : ndarray of float64, shape (dim,)
        Work space: zeros before and after.
    """

    metric: F64
    lower: F64
    free: F64
    w: F64
    work: F64


@njit(cache=True, nogil=True)
def row_dot(rows: PlaneRows, k: int, w: F64) -> float:
    """Return the product of a row with a dense vector."""
    ptr, columns, data = rows
    total = 0.0
    for e in range(ptr[k], ptr[k + 1]):
        total += data[e] * w[columns[e]]
    return total


@njit(cache=True, nogil=True)
def add_row(rows: PlaneRows, k: int, factor: float, out: F64) -> None:
    """Add a multiple of a row to a dense vector."""
    ptr, columns, data = rows
    for e in range(ptr[k], ptr[k + 1]):
        out[columns[e]] += factor * data[e]


@njit(cache=True, nogil=True)
def move_weights(rows: PlaneRows, k: int, step: float, weights: MovedWeights) -> None:
    """Follow a change of a plane's dual weight, by ``step``: ``free += step metric row``, ``w = max(free, lower)``."""
    (ptr, columns, data), (metric, lower, free, w, _) = rows, weights
    for e in range(ptr[k], ptr[k + 1]):
        j = columns[e]
        free[j] += step * metric[j] * data[e]
        w[j] = max(free[j], lower[j])


@njit(cache=True, nogil=True)
def curvature(rows: PlaneRows, up: int, down: int, metric: F64, work: F64) -> float:
    """Return ``(psi_up - psi_down)' metric (psi_up - psi_down)``; the truth, plane -1, has a row of zeros.

    ``work`` is zeros, of a number for each weight, before and after.
    """
    ptr, columns, _ = rows
    if up >= 0:
        add_row(rows, up, 1.0, work)
    if down >= 0:
        add_row(rows, down, -1.0, work)
    total = 0.0
    for k in (up, down):
        if k >= 0:
            for e in range(ptr[k], ptr[k + 1]):
                j = columns[e]
                total += metric[j] * work[j] * work[j]
                work[j] = 0.0  # and so a column of both rows counts once
    return total


@njit(cache=True, nogil=True)
def visit(
    own: I64, c: float, squared: bool, rows: PlaneRows, kept: PlaneDuals, weights: MovedWeights
) -> float:
    """Take one step within an example, whose planes are ``own``; return its duality gap before the step.

    With slopes ``g_k = loss_k - w . psi_k`` (that of the truth is 0, or ``A / (2 c)`` for squared slacks), weight moves
    from the plane of least slope that has any to that of the largest one, by

        min(limit, (g_up - g_down) / curvature),

    where the curvature is ``|psi_up - psi_down|^2`` in the metric, plus ``1 / (2 c)`` where slacks are squared and one
    of the two is the truth.  Without bounds on weights this is the exact maximum along the line.

    Parameters
    ----------
    own : ndarray of int64, shape (k,)
        The rows of the example's planes; at least one.
    c : float
        ``weight_i / n``, positive: the most dual weight of an example with slacks, their scale with squared ones.
    squared : bool
        Whether slacks are squared.
    rows : PlaneRows
        Read only.
    kept : PlaneDuals
        Two dual weights change at most.
    weights : MovedWeights
        Changed in place.

    Returns
    -------
    float
        ``max_k (primal term - dual term)`` of this example: its share of the duality gap over the planes kept.
    """
    loss, alpha, slope, _, _ = kept
    total, inner, top, low = 0.0, 0.0, TRUTH, TRUTH
    for k in own:
        slope[k] = loss[k] - row_dot(rows, k, weights.w)
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
    bend = curvature(rows, up, down, weights.metric, weights.work)
    if squared and (up < 0 or down < 0):
        bend += 1.0 / (2.0 * c)
    # weight that a plane can give away: its own; the truth has the rest of c, and no limit if slacks are squared
    limit = alpha[down] if down >= 0 else (np.inf if squared else c - total)
    step = min(limit, rise / bend) if bend > 0.0 else limit
    if not (step > 0.0 and step < np.inf):  # rise <= 0 (the example is solved), or rounding left no length
        return gap
    if up >= 0:
        alpha[up] += step
        move_weights(rows, up, step, weights)
    if down >= 0:
        alpha[down] = 0.0 if step == alpha[down] else alpha[down] - step  # exactly 0: the plane may be dropped
        move_weights(rows, down, -step, weights)
    return gap


@njit(cache=True, nogil=True)
def sweep(
    order: I64, share: F64, squared: bool, rows: PlaneRows, kept: PlaneDuals, weights: MovedWeights, steps: int
) -> float:
    """Visit the listed examples, some steps each; return the sum of the gaps met first.

    Examples without planes, and those of weight zero, are left out: nothing can move there.

    Parameters
    ----------
    order : ndarray of int64
        The examples, as they are to be visited.
    share : ndarray of float64, shape (n,)
        ``weight_i / n``, the c of each example; read only.
    squared, rows, kept, weights
        As for :func:`visit`.
    steps : int
        Steps of each visit.
    """
    gap, block = 0.0, kept.block
    for i in order:
        if block[i] < block[i + 1] and share[i] > 0.0:
            own = kept.planes[block[i] : block[i + 1]]
            for repeat in range(steps):
                own_gap = visit(own, share[i], squared, rows, kept, weights)
                gap += own_gap if repeat == 0 else 0.0  # deliberately the gap before the steps: w moves on
    return gap
