"""Coordinate ascent on the smoothed dual of a linear program over a box, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import njit


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
