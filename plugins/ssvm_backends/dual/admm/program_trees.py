"""Constraints that are directed trees, as factors of AD3: of a program, and of the reduced examples asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, Program, members, pointers

#: The kinds that are trees, and which of them have no crossing arcs.
PROJECTIVE = {"arborescence": False, "projective-tree": True}

#: Most trees in a set.
MAX_TREES = 128

#: What masks and clamps have made of a literal, where it is no entry.
TRUE, FALSE = -1, -2



class TreeFactors(NamedTuple):
    """Trees over entries of rows (:class:`~ssvm_backends.dual.admm.rows.RowFactors`).

    Parameters
    ----------
    of_row : ndarray of int64, shape (R,)
        The tree of each row, -1 for a row that is one.
    ptr : ndarray of int64, shape (T + 1,)
        Literals of each tree.
    head, dependent : ndarray of int32, shape (L,)
        The arc of each literal.
    entry : ndarray of int64, shape (L,)
        The entry of each literal, ``TRUE`` or ``FALSE`` where it is decided.
    n : ndarray of int64, shape (T,)
        Number of tokens.
    single, projective : ndarray of bool, shape (T,)
        Whether the root has a single dependent, and whether arcs must not cross.
    set_ptr : ndarray of int64, shape (T + 1,)
        Where the sets of trees are.
    place_ptr : ndarray of int64, shape (T + 1,)
        Where their literals are, one for each tree and token.
    """

    of_row: I64
    ptr: I64
    head: I32
    dependent: I32
    entry: I64
    n: I64
    single: Bools
    projective: Bools
    set_ptr: I64
    place_ptr: I64


class TreeSets(NamedTuple):
    """The sets of trees whose mixtures are the copies of :class:`TreeFactors`.

    Parameters
    ----------
    literal : ndarray of int32
        Of each tree in a set the literal of each token, ``n + 1`` apart.
    weight : ndarray of float64
    size : ndarray of int64, shape (T,)
        How many trees a set has.
    """

    literal: I32
    weight: F64
    size: I64

    @classmethod
    def start(cls, trees: TreeFactors) -> TreeSets:
        """Return the active sets of the trees, all of them empty."""
        size, places = int(trees.set_ptr[-1]), int(trees.place_ptr[-1])
        return cls(np.zeros(places, np.int32), np.zeros(size), np.zeros(len(trees.n), np.int64))


def is_tree(group: ConstraintGroup) -> bool:
    """Return whether constraints are directed trees."""
    return group.kind in PROJECTIVE


@dataclass(frozen=True, eq=False)
class ProgramTrees:
    """The trees of a program, one example's after the other's; arrays as in :class:`TreeFactors`.

    Parameters
    ----------
    ptr : ndarray of int64, shape (B + 1,)
        Trees of each example.
    literal_ptr : ndarray of int64, shape (T + 1,)
    column : ndarray of int64, shape (L,)
        The state of each literal.
    coefficient : ndarray of float64, shape (L,)
        -1 where it says "has not".
    head, dependent : ndarray of int32, shape (L,)
    n : ndarray of int64, shape (T,)
    single, projective : ndarray of bool, shape (T,)
    """

    ptr: I64
    literal_ptr: I64
    column: I64
    coefficient: F64
    head: I32
    dependent: I32
    n: I64
    single: Bools
    projective: Bools

    @classmethod
    def from_program(cls, program: Program) -> ProgramTrees:
        """Return the trees of a program."""
        groups = [group for group in program.constraints if is_tree(group)]
        example = _joined([group.example_of for group in groups], np.int64)
        order = np.argsort(example, kind="stable")
        sizes = _joined([np.diff(group.literal_ptr) for group in groups], np.int64)
        literals = members(pointers(sizes), order)
        first = [program.var_ptr[:-1][group.example_of].repeat(np.diff(group.literal_ptr)) for group in groups]
        states = [program.state_ptr[at + one.variable] + one.state for at, one in zip(first, groups, strict=True)]
        signs = [np.where(group.negated, -1.0, 1.0) for group in groups]
        arcs = [_joined([group.literal_meta[name] for group in groups], np.int32) for name in ("head", "dependent")]
        flags = [np.full(group.n_constraints, PROJECTIVE[group.kind]) for group in groups]
        return cls(
            pointers(np.bincount(example, minlength=program.n_examples)), pointers(sizes[order]),
            _joined(states, np.int64)[literals], _joined(signs, np.float64)[literals],
            arcs[0][literals], arcs[1][literals], _joined([group.meta["n"] for group in groups], np.int64)[order],
            _joined([group.meta["single_root"] for group in groups], np.bool_)[order], _joined(flags, np.bool_)[order],
        )  # fmt: skip

    def mine(self, i: int) -> range:
        """Return the directed-tree constraints of example i."""
        return range(int(self.ptr[i]), int(self.ptr[i + 1]))

    def rows(self, i: int) -> Iterator[tuple[I64, I64, F64, F64, F64, F64, F64]]:
        """Yield a row for each tree of an example: its length, columns and coefficients, without bounds."""
        none = np.zeros(0)
        for t in self.mine(i):
            part = slice(int(self.literal_ptr[t]), int(self.literal_ptr[t + 1]))
            length, ends = np.array([part.stop - part.start]), np.array([np.inf])
            yield length, self.column[part], self.coefficient[part], -ends, ends, none, none

    def of_rows(self, row_ptr: I64) -> I64:
        """Return the tree of each row (-1: none); those of an example are its last ones."""
        counts = np.diff(self.ptr)
        out = np.full(int(row_ptr[-1]), -1, dtype=np.int64)
        out[members(np.stack([row_ptr[1:] - counts, row_ptr[1:]], axis=1).ravel(), 2 * np.arange(len(counts)))] = (
            np.arange(int(self.ptr[-1]))
        )
        return out

    def factors(self, chosen: I64, entry: I64) -> TreeFactors:
        """Return some trees as factors, of no rows yet.

        Parameters
        ----------
        chosen : ndarray of int64, shape (T,)
        entry : ndarray of int64, shape (L,)
            Of each of their literals, as in :class:`TreeFactors`.
        """
        literals, ptr = members(self.literal_ptr, chosen), pointers(np.diff(self.literal_ptr)[chosen])
        owner = np.arange(len(chosen)).repeat(np.diff(ptr))
        sets = np.minimum(np.bincount(owner, entry >= 0, len(chosen)).astype(np.int64) + 1, MAX_TREES)
        return TreeFactors(
            np.zeros(0, np.int64), ptr, self.head[literals], self.dependent[literals], entry, self.n[chosen],
            self.single[chosen], self.projective[chosen], pointers(sets), pointers(sets * (self.n[chosen] + 1)),
        )  # fmt: skip


def _joined(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    """Return arrays one after the other, of which there may be none."""
    return np.concatenate([np.zeros(0, dtype), *parts]).astype(dtype)
