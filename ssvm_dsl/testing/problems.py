"""Seeded random problems at the level of the intermediate representation, small enough for brute force.

A :class:`Recipe` describes the contents of a problem; :func:`seeded` makes the problem of a recipe and a seed,
and its name is the Python expression that reproduces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

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
