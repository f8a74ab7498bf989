"""``GraphProblem``: one factor graph that came from a file or another library, as a program with its scores.

Readers hand over their factors as flat arrays (:class:`FactorTables`); :func:`assemble` turns them into the
program all backends read:

* factors of one variable are summed into ``Theta.node``, factors of none into ``Theta.const``;
* factors of two and more variables become one group for each tuple of numbers of states, in file order.

Scores are natural logarithms (or negated costs), to be maximised; what is impossible has the score ``-inf``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.ragged import pointers, runs
from ssvm_dsl.ir.theta import Theta

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GraphProblem:
    """A factor graph with scores: a program of one example.

    Parameters
    ----------
    program : Program
    theta : Theta
    source : str
        Where it came from, for messages.
    names : tuple of str, optional
        Names of the variables; their numbers when left out.
    floor : float
        Labellings of this score or less do not count as solutions (WCSP files: minus their upper bound).
    """

    program: Program
    theta: Theta
    source: str
    names: tuple[str, ...] | None = None
    floor: float = -np.inf

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return self.program.n_variables

    def name(self, variable: int) -> str:
        """Return the name of a variable."""
        return str(variable) if self.names is None else self.names[variable]

    def clamp(self, states: Iterable[tuple[int, int]]) -> I32:
        """Return the array that fixes some variables: ``clamp=`` of the task ``map_clamped``.

        Parameters
        ----------
        states : iterable of (variable, state)
            Variables by number.

        Returns
        -------
        ndarray of int32, shape (V,)
            The state of each variable, -1 where free.

        Raises
        ------
        DataError
            A variable or state that is not there, or two states for one variable.
        """
        clamp = np.full(self.n_variables, -1, dtype=np.int32)
        for variable, state in states:
            if not 0 <= variable < self.n_variables:
                expected = f"variables from 0 to {self.n_variables - 1}"
                raise DataError("evidence", expected=expected, found=f"variable {variable}")
            card = int(self.program.card[variable])
            if not 0 <= state < card:
                expected = f"states from 0 to {card - 1} for variable {self.name(variable)}"
                raise DataError("evidence", expected=expected, found=f"state {state}")
            if clamp[variable] not in (-1, state):
                expected = f"one state for variable {self.name(variable)}"
                raise DataError("evidence", expected=expected, found=f"states {clamp[variable]} and {state}")
            clamp[variable] = state
        return clamp

    def given(self, clamp: I32) -> Theta:
        """Return scores in which all other states of the fixed variables are forbidden.

        For tasks that take no ``clamp``; the program stays as it is.
        """
        card, theta = self.program.card, self.theta.copy()
        state = np.arange(self.program.n_states) - np.repeat(self.program.state_ptr[:-1], card)
        wanted = np.repeat(clamp, card)
        theta.node[(wanted >= 0) & (wanted != state)] = -np.inf
        return theta


@dataclass(frozen=True, eq=False)
class FactorTables:
    """Factors of any arity in flat arrays.

    Parameters
    ----------
    scope_ptr : ndarray of int64, shape (n + 1,)
        The variables of factor f are ``scope[scope_ptr[f]:scope_ptr[f + 1]]``.
    scope : ndarray of int64
    table_ptr : ndarray of int64, shape (n + 1,)
        The table of factor f is ``scores[table_ptr[f]:table_ptr[f + 1]]``, the last variable varying fastest.
    scores : ndarray of float64
    """

    scope_ptr: I64
    scope: I64
    table_ptr: I64
    scores: F64

    @classmethod
    def of(cls, factors: Iterable[tuple[I64, F64]]) -> FactorTables:
        """Return the flat arrays of (scope, table) pairs."""
        pairs = list(factors)
        scopes = [np.asarray(scope, dtype=np.int64) for scope, _ in pairs]
        tables = [table.ravel() for _, table in pairs]
        scope_ptr = pointers(np.array([len(scope) for scope in scopes], dtype=np.int64))
        table_ptr = pointers(np.array([len(table) for table in tables], dtype=np.int64))
        scope = np.concatenate([np.zeros(0, dtype=np.int64), *scopes])
        return cls(scope_ptr, scope, table_ptr, np.concatenate([np.zeros(0), *tables]))


def assemble(
    card: I64, factors: FactorTables, source: str, names: tuple[str, ...] | None = None, floor: float = -np.inf
) -> GraphProblem:
    """Return the problem of these factors; what they hold was checked by the reader."""
    card32 = card.astype(np.int32)
    arity = np.diff(factors.scope_ptr)
    groups, tables = [], []
    for r in np.unique(arity[arity >= 2]).tolist():
        for group, table in _groups(card, factors, np.flatnonzero(arity == r), r):
            groups.append(group)
            tables.append(table)
    program = Program(np.array([0, len(card)], dtype=np.int64), card32, tuple(groups)).validate()
    theta = Theta.zeros(program)
    for mine, table in zip(theta.tables, tables, strict=True):
        mine[...] = table
    _add_unary(program, theta, factors, np.flatnonzero(arity == 1))
    constants = factors.scores[factors.table_ptr[:-1][arity == 0]]
    if (constants == -np.inf).any() and len(card):
        theta.node[: card[0]] = -np.inf  # nothing is possible: said by a state, as constants are finite
        constants = constants[constants > -np.inf]
    theta.const[0] = constants.sum()
    return GraphProblem(program, theta, source, names, floor)


def _groups(card: I64, factors: FactorTables, ids: I64, r: int) -> Iterable[tuple[Group, F64]]:
    """Yield the groups of the factors of one arity, with their tables."""
    scopes = factors.scope[factors.scope_ptr[ids][:, None] + np.arange(r)]
    shapes, member = np.unique(card[scopes], axis=0, return_inverse=True)
    member = member.reshape(-1)
    order = np.argsort(member, kind="stable")
    ends = np.cumsum(np.bincount(member, minlength=len(shapes)))
    for shape, mine in zip(shapes.tolist(), np.split(order, ends[:-1]), strict=True):
        width, n = int(np.prod(shape)), len(mine)
        rows = runs(factors.table_ptr[ids[mine]], np.full(n, width))
        group = Group(
            "x".join(map(str, shape)),
            tuple(shape),
            np.ascontiguousarray(scopes[mine], dtype=np.int32),
            np.array([0, n], dtype=np.int64),
            np.arange(n, dtype=np.int32),
            n,
        )
        yield group, factors.scores[rows].reshape(n, width)


def _add_unary(program: Program, theta: Theta, factors: FactorTables, ids: I64) -> None:
    variable = factors.scope[factors.scope_ptr[ids]]
    widths = program.card[variable]
    targets = runs(program.state_ptr[variable], widths)
    np.add.at(theta.node, targets, factors.scores[runs(factors.table_ptr[ids], widths)])


def table_sizes(card: I64, scope_ptr: I64, scope: I64) -> F64:
    """Return the number of entries of each factor's table as float64, which no product overflows silently."""
    sizes = np.ones(len(scope_ptr) - 1)
    arity = np.diff(scope_ptr)
    left = np.flatnonzero(arity > 0)
    k = 0
    with np.errstate(over="ignore"):
        while len(left):
            sizes[left] *= card[scope[scope_ptr[left] + k]]
            k += 1
            left = left[arity[left] > k]
    return sizes


def first_repeat(scope_ptr: I64, scope: I64) -> int:
    """Return the position in ``scope`` of the first variable a factor names twice, -1 without one."""
    factor = np.repeat(np.arange(len(scope_ptr) - 1), np.diff(scope_ptr))
    order = np.lexsort((scope, factor))
    same = (np.diff(scope[order]) == 0) & (np.diff(factor[order]) == 0)
    return int(order[1:][same].min()) if same.any() else -1
