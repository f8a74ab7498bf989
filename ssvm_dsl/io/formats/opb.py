"""OPB files: pseudo-Boolean problems in the format of the pseudo-Boolean competitions.

    * #variable= 3 #constraint= 2       comments begin with a star
    min: +1 x1 -2 x2 x3 ;               to be minimised; a product of variables is 1 where all of them are
    +2 x1 +3 ~x2 >= 2 ;                 ~x2 is 1 - x2
    +1 x1 +1 x2 +1 x3 = 1 ;

The score is minus the objective, or the objective of ``max:``; constraints are hard.  Without an objective every
solution scores 0.  Products of at most five literals in the objective are tables; every other product becomes an
auxiliary variable that rules tie to its literals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import gcd

import numpy as np

from ssvm_dsl.io.formats.sum_rules import MOST_SUM, SumRules
from ssvm_dsl.io.formats.word_text import WordText
from ssvm_dsl.io.problem_file import FileLimits
from ssvm_dsl.ir.graph_problem import FactorList, GraphProblem, assemble

_TOKEN = re.compile(r"[+-]?\d[\w.]*|[+-]|~?[A-Za-z_][\w\[\].\-]*:?|[<>]=|=|;|[^\s\w]")
_COMMENT = re.compile(rb"^[ \t]*\*[^\n]*", re.MULTILINE)
_VARIABLE = re.compile(r"~?[A-Za-z_][\w\[\].\-]*")

#: Products of more literals become auxiliary variables in the objective, too.
LARGEST_TABLE = 5

#: Auxiliary variables are numbered from here on until all variables are known.
_AUXILIARY = 1 << 40

#: A product: its literals as (variable, state that makes it 1), sorted.
_Product = tuple[tuple[int, int], ...]


@dataclass(eq=False)
class _Program:
    """What has been read: numbers of variables by name, products by their literals, terms and rules."""

    text: WordText
    limits: FileLimits
    number: dict[str, int] = field(default_factory=dict)
    products: dict[_Product, int] = field(default_factory=dict)
    linear: dict[int, int] = field(default_factory=dict)
    tables: dict[_Product, int] = field(default_factory=dict)
    constant: int = 0
    rules: list[tuple[dict[int, int], float, float]] = field(default_factory=list)
    n_entries: int = 0

    def take(self, n: int) -> None:
        """Count entries that are kept."""
        self.n_entries += n
        if self.n_entries > self.limits.n_entries:
            most = f"at most {self.limits.n_entries} terms and entries (FileLimits.n_entries raises this)"
            self.text.fail(most, "more")


def parse_opb(source: str, data: bytes, limits: FileLimits) -> GraphProblem:
    """Return the problem of a pseudo-Boolean text.

    Raises
    ------
    FileFormatError
        Names line and column, what was expected and what was found.
    """
    data = _COMMENT.sub(lambda found: b" " * len(found[0]), data)
    text = WordText(source, data, _TOKEN)
    del data
    read = _Program(text, limits)
    sign = -1.0
    if text.ahead in ("min:", "max:"):
        sign = 1.0 if text.take("an objective") == "max:" else -1.0
        _read_objective(read)
    while text.ahead:
        _read_constraint(read)
    return _assembled(read, sign)


def _read_sum(read: _Program, what: str) -> list[tuple[int, _Product | None]]:
    """Return (coefficient, literals) of each term, up to a sign that ends the sum; ``None`` for a product that is 0."""
    text, terms = read.text, list[tuple[int, _Product | None]]()
    while text.ahead not in (";", ">=", "<=", "=", ""):
        negative = False
        while text.ahead in ("+", "-"):
            negative ^= text.take("a sign") == "-"
        size = 1
        if not _VARIABLE.fullmatch(text.ahead):
            size = text.whole(f"a coefficient of {what}", low=-(2**53))
        text.accept("*")
        literals = dict[int, int]()
        empty = False
        while _VARIABLE.fullmatch(text.ahead):
            token = text.take("a variable")
            name, state = token.removeprefix("~"), int(token[0] != "~")
            v = read.number.setdefault(name, len(read.number))
            empty |= literals.setdefault(v, state) != state  # x ~x is 0
            text.accept("*")
        if not literals:
            text.fail("a variable such as x1")
        terms.append((-size if negative else size, None if empty else tuple(sorted(literals.items()))))
        read.take(len(literals))
    return terms


def _product(read: _Program, literals: _Product) -> int:
    """Return the auxiliary variable of a product."""
    variable = read.products.get(literals)
    if variable is None:
        variable = read.products[literals] = _AUXILIARY + len(read.products)
        read.take(2 * len(literals) + 2)
    return variable


def _read_objective(read: _Program) -> None:
    text, begin = read.text, read.text.place
    for size, literals in _read_sum(read, "the objective"):
        if literals is None:
            continue
        if len(literals) == 1:
            _add_literal(read.linear, read, size, literals[0])
        elif len(literals) <= LARGEST_TABLE:
            if literals not in read.tables:
                read.take(1 << len(literals))
            read.tables[literals] = read.tables.get(literals, 0) + size
        else:
            v = _product(read, literals)
            read.linear[v] = read.linear.get(v, 0) + size
    total = sum(map(abs, [*read.linear.values(), *read.tables.values(), read.constant]))
    if total > 2**53:
        text.fail("an objective whose coefficients sum to at most 2^53 in size", f"{total:.6g}", begin)
    text.require(";")


def _add_literal(sums: dict[int, int], read: _Program | None, size: int, literal: tuple[int, int]) -> int:
    """Add a literal to a sum by variable; return (and take note of) the constant that a negated one leaves."""
    v, state = literal
    sums[v] = sums.get(v, 0) + (size if state else -size)
    left = 0 if state else size
    if read is not None:
        read.constant += left
    return left


def _read_constraint(read: _Program) -> None:
    text, begin = read.text, read.text.place
    sums, constant = dict[int, int](), 0
    for size, literals in _read_sum(read, "a constraint"):
        if literals is None:
            continue
        if len(literals) == 1:
            constant += _add_literal(sums, None, size, literals[0])
        else:
            v = _product(read, literals)
            sums[v] = sums.get(v, 0) + size
    sign = text.ahead
    text.require(">=", "<=", "=")
    negative = False
    while text.ahead in ("+", "-"):
        negative ^= text.take("a sign") == "-"
    bound = text.whole("the right side of a constraint", low=-(2**53))
    bound = -bound if negative else bound
    text.require(";")
    sums = {v: size for v, size in sums.items() if size}
    factor = gcd(*sums.values()) or 1
    sums = {v: size // factor for v, size in sums.items()}
    lower = -np.inf if sign == "<=" else float(-((constant - bound) // factor))
    upper = np.inf if sign == ">=" else float((bound - constant) // factor)
    total = sum(map(abs, sums.values()))
    if total > MOST_SUM:
        text.fail(f"coefficients of a constraint that sum to at most {MOST_SUM} in size", f"{total:.6g}", begin)
    read.rules.append((sums, lower, upper))


def _assembled(read: _Program, sign: float) -> GraphProblem:
    """Return the problem: an objective times a sign, to be maximised, and rules."""
    n, n_auxiliary = len(read.number), len(read.products)
    rules, factors = SumRules(), FactorList()
    names = list(read.number)
    if all(re.fullmatch(r"x\d{1,15}", name) for name in names):
        names.sort(key=lambda name: int(name[1:]))
    order = {read.number[name]: k for k, name in enumerate(names)}

    def place(v: int) -> int:
        return n + v - _AUXILIARY if v >= _AUXILIARY else order[v]

    impossible = False
    for sums, lower, upper in read.rules:
        if not sums or lower > upper:
            impossible |= lower > upper or not lower <= 0.0 <= upper
            continue
        rules.add([place(v) for v in sums], [1] * len(sums), list(sums.values()), lower, upper)
    for literals, v in read.products.items():
        # the product is 1 exactly where all its literals are true
        variables, states, k = [order[u] for u, _ in literals], [state for _, state in literals], len(literals)
        rules.add([*variables, place(v)], [*states, 1], [1.0] * k + [-float(k)], 0.0)
        rules.add([*variables, place(v)], [*states, 1], [1.0] * k + [-1.0], -np.inf, k - 1.0)
    for v, size in read.linear.items():
        factors.add(np.array([place(v)]), sign * np.array([0.0, size]))
    for literals, size in read.tables.items():
        table = np.zeros((2,) * len(literals))
        table[tuple(state for _, state in literals)] = sign * size
        factors.add(np.array([order[v] for v, _ in literals]), table)
    if read.constant or impossible:
        factors.add(np.zeros(0, dtype=np.int64), np.array([-np.inf if impossible else sign * read.constant]))
    named = (*names, *(f"product {k + 1}" for k in range(n_auxiliary)))
    card = np.full(n + n_auxiliary, 2, dtype=np.int64)
    made, source = factors.flat(), read.text.source
    return assemble(card, made, source, named, rules=rules.groups(), n_auxiliary=n_auxiliary)
