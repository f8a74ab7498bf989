"""Euclidean projection onto polytopes ``{x : A x = b, x >= 0}`` of marginals, one for each example.

The projection of z is ``x = max(0, z + A' y)`` for the y that minimises the convex function

    f(y) = 1/2 |max(0, z + A' y)|^2 - b . y ,         gradient  A x - b .

Its gradient is piecewise linear with the generalised Hessian ``A D A'``, D the 0/1 diagonal of positive entries of x.
Newton's method with a line search ends after finitely many steps at the exact solution (Qi and Sun 1993; Li, Sun and
Toh 2020 for projections onto polytopes of matchings), in a few where y is that of a point nearby; so y is kept
from call to call.  Near a labelling most of D is zero and ``A D A'`` singular: it is damped, more the farther off y is,
and the slope along a step, which is piecewise linear too, is followed to its zero.  This is the quadratic flow problem
of Taskar, Lacoste-Julien and Jordan (2006) where A is that of a flow, and solves it for any factors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir import F64, I64, Bools, Program, owners, pointers, runs
from ssvm_trainers.dual.projection.projection_kernels import (
    MOST_STEPS,
    NewtonState,
    PolytopeLayout,
    ProjectedPoint,
    project_all,
)
from ssvm_trainers.shared.resumable import NUMBERS, Stateful

#: How far a row may be from its right-hand side, relative to the largest number that is projected.
ACCURACY = 1e-10

#: Columns that the kernel visits between two checks of the clock: some hundredths of a second.
COLUMNS = 2_000_000


class PolytopeProjection(Stateful):
    """Projection onto the polytopes of all examples.

    Parameters
    ----------
    layout : PolytopeLayout
        The equations.
    n_scores : int
        Number of scores; columns may share them.
    share : ndarray of float64, shape (n_examples,)
        How much an example counts; those with 0 are left out.
    used : ndarray of bool, shape (n_columns,), optional
        Columns that may be positive; all by default.
    pause : callable
        Called within long projections; it raises when the time is up.

    Attributes
    ----------
    y : ndarray of float64, shape (n_rows,)
        Where the next call starts: the multipliers of the last one.
    """

    y: Annotated[F64, NUMBERS]

    def __init__(
        self,
        layout: PolytopeLayout,
        n_scores: int,
        share: F64,
        used: Bools | None = None,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        self.layout, self.n_scores, self.share, self.pause = layout, n_scores, share, pause
        self.used = np.zeros(0, dtype=bool) if used is None or used.all() else used
        self.y = np.zeros(len(self.layout.right))

    def step(self, x: F64, scores: F64, length: float) -> tuple[F64, F64, float]:
        """Return the closest point to ``x + length * scores``.

        Parameters
        ----------
        x : ndarray of float64, shape (n_columns,)
        scores : ndarray of float64, shape (n_scores,)
        length : float

        Returns
        -------
        point : ndarray of float64, shape (n_columns,)
        mass : ndarray, shape of ``scores``
            ``share * point``, added up over the columns that have the same score.
        moved : float
            ``sum_k share_k (x_k - point_k)^2``.

        Raises
        ------
        TrainingError
            Newton's method did not converge: not from the last multipliers, and not from 0 either.
        """
        y, point, mass = self.y.copy(), np.zeros_like(x), np.zeros(self.n_scores)
        todo, steps = self.share > 0.0, np.zeros(len(self.share), dtype=np.int64)
        target = ProjectedPoint(x, scores, length, self.used, self.share)
        newton = NewtonState(y, todo, steps, np.ones_like(self.share))
        moved, again = 0.0, np.zeros(len(self.share), dtype=bool)
        while todo.any():
            more, off = project_all(self.layout, target, newton, ACCURACY, COLUMNS, point, mass)
            moved += more
            stuck = np.flatnonzero(todo & (steps == MOST_STEPS))
            if again[stuck].any():
                text = f"a projection onto the marginals is off by {off:.1g} after {MOST_STEPS} steps"
                advice = "use trainer_options={'geometry': 'entropic'} (for risk 'margin'), or trainer='bcfw'"
                raise TrainingError(f"trainer 'extragradient': {text} of Newton's method; {advice}")
            for i in stuck.tolist():  # the last multipliers may be a start that Newton's method fails from
                y[self.layout.row_ptr[i] : self.layout.row_ptr[i + 1]] = 0.0
            steps[stuck], again[stuck] = 0, True
            self.pause()
        self.y = y
        return point, mass, moved


def layout_of_equations(matrix: Any, right: F64, cell_ptr: I64, row_ptr: I64) -> PolytopeLayout:
    """Return equations whose columns are listed with their entries, one by one, as states are.

    Parameters
    ----------
    matrix : csr_array, shape (n_rows, n_columns)
    right : ndarray of float64, shape (n_rows,)
    cell_ptr, row_ptr : ndarray of int64, shape (B + 1,)
        Columns and rows of each example.
    """
    columns = matrix.T.tocsr()
    n, none = len(cell_ptr), np.zeros(0, dtype=np.int64)
    wide = np.zeros((0, 1), dtype=np.int64)
    return PolytopeLayout(
        cell_ptr, columns.indptr.astype(np.int64), columns.indices.astype(np.int64),
        columns.data, np.zeros(n, dtype=np.int64), none, none, none, none, wide, wide,
        row_ptr, right, np.zeros(len(right), dtype=bool),
    )  # fmt: skip


def layout_of(program: Program) -> PolytopeLayout:
    """Return the equations of local polytopes; rows are in an order in which neighbours in the graph are close."""
    ptr = pointers(np.array([group.n_factors for group in program.groups], dtype=np.int64))
    width = max((group.arity for group in program.groups), default=1)  # of groups without factors, too
    n_factors, n = int(ptr[-1]), program.n_variables
    arity = np.repeat([group.arity for group in program.groups], np.diff(ptr)).astype(np.int64)
    card, scope = np.ones((n_factors, width), dtype=np.int64), np.zeros((n_factors, width), dtype=np.int64)
    first, pool = np.zeros(n_factors, dtype=np.int64), np.zeros(n_factors, dtype=np.int64)
    column = score = program.n_states
    for g, group in enumerate(program.groups):
        own = slice(int(ptr[g]), int(ptr[g + 1]))
        card[own, : group.arity], scope[own, : group.arity] = group.cards, group.shapes.variables()
        first[own] = column + group.n_configs * np.arange(group.n_factors)
        pool[own] = score + group.n_configs * group.table_rows().astype(np.int64)
        column, score = column + group.n_factors * group.n_configs, score + group.n_tables * group.n_configs
    example = owners(program.var_ptr)
    order = np.argsort(example[scope[:, 0]], kind="stable")
    arity, card, scope, first, pool = arity[order], card[order], scope[order], first[order], pool[order]
    there = np.arange(width) < arity[:, None]
    position = _positions(program, scope, there)
    start, row_ptr = _rows(program, position, np.where(there, card, 0).sum(axis=1), scope)
    right, implied = np.zeros(int(row_ptr[-1])), np.zeros(int(row_ptr[-1]), dtype=bool)
    right[start[:n]] = 1.0
    by_position = np.argsort(np.where(there, position[scope], len(position)), axis=1)
    height = np.take_along_axis(np.where(there, card, 0), by_position, axis=1)
    slot = np.empty_like(card)
    np.put_along_axis(slot, by_position, start[n:, None] + np.cumsum(height, axis=1) - height, axis=1)
    later = there.copy()
    later[:, :1] = False
    implied[(slot + card - 1)[later]] = True
    entry_ptr, entry_row, entry_sign = _state_entries(program, start[:n], slot, scope, there)
    factor_ptr = np.searchsorted(example[scope[:, 0]], np.arange(program.n_examples + 1)).astype(np.int64)
    state_ptr = program.state_ptr[program.var_ptr]
    return PolytopeLayout(
        state_ptr, entry_ptr, entry_row, entry_sign, factor_ptr, first, pool, card.prod(axis=1), arity, card, slot,
        row_ptr, right, implied,
    )  # fmt: skip


def _positions(program: Program, scope: I64, there: Bools) -> I64:
    """Return a place for each variable and each factor in an order in which neighbours are close."""
    n, size = program.n_variables, program.n_variables + len(scope)
    factor, k = np.nonzero(there)
    graph = csr_matrix((np.ones(len(factor), dtype=np.int8), (scope[factor, k], n + factor)), shape=(size, size))
    position = np.empty(size, dtype=np.int64)
    position[reverse_cuthill_mckee(csr_matrix(graph + graph.T), symmetric_mode=True)] = np.arange(size)
    return position


def _rows(program: Program, position: I64, height: I64, scope: I64) -> tuple[I64, I64]:
    """Return where the rows of each variable and each factor start, and those of each example."""
    example = owners(program.var_ptr)
    owner = np.concatenate([example, example[scope[:, 0]]])
    order = np.lexsort((position, owner))
    ptr = pointers(np.concatenate([np.ones(len(example), dtype=np.int64), height])[order])
    start = np.empty(len(owner), dtype=np.int64)
    start[order] = ptr[:-1]
    return start, ptr[np.searchsorted(owner[order], np.arange(program.n_examples + 1))]


def _state_entries(program: Program, start: I64, slot: I64, scope: I64, there: Bools) -> tuple[I64, I64, F64]:
    """Return the entries of the columns of states: +1 in the row of their variable, -1 in those of its factors."""
    factor, k = np.nonzero(there)
    variable = scope[factor, k]
    sizes = program.card[variable].astype(np.int64)
    columns = [np.arange(program.n_states), runs(program.state_ptr[variable], sizes)]
    rows = [np.repeat(start, program.card), runs(slot[factor, k], sizes)]
    signs = np.repeat([1.0, -1.0], [len(part) for part in columns])
    column, row = np.concatenate(columns), np.concatenate(rows)
    order = np.argsort(column, kind="stable")
    return pointers(np.bincount(column, minlength=program.n_states)), row[order], signs[order]
