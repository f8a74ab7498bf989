"""Euclidean projection onto polytopes ``{x : A x = b, x >= 0}``, one for each example, all at once.

The projection of z is ``x = max(0, z + A' y)`` for the y that minimises the convex function

    f(y) = 1/2 |max(0, z + A' y)|^2 - b . y ,         gradient  A x - b .

Its gradient is piecewise linear with the generalised Hessian ``A D A'``, D the 0/1 diagonal of what is positive in x.
Newton's method with a line search ends after finitely many steps at the exact solution (Qi and Sun 1993; Li, Sun and
Toh 2020 for projections onto polytopes of matchings), in a few where y is that of a point nearby; so y is kept
from call to call.  Where many numbers are all but zero in x, D changes within a step, and the step is shortened: the
next one of that example is damped more.  This is the quadratic flow problem of Taskar, Lacoste-Julien and Jordan (2006)
where A is that of a flow, and solves it for any A.

Where every row stands alone - independent labels - each variable's projection is onto the unit simplex and has a
closed form (Held, Wolfe and Crowder 1974).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, diags_array
from scipy.sparse.linalg import splu

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir.ragged import pointers
from ssvm_trainers._resumable import Stateful

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

#: How far a row may be from its right-hand side, relative to the largest number that is projected.
ACCURACY = 1e-10

#: Newton steps at most, and halvings of one.
MAX_STEPS, MAX_HALVINGS = 200, 40

#: What a step must gain of what its slope promises; and what rounding may hide of it.
ARMIJO, ROUNDING = 1e-4, 1e-13

#: Columns whose equations are solved together, whole examples at a time.
CHUNK = 50_000


class SimplexProjection(Stateful):
    """Projection onto a product of unit simplices.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n,)
        Columns of each; they follow each other.
    """

    def __init__(self, sizes: I64) -> None:
        starts = pointers(sizes)[:-1]
        self.tables = [starts[sizes == k][:, None] + np.arange(k) for k in np.unique(sizes)]

    def project(self, z: F64) -> F64:
        """Return the closest point to z; O(n_columns log n_columns)."""
        x = np.empty_like(z)
        for table in self.tables:
            given = z[table]
            falling = -np.sort(-given, axis=1)
            level = (np.cumsum(falling, axis=1) - 1.0) / np.arange(1, table.shape[1] + 1)
            count = (falling > level).sum(axis=1)
            x[table] = np.maximum(given - level[np.arange(len(table)), count - 1][:, None], 0.0)
        return x


@dataclass(frozen=True, eq=False)
class _Chunk:
    """The equations of some examples, numbered from 0."""

    rows: slice
    columns: slice
    n: int
    owner: I64
    row_owner: I64
    matrix: Any
    by_column: Any
    right: F64


class PolytopeProjection(Stateful):
    """Projection onto the polytopes of all examples.

    Parameters
    ----------
    matrix : csr_array, shape (n_rows, n_columns)
        No row reaches into two examples.
    right : ndarray of float64, shape (n_rows,)
    owner, row_owner : ndarray of int64, shape (n_columns,) and (n_rows,)
        The example of each column and row.

    Attributes
    ----------
    y : ndarray of float64, shape (n_rows,)
        Where the next call starts: the multipliers of the last one.
    """

    STATE: ClassVar[tuple[str, ...]] = ("y",)

    def __init__(self, matrix: Any, right: F64, owner: I64, row_owner: I64) -> None:
        self.column_order = np.argsort(owner, kind="stable")
        self.row_order = np.argsort(row_owner, kind="stable")
        ordered = csr_array(csr_array(matrix)[self.row_order][:, self.column_order])
        self.y = np.zeros(len(right))
        self.chunks = _cut(ordered, right[self.row_order], owner[self.column_order], row_owner[self.row_order])

    def project(self, z: F64) -> F64:
        """Return the closest point to z.

        Raises
        ------
        TrainingError
            Newton's method came to no end.
        """
        z_ordered, y_ordered = z[self.column_order], self.y[self.row_order]
        x, x_ordered, self.y = np.empty_like(z), np.empty_like(z), np.empty_like(self.y)
        for chunk in self.chunks:
            part, y_ordered[chunk.rows] = _newton(chunk, z_ordered[chunk.columns], y_ordered[chunk.rows])
            x_ordered[chunk.columns] = part
        x[self.column_order], self.y[self.row_order] = x_ordered, y_ordered
        return x


def _cut(matrix: Any, right: F64, owner: I64, row_owner: I64) -> list[_Chunk]:
    """Return the equations in chunks; rows and columns are sorted by example."""
    if not len(owner):
        return []
    last = int(owner[-1]) + 1
    column_ptr, row_ptr = (np.searchsorted(of, np.arange(last + 1)) for of in (owner, row_owner))
    chunks, lo = [], 0
    while lo < last:
        hi = max(int(np.searchsorted(column_ptr, column_ptr[lo] + CHUNK, side="right")) - 1, lo + 1)
        rows, columns = slice(row_ptr[lo], row_ptr[hi]), slice(column_ptr[lo], column_ptr[hi])
        part = csr_array(matrix[rows, columns])
        of, row_of = owner[columns] - lo, row_owner[rows] - lo
        chunks.append(_Chunk(rows, columns, hi - lo, of, row_of, part, csc_array(part), right[rows]))
        lo = hi
    return chunks


@dataclass(frozen=True, eq=False)
class _Point:
    """Multipliers y, x for them, the gradient; of each example f(y), what rounding has it off, the largest slope."""

    y: F64
    x: F64
    slope: F64
    value: F64
    rounding: F64
    off: F64


def _newton(chunk: _Chunk, z: F64, y: F64) -> tuple[F64, F64]:
    """Return (projection, multipliers)."""
    size, at, caution = 1.0 + float(np.abs(z).max(initial=0.0)), _point(chunk, z, y), np.ones(chunk.n)
    for _ in range(MAX_STEPS):
        off = float(at.off.max())
        if off <= ACCURACY * size:
            return at.x, at.y
        active = chunk.by_column[:, np.flatnonzero(at.x > 0.0)]
        least = 1e-12 + 0.1 * min(off, 1.0) / size  # rows without a positive column have no curvature
        damping = np.minimum(least * caution, 1.0)[chunk.row_owner]
        hessian = csc_array(active @ active.T + diags_array(damping))
        factor = splu(hessian, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        at, length = _step(chunk, z, at, factor.solve(-at.slope))
        caution = np.clip(np.where(length < 1.0, 10.0, 0.1) * caution, 1.0, 1e12)
    text = f"a projection onto the marginals is off by {off:.1g} after {MAX_STEPS} steps of Newton's method"
    raise TrainingError(f"trainer 'extragradient': {text}; use trainer='bcfw'")


def _point(chunk: _Chunk, z: F64, y: F64) -> _Point:
    """Return what multipliers make."""
    x: F64 = np.maximum(z + chunk.matrix.T @ y, 0.0)
    slope: F64 = chunk.matrix @ x - chunk.right
    half, linear = np.bincount(chunk.owner, 0.5 * x * x, chunk.n), chunk.right * y
    size = half + np.bincount(chunk.row_owner, np.abs(linear), chunk.n)
    value = half - np.bincount(chunk.row_owner, linear, chunk.n)
    off = np.zeros(chunk.n)
    np.maximum.at(off, chunk.row_owner, np.abs(slope))
    return _Point(y, x, slope, np.asarray(value), np.asarray(ROUNDING * (1.0 + size)), off)


def _step(chunk: _Chunk, z: F64, at: _Point, direction: F64) -> tuple[_Point, F64]:
    """Return the point after a step whose length each example finds by halving, and the lengths.

    The function must fall; where rounding hides whether it does, the gradient must.
    """
    promised = np.bincount(chunk.row_owner, direction * at.slope, chunk.n)
    hidden = -promised <= at.rounding
    length = np.ones(chunk.n)
    for _ in range(MAX_HALVINGS):
        tried = _point(chunk, z, at.y + length[chunk.row_owner] * direction)
        rises = tried.value > at.value + ARMIJO * length * promised + at.rounding
        short = np.where(hidden, tried.off > at.off, rises)
        if not short.any():
            break
        length[short] *= 0.5
    return tried, length
