"""Bounds on weighted sums of literals in whole numbers, and how dynamic programming goes over the sums.

A constraint of the kind ``linear`` is one row ``lower <= sum_v weight[v, y_v] <= upper`` over states, in whole numbers
where its coefficients have a simple common multiple.  With ``score[j, t]`` for the best score of its first j variables
whose weights sum to t::

    score[j, t] = max_s  score[j - 1, t - weight[v_j, s]] + node[v_j, s]

(Bellman 1957, the knapsack with states in place of items: Sinha and Zoltners 1979).  O(states times sums) for each
constraint; sums that cannot end within the bounds are left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ssvm_backends.programs.side_rows import SideRows
from ssvm_backends.structures.session import StructureSession
from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, Program, pointers

#: The most numbers that the table of a constraint may hold.
MOST_SUMS = 2**18


class WholeSums(NamedTuple):
    """The constraints of one group in whole numbers.

    Parameters
    ----------
    ptr : ndarray of int64, shape (B + 1,)
        Constraints of each example.
    variable_ptr : ndarray of int64, shape (m + 1,)
        Where the variables of each constraint are.
    variable : ndarray of int64, shape (n,)
        Variables, counted in the batch.
    state_ptr : ndarray of int64, shape (V + 1,)
        As of :class:`~ssvm_dsl.ir.Program`.
    weight_ptr : ndarray of int64, shape (n + 1,)
        Where the weights of the states of each of ``variable`` are.
    weight : ndarray of int64
    lower, upper : ndarray of int64, shape (m,)
        Clipped to the range of the sums.
    """

    ptr: I64
    variable_ptr: I64
    variable: I64
    state_ptr: I64
    weight_ptr: I64
    weight: I64
    lower: I64
    upper: I64

    @classmethod
    def of(cls, program: Program, group: ConstraintGroup) -> WholeSums:
        """Return the constraints of a group of the kind ``linear``, each of which has one row."""
        columns, weights, counts, lower, upper = [], [], [], list[int](), list[int]()
        bare = _alone(program, group)
        for i in np.flatnonzero(group.counts).tolist():
            v_lo, v_hi = program.var_ptr[i : i + 2]
            state_ptr = program.state_ptr[v_lo : v_hi + 1] - program.state_ptr[v_lo]
            for column, weight, low, high in SideRows.of(bare, i, int(state_ptr[-1]), state_ptr).whole_rows():
                counts.append(len(column))
                columns.append(np.array(column, dtype=np.int64) + program.state_ptr[v_lo])
                divisor = int(np.gcd.reduce(np.array(weight, dtype=np.int64), initial=0)) or 1
                weights.append(np.array(weight, dtype=np.int64) // divisor)
                lower.append(-(-low // divisor))
                upper.append(high // divisor)
        none = np.zeros(0, dtype=np.int64)
        entries = np.concatenate([none, *columns]), np.concatenate([none, *weights])
        return cls._laid_out(program, group, *entries, np.array(counts, dtype=np.int64), lower, upper)

    @classmethod
    def _laid_out(
        cls, program: Program, group: ConstraintGroup, column: I64, weight_of: I64, counts: I64, lower: list[int],
        upper: list[int],
    ) -> WholeSums:  # fmt: skip
        """Return the record of rows given entry by entry: each variable once, with weights of all its states."""
        owner = np.repeat(np.arange(len(counts)), counts)
        of_variable = np.searchsorted(program.state_ptr, column, side="right") - 1
        keys, entry = np.unique(np.column_stack([owner, of_variable]), axis=0, return_inverse=True)
        keys, entry = keys.reshape(-1, 2), entry.reshape(-1)
        weight_ptr = pointers(program.card[keys[:, 1]])
        weight = np.zeros(int(weight_ptr[-1]), dtype=np.int64)
        np.add.at(weight, weight_ptr[entry] + column - program.state_ptr[of_variable], weight_of)
        variable_ptr = pointers(np.bincount(keys[:, 0], minlength=len(counts)))
        ends = np.array(lower, dtype=np.int64), np.array(upper, dtype=np.int64)
        return cls(group.ptr, variable_ptr, keys[:, 1].copy(), program.state_ptr, weight_ptr, weight, *ends)

    @property
    def sizes(self) -> F64:
        """How many numbers the table of each constraint holds at most; ``ndarray, shape (m,)``."""
        if not len(self.weight):
            return np.ones(len(self.lower))
        low, high = (
            choose.reduceat(self.weight, self.weight_ptr[:-1]).astype(np.float64) for choose in (np.minimum, np.maximum)
        )
        owner = np.repeat(np.arange(len(self.lower)), np.diff(self.variable_ptr))
        width = np.bincount(owner, high - low, len(self.lower)) + 1.0
        return np.asarray(width * (np.diff(self.variable_ptr) + 1.0))


def _alone(program: Program, group: ConstraintGroup) -> Program:
    """Return a program with the constraints of one group, and no factors."""
    return replace(program, groups=(), constraints=(group,), allowed=None)


# -- Best labellings under bounds on weighted sums of literals -------------------------------------------------------


class WeightedSumSession(StructureSession):
    """Best labellings of a program whose constraints are all of the kind ``linear``, over different variables."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.sums = [WholeSums.of(program, group) for group in self.groups]

    def choose(self, group: int, node: F64, ids: I64, ptr: I64, labels: I32, feasible: Bools, excess: F64) -> None:
        """Write the best labels; see :class:`~ssvm_backends.structures.session.StructureSession`."""
        from ssvm_backends.structures.counts.knapsack import choose_sums

        choose_sums(self.sums[group], self.program.var_ptr, node, ids, ptr, labels, feasible)
