"""Seeded random problems at the level of the intermediate representation, small enough for brute force.

A :class:`Recipe` describes the contents of a problem; :func:`seeded` makes the problem of a recipe and a seed,
and its name is the Python expression that reproduces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ssvm_dsl.array_types import F64, I32
from ssvm_dsl.ir import Caps, Group, Program, Theta, Topology
from ssvm_dsl.ir.ragged import pointers

#: Labellings of the largest example that is made.
MAX_LABELLINGS = 5000

#: A factor before it is put into a group: template, example, variables (numbers within the example).
Factor = tuple[str, int, tuple[int, ...]]


class Scores(StrEnum):
    """The distribution of random scores."""

    NORMAL = "normal"
    INTEGER = "integer"  # -2 ... 2, so that ties are frequent
    HUGE = "huge"
    TINY = "tiny"
    MIXED = "mixed"  # a random magnitude for each array, 1e-6 ... 1e6


@dataclass(frozen=True, eq=False)
class Problem:
    """A program with scores.

    Parameters
    ----------
    name : str
        An expression that reproduces it.
    program : Program
    theta : Theta
    """

    name: str
    program: Program
    theta: Theta

    @property
    def n_labellings(self) -> float:
        """Labellings of all examples together."""
        return sum(self.program.n_labellings(i) for i in range(self.program.n_examples))

    @property
    def has_masks(self) -> bool:
        """Whether there is a mask."""
        return self.program.allowed is not None

    @property
    def has_constraints(self) -> bool:
        """Whether there is a hard constraint."""
        return any(group.n_constraints for group in self.program.constraints)

    @property
    def has_forbidden_scores(self) -> bool:
        """Whether a score is ``-inf``."""
        return bool(np.isneginf(self.theta.node).any() or np.isneginf(self.theta.pool).any())

    @property
    def has_empty_example(self) -> bool:
        """Whether an example has no variable."""
        return bool((np.diff(self.program.var_ptr) == 0).any())

    def scaled(self, factor: float) -> Problem:
        """Return the same problem with all scores multiplied."""
        tables = [table * factor for table in self.theta.tables]
        theta = Theta.of(self.program, self.theta.node * factor, tables, self.theta.const * factor)
        return Problem(f"{factor} times {self.name}", self.program, theta)

    def agree(self, scores: F64, others: F64) -> bool:
        """Whether scores (or bounds) of labellings are equal up to the rounding errors of sums of this size."""
        size = sum(np.abs(array[np.isfinite(array)]).sum() for array in (self.theta.node, self.theta.pool))
        with np.errstate(invalid="ignore"):  # infinities that are equal
            near = np.abs(scores - others) <= 1e-9 * max(size, 1e-300)
        return bool((near | (scores == others)).all())

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, repr=False)
class Recipe:
    """The possible contents of a random problem.

    Parameters
    ----------
    topology : Topology
        Shape of the examples (an example may come out simpler).
    max_arity : int
        Largest factor (of chains and forests: 2 at most); 1 for node scores alone.
    n_examples, max_variables, max_card : int
        Number of examples, and the most variables of an example and states of a variable.
    n_templates : int
        Factor templates; each gives one group for every combination of numbers of states that occurs.
    density : float
        Probability of each possible edge; below 1 examples may have several components.
    same_card : bool
        All variables have ``max_card`` states.
    shuffled : bool
        Neighbours are not numbered one after the other.
    turned : bool
        Factors name their variables in any order.
    repeats : bool
        Several factors over the same variables, in one group or several.
    tied : bool
        Factors share few table rows.
    masks, forbidden : bool
        Some states are not allowed; some scores are ``-inf``.
    empty : bool
        One more example, without variables.
    regular : bool
        Tables are ``-c |s - t|`` with ``c >= 0``: submodular, and a metric.
    scores : Scores
    """

    topology: Topology = Topology.LOOPY
    max_arity: int = 2
    n_examples: int = 3
    max_variables: int = 5
    max_card: int = 3
    n_templates: int = 2
    density: float = 0.8
    same_card: bool = False
    shuffled: bool = True
    turned: bool = True
    repeats: bool = True
    tied: bool = False
    masks: bool = False
    forbidden: bool = False
    empty: bool = False
    regular: bool = False
    scores: Scores = Scores.NORMAL

    def __repr__(self) -> str:
        changed = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                enum = isinstance(value, Topology | Scores)
                changed.append(f"{field.name}={f'{type(value).__name__}.{value.name}' if enum else repr(value)}")
        return f"Recipe({', '.join(changed)})"


def random_recipe(rng: np.random.Generator, caps: Caps) -> Recipe:
    """Return a recipe whose problems a backend of these capabilities covers."""
    topology = caps.topology if rng.random() < 0.5 else Topology(int(rng.integers(0, caps.topology + 1)))
    regular = bool(caps.requires & {"submodular", "metric", "semimetric"})
    arity = min(caps.max_arity, 4 if topology is Topology.LOOPY and not regular else 2)
    likely = dict(zip(("same_card", "shuffled", "turned", "repeats", "tied"), rng.random(5) < 0.5, strict=True))
    rarer = dict(zip(("masks", "forbidden", "empty"), rng.random(3) < 0.35, strict=True))
    return Recipe(
        topology=topology,
        max_arity=int(rng.integers(min(2, arity), arity + 1)),
        n_examples=int(rng.integers(1, 6)),
        max_variables=int(rng.choice([1, 3, 5, 8], p=[0.1, 0.2, 0.3, 0.4])),
        max_card=2 if "binary" in caps.requires else int(rng.integers(2, 6)),
        n_templates=int(rng.integers(1, 4)),
        density=float(rng.choice([0.0, 0.5, 0.8, 1.0], p=[0.1, 0.2, 0.3, 0.4])),
        regular=regular,
        scores=list(Scores)[int(rng.choice(5, p=[0.4, 0.3, 0.1, 0.1, 0.1]))],
        **{flag: bool(on) for flag, on in (likely | rarer).items()},
    )


def seeded(recipe: Recipe, seed: int) -> Problem:
    """Return the problem of a recipe and a seed, named by the call that makes it."""
    return random_problem(np.random.default_rng(seed), recipe, f"seeded({recipe!r}, {seed})")


def random_problem(rng: np.random.Generator, recipe: Recipe, name: str = "random problem") -> Problem:
    """Return a random problem; every example has at most ``MAX_LABELLINGS`` labellings."""
    cards = [_draw_cards(rng, recipe) for _ in range(recipe.n_examples)]
    if recipe.empty:
        cards.insert(int(rng.integers(0, len(cards) + 1)), [])
    factors = [
        (template, example, scope)
        for example, card in enumerate(cards)
        for template, scope in _draw_factors(rng, recipe, len(card))
    ]
    var_ptr = pointers(np.array([len(one) for one in cards], dtype=np.int64))
    groups = [_draw_rows(rng, group, recipe.tied, var_ptr) for group in grouped(cards, factors)]
    card = np.array([c for one in cards for c in one], dtype=np.int32)
    allowed = _draw_mask(rng, card) if recipe.masks else None
    program = Program(var_ptr, card, tuple(groups), allowed=allowed).validate()
    return Problem(name, program, random_theta(rng, program, recipe))


def random_theta(rng: np.random.Generator, program: Program, recipe: Recipe) -> Theta:
    """Return random scores for a program."""
    node = _draw_scores(rng, recipe, program.n_states)
    tables = []
    for group in program.groups:
        shape = (group.n_tables, group.n_configs)
        if recipe.regular:
            distance = np.abs(np.subtract.outer(*(np.arange(c) for c in group.cards)))
            steepness = np.abs(_draw_scores(rng, recipe, group.n_tables, forbid=False))
            tables.append(-np.multiply.outer(steepness, distance.astype(float)).reshape(shape))
        else:
            tables.append(_draw_scores(rng, recipe, group.n_tables * group.n_configs).reshape(shape))
    const = _draw_scores(rng, recipe, program.n_examples, forbid=False)
    return Theta.of(program, node, tables, const)


def grouped(cards: Sequence[Sequence[int]], factors: Iterable[Factor]) -> list[Group]:
    """Return factors as groups, one for each template and combination of numbers of states.

    Factors come in the order of their examples and keep it; each has its own table row.
    """
    first = pointers(np.array([len(one) for one in cards], dtype=np.int64))
    buckets: dict[tuple[str, tuple[int, ...]], list[Factor]] = {}
    for factor in factors:
        template, example, scope = factor
        key = (template, tuple(cards[example][v] for v in scope))
        buckets.setdefault(key, []).append(factor)
    out = []
    for (template, states), members in buckets.items():
        owner = np.array([example for _, example, _ in members], dtype=np.int64)
        variables = np.array([[first[example] + v for v in one] for _, example, one in members], dtype=np.int32)
        ptr = pointers(np.bincount(owner, minlength=len(cards)))
        rows = np.arange(len(members), dtype=np.int32)
        out.append(Group.of(f"{template}{states}", states, variables, ptr, rows, len(members), first))
    return out


def _draw_cards(rng: np.random.Generator, recipe: Recipe) -> list[int]:
    """Return the numbers of states of one example's variables."""
    cards: list[int] = []
    for _ in range(int(rng.integers(1, recipe.max_variables + 1))):
        card = recipe.max_card if recipe.same_card else int(rng.integers(1, recipe.max_card + 1))
        if np.prod([*cards, card]) > MAX_LABELLINGS:
            break
        cards.append(card)
    return cards


