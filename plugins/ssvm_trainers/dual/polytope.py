"""The points that training maximises over, one vector of marginals for all examples, and their values.

For the risk ``relaxed`` these are the points of the local polytope of every example
(:mod:`ssvm_dsl.ir.analysis.local_polytope`).  For ``margin`` they are the convex combinations of labellings: on forests
of pairwise factors the same (:class:`TrainingPolytope`).  Where graphs have cycles, factors join the same two variables
or more than two, and where joint states have scores without weights, they are the marginals of the cliques of a
triangulated graph (:class:`CliquePolytope`); binary variables with submodular tables need none of them.  Under hard
constraints they are the points of linear rows (:mod:`ssvm_trainers.dual.points_of_problem`).

A *cell* is a number of a point; a point x has one *column* for each cell that an example with a positive weight may
take, the other cells are zero; it obeys ``matrix x = right, x >= 0``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from ssvm_dsl.ir import (
    F64,
    I64,
    NODE,
    Bools,
    FeatureMap,
    Marginals,
    Program,
    SparseRows,
    Theta,
    Topology,
    labelling_marginals,
    n_marginals,
    owners,
    pointers,
    polytope_equations,
    runs,
)
from ssvm_dsl.plugin_api import ParameterMap, TrainProblem, add_marginals, consistent
from ssvm_trainers.dual.junction_trees import JunctionTrees, junction_trees

if TYPE_CHECKING:
    from ssvm_trainers.dual.projection.projection_kernels import PolytopeLayout


@dataclass(frozen=True, eq=False)
class Polytope(ABC):
    """All points, and their values in a training problem.

    Parameters
    ----------
    problem : TrainProblem
    used : ndarray of bool, shape (n_cells,)
        The cells that are columns; the others are zero.
    """

    problem: TrainProblem
    used: Bools

    @property
    def n_cells(self) -> int:
        """Number of cells of a point."""
        return len(self.used)

    @cached_property
    def kept(self) -> I64:
        """The cells that are columns; ``ndarray, shape (n_columns,)``."""
        return np.flatnonzero(self.used)

    @cached_property
    def owner(self) -> I64:
        """The example of each column; ``ndarray, shape (n_columns,)``."""
        return self._owners()[self.kept]

    @cached_property
    def linear(self) -> ParameterMap:
        """The map from weights to scores, without those that no weight multiplies."""
        return replace(self.problem.parameters, constants=None)

    @cached_property
    def loss(self) -> F64:
        """Loss of each column plus its score without weights; ``ndarray, shape (n_columns,)``."""
        return self.of_columns(self.score_loss())

    @cached_property
    def const(self) -> F64:
        """Constant loss of all points of an example, less the score of the truth without weights; ``shape (n,)``."""
        constants, program = self.problem.parameters.constants, self.problem.parameters.program
        const: F64 = self.problem.loss.const
        return const if constants is None else const - constants.value(program, self.problem.loss.truth)

    @cached_property
    def equations(self) -> RowsOfColumns:
        """The equations that points obey, written out."""
        matrix, right = self._equations()
        matrix = csr_array(matrix[:, self.kept])
        there = np.flatnonzero(np.diff(matrix.indptr) > 0)
        matrix = csr_array(matrix[there])
        matrix.sort_indices()
        return RowsOfColumns(matrix, right[there], self.owner[matrix.indices[matrix.indptr[:-1]]])

    def truth(self) -> F64:
        """Return the point of the true labellings; ``ndarray, shape (n_columns,)``."""
        return self._truth()[self.kept]

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
            Non-negative and close to a point; it is rounded to a point, so that the plane is valid.
        coef : ndarray of float64, shape (n,)
            Non-negative; zero for examples without columns.
        """
        x = self.rounded(x)
        share = coef / self.problem.n
        weighed = x * share[self.owner]
        v = self.truth_features(share) - self.features(weighed)
        return v, float(np.dot(weighed, self.loss) + np.dot(share, self.const))

    def full(self, x: F64) -> F64:
        """Return columns as a number for each cell."""
        full = np.zeros(self.n_cells)
        full[self.kept] = x
        return full

    def entries(self, w: F64) -> F64:
        """Return the scores by weights, as in a :class:`~ssvm_dsl.ir.Theta`: ``node``, then ``pool``."""
        theta = self.linear.scores(w)
        return np.concatenate([theta.node, theta.pool])

    def features_of_entries(self, mass: F64) -> F64:
        """Return ``sum_k mass_k Phi_k`` over such scores; ``ndarray, shape (dim,)``."""
        given = Theta.zeros(self.linear.program)
        given.node[...], given.pool[...] = np.split(mass, [len(given.node)])
        return self.linear.adjoint(given)

    @abstractmethod
    def scores(self, w: F64) -> F64:
        """Return the scores that cells have, which some may share; ``ndarray, shape (n_scores,)``."""

    @abstractmethod
    def score_loss(self) -> F64:
        """Return the terms of scores without weights: loss and given scores; ``ndarray, shape (n_scores,)``."""

    @abstractmethod
    def score_matrix(self) -> Any:
        """Return the matrix of :meth:`scores`; ``csr_array, shape (n_scores, dim)``."""

    @abstractmethod
    def n_features(self) -> int:
        """Return an upper bound of the number of features of all columns, without listing them."""

    @abstractmethod
    def score_features(self, mass: F64) -> F64:
        """Return ``sum_k mass_k Phi_k`` over scores; ``ndarray, shape (dim,)``.  The adjoint of :meth:`scores`."""

    @abstractmethod
    def of_columns(self, scores: Any) -> Any:
        """Return the rows that belong to scores as those of columns."""

    @abstractmethod
    def mass(self, x: F64) -> F64:
        """Return the sums of ``x``, a number for each cell, over those that share a score; ``shape (n_scores,)``."""

    @abstractmethod
    def rounded(self, x: F64) -> F64:
        """Return the point close to numbers that are nearly one; where there are none, one close to the truth's."""

    @abstractmethod
    def layout(self) -> PolytopeLayout:
        """Return the equations as projections read them."""

    @abstractmethod
    def _owners(self) -> I64:
        """Return the example of each cell."""

    @abstractmethod
    def _truth(self) -> F64:
        """Return the point of the true labellings, a number for each cell."""

    @abstractmethod
    def _equations(self) -> tuple[Any, F64]:
        """Return matrix and right-hand side of the equations of cells."""


