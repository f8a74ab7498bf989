"""WCSP files: weighted constraint satisfaction problems in the text format of toulbar2.

    name 3 2 2 10        name, number of variables, largest domain, number of functions, upper bound
    2 2 2                domain sizes
    2 0 1 0 1            scope size, scope, default cost, number of tuples that cost something else
    0 1 5                a tuple: states, cost
    1 2 3 1
    1 0

Costs are ints >= 0 and minimised: the score is minus the cost.  A cost of the upper bound or more forbids a tuple
(score ``-inf``), and a labelling of total cost >= the upper bound is no solution (``GraphProblem.floor``).
A negative scope size defines a function that later ones share by a negative number of tuples; a default cost
of -1 announces a function given by a keyword (:mod:`ssvm_dsl.io.formats.wcsp_keywords`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.io.formats.number_text import MAX_WHOLE, NumberText
from ssvm_dsl.io.formats.wcsp_keywords import KEYWORDS, Keyword
from ssvm_dsl.io.problem_file import FileLimits
from ssvm_dsl.ir.graph_problem import FactorList, GraphProblem, assemble, repeat_in


@dataclass(eq=False)
class _Reading:
    """What is known while the functions of a file are read.

    Parameters
    ----------
    text : NumberText
    card : ndarray of int64
    top : float
        Upper bound: costs from here on forbid.
    entries_left : int
        Table entries that may still be taken.
    factors : FactorList
        Factors of the functions read so far.
    shared : list of slice
        Where the tables are that later functions may use.
    """

    text: NumberText
    card: I64
    top: float
    entries_left: int
    factors: FactorList = field(default_factory=FactorList)
    shared: list[slice] = field(default_factory=list)

    def take(self, shape: list[int], at: int, n: int = 1) -> int:
        """Return the number of entries of n tables after checking that n are left."""
        size = n * float(np.prod(np.array(shape, dtype=float)))
        if size > self.entries_left:
            most = f"functions of at most {self.entries_left} more table entries (FileLimits.n_entries raises this)"
            self.text.fail(at, most, f"one of {size:.15g}")
        self.entries_left -= int(size)
        return int(size)

    def add(self, scopes: I64, costs: F64) -> None:
        """Add factors of one table: minus the costs (overwritten), ``-inf`` from the upper bound on."""
        forbidden = costs >= self.top
        np.subtract(0.0, costs, out=costs)
        costs[forbidden] = -np.inf
        self.factors.add_all(scopes, costs)


def parse_wcsp(source: str, data: bytes, limits: FileLimits) -> GraphProblem:
    """Return the problem of a WCSP text.

    Raises
    ------
    FileFormatError
        Names line and column, what was expected and what was found.
    """
    text = NumberText(source, data, titled=True)
    del data  # memory: the text goes before the tables are put together
    text.word("the name of the problem")
    n = text.whole("the number of variables")
    text.whole("the largest domain size")
    n_functions = text.whole("the number of functions")
    top = _cost(text, "the upper bound")
    # a negative size marks a domain that toulbar2 keeps as an interval; its values are the same
    first = text.at
    card = np.abs(text.wholes(n, "the domain size of each variable", low=-MAX_WHOLE))
    if (card == 0).any():
        text.fail(first + int(np.flatnonzero(card == 0)[0]), "a domain of at least one value")
    if card.sum(dtype=np.float64) > limits.n_entries:
        text.fail(first, f"at most {limits.n_entries} states together (FileLimits.n_entries raises this)", "more")
    if n_functions > text.n_left:
        text.fail(3, f"at most {text.n_left} functions, since that many numbers follow")
    reading = _Reading(text, card, top, limits.n_entries)
    for f in range(n_functions):
        _read_function(reading, f)
    text.end(f"the {n_functions} functions that were announced")
    factors = reading.factors.flat()
    del text, reading
    return assemble(card, factors, source, floor=-top)


def _read_function(reading: _Reading, f: int) -> None:
    """Add the factors of one function."""
    text, n = reading.text, len(reading.card)
    start = text.at
    arity = text.whole(f"the scope size of function {f}", low=-n, high=n)
    scope = text.wholes(abs(arity), f"the variables of function {f}", high=n - 1)
    twice = repeat_in(scope)
    if twice >= 0:
        text.fail(start + 1 + twice, "different variables in a function", f"variable {scope[twice]} again")
    at = text.at
    default = text.whole(f"the default cost of function {f}", low=-1, high=2**63)
    shape = reading.card[scope].tolist()
    if default == -1:
        _read_keyword(reading, scope, shape)
        return
    at, begin = text.at, reading.factors.n_scores
    n_tuples = text.whole(f"the number of tuples of function {f}", low=-MAX_WHOLE)
    if n_tuples < 0:
        reading.factors.add(scope, _reuse(reading, -n_tuples, shape, at))
        return
    size = reading.take(shape, start)
    reading.add(scope[None], _read_tuples(reading, f, shape, size, float(default), n_tuples))
    if arity < 0:
        reading.shared.append(slice(begin, begin + size))


def _read_tuples(reading: _Reading, f: int, shape: list[int], size: int, default: float, n: int) -> F64:
    """Return the costs of all joint states of a function."""
    text, r, first = reading.text, len(shape), reading.text.at
    if n > size:
        text.fail(first - 1, f"at most {size} tuples, since no more exist")
    rows = text.reals(n * (r + 1), f"the {n} tuples of function {f}").reshape(n, r + 1)
    cost = rows[:, r]
    bad = (rows[:, :r] < 0) | (rows[:, :r] >= shape) | (rows[:, :r] % 1 != 0)
    bad = np.column_stack([bad, (cost < 0) | (cost % 1 != 0) | ((cost > MAX_WHOLE) & (cost < reading.top))])
    if bad.any():
        position = int(np.flatnonzero(bad.ravel())[0])
        what = "a cost, an int of at least 0" if position % (r + 1) == r else "a state of its variable"
        text.fail(first + position, what)
    strides = np.concatenate([np.cumprod(np.array(shape[:0:-1], dtype=np.int64))[::-1], [1]])[:r]
    index = rows[:, :r].astype(np.int64) @ strides.astype(np.int64) if r else np.zeros(n, dtype=np.int64)
    costs = np.full(size, default)
    costs[index] = cost
    if (costs[index] != cost).any():
        again = int(np.flatnonzero(costs[index] != cost)[0])
        text.fail(first + again * (r + 1), "one cost for each tuple", "a tuple that comes again with another cost")
    return costs


def _reuse(reading: _Reading, number: int, shape: list[int], at: int) -> F64:
    """Return the table of an earlier shared function."""
    if number > len(reading.shared):
        expected = f"minus the number of one of the {len(reading.shared)} shared functions so far"
        reading.text.fail(at, expected)
    where = reading.shared[number - 1]
    if reading.take(shape, at) != where.stop - where.start:
        there = where.stop - where.start
        reading.text.fail(at, f"a shared function of {int(np.prod(shape))} entries", f"one of {there}")
    return reading.factors.scores(where.start, where.stop)


def _read_keyword(reading: _Reading, scope: I64, shape: list[int]) -> None:
    """Add the factors of a function given by a keyword."""
    text, at = reading.text, reading.text.at
    name = text.word("the keyword of a function (its default cost is -1)")
    if name not in KEYWORDS:
        text.fail(at, f"a function that can be written as tables ({', '.join(KEYWORDS)})", f"'{name}'")
    if not shape:
        text.fail(at, f"variables in the scope of '{name}'", "none")
    keyword = Keyword(name, at, text, shape, reading.top, reading.entries_left)
    for positions, shape_of_part, costs in KEYWORDS[name](keyword):
        reading.take(shape_of_part, at, len(positions))
        reading.add(scope[positions], costs())


def _cost(text: NumberText, what: str) -> float:
    return float(text.whole(what, low=1, high=2**63))
