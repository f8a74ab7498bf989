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

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.io.graph_problem import FactorTables, GraphProblem, assemble, first_repeat
from ssvm_dsl.io.number_text import NumberText
from ssvm_dsl.io.source_text import FileLimits
from ssvm_dsl.ir.ragged import pointers

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

#: numpy's arrays have at most this many axes in every version in use.
MAX_ARITY = 32


def parse_fg(source: str, data: bytes, limits: FileLimits) -> GraphProblem:
    """Return the problem of a libDAI factor graph.

    Raises
    ------
    FileFormatError
        With line and column, what was expected and what is there.
    """
    text = NumberText(source, data, comments=True)
    n = text.whole("the number of factors")
    if n > text.n_left:
        text.fail(text.at - 1, f"at most {text.n_left} factors, as so many numbers follow")
    room = limits.n_entries
    scopes, cards, tables = [], [], []
    for f in range(n):
        scope, card, table = _read_factor(text, f, room)
        room -= len(table)
        scopes.append(scope)
        cards.append(card)
        tables.append(table)
    text.end("the last factor")
    labels, card, scopes = _number(text, scopes, cards, limits)
    with np.errstate(divide="ignore"):
        factors = FactorTables.of((scope, np.log(table)) for scope, table in zip(scopes, tables, strict=True))
    return assemble(card, factors, source, names=tuple(map(str, labels.tolist())))


def _read_factor(text: NumberText, f: int, room: int) -> tuple[I64, I64, F64]:
    """Return (labels, numbers of states, table in C order) of one factor."""
    r = text.whole(f"the number of variables of factor {f}", high=MAX_ARITY)
    first = text.at
    scope = text.wholes(r, f"the labels of the variables of factor {f}")
    twice = first_repeat(pointers(np.array([r])), scope)
    if twice >= 0:
        text.fail(first + twice, "different variables in a factor", f"variable {scope[twice]} again")
    card = text.wholes(r, f"the numbers of states of factor {f}", low=1)
    size = float(np.prod(card.astype(float)))
    if size > room:
        text.fail(text.at - r, f"a table of at most {room} entries (FileLimits.n_entries raises this)", f"{size:.15g}")
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


def _number(
    text: NumberText, scopes: list[I64], cards: list[I64], limits: FileLimits
) -> tuple[I64, I64, list[I64]]:
    """Return (labels, numbers of states, scopes in numbers from 0 on)."""
    none = np.zeros(0, dtype=np.int64)
    scope, states = np.concatenate([none, *scopes]), np.concatenate([none, *cards])
    labels, first, number = np.unique(scope, return_index=True, return_inverse=True)
    card, number = states[first], number.reshape(-1)
    wrong = np.flatnonzero(card[number] != states)
    if len(wrong):
        v = int(number[wrong[0]])
        expected = f"{card[v]} states for variable {labels[v]} in all factors"
        text.fail(0, expected, f"{states[wrong[0]]} in factor {_factor_of(scopes, int(wrong[0]))}")
    if card.sum(dtype=np.float64) > limits.n_entries:
        text.fail(0, f"at most {limits.n_entries} states together (FileLimits.n_entries raises this)", "more")
    ends = np.cumsum([len(one) for one in scopes])[:-1]
    return labels, card, list(np.split(number, ends)) if scopes else []


def _factor_of(scopes: list[I64], position: int) -> int:
    return int(np.searchsorted(np.cumsum([len(scope) for scope in scopes]), position, side="right"))
