"""Which points a training problem is maximised over."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array, csc_array, csr_array, eye_array, hstack, vstack
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir import F64, I64, Program, labelling_marginals, n_marginals, owners, polytope_equations
from ssvm_dsl.plugin_api import ConstraintHull, TrainProblem, constraint_hull, local_obstacle
from ssvm_trainers.dual.polytope import (
    ListedPolytope,
    Polytope,
    TrainingPolytope,
    clique_polytope,
    n_score_entries,
    owner_of_cells,
    possible,
)

if TYPE_CHECKING:
    from ssvm_trainers.dual.projection.projection_kernels import PolytopeLayout

#: Seconds for each cell that it takes to lay out which ones are columns.
CELL_SECONDS = 2e-8


def polytope_of(problem: TrainProblem, trainer: str) -> Polytope:
    """Return the points of a problem of the risk ``relaxed`` or ``margin``.

    Raises
    ------
    TrainingError
        There are hard constraints, and no small linear description of them that is exact; names the trainer.
    """
    program = problem.parameters.program
    problem.pause(CELL_SECONDS * n_marginals(program))
    if program.constraints:
        return constrained_polytope(problem, trainer)
    if not problem.relaxed and local_obstacle(problem.parameters):
        return clique_polytope(problem)
    return TrainingPolytope(problem, possible(program) & (problem.objective.weight[owner_of_cells(program)] > 0.0))


# -- The points that training maximises over under hard constraints: marginals that obey linear rows -----------------
#
# Where the kind of a constraint has rows without gaps (:class:`~ssvm_dsl.plugin_api.IntegralKind`), such as those of
# matchings, flows and spanning trees, their points are the convex combinations of labellings (Taskar, Lacoste-Julien
# and Jordan 2006, sections 2 and 3); :func:`~ssvm_dsl.plugin_api.constraint_hull` decides it. Rows ``lower <= a . x <=
# upper`` become equations by columns of slack.
#
# Numbers that are nearly a point become one in two steps: the closest solution of the equations, and from there towards
# a point all of whose columns are positive, as far as it takes to make no column negative.

#: The equations' matrix is damped by this share of its diagonal, for rows that follow from others; the solution is
#: refined so often.
DAMPING, REFINEMENTS = 1e-10, 6

#: A solution of the linear program that is sought for a point may be off by this share of the largest bound.
NEARLY = 1e-6

#: Columns below this share of the largest are zero in all points.
NEVER = 1e-9


@dataclass(frozen=True, eq=False)
class ConstrainedPolytope(ListedPolytope):
    """Marginals of variables and factors that obey the rows of hard constraints, with columns of slack.

    Cells are in the order of their examples.

    Parameters
    ----------
    problem, used
        As for :class:`~ssvm_trainers.dual.polytope.Polytope`.
    inner : ndarray of float64, shape (n_cells,)
        A point whose columns are all positive.
    rows : EquationsOfCells
    """

    inner: F64
    rows: EquationsOfCells

    @cached_property
    def sums(self) -> Any:
        """The 0/1 matrix from the entries of a :class:`~ssvm_dsl.ir.Theta` to the scores of cells."""
        program = self.problem.parameters.program
        entry, start = [np.arange(program.n_states)], program.n_states
        for group in program.groups:
            first = start + group.table_rows().astype(np.int64) * group.n_configs
            entry.append((first[:, None] + np.arange(group.n_configs)).ravel())
            start += group.n_tables * group.n_configs
        entries = np.concatenate(entry)
        shape = (self.n_cells, n_score_entries(program))
        return csr_array((np.ones(len(entries)), (self.rows.place[: len(entries)], entries)), shape=shape)

    def rounded(self, x: F64) -> F64:
        """Return a close point."""
        matrix, right = self.equations.matrix, self.equations.right
        for _ in range(REFINEMENTS):
            x = x + matrix.T @ self._factor.solve(right - matrix @ x)
        inner = self.inner[self.kept]
        short = np.flatnonzero(x < 0.0)
        share = np.zeros(self.problem.n)
        np.maximum.at(share, self.owner[short], -x[short] / (inner[short] - x[short]))
        x = x + share[self.owner] * (inner - x)
        return np.maximum(x, 0.0)

    @cached_property
    def _factor(self) -> Any:
        matrix = self.equations.matrix
        gram = csc_array(matrix @ matrix.T)
        damped = gram + DAMPING * gram.diagonal().max(initial=1.0) * eye_array(gram.shape[0])
        return splu(csc_array(damped), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})

    def layout(self) -> PolytopeLayout:
        """Return the equations as projections read them."""
        from ssvm_trainers.dual.projection.polytopes import layout_of_equations

        rows, n = self.rows, self.problem.n
        ends = np.arange(n + 1)
        cell_ptr, row_ptr = (np.searchsorted(of, ends).astype(np.int64) for of in (rows.cell_owner, rows.row_owner))
        return layout_of_equations(rows.matrix, rows.right, cell_ptr, row_ptr)

    def _owners(self) -> I64:
        return self.rows.cell_owner

    def _truth(self) -> F64:
        return self.rows.of_labelling(labelling_marginals(self.problem.parameters.program, self.problem.loss.truth))

    def _equations(self) -> tuple[Any, F64]:
        return self.rows.matrix, self.rows.right


@dataclass(frozen=True, eq=False)
class EquationsOfCells:
    """``matrix x = right`` over cells: states, joint states, auxiliary columns and slacks, example by example.

    Parameters
    ----------
    matrix : csr_array, shape (n_rows, n_cells)
        Rows are in the order of their examples, in each so that rows which share columns are close.
    right : ndarray of float64, shape (n_rows,)
    cell_owner : ndarray of int64, shape (n_cells,)
        The example of each cell.
    row_owner : ndarray of int64, shape (n_rows,)
    place : ndarray of int64, shape (n_cells,)
        Where each cell is in this order, for cells one kind after the other.
    """

    matrix: Any
    right: F64
    cell_owner: I64
    row_owner: I64
    place: I64

    @classmethod
    def of(cls, program: Program, hull: ConstraintHull) -> EquationsOfCells:
        """Return the equations of the local polytope and of the rows of constraints."""
        factors = [(group.cards, group.shapes.variables().astype(np.int64)) for group in program.groups]
        local = polytope_equations(program.state_ptr, factors)
        example, n_local = owners(program.var_ptr), n_marginals(program)
        of_local = [example]
        of_local += [np.repeat(example[scope[:, 0]], sum(cards) - len(cards) + 1) for cards, scope in factors]
        # a row with two different bounds is a . x - below = lower and below + above = upper - lower
        equal, least, most = hull.lower == hull.upper, np.isfinite(hull.lower), np.isfinite(hull.upper)
        both = np.flatnonzero(least & most & ~equal)
        slack = np.flatnonzero(~equal & (least | most))
        sign = np.where(least[slack], -1.0, 1.0)
        n_rows, n_auxiliary = len(hull.lower), len(hull.auxiliary)
        first = n_local + n_auxiliary
        column = np.where(hull.column < program.n_states, hull.column, hull.column - program.n_states + n_local)
        below = first + np.searchsorted(slack, both)
        above = first + len(slack) + np.arange(len(both))
        extra = n_rows + np.arange(len(both))
        row = np.concatenate([hull.row, slack, extra, extra])
        columns = np.concatenate([column, first + np.arange(len(slack)), below, above])
        value = np.concatenate([hull.value, sign, np.ones(2 * len(both))])
        n_cells = first + len(slack) + len(both)
        of_rows = coo_array((value, (row, columns)), shape=(n_rows + len(both), n_cells)).tocsr()
        of_local_rows = coo_array((local.values, (local.rows, local.columns)), shape=(local.n_rows, n_cells)).tocsr()
        matrix = csr_array(vstack([of_local_rows, of_rows]))
        bound = np.where(least, hull.lower, hull.upper)
        right = np.concatenate([
            (np.arange(local.n_rows) < program.n_variables).astype(np.float64), bound, (hull.upper - hull.lower)[both],
        ])  # fmt: skip
        row_owner = np.concatenate([*of_local, hull.example, hull.example[both]])
        cell_owner = np.concatenate([
            owner_of_cells(program), hull.auxiliary, hull.example[slack], hull.example[both],
        ])  # fmt: skip
        bounded = np.ones(len(right), dtype=bool)
        bounded[local.n_rows : local.n_rows + n_rows] = least | most
        kept = np.flatnonzero(bounded & (np.diff(matrix.indptr) > 0))
        near = np.empty(len(kept), dtype=np.int64)
        shared = csr_array(abs(matrix[kept]) @ abs(matrix[kept]).T)
        near[reverse_cuthill_mckee(shared, symmetric_mode=True)] = np.arange(len(kept))
        kept = kept[np.lexsort((near, row_owner[kept]))]
        order = np.argsort(cell_owner, kind="stable")
        place = np.empty(n_cells, dtype=np.int64)
        place[order] = np.arange(n_cells)
        return cls(csr_array(matrix[kept][:, order]), right[kept], cell_owner[order], row_owner[kept], place)

    def of_labelling(self, marginals: F64) -> F64:
        """Return the point of a labelling, given by its states and joint states; the other cells follow."""
        x, n_local = np.zeros(len(self.place)), len(marginals)
        x[self.place[:n_local]] = marginals
        free = np.sort(self.place[n_local:])
        if len(free):
            left = self.right - self.matrix @ x
            part = self.matrix[:, free]
            rows = np.flatnonzero(np.diff(part.indptr) > 0)
            x[free] = _solution(csr_array(part[rows]), left[rows])
        return x


def constrained_polytope(problem: TrainProblem, trainer: str) -> ConstrainedPolytope:
    """Return the marginals that hard constraints leave.

    Raises
    ------
    TrainingError
        No small linear description is exact, or the risk is ``relaxed``; names the trainer.
    """
    program = problem.parameters.program
    reason: str | ConstraintHull = local_obstacle(problem.parameters)
    if problem.relaxed:
        reason = "what is relaxed of hard constraints depends on the backend"
    if not reason:
        reason = constraint_hull(program)
    if isinstance(reason, str):
        text = f"trainer '{trainer}' does not know the marginals that hard constraints leave: {reason}"
        raise TrainingError(f"{text}; use trainer='bcfw'")
    problem.pause()
    rows = EquationsOfCells.of(program, reason)
    used = np.ones(len(rows.cell_owner), dtype=bool)
    used[rows.place[: n_marginals(program)]] = possible(program)
    used &= problem.objective.weight[rows.cell_owner] > 0.0
    inner = _inner_point(problem, rows, used)
    return ConstrainedPolytope(problem, used & (inner > 0.0), inner, rows)


def _inner_point(problem: TrainProblem, rows: EquationsOfCells, used: Any) -> F64:
    """Return a point that is positive wherever some point is (Freund, Roundy and Todd 1985): ``x / k`` of

        max  sum_j s_j     subject to  A (x' + s) = k b,    0 <= s <= 1,    x' >= 0,    k >= 1 .
    """  # fmt: skip
    from scipy.optimize import linprog

    found = np.zeros(len(used))
    for i in np.flatnonzero(problem.objective.weight > 0.0).tolist():
        problem.pause()
        low, high = np.searchsorted(rows.row_owner, [i, i + 1])
        cells = slice(*np.searchsorted(rows.cell_owner, [i, i + 1]))
        mine = np.flatnonzero(used[cells])
        part, right = rows.matrix[low:high, cells][:, mine], rows.right[low:high]
        n = len(mine)
        matrix = hstack([part, part, csr_array(-right[:, None])], format="csr")
        bounds = np.array([[0.0, np.inf]] * n + [[0.0, 1.0]] * n + [[1.0, np.inf]])
        cost = np.concatenate([np.zeros(n), -np.ones(n), [0.0]])
        result = linprog(cost, A_eq=matrix, b_eq=np.zeros(len(right)), bounds=bounds, method="highs")
        x = np.zeros(n) if result.x is None else (result.x[:n] + result.x[n : 2 * n]) / result.x[-1]
        if not np.abs(part @ x - right).max(initial=0.0) <= NEARLY * np.abs(right).max(initial=1.0):
            raise TrainingError(f"example {i}: the linear rows of its hard constraints have no point; {result.message}")
        found[cells.start + mine] = np.where(x > NEVER * x.max(initial=0.0), x, 0.0)
    return found


def _solution(matrix: Any, right: F64) -> F64:
    """Return x >= 0 with ``matrix x = right``; the parts of slacks and auxiliary columns of labellings."""
    from scipy.optimize import linprog

    result = linprog(np.zeros(matrix.shape[1]), A_eq=matrix, b_eq=right, method="highs")
    return np.asarray(result.x, dtype=np.float64)
