"""Variable elimination as a compiled oracle, for trainers that call it inside their kernels.

A separate module, because numba compiles functions called by their address as soon as they are defined.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.elimination.blocks import Walk
from ssvm_backends.elimination.max import MaxSpace, MaxTarget, max_steps
from ssvm_backends.elimination.packing import GRAPH, graph_in, plan_in
from ssvm_backends.graphs.graph import Instance
from ssvm_dsl.kernels import SIGNATURE, borrow, cfunc, packed_longs


@cfunc(SIGNATURE)
def elimination_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Compiled oracle; returns the best score of one example, without the constant.

    Parameters
    ----------
    ints, longs : ndarray of int32 and of int64
        As :func:`~ssvm_backends.elimination.packing.elimination_parts` packs them.
    example : int
        The example.
    pool, node : ndarray of float64
        As in :class:`~ssvm_dsl.ir.Theta`, with ``-inf`` at states that masks rule out.
    labels : ndarray of int32, shape (at least the example's variables,)
        Written.
    work : ndarray of float64
        Work space: messages, two blocks, and the best states.
    """
    ints, longs, pool, node = borrow(ints), borrow(longs), borrow(pool), borrow(node)
    first = packed_longs(longs, GRAPH)[example]
    plan, sizes = plan_in(ints, longs, first + 1), packed_longs(longs, first)
    n_work, n_block, n_best, n_axes, n_parts = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]
    messages, rest = work[:n_work], work[n_work:]
    best = rest[2 * n_block : 2 * n_block + n_best].view(np.uint8)
    walk = Walk(
        rest[:n_block], rest[n_block : 2 * n_block], np.zeros(n_axes, np.int64), np.zeros(n_parts, np.int64)
    )
    score = np.zeros(1)
    instance = Instance(graph_in(ints, longs, GRAPH + 1), node, pool, score)  # nobody reads the constants
    out = MaxTarget(np.full(1, example), np.zeros(1, np.int64), labels, score)
    max_steps(plan, instance, MaxSpace(messages, best, walk), out, np.zeros(3, np.int64), np.int64(1) << 62)
    return score[0]
