"""LP and MPS files: the integer program of a factor graph, or its relaxation, as named rows and columns.

Columns: ``y3_1`` (variable 3 has state 1), ``f5_7`` (the variables of factor 5 are in joint state 7, the last one
varying fastest), and ``const``, fixed at 1, which carries the constant.  Rows::

    v3:      sum_s y3_s = 1
    f5_0_2:  sum_{c: c_0 = 2} f5_c - y3_2 = 0        where variable 3 is the first of factor 5

With the y's integer its solutions are the labellings; without, it is the local polytope (Wainwright and Jordan
2008, section 4.1) and its optimum an upper bound.  Forbidden states are fixed at zero; there are no big numbers.

Written by hand because scores must come back as they were: the writers of OR-Tools (9.15), in LP and in MPS format, by
``pywraplp`` and by ``model_builder``, keep six digits, an error of up to 5e-6 of each score, and have no option for
more; MathOpt has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.calls import checked_call
from ssvm_dsl.files.opening import as_path
from ssvm_dsl.io.atomic import write_lines
from ssvm_dsl.io.formats.uai import plain_node
from ssvm_dsl.ir.graph_problem import GraphProblem, as_problem


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


# -- the LP format of CPLEX ----------------------------------------------------------------------------------------

#: Terms on a line; old readers take lines of at most 500 characters.
_TERMS = 10


@checked_call
def write_lp(path: str | Path, problem: GraphProblem, relaxed: bool = False) -> None:
    """Write a problem in LP format, with the rows and columns of this module.

    Parameters
    ----------
    path : str or Path
    problem : GraphProblem
    relaxed : bool
        Leave out that variables take whole states: the local polytope.

    Raises
    ------
    OptionError
        The problem has constraints in addition to its tables.
    """
    linear = LinearProgram(as_problem(problem, "write_lp"))
    write_lines(as_path(path, "write_lp"), _lp_lines(linear, relaxed))


def _lp_lines(linear: LinearProgram, relaxed: bool) -> Iterator[str]:
    yield "Maximize"
    scored = [(name, score) for name, score in linear.scored() if np.isfinite(score) and score != 0.0]
    yield from _named_sum("obj", [f"{score:+.17g} {name}" for name, score in [("const", linear.const), *scored]])
    yield "Subject to"
    yield from _lp_rows(linear)
    yield "Bounds"
    yield " const = 1"
    for name, score in linear.scored():
        yield f" {name} = 0" if score == -np.inf else f" 0 <= {name} <= 1"
    if not relaxed and linear.node:
        yield "Binaries"
        names = [name for name, score in linear.node if score > -np.inf]
        yield from (f" {' '.join(names[k : k + _TERMS])}" for k in range(0, len(names), _TERMS))
    yield "End"


def _lp_rows(linear: LinearProgram) -> Iterator[str]:
    program = linear.problem.program
    for v, card in enumerate(program.card.tolist()):
        yield from _named_sum(f"v{v}", [f"+ y{v}_{s}" for s in range(card)], "= 1")
    for factor in linear.factors():
        names = np.array([f"+ {name}" for name in factor.names], dtype=object)
        for k, v in enumerate(factor.scope):
            for s in range(int(program.card[v])):
                terms = [*names[factor.states[k] == s].tolist(), f"- y{v}_{s}"]
                yield from _named_sum(f"f{factor.number}_{k}_{s}", terms, "= 0")


def _named_sum(name: str, terms: Sequence[str], end: str = "") -> Iterator[str]:
    """Yield the lines of a named sum."""
    yield f" {name}:"
    for k in range(0, len(terms), _TERMS):
        last = k + _TERMS >= len(terms)
        yield f"  {' '.join(terms[k : k + _TERMS])}{f' {end}' if last and end else ''}"


# -- free MPS, which every solver reads ----------------------------------------------------------------------------


@checked_call
def write_mps(path: str | Path, problem: GraphProblem, relaxed: bool = False) -> None:
    """Write a problem in free MPS format, to be maximised (section ``OBJSENSE``).

    Parameters
    ----------
    path : str or Path
    problem : GraphProblem
    relaxed : bool
        Leave out that variables take whole states: the local polytope.

    Raises
    ------
    OptionError
        The problem has constraints in addition to its tables.
    """
    linear = LinearProgram(as_problem(problem, "write_mps"))
    write_lines(as_path(path, "write_mps"), _mps_lines(linear, relaxed))


def _mps_lines(linear: LinearProgram, relaxed: bool) -> Iterator[str]:
    program = linear.problem.program
    yield from ["NAME ssvm", "OBJSENSE", "    MAX", "ROWS", " N obj"]
    yield from (f" E v{v}" for v in range(program.n_variables))
    for factor in linear.factors():
        for k, v in enumerate(factor.scope):
            yield from (f" E f{factor.number}_{k}_{s}" for s in range(int(program.card[v])))
    yield "COLUMNS"
    yield from _mps_columns(linear, relaxed)
    yield "RHS"
    yield from (f" RHS v{v} 1" for v in range(program.n_variables))
    yield "BOUNDS"
    yield " FX BND const 1"
    for name, score in linear.scored():
        yield f" FX BND {name} 0" if score == -np.inf else f" UP BND {name} 1"
    yield "ENDATA"


def _mps_columns(linear: LinearProgram, relaxed: bool) -> Iterator[str]:
    """Yield the entries column by column; a column's entries must follow each other."""
    program = linear.problem.program
    slots: list[list[str]] = [[] for _ in range(program.n_variables)]
    for factor in linear.factors():
        for k, v in enumerate(factor.scope):
            slots[v].append(f"f{factor.number}_{k}")
    yield f" const obj {linear.const:.17g}"
    if not relaxed:
        yield " MARKER 'MARKER' 'INTORG'"
    owner = np.repeat(np.arange(program.n_variables), program.card).tolist()
    for (name, score), v in zip(linear.node, owner, strict=True):
        state = name.rpartition("_")[2]
        yield from _mps_objective(name, score)
        yield f" {name} v{v} 1"
        yield from (f" {name} {slot}_{state} -1" for slot in slots[v])
    if not relaxed:
        yield " MARKER 'MARKER' 'INTEND'"
    for factor in linear.factors():
        for name, score, states in zip(factor.names, factor.scores.tolist(), factor.states.T.tolist(), strict=True):
            yield from _mps_objective(name, score)
            yield from (f" {name} f{factor.number}_{k}_{s} 1" for k, s in enumerate(states))


def _mps_objective(name: str, score: float) -> Iterator[str]:
    if np.isfinite(score) and score != 0.0:
        yield f" {name} obj {score:.17g}"
