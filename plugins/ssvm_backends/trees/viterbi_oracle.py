"""Viterbi on chains as a compiled oracle, for trainers that call it inside their kernels.

A separate module, because numba compiles functions called by their address as soon as they are defined.
"""

from __future__ import annotations

from ssvm_backends.trees.viterbi import best_path
from ssvm_dsl.kernels import SIGNATURE, cfunc


@cfunc(SIGNATURE)
def viterbi_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Compiled oracle; returns the best score of one example, without the constant.

    Parameters
    ----------
    ints : ndarray of int32
        Not used.
    longs : ndarray of int64
        (number of states, number of examples), then var_ptr, then the links of :func:`best_path`.
    example : int
        The example.
    pool, node : ndarray of float64
        As in :class:`~ssvm_dsl.ir.Theta`, with ``-inf`` at states that masks rule out.
    labels : ndarray of int32, shape (at least the example's variables,)
        Written; zeros where there is no labelling.
    work : ndarray of float64
        Work space: the example's variables and one more, times the number of states.
    """
    n = longs[1]
    lo, hi = longs[2 + example], longs[3 + example]
    return best_path(longs[3 + n :], longs[0], lo, hi, pool, node, work, labels)