class TrainingPolytope(Polytope):
    """The local polytope: states of variables, then joint states of factors, group by group."""

    @property
    def _program(self) -> Program:
        return self.problem.parameters.program

    def scores(self, w: F64) -> F64:
        """Return the scores of states and of the rows of tables."""
        return self.entries(w)

    def score_loss(self) -> F64:
        """Return the loss of states; tables have none."""
        none = sum(group.n_tables * group.n_configs for group in self._program.groups)
        return np.concatenate([self.problem.loss.node, np.zeros(none)])

    def score_matrix(self) -> Any:
        """Return the matrix of :meth:`scores`."""
        return score_matrix(self.linear)

    def n_features(self) -> int:
        """Return how many features all columns have at most."""
        return n_entries(self.linear)

    def score_features(self, mass: F64) -> F64:
        """Return ``sum_k mass_k Phi_k`` over scores."""
        return self.features_of_entries(mass)

    def of_columns(self, scores: Any) -> Any:
        """Return the rows that belong to scores as those of columns."""
        start = self._program.n_states
        rows = [np.arange(start)]
        for group in self._program.groups:
            first = start + group.table_rows().astype(np.int64) * group.n_configs
            rows.append((first[:, None] + np.arange(group.n_configs)).ravel())
            start += group.n_tables * group.n_configs
        return scores[np.concatenate(rows)[self.kept]]

    def mass(self, x: F64) -> F64:
        """Return the sums over factors that share a row of tables."""
        program, given = self._program, Theta.zeros(self._program)
        ids = np.arange(program.n_examples)
        add_marginals(program, _by_group(program, x), np.ones(len(ids)), ids, given.node, given.tables)
        return np.concatenate([given.node, given.pool])

    def rounded(self, x: F64) -> F64:
        """Return a close point; variables without any numbers take their true state."""
        program, full = self._program, self.full(x)
        nothing = np.flatnonzero(np.add.reduceat(full[: program.n_states], program.state_ptr[:-1]) <= 0.0)
        full[program.state_ptr[nothing] + self.problem.loss.truth[nothing]] = 1.0
        marginals = consistent(program, _by_group(program, full), np.arange(program.n_examples))
        return np.concatenate([marginals.node, *(table.ravel() for table in marginals.tables)])[self.kept]

    def layout(self) -> PolytopeLayout:
        """Return the equations as projections read them."""
        from ssvm_trainers.dual.projection.polytopes import layout_of

        return layout_of(self._program)

    def _owners(self) -> I64:
        return owner_of_cells(self._program)

    def _truth(self) -> F64:
        return labelling_marginals(self._program, self.problem.loss.truth)

    def _equations(self) -> tuple[Any, F64]:
        program = self._program
        factors = [(group.cards, group.shapes.variables().astype(np.int64)) for group in program.groups]
        rows = polytope_equations(program.state_ptr, factors)
        matrix = csr_array((rows.values, (rows.rows, rows.columns)), shape=(rows.n_rows, rows.n_columns))
        return matrix, (np.arange(rows.n_rows) < program.n_variables).astype(np.float64)


