"""BIF files: Bayesian networks in the interchange format of the 1990s, as bnlearn, GeNIe and pgmpy write them.

    network asia { }
    variable smoke { type discrete [ 2 ] { yes, no }; }
    variable lung { type discrete [ 2 ] { yes, no }; }
    probability ( smoke ) { table 0.5, 0.5; }
    probability ( lung | smoke ) {
      (yes) 0.1, 0.9;                a row: states of the parents, probabilities of the variable's states
      default 0.01, 0.99;            of all rows that are not listed
    }

A ``table`` below parents lists the probabilities with the variable itself varying slowest and the last parent fastest.
The score of an entry is the logarithm of its probability.  Variables and states keep their names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.io.formats.word_text import WordText
from ssvm_dsl.io.problem_file import FileLimits
from ssvm_dsl.ir.graph_problem import FactorList, GraphProblem, assemble

#: Quoted text, punctuation, comments, and words; commas and bars between names are marks of their own.
_TOKEN = re.compile(r'"[^"\n]*"|[{}()\[\],;|]|(?:(?!//|/\*)[^\s{}()\[\],;|"])+')
_COMMENT = re.compile(rb"/\*.*?\*/|//[^\n]*", re.DOTALL)

#: numpy's arrays have at most this many axes in every version in use.
MAX_ARITY = 32

#: Probabilities of a row may sum to 1 up to this: files hold a few digits.
SUM_ATOL = 0.02


@dataclass(eq=False)
class BayesNet:
    """A Bayesian network, while it is read.

    Parameters
    ----------
    text : WordText
    limits : FileLimits
    states : dict of str to tuple of str
        The states of each variable, in the order of the file.
    tables : dict of str to (parents, ndarray)
        The probabilities of each variable, ``shape (*states of the parents, states)``.
    n_states, n_entries : int
        How many states and probabilities there are together.
    """

    text: WordText
    limits: FileLimits
    states: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tables: dict[str, tuple[list[str], F64]] = field(default_factory=dict)
    n_states: int = 0
    n_entries: int = 0


def parse_bif(source: str, data: bytes, limits: FileLimits) -> GraphProblem:
    """Return the problem of a Bayesian network.

    Raises
    ------
    FileFormatError
        Names line and column, what was expected and what was found.
    """
    read, factors = read_network(source, data, limits), FactorList()
    number = {name: v for v, name in enumerate(read.states)}
    card = np.array([len(one) for one in read.states.values()], dtype=np.int64)
    while read.tables:
        child, (parents, table) = read.tables.popitem()
        with np.errstate(divide="ignore"):
            scores = np.log(table, out=table)
        factors.add(np.array([number[name] for name in (*parents, child)], dtype=np.int64), scores)
    names, states = tuple(read.states), tuple(read.states.values())
    return assemble(card, factors.flat(), source, names, states=states)


def read_network(source: str, data: bytes, limits: FileLimits) -> BayesNet:
    """Return a Bayesian network; each variable has its probabilities.

    Raises
    ------
    FileFormatError
        Names line and column, what was expected and what was found.
    """
    # blanks instead of comments keep every line and column
    data = _COMMENT.sub(lambda found: re.sub(rb"[^\n]", b" ", found[0]), data)
    text = WordText(source, data, _TOKEN)
    del data
    read = BayesNet(text, limits)
    while text.ahead:
        block = text.take("a block")
        if block == "network":
            _name(read, "the name of the network")
            text.require("{")
            _properties(text)
            text.require("}")
        elif block == "variable":
            _read_variable(read)
        elif block == "probability":
            _read_probability(read)
        else:
            text.fail("network, variable or probability", repr(block[:40]))
    missing = next((name for name in read.states if name not in read.tables), None)
    if missing is not None or not read.states:
        text.fail(f"a probability of variable {missing}" if missing else "at least one variable")
    return read


def _name(read: BayesNet, what: str) -> str:
    token = read.text.ahead
    if not token or token in "{}()[],;|":
        read.text.fail(what)
    return read.text.take(what).strip('"')


def _properties(text: WordText) -> None:
    """Step over properties, which say nothing about probabilities."""
    while text.accept("property"):
        while text.take("';' after the property") != ";":
            pass


def _read_variable(read: BayesNet) -> None:
    text, at = read.text, read.text.place
    name = _name(read, "the name of a variable")
    if name in read.states:
        text.fail("variables of different names", f"{name!r} again", at)
    text.require("{")
    _properties(text)
    text.require("type")
    text.require("discrete")
    text.require("[")
    n = text.whole(f"the number of states of {name}", low=1, high=text.n_left)
    text.require("]")
    text.require("{")
    states = [_name(read, f"a state of {name}")]
    while not text.accept("}"):
        text.accept(",")
        at = text.place
        states.append(_name(read, f"a state of {name}"))
    if len(states) != n or len(set(states)) != n:
        text.fail(f"{n} different states of {name}", f"{len(states)} names: {', '.join(states)[:80]}", at)
    text.accept(";")
    _properties(text)
    text.require("}")
    read.n_states += n
    if read.n_states > read.limits.n_entries:
        text.fail(f"at most {read.limits.n_entries} states together (FileLimits.n_entries raises this)", "more", at)
    read.states[name] = tuple(states)


def _read_probability(read: BayesNet) -> None:
    """Add the factor of a variable and its parents."""
    text = read.text
    text.require("(")
    scope, begin = list[str](), text.place
    while not text.accept(")"):
        if scope:
            text.accept("|" if len(scope) == 1 else ",")
        at = text.place
        name = _name(read, "a variable")
        if name not in read.states:
            text.fail("a variable that is declared", repr(name), at)
        if name in scope:
            text.fail("different variables", f"{name!r} again", at)
        scope.append(name)
    if not 1 <= len(scope) <= MAX_ARITY:
        text.fail(f"a variable and at most {MAX_ARITY - 1} parents", f"{len(scope)} names", begin)
    child, parents = scope[0], scope[1:]
    if child in read.tables:
        text.fail("one probability for each variable", f"that of {child} again", begin)
    cards = [len(read.states[name]) for name in scope]
    size = float(np.prod(np.array(cards, dtype=float)))
    left = read.limits.n_entries - read.n_entries
    if size > left:
        text.fail(f"a table of at most {left} entries (FileLimits.n_entries raises this)", f"{size:.15g}", begin)
    table = _read_table(read, child, parents, cards)
    if (table < 0).any() or not (np.abs(table.sum(axis=-1) - 1.0) <= SUM_ATOL).all():
        text.fail(f"probabilities of {child} of at least 0 that sum to 1", "others", begin)
    read.n_entries += table.size
    read.tables[child] = parents, table


def _read_table(read: BayesNet, child: str, parents: list[str], cards: list[int]) -> F64:
    """Return the probabilities, ``shape (*states of the parents, states)``."""
    text, n = read.text, cards[0]
    table = np.full((*cards[1:], n), np.nan)
    default = None
    text.require("{")
    while not text.accept("}"):
        _properties(text)
        at = text.place
        if text.accept("table"):
            values = _row(read, table.size, f"the probabilities of {child}")
            table = np.moveaxis(np.array(values).reshape(cards), 0, -1).copy()
        elif text.accept("default"):
            default = _row(read, n, f"the probabilities of {child}")
        elif text.accept("("):
            place = list[int]()
            for parent in parents:
                if place:
                    text.accept(",")
                at = text.place
                state = _name(read, f"a state of {parent}")
                if state not in read.states[parent]:
                    text.fail(f"a state of {parent}: {', '.join(read.states[parent])[:80]}", repr(state), at)
                place.append(read.states[parent].index(state))
            text.require(")")
            if not np.isnan(table[tuple(place)]).all():
                text.fail("each row once", "a row that comes again", at)
            table[tuple(place)] = _row(read, n, f"the probabilities of {child}")
        elif text.ahead != "}":
            text.fail("'table', 'default', '(' with states of the parents, or '}'")
    missing = np.isnan(table)
    if default is not None:
        table = np.where(missing, default, table)
    elif missing.any():
        text.fail(f"a row for all states of the parents of {child}", f"{int(missing.any(-1).sum())} without one")
    return table


def _row(read: BayesNet, n: int, what: str) -> list[float]:
    """Return n numbers, which end with a semicolon."""
    text, values = read.text, list[float]()
    while not text.accept(";"):
        if values:
            text.accept(",")
        if len(values) == n:
            text.fail(f"';' after {n} numbers, {what}")
        values.append(text.real(what))
    if len(values) < n:
        text.fail(f"{n} numbers, {what}", f"{len(values)}")
    return values
