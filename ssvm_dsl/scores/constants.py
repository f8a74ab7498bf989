"""Scores that no weight multiplies: given ones, and tables of what is ruled out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.solution import label_ptr, select
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.scores.labellings import node_scores


@dataclass(frozen=True, eq=False)
class Constants:
    """The part of :class:`~ssvm_dsl.ir.Theta` that does not depend on weights.

    Parameters
    ----------
    node : ndarray of float64, shape (S,), optional
        What is added to the scores of states; finite (states that are ruled out are masks of the program).
    tables : mapping of int to ndarray, shape (n_tables, prod(cards))
        Tables by the number of the group; ``-inf`` rules a joint state out.  Where a group has weights, too, its
        factors all share one table.
    weighted : set of int
        The groups that have weights.
    """

    node: F64 | None
    tables: dict[int, F64]
    weighted: frozenset[int] = frozenset()

    def fill_shared(self, theta: Theta) -> None:
        """Write the tables that all examples share; add them where weights have filled them before."""
        for g, table in self.tables.items():
            if g in self.weighted:
                theta.tables[g][...] += table
            elif len(table) == 1:
                theta.tables[g][...] = table

    def fill_examples(self, program: Program, theta: Theta, states: slice | I64, examples: I64 | None) -> None:
        """Write the tables of the selected examples, and add to the scores of their states."""
        if self.node is not None:
            theta.node[states] += self.node[states]
        for g, table in self.tables.items():
            if len(table) > 1:
                rows = program.groups[g].table_rows(examples)
                theta.tables[g][rows] = table[rows]

    @cached_property
    def of_tables(self) -> bool:
        """Whether tables tell more than what is ruled out, so that labellings differ by them."""
        return any(bool(((table != 0.0) & (table > -np.inf)).any()) or len(table) > 1 for table in self.tables.values())

    def value(self, program: Program, labels: I32, examples: I64 | None = None) -> F64:
        """Return what a packed labelling of each selected example scores without weights; ``shape (n,)``."""
        from ssvm_dsl.kernels.scoring import add_table_scores

        ids, ptr = select(program, examples), label_ptr(program, examples)
        total = np.zeros(len(ids)) if self.node is None else node_scores(program, self.node, labels, examples)
        for g, table in self.tables.items():
            add_table_scores(program.groups[g].flat, table, ids, ptr, labels, total)
        return total

    def without_nodes(self) -> Constants:
        """Return the tables alone."""
        return Constants(None, self.tables, self.weighted)
