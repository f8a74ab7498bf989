r"""Projective trees: Eisner (1996), best ones and sums over all of them, in O(n^3).

``inner[i, j]`` is two finished spans that meet between the words i and j, ``arc[h, x]`` a span from h to x with an arc
h -> x whose inner words are done, ``span[h, x]`` one with head h in which all words up to x are done (x on either side
of h)::

    inner[i, j]  = plus_k     span[i, k] + span[j, k + 1]              i <= k < j
    arc[i, j]    = inner[i, j] + w[i, j],     arc[j, i] = inner[i, j] + w[j, i]
    span[i, j]   = plus_k     arc[i, k] + span[k, j]                   i < k <= j,  likewise to the left

The result is ``span[0, n]`` over words 0..n, the root being word 0.  For a single dependent of the root all other
``span[0, x]`` are ruled out, so that the root has no second arc.

The probability of ``arc[h, x]`` is the marginal.  How the tasks share the recursion:
:mod:`ssvm_backends.graphs.recursions`.  Measured against separate kernels for each task, 20 words, in a
batch: best trees take 1.1 times as long, marginals 0.45 times.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.graphs.recursions import BEST, SHARE, SUM, TRACE, Items, begin, extend, join, step_at, take
from ssvm_dsl.ir import F64, I32
from ssvm_dsl.kernels import borrow, njit

#: The tables of items.
SPAN, ARC, INNER = 0, 1, 2


@njit(cache=True, nogil=True)
def tree_items(n: int, shared: bool) -> Items:
    """Return space for trees of up to n tokens, with probabilities or without: the tables one after the other."""
    size = 3 * (n + 1) ** 2
    return Items(np.empty(size), np.empty(size if shared else 0), np.empty(n + 1), np.empty(5 * n + 5, dtype=np.int64))


@njit(cache=True, nogil=True, borrowed=True)
def tree_rule(task: int, m: int, single: bool, w: F64, items: Items, table: int, h: int, x: int) -> None:
    """Do a task for one item.

    Parameters
    ----------
    task : int
    m : int
        Words, the root included.
    single : bool
        Whether the root has a single dependent.
    w : ndarray of float64, shape (at least m^2,)
        Scores of arcs, row by head, ``-inf`` where there is none.
    items : Items
        As of :func:`tree_items`.
    table, h, x : int
        Its table, row and column.  The latter differ; in the table ``INNER`` the row is less.
    """
    at, arc, inner = h * m + x, m * m, 2 * m * m
    if table == INNER:
        join(task, items, inner + at, h * m + h, 1, x * m + h + 1, 1, x - h)
    elif table == ARC:
        extend(task, items, arc + at, inner + (at if h < x else x * m + h), w[at])
    elif h < x:
        n_splits = 0 if single and h == 0 and x < m - 1 else x - h
        join(task, items, at, arc + h * m + h + 1, 1, at + m, m, n_splits)
    else:
        join(task, items, at, arc + at, 1, x * m + x, m, h - x)


@njit(cache=True, nogil=True, borrowed=True)
def sweep_trees(task: int, m: int, single: bool, w: F64, items: Items) -> None:
    """Do a task for all items, narrow ones first (downwards: wide ones); arguments as of :func:`tree_rule`."""
    for place in range(m - 1):
        width = 1 + step_at(task, place, m - 1)
        for i in range(m - width):
            for number in range(3):
                kind = step_at(task, number, 3)
                if kind == 0:
                    tree_rule(task, m, single, w, items, INNER, i, i + width)
                elif kind == 1:
                    tree_rule(task, m, single, w, items, ARC, i, i + width)
                    tree_rule(task, m, single, w, items, ARC, i + width, i)
                else:
                    tree_rule(task, m, single, w, items, SPAN, i, i + width)
                    tree_rule(task, m, single, w, items, SPAN, i + width, i)


@njit(cache=True, nogil=True, borrowed=True)
def best_items(m: int, single: bool, w: F64, items: Items) -> None:
    """Write the best scores of all items: the task as a constant saves a tenth."""
    sweep_trees(BEST, m, single, w, items)


@njit(cache=True, nogil=True)
def best_projective(n: int, single: bool, w: F64, items: Items, heads: I32) -> bool:
    """Write the heads of the best projective tree; return whether there is one.

    Parameters
    ----------
    n : int
        Number of tokens.
    single : bool
        Whether the root has a single dependent.
    w : ndarray of float64, shape (at least (n + 1)^2,)
        Scores of arcs, row by head, ``-inf`` where there is none.
    items : Items
        Work space, as of :func:`tree_items`.
    heads : ndarray of int32, shape (at least n + 1,)
        Written.
    """
    items, w, heads = borrow(items), borrow(w), borrow(heads)
    m, heads[0] = n + 1, -1
    items.value[0 : m * m : m + 1] = 0.0
    best_items(m, single, w, items)
    if items.value[n] == -np.inf:
        return False
    begin(items.agenda, n)
    while items.agenda[0] > 0:
        item = take(items.agenda)
        row = item // m
        x, table = item - row * m, (row >= m) + (row >= 2 * m)
        h = row - table * m
        if table == ARC:
            heads[x] = h
        if h != x:
            tree_rule(TRACE, m, single, w, items, table, h, x)
    return True


@njit(cache=True, nogil=True)
def sum_projective(n: int, single: bool, w: F64, items: Items) -> float:
    """Find the probability of each arc among projective trees; return the log partition (``-inf``: no tree).

    Parameters
    ----------
    n, single, w
        As for :func:`best_projective`.
    items : Items
        As of :func:`tree_items`; the probabilities of its table ``ARC`` are those of arcs.
    """
    m, items, w = n + 1, borrow(items), borrow(w)
    items.outer[: 3 * m * m] = 0.0
    items.value[0 : m * m : m + 1] = 0.0
    sweep_trees(SUM, m, single, w, items)
    if items.value[n] > -np.inf:
        items.outer[n] = 1.0
        sweep_trees(SHARE, m, single, w, items)
    return float(items.value[n])