def _draw_factors(rng: np.random.Generator, recipe: Recipe, n: int) -> list[tuple[str, tuple[int, ...]]]:
    """Return (template, variables) of one example's factors."""
    if recipe.max_arity < 2 or n < 2:
        return []
    scopes = _draw_edges(rng, recipe, n)
    if recipe.max_arity > 2 and recipe.topology is Topology.LOOPY:
        sizes = rng.integers(2, recipe.max_arity + 1, size=2)
        scopes += [tuple(int(v) for v in rng.permutation(n)[:size]) for size in sizes if size <= n]
    out = []
    for scope in scopes:
        for _ in range(1 + int(recipe.repeats and rng.random() < 0.4)):
            order = rng.permutation(len(scope)) if recipe.turned else range(len(scope))
            out.append((f"t{rng.integers(recipe.n_templates)}", tuple(scope[k] for k in order)))
    return out


def _draw_edges(rng: np.random.Generator, recipe: Recipe, n: int) -> list[tuple[int, ...]]:
    """Return the edges of a random chain, forest or graph on n variables."""
    number = rng.permutation(n) if recipe.shuffled else np.arange(n)
    edges = []
    for v in range(1, n):
        before = v - 1 if recipe.topology is Topology.CHAIN else int(rng.integers(0, v))
        edges.append((before, v))
    if recipe.topology is Topology.LOOPY:
        edges += [(u, v) for v in range(n) for u in range(v) if rng.random() < 0.3 and (u, v) not in edges]
    kept = [edge for edge in edges if rng.random() < recipe.density]
    return [(int(number[u]), int(number[v])) for u, v in kept]


