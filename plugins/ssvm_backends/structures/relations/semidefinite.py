r"""Upper bounds of clusterings by a semidefinite relaxation: alternating directions over matrices of pairs.

The matrix X of a clustering, 1 where two items are together and 0 elsewhere, is positive semidefinite with ones on its
diagonal.  Where many clusters are hidden in noise this says far more than triangles do: of 200 items in ten planted
clusters with a fifth of wrong signs the bound by triangles is 16 % too high, that by semidefinite matrices with entries
of at least 0 is the optimum (as theory says of planted partitions: Ames, Mathematical Programming 147, 2014).  Rows
that X violates are added, as in the relaxation by rows alone; both together are tighter than each.

The dual is improved by alternating directions (Wen, Goldfarb and Yin, Mathematical Programming Computation 2, 2010):
the multipliers of the diagonal, then those of entries and rows, by sweeps as in
:mod:`~ssvm_backends.structures.relations.relaxation`, then the semidefinite slack, by eigenvectors.  Any multipliers
prove a bound, whatever the slack: its least eigenvalue, where it is below zero, is paid for by the trace of X, which is
known.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.structures.relations.ascent_kernel import AscentRows, sweep
from ssvm_backends.structures.relations.relaxation import LEAST, Relaxed, RowPool, Separate
from ssvm_dsl.ir import F64, I64
from ssvm_dsl.plugin_api import Clock

#: Iterations at most, how often the bound is computed, how often rows are added, and sweeps over them in an iteration.
ITERATIONS, CHECK_EVERY, ROWS_EVERY, SWEEPS = 3000, 10, 30, 3

#: Steps are longer than alternating directions say by this factor.
OVER = 1.6

#: The weight of the residuals is moved by this factor where one of them is so many times the other.
FACTOR, APART = 1.3, 1.5

#: Relative residuals at which there is nothing left to gain.
CONVERGED = 1e-6

#: The search ends when so many checks have not lowered the bound by this share of its distance from what is asked for.
PATIENCE, PROGRESS = 12, 0.02

#: Seconds of an iteration over n items: by this factor of the cube of n.
CUBE_SECONDS = 5e-10

#: Rounding of one addition in float64.
_EPS = 2.0**-52


def pair_bound(separate: Separate, n: int, gain: F64, high: F64, floor: float, clock: Clock) -> Relaxed:
    """Return an upper bound on what the pairs of a clustering of n items gain.

    Parameters
    ----------
    separate : callable
        Returns rows that a point violates: numbers of all pairs a < b, in the order of ``np.triu_indices(n, 1)``.
    n : int
    gain : ndarray of float64, shape (n (n - 1) / 2,)
    high : ndarray of float64, shape (n (n - 1) / 2,)
        0 for pairs that are apart, else 1.
    floor : float
        A bound as low as this is low enough.
    clock : Clock
        The search ends with it.

    Returns
    -------
    Relaxed
        With bound and reduced gains of the best multipliers, and the last point.
    """
    a, b = np.triu_indices(n, 1)
    low, pool, m = np.zeros(len(gain)), RowPool(), len(gain)
    best = Relaxed(float(np.maximum(gain * high, 0.0).sum()), gain, np.where(gain > 0.0, high, 0.0), pool)
    scale = float(np.abs(gain[high > 0.0]).mean()) if (high > 0.0).any() else 0.0
    if scale == 0.0:
        return best
    pairs = a, b
    cost = _matrix(n, pairs, -0.5 * gain / scale)
    size = 1.0 + float(np.linalg.norm(cost))
    X, slack, weight, stalled, before = np.eye(n), np.zeros((n, n)), 1.0, 0, best.bound
    for number in range(1, ITERATIONS + 1):
        if best.bound <= floor or clock.left < 2.0 * CUBE_SECONDS * n**3:
            break
        # the multipliers of the diagonal, then of entries and rows
        diagonal = np.diag(cost - slack) - weight * (np.diag(X) - 1.0)
        open_part = (cost - slack - weight * X)[a, b]
        reduced = pool.moved(m) - 2.0 * open_part - weight
        rows = AscentRows(pool.ptr, pool.column, pool.coefficient, pool.lower)
        for _ in range(SWEEPS if len(pool.lower) else 0):
            sweep(rows, low, high, 2.0 * weight, pool.dual, reduced)
        point = high * np.clip(reduced / (2.0 * weight) + 0.5, 0.0, 1.0)
        paid = open_part + weight * point
        # the slack is the positive part of what is left, X the negative one
        left = cost - _matrix(n, pairs, paid)
        left[np.arange(n), np.arange(n)] -= diagonal
        moved = left - weight * X
        value, vector = np.linalg.eigh(moved)
        k = int(np.searchsorted(value, 0.0))
        negative = -(vector[:, :k] * value[:k]) @ vector[:, :k].T
        slack, following = moved + negative, negative / weight
        dual_residual = weight * float(np.linalg.norm(following - X)) / size
        outside = np.linalg.norm(np.diag(following) - 1.0) + np.sqrt(2.0) * np.linalg.norm(following[a, b] - point)
        primal_residual = float(outside / max(np.linalg.norm(X), 1.0))
        X = X + OVER * (following - X)
        if number % CHECK_EVERY:
            continue
        proved, by_pairs = _certified(scale, left, diagonal, paid, high, pool)
        if proved < best.bound:
            best = Relaxed(proved, by_pairs, point, best.pool)
        stalled += 1
        if best.bound < before - PROGRESS * max(before - floor, 0.0) or not np.isfinite(floor):
            stalled, before = 0, best.bound
        residual = max(primal_residual, dual_residual)
        if primal_residual < dual_residual / APART:
            weight /= FACTOR
        elif primal_residual > dual_residual * APART:
            weight *= FACTOR
        if residual < CONVERGED or stalled >= PATIENCE:
            break
        if number % ROWS_EVERY == 0:
            pool = pool.take(pool.dual > 0.0)
            pool.add(separate(np.clip(following[a, b], 0.0, high), LEAST))
    best.point = np.clip(X[a, b], 0.0, high)
    return best


def _certified(scale: float, left: F64, diagonal: F64, paid: F64, high: F64, pool: RowPool) -> tuple[float, F64]:
    """Return (the upper bound that multipliers prove, rounding included; the reduced gains of pairs)."""
    n = len(diagonal)
    value = np.linalg.eigvalsh(left)
    moved = pool.moved(len(paid)) - 2.0 * paid
    rounding = 64.0 * n * _EPS * (n * float(np.abs(value).max()) + float(np.abs(diagonal).sum() + np.abs(moved).sum()))
    rounding += 64.0 * _EPS * float(pool.dual @ (np.abs(pool.lower) + np.diff(pool.absolute)))
    trace = float(diagonal.sum()) + n * min(0.0, float(value[0]))
    bound = float(np.maximum(moved * high, 0.0).sum()) - trace - float(pool.dual @ pool.lower)
    return scale * (bound + rounding), scale * moved


def _matrix(n: int, pairs: tuple[I64, I64], entries: F64) -> F64:
    """Return the symmetric matrix of numbers of pairs, with zeros on its diagonal."""
    out = np.zeros((n, n))
    out[pairs] = entries
    return np.asarray(out + out.T)
