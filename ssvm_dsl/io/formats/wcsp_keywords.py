"""Functions that WCSP files give by a keyword, written as tables.

Binary arithmetic functions and soft disjunctions are tables by nature.  ``salldiff`` becomes one table of "not
equal" for each pair of variables where that says the same: when it counts pairs (``dec``), or when one violation
is forbidden already.  Otherwise it, and ``sgcc``, become one table over all variables, if that is small enough.
All other keywords are refused: none is rewritten into something weaker.

With ``top`` the upper bound, ``c`` and ``d`` the parameters of a function:

    >=    c d     x >= y + c      cost  max(y + c - x, 0), forbidden above d       (likewise >  <=  <  =)
    disj  a b p   x >= y + b or y >= x + a, else the cost p
    sdisj a b X Y p q   x = X costs p, y = Y costs q; both below X, Y: x >= y + b or y >= x + a, else forbidden
    salldiff var|dec|decbi p      p times the variables to change (var) or the equal pairs (dec, decbi)
    sgcc  var|dec p n (v lo up)*  p times the variables to change (var), or the missing and superfluous ones (dec)

Source: the WCSP format in the toulbar2 reference manual; van Hoeve, Pesant and Rousseau, "On global warming:
flow-based soft global constraints", J. Heuristics 12 (2006), for the violation measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.io.formats.number_text import MAX_WHOLE, NumberText
from ssvm_dsl.ir.graph_problem import unique_rows

#: (positions in the scope of each factor, shape (m, r); numbers of states; makes the costs, the same for all)
KeywordFactor = tuple[I64, list[int], Callable[[], F64]]

#: The positions of the one factor of two variables.
PAIR: I64 = np.array([[0, 1]])

#: What a factor of two variables takes besides its table, in table entries.
PAIR_SIZE = 16

#: Joint states that are looked at together.
BLOCK = 1 << 14

#: Largest table that a function over many variables is written as, and the most variables.
MAX_TABLE, MAX_ARITY = 1_000_000, 32


@dataclass(eq=False)
class Keyword:
    """One function given by a keyword, with the cursor at its parameters.

    Parameters
    ----------
    name : str
    at : int
        Token of the keyword.
    text : NumberText
    shape : list of int
        Numbers of states of its variables.
    top : float
        Upper bound: costs from here on forbid.
    entries_left : int
        Table entries that may still be taken.
    """

    name: str
    at: int
    text: NumberText
    shape: list[int]
    top: float
    entries_left: int

    def whole(self, what: str, low: int = -MAX_WHOLE) -> int:
        """Return the next parameter."""
        return self.text.whole(f"{what} of '{self.name}'", low=low)

    def cost(self) -> float:
        """Return the next parameter, a cost."""
        return float(self.text.whole(f"a cost of '{self.name}'", high=2**63))

    def measure(self, known: tuple[str, ...]) -> str:
        """Return how violations are counted."""
        measure = self.text.word(f"how '{self.name}' counts violations: {' or '.join(known)}")
        if measure not in known:
            self.text.fail(self.text.at - 1, f"how '{self.name}' counts violations: {' or '.join(known)}")
        return measure

    def states(self) -> tuple[I64, I64]:
        """Return the states of the two variables, broadcasting to a table."""
        if len(self.shape) != 2:
            self.text.fail(self.at, f"two variables in the scope of '{self.name}'", f"{len(self.shape)}")
        return np.arange(self.shape[0])[:, None], np.arange(self.shape[1])[None, :]

    def check_size(self) -> None:
        """Refuse a table over all variables that is too large."""
        size = np.prod(np.array(self.shape, dtype=float))
        if size > MAX_TABLE or len(self.shape) > MAX_ARITY:
            expected = f"'{self.name}' over at most {MAX_TABLE} joint states, or one whose violation is forbidden"
            self.text.fail(self.at, expected, f"{size:.3g} joint states")

    def check_pairs(self, n_pairs: float, n_entries: float) -> None:
        """Refuse tables for all pairs of variables that are too large together, or too many."""
        if n_entries + PAIR_SIZE * n_pairs > self.entries_left:
            most = f"functions of at most {self.entries_left} more table entries (FileLimits.n_entries raises this)"
            size = f"'{self.name}' over {n_pairs:.15g} pairs, {n_entries:.15g} entries"
            self.text.fail(self.at, most, size)

    def over_all(self, count: Callable[[I64], F64]) -> F64:
        """Return what ``count`` makes of each joint state, given some at a time as ``ndarray, shape (n, n_some)``."""
        size = int(np.prod(self.shape))
        out = np.empty(size)
        for lo in range(0, size, BLOCK):
            hi = min(lo + BLOCK, size)
            out[lo:hi] = count(np.array(np.unravel_index(np.arange(lo, hi), self.shape)))
        return out


def _ordering(turned: bool, sign: int, strict: int) -> Callable[[Keyword], Iterable[KeywordFactor]]:
    """Return the reader of ``x >= y + c`` and its kin; ``turned`` says y >= x - c."""

    def read(keyword: Keyword) -> Iterable[KeywordFactor]:
        c, d = keyword.whole("the constant"), keyword.cost()
        x, y = keyword.states()
        late, early = (y, x) if turned else (x, y)
        yield PAIR, keyword.shape, lambda: _excess(early + (sign * c + strict) - late, d)

    return read


def _excess(lack: I64, most: float) -> F64:
    """Return the cost ``lack`` where positive, ``inf`` above ``most``."""
    return np.where(lack > most, np.inf, np.maximum(lack, 0)).ravel()


def _equality(keyword: Keyword) -> Iterable[KeywordFactor]:
    c, d = keyword.whole("the constant"), keyword.cost()
    x, y = keyword.states()
    yield PAIR, keyword.shape, lambda: _excess(np.abs(y + c - x), d)


def _disjunction(keyword: Keyword) -> Iterable[KeywordFactor]:
    a, b, penalty = keyword.whole("a constant"), keyword.whole("a constant"), keyword.cost()
    x, y = keyword.states()
    yield PAIR, keyword.shape, lambda: np.where((x >= y + b) | (y >= x + a), 0.0, penalty).ravel()


def _soft_disjunction(keyword: Keyword) -> Iterable[KeywordFactor]:
    a, b = keyword.whole("a constant"), keyword.whole("a constant")
    last_x, last_y = keyword.whole("the last state", low=0), keyword.whole("the last state", low=0)
    cost_x, cost_y = keyword.cost(), keyword.cost()
    x, y = keyword.states()

    def costs() -> F64:
        apart = (x >= y + b) | (y >= x + a) | (x >= last_x) | (y >= last_y)
        inside = (x <= last_x) & (y <= last_y)
        paid = (x == last_x) * cost_x + (y == last_y) * cost_y
        return np.where(apart & inside, paid, np.inf).ravel()

    yield PAIR, keyword.shape, costs


def _all_different(keyword: Keyword) -> Iterable[KeywordFactor]:
    measure, cost = keyword.measure(("var", "dec", "decbi")), keyword.cost()
    card = np.array(keyword.shape, dtype=np.int64)
    if measure == "var" and cost < keyword.top:
        keyword.check_size()
        yield _all(keyword), keyword.shape, lambda: cost * keyword.over_all(lambda s: len(s) - _n_distinct(s))
        return
    n = len(card)
    keyword.check_pairs(0.5 * n * (n - 1.0), 0.5 * (float(card.sum()) ** 2 - float(np.square(card, dtype=float).sum())))
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    shapes, member = unique_rows(card[pairs])
    for k, shape in enumerate(shapes.tolist()):
        yield pairs[member == k], shape, lambda shape=shape: (np.eye(*shape) * cost).ravel()  # type: ignore[misc]


def _all(keyword: Keyword) -> I64:
    """Return the positions of all variables, as those of one factor."""
    return np.arange(len(keyword.shape))[None]


def _n_distinct(states: I64) -> F64:
    """Return the number of different values in each column."""
    ordered = np.sort(states, axis=0)
    fresh: F64 = (np.diff(ordered, axis=0) != 0).sum(axis=0) + 1.0
    return fresh


def _cardinalities(keyword: Keyword) -> Iterable[KeywordFactor]:
    measure, cost = keyword.measure(("var", "dec")), keyword.cost()
    n_rows, at = keyword.whole("the number of values", low=0), keyword.text.at
    rows = keyword.text.wholes(3 * n_rows, "the rows value, lower, upper of 'sgcc'", low=-MAX_WHOLE).reshape(n_rows, 3)
    n, n_values, lower, upper = len(keyword.shape), max(keyword.shape), rows[:, 1], rows[:, 2]
    everything = len(np.intersect1d(rows[:, 0], np.arange(n_values))) == n_values
    if len(np.unique(rows[:, 0])) < n_rows or (lower > upper).any() or (lower < 0).any():
        keyword.text.fail(at, "different values, each with 0 <= lower <= upper", "others")
    n_lower, n_upper = sum(lower.tolist()), sum(upper.tolist())  # Python's ints do not overflow
    if measure == "var" and (n_lower > n or (everything and n_upper < n)):
        keyword.text.fail(at, f"bounds that {n} variables can meet", f"lower {n_lower}, upper {n_upper}")
    keyword.check_size()
    least, most = np.zeros(n_values), np.full(n_values, np.inf)
    met = (rows[:, 0] >= 0) & (rows[:, 0] < n_values)
    least[rows[met, 0]], most[rows[met, 0]] = lower[met], upper[met]

    def violation(states: I64) -> F64:
        short, over = np.full(states.shape[1], float(n_lower)), np.zeros(states.shape[1])
        for k, value in enumerate(states):
            same = states == value
            number, first = same.sum(axis=0), ~same[:k].any(axis=0)  # each value once: where it comes first
            short -= first * np.minimum(number, least[value])
            over += first * np.maximum(number - most[value], 0.0)
        return np.maximum(short, over) if measure == "var" else short + over

    yield _all(keyword), keyword.shape, lambda: cost * keyword.over_all(violation)


#: How each keyword is read.
KEYWORDS: dict[str, Callable[[Keyword], Iterable[KeywordFactor]]] = {
    ">=": _ordering(turned=False, sign=1, strict=0),
    ">": _ordering(turned=False, sign=1, strict=1),
    "<=": _ordering(turned=True, sign=-1, strict=0),
    "<": _ordering(turned=True, sign=-1, strict=1),
    "=": _equality,
    "disj": _disjunction,
    "sdisj": _soft_disjunction,
    "salldiff": _all_different,
    "sgcc": _cardinalities,
}
