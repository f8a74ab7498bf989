"""Write the integer program of a factor graph, or its relaxation, in the LP format of CPLEX."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ssvm_dsl.calls import checked_call
from ssvm_dsl.files.regular_file import as_path
from ssvm_dsl.io.atomic import write_lines
from ssvm_dsl.io.formats.linear_program import LinearProgram
from ssvm_dsl.ir.graph_problem import GraphProblem, as_problem

#: Terms on a line; old readers take lines of at most 500 characters.
_TERMS = 10


@checked_call
def write_lp(path: str | Path, problem: GraphProblem, relaxed: bool = False) -> None:
    """Write a problem in LP format; rows and columns as in :mod:`ssvm_dsl.io.formats.linear_program`.

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
    write_lines(as_path(path, "write_lp"), _lines(linear, relaxed))


def _lines(linear: LinearProgram, relaxed: bool) -> Iterator[str]:
    yield "Maximize"
    scored = [(name, score) for name, score in linear.scored() if np.isfinite(score) and score != 0.0]
    yield from _sum("obj", [f"{score:+.17g} {name}" for name, score in [("const", linear.const), *scored]])
    yield "Subject to"
    yield from _rows(linear)
    yield "Bounds"
    yield " const = 1"
    for name, score in linear.scored():
        yield f" {name} = 0" if score == -np.inf else f" 0 <= {name} <= 1"
    if not relaxed and linear.node:
        yield "Binaries"
        names = [name for name, score in linear.node if score > -np.inf]
        yield from (f" {' '.join(names[k : k + _TERMS])}" for k in range(0, len(names), _TERMS))
    yield "End"


def _rows(linear: LinearProgram) -> Iterator[str]:
    program = linear.problem.program
    for v, card in enumerate(program.card.tolist()):
        yield from _sum(f"v{v}", [f"+ y{v}_{s}" for s in range(card)], "= 1")
    for factor in linear.factors():
        names = np.array([f"+ {name}" for name in factor.names], dtype=object)
        for k, v in enumerate(factor.scope):
            for s in range(int(program.card[v])):
                terms = [*names[factor.states[k] == s].tolist(), f"- y{v}_{s}"]
                yield from _sum(f"f{factor.number}_{k}_{s}", terms, "= 0")


def _sum(name: str, terms: Sequence[str], end: str = "") -> Iterator[str]:
    """Yield the lines of a named sum."""
    yield f" {name}:"
    for k in range(0, len(terms), _TERMS):
        last = k + _TERMS >= len(terms)
        yield f"  {' '.join(terms[k : k + _TERMS])}{f' {end}' if last and end else ''}"
