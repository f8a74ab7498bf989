"""The points that training maximises over, one vector of marginals for all examples, and what they are worth.

For the risk ``relaxed`` these are the points of the local polytope of every example
(:mod:`ssvm_dsl.ir.analysis.local_polytope`).  For ``margin`` they are the convex combinations of labellings: on forests
of pairwise factors the same, once factors that join the same two variables share one table of marginals.

A point x has one number (*column*) for each state and joint state that an example with a positive weight may take;
it obeys ``matrix x = right, x >= 0``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir import (
    F64,
    I64,
    Bools,
    Group,
    Marginals,
    Program,
    Theta,
    add_marginals,
    consistent,
    labelling_marginals,
    n_marginals,
    owners,
    polytope_equations,
)
from ssvm_dsl.plugin_api import TrainProblem


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
    shared : bool
        Whether factors share cliques.
    """

    program: Program
    cells: tuple[I64, ...]
    shared: bool = False


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
    pairs = program.distinct_edges()
    cards = program.card[pairs].astype(np.int64)
    groups, start, first = [], np.zeros(len(pairs), dtype=np.int64), program.n_states
    for two in np.unique(cards, axis=0):
        mine = np.flatnonzero((cards == two).all(axis=1))
        scope, size = pairs[mine].astype(np.int32), int(two.prod())
        ptr = np.searchsorted(scope[:, 0], program.var_ptr).astype(np.int64)
        rows = np.arange(len(mine), dtype=np.int32)
        groups.append(Group.of("pairs", (int(two[0]), int(two[1])), scope, ptr, rows, len(mine), program.var_ptr))
        start[mine] = first + size * np.arange(len(mine))
        first += size * len(mine)
    keys, cells = pairs[:, 0] * program.n_variables + pairs[:, 1], []
    for group in program.groups:
        if not group.n_factors:  # of any arity: factors that these examples are too small for
            cells.append(np.zeros((0, group.n_configs), dtype=np.int64))
            continue
        low, high = np.sort(group.shapes.variables().astype(np.int64), axis=1).T
        begin = start[np.searchsorted(keys, low * program.n_variables + high)]
        place = np.arange(group.n_configs).reshape(group.cards)
        turned = np.arange(group.n_configs).reshape(group.cards[::-1]).T
        scope = group.shapes.variables()
        forward = (scope[:, 0] < scope[:, 1])[:, None]
        cells.append(begin[:, None] + np.where(forward, place.ravel(), turned.ravel()))
    return Cliques(Program(program.var_ptr, program.card, tuple(groups)), tuple(cells), shared=True)


@dataclass(frozen=True, eq=False)
class Polytope:
    """All points, and what they are worth in a training problem.

    Parameters
    ----------
    problem : TrainProblem
    cliques : Cliques
    used : ndarray of bool, shape (n_cells,)
        The numbers of the cliques that are columns; the others are zero.
    """

    problem: TrainProblem
    cliques: Cliques
    used: Bools

    @property
    def n_cells(self) -> int:
        """How many numbers the cliques have."""
        return len(self.used)

    @cached_property
    def kept(self) -> I64:
        """The numbers of the cliques that are columns; ``ndarray, shape (n_columns,)``."""
        return np.flatnonzero(self.used)

    @cached_property
    def owner(self) -> I64:
        """The example of each column; ``ndarray, shape (n_columns,)``."""
        return _owner(self.cliques.program)[self.kept]

    @cached_property
    def loss(self) -> F64:
        """Loss of each column, without the examples' constants; ``ndarray, shape (n_columns,)``."""
        loss = np.zeros(self.n_cells)
        loss[: self.cliques.program.n_states] = self.problem.loss.node
        return loss[self.kept]

    @cached_property
    def equations(self) -> RowsOfColumns:
        """The equations that points obey, written out."""
        return _equations(self)

    def truth(self) -> F64:
        """Return the point of the true labellings; ``ndarray, shape (n_columns,)``."""
        return labelling_marginals(self.cliques.program, self.problem.loss.truth)[self.kept]

    def scores(self, w: F64) -> F64:
        """Return the scores of states and of the rows of cliques' tables; ``ndarray, shape (n_scores,)``."""
        theta, program = self.problem.scores(w), self.cliques.program
        if not self.cliques.shared:
            return np.concatenate([theta.node, theta.pool])
        out = np.zeros(self.n_cells)
        out[: program.n_states] = theta.node
        for group, table, cells in zip(self._groups, theta.tables, self.cliques.cells, strict=True):
            out += np.bincount(cells.ravel(), table[group.table_rows()].ravel(), len(out))
        return out

    def score_matrix(self) -> Any:
        """Return the matrix of :meth:`scores`; ``csr_array, shape (n_scores, dim)``."""
        from ssvm_trainers.dual.score_matrix import score_matrix

        entries = score_matrix(self.problem.parameters)
        if not self.cliques.shared:
            return entries
        n, at, of = self.cliques.program.n_states, [], []
        at.append(np.arange(n))
        of.append(at[0])
        first = n
        for group, cells in zip(self._groups, self.cliques.cells, strict=True):
            start = first + group.table_rows().astype(np.int64) * group.n_configs
            at.append(cells.ravel())
            of.append((start[:, None] + np.arange(group.n_configs)).ravel())
            first += group.n_tables * group.n_configs
        rows, columns = np.concatenate(at), np.concatenate(of)
        chosen = csr_array((np.ones(len(rows)), (rows, columns)), shape=(self.n_cells, entries.shape[0]))
        return csr_array(chosen @ entries)

    def score_features(self, mass: F64) -> F64:
        """Return ``sum_k mass_k Phi_k`` over scores; ``ndarray, shape (dim,)``.  The adjoint of :meth:`scores`."""
        training = self.problem.parameters.program
        given = Theta.zeros(training)
        if self.cliques.shared:
            _add_all(training, self._of_training(mass), given)
        else:
            given.node[...], given.pool[...] = mass[: training.n_states], mass[training.n_states :]
        return self.problem.parameters.adjoint(given)

    def mass(self, x: F64) -> F64:
        """Return the sums of ``x``, a number for each cell, over those that share a score; ``shape (n_scores,)``."""
        if self.cliques.shared:
            return x
        program, given = self.cliques.program, Theta.zeros(self.cliques.program)
        _add_all(program, _by_group(program, x), given)
        return np.concatenate([given.node, given.pool])

    def features(self, x: F64) -> F64:
        """Return ``sum_k x_k Phi_k`` over the columns; ``ndarray, shape (dim,)``."""
        return self.score_features(self.mass(self.full(x)))

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
        program, full = self.cliques.program, self.full(x)
        nothing = np.flatnonzero(np.add.reduceat(full[: program.n_states], program.state_ptr[:-1]) <= 0.0)
        full[program.state_ptr[nothing] + self.problem.loss.truth[nothing]] = 1.0
        found = consistent(program, _by_group(program, full), np.arange(program.n_examples))
        return np.concatenate([found.node, *(table.ravel() for table in found.tables)])[self.kept]

    def full(self, x: F64) -> F64:
        """Return columns as a number for each cell."""
        full = np.zeros(self.n_cells)
        full[self.kept] = x
        return full

    @property
    def _groups(self) -> tuple[Group, ...]:
        return self.problem.parameters.program.groups

    def _of_training(self, x: F64) -> Marginals:
        """Return the numbers of cells as those of the training program's variables and factors."""
        return Marginals(x[: self.cliques.program.n_states], tuple(x[cells] for cells in self.cliques.cells))


