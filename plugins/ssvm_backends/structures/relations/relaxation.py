r"""Upper bounds of relations: dual ascent on rows that are found where the current point violates them.

The linear relaxation of a clustering of 200 items has 1.3 million triangles, and simplex and first-order methods are
slow on it.  Here its dual is smoothed by a width that shrinks from round to round, and improved row by row
(:func:`sweep`; rows of three entries make this the method of Hildreth, as in
Veldt, Gleich, Wirth and Saunderson, SIAM Journal on Mathematics of Data Science 1, 2019).  Each round separates the
smoothed primal point, adds what it violates, sweeps over all rows a few times and drops rows whose dual is zero.  Any
nonnegative duals prove a bound, whatever the smoothing, so that the best bound so far is valid at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, Bools, LinearRows, owners, pointers, runs
from ssvm_dsl.kernels import njit
from ssvm_dsl.plugin_api import Clock

# -- Coordinate ascent on the smoothed dual of a linear program over a box, compiled ---------------------------------


class AscentRows(NamedTuple):
    """Rows ``A x >= lower``.

    Parameters
    ----------
    ptr : ndarray of int64, shape (n_rows + 1,)
    column : ndarray of int32
    coefficient : ndarray of float64
    lower : ndarray of float64, shape (n_rows,)
    """

    ptr: I64
    column: I32
    coefficient: F64
    lower: F64


@njit(cache=True, nogil=True)
def sweep(rows: AscentRows, low: F64, high: F64, width: float, dual: F64, reduced: F64) -> None:
    r"""Set the dual of each row, one after the other, to where the smoothed dual is least.

    The dual of ``max g . x`` subject to ``A x >= lower``, ``low <= x <= high`` is the least value over ``y >= 0`` of
    ``sum_e max_x (r_e x) - lower . y`` with the reduced gains ``r = g + A' y``.  The inner maximum is smoothed: x goes
    from its lower to its upper end as r goes from ``-width / 2`` to ``width / 2``.  Along one coordinate the derivative
    is then piecewise linear, and its zero is found exactly, breakpoint by breakpoint.

    Parameters
    ----------
    rows : AscentRows
    low, high : ndarray of float64, shape (n,)
        The box.
    width : float
        Of the smoothing; more than 0.
    dual : ndarray of float64, shape (n_rows,)
        Changed; never negative.
    reduced : ndarray of float64, shape (n,)
        The reduced gains; changed with it.
    """
    ptr, column, coefficient, lower = rows
    for row in range(len(lower)):
        lo, hi = ptr[row], ptr[row + 1]
        for _ in range(2 * (hi - lo) + 2):
            slack, slope = -lower[row], 0.0
            for at in range(lo, hi):
                e, c = column[at], coefficient[at]
                place = reduced[e] / width + 0.5
                if place <= 0.0:
                    slack += c * low[e]
                elif place >= 1.0:
                    slack += c * high[e]
                else:
                    slack += c * (low[e] + place * (high[e] - low[e]))
            if -1e-12 <= slack <= 1e-12 or (slack > 0.0 and dual[row] == 0.0):
                break
            up = 1.0 if slack < 0.0 else -1.0
            reach = np.inf  # how far the dual can go until the smoothed x of some column begins or ends to move
            for at in range(lo, hi):
                e = column[at]
                direction = up * coefficient[at]
                place = reduced[e] / width + 0.5
                if low[e] == high[e] or direction == 0.0:
                    continue
                if direction > 0.0:
                    if place < 0.0:
                        reach = min(reach, -place * width / direction)
                    elif place < 1.0:
                        slope += coefficient[at] * coefficient[at] * (high[e] - low[e]) / width
                        reach = min(reach, (1.0 - place) * width / direction)
                elif place > 1.0:
                    reach = min(reach, (1.0 - place) * width / direction)
                elif place > 0.0:
                    slope += coefficient[at] * coefficient[at] * (high[e] - low[e]) / width
                    reach = min(reach, -place * width / direction)
            step = abs(slack) / slope if slope > 0.0 else np.inf
            done = step <= reach
            step = min(step, reach + 1e-12 * width)
            if up < 0.0 and step >= dual[row]:
                step, done = dual[row], True
            if step == np.inf:
                break  # no column of the row can move any more: nothing keeps it
            dual[row] = dual[row] + up * step if not (up < 0.0 and step == dual[row]) else 0.0
            for at in range(lo, hi):
                reduced[column[at]] += up * step * coefficient[at]
            if done:
                break


#: Rounds at most, sweeps of each, and how often rows without a dual are dropped.
ROUNDS, SWEEPS, DROP_EVERY = 150, 10, 3

#: The width of the smoothing in units of the mean absolute gain: at first, its factor from round to round, and at last.
WIDEST, NARROWING, NARROWEST = 1.0, 0.9, 1e-3

#: The factor for up to so many columns: each round takes longer to set up than to compute.
NARROWING_FEW, FEW = 0.7, 200

#: Rows that are violated by less are not added.
LEAST = 0.01

#: The ascent ends when so many rounds at the last widths have not lowered the bound by this share of its distance.
PATIENCE, PROGRESS = 6, 1e-3

#: Rounding of one addition in float64, with a margin.
_EPS = 2.0**-52

#: Finds rows that a point violates by at least so much.
Separate = Callable[[F64, float], LinearRows]


@dataclass(eq=False)
class RowPool:
    """Rows ``A x >= lower`` with their duals.

    Parameters
    ----------
    ptr, column, coefficient, lower
        The rows.
    dual : ndarray of float64, shape (n_rows,)
    """

    ptr: I64 = field(default_factory=lambda: np.zeros(1, np.int64))
    column: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
    coefficient: F64 = field(default_factory=lambda: np.zeros(0))
    lower: F64 = field(default_factory=lambda: np.zeros(0))
    dual: F64 = field(default_factory=lambda: np.zeros(0))

    def add(self, rows: LinearRows) -> None:
        """Add rows with dual 0; of rows with an upper bound the opposite."""
        over = np.isfinite(rows.upper)
        for some, sign, bound in ((np.isfinite(rows.lower), 1.0, rows.lower), (over, -1.0, -rows.upper)):
            mine = np.flatnonzero(some)
            if not len(mine):
                continue
            entries = runs(rows.ptr[mine], np.diff(rows.ptr)[mine])
            self.ptr = pointers(np.concatenate([np.diff(self.ptr), np.diff(rows.ptr)[mine]]))
            self.column = np.concatenate([self.column, rows.column[entries]])
            self.coefficient = np.concatenate([self.coefficient, sign * rows.coefficient[entries]])
            self.lower = np.concatenate([self.lower, bound[mine]])
            self.dual = np.concatenate([self.dual, np.zeros(len(mine))])

    def take(self, kept: Bools) -> RowPool:
        """Return some of the rows."""
        length = np.diff(self.ptr)
        entries = np.repeat(kept, length)
        return RowPool(
            pointers(length[kept]), self.column[entries], self.coefficient[entries], self.lower[kept], self.dual[kept]
        )

    @property
    def absolute(self) -> F64:
        """Running sums of the absolute coefficients at the ends of rows."""
        return np.concatenate([np.zeros(1), np.cumsum(np.abs(self.coefficient))])[self.ptr]

    def gains_of_duals(self, n: int) -> F64:
        """Return what the duals add to the gains of n columns."""
        each = self.dual[owners(self.ptr)] * self.coefficient
        return np.bincount(self.column, each, n).astype(np.float64)

    def rows(self) -> LinearRows:
        """Return the rows."""
        return LinearRows(self.ptr, self.column, self.coefficient, self.lower, np.full(len(self.lower), np.inf))


@dataclass(eq=False)
class Relaxed:
    """The result of an ascent.

    Parameters
    ----------
    bound : float
        No x in the box that keeps all rows gains more.
    reduced : ndarray of float64, shape (n,)
        The reduced gains that prove it: a column at its other end loses as much of the bound.
    point : ndarray of float64, shape (n,)
        The smoothed primal point.
    pool : RowPool
        The rows with their duals.
    """

    bound: float
    reduced: F64
    point: F64
    pool: RowPool


def certified(gain: F64, low: F64, high: F64, pool: RowPool) -> tuple[float, F64]:
    """Return (the upper bound that the duals of a pool prove, rounding included; the reduced gains)."""
    reduced = gain + pool.gains_of_duals(len(gain))
    most = np.maximum(reduced * low, reduced * high)
    size = float(np.abs(gain).sum() + pool.dual @ np.diff(pool.absolute))
    constant = float(pool.dual @ pool.lower)
    rounding = _EPS * (64.0 * (size + float(pool.dual @ np.abs(pool.lower))))
    return float(most.sum()) - constant + rounding, reduced


def ascent(
    separate: Separate,
    gain: F64,
    low: F64,
    high: F64,
    floor: float,
    clock: Clock,
    pool: RowPool | None = None,
    rounds: int = ROUNDS,
) -> Relaxed:
    """Return an upper bound on ``gain . x`` over the points that no row separates.

    Parameters
    ----------
    separate : callable
        Returns rows that a point violates.
    gain : ndarray of float64, shape (n,)
    low, high : ndarray of float64, shape (n,)
        Bounds of the columns, between 0 and 1.
    floor : float
        A bound as low as this is low enough.
    clock : Clock
        The ascent ends with it.
    pool : RowPool, optional
        Rows to begin with.
    rounds : int
        Rounds at most.
    """
    pool, free = RowPool() if pool is None else pool, high > low
    scale = float(np.abs(gain[free]).mean()) if free.any() else 0.0
    bound, reduced = certified(gain, low, high, pool)
    best = Relaxed(bound, reduced, np.where(reduced > 0.0, high, low), pool)
    if scale == 0.0:
        return best
    width, stalled, narrowest = WIDEST * scale, 0, NARROWEST * scale
    narrowing = NARROWING if len(gain) > FEW else NARROWING_FEW
    for number in range(rounds):
        if clock.over or best.bound <= floor:
            break
        point = low + np.clip(reduced / width + 0.5, 0.0, 1.0) * (high - low)
        violated = separate(point, LEAST)
        pool.add(violated)
        rows = AscentRows(pool.ptr, pool.column, pool.coefficient, pool.lower)
        for _ in range(SWEEPS):
            sweep(rows, low, high, width, pool.dual, reduced)
        bound, reduced = certified(gain, low, high, pool)
        enough = PROGRESS * max(best.bound - floor, 1e-9 * scale) if np.isfinite(floor) else PROGRESS * scale
        stalled = 0 if bound < best.bound - enough or width > narrowest else stalled + 1
        if number % DROP_EVERY == DROP_EVERY - 1:
            pool = pool.take(pool.dual > 0.0)
        if bound < best.bound:
            best = Relaxed(bound, reduced.copy(), point, pool.take(pool.dual > 0.0))
        if stalled >= PATIENCE or (not violated.n_rows and not len(pool.lower)):
            break
        width = max(width * narrowing, narrowest)
    return best
