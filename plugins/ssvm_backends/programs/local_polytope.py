r"""The local polytope of an example as sparse arrays: what linear and integer programs are made of.

A labelling y is written as 0/1 numbers mu: ``mu_v(s) = 1`` where y_v = s, ``mu_f(c) = 1`` where the variables of
factor f are in the joint state c.  The local polytope relaxes them to ``mu >= 0`` with::

    sum_s mu_v(s) = 1                              for every variable v              (one row)
    sum_{c: c_k = s} mu_f(c) - mu_v(s) = 0         for every factor f, its k-th variable v, every state s

The best score over it is an upper bound on the score of every labelling, and its vertices with whole numbers
are exactly the labellings (Wainwright and Jordan 2008, section 4.1).  A *block* is one variable's states or one
factor's joint states; the columns are the blocks one after the other: variables first, then the factors group
by group.

It is built without a Python loop over factors, once for all examples that have the same variables and factors
(:class:`PolytopeStructure`); scores enter per call only (:meth:`LocalPolytope.price`).  Forbidden states and
joint states have score ``-inf`` and become columns fixed at zero; no large penalties occur anywhere.

The certified bound.  For any numbers lambda (one for each row of the second kind; a solver's duals or anything
else) move scores from factors to variables, ``theta_f(c) - sum_k lambda_{f,k}(c_k)`` and ``theta_v(s) + sum_{f,k}
lambda_{f,k}(s)``: the score of no labelling changes, hence the sum of the largest entries of all blocks bounds them
all (Werner 2007, eq. (8)).  A solver's tolerances only make this bound weaker, never wrong.

Hard constraints add rows ``l <= A mu <= u`` (:mod:`ssvm_backends.programs.side_rows`).  Numbers nu for these move
``A^T nu`` from the scores of the columns into the bound, where it is at most ``u . max(nu, 0) + l . min(nu, 0)``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import fsum, prod
from typing import Any

import numpy as np

from ssvm_backends.graphs.deadline import UNLIMITED
from ssvm_backends.graphs.graph import top_states
from ssvm_backends.programs.side_rows import SideRows
from ssvm_dsl.ir import F64, I32, I64, Program, Theta, pointers, polytope_equations
from ssvm_dsl.plugin_api import Clock

#: Seconds for each entry of its equations that it takes to build a polytope.
BUILD_SECONDS = 150e-9

#: Rounding of one addition in float64, with a margin.
_EPS = 2.0**-52


@dataclass(frozen=True, eq=False)
class PolytopeGroup:
    """The factors of one group.

    Parameters
    ----------
    group : int
        Number of the group.
    cards : tuple of int
    scope : ndarray of int64, shape (n, r)
        Variables, numbered within the example.
    columns : slice
        Their columns, ``n * prod(cards)`` of them.
    """

    group: int
    cards: tuple[int, ...]
    scope: I64
    columns: slice


@dataclass(frozen=True, eq=False)
class LocalPolytope:
    """The local polytope of examples with the same structure, without scores.

    Parameters
    ----------
    state_ptr : ndarray of int64, shape (n + 1,)
        Columns of each of the n variables; they are the first columns.
    parts : tuple of Part
    block_ptr : ndarray of int64, shape (n_blocks + 1,)
        Columns of each block.
    matrix : csr_array, shape (n_rows, n_columns)
        The rows above: first one for each variable, then those of the factors.
    side : SideRows
        Those of hard constraints.
    passing : bool
        Whether it is made for one round of a call: nobody keeps what is made of it.
    """

    state_ptr: I64
    parts: tuple[PolytopeGroup, ...]
    block_ptr: I64
    matrix: Any
    side: SideRows
    passing: bool = False

    @property
    def n_variables(self) -> int:
        """Number of variables n."""
        return len(self.state_ptr) - 1

    @property
    def nnz(self) -> int:
        """Number of entries of all rows."""
        return int(self.matrix.nnz + self.side.matrix.nnz)

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.block_ptr[-1])

    @cached_property
    def columns(self) -> Any:
        """The matrix transposed; ``csr_array, shape (n_columns, n_rows)``."""
        return self.matrix.T.tocsr()

    @cached_property
    def longest(self) -> int:
        """The most entries of a column."""
        return int(np.diff(self.columns.indptr).max(initial=0))

    @cached_property
    def sizes(self) -> Any:
        """The absolute entries of ``columns``."""
        return abs(self.columns)

    @cached_property
    def right_side(self) -> F64:
        """The right-hand side of the rows; ``ndarray, shape (n_rows,)``."""
        return (np.arange(self.matrix.shape[0]) < self.n_variables).astype(np.float64)

    @cached_property
    def all_rows(self) -> tuple[Any, F64, F64]:
        """The rows ``lower <= matrix x <= upper`` of the polytope and of constraints, auxiliary columns included."""
        if not self.side.n_rows and not self.side.n_auxiliary:
            return self.matrix, self.right_side, self.right_side
        from scipy.sparse import csr_array, vstack

        wider = csr_array(self.matrix, copy=True)
        wider.resize(self.matrix.shape[0], self.n_columns + self.side.n_auxiliary)
        bounds = (np.concatenate([self.right_side, one]) for one in (self.side.lower, self.side.upper))
        return csr_array(vstack([wider, self.side.matrix])), *bounds

    def price(self, theta: Theta, node: F64, program: Program, example: int) -> Priced:
        """Return the scores of all columns for one example.

        Parameters
        ----------
        theta : Theta
        node : ndarray of float64, shape (S,)
            Unary scores of the whole program with ``-inf`` at masked and clamped states.
        program : Program
        example : int
            One with this structure.
        """
        score, start = np.empty(self.n_columns), int(program.state_ptr[program.var_ptr[example]])
        score[: self.state_ptr[-1]] = node[start : start + int(self.state_ptr[-1])]
        for part in self.parts:
            group = program.groups[part.group]
            score[part.columns] = theta.tables[part.group][group.factors(example)[1]].ravel()
        return Priced(self, score, float(theta.const[example]), example)

    def labels_of(self, mu: F64) -> I32:
        """Return the state of largest mu of each variable, the first among equals."""
        return top_states(mu[: self.state_ptr[-1]], np.diff(self.state_ptr))

    def chosen(self, labels: I32) -> I64:
        """Return the column of each block that is 1 for a labelling; ``ndarray, shape (n_blocks,)``."""
        columns = [self.state_ptr[:-1] + labels]
        for part in self.parts:
            place = np.zeros(len(part.scope), dtype=np.int64)
            for k, card in enumerate(part.cards):
                place = place * card + labels[part.scope[:, k]]
            columns.append(part.columns.start + np.arange(len(part.scope)) * prod(part.cards) + place)
        return np.concatenate(columns)


@dataclass(frozen=True, eq=False)
class Priced:
    """A local polytope with the scores of its columns.

    Parameters
    ----------
    polytope : LocalPolytope
    score : ndarray of float64, shape (n_columns,)
        ``-inf`` for columns that must be zero.
    const : float
    example : int
    """

    polytope: LocalPolytope
    score: F64
    const: float
    example: int

    @property
    def peaks(self) -> F64:
        """The best score of each block; ``ndarray, shape (n_blocks,)``."""
        return np.maximum.reduceat(self.score, self.polytope.block_ptr[:-1])

    @property
    def top(self) -> float:
        """Score of the labelling, if there were one, that has the best column of each block."""
        return fsum([self.const, *self.peaks.tolist()])

    def rounding(self, span: float) -> float:
        """Return how far off float64 may be in scores that are ``top`` less losses of up to ``span``."""
        return 4 * _EPS * (span + float(np.abs(self.peaks).sum()) + abs(self.const))

    def losses(self) -> F64:
        """Return how far each column's score is below the best of its block (``inf`` where forbidden).

        All blocks must have a column that is allowed.  Every labelling takes one column of each block, so its
        score is :attr:`top` less its loss.
        """
        return np.repeat(self.peaks, np.diff(self.polytope.block_ptr)) - self.score

    def bound(self, duals: F64 | None = None) -> float:
        """Return the certified upper bound that duals prove, or the trivial one if it is better.

        Parameters
        ----------
        duals : ndarray of float64, shape (n_rows,), optional
            Any finite numbers, for the rows of the polytope and those beside it; those of the variables' own rows are
            not used.

        Returns
        -------
        float
            ``-inf`` when a block has no column left.
        """
        trivial = self._certified(self.score, np.abs(self.score))
        if duals is None or trivial == -np.inf:
            return trivial
        polytope, side = self.polytope, self.polytope.side
        moved = duals[: polytope.matrix.shape[0]].copy()
        moved[: polytope.n_variables] = 0.0
        size = np.abs(self.score) + polytope.sizes @ np.abs(moved)
        score, constant = self.score - polytope.columns @ moved, 0.0
        if side.n_rows:
            constant, nu = side.most_of(duals[polytope.matrix.shape[0] :])
            score = score - (side.columns @ nu)[: polytope.n_columns]
            size = size + (side.sizes @ np.abs(nu))[: polytope.n_columns]
            constant += 4 * _EPS * side.n_rows * abs(constant)
        return min(trivial, self._certified(score, size) + constant)

    def _certified(self, score: F64, size: F64) -> float:
        """Return the sum of the blocks' best scores, plus what rounding may have taken from it."""
        starts = self.polytope.block_ptr[:-1]
        best = np.maximum.reduceat(score, starts)
        if (best == -np.inf).any():
            return -np.inf
        largest = np.maximum.reduceat(np.where(size < np.inf, size, 0.0), starts)
        rounding = _EPS * (4 + self.polytope.longest) * largest.sum()
        return fsum([*best.tolist(), self.const, float(rounding), _EPS * abs(self.const)])

    def value(self, mu: F64) -> float:
        """Return the score of a fractional solution."""
        used = mu > 0.0
        return float(self.const + self.score[used] @ mu[used])

    def score_of(self, labels: I32) -> float:
        """Return the score of a labelling; ``-inf`` where it breaks a constraint."""
        if not self.polytope.side.keeps(labels):
            return -np.inf
        return float(self.score[self.polytope.chosen(labels)].sum() + self.const)