@dataclass(frozen=True, eq=False)
class RowsOfColumns:
    """``matrix x = right`` over the columns.

    Parameters
    ----------
    matrix : csr_array, shape (n_rows, n_columns)
    right : ndarray of float64, shape (n_rows,)
    owner : ndarray of int64, shape (n_rows,)
        The example of each row.
    """

    matrix: Any
    right: F64
    owner: I64


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
    n_factors = sum(group.n_factors for group in training.groups)
    shared = not problem.relaxed and len(training.distinct_edges()) < n_factors
    cliques = shared_cliques(training) if shared else own_cliques(training)
    used = _possible(cliques.program, training.allowed)
    if (problem.objective.weight <= 0.0).any():
        used &= problem.objective.weight[_owner(cliques.program)] > 0.0
    return Polytope(problem, cliques, used)


def _equations(polytope: Polytope) -> RowsOfColumns:
    program, kept = polytope.cliques.program, polytope.kept
    factors = [(group.cards, group.shapes.variables().astype(np.int64)) for group in program.groups]
    rows = polytope_equations(program.state_ptr, factors)
    matrix = csr_array((rows.values, (rows.rows, rows.columns)), shape=(rows.n_rows, rows.n_columns))
    matrix = csr_array(matrix[:, kept])
    there = np.flatnonzero(np.diff(matrix.indptr) > 0)
    matrix = csr_array(matrix[there])
    matrix.sort_indices()
    right = (there < program.n_variables).astype(np.float64)
    return RowsOfColumns(matrix, right, polytope.owner[matrix.indices[matrix.indptr[:-1]]])


def _owner(program: Program) -> I64:
    """Return the example of each cell."""
    example = owners(program.var_ptr)
    parts = [np.repeat(example[group.shapes.variables()[:, 0]], group.n_configs) for group in program.groups]
    return np.concatenate([np.repeat(example, program.card), *parts])


def _by_group(program: Program, x: F64) -> Marginals:
    """Return the numbers of a program's cells as its marginals."""
    tables, first = [], program.n_states
    for group in program.groups:
        last = first + group.n_factors * group.n_configs
        tables.append(x[first:last].reshape(group.n_factors, group.n_configs))
        first = last
    return Marginals(x[: program.n_states], tuple(tables))


def _add_all(program: Program, marginals: Marginals, given: Theta) -> None:
    ids = np.arange(program.n_examples)
    add_marginals(program, marginals, np.ones(len(ids)), ids, given.node, given.tables)


def _possible(program: Program, allowed: Bools | None) -> Bools:
    """Return which states and joint states are not ruled out."""
    if allowed is None:
        return np.ones(n_marginals(program), dtype=bool)
    parts = [allowed]
    for group in program.groups:
        states = np.indices(group.cards).reshape(group.arity, -1)
        first = program.state_ptr[group.shapes.variables()]
        parts.append(allowed[first[:, :, None] + states].all(axis=1).ravel())
    return np.concatenate(parts)


def score_columns(polytope: Polytope) -> Any:
    """Return the scores of all columns as a matrix of features; ``csr_array, shape (n_columns, dim)``."""
    program, start = polytope.cliques.program, polytope.cliques.program.n_states
    rows = [np.arange(start)]
    for group in program.groups:
        first = start + group.table_rows().astype(np.int64) * group.n_configs
        rows.append((first[:, None] + np.arange(group.n_configs)).ravel())
        start += group.n_tables * group.n_configs
    return csr_array(polytope.score_matrix()[np.concatenate(rows)[polytope.kept]])
