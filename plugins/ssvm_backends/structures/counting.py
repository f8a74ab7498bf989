"""``cardinality``: bounds on numbers of true literals over variables without pairs, by sorting.

With the gains of :mod:`ssvm_backends.structures.literals` the best labelling makes the literals of largest gain true:
all of positive gain, or as many fewer or more as the bounds say.  O(l log l) for l literals, where counting by dynamic
programming takes O(l k) for a bound of k; and an example may have any number of constraints, over different variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ssvm_backends.programs.side_rows import SideRows
from ssvm_backends.structures.literals import Batch, Literals, set_literals, write_gains
from ssvm_backends.structures.packing import (
    CALL,
    OF_LITERALS,
    begin_call,
    end_call,
    group_arrays,
    literals_in,
    structure_oracle,
)
from ssvm_backends.structures.session import StructureSession, verdict
from ssvm_dsl.ir import F64, I32, I64, ConstraintGroup, Need, Program, pointers
from ssvm_dsl.kernels import SIGNATURE, borrow, cfunc, njit, packed_longs
from ssvm_dsl.plugin_api import CompiledOracle, Verdict

#: Operations for each literal that is sorted.
SORTED = 64.0


class Cardinality:
    """Bounds on counts, each over separate variables: O(l log l) for l literals, by sorting."""

    def check(self, need: Need) -> Verdict:
        """Accept counts no two of which share a variable, on programs without pairs."""
        return verdict(need, 1e2 + 20.0 * need.max_variables)

    def open(self, program: Program, options: Mapping[str, Any]) -> CardinalitySession:
        """Open the backend on a program whose only structure are counts; the session answers by sorting."""
        return CardinalitySession(program)


class CardinalitySession(StructureSession):
    """Best labellings of one program."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.bounds = [
            (group.meta["lower"].astype(np.int64), group.meta["upper"].astype(np.int64)) for group in self.groups
        ]

    def choose(self, group: int, batch: Batch, excess: F64) -> None:
        """Write the best labels; see :class:`~ssvm_backends.structures.session.StructureSession`."""
        lower, upper = self.bounds[group]
        choose_counts(self.literals[group], lower, upper, batch)

    def compiled(self) -> CompiledOracle:
        """Return the oracle for trainers that call it inside their own kernels."""
        sizes = np.concatenate([np.zeros(0), *(np.diff(one.literal_ptr) for one in self.literals)])
        work = CALL + float((SORTED * sizes).sum()) / max(self.program.n_examples, 1)
        return structure_oracle(cardinality_oracle, self, self.bounds, work)


# -- The kernel of ``cardinality`` -----------------------------------------------------------------------------------

#: Arrays that a group of constraints has besides literals: lower and upper bounds.
N_ARRAYS = 2


@njit(cache=True, nogil=True)
def choose_counts(literals: Literals, lower: I64, upper: I64, batch: Batch) -> None:
    """Write the labels of largest score whose numbers of true literals are within their bounds.

    Parameters
    ----------
    literals : Literals
        Read only.
    lower, upper : ndarray of int64, shape (m,)
        Bounds of each constraint.
    batch : Batch
        An example is not feasible where no count is within its bounds, or a variable has no state.
    """
    literals = borrow(literals)
    node, ids, ptr, labels, feasible = borrow(batch)
    for e in range(len(ids)):
        lo = literals.var_ptr[ids[e]]
        for k in range(literals.ptr[ids[e]], literals.ptr[ids[e] + 1]):
            n = literals.literal_ptr[k + 1] - literals.literal_ptr[k]
            gain, chosen = np.empty(n), np.zeros(n, dtype=np.bool_)
            write_gains(literals, node, lo, k, False, gain)
            count, failed = 0, False
            for l in np.argsort(-gain):  # those that have to be true first, nan last
                failed = failed or np.isnan(gain[l])
                wanted = gain[l] > 0.0 or (gain[l] > -np.inf and count < lower[k])
                if gain[l] == np.inf or (wanted and count < upper[k]):
                    chosen[l] = True
                    count += 1
            if failed or count < lower[k] or count > upper[k]:
                feasible[e] = False
            set_literals(literals, node, lo, k, chosen, labels[ptr[e] :])


