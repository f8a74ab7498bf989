"""Max-product on forests as a compiled oracle, for trainers that call it inside their kernels.

A separate module, because numba compiles functions called by their address as soon as they are defined.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.trees.forest import Forest
from ssvm_backends.trees.max_product import descend, eliminate
from ssvm_dsl.kernels import SIGNATURE, borrow, cfunc, packed_record

#: Fields of a :class:`~ssvm_backends.trees.forest.Forest` that are packed: all but which factor an entry is.
OF_FOREST = ("var_ptr", "state_ptr", "card", "order", "parent", "entry_ptr", "entry_offset", "entry_flip")

#: How the forests of a program are read.
forest_in = packed_record(Forest, OF_FOREST)


@cfunc(SIGNATURE)
def forest_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Compiled oracle; returns the best score of one example, without the constant.

    Parameters
    ----------
    ints, longs : ndarray of int32 and of int64
        Packed: :data:`OF_FOREST`.
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
    forest = forest_in(ints, longs, 0)
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
