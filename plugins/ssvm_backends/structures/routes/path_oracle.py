"""Best paths as a compiled oracle."""

from __future__ import annotations

import numpy as np

from ssvm_backends.structures.packing import OF_LITERALS, begin_call, end_call, group_arrays, literals_in
from ssvm_backends.structures.routes.route_kernels import N_ARRAYS, POSITIVE_CYCLE, SOLVED, best_paths, paths_in
from ssvm_dsl.kernels import SIGNATURE, cfunc


@cfunc(SIGNATURE)
def path_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Write the best labels of one example; return their score, ``nan`` where a cycle of positive score can be reached.

    Parameters
    ----------
    ints, longs, example, pool, node, labels, work
        As of :class:`~ssvm_dsl.plugin_api.CompiledOracle`.
    """
    call = begin_call(ints, longs, example, node, labels)
    state = np.zeros(1, np.int64)
    for first in group_arrays(longs, N_ARRAYS):
        paths = paths_in(call.ints, call.longs, first + OF_LITERALS)
        literals = literals_in(call.ints, call.longs, first)
        best_paths(literals, paths, call.node, call.ids, call.ptr, call.labels, state)
        if state[0] >= POSITIVE_CYCLE:
            return np.nan
        call.feasible[0] = call.feasible[0] and state[0] == SOLVED
    return end_call(call)
