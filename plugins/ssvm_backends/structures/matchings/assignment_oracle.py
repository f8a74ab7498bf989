"""Best matchings as a compiled oracle; those whose columns hold any number: :mod:`.rows_oracle`."""

from __future__ import annotations

from ssvm_backends.structures.matchings.best_matchings import assign_all
from ssvm_backends.structures.matchings.matching_kernels import N_ARRAYS, matchings_in
from ssvm_backends.structures.packing import OF_LITERALS, begin_call, end_call, group_arrays, literals_in
from ssvm_dsl.kernels import SIGNATURE, cfunc


@cfunc(SIGNATURE)
def assignment_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Write the best labels of one example; return their score, without the constant.

    Parameters
    ----------
    ints, longs, example, pool, node, labels, work
        As of :class:`~ssvm_dsl.plugin_api.CompiledOracle`.
    """
    call = begin_call(ints, longs, example, node, labels)
    for first in group_arrays(longs, N_ARRAYS):
        matchings = matchings_in(call.ints, call.longs, first + OF_LITERALS)
        literals = literals_in(call.ints, call.longs, first)
        assign_all(literals, matchings, call.node, call.ids, call.ptr, call.labels, call.feasible)
    return end_call(call)
