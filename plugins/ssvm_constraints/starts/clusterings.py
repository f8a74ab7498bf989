"""Clusterings of high score: items and clusters move where they gain most, from many beginnings in one kernel.

A local optimum of moves of single items is coarsened: clusters become items and move likewise, which joins them, until
nothing gains (Blondel et al., Journal of Statistical Mechanics, 2008; for signed weights Keuper et al., ICCV 2015).
Then part of the clustering is broken up, and what follows is kept where it is no worse.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import njit


@njit(cache=True, nogil=True)
def moved_items(ptr: I64, other: I64, weight: F64, of: I64, least: float) -> int:
    """Move items to the clusters where they gain most until none gains; return how many neighbours were looked at.

    Parameters
    ----------
    ptr, other, weight
        The neighbours of each of n items, and what it gains to be in one cluster with them.
    of : ndarray of int64, shape (n,)
        The cluster of each item, below n; changed.
    least : float
        Smaller gains count as none.
    """
    n = len(of)
    size, gain, seen = np.zeros(n, np.int64), np.zeros(n), np.empty(n, np.int64)
    empty, n_empty = np.empty(n, np.int64), 0
    for v in range(n):
        size[of[v]] += 1
    for c in range(n):
        if size[c] == 0:
            empty[n_empty], n_empty = c, n_empty + 1
    looks, moved = 0, True
    while moved:
        moved = False
        for v in range(n):
            now, n_seen = of[v], 0
            looks += 1 + ptr[v + 1] - ptr[v]
            for at in range(ptr[v], ptr[v + 1]):
                c = of[other[at]]
                if gain[c] == 0.0:
                    seen[n_seen], n_seen = c, n_seen + 1
                gain[c] += weight[at]
                if gain[c] == 0.0:
                    gain[c] = 1e-300
            here, best, target = gain[now], 0.0, -1
            for i in range(n_seen):
                if gain[seen[i]] > best:
                    best, target = gain[seen[i]], seen[i]
            for i in range(n_seen):
                gain[seen[i]] = 0.0
            if best <= here + least or (target < 0 and size[now] == 1):
                continue
            if target < 0:
                n_empty -= 1
                target = empty[n_empty]
            size[now] -= 1
            size[target] += 1
            if size[now] == 0:
                empty[n_empty], n_empty = now, n_empty + 1
            of[v], moved = target, True
    return looks


@njit(cache=True, nogil=True)
def coarsened(ptr: I64, other: I64, weight: F64, of: I64) -> tuple[I64, I64, F64, int]:
    """Return the graph whose items are clusters, and their number; clusters are renumbered from 0 in ``of``."""
    n = len(of)
    number, n_clusters = np.full(n, -1, np.int64), 0
    for v in range(n):
        if number[of[v]] < 0:
            number[of[v]], n_clusters = n_clusters, n_clusters + 1
        of[v] = number[of[v]]
    first = np.zeros(n_clusters + 1, np.int64)
    for v in range(n):
        first[of[v] + 1] += 1
    first = np.cumsum(first)
    place, member = first[:-1].copy(), np.empty(n, np.int64)
    for v in range(n):
        member[place[of[v]]] = v
        place[of[v]] += 1
    new_ptr, total, there = np.zeros(n_clusters + 1, np.int64), np.zeros(n_clusters), np.zeros(n_clusters, np.bool_)
    new_other, new_weight = np.empty(len(other), np.int64), np.empty(len(other))
    made = 0
    for c in range(n_clusters):
        for i in range(first[c], first[c + 1]):
            v = member[i]
            for at in range(ptr[v], ptr[v + 1]):
                d = of[other[at]]
                if d != c:
                    if not there[d]:
                        there[d], new_other[made], made = True, d, made + 1
                    total[d] += weight[at]
        for i in range(new_ptr[c], made):
            d = new_other[i]
            new_weight[i], total[d], there[d] = total[d], 0.0, False
        new_ptr[c + 1] = made
    return new_ptr, new_other[:made], new_weight[:made], n_clusters


@njit(cache=True, nogil=True)
def improved(ptr: I64, other: I64, weight: F64, of: I64, least: float) -> int:
    """Move items and clusters until nothing gains; return how many neighbours were looked at."""
    looks = 0
    while True:
        looks += moved_items(ptr, other, weight, of, least)
        up_ptr, up_other, up_weight, n_up = coarsened(ptr, other, weight, of)
        before = n_up
        while True:  # each level joins clusters of the one below
            up = np.arange(n_up)
            looks += len(other) + moved_items(up_ptr, up_other, up_weight, up, least)
            up_ptr, up_other, up_weight, n_next = coarsened(up_ptr, up_other, up_weight, up)
            for v in range(len(of)):
                of[v] = up[of[v]]
            if n_next == n_up:
                break
            n_up = n_next
        if n_up == before:
            return looks


@njit(cache=True, nogil=True)
def clustering(ptr: I64, other: I64, weight: F64, least: float, most_looks: int) -> I64:
    """Return the best clustering found.

    Parameters
    ----------
    ptr : ndarray of int64, shape (n + 1,)
    other : ndarray of int64
        The neighbours of each item.
    weight : ndarray of float64
        The gain of being in one cluster with each of them, the same in both directions.
    least : float
        Smaller gains count as none.
    most_looks : int
        Neighbours to look at, about: a budget in operations.
    """
    n = len(ptr) - 1
    best = np.arange(n)
    looks = improved(ptr, other, weight, best, least)
    best_value, state = 0.0, np.uint64(88172645463325252)
    for v in range(n):
        for at in range(ptr[v], ptr[v + 1]):
            if best[v] == best[other[at]]:
                best_value += weight[at]
    trial = 0
    while n > 2 and looks < most_looks and trial < 10 * n:
        trial += 1
        of = best.copy()  # clusters are numbered from 0, so that some numbers are free
        n_clusters = 0
        for v in range(n):
            n_clusters = max(n_clusters, of[v] + 1)
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        drawn = int(state >> np.uint64(33))
        v = drawn % n
        if trial % 3 == 0:  # one cluster falls apart
            alone = n_clusters
            for w in range(n):
                if w != v and best[w] == best[v]:
                    of[w], alone = alone, alone + 1
        elif trial % 3 == 1:  # the clusters of two items become one
            w = (v + 1 + (drawn // n) % (n - 1)) % n
            for u in range(n):
                if best[u] == best[w]:
                    of[u] = best[v]
        else:  # some items go elsewhere
            for _ in range(max(2, n // 16)):
                state ^= state << np.uint64(13)
                state ^= state >> np.uint64(7)
                state ^= state << np.uint64(17)
                drawn = int(state >> np.uint64(33))
                of[drawn % n] = best[(drawn // n) % n]
        looks += improved(ptr, other, weight, of, least)
        value = 0.0
        for u in range(n):
            for at in range(ptr[u], ptr[u + 1]):
                if of[u] == of[other[at]]:
                    value += weight[at]
        if value >= best_value:
            best, best_value = of, value
    return best
