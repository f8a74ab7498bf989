"""``CountTables``: scores of labellings by two of their counts, for losses that do not add up over variables.

Each state of each variable has two natural numbers (say: 1 and 0 where it is a true positive, 0 and 1 where it is a
false one); the counts (a, b) of a labelling are their sums over its variables.  Segments whose spans are no variables
are counted by factors, too.  A labelling y is worth

    offset[a, b] + scale[a, b] score(y)

with two tables for each example: a loss of the counts is an offset, slack rescaling is both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.ir.analysis.segments import KINDS, segment_variables
from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.ragged import owners, positions, runs
from ssvm_dsl.ir.solution import chosen_states, label_ptr, select


@dataclass(frozen=True, eq=False)
class CountFactors:
    """Counts of the joint states of the factors of a group.

    Parameters
    ----------
    group : Group
        Of starts of segments, or of spans that are no variables.
    counts : ndarray of int64, shape (n_tables, n_configs, 2)
        What each joint state adds.  It may be negative, where all counts of a whole segment are not.
    """

    group: Group
    counts: I64


@dataclass(frozen=True, eq=False)
class CountTables:
    """Two counts of labellings, and the score of each pair of counts, for some examples.

    Parameters
    ----------
    counts : ndarray of int64, shape (S, 2)
        Two natural numbers for each state of each variable of the program.
    shape : ndarray of int64, shape (n, 2)
        Rows and columns of the tables of each example: labellings of a larger count are not wanted.
    start : ndarray of int64, shape (n,)
        Where they start in ``offset`` and ``scale``; examples may share tables.
    offset : ndarray of float64
        The tables, row by row; ``-inf`` where no labelling of these counts is wanted.
    scale : ndarray of float64
        Likewise; non-negative and finite.
    factors : tuple of CountFactors
        Counts of joint states.  Programs that questions are about end with their groups.
    """

    counts: I64
    shape: I64
    start: I64
    offset: F64
    scale: F64
    factors: tuple[CountFactors, ...] = ()

    @classmethod
    def of_prices(
        cls, counts: I64, shape: I64, start: I64, price: F64, factors: tuple[CountFactors, ...] = ()
    ) -> CountTables:
        """Return the tables of labellings that are worth ``price[a, b] + score``."""
        return cls(counts, shape, start, price, np.ones_like(price), factors)

    @property
    def n_cells(self) -> I64:
        """Size of each example's table."""
        return np.asarray(self.shape[:, 0] * self.shape[:, 1])

    def n_beliefs(self, program: Program) -> F64:
        """Return how many numbers beliefs of dynamic programming are made of at most, for each example."""
        states = np.diff(program.state_ptr[program.var_ptr])
        for group in program.constraints:
            if group.kind in KINDS and (at := segment_variables(program, group)) is not None:
                states[group.example_of] = (at.n + 1) * at.n_classes  # of the classes of segments that end somewhere
        return np.asarray(states.astype(np.float64) * self.n_cells)

    def select(self, ids: I64) -> CountTables:
        """Return the tables of some examples, in that order."""
        return replace(self, shape=self.shape[ids], start=self.start[ids])

    def own(self) -> CountTables:
        """Return the same with separate tables for every example, one after the other."""
        cells = self.n_cells
        at = runs(self.start, cells)
        return replace(self, start=np.cumsum(cells) - cells, offset=self.offset[at], scale=self.scale[at])

    def largest(self) -> F64:
        """Return the largest offset of each example; ``shape (n,)``."""
        firsts, table = np.unique(self.start, return_index=True)
        ends = firsts + self.n_cells[table]
        most = np.array([self.offset[lo:hi].max(initial=-np.inf) for lo, hi in zip(firsts, ends, strict=True)])
        return np.asarray(most[np.searchsorted(firsts, self.start)], dtype=np.float64)

    def terms(self, program: Program, labels: I32, examples: I64 | None = None) -> tuple[F64, F64]:
        """Return (offset, scale) of a packed labelling of each example of these tables.

        Parameters
        ----------
        labels : ndarray of int32
        examples : ndarray of int64, optional
            The examples of the program that these tables are of; all by default.

        Returns
        -------
        tuple of ndarray of float64, shape (n,)
            ``-inf`` and 0 where the counts are larger than the table.
        """
        states = program.state_ptr[:-1][positions(program.var_ptr, examples)] + labels
        owner, n = owners(label_ptr(program, examples)), len(self.start)
        a, b = (np.bincount(owner, self.counts[states, k], n).astype(np.int64) for k in (0, 1))
        for counted in self.factors:
            ids = select(program, examples)
            owner, rows, states = chosen_states(counted.group, program, labels, ids)
            more = np.where(states[:, None] >= 0, counted.counts[rows, states], 0)
            a, b = (old + np.bincount(owner, more[:, k], n).astype(np.int64) for k, old in enumerate((a, b)))
        inside = (a < self.shape[:, 0]) & (b < self.shape[:, 1])
        at = np.where(inside, self.start + a * self.shape[:, 1] + b, 0)
        if not len(self.offset):
            return np.full(n, -np.inf), np.zeros(n)
        return np.where(inside, self.offset[at], -np.inf), np.where(inside, self.scale[at], 0.0)


def worth(offset: F64, scale: F64, score: F64) -> F64:
    """Return ``offset + scale score``, ``-inf`` where the offset or the score is (whatever the scale)."""
    none = (offset == -np.inf) | (score == -np.inf)
    return np.where(none, -np.inf, offset + scale * np.where(none, 0.0, score))
