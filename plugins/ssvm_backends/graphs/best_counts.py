"""Labellings that are worth most by two counts: what pairs of counts are worth, and the best one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import njit


class Wanted(NamedTuple):
    """What pairs of counts are worth, and where answers go.

    Parameters
    ----------
    const : ndarray of float64, shape (B,)
        Constants of all examples.
    shape, start, offset, scale
        As in :class:`~ssvm_dsl.ir.CountTables`, for m examples.
    label_ptr : ndarray of int64, shape (m + 1,)
        Where the labels of each start.
    labels : ndarray of int32
        Zeros on entry; written where a labelling is wanted.
    worth : ndarray of float64, shape (m,)
        ``-inf`` on entry; raised where a labelling is found.
    """

    const: F64
    shape: I64
    start: I64
    offset: F64
    scale: F64
    label_ptr: I64
    labels: I32
    worth: F64


@njit(cache=True, nogil=True, borrowed=True)
def best_counts(wanted: Wanted, e: int, const: float, best: F64, width: int) -> tuple[int, int]:
    """Return the pair of counts that is worth most for an example, (-1, -1) without one; raise its ``worth``.

    Parameters
    ----------
    wanted : Wanted
    e : int
        The example, among those asked for.
    const : float
        What is added to all scores.
    best : ndarray of float64
        The best score of each pair of counts, row by row.
    width : int
        Length of a row.
    """
    best_cell = -1
    for cell in range(len(best)):
        score, at = best[cell] + const, wanted.start[e] + cell // width * wanted.shape[e, 1] + cell % width
        if score > -np.inf and wanted.offset[at] > -np.inf:
            value = wanted.offset[at] + wanted.scale[at] * score
            if value > wanted.worth[e]:
                wanted.worth[e], best_cell = value, cell
    return (best_cell // width, best_cell % width) if best_cell >= 0 else (-1, -1)