class ListedPolytope(Polytope):
    """A polytope each of whose cells has a score of its own, a sum of the entries of a :class:`~ssvm_dsl.ir.Theta`."""

    @property
    @abstractmethod
    def sums(self) -> Any:
        """The 0/1 matrix from the entries of a :class:`~ssvm_dsl.ir.Theta` to the scores of cells."""

    def scores(self, w: F64) -> F64:
        """Return the scores of cells."""
        return np.asarray(self.sums @ self.entries(w))

    def score_loss(self) -> F64:
        """Return the loss of cells; zero where they are no columns."""
        return np.where(self.used, self.sums @ _loss_entries(self.problem), 0.0)

    def score_matrix(self) -> Any:
        """Return the matrix of :meth:`scores`."""
        return csr_array(self.sums @ score_matrix(self.linear))

    def n_features(self) -> int:
        """Return how many features all columns have at most."""
        each = np.diff(score_matrix(self.linear).indptr)
        return int((self.sums @ each)[self.kept].sum())

    def score_features(self, mass: F64) -> F64:
        """Return ``sum_k mass_k Phi_k`` over cells."""
        return self.features_of_entries(self.sums.T @ mass)

    def of_columns(self, scores: Any) -> Any:
        """Return the rows of columns."""
        return scores[self.kept]

    def mass(self, x: F64) -> F64:
        """Return x: no cells share a score."""
        return x


@dataclass(frozen=True, eq=False)
class CliquePolytope(ListedPolytope):
    """Marginals of the cliques of triangulated graphs: convex combinations of labellings, whatever the graph.

    Parameters
    ----------
    problem, used
        As for :class:`Polytope`.
    trees : JunctionTrees
    """

    trees: JunctionTrees

    @cached_property
    def sums(self) -> Any:
        """The 0/1 matrix from the entries of a :class:`~ssvm_dsl.ir.Theta` to the scores of cells."""
        return self.trees.scores_of_cells(n_score_entries(self.problem.parameters.program))

    def rounded(self, x: F64) -> F64:
        """Return the point with the same shares of the cells that have the same row; where none has any, even ones."""
        from ssvm_trainers.dual.junction_trees import from_conditionals

        full, n_rows = np.maximum(self.full(x), 0.0), self.trees.n_rows
        nothing = np.bincount(self.trees.up, full, n_rows)[self.trees.up] <= 0.0
        full[nothing & self.used] = 1.0
        total = np.bincount(self.trees.up, full, n_rows)[self.trees.up]
        cells = np.zeros(self.n_cells)
        from_conditionals(self.trees, full / np.where(total > 0.0, total, 1.0), cells, 0, len(self.trees.parent))
        return cells[self.kept]

    def layout(self) -> PolytopeLayout:
        """Return the equations as projections read them."""
        from ssvm_trainers.dual.projection.polytopes import layout_of_equations

        trees = self.trees
        return layout_of_equations(
            trees.equations(), trees.right(), trees.cell_ptr[trees.clique_ptr], trees.row_ptr[trees.clique_ptr]
        )

    def _owners(self) -> I64:
        return self.trees.owner()

    def _truth(self) -> F64:
        x = np.zeros(self.n_cells)
        x[self.trees.labelling_cells(self.problem.loss.truth)] = 1.0
        return x

    def _equations(self) -> tuple[Any, F64]:
        return self.trees.equations(), self.trees.right()


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


