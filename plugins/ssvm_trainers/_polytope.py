"""The points that training maximises over, one vector of marginals for all examples, and what they are worth.

For the risk ``relaxed`` these are the points of the local polytope of every example
(:mod:`ssvm_dsl.ir.local_polytope`).  For ``margin`` they are the convex combinations of labellings: on forests of
pairwise factors the same, once factors that join the same two variables share one table of marginals.

A point x has one number (*column*) for each state and joint state that an example with a positive weight may take;
it obeys ``matrix x = right, x >= 0``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir import Group, Marginals, Program, Theta
from ssvm_dsl.ir.local_polytope import consistent, labelling_marginals, n_marginals, polytope_equations
from ssvm_dsl.ir.ragged import owners, pointers
from ssvm_dsl.ir.solution import add_marginals
from ssvm_dsl.ir.topology import distinct_edges
from ssvm_dsl.plugin_api import TrainProblem

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cliques:
    """Sets of variables that have marginals of their own, as a program, and where those of factors are.

    Parameters
    ----------
    program : Program
        A group's factor is a set of variables.
    cells : tuple of ndarray of int64, shape (n_factors, prod(cards))
        For each group of the training program: which number of the cliques' each joint state of a factor is.
        Numbers are those of the states of all variables, then of the joint states, group by group.
    """

    program: Program
    cells: tuple[I64, ...]


def own_cliques(program: Program) -> Cliques:
    """Return a clique for each factor."""
    first, cells = program.n_states, []
    for group in program.groups:
        size = group.n_factors * group.n_configs
        cells.append(np.arange(first, first + size).reshape(group.n_factors, group.n_configs))
        first += size
    return Cliques(program, tuple(cells))


def shared_cliques(program: Program) -> Cliques:
    """Return a clique for each two variables that pairwise factors join (there are no larger factors)."""
    pairs = distinct_edges(program)
    cards = program.card[pairs].astype(np.int64)
    groups, start, first = [], np.zeros(len(pairs), dtype=np.int64), program.n_states
    for two in np.unique(cards, axis=0):
        mine = np.flatnonzero((cards == two).all(axis=1))
        scope, size = pairs[mine].astype(np.int32), int(two.prod())
        ptr = np.searchsorted(scope[:, 0], program.var_ptr).astype(np.int64)
        rows = np.arange(len(mine), dtype=np.int32)
        groups.append(Group("pairs", (int(two[0]), int(two[1])), scope, ptr, rows, len(mine)))
        start[mine] = first + size * np.arange(len(mine))
        first += size * len(mine)
    keys, cells = pairs[:, 0] * program.n_variables + pairs[:, 1], []
    for group in program.groups:
        low, high = np.sort(group.scope.astype(np.int64), axis=1).T
        begin = start[np.searchsorted(keys, low * program.n_variables + high)] if group.n_factors else start[:0]
        place = np.arange(group.n_configs).reshape(group.cards)
        turned = np.arange(group.n_configs).reshape(group.cards[::-1]).T
        forward = (group.scope[:, 0] < group.scope[:, 1])[:, None]
        cells.append(begin[:, None] + np.where(forward, place.ravel(), turned.ravel()))
    return Cliques(Program(program.var_ptr, program.card, tuple(groups)), tuple(cells))


@dataclass(frozen=True, eq=False)
class Polytope:
    """All points, and what they are worth in a training problem.

    Parameters
    ----------
    problem : TrainProblem
    cliques : Cliques
    kept : ndarray of int64, shape (n_columns,)
        The numbers of the cliques that are columns; the others are zero.
    owner, row_owner : ndarray of int64, shape (n_columns,) and (n_rows,)
        The example of each column and row.
    matrix : csr_array, shape (n_rows, n_columns)
    right : ndarray of float64, shape (n_rows,)
    loss : ndarray of float64, shape (n_columns,)
        Loss of each column, without the examples' constants.
    """

    problem: TrainProblem
    cliques: Cliques
    kept: I64
    owner: I64
    row_owner: I64
    matrix: Any
    right: F64
    loss: F64

    @property
    def n_cells(self) -> int:
        """How many numbers the cliques have."""
        return n_marginals(self.cliques.program)

    def truth(self) -> F64:
        """Return the point of the true labellings."""
        return labelling_marginals(self.cliques.program, self.problem.loss.truth)[self.kept]

    def scores(self, w: F64) -> F64:
        """Return the score of each column; ``ndarray, shape (n_columns,)``."""
        theta = self.problem.scores(w)
        full = np.zeros(self.n_cells)
        full[: len(theta.node)] = theta.node
        for group, table, cells in zip(self._groups, theta.tables, self.cliques.cells, strict=True):
            full += np.bincount(cells.ravel(), table[group.table].ravel(), len(full))
        return full[self.kept]

    def features(self, x: F64) -> F64:
        """Return ``sum_k x_k Phi_k`` over the columns; ``ndarray, shape (dim,)``.  The adjoint of :meth:`scores`."""
        program, given = self.problem.parameters.program, Theta.zeros(self.problem.parameters.program)
        ids = np.arange(program.n_examples)
        add_marginals(program, self._spread(x), np.ones(len(ids)), ids, given.node, given.tables)
        return self.problem.parameters.adjoint(given)

    def truth_features(self, coef: F64) -> F64:
        """Return ``sum_i coef_i Phi(x_i, y_i)``; ``ndarray, shape (dim,)``."""
        return self.problem.parameters.accumulate(self.problem.loss.truth, coef, np.zeros(self.problem.dim))

    def plane(self, x: F64, coef: F64) -> tuple[F64, float]:
        """Return the plane ``b - v . w`` below ``1/n sum_i coef_i risk_i(w)``.

        Parameters
        ----------
        x : ndarray of float64, shape (n_columns,)
            Non-negative and close to a point; what is off is rounded to one, so that the plane is valid.
        coef : ndarray of float64, shape (n,)
            Non-negative; zero for examples without columns.
        """
        x = self.rounded(x)
        share = coef / self.problem.n
        weighed = x * share[self.owner]
        v = self.truth_features(share) - self.features(weighed)
        return v, float(np.dot(weighed, self.loss) + np.dot(share, self.problem.loss.const))

    def rounded(self, x: F64) -> F64:
        """Return the point close to numbers that are nearly one; variables without any take their true state."""
        program, full = self.cliques.program, self._full(x)
        nothing = np.flatnonzero(np.add.reduceat(full[: program.n_states], program.state_ptr[:-1]) <= 0.0)
        full[program.state_ptr[nothing] + self.problem.loss.truth[nothing]] = 1.0
        tables, first = [], program.n_states
        for group in program.groups:
            last = first + group.n_factors * group.n_configs
            tables.append(full[first:last].reshape(group.n_factors, group.n_configs))
            first = last
        given = Marginals(full[: program.n_states], tuple(tables))
        found = consistent(program, given, np.arange(program.n_examples))
        return np.concatenate([found.node, *(table.ravel() for table in found.tables)])[self.kept]

    @property
    def _groups(self) -> tuple[Group, ...]:
        return self.problem.parameters.program.groups

    def _full(self, x: F64) -> F64:
        full = np.zeros(self.n_cells)
        full[self.kept] = x
        return full

    def _spread(self, x: F64) -> Marginals:
        """Return the numbers of columns as those of the training program's variables and factors."""
        full = self._full(x)
        return Marginals(full[: self.cliques.program.n_states], tuple(full[cells] for cells in self.cliques.cells))


