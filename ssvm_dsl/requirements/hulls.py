"""When the points of small linear programs are mixtures of labellings, which trainers of marginals rely on.

The maximum of a linear function over a polytope is that over labellings where each vertex of the polytope is one:

* the local polytope of forests of pairwise factors, no two of which join the same variables;
* the local polytope of binary variables, for scores under which all pairwise tables are submodular (Kolmogorov and
  Zabih 2004): it has other vertices, but none is better than all labellings;
* the literals of a hard constraint whose kind has rows without gaps (:class:`~ssvm_dsl.plugin_api.IntegralKind`), each
  of a variable of its own: a mixture of truths of the literals is one of labellings, whatever the states that the
  variables have besides;
* several such constraints, or several states of the same variables, where the rows are those of a network: each column
  has at most two entries, 1 or -1, and the rows fall into two classes such that entries of the same sign are in
  different ones and entries of opposite signs in the same (Heller and Tompkins 1956: totally unimodular).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.deadline import pause
from ssvm_dsl.ir.analysis.topology import Topology
from ssvm_dsl.ir.constraints import ConstraintGroup, IntegralKind, LinearRows
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import owners, pointers
from ssvm_dsl.requirements.properties import BINARY, SUBMODULAR, guaranteed_properties
from ssvm_dsl.scores.parameter_map import ParameterMap


@dataclass(frozen=True, eq=False)
class ConstraintHull:
    """Rows ``lower <= A x <= upper``, x at least 0, of the hard constraints of all examples.

    The columns of x are the states of the variables, then auxiliary ones.

    Parameters
    ----------
    row, column : ndarray of int64, shape (n_entries,)
    value : ndarray of float64, shape (n_entries,)
    lower, upper : ndarray of float64, shape (n_rows,)
        Infinite where there is no bound.
    example : ndarray of int64, shape (n_rows,)
        The example of each row.
    auxiliary : ndarray of int64, shape (n_auxiliary,)
        The example of each auxiliary column.
    """

    row: I64
    column: I64
    value: F64
    lower: F64
    upper: F64
    example: I64
    auxiliary: I64


def local_obstacle(parameters: ParameterMap) -> str:
    """Return why points of the local polytope may be better than all labellings, in words; empty if none can be.

    For all weights within their bounds.  Hard constraints do not count.
    """
    program, constants = parameters.program, parameters.constants
    if constants is not None and constants.tables:
        return "joint states are ruled out, or have scores without weights"
    if any(group.of_spans for group in program.groups):
        return "factors score whole segments"
    n_factors = sum(group.n_factors for group in program.groups)
    if program.hardest_topology < Topology.LOOPY and len(program.distinct_edges()) == n_factors:
        return ""
    if associative(parameters):
        return ""
    if program.max_arity > 2:
        return "factors join more than two variables"
    return "graphs have cycles, or factors that join the same variables"


def associative(parameters: ParameterMap) -> bool:
    """Whether variables are binary, and tables pairwise and submodular for all weights within their bounds."""
    program, constants = parameters.program, parameters.constants
    if program.max_arity > 2 or (constants is not None and constants.tables):
        return False
    return {BINARY, SUBMODULAR} <= guaranteed_properties(parameters)


def constraint_hull(program: Program) -> ConstraintHull | str:
    """Return rows of the hard constraints whose points are mixtures of labellings; else why there are none, in words.

    Time O(number of entries), with a Python loop over constraints.
    """
    uses = np.zeros(program.n_variables, dtype=np.int64)
    for group in program.constraints:
        np.add.at(uses, _variables(program, group), 1)
    for factors in program.groups:
        if (uses[factors.shapes.variables()] > 0).any():
            return f"factor '{factors.name}' joins variables that hard constraints hold"
    collected = _HullRows(program)
    for group in program.constraints:
        variables = _variables(program, group)
        for k in range(group.n_constraints):
            pause()
            rows = group.rules.hull(group, k) if isinstance(group.rules, IntegralKind) else None
            if rows is None:
                return f"constraint '{group.name}' ({group.kind}) has no small linear description that is exact"
            part = group.literals(k)
            collected.add(group, k, rows, program.state_ptr[variables[part]] + group.state[part])
    hull = collected.hull()
    example = owners(program.var_ptr)
    for i in np.unique(example[uses > 1]).tolist():
        if not _network(program, hull, i):
            names = ", ".join(f"'{group.name}'" for group in program.constraints if group.counts[i])
            return f"constraints ({names}) hold the same variables, and their rows are not those of a network"
    return hull


def _variables(program: Program, group: ConstraintGroup) -> I64:
    """Return the variable of each literal, counted over the batch."""
    first = program.var_ptr[group.example_of[group.constraint_of]]
    return np.asarray(first + group.variable, dtype=np.int64)


class _HullRows:
    """Collects rows, constraint by constraint."""

    def __init__(self, program: Program) -> None:
        self.n_states, self.n_rows, self.n_auxiliary = program.n_states, 0, 0
        self.parts: list[tuple[I64, I64, F64, F64, F64, I64, I64]] = []

    def add(self, group: ConstraintGroup, k: int, rows: LinearRows, states: I64) -> None:
        """Add the rows of a constraint whose literals name these states."""
        coefficient, lower, upper = rows.of_true_states(group.negated[group.literals(k)])
        literal = rows.column < len(states)
        reach = np.where(literal, coefficient, np.where(coefficient > 0.0, np.inf, -np.inf))  # a bound beyond is none
        most = np.bincount(rows.owner, np.maximum(reach, 0.0), rows.n_rows)
        least = np.bincount(rows.owner, np.minimum(reach, 0.0), rows.n_rows)
        apart = lower < upper
        lower = np.where(apart & (lower <= least), -np.inf, lower)
        upper = np.where(apart & (upper >= most), np.inf, upper)
        place = np.concatenate([states, self.n_states + self.n_auxiliary + np.arange(rows.n_auxiliary)])
        i = int(group.example_of[k])
        mine, extra = np.full(rows.n_rows, i), np.full(rows.n_auxiliary, i)
        entries = (self.n_rows + rows.owner, place[rows.column], coefficient)
        self.parts.append((*entries, lower, upper, mine, extra))
        self.n_rows, self.n_auxiliary = self.n_rows + rows.n_rows, self.n_auxiliary + rows.n_auxiliary

    def hull(self) -> ConstraintHull:
        """Return all rows."""
        none = (np.zeros(0, np.int64), np.zeros(0, np.int64), *[np.zeros(0)] * 3, *[np.zeros(0, np.int64)] * 2)
        return ConstraintHull(*(np.concatenate(part) for part in zip(none, *self.parts, strict=True)))


def _network(program: Program, hull: ConstraintHull, i: int) -> bool:
    """Whether the rows of an example, with those that states of a variable add up to 1, are those of a network.

    Rows that say no more than that states add up to 1, and those of variables of which one state is named, which are
    bounds of columns, do not count.
    """
    mine = np.flatnonzero(hull.example == i)
    if (hull.auxiliary == i).any() or not len(mine):
        return not len(mine)
    low, high = program.state_ptr[program.var_ptr[i : i + 2]]
    there = hull.example[hull.row] == i
    number = np.zeros(len(hull.lower), dtype=np.int64)
    number[mine] = np.arange(len(mine))
    matrix = np.zeros((len(mine), high - low))
    np.add.at(matrix, (number[hull.row[there]], hull.column[there] - low), hull.value[there])
    lower, upper = hull.lower[mine], hull.upper[mine]
    sizes = np.diff(program.state_ptr[program.var_ptr[i] : program.var_ptr[i + 1] + 1])
    simplex = np.repeat(np.eye(len(sizes)), sizes, axis=1)
    if program.allowed is not None:
        matrix[:, ~program.allowed[low:high]] = simplex[:, ~program.allowed[low:high]] = 0.0
    bounds = np.concatenate([lower, upper])
    bounds = bounds[np.isfinite(bounds)]
    if not (np.isin(matrix, (-1.0, 0.0, 1.0)).all() and (bounds == np.rint(bounds)).all()):
        return False
    named = (matrix != 0.0).any(axis=0)
    several = simplex @ named > 1
    within = ((matrix @ simplex.T != 0).sum(axis=1) <= 1) & (matrix >= 0.0).all(axis=1)
    whole = within & ((matrix @ simplex.T == simplex.sum(axis=1)) & (matrix @ simplex.T > 0)).any(axis=1)
    implied = within & (upper >= 1.0) & ((lower <= 0.0) | (whole & (lower <= 1.0)))
    return _two_classes(np.concatenate([matrix[~implied], simplex[several]]))


def _two_classes(matrix: F64) -> bool:
    """Whether columns have at most two entries, and rows fall into two classes as Heller and Tompkins ask."""
    if ((matrix != 0.0).sum(axis=0) > 2).any():
        return False
    column, entry = np.nonzero(matrix.T)
    first = np.flatnonzero(column[1:] == column[:-1])
    row, other = entry[first], entry[first + 1]
    apart = matrix[row, column[first]] == matrix[other, column[first]]
    ends = np.concatenate([row, other])
    order = np.argsort(ends, kind="stable")
    ptr = pointers(np.bincount(ends, minlength=len(matrix)))
    to, parted = np.concatenate([other, row])[order].tolist(), np.concatenate([apart, apart])[order].tolist()
    side = [-1] * len(matrix)
    for start in range(len(matrix)):
        if side[start] >= 0:
            continue
        side[start], todo = 0, [start]
        while todo:
            v = todo.pop()
            for e in range(int(ptr[v]), int(ptr[v + 1])):
                wanted = side[v] ^ int(parted[e])
                if side[to[e]] < 0:
                    side[to[e]] = wanted
                    todo.append(to[e])
                elif side[to[e]] != wanted:
                    return False
    return True
