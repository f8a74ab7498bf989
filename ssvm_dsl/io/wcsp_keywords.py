"""Functions that WCSP files give by a keyword, written as tables.

Binary arithmetic functions and soft disjunctions are tables by nature.  ``salldiff`` becomes one table of "not
equal" for each pair of variables where that says the same: when it counts pairs (``dec``), or when one violation
is forbidden already.  Otherwise it, and ``sgcc``, become one table over all variables, if that is small enough.
All other keywords are refused: what they mean is not rewritten into something weaker.

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
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.io.number_text import MAX_WHOLE, NumberText

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

#: (positions in the scope, numbers of states, makes the costs)
Part = tuple[list[int], list[int], Callable[[], F64]]

#: Largest table that a function over many variables is written as.
MAX_TABLE = 1_000_000


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
    """

    name: str
    at: int
    text: NumberText
    shape: list[int]
    top: float

    def whole(self, what: str, low: int = -MAX_WHOLE) -> int:
        """Return the next parameter."""
        return self.text.whole(f"{what} of '{self.name}'", low=low)

    def cost(self) -> float:
        """Return the next parameter, a cost."""
        return float(self.text.whole(f"a cost of '{self.name}'", high=2**63))

    def measure(self, known: tuple[str, ...]) -> str:
        """Return how violations are counted."""
        found = self.text.word(f"how '{self.name}' counts violations: {' or '.join(known)}")
        if found not in known:
            self.text.fail(self.text.at - 1, f"how '{self.name}' counts violations: {' or '.join(known)}")
        return found

    def states(self) -> tuple[I64, I64]:
        """Return the states of the two variables, broadcasting to a table."""
        if len(self.shape) != 2:
            self.text.fail(self.at, f"two variables in the scope of '{self.name}'", f"{len(self.shape)}")
        return np.arange(self.shape[0])[:, None], np.arange(self.shape[1])[None, :]

    def all_states(self) -> I64:
        """Return the states in all joint states; ``ndarray, shape (n_variables, n_configs)``."""
        size = np.prod(np.array(self.shape, dtype=float))
        if size > MAX_TABLE or len(self.shape) > 32:
            expected = f"'{self.name}' over at most {MAX_TABLE} joint states, or one whose violation is forbidden"
            self.text.fail(self.at, expected, f"{size:.3g} joint states")
        return np.indices(self.shape).reshape(len(self.shape), int(size))


def _ordering(turned: bool, sign: int, strict: int) -> Callable[[Keyword], Iterable[Part]]:
    """Return the reader of ``x >= y + c`` and its kin; ``turned`` says y >= x - c."""

    def read(keyword: Keyword) -> Iterable[Part]:
        c, d = keyword.whole("the constant"), keyword.cost()
        x, y = keyword.states()
        late, early = (y, x) if turned else (x, y)
        yield [0, 1], keyword.shape, lambda: _excess(early + (sign * c + strict) - late, d)

    return read


def _excess(lack: I64, most: float) -> F64:
    """Return the cost ``lack`` where positive, ``inf`` above ``most``."""
    return np.where(lack > most, np.inf, np.maximum(lack, 0)).ravel()


def _equality(keyword: Keyword) -> Iterable[Part]:
    c, d = keyword.whole("the constant"), keyword.cost()
    x, y = keyword.states()
    yield [0, 1], keyword.shape, lambda: _excess(np.abs(y + c - x), d)


def _disjunction(keyword: Keyword) -> Iterable[Part]:
    a, b, penalty = keyword.whole("a constant"), keyword.whole("a constant"), keyword.cost()
    x, y = keyword.states()
    yield [0, 1], keyword.shape, lambda: np.where((x >= y + b) | (y >= x + a), 0.0, penalty).ravel()


def _soft_disjunction(keyword: Keyword) -> Iterable[Part]:
    a, b = keyword.whole("a constant"), keyword.whole("a constant")
    last_x, last_y = keyword.whole("the last state", low=0), keyword.whole("the last state", low=0)
    cost_x, cost_y = keyword.cost(), keyword.cost()
    x, y = keyword.states()

    def costs() -> F64:
        apart = (x >= y + b) | (y >= x + a) | (x >= last_x) | (y >= last_y)
        inside = (x <= last_x) & (y <= last_y)
        paid = (x == last_x) * cost_x + (y == last_y) * cost_y
        return np.where(apart & inside, paid, np.inf).ravel()

    yield [0, 1], keyword.shape, costs


def _all_different(keyword: Keyword) -> Iterable[Part]:
    measure, cost = keyword.measure(("var", "dec", "decbi")), keyword.cost()
    if measure == "var" and cost < keyword.top:
        states = keyword.all_states()
        yield list(range(len(keyword.shape))), keyword.shape, lambda: cost * (len(states) - _n_distinct(states))
        return
    for i, j in combinations(range(len(keyword.shape)), 2):
        shape = [keyword.shape[i], keyword.shape[j]]
        yield [i, j], shape, lambda shape=shape: (np.eye(*shape) * cost).ravel()  # type: ignore[misc]


def _n_distinct(states: I64) -> F64:
    """Return the number of different values in each column."""
    ordered = np.sort(states, axis=0)
    fresh: F64 = (np.diff(ordered, axis=0) != 0).sum(axis=0) + 1.0
    return fresh


def _cardinalities(keyword: Keyword) -> Iterable[Part]:
    measure, cost = keyword.measure(("var", "dec")), keyword.cost()
    n_rows, at = keyword.whole("the number of values", low=0), keyword.text.at
    rows = keyword.text.wholes(3 * n_rows, "the rows value, lower, upper of 'sgcc'", low=-MAX_WHOLE).reshape(n_rows, 3)
    n, lower, upper = len(keyword.shape), rows[:, 1], rows[:, 2]
    everything = np.isin(np.arange(max(keyword.shape, default=0)), rows[:, 0]).all()
    if len(np.unique(rows[:, 0])) < n_rows or (lower > upper).any() or (lower < 0).any():
        keyword.text.fail(at, "different values, each with 0 <= lower <= upper", "others")
    if measure == "var" and (lower.sum() > n or (everything and upper.sum() < n)):
        keyword.text.fail(at, f"bounds that {n} variables can meet", f"lower {lower.sum()}, upper {upper.sum()}")
    states = keyword.all_states()

    def costs() -> F64:
        counts = np.array([(states == value).sum(axis=0) for value in rows[:, 0]]).reshape(n_rows, states.shape[1])
        short = np.maximum(lower[:, None] - counts, 0).sum(axis=0)
        over = np.maximum(counts - upper[:, None], 0).sum(axis=0)
        violation: F64 = np.maximum(short, over) if measure == "var" else short + over
        return cost * violation.astype(np.float64)

    yield list(range(n)), keyword.shape, costs


#: How each keyword is read.
KEYWORDS: dict[str, Callable[[Keyword], Iterable[Part]]] = {
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