def polytope_of(problem: TrainProblem, trainer: str) -> Polytope:
    """Return the points of a problem of the risk ``relaxed``, or ``margin`` on forests.

    Raises
    ------
    TrainingError
        There are hard constraints, whose equations are not written out here; names the trainer.
    """
    training = problem.parameters.program
    if training.constraints:
        kinds = ", ".join(sorted({group.kind for group in training.constraints}))
        text = f"trainer '{trainer}' does not know the marginals that hard constraints ({kinds}) leave"
        raise TrainingError(f"{text}; use trainer='bcfw'")
    cliques = own_cliques(training) if problem.relaxed else shared_cliques(training)
    program = cliques.program
    factors = [(group.cards, group.scope.astype(np.int64)) for group in program.groups]
    rows = polytope_equations(program.state_ptr, factors)
    example = owners(program.var_ptr)
    owner = np.concatenate(
        [np.repeat(example, program.card), *(np.repeat(example[g.scope[:, 0]], g.n_configs) for g in program.groups)]
    )
    used = _possible(program, training.allowed) & (problem.objective.weight[owner] > 0.0)
    matrix = csr_array((rows.values, (rows.rows, rows.columns)), shape=(rows.n_rows, rows.n_columns))
    kept = np.flatnonzero(used)
    matrix = csr_array(matrix[:, kept])
    there = np.flatnonzero(np.diff(matrix.indptr) > 0)
    matrix = csr_array(matrix[there])
    matrix.sort_indices()
    loss = np.zeros(len(owner))
    loss[: program.n_states] = problem.loss.node
    right = (there < program.n_variables).astype(np.float64)
    row_owner = owner[kept][matrix.indices[matrix.indptr[:-1]]]
    return Polytope(problem, cliques, kept, owner[kept], row_owner, matrix, right, loss[kept])


def _possible(program: Program, allowed: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """Return which states and joint states are not ruled out."""
    if allowed is None:
        return np.ones(n_marginals(program), dtype=bool)
    parts = [allowed]
    for group in program.groups:
        states = np.indices(group.cards).reshape(group.arity, -1)
        first = program.state_ptr[group.scope]
        parts.append(allowed[first[:, :, None] + states].all(axis=1).ravel())
    return np.concatenate(parts)


def score_columns(polytope: Polytope) -> Any:
    """Return the scores of all columns as a matrix of features; ``csr_array, shape (n_columns, dim)``."""
    from ssvm_trainers._score_matrix import score_matrix

    parameters = polytope.problem.parameters
    program, entries = parameters.program, score_matrix(parameters)
    column = np.full(polytope.n_cells, -1)
    column[polytope.kept] = np.arange(len(polytope.kept))
    at, of = [column[: program.n_states]], [np.arange(program.n_states)]
    offset = program.n_states + pointers(np.array([g.n_tables * g.n_configs for g in program.groups], dtype=np.int64))
    for group, cells, first in zip(program.groups, polytope.cliques.cells, offset, strict=False):
        at.append(column[cells].ravel())
        start = first + group.table.astype(np.int64) * group.n_configs
        of.append((start[:, None] + np.arange(group.n_configs)).ravel())
    rows, columns = np.concatenate(at), np.concatenate(of)
    used = rows >= 0
    shape = (len(polytope.kept), entries.shape[0])
    chosen = csr_array((np.ones(int(used.sum())), (rows[used], columns[used])), shape=shape)
    return csr_array(chosen @ entries)