def plain_forests(parameters: ParameterMap) -> bool:
    """Whether graphs are forests of pairwise factors, all of whose joint states have finite scores by weights."""
    constants = parameters.constants
    return parameters.program.hardest_topology < Topology.LOOPY and not (constants and constants.tables)


def clique_polytope(problem: TrainProblem) -> CliquePolytope:
    """Return the marginals of the cliques of triangulated graphs."""
    trees = junction_trees(problem.parameters.program)
    problem.pause()
    lost = trees.scores_of_cells(n_score_entries(problem.parameters.program)) @ _loss_entries(problem)
    problem.pause()
    used = trees.possible(lost > -np.inf) & (problem.objective.weight[trees.owner()] > 0.0)
    return CliquePolytope(problem, used, trees)


def n_score_entries(program: Program) -> int:
    """Return how many entries a :class:`~ssvm_dsl.ir.Theta` has."""
    return program.n_states + sum(group.n_tables * group.n_configs for group in program.groups)


def _loss_entries(problem: TrainProblem) -> F64:
    """Return loss and scores without weights of ``node``, then ``pool``; -inf where they are ruled out."""
    program, constants = problem.parameters.program, problem.parameters.constants
    theta = Theta.zeros(program)
    if constants is not None:
        constants.fill_shared(theta)
        constants.fill_examples(program, theta, slice(0, program.n_states), None)
    theta.node[...] += problem.loss.node
    if program.allowed is not None:
        theta.node[~program.allowed] = -np.inf
    return np.concatenate([theta.node, theta.pool])


def owner_of_cells(program: Program) -> I64:
    """Return the example of each cell of the local polytope."""
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


def possible(program: Program) -> Bools:
    """Return which states and joint states are not ruled out."""
    if program.allowed is None:
        return np.ones(n_marginals(program), dtype=bool)
    parts = [program.allowed]
    for group in program.groups:
        states = np.indices(group.cards).reshape(group.arity, -1)
        first = program.state_ptr[group.shapes.variables()]
        parts.append(program.allowed[first[:, :, None] + states].all(axis=1).ravel())
    return np.concatenate(parts)


def score_columns(polytope: Polytope) -> Any:
    """Return the scores of all columns as a matrix of features; ``csr_array, shape (n_columns, dim)``."""
    return csr_array(polytope.of_columns(polytope.score_matrix()))


# -- The map from weights to scores as one sparse matrix, for solvers that need it written out -----------------------
#
# :class:`~ssvm_dsl.plugin_api.ParameterMap` keeps it factored; here are its entries.


def score_matrix(parameters: ParameterMap) -> Any:
    """Return ``Phi``: the scores are ``Phi w``.

    Returns
    -------
    csr_array, shape (n_states + n_pool, dim)
        Rows are the entries of a :class:`~ssvm_dsl.ir.Theta`: ``node``, then ``pool``.
    """
    program = parameters.program
    sizes = np.array([group.n_tables * group.n_configs for group in program.groups], dtype=np.int64)
    first = program.n_states + pointers(sizes)
    parts = [_entries(fmap, program.state_ptr, first) for fmap in parameters.maps]
    values, rows, columns = (np.concatenate([np.zeros(0), *part]) for part in zip(*parts, strict=True))
    shape = (int(first[-1]), parameters.dim)
    return csr_array((values, (rows.astype(np.int64), columns.astype(np.int64))), shape=shape)


