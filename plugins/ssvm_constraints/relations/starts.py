"""A clustering, an order or a relation of high score that agrees with one constraint: what searches begin with."""

from __future__ import annotations

import numpy as np

from ssvm_constraints.relations.cycles import joined
from ssvm_dsl.ir import F64, I64, Bools, owners, pointers
from ssvm_dsl.kernels import njit

# -- Transitive relations of high score: pairs are added with all that follows, items taken out and put back ---------


@njit(cache=True, nogil=True)
def add_pair(holds: Bools, gain: F64, a: int, b: int, least: float) -> tuple[bool, int]:
    """Add a pair and all that follows from it if that gains; return (whether it was added, number of pairs seen).

    Parameters
    ----------
    holds : ndarray of bool, shape (n, n)
        A transitive relation; changed.
    gain : ndarray of float64, shape (n, n)
        Of each pair that holds.
    """
    n = len(holds)
    before, behind, n_before, n_behind = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), 0, 0
    for v in range(n):
        if v == a or holds[v, a]:
            before[n_before], n_before = v, n_before + 1
        if v == b or holds[b, v]:
            behind[n_behind], n_behind = v, n_behind + 1
    total = 0.0
    for i in range(n_before):
        for j in range(n_behind):
            if not holds[before[i], behind[j]]:
                total += gain[before[i], behind[j]]
    if total <= least:
        return False, 2 * n + n_before * n_behind
    for i in range(n_before):
        for j in range(n_behind):
            holds[before[i], behind[j]] = True
    return True, 2 * n + 2 * n_before * n_behind


@njit(cache=True, nogil=True)
def transitive(holds: Bools, gain: F64, tail: I64, head: I64, fixed: Bools, least: float, most_looks: int) -> Bools:
    """Return the best transitive relation found.

    Parameters
    ----------
    holds : ndarray of bool, shape (n, n)
        A transitive relation to begin with.
    gain : ndarray of float64, shape (n, n)
    tail, head : ndarray of int64
        The pairs that gain something, the best first.
    fixed : ndarray of bool, shape (n,)
        Items that are not taken out.
    least : float
        Smaller gains count as none.
    most_looks : int
        Pairs to look at, about: a budget in operations.
    """
    n, looks, best = len(holds), 0, holds.copy()
    for a in range(len(tail)):
        if looks < most_looks and not best[tail[a], head[a]]:
            looks += add_pair(best, gain, tail[a], head[a], least)[1]
    better = True
    while better and looks < most_looks:
        better = False
        for v in range(n):
            if fixed[v] or looks >= most_looks:
                continue
            now, lost, gained = best.copy(), 0.0, 0.0
            now[v, :], now[:, v] = False, False
            for a in range(len(tail)):  # those of the item first, then what has become possible
                if (tail[a] == v or head[a] == v) and not now[tail[a], head[a]]:
                    looks += add_pair(now, gain, tail[a], head[a], least)[1]
            looks += 4 * n * n + len(tail)
            for a in range(n):
                for b in range(n):
                    if best[a, b] and not now[a, b]:
                        lost += gain[a, b]
                    elif now[a, b] and not best[a, b]:
                        gained += gain[a, b]
            if gained > lost + least:
                best, better = now, True
    return best


# -- Linear orders of high score: items are inserted where they gain most, from many beginnings ----------------------
#
# Insertion finds better local optima of the linear ordering problem than exchanges do; some items are then moved at
# random, and the search repeated (Schiavinotto and Stuetzle, Journal of Mathematical Modelling and Algorithms, 2004).


@njit(cache=True, nogil=True)
def first_order(n: int, tail: I64, head: I64, priority: F64) -> I64:
    """Return an order that keeps steps, of high priority first where there is a choice; shorter where they circle."""
    into, out = np.zeros(n, np.int64), np.empty(n, np.int64)
    for v in head:
        into[v] += 1
    ptr = np.zeros(n + 1, np.int64)
    for u in tail:
        ptr[u + 1] += 1
    ptr = np.cumsum(ptr)
    place, after = ptr[:-1].copy(), np.empty(len(tail), np.int64)
    for a in range(len(tail)):
        after[place[tail[a]]] = head[a]
        place[tail[a]] += 1
    ranked, free = np.argsort(-priority, kind="mergesort"), np.ones(n, np.bool_)
    for made in range(n):
        chosen = -1
        for v in ranked:
            if free[v] and into[v] == 0:
                chosen = v
                break
        if chosen < 0:
            return out[:made]
        out[made], free[chosen] = chosen, False
        for at in range(ptr[chosen], ptr[chosen + 1]):
            into[after[at]] -= 1
    return out


