"""Write the integer program of a factor graph, or its relaxation, in free MPS format, which every solver reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ssvm_dsl.calls import checked_call
from ssvm_dsl.files.regular_file import as_path
from ssvm_dsl.io.atomic import write_lines
from ssvm_dsl.io.formats.linear_program import LinearProgram
from ssvm_dsl.ir.graph_problem import GraphProblem, as_problem


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
    write_lines(as_path(path, "write_mps"), _lines(linear, relaxed))


def _lines(linear: LinearProgram, relaxed: bool) -> Iterator[str]:
    program = linear.problem.program
    yield from ["NAME ssvm", "OBJSENSE", "    MAX", "ROWS", " N obj"]
    yield from (f" E v{v}" for v in range(program.n_variables))
    for factor in linear.factors():
        for k, v in enumerate(factor.scope):
            yield from (f" E f{factor.number}_{k}_{s}" for s in range(int(program.card[v])))
    yield "COLUMNS"
    yield from _columns(linear, relaxed)
    yield "RHS"
    yield from (f" RHS v{v} 1" for v in range(program.n_variables))
    yield "BOUNDS"
    yield " FX BND const 1"
    for name, score in linear.scored():
        yield f" FX BND {name} 0" if score == -np.inf else f" UP BND {name} 1"
    yield "ENDATA"


def _columns(linear: LinearProgram, relaxed: bool) -> Iterator[str]:
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
        yield from _objective(name, score)
        yield f" {name} v{v} 1"
        yield from (f" {name} {slot}_{state} -1" for slot in slots[v])
    if not relaxed:
        yield " MARKER 'MARKER' 'INTEND'"
    for factor in linear.factors():
        for name, score, states in zip(factor.names, factor.scores.tolist(), factor.states.T.tolist(), strict=True):
            yield from _objective(name, score)
            yield from (f" {name} f{factor.number}_{k}_{s} 1" for k, s in enumerate(states))


def _objective(name: str, score: float) -> Iterator[str]:
    if np.isfinite(score) and score != 0.0:
        yield f" {name} obj {score:.17g}"
