"""Labellings that are worth most by two counts: what the kernels of different structures share.

A structure finds the best score of each pair of counts; which pair is worth most, and packing, are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, CountTables, Program, Question, Solution
from ssvm_dsl.kernels import njit


class CountArrays(NamedTuple):
    """The arrays of :class:`~ssvm_dsl.ir.CountTables`, for n listed examples.

    Parameters
    ----------
    counts : ndarray of int64, shape (S, 2)
    shape : ndarray of int64, shape (n, 2)
    start : ndarray of int64, shape (n,)
    offset, scale : ndarray of float64
    """

    counts: I64
    shape: I64
    start: I64
    offset: F64
    scale: F64


class CountedLabels(NamedTuple):
    """The labellings of n listed examples.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
        The examples.
    ptr : ndarray of int64, shape (n + 1,)
        Where the labels of each start.
    labels : ndarray of int32
        Zeros at first; written where a labelling is wanted.
    worth : ndarray of float64, shape (n,)
        ``-inf`` at first; raised where a labelling is found.
    """

    ids: I64
    ptr: I64
    labels: I32
    worth: F64


@njit(cache=True, nogil=True)
def best_pair(
    tables: CountArrays, found: CountedLabels, k: int, most: I64, score: F64, base: float
) -> tuple[int, int]:
    """Return the counts that are worth most, (-1, -1) where none are wanted; write what they are worth.

    The worth of a labelling of counts (a, b) is ``offset[a, b] + scale[a, b] * score``; as scales are not negative,
    only the best score of each pair of counts matters.

    Parameters
    ----------
    tables, found
        ``found.worth`` is raised.
    k : int
        Which of the listed examples.
    most : ndarray of int64, shape (2,)
        Largest counts of its labellings.
    score : ndarray of float64, shape (at least (most[0] + 1) * (most[1] + 1),)
        The best score of each pair of counts, row by row.
    base : float
        What is added to all of them.
    """
    a_best, b_best, width = -1, -1, most[1] + 1
    for a in range(most[0] + 1):
        for b in range(width):
            at, here = tables.start[k] + a * tables.shape[k, 1] + b, score[a * width + b] + base
            if here > -np.inf and tables.offset[at] > -np.inf:
                value = tables.offset[at] + tables.scale[at] * here
                if value > found.worth[k]:
                    found.worth[k], a_best, b_best = value, a, b
    return a_best, b_best


def best_counted(
    kernel: Callable[..., None],
    structure: Any,
    program: Program,
    question: Question,
    tables: CountTables,
    chunks: Iterable[tuple[int, int]],
) -> Solution:
    """Return the labellings worth most by their counts, chunk by chunk of the examples asked for.

    Parameters
    ----------
    kernel : callable
        ``kernel(structure, pool, node, const, tables, found)``, compiled.
    structure : record
        What the kernel knows of the program.
    program, question
    tables : CountTables
        Of the examples asked for.
    chunks : iterable of (int, int)
        Examples that are not in any are answered by lack of time.
    """
    theta, ids, ptr = question.theta, question.ids(program), question.label_ptr(program)
    node, labels, worth = question.masked_node(program), np.zeros(int(ptr[-1]), np.int32), np.full(len(ids), -np.inf)
    reached = 0
    for lo, hi in chunks:
        arrays = CountArrays(tables.counts, tables.shape[lo:hi], tables.start[lo:hi], tables.offset, tables.scale)
        found = CountedLabels(ids[lo:hi], ptr[lo : hi + 1], labels, worth[lo:hi])
        kernel(structure, theta.pool, node, theta.const, arrays, found)
        reached = hi
    worth[reached:] = np.nan  # not reached in time
    return Solution.exact(labels, worth)
