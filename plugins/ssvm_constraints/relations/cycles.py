r"""Rows of relations that a point violates: triangles, and longer cycles where pairs are missing.

Every relation here is described by clauses "at least one of these literals is true, or is false", which are found as
paths.  A literal of value x in [0, 1] says that its two items are related.  Walking over it costs ``1 - x`` (it might
be false) or, against an order, ``x``; a *closing* literal forbids a path at a cost of its own:

* ``equivalence``: walk over a pair in both directions for ``1 - x``; a path from a to b is closed by (a, b) for ``x``;
* ``transitive``: walk from a to b for ``1 - x``; a path from a to b is closed by (a, b) for ``x``;
* ``acyclic``: walk from a to b for ``1 - x``; a path from b to a is closed by (a, b) for ``1 - x``;
* ``linear-order``: walk from a to b for ``1 - x``, from b to a for ``x``; cycles are closed by either.

A path and its closing literal are a violated row where their costs sum to less than 1.  Shortest paths find one
whenever there is one (Groetschel and Wakabayashi, Mathematical Programming 45, 1989; Groetschel, Juenger and Reinelt,
Operations Research 32, 1984).  Paths of up to two steps, which are triangles, are tried first: between complete sets
of pairs no others are needed, except for ``acyclic``.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I64, Bools
from ssvm_dsl.kernels import assign, njit

#: Numbers of the relations in kernels.
EQUIVALENCE, LINEAR_ORDER, TRANSITIVE, ACYCLIC = 0, 1, 2, 3

#: Added to the cost of each step: of two paths of equal cost the one of fewer steps is the stronger row.
STEP = 1e-7

#: Searches end after about so many steps where they have found some row, and begin at items that far apart.
MOST_LOOKS, STRIDE = 20_000_000, 7919

#: Up to so many items triangles are tried on a matrix of costs.
MOST_DENSE = 1500


@njit(cache=True, nogil=True)
def gcd(a: int, b: int) -> int:
    """Return the greatest common divisor (Euclid)."""
    while b:
        a, b = b, a % b
    return a


@njit(cache=True, nogil=True)
def arcs_of(kind: int, first: I64, second: I64, x: F64) -> tuple[I64, I64, F64, I64]:
    """Return the steps that a relation allows: tail, head, cost, and term.

    The term ``2 l`` says that literal l is false in the clause, ``2 l + 1`` that it is true.  Steps from an item to
    itself are left out, but for ``transitive``, where they contradict another literal of the same pair.
    """
    m = len(first)
    twice = kind <= 1
    tail, head = np.empty(2 * m, np.int64), np.empty(2 * m, np.int64)
    cost, term = np.empty(2 * m), np.empty(2 * m, np.int64)
    made = 0
    for l in range(m):
        if first[l] == second[l] and kind != 2:
            continue
        tail[made], head[made], cost[made], term[made] = first[l], second[l], 1.0 - x[l], 2 * l
        made += 1
        if twice:
            tail[made], head[made] = second[l], first[l]
            if kind == 0:
                cost[made], term[made] = 1.0 - x[l], 2 * l
            else:
                cost[made], term[made] = x[l], 2 * l + 1
            made += 1
    return tail[:made], head[:made], cost[:made], term[:made]


@njit(cache=True, nogil=True)
def closings_of(kind: int, first: I64, second: I64, x: F64) -> tuple[I64, I64, F64, I64]:
    """Return the literals that close paths: where such a path begins and ends, cost, and term.

    Of cycles it is asked for the path that begins at the smallest item.  A path from an item to itself is empty, but
    for ``transitive``.
    """
    m = len(first)
    start, end = np.empty(2 * m, np.int64), np.empty(2 * m, np.int64)
    cost, term = np.empty(2 * m), np.empty(2 * m, np.int64)
    made = 0
    for l in range(m):
        a, b = first[l], second[l]
        if kind == 0 or kind == 2:
            start[made], end[made], cost[made], term[made] = a, b, x[l], 2 * l + 1
            made += 1
        elif b <= a:
            start[made], end[made], cost[made], term[made] = b, a, 1.0 - x[l], 2 * l
            made += 1
        elif kind == 1:
            start[made], end[made], cost[made], term[made] = a, b, x[l], 2 * l + 1
            made += 1
    return start[:made], end[:made], cost[:made], term[:made]


@njit(cache=True, nogil=True)
def triangles(
    kind: int, n: int, arcs: tuple[I64, I64, F64, I64], closings: tuple[I64, I64, F64, I64], least: float
) -> tuple[I64, I64, F64]:
    """Return the most violated row of up to three terms for each closing literal.

    Parameters
    ----------
    kind : int
    n : int
        Number of items.
    arcs, closings : tuples of ndarrays
        As :func:`arcs_of` and :func:`closings_of` return them.
    least : float
        Rows that are violated by less are left out.

    Returns
    -------
    ptr, term : ndarray of int64
        The terms of each row.
    violation : ndarray of float64
    """
    tail, head, arc_cost, arc_term = arcs
    start, end, cost, term = closings
    out, into = np.full((n, n), np.inf), np.full((n, n), np.inf)
    by = np.full((n, n), -1, np.int64)
    for a in range(len(tail)):
        if arc_cost[a] < out[tail[a], head[a]]:
            out[tail[a], head[a]] = arc_cost[a]
            into[head[a], tail[a]] = arc_cost[a]
            by[tail[a], head[a]] = arc_term[a]
    cyclic = kind == 1 or kind == 3
    ptr, terms, violation = np.zeros(len(start) + 1, np.int64), np.empty(3 * len(start), np.int64), np.empty(len(start))
    made, used = 0, 0
    for q in range(len(start)):
        u, v, limit = start[q], end[q], 1.0 - least - cost[q]
        if limit <= 0.0:
            continue
        best, middle = limit, -2
        if u == v and kind != 2:
            best, middle = 0.0, -3
        else:
            if out[u, v] < best and by[u, v] // 2 != term[q] // 2:
                best, middle = out[u, v], -1
            leaving, entering, lowest = out[u], into[v], best
            low = u + 1 if cyclic else 0
            for w in range(low, n):
                lowest = min(lowest, leaving[w] + entering[w])
            if lowest < best:
                for w in range(low, n):
                    if leaving[w] + entering[w] == lowest:
                        best, middle = lowest, w
                        break
        if middle == -2:
            continue
        if middle == -1:
            terms[used] = by[u, v]
            used += 1
        elif middle >= 0:
            terms[used], terms[used + 1] = by[u, middle], by[middle, v]
            used += 2
        terms[used] = term[q]
        used += 1
        violation[made] = 1.0 - best - cost[q]
        made += 1
        ptr[made] = used
    return ptr[: made + 1], terms[:used], violation[:made]


@njit(cache=True, nogil=True)
def shortest_rows(
    kind: int, n: int, arcs: tuple[I64, I64, F64, I64], closings: tuple[I64, I64, F64, I64], least: float
) -> tuple[I64, I64, F64]:
    """Return the most violated row of any length for each closing literal, by a shortest path (Dijkstra 1959).

    Parameters
    ----------
    kind : int
    n : int
    arcs, closings : tuples of ndarrays
    least : float
        Rows that are violated by less are left out.

    Returns
    -------
    ptr, term : ndarray of int64
    violation : ndarray of float64

    Notes
    -----
    One search for each item that paths begin at, which ends at distance 1: time O(n a log a) for a steps.
    """
    tail, head, arc_cost, arc_term = arcs
    start, end, cost, term = closings
    order, first = np.argsort(tail, kind="mergesort"), np.zeros(n + 1, np.int64)
    for t in tail:
        first[t + 1] += 1
    first = np.cumsum(first)
    by_start, opening = np.argsort(start, kind="mergesort"), np.zeros(n + 1, np.int64)
    for t in start:
        opening[t + 1] += 1
    opening = np.cumsum(opening)
    cyclic = kind == 1 or kind == 3
    ptr, violation = np.zeros(len(start) + 1, np.int64), np.empty(len(start))
    terms, made, used = np.empty(max(16, 4 * len(start)), np.int64), 0, 0
    far, came, done = np.full(n, np.inf), np.full(n, -1, np.int64), np.zeros(n, np.bool_)
    touched, n_touched = np.empty(n, np.int64), 0
    keys, nodes = np.empty(len(tail) + 1), np.empty(len(tail) + 1, np.int64)
    looks, stride = 0, max(1, STRIDE % max(n, 1))
    while gcd(stride, n) > 1:
        stride += 1
    for turn in range(n):
        u = turn * stride % n  # those that are left out when there are rows enough are spread over all
        if made and looks > MOST_LOOKS:
            break
        cheapest = 1.0
        for at in range(opening[u], opening[u + 1]):
            cheapest = min(cheapest, cost[by_start[at]])
        limit = 1.0 - least - cheapest
        if opening[u] == opening[u + 1] or limit <= 0.0:
            continue
        for k in range(n_touched):
            far[touched[k]], came[touched[k]], done[touched[k]] = np.inf, -1, False
        far[u], keys[0], nodes[0], size, touched[0], n_touched = 0.0, 0.0, u, 1, u, 1
        back, last = np.inf, -1  # the shortest way back to u, and its last step
        while size:
            key, w = keys[0], nodes[0]
            size -= 1
            hole, moved_key, moved = 0, keys[size], nodes[size]
            while 2 * hole + 1 < size:
                child = 2 * hole + 1
                if child + 1 < size and keys[child + 1] < keys[child]:
                    child += 1
                if keys[child] >= moved_key:
                    break
                keys[hole], nodes[hole], hole = keys[child], nodes[child], child
            keys[hole], nodes[hole] = moved_key, moved
            if done[w]:
                continue
            if key >= limit:
                break
            done[w] = True
            looks += 1 + first[w + 1] - first[w]
            for at in range(first[w], first[w + 1]):
                a = order[at]
                z, total = head[a], key + arc_cost[a] + STEP
                if z == u and total < back:
                    back, last = total, a
                if done[z] or (cyclic and z < u) or total >= min(far[z], limit):
                    continue
                if far[z] == np.inf:
                    touched[n_touched], n_touched = z, n_touched + 1
                far[z], came[z], hole = total, a, size
                size += 1
                while hole and keys[(hole - 1) // 2] > total:
                    keys[hole], nodes[hole] = keys[(hole - 1) // 2], nodes[(hole - 1) // 2]
                    hole = (hole - 1) // 2
                keys[hole], nodes[hole] = total, z
        for at in range(opening[u], opening[u + 1]):
            q = by_start[at]
            z, step = end[q], came[end[q]]
            total = far[z]
            if z == u and kind == 2:
                total, step = back, last
            if not total + cost[q] < 1.0 - least:
                continue
            if used + n + 1 > len(terms):
                longer = np.empty(2 * len(terms) + n + 1, np.int64)
                assign(longer[:used], terms)
                terms = longer
            while step >= 0:
                terms[used], used = arc_term[step], used + 1
                step = came[tail[step]] if tail[step] != u else -1
            terms[used], used = term[q], used + 1
            violation[made], made = 1.0 - total - cost[q], made + 1
            ptr[made] = used
    return ptr[: made + 1], terms[:used], violation[:made]


@njit(cache=True, nogil=True)
def has_circle(n: int, tail: I64, head: I64) -> bool:
    """Return whether steps lead in a circle (Kahn 1962)."""
    into, ptr = np.zeros(n, np.int64), np.zeros(n + 1, np.int64)
    for a in range(len(tail)):
        into[head[a]] += 1
        ptr[tail[a] + 1] += 1
    ptr = np.cumsum(ptr)
    place, after = ptr[:-1].copy(), np.empty(len(tail), np.int64)
    for a in range(len(tail)):
        after[place[tail[a]]] = head[a]
        place[tail[a]] += 1
    queue, size = np.empty(n, np.int64), 0
    for v in range(n):
        if into[v] == 0:
            queue[size], size = v, size + 1
    read = 0
    while read < size:
        u, read = queue[read], read + 1
        for at in range(ptr[u], ptr[u + 1]):
            v = after[at]
            into[v] -= 1
            if into[v] == 0:
                queue[size], size = v, size + 1
    return size < n


@njit(cache=True, nogil=True)
def joined(n: int, first: I64, second: I64, true: Bools) -> I64:
    """Return the cluster of each item, named by its smallest one: items that true pairs connect (union and find)."""
    root = np.arange(n)
    for l in range(len(first)):
        if true[l]:
            a, b = first[l], second[l]
            while root[a] != a:
                root[a] = root[root[a]]
                a = root[a]
            while root[b] != b:
                root[b] = root[root[b]]
                b = root[b]
            root[max(a, b)] = min(a, b)
    for v in range(n):
        root[v] = root[root[v]]
    return root


@njit(cache=True, nogil=True)
def reached_falsely(n: int, first: I64, second: I64, true: Bools) -> bool:
    """Return whether true pairs lead from one item to another one although that pair is there, and false."""
    ptr = np.zeros(n + 1, np.int64)
    for l in range(len(first)):
        if true[l]:
            ptr[first[l] + 1] += 1
    ptr = np.cumsum(ptr)
    place, after = ptr[:-1].copy(), np.empty(ptr[-1], np.int64)
    wanting = np.zeros(n + 1, np.int64)
    for l in range(len(first)):
        if true[l]:
            after[place[first[l]]] = second[l]
            place[first[l]] += 1
        else:
            wanting[first[l] + 1] += 1
    wanting = np.cumsum(wanting)
    place, wanted = wanting[:-1].copy(), np.empty(wanting[-1], np.int64)
    for l in range(len(first)):
        if not true[l]:
            wanted[place[first[l]]] = second[l]
            place[first[l]] += 1
    seen, queue = np.full(n, -1, np.int64), np.empty(n + 1, np.int64)
    for u in range(n):
        if wanting[u] == wanting[u + 1]:
            continue
        queue[0], size, read, opened = u, 1, 0, False
        while read < size:
            w, read = queue[read], read + 1
            if w == u and opened:
                continue
            opened = True
            for at in range(ptr[w], ptr[w + 1]):
                if seen[after[at]] != u:
                    seen[after[at]] = u
                    queue[size], size = after[at], size + 1
        for at in range(wanting[u], wanting[u + 1]):
            if seen[wanted[at]] == u:
                return True
    return False


@njit(cache=True, nogil=True)
def broken_relations(kind: int, sizes: I64, ptr: I64, first: I64, second: I64, true: Bools) -> Bools:
    """Return which relations of a batch are broken.

    Parameters
    ----------
    kind : int
    sizes : ndarray of int64, shape (m,)
        Items of each.
    ptr : ndarray of int64, shape (m + 1,)
        Literals of each.
    first, second : ndarray of int64, shape (l,)
        The items of each literal.
    true : ndarray of bool, shape (l,)
    """
    out = np.zeros(len(sizes), np.bool_)
    for k in range(len(sizes)):
        lo, hi, n = ptr[k], ptr[k + 1], sizes[k]
        one, other, holds = first[lo:hi], second[lo:hi], true[lo:hi]
        if kind == 0:
            cluster = joined(n, one, other, holds)
            for l in range(hi - lo):
                if not holds[l] and cluster[one[l]] == cluster[other[l]]:
                    out[k] = True
        elif kind == 2:
            out[k] = reached_falsely(n, one, other, holds)
        else:
            tail, head, used = np.empty(hi - lo, np.int64), np.empty(hi - lo, np.int64), 0
            for l in range(hi - lo):
                if holds[l]:
                    tail[used], head[used], used = one[l], other[l], used + 1
                elif kind == 1 and one[l] != other[l]:
                    tail[used], head[used], used = other[l], one[l], used + 1
            out[k] = has_circle(n, tail[:used], head[:used])
    return out
