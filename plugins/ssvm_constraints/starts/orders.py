"""Linear orders of high score: items are inserted where they gain most, from many beginnings in one kernel.

Insertion finds better local optima of the linear ordering problem than exchanges do; some items are then moved at
random, and the search repeated (Schiavinotto and Stuetzle, Journal of Mathematical Modelling and Algorithms, 2004).
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import njit


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
