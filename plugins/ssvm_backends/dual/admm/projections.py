"""Projections for the constraint factors of AD3, and their terms of the dual bound.

A factor of AD3 for a hard constraint is one linear row over copies z of the columns it mentions, each within its box::

    K = { z :  lower <= a . z <= upper,  least_j <= z_j <= most_j }

Its subproblem is the nearest point of K.  By duality it is ``z_j = clip(c_j - level a_j, least_j, most_j)`` for the
level at which the sum meets its bound (zero where none is broken), a root of a monotone piecewise linear function.  XOR
(``sum = 1``: the simplex), OR (``sum >= 1``), OR with output (opposites of literals turn signs around), budgets and
knapsacks are all of this form (Martins, Figueiredo, Aguiar, Smith and Xing, AD3, JMLR 2015, section 5 and appendix C).

To the dual bound it adds ``max -message . z`` over K: a linear program of one row, whose dual

    min over nu of  (nu > 0: nu upper, else nu lower) + sum_j max over the box of (-message_j - nu a_j) z_j

is an upper bound at any nu, and least at one of the kinks ``-message_j / a_j`` or at zero.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.dual.admm.rows import RowFactors
from ssvm_dsl.ir import F64
from ssvm_dsl.kernels import njit

#: Sums meet their bounds up to this, relative to their terms.
EXACT = 1e-14

#: Steps of a search for a level; Newton steps on a piecewise linear function take few.
MOST_STEPS = 200


@njit(cache=True, nogil=True)
def sum_at(rows: RowFactors, r: int, c: F64, level: float) -> tuple[float, float, float]:
    """Return (sum, size of its terms, minus its slope) of row r at ``z = clip(c - level a)``.

    Parameters
    ----------
    rows : RowFactors
        Read only.
    r : int
        The row.
    c : ndarray of float64, shape (entries,)
        The point to be projected, entry by entry.
    level : float
    """
    total, size, slope = 0.0, 0.0, 0.0
    for j in range(rows.entry_ptr[r], rows.entry_ptr[r + 1]):
        a = rows.coefficient[j]
        z = c[j] - level * a
        if z <= rows.least[j]:
            z = rows.least[j]
        elif z >= rows.most[j]:
            z = rows.most[j]
        else:
            slope += a * a
        total += a * z
        size += abs(a * z)
    return total, size, slope


@njit(cache=True, nogil=True)
def project_row(rows: RowFactors, r: int, c: F64, level: float, z: F64) -> float:
    """Write the nearest point of row r's polytope to c; return the level, to start from next time.

    Newton steps within a bracket, by halves where the sum is flat: exact once the right piece is met.

    Parameters
    ----------
    rows, r, c
        As for :func:`sum_at`.
    level : float
        Where to start.
    z : ndarray of float64, shape (entries,)
        Those of the row are written.
    """
    total, size, _ = sum_at(rows, r, c, 0.0)
    close = EXACT * (size + 1e-300)
    multiplier = 0.0
    if total > rows.upper[r] + close or total < rows.lower[r] - close:
        above = total > rows.upper[r]
        target, sign = (rows.upper[r], 1.0) if above else (rows.lower[r], -1.0)
        low, high = 0.0, 0.0  # of sign * level: beyond high all entries are at that end of their boxes
        for j in range(rows.entry_ptr[r], rows.entry_ptr[r + 1]):
            a = rows.coefficient[j] * sign
            end = rows.least[j] if a > 0.0 else rows.most[j]
            high = max(high, (c[j] - end) / a)
        at = min(max(sign * level, low), high)
        for _ in range(MOST_STEPS):
            total, size, slope = sum_at(rows, r, c, sign * at)
            excess = sign * (total - target)
            if abs(excess) <= EXACT * size:
                break
            if excess > 0.0:
                low = at
            else:
                high = at
            nearer = at + excess / slope if slope > 0.0 else -1.0
            if not (low < nearer <= high) or nearer == at:
                nearer = 0.5 * (low + high)
            if nearer == at or not low <= nearer <= high:
                break
            at = nearer
        multiplier = sign * at
    for j in range(rows.entry_ptr[r], rows.entry_ptr[r + 1]):
        z[j] = min(max(c[j] - multiplier * rows.coefficient[j], rows.least[j]), rows.most[j])
    return multiplier


@njit(cache=True, nogil=True)
def row_bound(rows: RowFactors, r: int, message: F64) -> tuple[float, float]:
    """Return (upper bound on ``-message . z`` over row r's polytope, size of its terms); the least one that nu gives.

    Parameters
    ----------
    rows, r
        As for :func:`sum_at`.
    message : ndarray of float64, shape (entries,)
    """
    first, stop = rows.entry_ptr[r], rows.entry_ptr[r + 1]
    left, right, nu = -np.inf, np.inf, 0.0
    best, of_best = np.inf, 0.0
    while True:
        upper = rows.upper[r] if nu >= 0.0 else rows.lower[r]  # its slope to the right, and to the left
        lower = rows.upper[r] if nu > 0.0 else rows.lower[r]
        value = 0.0
        if nu > 0.0:
            value = nu * rows.upper[r]
        elif nu < 0.0:
            value = nu * rows.lower[r]
        size, inside = abs(value), 0
        for j in range(first, stop):
            a = rows.coefficient[j]
            price = -message[j] - nu * a
            if message[j] == -nu * a:
                price = 0.0
            low, high = (rows.least[j], rows.most[j]) if a > 0.0 else (rows.most[j], rows.least[j])
            z = rows.most[j] if price > 0.0 else rows.least[j]
            value += price * z
            size += (abs(message[j]) + abs(nu * a)) * max(abs(rows.least[j]), abs(rows.most[j]))
            kink = -message[j] / a
            tied = price == 0.0 or kink == nu
            upper -= a * (low if tied else z)
            lower -= a * (high if tied else z)
            inside += left < kink < right and kink != nu
        if value < best:
            best, of_best = value, size
        if (lower <= 0.0 <= upper) or inside == 0:
            return best, of_best
        if upper < 0.0:
            left = nu
        else:
            right = nu
        inside = 0  # of those that are left, the one in the middle of the list
        for j in range(first, stop):
            inside += left < -message[j] / rows.coefficient[j] < right
        if inside == 0:
            return best, of_best
        inside //= 2
        for j in range(first, stop):
            kink = -message[j] / rows.coefficient[j]
            if left < kink < right:
                if inside == 0:
                    nu = kink
                    break
                inside -= 1


@njit(cache=True, nogil=True)
def project_simplex(x: F64, first: int, n: int) -> None:
    """Replace ``x[first : first + n]`` by the nearest distribution (Michelot 1986): drop negative entries, repeat."""
    top = x[first]
    for s in range(first, first + n):
        top = max(top, x[s])
    level, count = -np.inf, n + 1  # of numbers from the largest one on, of which that one is always left
    while True:
        total, above = 0.0, 0
        for s in range(first, first + n):
            if x[s] - top > level:
                total += x[s] - top
                above += 1
        if above >= count:
            break
        level, count = (total - 1.0) / above, above
    for s in range(first, first + n):
        x[s] = max(0.0, x[s] - top - level)
