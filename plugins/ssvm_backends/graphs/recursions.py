r"""Recursions over the items of a structure, written once for all tasks (Goodman 1999, semiring parsing).

A recursion builds every *item* (a span of words, a position and a class) in a number of *ways* from items that are
there already, and from scores::

    value[out] = plus over ways k:  value[left + k left_step] + value[right + k right_step]

The *rule* defines the ways: a kernel that gets the task and calls :func:`join` or :func:`extend` for one item.  A
sweep goes through all items in the order of :func:`turn`.

Upwards, ``plus`` is the maximum (``BEST``) or the logarithm of a sum of exponentials (``SUM``).  Downwards the last
item has probability 1.  ``SHARE``, after ``SUM``, goes through all items in the opposite order, and each hands its
probability on to its ways by what they contribute: those are the marginals.  ``TRACE``, after ``BEST``, is for the
items of the best structure alone: each puts those that its first best way is made of on an agenda.  So a new structure
needs its rule and the order of its items.

Shares are divided by their sum: scores may be so large that they absorb the logarithm of the number of ways.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import njit

#: Tasks.
BEST, SUM, SHARE, TRACE = 0, 1, 2, 3


class Items(NamedTuple):
    """The items of a recursion.

    Parameters
    ----------
    value : ndarray of float64
        The best score of each item, or the logarithm of the sum over all that it can be made of; ``-inf``: of nothing.
    outer : ndarray of float64, as long as ``value``
        How likely each item is part of the structure; task ``SHARE`` only.
    terms : ndarray of float64, shape (at least as many as an item has ways,)
        Work space of the task ``SHARE``.
    agenda : ndarray of int64
        The number of items of the best structure that are still to be made, then these; task ``TRACE`` only.
    """

    value: F64
    outer: F64
    terms: F64
    agenda: I64


@njit(cache=True, nogil=True, borrowed=True)
def step_at(task: int, place: int, n: int) -> int:
    """Return which of n steps comes at a place: the first one first upwards, the last one first downwards."""
    return n - 1 - place if task == SHARE else place


@njit(cache=True, nogil=True, borrowed=True)
def begin(agenda: I64, item: int) -> None:
    """Make an item the only one on the agenda."""
    agenda[0], agenda[1] = 1, item


@njit(cache=True, nogil=True, borrowed=True)
def put(agenda: I64, item: int) -> None:
    """Put an item on the agenda."""
    agenda[0] += 1
    agenda[agenda[0]] = item


@njit(cache=True, nogil=True, borrowed=True)
def take(agenda: I64) -> int:
    """Take the last item off the agenda."""
    agenda[0] -= 1
    return agenda[agenda[0] + 1]


@njit(cache=True, nogil=True, borrowed=True)
def extend(task: int, items: Items, out: int, of: int, score: float) -> None:
    """Make an item of one other and a score; the probability of the score is that of the item.

    Parameters
    ----------
    task : int
    items : Items
    out, of : int
        The item, and the one that it is made of.
    score : float
        ``-inf`` where it cannot be made.
    """
    if task == TRACE:
        put(items.agenda, of)
    elif task == SHARE:
        items.outer[of] += items.outer[out]
    else:
        items.value[out] = items.value[of] + score


@njit(cache=True, nogil=True, borrowed=True)
def join(task: int, items: Items, out: int, left: int, left_step: int, right: int, right_step: int, n: int) -> None:
    """Make an item of two others, in n ways: ``left + k left_step`` and ``right + k right_step`` for ``k < n``.

    Parameters
    ----------
    task : int
    items : Items
    out, left, right : int
        The item, and those of the first way.
    left_step, right_step : int
        How far the items of the next way are from these.
    n : int
        Ways.
    """
    if task == BEST:
        items.value[out] = best_of_ways(items.value, left, left_step, right, right_step, n)
    elif task == SUM:
        items.value[out] = sum_of_ways(items.value, left, left_step, right, right_step, n)
    elif task == TRACE:
        k = best_way(items.value, left, left_step, right, right_step, n)
        put(items.agenda, left + k * left_step)
        put(items.agenda, right + k * right_step)
    elif items.outer[out] > 0.0:
        share_ways(items, out, left, left_step, right, right_step, n)


@njit(cache=True, nogil=True, borrowed=True)
def best_of_ways(value: F64, left: int, left_step: int, right: int, right_step: int, n: int) -> float:
    """Return the best score of n ways; see :func:`join`."""
    best = -np.inf
    for _ in range(n):
        best = max(best, value[left] + value[right])
        left, right = left + left_step, right + right_step
    return best


@njit(cache=True, nogil=True, borrowed=True)
def sum_of_ways(value: F64, left: int, left_step: int, right: int, right_step: int, n: int) -> float:
    """Return the logarithm of the sum of n ways; see :func:`join`."""
    best = best_of_ways(value, left, left_step, right, right_step, n)
    if n == 1 or best == -np.inf:
        return best
    total = 0.0
    for _ in range(n):
        total += np.exp(value[left] + value[right] - best)
        left, right = left + left_step, right + right_step
    return best + np.log(total)


@njit(cache=True, nogil=True, borrowed=True)
def best_way(value: F64, left: int, left_step: int, right: int, right_step: int, n: int) -> int:
    """Return the first one of the best of n ways; see :func:`join`."""
    best_k, best = 0, -np.inf
    for k in range(n):
        score = value[left] + value[right]
        if score > best:
            best_k, best = k, score
        left, right = left + left_step, right + right_step
    return best_k


@njit(cache=True, nogil=True, borrowed=True)
def share_ways(items: Items, out: int, left: int, left_step: int, right: int, right_step: int, n: int) -> None:
    """Share out the probability of an item among its ways.

    Parameters
    ----------
    items, out, left, left_step, right, right_step, n
        As for :func:`join`.
    """
    value, terms, whole = items.value, items.terms, 0.0
    for k in range(n):
        terms[k] = np.exp(value[left + k * left_step] + value[right + k * right_step] - value[out])
        whole += terms[k]
    scale = items.outer[out] / whole
    for k in range(n):
        items.outer[left + k * left_step] += scale * terms[k]
        items.outer[right + k * right_step] += scale * terms[k]


class RowSources(NamedTuple):
    """The sources of the items of a row: each source is one other item and a score::

        value[out + j] = plus over k:  value[of + k of_step + j of_each] + scores[at + k at_step + j]

    Parameters
    ----------
    n : int
        Sources of each item.
    width : int
        Items of the row.
    of, of_step, of_each : int
        What they are made of; ``of_each`` is 0 where all items of the row are made of the same ones, else 1.
    at, at_step : int
        Where the scores are.
    """

    n: int
    width: int
    of: int
    of_step: int
    of_each: int
    at: int
    at_step: int


class Lists(NamedTuple):
    """The r best scores of each item, best first, ``-inf`` where there are fewer, and where they come from.

    Parameters
    ----------
    value : ndarray of float64, shape (items, r)
    source, rank : ndarray of int32, shape (items, r)
        The source of each, and the entry of the source's list that it comes from.
    """

    value: F64
    source: I32
    rank: I32


@njit(cache=True, nogil=True)
def no_lists(n: int, r: int) -> Lists:
    """Return the empty lists of n items."""
    return Lists(np.full((n, r), -np.inf), np.zeros((n, r), dtype=np.int32), np.zeros((n, r), dtype=np.int32))


@njit(cache=True, nogil=True)
def list_rows(lists: Lists, out: int, sources: RowSources, scores: F64) -> None:
    """Write the lists of a row of items; see :class:`Ways`."""
    value = lists.value
    for j in range(sources.width):
        list_item(value, sources, scores, j, value[out + j], lists.source[out + j], lists.rank[out + j])


@njit(cache=True, nogil=True)
def list_item(value: F64, sources: RowSources, scores: F64, j: int, best: F64, source: I32, rank: I32) -> None:
    """Write the list of item j of a row: always the best one of the heads of its sources' lists.

    Parameters
    ----------
    value : ndarray of float64, shape (items, r)
        Lists of items, best first.
    sources : Ways
    scores : ndarray of float64
    j : int
    best : ndarray of float64, shape (r,)
        Written, best first; ``-inf`` where there are fewer.
    source, rank : ndarray of int32, shape (r,)
        Written: the source of each, and the entry of its list.
    """
    r, heads = len(best), np.zeros(sources.n, dtype=np.int32)
    for entry in range(r):
        best_k, top = -1, -np.inf
        for k in range(sources.n):
            if heads[k] < r:
                of, at = sources.of + k * sources.of_step + j * sources.of_each, sources.at + k * sources.at_step + j
                score = value[of, heads[k]] + scores[at]
                if score > top:
                    best_k, top = k, score
        best[entry], source[entry], rank[entry] = top, max(best_k, 0), heads[max(best_k, 0)]
        if best_k >= 0:
            heads[best_k] += 1
