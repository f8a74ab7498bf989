"""Compiled rounding of marginals to labellings, for :mod:`ssvm_dsl.scores.marginals`."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import F64, I32
from ssvm_dsl.kernels.compiling.jit import njit
from ssvm_dsl.kernels.flat import FactorLists

#: Where no state agrees with those taken before, the variable's own marginal decides: its share in the sum.
LEAST_BELIEF = 1e-9


@njit(cache=True, nogil=True)
def round_marginals(lists: FactorLists, node: F64, tables: F64, labels: I32) -> None:
    """Take a state for every variable: that of the largest marginal given those taken before.

    Variables are met from a first one outwards, along factors.  A state's marginal is its own, or less where a factor
    gives less: ``sum of mu_f over joint states that agree with the states taken`` for each factor of which some is.

    Parameters
    ----------
    lists : FactorLists
        All factors; ``table`` has an end, too, ``shape (F + 1,)``.
    node : ndarray of float64, shape (S,)
        Marginals of variables, state by state; read only.
    tables : ndarray of float64
        Marginals of each factor, C order; read only.
    labels : ndarray of int32, shape (V,)
        -1 everywhere; written.
    """
    card, state_ptr, scope_ptr, scope, table_ptr, factor_ptr, factor = lists
    n = len(card)
    queue, met = np.empty(n, np.int64), np.zeros(n, np.bool_)
    belief, given = np.empty(card.max() if n else 0), np.empty(card.max() if n else 0)
    for root in range(n):
        if met[root]:
            continue
        queue[0], met[root], head, tail = root, True, 0, 1
        while head < tail:
            v = queue[head]
            head += 1
            for s in range(card[v]):
                belief[s] = node[state_ptr[v] + s]
            for m in range(factor_ptr[v], factor_ptr[v + 1]):
                f = factor[m]
                variables, table = scope[scope_ptr[f] : scope_ptr[f + 1]], tables[table_ptr[f] : table_ptr[f + 1]]
                if _given_states(card, variables, table, v, labels, given):
                    for s in range(card[v]):
                        belief[s] = min(belief[s], given[s])
                for k in range(scope_ptr[f], scope_ptr[f + 1]):
                    if not met[scope[k]]:
                        met[scope[k]], queue[tail] = True, scope[k]
                        tail += 1
            best = 0
            for s in range(card[v]):
                belief[s] += LEAST_BELIEF * node[state_ptr[v] + s]  # decides where all are zero
                if belief[s] > belief[best]:
                    best = s
            labels[v] = best


@njit(cache=True, nogil=True)
def _given_states(card: I32, scope: I32, table: F64, v: int, labels: I32, out: F64) -> bool:
    """Write a factor's sums by the state of v over joint states that agree with labels taken; return whether any is."""
    size, taken = 1, False
    for u in scope:
        size *= card[u]
        taken = taken or labels[u] >= 0
    if not taken:
        return False
    out[: card[v]] = 0.0
    for config in range(size):
        rest, state, agrees = config, 0, True
        for k in range(len(scope) - 1, -1, -1):
            u = scope[k]
            s = rest % card[u]
            rest //= card[u]
            if u == v:
                state = s
            elif labels[u] >= 0 and labels[u] != s:
                agrees = False
        if agrees:
            out[state] += table[config]
    return True
