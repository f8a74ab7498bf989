"""libDAI factor graphs (``.fg``): blocks of text that list the entries that are not zero.

    2                number of factors; lines that start with # are comments

    2                number of variables of the factor
    5 3              their labels, any ints
    2 4              their numbers of states
    3                number of entries that are listed, the others are zero
    0  0.5           index and value; the FIRST variable varies fastest
    1  2
    7  1

Values multiply, as in UAI files: the score of an entry is its logarithm.  Variables are numbered by ascending
label and keep the label as their name.
"""

from __future__ import annotations

from array import array
from dataclasses import replace

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.io.formats.number_text import NumberText
from ssvm_dsl.io.problem_file import FileLimits
from ssvm_dsl.ir.graph_problem import FactorList, FactorTables, GraphProblem, assemble, repeat_in

#: numpy's arrays have at most this many axes in every version in use.
MAX_ARITY = 32


def parse_fg(source: str, data: bytes, limits: FileLimits) -> GraphProblem:
    """Return the problem of a libDAI factor graph.

    Raises
    ------
    FileFormatError
        Names line and column, what was expected and what was found.
    """
    text = NumberText(source, data, comments=b"#")
    del data  # memory: the reader has its own copy without comments
    n = text.whole("the number of factors")
    if n > text.n_left:
        text.fail(text.at - 1, f"at most {text.n_left} factors, since that many numbers follow")
    tables, states = FactorList(), array("q")
    for f in range(n):
        scope, card, table = _read_factor(text, f, limits.n_entries - tables.n_scores)
        with np.errstate(divide="ignore"):
            tables.add(scope, np.log(table, out=table))
        states.extend(card.tolist())
        del table
    text.end("the last factor")
    factors = tables.flat()
    labels, card, scope = _number(text, factors, np.frombuffer(states, dtype=np.int64), limits)
    return assemble(card, replace(factors, scope=scope), source, names=tuple(map(str, labels.tolist())))


def _read_factor(text: NumberText, f: int, entries_left: int) -> tuple[I64, I64, F64]:
    """Return (labels, numbers of states, table in C order) of one factor."""
    r = text.whole(f"the number of variables of factor {f}", high=MAX_ARITY)
    first = text.at
    scope = text.wholes(r, f"the labels of the variables of factor {f}")
    twice = repeat_in(scope)
    if twice >= 0:
        text.fail(first + twice, "different variables in a factor", f"variable {scope[twice]} again")
    card = text.wholes(r, f"the numbers of states of factor {f}", low=1)
    size = float(np.prod(card.astype(float)))
    if size > entries_left:
        most = f"a table of at most {entries_left} entries (FileLimits.n_entries raises this)"
        text.fail(text.at - r, most, f"{size:.15g}")
    return scope, card, _read_entries(text, f, tuple(card.tolist()))


def _read_entries(text: NumberText, f: int, shape: tuple[int, ...]) -> F64:
    """Return the table of the listed entries, turned from libDAI's order to C order."""
    size = int(np.prod(shape, dtype=np.int64))
    n = text.whole(f"the number of listed entries of factor {f}", high=size)
    first = text.at
    pairs = text.reals(2 * n, f"the {n} entries of factor {f}").reshape(n, 2)
    index = text.check_wholes(first + 2 * np.arange(n), "the index of an entry", high=size - 1)
    value, table = pairs[:, 1], np.zeros(size)
    if (value < 0).any():
        text.fail(first + 2 * int(np.flatnonzero(value < 0)[0]) + 1, "a factor value of at least 0")
    table[index] = value
    if (table[index] != value).any():
        again = int(np.flatnonzero(table[index] != value)[0])
        text.fail(first + 2 * again, "one value for each entry", f"index {index[again]} with another value below")
    return np.ascontiguousarray(table.reshape(shape, order="F"))


def _number(text: NumberText, factors: FactorTables, states: I64, limits: FileLimits) -> tuple[I64, I64, I64]:
    """Return (labels, numbers of states, scopes in numbers from 0 on)."""
    labels, first, number = np.unique(factors.scope, return_index=True, return_inverse=True)
    card, number = states[first], number.reshape(-1)
    wrong = np.flatnonzero(card[number] != states)
    if len(wrong):
        v = int(number[wrong[0]])
        expected = f"{card[v]} states for variable {labels[v]} in all factors"
        factor = int(np.searchsorted(factors.scope_ptr, wrong[0], side="right")) - 1
        text.fail(0, expected, f"{states[wrong[0]]} in factor {factor}")
    if card.sum(dtype=np.float64) > limits.n_entries:
        text.fail(0, f"at most {limits.n_entries} states together (FileLimits.n_entries raises this)", "more")
    return labels, card, number.astype(np.int64)
