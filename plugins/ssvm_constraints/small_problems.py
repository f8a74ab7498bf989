"""Small random problems of binary variables around one structure in each example, for the conformance kit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import I32, I64, Bools, ConstraintGroup, Group, Program, Theta, owners, pointers

#: Literals of an example at most: all of their truth values are tried.
MOST_LITERALS = 9

#: Examples of a problem.
N_EXAMPLES = 4


@dataclass(frozen=True, eq=False)
class Drawn:
    """The constraint of one example.

    Parameters
    ----------
    places : ndarray of int32, shape (l, p)
        What the kind needs to know of each literal: row and column, tail and head.
    numbers : sequence
        What it needs to know of the constraint, in the order of the names.
    """

    places: NDArray[np.int32]
    numbers: Sequence[Any]


def chosen_places(rng: np.random.Generator, places: Sequence[tuple[int, ...]], width: int = 2) -> NDArray[np.int32]:
    """Return most of the places, of so many numbers each, few enough, in random order; seldom one of them twice."""
    array = np.array(places, dtype=np.int32).reshape(-1, width)
    kept = rng.permutation(len(array))[: rng.integers(MOST_LITERALS - 2, MOST_LITERALS + 1)]
    if len(kept) and len(kept) < MOST_LITERALS and rng.random() < 0.3:
        kept = np.append(kept, kept[0])
    return array[kept]


def structure_problem(
    rng: np.random.Generator,
    kind: str,
    draw: Callable[[], Drawn],
    literal_names: tuple[str, ...],
    names: Mapping[str, type],
) -> tuple[Program, Theta]:
    """Return examples with one constraint each, or none, over literals of all forms, and a variable in no literal.

    Parameters
    ----------
    rng : Generator
    kind : str
    draw : callable
        Draws the constraint of one example.
    literal_names : tuple of str
        The names of what each literal has, in the order of ``Drawn.places``.
    names : mapping of str to type
        Name and type of each of ``Drawn.numbers``.
    """
    drawn = [draw() if rng.random() < 0.9 else None for _ in range(N_EXAMPLES)]
    sizes = np.array([0 if one is None else len(one.places) for one in drawn])
    spare = rng.integers(0, 2, N_EXAMPLES)
    var_ptr, there = pointers(sizes + spare), [one for one in drawn if one is not None]
    card = np.full(int(var_ptr[-1]), 2, dtype=np.int32)
    card[var_ptr[1:][spare == 1] - 1] = 3
    n = int(sizes.sum())
    variable = np.concatenate([np.zeros(0, np.int64), *(rng.permutation(size) for size in sizes)]).astype(np.int32)
    places = np.concatenate([np.zeros((0, len(literal_names)), np.int32), *(one.places for one in there)])
    group = ConstraintGroup(
        kind, f"{kind} of the kit", pointers(np.array([one is not None for one in drawn])),
        pointers(np.array([len(one.places) for one in there], dtype=np.int64)), variable,
        rng.integers(0, 2, n).astype(np.int32), rng.random(n) < 0.3,
        {name: np.array([one.numbers[i] for one in there], dtype=t) for i, (name, t) in enumerate(names.items())},
        {name: np.ascontiguousarray(places[:, i]) for i, name in enumerate(literal_names)},
    )  # fmt: skip
    allowed = rng.random(int(card.sum())) < 0.9 if rng.random() < 0.4 else None
    program = Program(var_ptr, card, (), (group,), allowed=allowed).validate()
    scores = rng.integers(-3, 4, program.n_states) if rng.random() < 0.5 else rng.normal(size=program.n_states)
    return program, Theta.of(program, scores.astype(float), (), rng.integers(-3, 4, N_EXAMPLES).astype(float))


def node_sums(group: ConstraintGroup, true: Bools, name: str, sizes: I64) -> I64:
    """Return how many true literals have each number, packed over the constraints.

    Parameters
    ----------
    group : ConstraintGroup
    true : ndarray of bool, shape (l,)
    name : str
        Which number of the literals.
    sizes : ndarray of int64, shape (m,)
        How many different ones each constraint has, counted from 0.
    """
    ptr, mine = pointers(sizes), np.flatnonzero(true)
    first = ptr[:-1][group.constraint_of[mine]] if group.n_constraints > 1 else 0
    return np.bincount(first + group.literal_meta[name][mine], minlength=int(ptr[-1]))


def any_of(flags: Bools, sizes: I64) -> Bools:
    """Return for each constraint whether one of its packed flags is set."""
    if len(sizes) == 1:
        return np.array([flags.any()])
    return np.bincount(owners(pointers(sizes))[flags], minlength=len(sizes)) > 0


def ends_of(follow: I64, longest: int) -> I64:
    """Return where each node ends up after at least so many steps along ``follow`` (by doubling them)."""
    steps = 1
    while steps < longest:
        follow, steps = follow[follow], 2 * steps
    return follow


# -- Small random problems around constraints over random literals, for the conformance kit --------------------------

#: Variables of an example at most; the states of each are two or three.
MOST_VARIABLES = 6


@dataclass(frozen=True, eq=False)
class SmallProblem:
    """A program of disjoint chains, and literals for a few constraints of each example.

    Parameters
    ----------
    rng : Generator
    program : Program
    ptr : ndarray of int64, shape (B + 1,)
        Constraints of each example.
    sizes : ndarray of int64, shape (m,)
        Literals of each constraint.
    """

    rng: np.random.Generator
    program: Program
    ptr: I64
    sizes: I64

    @classmethod
    def draw(cls, rng: np.random.Generator) -> SmallProblem:
        """Return chains of none to six variables, with none to two constraints each, some without literals."""
        lengths = rng.integers(0, MOST_VARIABLES + 1, 3)
        var_ptr = pointers(lengths)
        card = np.full(int(var_ptr[-1]), 2, np.int32) if rng.random() < 0.5 else rng.integers(2, 4, var_ptr[-1])
        program = Program(var_ptr, card.astype(np.int32), _links(var_ptr, card.astype(np.int32)))
        ptr = pointers(rng.integers(0, rng.integers(2, 4), 3))
        most = lengths[owners(ptr)]
        return cls(rng, program, ptr, rng.integers(0, most + 1).astype(np.int64))

    def closed(
        self, kind: str, meta: Mapping[str, NDArray[Any]], literal_meta: Mapping[str, NDArray[Any]] | None = None
    ) -> tuple[Program, Theta]:
        """Return the program with constraints of a kind over different variables each, and random scores."""
        rng, program, example = self.rng, self.program, owners(self.ptr)
        lengths = np.diff(program.var_ptr)
        drawn = [rng.permutation(lengths[i])[:n] for i, n in zip(example, self.sizes, strict=True)]
        variable = np.concatenate([np.zeros(0, np.int64), *drawn]).astype(np.int32)
        card = program.card[program.var_ptr[np.repeat(example, self.sizes)] + variable]
        group = ConstraintGroup(
            kind, f"{kind} of the kit", self.ptr, pointers(self.sizes), variable,
            rng.integers(0, card).astype(np.int32), rng.random(len(variable)) < 0.2, dict(meta), literal_meta or {},
        )  # fmt: skip
        closed = Program(program.var_ptr, program.card, program.groups, (group,)).validate()
        tables = [rng.integers(-3, 4, (g.n_tables, g.n_configs)).astype(float) for g in program.groups]
        return closed, Theta.of(closed, rng.integers(-3, 4, closed.n_states).astype(float), tables)


def _links(var_ptr: I64, card: I32) -> tuple[Group, ...]:
    """Return a factor between neighbours where all variables have as many states, else none."""
    if len(card) == 0 or (card != card[0]).any():
        return ()
    example = owners(var_ptr)
    first = np.flatnonzero(example[1:] == example[:-1])
    scope = np.stack([first, first + 1], axis=1).astype(np.int32)
    ptr = pointers(np.bincount(example[first], minlength=len(var_ptr) - 1))
    table = np.zeros(len(first), np.int32)
    return (Group.of("link", (int(card[0]),) * 2, scope, ptr, table, 1, var_ptr),)
