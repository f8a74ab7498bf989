"""A clustering, an order or a relation of high score that agrees with one constraint: what searches begin with."""

from __future__ import annotations

import numpy as np

from ssvm_constraints.relations.cycles import joined
from ssvm_constraints.starts.closures import transitive
from ssvm_constraints.starts.clusterings import clustering
from ssvm_constraints.starts.orders import best_order, first_order
from ssvm_dsl.ir import F64, I64, Bools, owners, pointers

#: Pairs of items that a search looks at, about: a few hundredths of a second.
LOOKS = 10_000_000

#: Up to so many items orders and transitive relations are searched for, and those with forced pairs: by a matrix.
MOST_ORDERED, MOST_TRANSITIVE, MOST_FORCED = 3000, 2000, 600

#: Gains below this share of the largest one are what rounding leaves.
RELATIVE = 1e-10


def best_clusters(n: int, first: I64, second: I64, gain: F64) -> Bools | None:
    """Return the truth of pairs under a clustering of high score; ``None`` where forced pairs contradict each other.

    Parameters
    ----------
    n : int
        Number of items.
    first, second : ndarray of int64, shape (l,)
    gain : ndarray of float64, shape (l,)
        ``inf`` of pairs that must be together, ``-inf`` of those that must not.
    """
    group = joined(n, first, second, gain == np.inf)
    number, of = np.unique(group, return_inverse=True)
    a, b = of[first], of[second]
    if (gain[a == b] == -np.inf).any():
        return None
    apart, finite = a != b, np.where(np.isfinite(gain), gain, 0.0)
    large = 1.0 + 2.0 * float(np.abs(finite).sum())
    value = np.where(gain == -np.inf, -large, finite)[apart]
    low, high = np.minimum(a, b)[apart], np.maximum(a, b)[apart]
    pair, place = np.unique(low * len(number) + high, return_inverse=True)
    weight = np.bincount(place, value, len(pair))
    low, high = pair // max(len(number), 1), pair % max(len(number), 1)
    tail, head = np.concatenate([low, high]), np.concatenate([high, low])
    order = np.argsort(tail, kind="stable")
    ptr = pointers(np.bincount(tail, minlength=len(number)))
    least = RELATIVE * float(np.abs(finite).max(initial=0.0))
    cluster_of = clustering(ptr, head[order], np.concatenate([weight, weight])[order], least, LOOKS)
    return np.asarray(cluster_of[a] == cluster_of[b])


def best_precedence(n: int, first: I64, second: I64, gain: F64, total: bool) -> Bools | None:
    """Return the truth of pairs under an order of high score; ``None`` where forced pairs contradict each other.

    Parameters
    ----------
    n : int
    first, second : ndarray of int64, shape (l,)
    gain : ndarray of float64, shape (l,)
    total : bool
        Whether all pairs along the order are true, or only those that gain something: an acyclic relation.
    """
    must, never = gain == np.inf, (gain == -np.inf) & total
    value = np.where(np.isfinite(gain), gain if total else np.maximum(gain, 0.0), 0.0)
    tail = np.concatenate([first[must], second[never & (first != second)]])
    head = np.concatenate([second[must], first[never & (first != second)]])
    priority = np.bincount(first, value, n) - np.bincount(second, value, n)
    order = first_order(n, tail, head, priority)
    if len(order) < n:
        return None
    if n <= MOST_ORDERED:
        matrix = np.bincount(first * n + second, value, n * n).reshape(n, n)
        matrix = matrix - matrix.T
        large = 1.0 + 2.0 * float(np.abs(value).sum())
        np.add.at(matrix, (tail, head), large)
        np.subtract.at(matrix, (head, tail), large)
        order = best_order(matrix, order, RELATIVE * float(np.abs(value).max(initial=0.0)), LOOKS)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    before = place[first] < place[second]
    return np.asarray(before if total else before & (gain > 0.0))


def best_closure(n: int, first: I64, second: I64, gain: F64) -> Bools | None:
    """Return the truth of pairs under a transitive relation of high score; ``None`` where no relation keeps them.

    Parameters
    ----------
    n : int
    first, second : ndarray of int64, shape (l,)
    gain : ndarray of float64, shape (l,)
    """
    if n > (MOST_FORCED if (gain == np.inf).any() else MOST_TRANSITIVE):
        return None if (gain == np.inf).any() else np.zeros(len(gain), dtype=bool)
    finite = np.where(np.isfinite(gain), gain, 0.0)
    large = 1.0 + 2.0 * float(np.abs(finite).sum())
    value = np.clip(gain, -large, large)
    matrix = np.bincount(first * n + second, value, n * n).reshape(n, n)
    least, holds = RELATIVE * float(np.abs(finite).max(initial=0.0)), np.zeros((n, n), dtype=bool)
    must = gain == np.inf
    holds[first[must], second[must]] = True
    for middle in range(n) if must.any() else ():
        holds |= np.outer(holds[:, middle], holds[middle])
    if (matrix[holds] <= -large / 2).any():
        return None
    fixed = np.zeros(n, dtype=bool)
    fixed[first[must]] = fixed[second[must]] = True
    tail, head = np.nonzero(matrix > 0.0)
    order = np.argsort(-matrix[tail, head], kind="stable")
    tail, head = tail[order].astype(np.int64), head[order].astype(np.int64)
    closure = transitive(holds, matrix, tail, head, fixed, least, LOOKS)
    everything = np.ones((n, n), dtype=bool)
    best = max((closure, everything), key=lambda one: float(matrix[one].sum()))
    return np.asarray(best[first, second])


def items_of(sizes: I64, ptr: I64, first: I64, second: I64) -> tuple[I64, I64, I64]:
    """Return (number of items in each constraint that occur in a literal, and the literals' items renumbered)."""
    base = pointers(sizes)
    start = base[:-1][owners(ptr)]
    used, place = np.unique(np.concatenate([start + first, start + second]), return_inverse=True)
    counts = np.diff(np.searchsorted(used, base))
    place = place - np.tile(pointers(counts)[:-1][owners(ptr)], 2)
    return counts, place[: len(first)], place[len(first) :]
