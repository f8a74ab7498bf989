"""``GraphProblem``: one factor graph that came from a file or another library, as a program with its scores.

Readers hand over their factors as flat arrays (:class:`FactorTables`); :func:`assemble` turns them into the
program all backends read:

* factors of one variable are summed into ``Theta.node``, factors of none into ``Theta.const``;
* factors of two and more variables become one group for each tuple of numbers of states, in file order.

Scores are natural logarithms (or negated costs), to be maximised; impossible states have the score ``-inf``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.errors import DataError, FileFormatError, OptionError
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.ragged import pointers, runs
from ssvm_dsl.ir.theta import Theta

#: Table entries that are copied at a time.
_PIECE = 1 << 17


@dataclass(frozen=True, eq=False)
class GraphProblem:
    """A factor graph with scores: a program of one example.

    Parameters
    ----------
    program : Program
    theta : Theta
    source : str
        Where it came from, for messages.
    names : sequence of str, optional
        Names of the variables; their numbers when left out.
    floor : float
        Labellings of this score or less do not count as solutions (WCSP files: minus their upper bound).
    states : tuple of tuples of str, optional
        Names of the states of each variable, where the file has some.
    n_auxiliary : int
        How many variables, the last ones, the reader has added for factors of many variables; answers leave them out.
    """

    program: Program
    theta: Theta
    source: str
    names: Sequence[str] | None = None
    floor: float = -np.inf
    states: tuple[tuple[str, ...], ...] | None = None
    n_auxiliary: int = 0

    @classmethod
    def of(
        cls, source: str, cards: Sequence[int], factors: Iterable[tuple[Sequence[int], ArrayLike]],
        names: Sequence[str] | None = None, states: Sequence[Sequence[str]] | None = None,
    ) -> GraphProblem:  # fmt: skip
        """Return the problem of some factors.

        Parameters
        ----------
        source : str
            Where it came from, for messages.
        cards : sequence of int
            Number of states of each variable.
        factors : iterable of (variables, table)
            The variables of each factor, by number, and its scores with an axis for each of them: natural logarithms
            or negated costs; ``-inf`` forbids joint states.  Factors of one variable score its states.
        names, states : sequences of str, optional
            Names of the variables, and of the states of each.

        Raises
        ------
        FileFormatError
            A factor has variables that there are not, one of them twice, or a table of another shape or with nan or
            infinite scores; names the source and the factor, counted from 0.
        """
        card, factor_list = np.array(cards, dtype=np.int64), FactorList()
        if card.ndim != 1:
            raise FileFormatError(f"{source}: expected a number of states for each variable, found shape {card.shape}")
        if (card < 1).any():
            raise FileFormatError(f"{source}: expected variables of at least one state, found {card.min()}")
        if (card >= 2**31).any():
            raise FileFormatError(f"{source}: expected variables of fewer than 2^31 states, found {card.max()}")
        for number, (variables, scores) in enumerate(factors):
            scope, table = np.array(variables, dtype=np.int64), np.array(scores, dtype=np.float64)
            if scope.ndim != 1:
                text = f"a list of variables, found shape {scope.shape}"
            elif len(scope) and not (scope.min() >= 0 and scope.max() < len(card)):
                text = f"variables from 0 to {len(card) - 1}, found {scope.tolist()}"
            elif repeat_in(scope) >= 0:
                text = f"different variables, found {scope.tolist()}"
            elif table.shape != tuple(card[scope]):
                text = f"a table of shape {tuple(card[scope].tolist())}, found {table.shape}"
            elif np.isnan(table).any() or (table == np.inf).any():
                text = "scores that are numbers or -inf, found nan or inf"
            else:
                factor_list.add(scope, table)
                continue
            raise FileFormatError(f"{source}, factor {number}: expected {text}")
        named = None if states is None else tuple(map(tuple, states))
        return assemble(card, factor_list.flat(), source, names, states=named)

    @property
    def n_given(self) -> int:
        """Number of variables of the file."""
        return self.program.n_variables - self.n_auxiliary

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return self.program.n_variables

    def __str__(self) -> str:
        """Return where it comes from, and its size, on one line."""
        n_factors = sum(group.n_factors for group in self.program.groups)
        factors = f"{n_factors} factors of up to {self.program.max_arity}" if n_factors else "no factors"
        states = f"up to {int(self.program.card.max(initial=0))} states"
        return f"{self.source}: {self.n_variables} variables of {states}, {factors}"

    def name(self, variable: int) -> str:
        """Return the name of a variable."""
        return str(variable) if self.names is None else self.names[variable]

    def state_name(self, variable: int, state: int) -> str:
        """Return the name of a state."""
        return str(state) if self.states is None else self.states[variable][state]

    def number(self, variable: str | int, state: str | int) -> tuple[int, int]:
        """Return the numbers of a variable and of a state of it, each given by name or by number; names come first.

        Raises
        ------
        DataError
            There is none of that name.
        """
        if isinstance(variable, str):
            number_of = {} if self.names is None else {name: v for v, name in enumerate(self.names)}
            if variable not in number_of and not (variable.isascii() and variable.isdigit()):
                known = "variables by number" if self.names is None else f"a variable ({', '.join(self.names[:8])} ...)"
                raise DataError("evidence", expected=known, found=repr(variable))
            variable = number_of[variable] if variable in number_of else int(variable)
        if isinstance(state, str):
            there = self.states[variable] if self.states is not None and 0 <= variable < self.n_given else ()
            if state not in there and not (state.isascii() and state.isdigit()):
                known = f"a state of {self.name(variable)} ({', '.join(there)})" if there else "states by number"
                raise DataError("evidence", expected=known, found=repr(state))
            state = there.index(state) if state in there else int(state)
        return variable, state

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


class FactorList:
    """Factors read one by one, kept in flat arrays that grow; every table is stored once."""

    def __init__(self) -> None:
        self._arity, self._scope, self._size, self._scores = array("q"), array("q"), array("q"), array("d")

    def add(self, scope: I64, table: F64) -> None:
        """Add a factor over variables ``scope`` with the log scores ``table``."""
        self.add_all(scope[None], table)

    def add_all(self, scopes: I64, table: F64) -> None:
        """Add factors of one table; ``scopes`` has the shape (n, arity)."""
        n, arity = scopes.shape
        self._arity.extend(array("q", [arity]) * n)
        self._scope.frombytes(np.ascontiguousarray(scopes, dtype=np.int64).tobytes())
        self._size.extend(array("q", [table.size]) * n)
        content = np.ascontiguousarray(table, dtype=np.float64).ravel().view(np.uint8).data
        for _ in range(n):
            self._scores.frombytes(content)

    @property
    def n_scores(self) -> int:
        """Table entries so far."""
        return len(self._scores)

    def scores(self, start: int, stop: int) -> F64:
        """Return a copy of some of the table entries so far."""
        return np.array(self._scores[start:stop])

    def flat(self) -> FactorTables:
        """Return all factors; nothing is copied, and none can be added from now on."""
        arity, size = (np.frombuffer(one, dtype=np.int64) for one in (self._arity, self._size))
        scope = np.frombuffer(self._scope, dtype=np.int64)
        return FactorTables(pointers(arity), scope, pointers(size), np.frombuffer(self._scores))


def as_problem(problem: object, name: str) -> GraphProblem:
    """Return a problem that the function ``name`` was called with.

    Raises
    ------
    OptionError
        It is something else.
    """
    if not isinstance(problem, GraphProblem):
        how = "read_problem and from_networkx return one"
        raise OptionError(f"{name}: the problem must be a GraphProblem ({how}), got {problem!r}")
    return problem


def assemble(
    card: I64,
    factors: FactorTables,
    source: str,
    names: Sequence[str] | None = None,
    floor: float = -np.inf,
    rules: tuple[ConstraintGroup, ...] = (),
    states: tuple[tuple[str, ...], ...] | None = None,
    n_auxiliary: int = 0,
) -> GraphProblem:
    """Return the problem of these factors and hard rules, whose content the reader has checked."""
    arity, var_ptr = np.diff(factors.scope_ptr), np.array([0, len(card)], dtype=np.int64)
    groups: list[Group] = []
    members: list[I64] = []  # the factors of each group
    for r in np.unique(arity[arity >= 2]).tolist():
        ids = np.flatnonzero(arity == r)
        scopes = factors.scope[factors.scope_ptr[ids][:, None] + np.arange(r)].astype(np.int32)
        shapes, member = unique_rows(card[scopes])
        order, ends = np.argsort(member, kind="stable"), np.cumsum(np.bincount(member, minlength=len(shapes)))
        for cards, mine in zip(shapes.tolist(), np.split(order, ends[:-1]), strict=True):
            n, name = len(mine), "x".join(map(str, cards))
            ptr, rows = np.array([0, n], dtype=np.int64), np.arange(n, dtype=np.int32)
            groups.append(Group.of(name, tuple(cards), scopes[mine], ptr, rows, n, var_ptr))
            members.append(ids[mine])
    program = Program(var_ptr, card.astype(np.int32), tuple(groups), rules)
    theta = Theta.zeros(program)
    for table, ids in zip(theta.tables, members, strict=True):
        _take_tables(factors, ids, table)
    _add_unary(program, theta, factors, np.flatnonzero(arity == 1))
    constants = factors.scores[factors.table_ptr[:-1][arity == 0]]
    if (constants == -np.inf).any() and len(card):
        theta.node[: card[0]] = -np.inf  # nothing is possible: said by a state, as constants are finite
        constants = constants[constants > -np.inf]
    theta.const[0] = constants.sum()
    return GraphProblem(program, theta, source, names, floor, states, n_auxiliary)


def _take_tables(factors: FactorTables, ids: I64, out: F64) -> None:
    """Copy the tables of some factors to the rows of ``out``, some at a time: their places take memory, too."""
    step = max(1, _PIECE // max(out.shape[1], 1))
    for lo in range(0, len(ids), step):
        start = factors.table_ptr[ids[lo : lo + step]]
        if len(start) == 1:
            out[lo] = factors.scores[start[0] : start[0] + out.shape[1]]
        else:
            out[lo : lo + step] = factors.scores[start[:, None] + np.arange(out.shape[1])]


def _add_unary(program: Program, theta: Theta, factors: FactorTables, ids: I64) -> None:
    """Add the tables of factors of one variable, some at a time: their places take memory, too."""
    variable = factors.scope[factors.scope_ptr[ids]]
    widths = program.card[variable].astype(np.int64)
    ends = np.cumsum(widths)
    lo = 0
    while lo < len(ids):
        hi = max(lo + 1, int(np.searchsorted(ends, (ends[lo - 1] if lo else 0) + _PIECE, side="right")))
        start = program.state_ptr[variable[lo:hi]]
        if hi == lo + 1:
            at, table = int(start[0]), int(factors.table_ptr[ids[lo]])
            theta.node[at : at + widths[lo]] += factors.scores[table : table + widths[lo]]
        else:
            places = runs(factors.table_ptr[ids[lo:hi]], widths[lo:hi])
            np.add.at(theta.node, runs(start, widths[lo:hi]), factors.scores[places])
        lo = hi


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


def unique_rows(rows: I64) -> tuple[I64, I64]:
    """Return (the different rows in ascending order, which of them each row is)."""
    if len(rows) and (rows == rows[0]).all():  # sorting whole rows is slow
        return rows[:1], np.zeros(len(rows), dtype=np.int64)
    shapes, member = np.unique(rows, axis=0, return_inverse=True)
    return shapes, member.reshape(-1)


def repeat_in(scope: I64) -> int:
    """Return the position of the first variable that one factor names twice, -1 without one."""
    variables = scope.tolist()
    return -1 if len(set(variables)) == len(variables) else first_repeat(pointers(np.array([len(scope)])), scope)


def first_repeat(scope_ptr: I64, scope: I64) -> int:
    """Return the position in ``scope`` of the first variable a factor names twice, -1 without one."""
    factor = np.repeat(np.arange(len(scope_ptr) - 1), np.diff(scope_ptr))
    order = np.lexsort((scope, factor))
    same = (np.diff(scope[order]) == 0) & (np.diff(factor[order]) == 0)
    return int(order[1:][same].min()) if same.any() else -1
