"""CFN files: cost function networks in toulbar2's JSON format.

    {"problem": {"name": "p", "mustbe": "<50.0"},                 "<": costs are minimised, and less than that
     "variables": {"x": 2, "y": ["a", "b", "c"]},                 a number of values, or their names
     "functions": {
       "f": {"scope": ["x", "y"], "costs": [1.5, 2, 3, 4, 0, 6]},                      the last variable varies fastest
       "g": {"scope": ["x", "y"], "defaultcost": 1, "costs": [0, "b", 2.5, 1, "c", 7]},    values, then a cost
       "h": {"scope": ["y"], "type": "knapsackv", "params": {"capacity": 1, "weightedvalues": [[0, 1, 1]]}}}}

As in toulbar2, quotes, commas and colons may be left out, braces and brackets mean the same, and lines that begin with
``#`` are comments.  The score is minus the cost, or with ``">"`` the cost, which is maximised then.  Labellings that do
not keep the bound are no solutions (``GraphProblem.floor``); what no labelling within the bound can have is forbidden.
Functions by type: ``>=``, ``>``, ``<=``, ``<``, ``=``, ``disj``, ``sdisj``, ``salldiff``, ``sgcc`` as in WCSP files;
``alldiff``, ``knapsack``, ``knapsackv`` and ``clique``, which are hard.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.io.formats.number_text import NumberText
from ssvm_dsl.io.formats.sum_rules import MOST_SUM, SumRules
from ssvm_dsl.io.formats.wcsp_keywords import KEYWORDS, Keyword
from ssvm_dsl.io.formats.word_text import WordText
from ssvm_dsl.io.problem_file import FileLimits
from ssvm_dsl.ir.graph_problem import FactorList, FactorTables, GraphProblem, assemble, repeat_in

_TOKEN = re.compile(r'"[^"\n]*"|[{}\[\]]|[^\s{}\[\],:"]+')
_COMMENT = re.compile(rb"^[ \t]*#[^\n]*", re.MULTILINE)
_BOUND = re.compile(r"([<>])([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)")

_OPEN, _CLOSE = ("{", "["), ("}", "]")

#: Rules that need no costs, with the parameters that each takes.
_RULES = ("alldiff", "knapsack", "knapsackv", "clique")


@dataclass(eq=False)
class _CostNetwork:
    """What has been read."""

    text: WordText
    limits: FileLimits
    sign: float = -1.0
    bound: float = np.inf
    names: list[str] = field(default_factory=list)
    number: dict[str, int] = field(default_factory=dict)
    card: list[int] = field(default_factory=list)
    states: list[tuple[str, ...] | None] = field(default_factory=list)
    factors: FactorList = field(default_factory=FactorList)
    rules: SumRules = field(default_factory=SumRules)
    n_states: int = 0
    digits: int = 0

    @property
    def entries_left(self) -> int:
        """Entries that may still be taken."""
        return self.limits.n_entries - self.factors.n_scores - self.rules.n_literals

    def word(self, what: str) -> str:
        """Return the next token, a name or a value."""
        if not self.text.ahead or self.text.ahead in "{}[]":
            self.text.fail(what)
        return self.text.take(what).strip('"')

    def field(self, name: str) -> None:
        """Step over the name of a field."""
        at, token = self.text.place, self.word(f"'{name}'")
        if token != name:
            self.text.fail(f"'{name}'", repr(token[:40]), at)

    def open(self, what: str) -> None:
        """Step over an opening bracket."""
        if not self.text.accept(*_OPEN):
            self.text.fail(f"a list of {what}")

    def closes(self) -> bool:
        """Step over a closing bracket; return whether there was one."""
        return self.text.accept(*_CLOSE)

    def real(self, what: str) -> float:
        """Return the next token, a number, which may stand in quotes."""
        at, token = self.text.place, self.word(what)
        try:
            value = float(token) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", token) else np.nan
        except ValueError:  # digits of other scripts
            value = np.nan
        if not np.isfinite(value):
            self.text.fail(f"{what}, a number", repr(token[:40]), at)
        self.digits = max(self.digits, _digits(token))
        return value

    def whole(self, what: str, low: int = 0, high: int = 2**31) -> int:
        """Return the next token, an int of a range, which may stand in quotes."""
        at, value = self.text.place, self.real(what)
        if value % 1 or not low <= value <= high:
            self.text.fail(f"{what}, an int from {low} to {high}", f"{value:.15g}", at)
        return int(value)

    def value(self, v: int) -> int:
        """Return the next token, a value of a variable by name or number."""
        at, token = self.text.place, self.word("a value")
        names = self.states[v]
        if names is not None and token in names:
            return names.index(token)
        if not (token.isascii() and token.isdigit() and len(token) < 10 and int(token) < self.card[v]):
            self.text.fail(f"a value of variable {self.names[v]}", repr(token[:40]), at)
        return int(token)


def parse_cfn(source: str, data: bytes, limits: FileLimits) -> GraphProblem:
    """Return the problem of a cost function network.

    Raises
    ------
    FileFormatError
        Names line and column, what was expected and what was found.
    """
    data = _COMMENT.sub(lambda found: b" " * len(found[0]), data)
    read = _CostNetwork(WordText(source, data, _TOKEN), limits)
    del data
    read.open("fields")
    read.field("problem")
    _read_header(read)
    read.field("variables")
    _read_variables(read)
    read.field("functions")
    read.open("functions")
    while not read.closes():
        if read.text.ahead not in _OPEN:
            read.word("a function, or its name")
        _read_function(read)
    if not read.closes():
        read.text.fail("the closing bracket of the file")
    read.text.end("the closing bracket of the file")
    card, factors = np.array(read.card, dtype=np.int64), read.factors.flat()
    floor = -np.inf if read.bound == np.inf else read.sign * read.bound
    if read.digits:  # sums of decimals are rounded: half a unit of the last digit is on neither side
        floor += 0.5 * 10.0**-read.digits
    _forbid_beyond(factors, floor)
    states = None
    if any(one is not None for one in read.states):
        pairs = zip(read.states, read.card, strict=True)
        states = tuple(tuple(map(str, range(n))) if one is None else one for one, n in pairs)
    return assemble(card, factors, source, tuple(read.names), floor, read.rules.groups(), states)


def _digits(number: str) -> int:
    """Return how many digits of a number stand behind its point."""
    mantissa, _, exponent = number.lower().partition("e")
    return max(0, len(mantissa.partition(".")[2].rstrip("0")) - int(exponent or 0))


def _read_header(read: _CostNetwork) -> None:
    """Read direction and bound."""
    read.open("fields of the problem")
    while not read.closes():
        at, name = read.text.place, read.word("'name' or 'mustbe'")
        if name == "name":
            read.word("the name of the problem")
        elif name == "mustbe":
            at, value = read.text.place, read.word("the bound")
            match = _BOUND.fullmatch(value)
            if match is None:
                read.text.fail("a bound such as <10.5 or >-3", repr(value[:40]), at)
            read.sign, read.bound = (-1.0 if match[1] == "<" else 1.0), float(match[2])
            read.digits = _digits(match[2])
        else:
            read.text.fail("'name' or 'mustbe'", repr(name[:40]), at)


def _read_variables(read: _CostNetwork) -> None:
    """Read names and values of variables; without a name the number is the name."""
    text = read.text
    read.open("variables")
    while not read.closes():
        at, name = text.place, str(len(read.card))
        if text.ahead not in _OPEN and not text.ahead.strip('"')[:1].isdigit():
            name = read.word("a variable")
        if name in read.number:
            text.fail("variables of different names", repr(name[:40]), at)
        states = None
        if text.accept(*_OPEN):
            listed = list[str]()
            while not read.closes():
                listed.append(read.word(f"a value of {name}"))
            states, n = tuple(listed), len(listed)
            if not n or len(set(listed)) < n:
                text.fail(f"different values of {name}, at least one", f"{n} names", at)
        else:
            n = read.whole(f"the number of values of {name}", low=1)
        read.n_states += n
        if read.n_states > read.limits.n_entries:
            text.fail(f"at most {read.limits.n_entries} states together (FileLimits.n_entries raises this)", "more", at)
        read.number[name] = len(read.card)
        read.names.append(name)
        read.card.append(n)
        read.states.append(states)


def _read_function(read: _CostNetwork) -> None:
    """Add the factors, or the rules, of one function."""
    text = read.text
    read.open("fields of a function")
    read.field("scope")
    begin, scope = text.place, list[int]()
    read.open("variables")
    while not read.closes():
        at, name = text.place, read.word("a variable")
        v = read.number.get(name, -1)
        if v < 0 and name.isascii() and name.isdigit() and len(name) < 10:
            v = int(name) if int(name) < len(read.card) else -1
        if v < 0:
            text.fail("a variable that is declared", repr(name[:40]), at)
        scope.append(v)
    if (twice := repeat_in(np.array(scope, dtype=np.int64))) >= 0:
        text.fail("different variables in a function", f"{read.names[scope[twice]]} again", begin)
    at, name = text.place, read.word("'costs', 'defaultcost' or 'type'")
    default = None
    if name == "defaultcost":
        default = read.real("the default cost")
        read.field("costs")
    elif name == "type":
        _read_type(read, scope, begin)
        if not read.closes():
            text.fail("the closing bracket of the function")
        return
    elif name != "costs":
        text.fail("'costs', 'defaultcost' or 'type'", repr(name[:40]), at)
    size = prod(float(read.card[v]) for v in scope)
    if size > read.entries_left:
        most = f"functions of at most {read.entries_left} more table entries (FileLimits.n_entries raises this)"
        text.fail(most, f"one of {size:.15g}", begin)
    if text.ahead not in _OPEN:
        text.fail("a list of costs: write the table out, shared tables are not read")
    read.open("costs")
    costs = _dense(read, int(size)) if default is None else _listed(read, scope, int(size), default)
    if not read.closes():
        text.fail("the closing bracket of the function")
    read.factors.add(np.array(scope, dtype=np.int64), read.sign * costs)


def _dense(read: _CostNetwork, size: int) -> F64:
    """Return a cost for each joint value."""
    costs, at = list[float](), read.text.place
    while not read.closes():
        if len(costs) == size:
            read.text.fail(f"{size} costs", "more")
        costs.append(read.real("a cost"))
    if len(costs) < size:
        read.text.fail(f"{size} costs", f"{len(costs)} (with fewer, name a 'defaultcost')", at)
    return np.array(costs)


def _listed(read: _CostNetwork, scope: list[int], size: int, default: float) -> F64:
    """Return the costs of all joint values, of which some are listed."""
    costs = np.full(size, default)
    seen = set[int]()
    shape = [read.card[v] for v in scope]
    while not read.closes():
        at, place = read.text.place, 0
        for v, n in zip(scope, shape, strict=True):
            place = place * n + read.value(v)
        if place in seen:
            read.text.fail("one cost for each tuple", "a tuple that comes again", at)
        seen.add(place)
        costs[place] = read.real("a cost")
    return costs


def _read_type(read: _CostNetwork, scope: list[int], begin: int) -> None:
    """Add a function given by its type."""
    text, at = read.text, read.text.place
    name = read.word("the type of a function")
    if name not in KEYWORDS and name not in _RULES:
        known = ", ".join((*KEYWORDS, *_RULES))
        text.fail(f"a function that can be written as tables or rules ({known})", repr(name[:40]), at)
    if not scope:
        text.fail(f"variables in the scope of '{name}'", "none", begin)
    if name in KEYWORDS:
        _read_keyword(read, name, scope)
        return
    {"alldiff": _alldiff, "knapsack": _knapsack, "knapsackv": _knapsackv, "clique": _clique}[name](read, scope)


def _read_keyword(read: _CostNetwork, name: str, scope: list[int]) -> None:
    """Add a function that WCSP files have as well: its parameters in their order, without the names of fields."""
    text, begin = read.text, read.text.place
    if read.sign > 0 or read.bound % 1:
        text.fail(f"costs that are minimised, and a whole bound: '{name}' has whole costs", "others")
    read.field("params")
    words, depth = [name], 0
    rows = 0
    while True:
        if text.accept(*_OPEN):
            depth += 1
            rows += depth == 3
        elif text.ahead in _CLOSE:
            read.closes()
            depth -= 1
            if depth == 0:
                break
        else:
            token = read.word("parameters in brackets")
            if depth == 0:
                text.fail("parameters in brackets", repr(token[:40]))
            if token == "bounds":
                words.append("ROWS")
            elif token not in ("metric", "cost"):
                words.append(token)
    tokens = " ".join(str(rows) if word == "ROWS" else word for word in words).encode()
    shape = [read.card[v] for v in scope]
    try:
        numbers = NumberText(text.source, tokens, titled=True)
        numbers.word("the type of a function")
        keyword = Keyword(name, 0, numbers, shape, read.bound, read.entries_left)
        for positions, part, costs in KEYWORDS[name](keyword):
            if len(positions) * prod(map(float, part)) > read.entries_left:
                numbers.fail(0, f"functions of at most {read.entries_left} more table entries", "more")
            cost = costs()
            scores = np.where(cost >= read.bound, -np.inf, -cost)
            read.factors.add_all(np.array(scope, dtype=np.int64)[positions], scores)
        numbers.end(f"the parameters of '{name}'")
    except FileFormatError as err:
        text.fail(f"parameters of '{name}' that fit its scope", str(err).partition(": ")[2], begin)


def _take(read: _CostNetwork, n: float, begin: int) -> None:
    if n > read.entries_left:
        most = f"at most {read.entries_left} more entries (FileLimits.n_entries raises this)"
        read.text.fail(most, f"{n:.15g}", begin)


def _alldiff(read: _CostNetwork, scope: list[int]) -> None:
    """Add at most one variable for each value."""
    begin = read.text.place
    values = [read.states[v] for v in scope]
    if read.text.ahead not in _CLOSE:
        read.field("params")
        read.open("parameters")
        while not read.closes():
            at, name = read.text.place, read.word("'exceptedvalues' or 'deltacosts'")
            read.open(name)
            if not read.closes():
                read.text.fail("'alldiff' without excepted values and costs", repr(name[:40]), at)
    if len(set(values)) > 1 and any(one is not None for one in values):
        read.text.fail("variables of the same values in 'alldiff'", "others", begin)
    _take(read, sum(read.card[v] for v in scope), begin)
    for k in range(max(read.card[v] for v in scope)):
        mine = [v for v in scope if k < read.card[v]]
        if len(mine) > 1:
            read.rules.add(mine, [k] * len(mine), None, -np.inf, 1.0)


def _rule(
    read: _CostNetwork, literals: list[tuple[int, int]], weights: list[float], least: float, most: float, begin: int
) -> None:
    """Add a bound on a weighted sum; a literal that comes again counts again."""
    sums = dict[tuple[int, int], float]()
    for literal, weight in zip(literals, weights, strict=True):
        sums[literal] = sums.get(literal, 0.0) + weight
    if (total := sum(map(abs, sums.values()))) > MOST_SUM:
        read.text.fail(f"weights that sum to at most {MOST_SUM} in size", f"{total:.6g}", begin)
    _take(read, len(sums), begin)
    if not sums:
        if not least <= 0.0 <= most:
            read.factors.add(np.zeros(0, dtype=np.int64), np.array([-np.inf]))
        return
    read.rules.add([v for v, _ in sums], [k for _, k in sums], list(sums.values()), least, most)


def _numbers(read: _CostNetwork, name: str) -> list[float]:
    read.field(name)
    read.open(name)
    numbers = list[float]()
    while not read.closes():
        numbers.append(float(read.whole(f"one of {name}", low=-MOST_SUM, high=MOST_SUM)))
    return numbers


def _knapsack(read: _CostNetwork, scope: list[int]) -> None:
    """Add a least sum of weights of variables of two values that are 1."""
    begin = read.text.place
    if any(read.card[v] != 2 for v in scope):
        read.text.fail("variables of two values in 'knapsack' (knapsackv takes others)", "others")
    read.field("params")
    read.open("parameters")
    read.field("capacity")
    capacity = read.whole("the capacity", low=-MOST_SUM, high=MOST_SUM)
    weights = _numbers(read, "weights")
    if len(weights) != len(scope) or not read.closes():
        read.text.fail(f"a weight for each of {len(scope)} variables", f"{len(weights)}", begin)
    _rule(read, [(v, 1) for v in scope], weights, float(capacity), np.inf, begin)


def _knapsackv(read: _CostNetwork, scope: list[int]) -> None:
    """Add a least sum of weights of values: ``[[position in the scope or variable, value, weight], ...]``."""
    text, begin = read.text, read.text.place
    read.field("params")
    read.open("parameters")
    read.field("capacity")
    capacity = read.whole("the capacity", low=-MOST_SUM, high=MOST_SUM)
    read.field("weightedvalues")
    read.open("weighted values")
    literals, weights = list[tuple[int, int]](), list[float]()
    while not read.closes():
        read.open("variable, value, weight")
        at, name = text.place, read.word("a variable of the scope")
        v = read.number.get(name, int(name) if name.isascii() and name.isdigit() and len(name) < 10 else -1)
        if v not in scope:
            text.fail("a variable of the scope", repr(name[:40]), at)
        literals.append((v, read.value(v)))
        weights.append(float(read.whole("a weight", low=-MOST_SUM, high=MOST_SUM)))
        if not read.closes():
            text.fail("variable, value and weight in brackets")
    if not read.closes():
        text.fail("the closing bracket of the parameters")
    _rule(read, literals, weights, float(capacity), np.inf, begin)


def _clique(read: _CostNetwork, scope: list[int]) -> None:
    """Add a largest number of variables that have one of their values."""
    text, begin = read.text, read.text.place
    read.field("params")
    read.open("parameters")
    read.field("rhs")
    most = read.whole("the largest number", low=0)
    read.field("values")
    read.open("values of each variable")
    literals = list[tuple[int, int]]()
    for v in scope:
        read.open(f"values of {read.names[v]}")
        mine = set[int]()
        while not read.closes():
            mine.add(read.value(v))
        literals += [(v, k) for k in sorted(mine)]
    if not read.closes() or not read.closes():
        text.fail(f"values of {len(scope)} variables", "more")
    _rule(read, literals, [1.0] * len(literals), -np.inf, float(most), begin)


def _forbid_beyond(factors: FactorTables, floor: float) -> None:
    """Forbid entries that no labelling above the floor has, however well all other factors score."""
    scores, ptr = factors.scores, factors.table_ptr
    if floor == -np.inf or not len(scores):
        return
    best = np.maximum.reduceat(scores, ptr[:-1])
    with np.errstate(invalid="ignore"):
        lost = np.repeat(best, np.diff(ptr)) - scores
    total = float(best.sum())
    if np.isfinite(total):
        scores[total - lost <= floor] = -np.inf


