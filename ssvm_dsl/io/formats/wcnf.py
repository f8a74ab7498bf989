"""WCNF files: weighted MaxSAT, in the form of 2022 and in that of before.

    c a comment                      c a comment
    h 1 -2 0                         p wcnf 3 3 16      numbers of variables and clauses, weight of hard clauses
    5 2 3 0                          16 1 -2 0          weight, literals, 0
    2 -1 0                           5 2 3 0
                                     2 -1 0

A hard clause (``h``, or a weight of at least that of the header) must hold; a soft clause costs its weight where it
does not.  The score is minus what is paid.  State 1 of a variable is true.  Soft clauses of up to five literals and
hard ones of up to three are tables.  Longer hard ones are rules ("at least one of these").  A longer soft one has an
auxiliary variable, true where the clause does not hold, which rules tie to its literals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from ssvm_dsl.array_types import F64, I64, Bools
from ssvm_dsl.io.formats.number_text import MAX_WHOLE, NumberText
from ssvm_dsl.io.formats.sum_rules import SumRules
from ssvm_dsl.io.problem_file import FileLimits
from ssvm_dsl.ir.graph_problem import FactorTables, GraphProblem, assemble
from ssvm_dsl.ir.ragged import pointers, runs

#: The most literals of clauses that are tables.
LARGEST_SOFT, LARGEST_HARD = 5, 3

_HEADER = re.compile(rb"^p[ \t]+wcnf[ \t]+(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,20}))?[ \t]*\r?$", re.MULTILINE)
_ANY_HEADER = re.compile(rb"^p\b[^\n]*", re.MULTILINE)


class ClauseNames(Sequence[str]):
    """Names of variables by their numbers from 1 on, and of auxiliary ones behind them; made when asked for."""

    def __init__(self, n: int, clauses: Sequence[int]) -> None:
        self._n, self._clauses = n, clauses

    def __len__(self) -> int:
        return self._n + len(self._clauses)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return [self[k] for k in range(*at.indices(len(self)))]
        if not 0 <= at < len(self):
            raise IndexError(at)
        return str(at + 1) if at < self._n else f"clause {self._clauses[at - self._n] + 1} fails"


def parse_wcnf(source: str, data: bytes, limits: FileLimits) -> GraphProblem:
    """Return the problem of a weighted MaxSAT text.

    Raises
    ------
    FileFormatError
        Names line and column, what was expected and what was found.
    """
    header, top, n, m = _HEADER.search(data), np.inf, -1, -1
    if header is not None:
        n, m = int(header[1]), int(header[2])
        top = float(header[3]) if header[3] else np.inf
        data = data[: header.start()] + b" " * len(header[0]) + data[header.end() :]
    elif other := _ANY_HEADER.search(data):
        text = NumberText(source, b" " * other.start() + b"p")
        expected = "'p wcnf VARIABLES CLAUSES [WEIGHT OF HARD ONES]', or no header"
        text.fail(0, expected, repr(other[0][:40].decode(errors="replace")))
    text = NumberText(source, data, comments=b"c")
    del data
    first, hard, size, literals = _clauses(text, top, header is not None)
    if header is not None and m != len(first):
        at = int(first[m]) if m < len(first) else len(text.values)
        text.fail(at, f"{m} clauses, as the header says", f"{len(first)}")
    most = int(np.abs(literals).max(initial=0))
    n = most if header is None else n
    if 2 * n > limits.n_entries:
        text.fail(0, f"at most {limits.n_entries} states together (FileLimits.n_entries raises this)", f"{n} variables")
    if most > n:
        at = np.flatnonzero(np.abs(literals) > n)[0]
        owner = np.searchsorted(np.cumsum(size), at, side="right")
        text.fail(int(first[owner]), f"variables from 1 to {n} in each clause", f"variable {abs(int(literals[at]))}")
    weight = text.values[first]
    return _assembled(source, text, n, np.where(hard, np.inf, weight), size, literals, limits)


def _clauses(text: NumberText, top: float, old: bool) -> tuple[I64, Bools, I64, I64]:
    """Return (first token, whether it is hard, number of literals) of each clause, and all literals."""
    values, letters = text.values, text.where(b"h", "a clause: its weight or h, literals, 0")
    is_word = np.zeros(len(values), dtype=bool)
    is_word[letters] = True
    if old and len(letters):
        text.fail(int(letters[0]), "a weight: files with a header 'p wcnf' know no h")
    ends = np.flatnonzero((values == 0) & ~is_word)
    if len(values) and (not len(ends) or ends[-1] != len(values) - 1):
        text.fail(len(values), "0 behind the literals of the last clause")
    first = np.append(0, ends[:-1] + 1) if len(ends) else np.zeros(0, dtype=np.int64)
    inner = is_word.copy()
    inner[first] = False
    if inner.any():
        text.fail(int(np.flatnonzero(inner)[0]), "a literal, or 0")
    weighted = first[~is_word[first]]
    weight = text.values[weighted]
    wrong = ~((weight >= 1) & (weight % 1 == 0) & ((weight <= MAX_WHOLE) | (weight >= top)))
    if wrong.any():
        text.fail(int(weighted[wrong][0]), "the weight of a clause, an int from 1 to 2^53")
    size = ends - first - 1
    at = runs(first + 1, size)
    literals = text.check_wholes(at, "a literal", low=-(2**31), high=2**31)
    return first, is_word[first] | (values[first] >= top), size, literals


def _assembled(
    source: str, text: NumberText, n: int, weight: F64, size: I64, literals: I64, limits: FileLimits
) -> GraphProblem:
    """Return the problem of clauses; hard ones have an infinite weight."""
    owner = np.repeat(np.arange(len(size)), size)
    order = np.lexsort((literals, np.abs(literals), owner))
    owner, literals = owner[order], literals[order]
    again = (np.diff(owner) == 0) & (np.diff(np.abs(literals)) == 0)
    twice = again & (np.diff(literals) == 0)
    always = np.zeros(len(size), dtype=bool)  # x or not x
    always[owner[1:][again & ~twice]] = True
    kept = np.append(True, ~twice)[: len(owner)] & ~always[owner]
    owner, literals = owner[kept], literals[kept]
    size = np.bincount(owner, minlength=len(size))
    variable, wrong = np.abs(literals) - 1, (literals < 0).astype(np.int64)  # the state in which a literal is false
    start, hard = pointers(size), weight == np.inf
    as_table = ~always & (size <= np.where(hard, LARGEST_HARD, LARGEST_SOFT))
    soft = np.flatnonzero(~always & ~as_table & ~hard)
    n_entries = float((2.0 ** size[as_table]).sum()) + float(size[~as_table].sum()) + 4.0 * len(soft) + 2.0 * n
    if n_entries > limits.n_entries:
        most = f"clauses of at most {limits.n_entries} entries together (FileLimits.n_entries raises this)"
        text.fail(0, most, f"{n_entries:.15g}")
    if weight[~hard].sum() > MAX_WHOLE:
        text.fail(0, "weights of soft clauses that sum to at most 2^53", f"{weight[~hard].sum():.6g}")
    rules = SumRules()
    for k in np.flatnonzero(~always & ~as_table & hard).tolist():
        mine = slice(start[k], start[k + 1])
        rules.add(variable[mine].tolist(), (1 - wrong[mine]).tolist(), None, 1.0)
    for number, k in enumerate(soft.tolist()):
        mine, length = slice(start[k], start[k + 1]), int(size[k])
        variables, states = [*variable[mine].tolist(), n + number], [*(1 - wrong[mine]).tolist(), 1]
        rules.add(variables, states, None, 1.0)
        rules.add(variables, states, [1.0] * length + [float(length)], -np.inf, float(length))
    parts = list(_tables(weight, size, start, variable, wrong, np.flatnonzero(as_table)))
    paid = np.stack([np.zeros(len(soft)), -weight[soft]], axis=1)
    parts.append((np.full(len(soft), 1), n + np.arange(len(soft)), paid))
    arity = np.concatenate([one[0] for one in parts])
    scope, scores = (np.concatenate([one[k].ravel() for one in parts]) for k in (1, 2))
    factors = FactorTables(pointers(arity), scope, pointers(2**arity), scores)
    card = np.full(n + len(soft), 2, dtype=np.int64)
    names = ClauseNames(n, soft.tolist())
    return assemble(card, factors, source, names, rules=rules.groups(), n_auxiliary=len(soft))


def _tables(
    weight: F64, size: I64, start: I64, variable: I64, wrong: I64, clauses: I64
) -> Iterator[tuple[I64, I64, F64]]:
    """Yield (number of variables, scope, table) of the clauses of each length."""
    for k in np.unique(size[clauses]).tolist():
        mine = clauses[size[clauses] == k]
        places = start[mine][:, None] + np.arange(k)
        table = np.zeros((len(mine), 2**k))
        table[np.arange(len(mine)), wrong[places] @ (1 << np.arange(k)[::-1])] = -weight[mine]
        yield np.full(len(mine), k), variable[places], table
