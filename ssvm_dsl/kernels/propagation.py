"""Compiled search for states that no table rules out, for :mod:`ssvm_dsl.inference.starting`.

States that are in no joint state left of some factor are dropped until nothing changes (arc consistency; Mackworth,
Artificial Intelligence 8, 1977).  Then the variables take their best states left, one after the other, and what that
rules out is dropped each time.  On forests of pairs no state taken has to be taken back; elsewhere a state that
leaves a variable without any is dropped, and the next one is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.kernels.compiling.jit import njit
from ssvm_dsl.kernels.flat import FactorLists


class SearchState(NamedTuple):
    """The states that are left, and work space.

    Parameters
    ----------
    alive : ndarray of bool, shape (S,)
        States that are left.
    dead : ndarray of bool, shape (V,)
        Variables that no state is left for before any is taken, so that there is no labelling.
    supported : ndarray of bool, shape (S,)
        False between two calls.
    queue : ndarray of int64, shape (F + 1,)
        Factors to look at, a ring.
    queued : ndarray of bool, shape (F,)
        Whether a factor is in the queue; False between two calls.
    trail : ndarray of int64, shape (S,)
        States that were dropped.
    digit : ndarray of int64, shape (at least the variables of a factor,)
        0 between two calls.
    """

    alive: Bools
    dead: Bools
    supported: Bools
    queue: I64
    queued: Bools
    trail: I64
    digit: I64


@njit(cache=True, nogil=True)
def take_states(lists: FactorLists, score: F64, pool: F64, alive: Bools, labels: I32, dead: Bools) -> None:
    """Take a state for every variable, the best one of those that are left.

    Parameters
    ----------
    lists : FactorLists
    score : ndarray of float64, shape (S,)
        What is best; read only.
    pool : ndarray of float64
        Tables; ``-inf`` rules a joint state out.
    alive : ndarray of bool, shape (S,)
        States that are left; written.
    labels : ndarray of int32, shape (V,)
        Written.
    dead : ndarray of bool, shape (V,)
        Written: variables that no state is left for before any is taken, so that there is no labelling.
    """
    n_factors, factor = len(lists.table), lists.factor
    queue, queued = np.empty(n_factors + 1, np.int64), np.zeros(n_factors, np.bool_)
    trail = np.empty(len(score), np.int64)
    arity = 0
    for f in range(n_factors):
        arity = max(arity, lists.slot_ptr[f + 1] - lists.slot_ptr[f])
    digit = np.zeros(arity, np.int64)
    state = SearchState(alive, dead, np.zeros(len(score), np.bool_), queue, queued, trail, digit)
    for f in range(n_factors):
        queue[f], queued[f] = f, True
    _drop(lists, pool, state, n_factors, 0, True)
    for v in range(len(lists.card)):
        again = False
        while True:
            best, left, first = -1, 0, lists.state_ptr[v]
            for s in range(lists.card[v]):
                if alive[first + s]:
                    left += 1
                    if best < 0 or score[first + s] > score[first + best]:
                        best = s
            labels[v] = max(best, 0)
            if left == 0 or (left == 1 and not again):
                break
            size = 0
            for at in range(first, lists.state_ptr[v + 1]):
                if at != first + best and alive[at]:
                    alive[at], trail[size] = False, at
                    size += 1
            n_queued = 0
            for m in range(lists.factor_ptr[v], lists.factor_ptr[v + 1]):
                queue[n_queued], queued[factor[m]] = factor[m], True
                n_queued += 1
            size = _drop(lists, pool, state, n_queued, size, False)
            if size >= 0:
                break
            for k in range(-size - 1):  # a variable has no state left: take everything back
                alive[trail[k]] = True
            alive[first + best], again = False, True


@njit(cache=True, nogil=True)
def _drop(lists: FactorLists, pool: F64, state: SearchState, n_queued: int, size: int, first: bool) -> int:
    """Drop states that factors in the queue leave without a joint state, then continue with neighbouring factors.

    Returns the size of the trail; where a variable has no state left ``-size - 1``, unless ``first``: it is then
    marked as dead, and its states stay.

    Parameters
    ----------
    lists, pool
        As of :func:`take_states`.
    state : SearchState
        Changed.
    n_queued : int
        How many are in the queue at first.
    size : int
        States on the trail so far.
    first : bool
        Whether no state has been taken yet.
    """
    alive, dead, supported, queue, queued, trail, digit = state
    state_ptr, scope, factor = lists.state_ptr, lists.scope, lists.factor
    capacity, head = len(queue), 0
    while n_queued:
        f = queue[head]
        head, n_queued = (head + 1) % capacity, n_queued - 1
        queued[f] = False
        lo, hi = lists.slot_ptr[f], lists.slot_ptr[f + 1]
        _mark(lists, f, pool, alive, supported, digit)
        for slot in range(lo, hi):
            u, left, before = scope[slot], 0, 0
            for at in range(state_ptr[u], state_ptr[u + 1]):
                before += alive[at]
                left += alive[at] and supported[at]
            if left == before:
                continue
            if left == 0 and first:
                dead[u] = True
                continue
            for at in range(state_ptr[u], state_ptr[u + 1]):
                if alive[at] and not supported[at]:
                    alive[at], trail[size] = False, at
                    size += 1
            if left == 0:
                size = -size - 1
                break
            for m in range(lists.factor_ptr[u], lists.factor_ptr[u + 1]):
                g = factor[m]
                if g != f and not queued[g]:
                    queue[(head + n_queued) % capacity], queued[g] = g, True
                    n_queued += 1
        for slot in range(lo, hi):
            for at in range(state_ptr[scope[slot]], state_ptr[scope[slot] + 1]):
                supported[at] = False
        if size < 0:
            for k in range(n_queued):
                queued[queue[(head + k) % capacity]] = False
            return size
        if first:
            size = 0  # what is dropped at first stays dropped
    return size


@njit(cache=True, nogil=True)
def _mark(lists: FactorLists, f: int, pool: F64, alive: Bools, supported: Bools, digit: I64) -> None:
    """Mark the states that some joint state of factor f has which is left; ``digit`` counts them up, back to 0."""
    card, state_ptr, table = lists.card, lists.state_ptr, lists.table[f]
    scope, n_configs = lists.scope[lists.slot_ptr[f] : lists.slot_ptr[f + 1]], 1
    for v in scope:
        n_configs *= card[v]
    last, config = len(scope) - 1, 0
    while config < n_configs:
        k, skipped = 0, 1
        while k <= last and alive[state_ptr[scope[k]] + digit[k]]:
            k += 1
        if k > last:
            if pool[table + config] != -np.inf:
                for j in range(len(scope)):
                    supported[state_ptr[scope[j]] + digit[j]] = True
            k = last
        else:  # no joint state with this one is left: the digits behind it are 0
            for j in range(k + 1, last + 1):
                skipped *= card[scope[j]]
        config += skipped
        for j in range(k, -1, -1):  # no division for each joint state
            digit[j] += 1
            if digit[j] < card[scope[j]]:
                break
            digit[j] = 0