def n_entries(parameters: ParameterMap) -> int:
    """Return how many entries the score of all columns of all factors have at most, without writing them out."""
    total = 0
    for fmap in parameters.maps:
        per_score: float = 1.0 if fmap.basis is None else float(np.count_nonzero(fmap.basis)) / fmap.n_configs
        if isinstance(fmap.features, SparseRows):
            per_score *= len(fmap.features.data) / max(len(fmap.features.ptr) - 1, 1)
        elif fmap.features is not None:
            per_score *= np.count_nonzero(fmap.features[:]) / max(fmap.features.shape[0], 1)
        total += int(fmap.n_factors * fmap.n_configs * per_score)
    return total


def _entries(fmap: FeatureMap, state_ptr: I64, first: I64) -> tuple[F64, I64, I64]:
    """Return (value, row, column) of each entry of one map."""
    start, feature_row, unit = _instances(fmap, state_ptr, first)
    places = np.arange(fmap.n_configs)
    if fmap.joint:  # a row of features for each joint state, one basis function
        feature_row = (feature_row[:, None] * fmap.n_configs + places).ravel()
        start, unit = (start[:, None] + places).ravel(), np.repeat(unit, fmap.n_configs)
        function, place, factor = np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1)
    elif fmap.basis is None:
        function, place, factor = places, places, np.ones(len(places))
    else:
        function, place = np.nonzero(fmap.basis)
        factor = fmap.basis[function, place]
    instance, feature, value = _feature_entries(fmap, feature_row)
    if fmap.observed is not None:  # a run of weights for each feature
        pairs = fmap.observed
        lengths = np.diff(pairs.ptr)[feature]
        pair, entry = runs(pairs.ptr[feature], lengths), np.repeat(np.arange(len(feature)), lengths)
        return value[entry], start[instance[entry]] + pairs.state[pair], fmap.block.offset + pair
    inner = feature[:, None] * fmap.n_basis + function if fmap.sparse else function * fmap.width + feature[:, None]
    weight = fmap.block.offset + unit[instance][:, None] * (fmap.n_basis * fmap.width) + inner
    return (value[:, None] * factor).ravel(), (start[instance][:, None] + place).ravel(), weight.ravel()


def _instances(fmap: FeatureMap, state_ptr: I64, first: I64) -> tuple[I64, I64, I64]:
    """Return for each row of scores that the map fills: where it starts, its row of features and its unit."""
    own = np.arange(fmap.n_factors)
    shared = fmap.group != NODE and not fmap.joint
    if shared and fmap.features is None:  # a table for each unit
        units = np.arange(fmap.n_units)
        return first[fmap.group] + units * fmap.n_configs, units, units
    if shared and fmap.units is None:  # a table for each row of features
        rows = np.arange(int(fmap.row_ptr[-1]))
        return first[fmap.group] + rows * fmap.n_configs, rows, np.zeros_like(rows)
    unit = fmap.units_of(None).astype(np.int64)
    row = own if fmap.rows is None or fmap.joint else fmap.rows_of(None)
    start = state_ptr[fmap.shapes.variables()[:, 0]] if fmap.group == NODE else first[fmap.group] + own * fmap.n_configs
    return start, row, unit


def _feature_entries(fmap: FeatureMap, rows: I64) -> tuple[I64, I64, F64]:
    """Return (place in ``rows``, feature, value) of the features that are not zero."""
    features = fmap.features
    if features is None:
        return np.arange(len(rows)), np.zeros(len(rows), np.int64), np.ones(len(rows))
    if isinstance(features, SparseRows):
        lengths = features.ptr[rows + 1] - features.ptr[rows]
        at = runs(features.ptr[rows], lengths)
        return np.repeat(np.arange(len(rows)), lengths), features.indices[at].astype(np.int64), features.data[at]
    values = features[rows]
    of, feature = np.nonzero(values)
    return of, feature, values[of, feature]