@cfunc(SIGNATURE)
def cardinality_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Write the best labels of one example; return their score, without the constant.

    Parameters
    ----------
    ints, longs, example, pool, node, labels, work
        As of :class:`~ssvm_dsl.plugin_api.CompiledOracle`.
    """
    call = begin_call(ints, longs, example, node, labels)
    for first in group_arrays(longs, N_ARRAYS):
        lower = packed_longs(call.longs, first + OF_LITERALS)
        upper = packed_longs(call.longs, first + OF_LITERALS + 1)
        literals = literals_in(call.ints, call.longs, first)
        choose_counts(literals, lower, upper, call.batch)
    return end_call(call)


# -- Bounds on weighted sums of literals in whole numbers, and how dynamic programming goes over the sums ------------
#
# A constraint of the kind ``linear`` is one row ``lower <= sum_v weight[v, y_v] <= upper`` over states, in whole
# numbers where its coefficients have a simple common multiple.  With ``score[j, t]`` for the best score of its first j
# variables whose weights sum to t::
#
#     score[j, t] = max_s  score[j - 1, t - weight[v_j, s]] + node[v_j, s]
#
# (Bellman 1957, the knapsack with states in place of items: Sinha and Zoltners 1979).  O(states times sums) for each
# constraint; sums that cannot end within the bounds are left out.

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
    def from_group(cls, program: Program, group: ConstraintGroup) -> WholeSums:
        """Return the constraints of a group of the kind ``linear``, each of which has one row."""
        columns, weights, counts, lower, upper = [], [], [], list[int](), list[int]()
        bare = _alone(program, group)
        for i in np.flatnonzero(group.counts).tolist():
            v_lo, v_hi = program.var_ptr[i : i + 2]
            state_ptr = program.state_ptr[v_lo : v_hi + 1] - program.state_ptr[v_lo]
            for column, weight, low, high in SideRows.from_group(bare, i, int(state_ptr[-1]), state_ptr).whole_rows():
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
        self.sums = [WholeSums.from_group(program, group) for group in self.groups]

    def choose(self, group: int, batch: Batch, excess: F64) -> None:
        """Write the best labels; see :class:`~ssvm_backends.structures.session.StructureSession`."""
        choose_sums(self.sums[group], self.program.var_ptr, batch)


# -- The kernel -----------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def choose_sums(sums: WholeSums, var_ptr: I64, batch: Batch) -> None:
    """Write the labels of largest score whose weighted sums are within their bounds.

    Parameters
    ----------
    sums : WholeSums
        Read only.
    var_ptr : ndarray of int64, shape (B + 1,)
        Variables of each example.
    batch : Batch
        An example is not feasible where no sum is within its bounds.
    """
    s = borrow(sums)
    node, ids, ptr, labels, feasible = borrow(batch)
    for e in range(len(ids)):
        shift = ptr[e] - var_ptr[ids[e]]
        for k in range(s.ptr[ids[e]], s.ptr[ids[e] + 1]):
            if not best_sum(s, k, node, shift, labels):
                feasible[e] = False


@njit(cache=True, nogil=True)
def best_sum(s: WholeSums, k: int, node: F64, shift: int, labels: I32) -> bool:
    """Write the best labels of the variables of constraint k; return whether there are any.

    ``low[j] .. high[j]`` are the sums of the first j variables from which the others can still reach the bounds; the
    best state of variable j for each of them stays in ``choice`` for the way back.

    Parameters
    ----------
    s, node
        As for :func:`choose_sums`.
    k : int
        The constraint.
    shift : int
        Offset from a variable's number to the place of its label.
    labels : ndarray of int32
        Written where there is a labelling.
    """
    first, n = s.variable_ptr[k], s.variable_ptr[k + 1] - s.variable_ptr[k]
    low, high = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    least, most = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for j in range(n):
        v, at = s.variable[first + j], s.weight_ptr[first + j]
        feasible = False
        for x in range(s.state_ptr[v + 1] - s.state_ptr[v]):
            if node[s.state_ptr[v] + x] > -np.inf:
                w = s.weight[at + x]
                least[j], most[j] = (min(least[j], w), max(most[j], w)) if feasible else (w, w)
                feasible = True
        if not feasible:
            return False
        low[j + 1], high[j + 1] = low[j] + least[j], high[j] + most[j]
    low[n], high[n] = max(low[n], s.lower[k]), min(high[n], s.upper[k])
    for j in range(n - 1, -1, -1):
        low[j], high[j] = max(low[j], low[j + 1] - most[j]), min(high[j], high[j + 1] - least[j])
    start = np.zeros(n + 2, np.int64)
    for j in range(n + 1):
        if low[j] > high[j]:
            return False
        start[j + 1] = start[j] + high[j] - low[j] + 1
    choice, before = np.full(start[n + 1], -1, np.int32), np.zeros(1)
    for j in range(n):
        v, at = s.variable[first + j], s.weight_ptr[first + j]
        now = np.full(high[j + 1] - low[j + 1] + 1, -np.inf)
        for x in range(s.state_ptr[v + 1] - s.state_ptr[v]):
            value, w = node[s.state_ptr[v] + x], s.weight[at + x]
            if value > -np.inf:
                for t in range(max(low[j], low[j + 1] - w), min(high[j], high[j + 1] - w) + 1):
                    total = before[t - low[j]] + value
                    if total > now[t + w - low[j + 1]]:
                        now[t + w - low[j + 1]] = total
                        choice[start[j + 1] + t + w - low[j + 1]] = x
        before = now
    best = 0
    for t in range(len(before)):
        if before[t] > before[best]:
            best = t
    if not before[best] > -np.inf:
        return False
    t = low[n] + best
    for j in range(n - 1, -1, -1):
        x = choice[start[j + 1] + t - low[j + 1]]
        labels[s.variable[first + j] + shift] = x
        t -= s.weight[s.weight_ptr[first + j] + x]
    return True
