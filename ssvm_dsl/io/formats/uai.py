"""UAI files (MARKOV and BAYES): the format of the UAI inference competitions.

    MARKOV                  or BAYES; the tables of both are multiplied
    3                       number of variables
    2 2 3                   their numbers of states
    2                       number of factors
    2 0 1                   the variables of each factor
    2 1 2
    4  0.1 0.9 0.5 0.5      the table of each factor: its length, then values >= 0,
    6  1 0 2 2 0 1          the last variable varying fastest

A value p becomes the score log p, a zero ``-inf``.  Evidence files hold the number of observed variables and
(variable, state) pairs; in the layout of 2014 a line with the number of samples comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ssvm_dsl.array_types import F64, I32
from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import DataError, FileFormatError, OptionError
from ssvm_dsl.files.opening import as_path
from ssvm_dsl.io.atomic import write_lines
from ssvm_dsl.io.formats.number_text import NumberText
from ssvm_dsl.io.problem_file import STANDARD, FileLimits, read_source
from ssvm_dsl.ir.graph_problem import FactorTables, GraphProblem, as_problem, assemble, first_repeat, table_sizes
from ssvm_dsl.ir.ragged import pointers, runs


def parse_uai(source: str, data: bytes, limits: FileLimits) -> GraphProblem:
    """Return the problem of a UAI text.

    Raises
    ------
    FileFormatError
        Names line and column, what was expected and what was found.
    """
    text = NumberText(source, data)
    del data  # memory: the text goes before the tables come
    kind = text.word("MARKOV or BAYES")
    if kind.upper() not in ("MARKOV", "BAYES"):
        text.fail(0, "MARKOV or BAYES")
    n = text.whole("the number of variables")
    card = text.wholes(n, "the number of states of each variable", low=1)
    if card.sum(dtype=np.float64) > limits.n_entries:
        most = f"at most {limits.n_entries} states together (FileLimits.n_entries raises this)"
        text.fail(text.at - n, most, "more")

    n = text.whole("the number of factors")
    if n > text.n_left:
        text.fail(text.at - 1, f"at most {text.n_left} factors, since that many numbers follow")
    starts, at, value, stop = np.zeros(n, dtype=np.int64), text.at, text.values.item, len(text.values)
    arity = np.zeros(n, dtype=np.int64)
    for f in range(n):
        r = value(at) if at < stop else -1.0
        if not 0 <= r <= len(card) or r % 1 or at + 1 + r > stop:
            text.at = at
            text.whole(f"the number of variables of factor {f}", high=len(card))
            text.fail(stop, f"{r:.0f} variables of factor {f}")
        arity[f], starts[f] = r, at + 1
        at += 1 + int(r)
    text.check_wholes(starts - 1, "the number of variables of a factor", high=len(card))
    places = runs(starts, arity)
    scope = text.check_wholes(places, "a variable", high=len(card) - 1)
    text.at, scope_ptr = at, pointers(arity)
    twice = first_repeat(scope_ptr, scope)
    if twice >= 0:
        text.fail(int(places[twice]), "different variables in a factor", f"variable {scope[twice]} again")

    # tables, after every length has been checked against that of the file
    sizes, first = table_sizes(card, scope_ptr, scope), text.at
    total = np.concatenate([[0.0], np.cumsum(sizes + 1)])
    begins = first + total[:-1]
    missing = np.flatnonzero(first + total[1:] > stop)
    n_there = int(missing[0]) + 1 if len(missing) else len(sizes)
    lengths_at = begins[:n_there][begins[:n_there] < stop].astype(np.int64)
    text.check_wholes(lengths_at, "the length of a table")
    wrong = np.flatnonzero(text.values[lengths_at] != sizes[: len(lengths_at)])
    if len(wrong):
        f = int(wrong[0])
        shape = "x".join(str(card[v]) for v in scope[scope_ptr[f] : scope_ptr[f + 1]][:12].tolist())
        text.fail(int(lengths_at[f]), f"{sizes[f]:.15g}, the length of the table of factor {f} ({shape or 'constant'})")
    if len(missing):
        text.fail(stop, f"the {sizes[n_there - 1]:.15g} entries of the table of factor {n_there - 1}")
    entries = text.reals(int(total[-1]), "the tables")
    negative = np.flatnonzero(entries < 0)
    if len(negative):
        text.fail(first + int(negative[0]), "a factor value of at least 0")
    keep = np.ones(len(entries), dtype=bool)
    keep[lengths_at - first] = False
    values = entries[keep]
    text.end("the last table")
    del text, entries, value  # memory: the numbers go before the tables come
    with np.errstate(divide="ignore"):
        np.log(values, out=values)
    return assemble(card, FactorTables(scope_ptr, scope, pointers(sizes.astype(np.int64)), values), source)


def read_evidence(path: str | Path, problem: GraphProblem, limits: FileLimits = STANDARD) -> I32:
    """Return the observed states of a UAI evidence file as an array for the task ``map_clamped``.

    Parameters
    ----------
    path : str or Path
        A ``.evid`` file (or ``.evid.gz``): ``n v s v s ...``, or with a line ``1`` (one sample) before.
    problem : GraphProblem
        The problem whose variables are observed; the file names them as the problem file does, where that is by
        numbers, and by their places from 0 on where it is by words.
    limits : FileLimits

    Returns
    -------
    ndarray of int32, shape (V,)
        The observed state, -1 where free.

    Raises
    ------
    FileFormatError
        Not such a file, several samples, or a variable or state that is not there.
    """
    data = read_source(Path(path), limits)
    text = NumberText(str(path), data)
    if not len(text.values):
        text.fail(0, "the number of observed variables")
    if _is_sampled(text) and text.whole("the number of samples") > 1:
        text.fail(0, f"pairs for {text.values[0]:.15g} variables, or one sample", f"{text.n_left} more numbers")
    n = text.whole("the number of observed variables", high=problem.n_variables)
    pairs = text.wholes(2 * n, "pairs of variable and state").reshape(n, 2)
    text.end(f"{n} pairs of variable and state")
    number = None
    if problem.names is not None and all(name.isdecimal() for name in problem.names[: problem.n_given]):
        number = {name: v for v, name in enumerate(problem.names)}
    named = [(v if number is None else number.get(str(v), -1 - v), s) for v, s in pairs.tolist()]
    try:
        return problem.clamp(named)
    except DataError as err:
        raise FileFormatError(f"{path}: expected {err.expected}, found {err.found}") from err


def _is_sampled(text: NumberText) -> bool:
    """Whether the number of samples comes first: ``n v s ... v s`` has ``1 + 2 n`` tokens, an odd number."""
    values = text.values
    if values[0] == (len(values) - 1) / 2:
        return False
    return bool(len(values) >= 2 and (values[0] > 1 or (values[0] == 1 and values[1] == len(values) / 2 - 1)))


# -- writing -------------------------------------------------------------------------------------------------------
#
# A score becomes the value ``exp(score)`` with 17 digits, so reading the file gives the scores back up to rounding of
# the last digit.  Files hold no constants: the constant is spread evenly over the variables.  Scores so far from zero
# that the value is not a normal number cannot be written and are refused, as nothing is rounded to zero here.

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
