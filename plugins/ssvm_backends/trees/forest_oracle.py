"""Max-product on forests as a compiled oracle, for trainers that call it inside their kernels.

A separate module, because numba compiles functions called by their address as soon as they are defined.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.trees.forest import Forest
from ssvm_backends.trees.max_product import descend, eliminate
from ssvm_dsl.kernels import SIGNATURE, borrow, cfunc


@cfunc(SIGNATURE)
def forest_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Compiled oracle; returns the best score of one example, without the constant.

    Parameters
    ----------
    ints : ndarray of int32
        card, order, parent and entry_flip of the :class:`~ssvm_backends.trees.forest.Forest`, one after the other.
    longs : ndarray of int64
        (examples, variables, entries), then var_ptr, state_ptr, entry_ptr, entry_offset.
    example : int
        The example.
    pool, node : ndarray of float64
        As in :class:`~ssvm_dsl.ir.Theta`, with ``-inf`` at states that masks rule out.
    labels : ndarray of int32, shape (at least the example's variables,)
        Written; zeros where there is no labelling.
    work : ndarray of float64
        Work space: the example's states, and ``widest + widest ** 2`` numbers for a message and the table of an edge.
    """
    ints, longs, pool, node = borrow(ints), borrow(longs), borrow(pool), borrow(node)
    n, n_variables, n_entries = longs[0], longs[1], longs[2]
    state_at = 3 + n + 1
    entry_at = state_at + n_variables + 1
    offset_at = entry_at + n_variables + 1
    none = ints[:0]
    forest = Forest(
        longs[3:state_at],
        longs[state_at:entry_at],
        ints[:n_variables],
        ints[n_variables : 2 * n_variables],
        ints[2 * n_variables : 3 * n_variables],
        longs[entry_at:offset_at],
        longs[offset_at : offset_at + n_entries],
        none,
        none,
        ints[3 * n_variables : 3 * n_variables + n_entries],
    )
    lo, hi = forest.var_ptr[example], forest.var_ptr[example + 1]
    first, size = forest.state_ptr[lo], forest.state_ptr[hi] - forest.state_ptr[lo]
    beliefs, rest = work[:size], work[size:]
    for s in range(size):
        beliefs[s] = node[first + s]
    score = eliminate(forest, lo, hi, pool, beliefs, rest)
    if score == -np.inf:
        labels[: hi - lo] = 0
    else:
        descend(forest, lo, hi, pool, beliefs, rest, labels)
    return score
