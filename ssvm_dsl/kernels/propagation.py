"""Compiled search for states that no table rules out, for :mod:`ssvm_dsl.inference.starting`.

States that are in no joint state left of some factor are dropped until nothing changes (arc consistency; Mackworth,
Artificial Intelligence 8, 1977).  Then the variables take their best states left, one after the other, and what that
rules out is dropped each time.  On forests of pairs no state taken has to be taken back; elsewhere a state that
leaves a variable without any is dropped, and the next one is taken.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.kernels.compiling.jit import njit


@njit(cache=True, nogil=True)
def take_states(
    card: I32, state_ptr: I64, score: F64, slot_ptr: I64, scope: I32, table: I64, pool: F64, factor_ptr: I64,
    factor: I64, alive: Bools, labels: I32, dead: Bools,
) -> None:  # fmt: skip
    """Take a state for every variable, the best one of those that are left.

    Parameters
    ----------
    card : ndarray of int32, shape (V,)
        States of each variable.
    state_ptr : ndarray of int64, shape (V + 1,)
    score : ndarray of float64, shape (S,)
        What is best; read only.
    slot_ptr : ndarray of int64, shape (F + 1,)
        Slots of each factor.
    scope : ndarray of int32
        The variable of each slot.
    table : ndarray of int64, shape (F,)
        Where the table of each factor begins in ``pool``, C order; ``-inf`` rules a joint state out.
    pool : ndarray of float64
    factor_ptr : ndarray of int64, shape (V + 1,)
    factor : ndarray of int64
        The factors of each variable.
    alive : ndarray of bool, shape (S,)
        States that are left; written.
    labels : ndarray of int32, shape (V,)
        Written.
    dead : ndarray of bool, shape (V,)
        Written: variables that no state is left for before any is taken, so that there is no labelling.
    """
    n_factors = len(table)
    queue, queued = np.empty(n_factors + 1, np.int64), np.zeros(n_factors, np.bool_)
    trail = np.empty(len(score), np.int64)
    supported = np.zeros(len(score), np.bool_)
    for f in range(n_factors):
        queue[f], queued[f] = f, True
    _drop(card, state_ptr, slot_ptr, scope, table, pool, factor_ptr, factor, alive, supported, queue, queued,
          n_factors, trail, 0, dead, True)  # fmt: skip
    for v in range(len(card)):
        again = False
        while True:
            best, left = -1, 0
            for s in range(card[v]):
                at = state_ptr[v] + s
                if alive[at]:
                    left += 1
                    if best < 0 or score[at] > score[state_ptr[v] + best]:
                        best = s
            labels[v] = max(best, 0)
            if left == 0 or (left == 1 and not again):
                break
            size = 0
            for s in range(card[v]):
                at = state_ptr[v] + s
                if s != best and alive[at]:
                    alive[at], trail[size] = False, at
                    size += 1
            n_queued = 0
            for m in range(factor_ptr[v], factor_ptr[v + 1]):
                queue[n_queued], queued[factor[m]] = factor[m], True
                n_queued += 1
            size = _drop(card, state_ptr, slot_ptr, scope, table, pool, factor_ptr, factor, alive, supported, queue,
                         queued, n_queued, trail, size, dead, False)  # fmt: skip
            if size >= 0:
                break
            for k in range(-size - 1):  # a variable has no state left: take everything back
                alive[trail[k]] = True
            alive[state_ptr[v] + best], again = False, True


@njit(cache=True, nogil=True)
def _drop(
    card: I32, state_ptr: I64, slot_ptr: I64, scope: I32, table: I64, pool: F64, factor_ptr: I64, factor: I64,
    alive: Bools, supported: Bools, queue: I64, queued: Bools, n_queued: int, trail: I64, size: int, dead: Bools,
    first: bool,
) -> int:  # fmt: skip
    """Drop states that factors in the queue leave without a joint state, and go on with the factors next to them.

    Returns the size of the trail; where a variable has no state left ``-size - 1``, unless ``first``: it is then
    marked as dead, and its states stay.

    Parameters
    ----------
    card, state_ptr, slot_ptr, scope, table, pool, factor_ptr, factor, alive, dead
        As of :func:`take_states`.
    supported : ndarray of bool, shape (S,)
        Workspace, all False before and after.
    queue : ndarray of int64, shape (F + 1,)
        Factors to look at, a ring.
    n_queued : int
        How many are in the queue at first.
    queued : ndarray of bool, shape (F,)
        Whether a factor is in the queue; all False afterwards.
    trail : ndarray of int64, shape (S,)
        States that were dropped; written.
    size : int
        How many there are so far.
    first : bool
        Whether no state has been taken yet.
    """
    room, head = len(queue), 0
    while n_queued:
        f = queue[head]
        head, n_queued = (head + 1) % room, n_queued - 1
        queued[f] = False
        lo, hi = slot_ptr[f], slot_ptr[f + 1]
        _mark(card, state_ptr, scope[lo:hi], table[f], pool, alive, supported)
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
            for m in range(factor_ptr[u], factor_ptr[u + 1]):
                g = factor[m]
                if g != f and not queued[g]:
                    queue[(head + n_queued) % room], queued[g] = g, True
                    n_queued += 1
        for slot in range(lo, hi):
            for at in range(state_ptr[scope[slot]], state_ptr[scope[slot] + 1]):
                supported[at] = False
        if size < 0:
            for k in range(n_queued):
                queued[queue[(head + k) % room]] = False
            return size
        if first:
            size = 0  # what is dropped at first stays dropped
    return size


@njit(cache=True, nogil=True)
def _mark(card: I32, state_ptr: I64, scope: I32, table: int, pool: F64, alive: Bools, supported: Bools) -> None:
    """Mark the states that some joint state of a factor has which is left.

    Parameters
    ----------
    card, state_ptr, pool, alive, supported
        As of :func:`take_states` and :func:`_drop`.
    scope : ndarray of int32
        The variables of the factor.
    table : int
        Where its table begins in ``pool``.
    """
    n_configs = 1
    for v in scope:
        n_configs *= card[v]
    for config in range(n_configs):
        if pool[table + config] == -np.inf:
            continue
        rest, there = config, True
        for k in range(len(scope) - 1, -1, -1):
            v = scope[k]
            there = there and alive[state_ptr[v] + rest % card[v]]
            rest //= card[v]
        if not there:
            continue
        rest = config
        for k in range(len(scope) - 1, -1, -1):
            v = scope[k]
            supported[state_ptr[v] + rest % card[v]] = True
            rest //= card[v]
