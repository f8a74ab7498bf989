"""Large batches of few shapes are worked on in chunks: programs of some examples, whose structure repeats.

Solvers for general graphs prepare an entry for every factor.  For a complete graph of 159 labels and 4880
examples that would be 61 million of them, all alike.  A chunk is a separate program whose tables are copied side by
side, so that chunks of examples of the same shapes have exactly the same structure, and what was prepared for one
serves all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ssvm_dsl.array_types import I64
from ssvm_dsl.ir.analysis.topology import Topology
from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.ragged import bounded_slices, members, pointers, runs
from ssvm_dsl.ir.theta import Theta

#: Variables of factors, counted in every factor, from which on a batch is worked on in chunks; and of a chunk.
LARGE, CHUNK = 2**22, 2**20

#: A batch has at least so many times the factors of its shapes, or chunks would save nothing.
REPEATED = 8


def chunk_share(program: Program) -> float:
    """Return which share of a program's factors is worked on at a time: 1 where it is worked on as a whole."""
    slots = stored = 0
    for group in program.groups:
        slots += group.n_factors * group.arity
        stored += group.shapes.scope.size
    if slots < LARGE or slots < REPEATED * stored or program.constraints or program.hardest_topology < Topology.LOOPY:
        return 1.0
    return CHUNK / slots


def chunks(program: Program, ids: I64) -> Iterator[slice]:
    """Yield the parts of a selection, in order, that are worked on together: one example, or some small ones."""
    slots = np.zeros(len(ids), dtype=np.int64)
    for group in program.groups:
        slots += group.shapes.counts[ids] * group.arity
    return bounded_slices(slots, CHUNK)


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some examples of a program as a separate program.

    Parameters
    ----------
    program : Program
    states : ndarray of int64
        Where its unary scores are in those of the whole program.
    rows : tuple of ndarray of int64 or slice
        For each group, the rows of the whole program's tables that its own are copies of.
    """

    program: Program
    states: I64
    rows: tuple[I64 | slice, ...]

    @classmethod
    def of(cls, program: Program, ids: I64) -> Chunk:
        """Return the chunk of some examples; tables that all of them share stay shared."""
        part, rows, groups = program.take(ids), [], []
        for group in part.groups:
            made, mine = _own_rows(group)
            groups.append(made)
            rows.append(mine)
        states = members(program.state_ptr, members(program.var_ptr, ids))
        return cls(replace(part, groups=tuple(groups)), states, tuple(rows))

    def theta(self, whole: Theta, ids: I64) -> Theta:
        """Return the scores of the chunk, copied from those of the whole program."""
        out = Theta.zeros(self.program)
        out.node[:], out.const[:] = whole.node[self.states], whole.const[ids]
        for mine, given, rows in zip(out.tables, whole.tables, self.rows, strict=True):
            mine[:] = given[rows]
        return out

    def key(self) -> tuple[bytes, ...]:
        """Return what its structure follows from: chunks of equal keys differ in nothing but their scores."""
        program = self.program
        bases = [group.table_base.tobytes() for group in program.groups]
        allowed = b"" if program.allowed is None else np.packbits(program.allowed).tobytes()
        return (program.var_ptr.tobytes(), program.card.tobytes(), allowed, *bases, *_shapes(program))


def _shapes(program: Program) -> list[bytes]:
    return [group.shapes.of.tobytes() for group in program.groups]


def _own_rows(group: Group) -> tuple[Group, I64 | slice]:
    """Return a group with its own tables, and the rows of the given tables that they copy."""
    base, shapes = group.table_base, group.shapes
    if not len(base) or (base == base[0]).all():
        return group, slice(None)
    spans = np.zeros(shapes.n_shapes, dtype=np.int64)
    filled = np.flatnonzero(np.diff(shapes.start))
    spans[filled] = np.maximum.reduceat(group.rows, shapes.start[filled]) + 1
    lengths = spans[shapes.of]
    ends = pointers(lengths)
    return replace(group, table_base=ends[:-1], n_tables=int(ends[-1])), runs(base, lengths)