def _draw_rows(rng: np.random.Generator, group: Group, tied: bool, var_ptr: NDArray[np.int64]) -> Group:
    """Return the group with table rows in random order, or with a few shared rows, some of them unused."""
    n = group.n_factors
    n_tables = int(rng.integers(1, 4)) if tied else n
    rows = rng.integers(0, n_tables, size=n) if tied else rng.permutation(n)
    return Group.of(group.name, group.cards, group.scope, group.ptr, rows.astype(np.int32), n_tables, var_ptr)


def _draw_mask(rng: np.random.Generator, card: I32) -> NDArray[np.bool_]:
    """Return a random mask that leaves each variable at least one state."""
    ptr = pointers(card)
    allowed = rng.random(int(ptr[-1])) < 0.7
    allowed[ptr[:-1] + rng.integers(0, card)] = True
    return allowed


def _draw_scores(rng: np.random.Generator, recipe: Recipe, size: int, forbid: bool = True) -> F64:
    kind = recipe.scores
    scores = rng.integers(-2, 3, size=size).astype(float) if kind is Scores.INTEGER else rng.standard_normal(size)
    if kind is Scores.MIXED:
        scores *= 10.0 ** rng.integers(-6, 7)
    scores *= {Scores.HUGE: 1e8, Scores.TINY: 1e-8}.get(kind, 1.0)
    if recipe.forbidden and forbid:
        scores[rng.random(size) < 0.12] = -np.inf
    return scores


# -- hand-made problems for the cases that random ones meet too rarely ---------------------------------------------

#: Template, example, variables (numbers within the example), table.
TabledFactor = tuple[str, int, tuple[int, ...], ArrayLike]


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
    factors: Sequence[TabledFactor] = (),
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
    steps: list[TabledFactor] = [("t", 0, (v, v + 1), np.arange(9.0).reshape(3, 3) * (v + 1) % 5) for v in range(3)]
    yield _case("chain", [[3] * 4], steps)
    turned: list[TabledFactor] = [(t, e, scope[::-1], table) for t, e, scope, table in steps]
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
    beside: list[TabledFactor] = [("t", 0, (0, 1), _DIFFER), *(("t", 1, (v, 0), _EQUAL) for v in (1, 2, 3))]
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
        tables: list[TabledFactor] = [("t", e, order, rng.normal(size=(3,) * arity)) for e, order in enumerate(some)]
        yield _case(f"tables of {arity} equal variables", [[3] * arity] * len(some), tables)


def _shared_rows() -> Problem:
    """Two examples that share table rows; one of the rows is unused and holds ``-inf``."""
    scope, ptr = np.array([[0, 1], [1, 2], [3, 4]], np.int32), np.array([0, 2, 3])
    group = Group.of("t", (2, 2), scope, ptr, np.array([2, 0, 2], np.int32), 3, np.array([0, 3, 5]))
    table = np.array([[1.0, 0.0, 0.0, 1.0], [-_INF] * 4, [0.0, 2.0, 1.0, 0.0]])
    return _problem("shared table rows", _program([[2] * 3, [2] * 2], [group]), [table])


def _hard_facts() -> Iterator[Problem]:
    """Yield masks and forbidden scores."""
    pair: list[TabledFactor] = [("t", 0, (0, 1), _EQUAL)]
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
    flat: list[TabledFactor] = [("t", 0, (v, v + 1), np.zeros((2, 2))) for v in range(3)]
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
    dense: list[TabledFactor] = [("t", 0, edge, rng.normal(size=(3, 3))) for edge in edges]
    yield _case("large scores of all states", [[3] * 7], dense, node)
    yield _case("constants only", [[2], [2]], node=np.zeros(4), const=[-7.0, 1e6])
