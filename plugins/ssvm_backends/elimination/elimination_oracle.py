"""Variable elimination as a compiled oracle, for trainers that call it inside their kernels.

A separate module, because numba compiles functions called by their address as soon as they are defined.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.elimination.max import MaxCall, replay
from ssvm_backends.elimination.packing import GRAPH, plan_in, work_of
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
    messages, best, walk = work_of(packed_longs(longs, first), work)
    at, score = GRAPH + 1, np.zeros(1)
    call = MaxCall(
        packed_longs(longs, at), packed_longs(longs, at + 1), packed_longs(longs, at + 2), packed_longs(longs, at + 3),
        node, pool, np.full(1, example), np.zeros(1, np.int64), labels, score,
    )  # fmt: skip
    replay(plan_in(ints, longs, first + 1), call, messages, best, walk, np.zeros(3, np.int64), np.int64(1) << 62)
    return score[0]
