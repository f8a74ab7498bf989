"""Write factor graphs as UAI files, for other solvers.

A score becomes the value ``exp(score)`` with 17 digits, so reading the file gives the scores back up to rounding of
the last digit.  Files hold no constants: the constant is spread evenly over the variables.  Scores so far from zero
that the value is not a normal number cannot be written and are refused, as nothing is rounded to zero here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import OptionError
from ssvm_dsl.files.regular_file import as_path
from ssvm_dsl.io.atomic import write_lines
from ssvm_dsl.ir.graph_problem import GraphProblem, as_problem

#: ``exp`` of scores within +-MAX_SCORE is a normal number.
MAX_SCORE = 700.0


@checked_call
def write_uai(path: str | Path, problem: GraphProblem) -> None:
    """Write a problem as a MARKOV file: one factor for each variable, then those of the groups.

    Parameters
    ----------
    path : str or Path
    problem : GraphProblem

    Raises
    ------
    OptionError
        The problem has constraints, or scores of more than 700 in absolute value.
    """
    path, problem = as_path(path, "write_uai"), as_problem(problem, "write_uai")
    node, const = plain_node(problem), float(problem.theta.const.sum())
    tables = [problem.theta.tables[g][group.table] for g, group in enumerate(problem.program.groups)]
    largest = max((float(np.abs(t[np.isfinite(t)]).max(initial=0.0)) for t in [node, *tables]), default=0.0)
    if largest + abs(const) / max(problem.n_variables, 1) > MAX_SCORE:
        raise OptionError(
            f"{path}: expected scores within +-{MAX_SCORE:g}, found {largest:.6g} (plus a constant of {const:.6g}): "
            "exp of them is no number a UAI file can hold; write_lp and write_mps write scores as they are"
        )
    shifted = node + (const / problem.n_variables if problem.n_variables else 0.0)
    lines = _lines(problem, shifted, tables, const)
    write_lines(path, lines)


def plain_node(problem: GraphProblem) -> F64:
    """Return the unary scores with ``-inf`` where the program's mask forbids a state.

    Raises
    ------
    OptionError
        The program has constraints in addition to its tables.
    """
    if problem.program.constraints:
        kinds = ", ".join(group.kind for group in problem.program.constraints)
        raise OptionError(f"{problem.source}: expected a problem of tables only, found constraints: {kinds}")
    node = problem.theta.node
    return node if problem.program.allowed is None else np.where(problem.program.allowed, node, -np.inf)


def _lines(problem: GraphProblem, node: F64, tables: list[F64], const: float) -> Iterator[str]:
    program = problem.program
    alone = [] if problem.n_variables else [const]
    yield "MARKOV"
    yield str(program.n_variables)
    yield " ".join(map(str, program.card.tolist()))
    yield str(program.n_variables + sum(group.n_factors for group in program.groups) + len(alone))
    yield from ("0" for _ in alone)
    yield from (f"1 {v}" for v in range(program.n_variables))
    for group in program.groups:
        yield from (f"{group.arity} {' '.join(map(str, scope))}" for scope in group.scope.tolist())
    yield from (_table(np.array([score])) for score in alone)
    yield from (_table(scores) for scores in np.split(node, program.state_ptr[1:-1]) if len(node))
    yield from (_table(scores) for table in tables for scores in table)


def _table(scores: F64) -> str:
    return f"{len(scores)} {' '.join(map(repr, np.exp(scores).tolist()))}"
