"""``cardinality``: bounds on numbers of true literals over variables without pairs, by sorting.

With the gains of :mod:`ssvm_backends.structures.literals` the best labelling makes the literals of largest gain true:
all of positive gain, or as many fewer or more as the bounds say.  O(l log l) for l literals, where counting by dynamic
programming takes O(l k) for a bound of k; and an example may have any number of constraints, over different variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ssvm_backends.structures.literals import Literals, set_literals, write_gains
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
from ssvm_dsl.ir import F64, I32, I64, Bools, Need, Program
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

    def choose(self, group: int, node: F64, ids: I64, ptr: I64, labels: I32, feasible: Bools, excess: F64) -> None:
        """Write the best labels; see :class:`~ssvm_backends.structures.session.StructureSession`."""
        lower, upper = self.bounds[group]
        choose_counts(self.literals[group], lower, upper, node, ids, ptr, labels, feasible)

    def compiled(self) -> CompiledOracle:
        """Return the oracle for trainers that call it inside their own kernels."""
        sizes = np.concatenate([np.zeros(0), *(np.diff(one.literal_ptr) for one in self.literals)])
        work = CALL + float((SORTED * sizes).sum()) / max(self.program.n_examples, 1)
        return structure_oracle(cardinality_oracle, self, self.bounds, work)


# -- The kernel of ``cardinality`` -----------------------------------------------------------------------------------

#: Arrays that a group of constraints has besides literals: lower and upper bounds.
N_ARRAYS = 2


@njit(cache=True, nogil=True)
def choose_counts(
    literals: Literals, lower: I64, upper: I64, node: F64, ids: I64, label_ptr: I64, labels: I32, feasible: Bools
) -> None:
    """Write the labels of largest score whose numbers of true literals are within their bounds.

    Parameters
    ----------
    literals : Literals
        Read only.
    lower, upper : ndarray of int64, shape (m,)
        Bounds of each constraint.
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that are ruled out.
    ids : ndarray of int64, shape (n,)
        The examples.
    label_ptr : ndarray of int64, shape (at least n,)
        Where the labels of each start.
    labels : ndarray of int32
        Written.
    feasible : ndarray of bool, shape (n,)
        Set to false where no count is within its bounds, or a variable has no state.
    """
    literals, node, labels = borrow(literals), borrow(node), borrow(labels)
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
            set_literals(literals, node, lo, k, chosen, labels[label_ptr[e] :])


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
        choose_counts(literals, lower, upper, call.node, call.ids, call.ptr, call.labels, call.feasible)
    return end_call(call)
