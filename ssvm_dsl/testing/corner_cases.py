"""Hand-made problems for the cases that random ones meet too rarely."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ssvm_dsl.array_types import F64
from ssvm_dsl.ir import Group, Program, Theta
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.testing.problems import Problem, grouped

#: Template, example, variables (numbers within the example), table.
Factor = tuple[str, int, tuple[int, ...], ArrayLike]


_INF = np.inf
_DIFFER = [[0.0, 1.0], [1.0, 0.0]]
_EQUAL = [[1.0, 0.0], [0.0, 1.0]]


def catalogue() -> dict[str, Problem]:
    """Return all corner cases by name."""
    made = [*_sizes(), *_graphs(), *_hard_facts(), *_scores()]
    return {problem.name.split("'")[1]: problem for problem in made}


def _case(
    name: str,
    cards: Sequence[Sequence[int]],
    factors: Sequence[Factor] = (),
    node: ArrayLike | None = None,
    const: ArrayLike | None = None,
    allowed: ArrayLike | None = None,
) -> Problem:
    """Return a problem from plain lists; node scores are 0.1, 0.2, 0.3 ... where none are given."""
    groups = grouped(cards, [factor[:3] for factor in factors])
    tables = [
        np.stack(
            [np.ravel(table) for template, e, scope, table in factors if _name(template, cards[e], scope) == g.name]
        )
        for g in groups
    ]
    return _problem(name, _program(cards, groups, allowed), tables, node, const)


def _name(template: str, card: Sequence[int], scope: Sequence[int]) -> str:
    return f"{template}{tuple(card[v] for v in scope)}"


def _program(cards: Sequence[Sequence[int]], groups: Sequence[Group], allowed: ArrayLike | None = None) -> Program:
    card = np.array([c for one in cards for c in one], dtype=np.int32)
    var_ptr = pointers(np.array([len(one) for one in cards], dtype=np.int64))
    mask = None if allowed is None else np.array(allowed, dtype=bool)
    return Program(var_ptr, card, tuple(groups), allowed=mask).validate()


def _problem(
    name: str,
    program: Program,
    tables: Sequence[F64],
    node: ArrayLike | None = None,
    const: ArrayLike | None = None,
) -> Problem:
    scores: Any = 0.1 * np.arange(1, program.n_states + 1) if node is None else np.asarray(node, dtype=float)
    theta = Theta.of(program, scores, tables, None if const is None else np.asarray(const, dtype=float))
    return Problem(f"catalogue()['{name}']", program, theta)


def _sizes() -> Iterator[Problem]:
    """Yield the smallest problems."""
    yield _case("one state", [[1]])
    yield _case("one variable", [[3]], node=[1.0, 3.0, 2.0], const=[0.5])
    yield _case("no variables", [[]], const=[1.5])
    yield _case("no examples", [])
    yield _case("empty example in the middle", [[2, 2], [], [3]], [("t", 0, (0, 1), _DIFFER)], const=[1.0, -2.0, 0.0])
    chain = [("t", 0, (0, 1), [[0.0, 2.0, 1.0]]), ("t", 0, (1, 2), [[1.0], [0.0], [4.0]])]
    yield _case("single states inside a chain", [[1, 3, 1]], chain)
    yield _case("single states only", [[1, 1], [1]], [("t", 0, (0, 1), [[2.5]])])
    yield _case("unary only", [[2, 3], [4]])
    empty = Group.of(
        "t", (2, 2), np.zeros((0, 2), np.int32), np.zeros(2, np.int64), np.zeros(0, np.int32), 1, np.array([0, 2])
    )
    yield _problem("group without factors", _program([[2, 2]], [empty]), [np.ones((1, 4))])


def _graphs() -> Iterator[Problem]:
    """Yield graphs whose factors name their variables in different orders."""
    step = np.arange(6.0).reshape(2, 3) % 4
    yield _case("numbered backwards", [[2, 3, 2]], [("t", 0, (2, 1), step), ("t", 0, (1, 0), step.T)])
    yield _case("chain through the middle", [[2, 2, 2]], [("t", 0, (0, 2), _DIFFER), ("t", 0, (2, 1), _DIFFER)])
    steps: list[Factor] = [("t", 0, (v, v + 1), np.arange(9.0).reshape(3, 3) * (v + 1) % 5) for v in range(3)]
    yield _case("chain", [[3] * 4], steps)
    turned: list[Factor] = [(t, e, scope[::-1], table) for t, e, scope, table in steps]
    yield _case("chain with all factors turned", [[3] * 4], turned)
    yield _case("chain with one factor turned", [[3] * 4], [steps[0], turned[1], steps[2]])
    both = [
        ("a", 0, (0, 1), step),
        ("b", 0, (1, 0), 2 * step[::-1].T),
        ("a", 0, (0, 1), -step),
        ("b", 0, (0, 1), step),
    ]
    yield _case("four factors on one pair", [[2, 3]], both)
    yield _case("long chain", [[2] * 12], [("t", 0, (v, v + 1), _DIFFER) for v in range(11)])
    yield _case("star", [[3, 2, 2, 2]], [("t", 0, (0, v), step.T * v) for v in (1, 2, 3)])
    legs = [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)]
    yield _case("tree with two branchings", [[2] * 6], [("t", 0, edge, _DIFFER) for edge in legs])
    yield _case("parts", [[2] * 5], [("t", 0, (0, 3), _EQUAL), ("t", 0, (4, 1), _DIFFER)])
    ring = [("t", 0, edge, np.array(_DIFFER) * 2) for edge in ((0, 1), (1, 2), (2, 0))]
    yield _case("frustrated triangle", [[2, 2, 2]], ring)
    beside: list[Factor] = [("t", 0, (0, 1), _DIFFER), *(("t", 1, (v, 0), _EQUAL) for v in (1, 2, 3))]
    yield _case("chain beside a star", [[2, 2], [2] * 4, [2]], beside)
    odd = np.indices((2, 2, 2)).sum(axis=0) % 2
    yield _case("parity of three", [[2, 2, 2]], [("t", 0, (2, 0, 1), 3.0 * odd)])
    four = np.arange(24.0).reshape(2, 3, 2, 2) % 7
    yield _case("arity four", [[2, 2, 2, 3]], [("q", 0, (1, 3, 0, 2), four), ("p", 0, (3, 0), step.T)])
    yield from _asymmetric()
    yield _shared_rows()


def _asymmetric() -> Iterator[Problem]:
    """Yield tables without symmetry over variables of as many states each, named in every order or some."""
    rng = np.random.default_rng(0)
    orders: dict[int, list[tuple[int, ...]]] = {3: list(permutations(range(3)))}
    orders[4] = [(0, 1, 2, 3), (1, 2, 3, 0), (3, 2, 1, 0), (2, 0, 3, 1), (0, 2, 1, 3)]
    for arity, some in orders.items():
        tables: list[Factor] = [("t", e, order, rng.normal(size=(3,) * arity)) for e, order in enumerate(some)]
        yield _case(f"tables of {arity} equal variables", [[3] * arity] * len(some), tables)


def _shared_rows() -> Problem:
    """Two examples that share table rows; one of the rows is unused and holds ``-inf``."""
    scope, ptr = np.array([[0, 1], [1, 2], [3, 4]], np.int32), np.array([0, 2, 3])
    group = Group.of("t", (2, 2), scope, ptr, np.array([2, 0, 2], np.int32), 3, np.array([0, 3, 5]))
    table = np.array([[1.0, 0.0, 0.0, 1.0], [-_INF] * 4, [0.0, 2.0, 1.0, 0.0]])
    return _problem("shared table rows", _program([[2] * 3, [2] * 2], [group]), [table])


def _hard_facts() -> Iterator[Problem]:
    """Yield masks and forbidden scores."""
    pair: list[Factor] = [("t", 0, (0, 1), _EQUAL)]
    yield _case("mask against the best", [[2, 2]], pair, node=[5.0, 0.0, 4.0, 0.0], allowed=[0, 1, 1, 1])
    yield _case("mask leaves one labelling", [[2, 3], [2]], allowed=[1, 0, 0, 0, 1, 1, 1])
    yield _case("mask leaves nothing", [[2, 2], [2]], pair, allowed=[1, 1, 0, 0, 1, 1])
    yield _case("forbidden state is best no more", [[2, 2]], pair, node=[-_INF, 0.0, 9.0, 0.0])
    yield _case("forbidden states alone", [[2, 3], [2]], node=[0.0, -_INF, -_INF, 1.0, 2.0, -_INF, -_INF])
    yield _case("no state left", [[2, 2], [2, 2]], [*pair, ("t", 1, (0, 1), _EQUAL)], node=[-_INF] * 2 + [0.0] * 6)
    only = [[-_INF, -_INF], [1.0, -_INF]]
    yield _case("table allows one pair", [[2, 2, 2]], [("t", 0, (0, 1), only), ("t", 0, (1, 2), _DIFFER)])
    clash = [("t", 0, (0, 1), only), ("t", 0, (1, 2), only)]
    yield _case("tables contradict each other", [[2, 2, 2], [2]], clash)
    yield _case("table forbids everything", [[2, 2], [3]], [("t", 0, (0, 1), np.full((2, 2), -_INF))])
    cycle: F64 = np.where(np.eye(3, k=1) + np.eye(3, k=-2) > 0, 0.0, -_INF)
    yield _case("states must rotate", [[3] * 4], [("t", 0, (v, v + 1), cycle) for v in range(3)])
    yield _case("mask and table disagree", [[2, 2]], [("t", 0, (0, 1), only)], allowed=[1, 0, 1, 1])


def _scores() -> Iterator[Problem]:
    """Yield extreme and tied scores."""
    flat: list[Factor] = [("t", 0, (v, v + 1), np.zeros((2, 2))) for v in range(3)]
    yield _case("everything ties", [[2] * 4], flat, node=np.zeros(8))
    yield _case("mirror images tie", [[2] * 4], [("t", 0, (v, v + 1), _DIFFER) for v in range(3)], node=np.zeros(8))
    large = [("t", 0, (0, 1), np.array(_DIFFER) * 1e9)]
    yield _case("large beside small", [[2, 2], [2]], large, node=[1e-9, 0.0, 0.0, 2e-9, 1e-9, 3e-9])
    deep = [("t", 0, (v, v + 1), np.full((2, 2), -400.0)) for v in range(3)]
    yield _case("probabilities underflow", [[2] * 4], deep, node=[-800.0, -801.0] * 4)
    high = [("t", 0, (v, v + 1), np.full((2, 2), 400.0)) for v in range(3)]
    yield _case("probabilities overflow", [[2] * 4], high, node=[800.0, 801.0] * 4)
    rng, edges = np.random.default_rng(1), [(u, v) for v in range(7) for u in range(v)]
    node = 1e4 + rng.normal(size=21)  # in proportion to these scores a gap is small that is not
    dense: list[Factor] = [("t", 0, edge, rng.normal(size=(3, 3))) for edge in edges]
    yield _case("large scores of all states", [[3] * 7], dense, node)
    yield _case("constants only", [[2], [2]], node=np.zeros(4), const=[-7.0, 1e6])
