"""Best labellings under bounds on counts as a compiled oracle."""

from __future__ import annotations

from ssvm_backends.structures.counts.sorting import N_ARRAYS, choose_counts
from ssvm_backends.structures.packing import OF_LITERALS, begin_call, end_call, group_arrays, literals_in
from ssvm_dsl.kernels import SIGNATURE, cfunc, packed_longs


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
