"""Small random problems around constraints over random literals, for the conformance kit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import I32, I64, ConstraintGroup, Group, Program, Theta, owners, pointers

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
