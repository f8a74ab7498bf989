"""Best projective trees as a compiled oracle."""

from __future__ import annotations

from ssvm_backends.structures.packing import OF_LITERALS, begin_call, end_call, group_arrays, literals_in
from ssvm_backends.structures.spanning_trees.tree_batches import N_ARRAYS, best_projective_trees, trees_in
from ssvm_dsl.kernels import SIGNATURE, cfunc


@cfunc(SIGNATURE)
def eisner_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Write the best labels of one example; return their score, without the constant.

    Parameters
    ----------
    ints, longs, example, pool, node, labels, work
        As of :class:`~ssvm_dsl.plugin_api.CompiledOracle`.
    """
    call = begin_call(ints, longs, example, node, labels)
    for first in group_arrays(longs, N_ARRAYS):
        trees = trees_in(call.ints, call.longs, first + OF_LITERALS)
        literals = literals_in(call.ints, call.longs, first)
        best_projective_trees(literals, trees, call.node, call.ids, call.ptr, call.labels, call.feasible)
    return end_call(call)
