"""The integer program of a factor graph as named rows and columns, from which LP and MPS files are written.

Columns: ``y3_1`` (variable 3 has state 1), ``f5_7`` (the variables of factor 5 are in joint state 7, the last one
varying fastest), and ``const``, fixed at 1, which carries the constant.  Rows::

    v3:      sum_s y3_s = 1
    f5_0_2:  sum_{c: c_0 = 2} f5_c - y3_2 = 0        where variable 3 is the first of factor 5

With the y's integer its solutions are the labellings; without, it is the local polytope (Wainwright and Jordan
2008, section 4.1) and its optimum an upper bound.  Forbidden states are fixed at zero; there are no big numbers.

Written by hand because scores must come back as they were: the writers of OR-Tools (9.15) keep six digits, an error of
up to 5e-6 of each score, and have no option for more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.io.formats.uai_writer import plain_node
from ssvm_dsl.ir.graph_problem import GraphProblem


@dataclass(frozen=True, eq=False)
class FactorColumns:
    """The columns of one factor.

    Parameters
    ----------
    number : int
        Number of the factor, over all groups.
    scope : list of int
    states : ndarray, shape (arity, n_configs)
        The state of each of its variables in each joint state.
    scores : ndarray of float64, shape (n_configs,)
    """

    number: int
    scope: list[int]
    states: I64
    scores: F64

    @property
    def names(self) -> list[str]:
        """Names of its columns."""
        return [f"f{self.number}_{c}" for c in range(len(self.scores))]


@dataclass(frozen=True, eq=False)
class LinearProgram:
    """Rows and columns of a problem, by name.

    Parameters
    ----------
    problem : GraphProblem
    """

    problem: GraphProblem

    @property
    def const(self) -> float:
        """The constant score."""
        return float(self.problem.theta.const.sum())

    @cached_property
    def node(self) -> list[tuple[str, float]]:
        """(name, score) of the columns of all variables."""
        program = self.problem.program
        owner = np.repeat(np.arange(program.n_variables), program.card)
        state = np.arange(program.n_states) - program.state_ptr[owner]
        names = [f"y{v}_{s}" for v, s in zip(owner.tolist(), state.tolist(), strict=True)]
        return list(zip(names, plain_node(self.problem).tolist(), strict=True))

    def factors(self) -> Iterator[FactorColumns]:
        """Yield the columns of each factor."""
        number = 0
        for group, tables in zip(self.problem.program.groups, self.problem.theta.tables, strict=True):
            states = np.array(np.unravel_index(np.arange(group.n_configs), group.cards))
            for scope, row in zip(group.scope.tolist(), group.table.tolist(), strict=True):
                yield FactorColumns(number, scope, states, tables[row])
                number += 1

    def scored(self) -> Iterator[tuple[str, float]]:
        """Yield (name, score) of all columns but ``const``."""
        yield from self.node
        for factor in self.factors():
            yield from zip(factor.names, factor.scores.tolist(), strict=True)