@njit(cache=True, nogil=True)
def inserted(gain: F64, order: I64, least: float) -> tuple[float, int]:
    """Insert each item where it gains most until none gains; return what was gained, and the number of pairs seen.

    Parameters
    ----------
    gain : ndarray of float64, shape (n, n)
        What it gains to have the first item before the second rather than behind it; skew-symmetric.
    order : ndarray of int64, shape (n,)
        Changed.
    least : float
        Smaller gains count as none.
    """
    n, total, looks, moved = len(order), 0.0, 0, True
    while moved:
        moved = False
        for at in range(n):
            row, best, target, running = gain[order[at]], least, at, 0.0
            for p in range(at - 1, -1, -1):
                running += row[order[p]]
                if running > best:
                    best, target = running, p
            running = 0.0
            for p in range(at + 1, n):
                running -= row[order[p]]
                if running > best:
                    best, target = running, p
            looks += n
            if target == at:
                continue
            v, step = order[at], 1 if target > at else -1
            for p in range(at, target, step):
                order[p] = order[p + step]
            order[target], moved, total = v, True, total + best
    return total, looks


@njit(cache=True, nogil=True)
def best_order(gain: F64, order: I64, least: float, most_looks: int) -> I64:
    """Return the best order found, from one to begin with; ``most_looks`` is a budget in pairs of items."""
    n, best = len(order), order.copy()
    _, looks = inserted(gain, best, least)
    state, trial = np.uint64(88172645463325252), 0
    while n > 2 and looks < most_looks and trial < 40 * n:
        trial += 1
        now, lost = best.copy(), 0.0
        for _ in range(3 + trial % 3):
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            drawn = int(state >> np.uint64(33))
            at, target = drawn % n, (drawn // n) % n
            v, step = now[at], 1 if target > at else -1
            for p in range(at, target, step):
                lost += step * gain[v, now[p + step]]
                now[p] = now[p + step]
            now[target] = v
        gained, seen = inserted(gain, now, least)
        looks += seen + 4 * n
        if gained >= lost:
            best = now
    return best


# -- Clusterings of high score: items and clusters move where they gain most -----------------------------------------
#
# A local optimum of moves of single items is coarsened: clusters become items and move likewise, which joins them,
# until
# nothing gains (Blondel et al., Journal of Statistical Mechanics, 2008; for signed weights Keuper et al., ICCV 2015).
# Then part of the clustering is broken up, and what follows is kept where it is no worse.


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
        cluster = best.copy()  # clusters are numbered from 0, so that some numbers are free
        n_clusters = 0
        for v in range(n):
            n_clusters = max(n_clusters, cluster[v] + 1)
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        drawn = int(state >> np.uint64(33))
        v = drawn % n
        if trial % 3 == 0:  # one cluster falls apart
            alone = n_clusters
            for w in range(n):
                if w != v and best[w] == best[v]:
                    cluster[w], alone = alone, alone + 1
        elif trial % 3 == 1:  # the clusters of two items become one
            w = (v + 1 + (drawn // n) % (n - 1)) % n
            for u in range(n):
                if best[u] == best[w]:
                    cluster[u] = best[v]
        else:  # some items go elsewhere
            for _ in range(max(2, n // 16)):
                state ^= state << np.uint64(13)
                state ^= state >> np.uint64(7)
                state ^= state << np.uint64(17)
                drawn = int(state >> np.uint64(33))
                cluster[drawn % n] = best[(drawn // n) % n]
        looks += improved(ptr, other, weight, cluster, least)
        value = 0.0
        for u in range(n):
            for at in range(ptr[u], ptr[u + 1]):
                if cluster[u] == cluster[other[at]]:
                    value += weight[at]
        if value >= best_value:
            best, best_value = cluster, value
    return best


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
    number, cluster = np.unique(group, return_inverse=True)
    a, b = cluster[first], cluster[second]
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
