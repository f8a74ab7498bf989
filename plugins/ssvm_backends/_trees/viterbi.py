"""Viterbi on chains of equal cardinality, one factor on each edge, variables in natural order.

``alpha[t]`` holds the best score of a path that ends in each state of variable t; the way back finds the
argmax again from it, so that the way forward keeps maxima only.
"""

from __future__ import annotations

import numpy as np
from numba import cfunc, njit

from ssvm_backends._trees.forest import F64, I32, I64, Forest
from ssvm_backends._trees.max_product import argmax, max_message
from ssvm_dsl.ir.borrow import borrow
from ssvm_dsl.ir.compiled import SIGNATURE


@njit(cache=True, nogil=True)
def best_path(link: I64, c: int, lo: int, hi: int, pool: F64, node: F64, alpha: F64, labels: I32) -> float:
    """Write the best labelling of variables ``lo..hi-1`` and return its score.

    Parameters
    ----------
    link : ndarray of int64, shape (V,)
        Where the table between a variable and the next starts in ``pool``, -1 at the end of a chain.
    c : int
        Number of states.
    alpha : ndarray of float64, at least ``(hi - lo + 1) * c`` numbers
        Work space.
    """
    link, pool, node = borrow(link), borrow(pool), borrow(node)
    alpha, labels, total = borrow(alpha), borrow(labels), 0.0
    for v in range(lo, hi):
        row, unary = alpha[(v - lo) * c : (v - lo + 1) * c], node[v * c : (v + 1) * c]
        if v > lo and link[v - 1] >= 0:
            max_message(alpha[(v - lo - 1) * c : (v - lo) * c], pool[link[v - 1] : link[v - 1] + c * c], c, c, row)
            for s in range(c):
                row[s] += unary[s]
        else:
            for s in range(c):
                row[s] = unary[s]
        if link[v] < 0:
            total += row[argmax(row)]
    if total == -np.inf:
        labels[: hi - lo] = 0
        return total
    column = alpha[(hi - lo) * c : (hi - lo + 1) * c]
    for v in range(hi - 1, lo - 1, -1):
        row = alpha[(v - lo) * c : (v - lo + 1) * c]
        if link[v] < 0:
            labels[v - lo] = argmax(row)
            continue
        t = labels[v + 1 - lo]
        for s in range(c):
            column[s] = row[s] + pool[link[v] + s * c + t]
        labels[v - lo] = argmax(column)
    return total


@njit(cache=True, nogil=True)
def viterbi(
    forest: Forest, link: I64, c: int, pool: F64, node: F64, examples: I64, label_ptr: I64, labels: I32, score: F64
) -> None:
    """Write the best labelling and score (without constant) of each listed example."""
    longest = 1
    for k in range(len(examples)):
        longest = max(longest, forest.var_ptr[examples[k] + 1] - forest.var_ptr[examples[k]])
    alpha = np.empty((longest + 1) * c)
    for k in range(len(examples)):
        lo, hi = forest.var_ptr[examples[k]], forest.var_ptr[examples[k] + 1]
        score[k] = best_path(link, c, lo, hi, pool, node, alpha, labels[label_ptr[k] : label_ptr[k + 1]])


@cfunc(SIGNATURE, cache=True)
def viterbi_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Compiled oracle: ``longs`` holds (number of states, number of examples), var_ptr, links."""
    n = longs[1]
    lo, hi = longs[2 + example], longs[3 + example]
    return best_path(longs[3 + n :], longs[0], lo, hi, pool, node, work, labels)
