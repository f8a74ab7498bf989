"""Compiled steps of :mod:`ssvm_trainers.dual.projection.polytopes`: Newton's method, one example after the other.

A column is a state of a variable or a joint state of a factor.  Those of a factor are a table, and the multipliers of
its equations one vector for each of its variables, so that ``z + A' y`` over a table is a sum along its axes and no
index is looked up.  Rows without a positive column, nearly all of them close to a labelling, have no part in Newton's
equations; the others are solved by the Cholesky factor of a matrix stored from the first entry of each row on, which
is narrow as rows are in the order of the graph.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import njit

# -- The equations of polytopes of marginals, as the kernels of projections read them --------------------------------


class PolytopeLayout(NamedTuple):
    """Columns and rows of all examples; numbers of columns and rows are those of all examples together.

    Parameters
    ----------
    state_ptr : ndarray of int64, shape (B + 1,)
        Columns of the variables of each example.
    entry_ptr : ndarray of int64, shape (S + 1,)
        Entries of each of these columns ...
    entry_row, entry_sign : ndarray of int64 and of float64
        ... their rows and values.
    factor_ptr : ndarray of int64, shape (B + 1,)
        Factors of each example.
    first, pool : ndarray of int64, shape (F,)
        Where the columns of a factor start, and where their scores do.
    size, arity : ndarray of int64, shape (F,)
        Its columns, and its variables.
    card, slot : ndarray of int64, shape (F, max_arity)
        States of each variable of a factor, and the row of the first: ``+1`` for the joint states that hold it.
    row_ptr : ndarray of int64, shape (B + 1,)
        Rows of each example.
    right : ndarray of float64, shape (n_rows,)
    implied : ndarray of bool, shape (n_rows,)
        Rows that follow from others; their multipliers are zero.
    """

    state_ptr: I64
    entry_ptr: I64
    entry_row: I64
    entry_sign: F64
    factor_ptr: I64
    first: I64
    pool: I64
    size: I64
    arity: I64
    card: I64
    slot: I64
    row_ptr: I64
    right: F64
    implied: Bools


#: Newton steps of an example at most, those after which steps may lead as far as the first, and points tried along one.
MOST_STEPS, RESTART, MAX_TRIED = 500, 50, 50

#: The slope along a step falls to this share.
SHARE = 0.1

#: Damping of Newton's equations: always, and for each unit that rows are off; the first multiplier is for a step of
#: no great length, and is adapted.
LEAST_DAMPING, MOST_OFF = 1e-12, 1.0
SHORTER, LONGER, SHORTEST = 0.3, 2.0, 1e-3

#: Pivots below this share of the diagonal are rounding.
NO_PIVOT = 1e-15


class _Workspace(NamedTuple):
    """Work space for one example: it has n columns, m rows, and e entries of columns.

    Parameters
    ----------
    z, u, along : ndarray of float64, shape (n,)
        The projected point, ``u = z + A' y``, and ``A' direction``.
    entry_ptr : ndarray of int64, shape (n + 1,)
        Entries of each positive column, one after the other ...
    entry_row, entry_sign : ndarray of int32 and of float64, shape (e,)
        ... their rows, counted within the example, and values.
    slope, direction : ndarray of float64, shape (m,)
        Of rows: ``A max(0, u) - b``; the step, zero between calls of :func:`_search`.
    number : ndarray of int64, shape (m,)
        Each row's place in Newton's equations, -1 where it has none.
    rows, begin : ndarray of int64, shape (m,)
        Of Newton's equations: their rows, and the first entry of each.
    ptr : ndarray of int64, shape (m + 1,)
        Where the entries of each equation start in the matrix.
    step : ndarray of float64, shape (m,)
        Their right-hand side, then their solution.
    """

    z: F64
    u: F64
    along: F64
    entry_ptr: I64
    entry_row: I32
    entry_sign: F64
    slope: F64
    direction: F64
    number: I64
    rows: I64
    begin: I64
    ptr: I64
    step: F64


class ProjectedPoint(NamedTuple):
    """What is projected: ``x + length * scores``.

    Parameters
    ----------
    x : ndarray of float64, shape (n_columns,)
    scores : ndarray of float64
        Of the states, then of the tables (``layout.pool``).
    length : float
    used : ndarray of bool, shape (n_columns,) or (0,)
        Columns that may be positive; all for shape (0,).
    share : ndarray of float64, shape (B,)
        How much each example counts.
    """

    x: F64
    scores: F64
    length: float
    used: Bools
    share: F64


class NewtonState(NamedTuple):
    """How far each example has come.

    Parameters
    ----------
    y : ndarray of float64, shape (n_rows,)
        Multipliers to start from; those of the projections after.
    todo : ndarray of bool, shape (B,)
        False for those that are done; the others need more steps from their ``y``.
    steps : ndarray of int64, shape (B,)
        Steps of each example so far, 0 before the first call.
    radius : ndarray of float64, shape (B,)
        How far the next step of each example may lead; of those without steps it is not read.
    """

    y: F64
    todo: Bools
    steps: I64
    radius: F64


@njit(cache=True, nogil=True)
def project_all(
    layout: PolytopeLayout, point: ProjectedPoint, newton: NewtonState, accuracy: float, budget: int, out: F64,
    mass: F64,
) -> tuple[float, float]:  # fmt: skip
    """Write the projections of the examples in ``todo`` to ``out``.

    The call returns after some steps of Newton's method, so that its caller may check the clock; calls with the same
    arrays continue from there, and the cuts change no result.

    Parameters
    ----------
    layout : PolytopeLayout
    point : ProjectedPoint
        Read only.
    newton : NewtonState
        Continued in place.
    accuracy : float
        How far a row may be off, relative to the largest number projected.
    budget : int
        Columns that may be passed over, once for each step of their example; the last step may go beyond.
    out : ndarray of float64, shape (n_columns,)
        Written for those that are done.
    mass : ndarray, shape of ``point.scores``
        ``share * out`` is added, columns with the same score added up.

    Returns
    -------
    moved, off : float
        ``sum_k share_k (x_k - out_k)^2`` of those that were done now, and how far rows of the others are off, else 0.
    """
    x, share, (y, todo, steps, radius) = point.x, point.share, newton
    workspace = _workspace(layout)
    matrix = np.empty(1024)
    moved, farthest = 0.0, 0.0
    for i in range(len(share)):
        if not todo[i] or budget <= 0:
            continue
        largest, n_columns = _shift(layout, point, i, workspace)
        tolerance = accuracy * (1.0 + largest)
        while budget > 0:
            budget -= n_columns
            n_positive, off = _evaluate(layout, y, i, workspace)
            if off <= tolerance:
                todo[i] = False
                break
            if steps[i] % RESTART == 0:
                radius[i] = 1.0
                if steps[i] == MOST_STEPS:
                    break
            steps[i] += 1
            n, size = _active_rows(layout, i, n_positive, workspace)
            if size > len(matrix):
                matrix = np.empty(2 * size)
            # damping falls with the residual, so that the last steps are Newton's; radius adapts as in a trust region
            _fill(n, n_positive, LEAST_DAMPING + min(off, MOST_OFF) / radius[i], workspace, matrix)
            _solve(matrix, workspace.ptr, workspace.begin, n, workspace.step)
            taken = _search(layout, i, n, workspace)
            row0 = layout.row_ptr[i]
            for k in range(n):
                y[row0 + workspace.rows[k]] += taken * workspace.step[k]
                workspace.direction[workspace.rows[k]] = 0.0  # rows of the next equations may be others
            radius[i] = max(radius[i] * SHORTER, SHORTEST) if taken < 0.5 else radius[i] * LONGER
        if todo[i]:
            farthest = max(farthest, off)
        else:
            moved += share[i] * _write(layout, x, share[i], i, workspace, out, mass)
    return moved, farthest


@njit(cache=True, nogil=True)
def _workspace(layout: Any) -> Any:
    columns, rows, entries = 0, 0, 0
    for i in range(len(layout.row_ptr) - 1):
        lo, hi = layout.state_ptr[i], layout.state_ptr[i + 1]
        n, m = hi - lo, layout.entry_ptr[hi] - layout.entry_ptr[lo]
        for f in range(layout.factor_ptr[i], layout.factor_ptr[i + 1]):
            n += layout.size[f]
            m += layout.size[f] * layout.arity[f]
        columns, entries = max(columns, n), max(entries, m)
        rows = max(rows, layout.row_ptr[i + 1] - layout.row_ptr[i])
    return _Workspace(
        np.empty(columns), np.empty(columns), np.empty(columns), np.empty(columns + 1, np.int64),
        np.empty(entries, np.int32), np.empty(entries), np.empty(rows), np.zeros(rows), np.empty(rows, np.int64),
        np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows + 1, np.int64), np.empty(rows),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _shift(layout: Any, point: Any, i: int, space: Any) -> tuple[float, int]:
    """Write ``z = x + length * scores`` of an example; return its largest number, in absolute value, and how many.

    It is -inf where ``used`` rules a column out, so that its projection is zero.
    """
    x, scores, length, used, _ = point
    lo, hi = layout.state_ptr[i], layout.state_ptr[i + 1]
    largest, k = _add_scaled(x[lo:hi], scores[lo:hi], length, space.z[: hi - lo]), hi - lo
    if len(used):
        _forbid(used[lo:hi], space.z[:k])
    for f in range(layout.factor_ptr[i], layout.factor_ptr[i + 1]):
        size, first, pool = layout.size[f], layout.first[f], layout.pool[f]
        z = space.z[k : k + size]
        largest = max(largest, _add_scaled(x[first : first + size], scores[pool : pool + size], length, z))
        if len(used):
            _forbid(used[first : first + size], z)
        k += size
    return largest, k


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc", "contract"})
def _add_scaled(x: Any, scores: Any, length: float, out: Any) -> float:
    largest = 0.0
    for k in range(len(out)):
        value = x[k] + length * scores[k]
        out[k] = value
        largest = max(largest, abs(value))
    return largest


@njit(cache=True, nogil=True)
def _forbid(used: Any, z: Any) -> None:
    for k in range(len(z)):
        if not used[k]:
            z[k] = -np.inf


@njit(cache=True, nogil=True)
def _evaluate(layout: Any, y: Any, i: int, space: Any) -> tuple[int, float]:
    """Write u, the slope ``A max(0, u) - b`` and positive columns; return how many, and how far rows are off."""
    row0, n_rows = layout.row_ptr[i], layout.row_ptr[i + 1] - layout.row_ptr[i]
    u, z, slope, number = space.u, space.z, space.slope, space.number
    n = m = k = 0
    space.entry_ptr[0] = 0
    for r in range(n_rows):
        slope[r] = -layout.right[row0 + r]
        number[r] = 0
    for c in range(layout.state_ptr[i], layout.state_ptr[i + 1]):
        value = z[k]
        for p in range(layout.entry_ptr[c], layout.entry_ptr[c + 1]):
            value += layout.entry_sign[p] * y[layout.entry_row[p]]
        u[k] = value
        if value > 0.0:
            for p in range(layout.entry_ptr[c], layout.entry_ptr[c + 1]):
                r, sign = layout.entry_row[p] - row0, layout.entry_sign[p]
                slope[r] += sign * value
                number[r] = 1
                space.entry_row[m], space.entry_sign[m] = r, sign
                m += 1
            n += 1
            space.entry_ptr[n] = m
        k += 1
    for f in range(layout.factor_ptr[i], layout.factor_ptr[i + 1]):
        inner = layout.arity[f] - 1
        card, last = layout.card[f, inner], layout.slot[f, inner]
        inner_y = y[last : last + card]
        for outer in range(layout.size[f] // card):
            add, rest = 0.0, outer
            for s in range(inner - 1, -1, -1):
                add += y[layout.slot[f, s] + rest % layout.card[f, s]]
                rest //= layout.card[f, s]
            row = u[k : k + card]
            if _add_to_row(z[k : k + card], inner_y, add, row):
                for t in range(card):
                    if row[t] > 0.0:
                        r, rest = last + t - row0, outer
                        slope[r] += row[t]
                        number[r] = 1
                        space.entry_row[m], space.entry_sign[m] = r, 1.0
                        m += 1
                        for s in range(inner - 1, -1, -1):
                            r = layout.slot[f, s] + rest % layout.card[f, s] - row0
                            rest //= layout.card[f, s]
                            slope[r] += row[t]
                            number[r] = 1
                            space.entry_row[m], space.entry_sign[m] = r, 1.0
                            m += 1
                        n += 1
                        space.entry_ptr[n] = m
            k += card
    off = 0.0
    for r in range(n_rows):
        if not layout.implied[row0 + r]:
            off = max(off, abs(slope[r]))
    return n, off


@njit(cache=True, nogil=True)
def _add_to_row(z: Any, y: Any, add: float, out: Any) -> int:
    """Write ``z + y + add`` and return how many are positive."""
    count = 0
    for t in range(len(out)):
        value = z[t] + y[t] + add
        out[t] = value
        count += 1 if value > 0.0 else 0
    return count


@njit(cache=True, nogil=True)
def _active_rows(layout: Any, i: int, n_positive: int, space: Any) -> tuple[int, int]:
    """Number the rows of Newton's equations and find the first entry of each; return the numbers of rows, entries."""
    row0, n, number, begin = layout.row_ptr[i], 0, space.number, space.begin
    for r in range(layout.row_ptr[i + 1] - row0):
        if not layout.implied[row0 + r] and (number[r] == 1 or space.slope[r] != 0.0):
            space.rows[n], begin[n], number[r] = r, n, n
            n += 1
        else:
            number[r] = -1
    for p in range(n_positive):
        lo, hi, least = space.entry_ptr[p], space.entry_ptr[p + 1], n
        for e in range(lo, hi):
            a = number[space.entry_row[e]]
            if 0 <= a < least:
                least = a
        for e in range(lo, hi):
            a = number[space.entry_row[e]]
            if a >= 0:
                begin[a] = min(begin[a], least)
    space.ptr[0] = 0
    for a in range(n):
        space.ptr[a + 1] = space.ptr[a] + a - begin[a] + 1
    return n, space.ptr[n]