def first_incumbent(priced: Priced, warm: Any) -> tuple[I32, F64]:
    """Return a labelling to start an exact search from, and the losses of the columns that can beat it.

    The labelling is the one given, if it is for this example, else the state of best unary score of each variable.  A
    column that alone loses more than this labelling loses in all is in no better one: its loss becomes ``inf``.
    That also takes out penalties so large that no scale shows them and the other scores at once.  A labelling that
    breaks a constraint is where the search starts, and nothing more.
    """
    given = isinstance(warm, np.ndarray) and warm.shape == (priced.polytope.n_variables,)
    labels: I32 = warm if given else priced.polytope.labels_of(priced.score)
    losses = priced.losses()
    if not priced.polytope.side.keeps(labels):
        return labels, losses
    lost = float(losses[priced.polytope.chosen(labels)].sum()) * (1.0 + 1e-9)
    return labels, np.where(losses > lost, np.inf, losses)


@dataclass(frozen=True)
class PolytopeStructure:
    """The data that the local polytope of an example depends on; two are equal if the polytopes are.

    Parameters
    ----------
    key : bytes
        The numbers of states of its variables, the scopes of its factors group by group, and its constraints.
    example : int
        An example that has it.
    """

    key: bytes
    example: int = field(compare=False)

    @classmethod
    def from_program(cls, program: Program, example: int) -> PolytopeStructure:
        """Return the structure of an example."""
        lo, hi = (int(v) for v in program.var_ptr[example : example + 2])
        parts, counts = [np.diff(program.state_ptr[lo : hi + 1])], [hi - lo]
        for group in program.groups:
            scope = group.factors(example)[0].astype(np.int64)
            parts.append(scope.ravel())
            counts.append(len(scope))
        key = np.concatenate([counts, *parts]).tobytes()
        ids = np.array([example], dtype=np.int64)
        for constraints in program.constraints:
            mine = constraints.take(ids)
            key += mine.signature().encode() + b"".join(array.tobytes() for array in mine.arrays())
        return cls(key, example)


def n_entries(program: Program, example: int) -> int:
    """Return about how many entries the equations of an example's polytope have."""
    lo, hi = (int(v) for v in program.var_ptr[example : example + 2])
    entries = int(program.state_ptr[hi] - program.state_ptr[lo])
    for group in program.groups:
        entries += int(group.shapes.counts[example]) * group.n_configs * len(group.cards)
    for one in program.constraints:
        entries += int(one.literal_ptr[one.ptr[example + 1]] - one.literal_ptr[one.ptr[example]])
    return entries


def build_polytope(program: Program, example: int, redundant: bool = False, clock: Clock = UNLIMITED) -> LocalPolytope:
    """Return the local polytope of an example.

    Parameters
    ----------
    program : Program
    example : int
    redundant : bool
        Keep all rows.  Without, the row of the last state is left out for all but the first variable of each
        factor: it follows from the others, and a simplex basis is the smaller for it.
    clock : Clock

    Raises
    ------
    OutOfTime
    TooLargeError
        Hard constraints have too many rows.

    Notes
    -----
    Time and memory O(n_columns x arity).
    """
    clock.afford(BUILD_SECONDS * n_entries(program, example))
    lo, hi = (int(v) for v in program.var_ptr[example : example + 2])
    state_ptr = program.state_ptr[lo : hi + 1] - program.state_ptr[lo]
    parts, blocks, n_columns = [], [np.diff(state_ptr)], int(state_ptr[-1])
    for g, group in enumerate(program.groups):
        scope = group.factors(example)[0].astype(np.int64)
        n = len(scope)
        if not n:
            continue
        parts.append(PolytopeGroup(g, group.cards, scope, slice(n_columns, n_columns + n * group.n_configs)))
        blocks.append(np.full(n, group.n_configs))
        n_columns += n * group.n_configs
    from scipy.sparse import coo_array

    rows = polytope_equations(state_ptr, [(part.cards, part.scope) for part in parts], redundant)
    shape = (rows.n_rows, rows.n_columns)
    matrix = coo_array((rows.values, (rows.rows, rows.columns)), shape=shape).tocsr()
    matrix.sort_indices()
    side = SideRows.from_group(program, example, n_columns, state_ptr, clock, in_rounds=True)
    return LocalPolytope(state_ptr, tuple(parts), pointers(np.concatenate(blocks)), matrix, side)