@njit(cache=True, nogil=True)
def _fill(n: int, n_positive: int, damping: float, space: Any, matrix: Any) -> None:
    """Write ``A D A' + damping`` and minus the slope."""
    number, entry_row, sign = space.number, space.entry_row, space.entry_sign
    matrix[: space.ptr[n]] = 0.0
    for p in range(n_positive):
        lo, hi = space.entry_ptr[p], space.entry_ptr[p + 1]
        for e in range(lo, hi):
            a = number[entry_row[e]]
            if a >= 0:
                start = space.ptr[a] - space.begin[a]
                for g in range(lo, hi):
                    b = number[entry_row[g]]
                    if 0 <= b <= a:
                        matrix[start + b] += sign[e] * sign[g]
    for a in range(n):
        matrix[space.ptr[a + 1] - 1] += damping
        space.step[a] = -space.slope[space.rows[a]]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _solve(matrix: Any, ptr: Any, begin: Any, n: int, x: Any) -> None:
    """Solve a positive definite system; ``matrix`` becomes its Cholesky factor, x the solution."""
    for a in range(n):
        at, diagonal = ptr[a] - begin[a], matrix[ptr[a + 1] - 1]
        for b in range(begin[a], a):
            other, low = ptr[b] - begin[b], max(begin[a], begin[b])
            total = 0.0
            for k in range(low, b):
                total += matrix[at + k] * matrix[other + k]
            matrix[at + b] = (matrix[at + b] - total) / matrix[ptr[b + 1] - 1]
        total, value = 0.0, x[a]
        for k in range(begin[a], a):
            total += matrix[at + k] * matrix[at + k]
            value -= matrix[at + k] * x[k]
        pivot = diagonal - total
        matrix[at + a] = np.sqrt(pivot) if pivot > NO_PIVOT * diagonal else 1e32  # 1e32: this row does not move
        x[a] = value / matrix[at + a]
    for a in range(n - 1, -1, -1):
        at = ptr[a] - begin[a]
        x[a] /= matrix[at + a]
        for k in range(begin[a], a):
            x[k] -= matrix[at + k] * x[a]


@njit(cache=True, nogil=True)
def _search(layout: Any, i: int, n: int, space: Any) -> float:
    """Return the length of a step at which the slope along it is all but zero; it is piecewise linear and rises."""
    first, constant = 0.0, 0.0
    row0 = layout.row_ptr[i]
    for a in range(n):
        space.direction[space.rows[a]] = space.step[a]
        first += space.slope[space.rows[a]] * space.step[a]
        constant -= layout.right[row0 + space.rows[a]] * space.step[a]
    size = _along(layout, i, space)
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(MAX_TRIED):
        slope, curvature = _slope_along(space.u, space.along, length, size)
        slope += constant
        if abs(slope) <= SHARE * abs(first):
            break
        if slope < 0.0:
            low = length
        else:
            high = length
        following = length - slope / curvature if curvature > 0.0 else np.inf
        if not low < following < high:  # beyond the bracket: go four times as far, or halve it
            following = 4.0 * length if high == np.inf else 0.5 * (low + high)
        length = following
    return length


@njit(cache=True, nogil=True)
def _along(layout: Any, i: int, space: Any) -> int:
    """Write ``A' direction`` of an example to ``space.along`` and return how many columns it has."""
    row0, k = layout.row_ptr[i], 0
    direction, along = space.direction, space.along
    for c in range(layout.state_ptr[i], layout.state_ptr[i + 1]):
        value = 0.0
        for p in range(layout.entry_ptr[c], layout.entry_ptr[c + 1]):
            value += layout.entry_sign[p] * direction[layout.entry_row[p] - row0]
        along[k] = value
        k += 1
    for f in range(layout.factor_ptr[i], layout.factor_ptr[i + 1]):
        inner = layout.arity[f] - 1
        card, last = layout.card[f, inner], layout.slot[f, inner] - row0
        inner_direction = direction[last : last + card]
        for outer in range(layout.size[f] // card):
            add, rest = 0.0, outer
            for s in range(inner - 1, -1, -1):
                add += direction[layout.slot[f, s] - row0 + rest % layout.card[f, s]]
                rest //= layout.card[f, s]
            row = along[k : k + card]
            for t in range(card):
                row[t] = add + inner_direction[t]
            k += card
    return k


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _slope_along(u: Any, along: Any, length: float, n: int) -> tuple[float, float]:
    """Return first and second derivative of ``1/2 |max(0, u + length * along)|^2`` in the length."""
    slope, curvature = 0.0, 0.0
    for k in range(n):
        value = u[k] + length * along[k]
        counted = along[k] if value > 0.0 else 0.0
        slope += counted * max(value, 0.0)
        curvature += counted * along[k]
    return slope, curvature


@njit(cache=True, nogil=True)
def _write(layout: Any, x: Any, share: float, i: int, space: Any, out: Any, mass: Any) -> float:
    """Write ``x' = max(0, u)`` of an example and add up its mass; return ``|x - x'|^2``.

    Parameters
    ----------
    layout : PolytopeLayout
    x : ndarray of float64, shape (n_columns,)
        Read only.
    share : float
        How much the example counts.
    i : int
        The example.
    space : _Workspace
        ``u`` is read.
    out, mass
        As for :func:`project_all`; changed in place.
    """
    lo, hi = layout.state_ptr[i], layout.state_ptr[i + 1]
    k = hi - lo
    moved = _write_part(space.u[:k], x[lo:hi], share, out[lo:hi], mass[lo:hi])
    for f in range(layout.factor_ptr[i], layout.factor_ptr[i + 1]):
        size, first, pool = layout.size[f], layout.first[f], layout.pool[f]
        part = slice(first, first + size)
        moved += _write_part(space.u[k : k + size], x[part], share, out[part], mass[pool : pool + size])
        k += size
    return moved


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _write_part(u: Any, x: Any, share: float, out: Any, mass: Any) -> float:
    moved = 0.0
    for k in range(len(u)):
        value = max(u[k], 0.0)
        moved += (x[k] - value) ** 2
        mass[k] += share * value
        out[k] = value
    return moved
