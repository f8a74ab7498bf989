"""Compiled kernels on marginals packed over listed examples: scores, sums, whether margins agree, and rounding."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.ir.shapes import GroupFactors
from ssvm_dsl.kernels.compiling.jit import njit
from ssvm_dsl.kernels.flat import FactorLists
from ssvm_dsl.kernels.intrinsics import borrow
from ssvm_dsl.kernels.scoring import table_state


@njit(cache=True, nogil=True)
def add_state_products(var_ptr: I64, state_ptr: I64, node: F64, ids: I64, mu: F64, out: F64) -> None:
    """Add ``<node, mu>`` of the variables of each listed example to ``out``; scores may be -inf where mu is zero.

    Parameters
    ----------
    var_ptr, state_ptr
        Variables of each example, and states of each variable.
    node : ndarray of float64, shape (S,)
    ids : ndarray of int64, shape (n,)
    mu : ndarray of float64
        Packed over ``ids``.
    out : ndarray of float64, shape (n,)
    """
    node, mu, at = borrow(node), borrow(mu), 0
    for k in range(len(ids)):
        total = 0.0
        for s in range(state_ptr[var_ptr[ids[k]]], state_ptr[var_ptr[ids[k] + 1]]):
            if mu[at] != 0.0:
                total += mu[at] * node[s]
            at += 1
        out[k] += total


@njit(cache=True, nogil=True)
def answered(factors: GroupFactors, i: int) -> tuple[int, int]:
    """Return (first factor, number of rows of marginals) of an example: of spans one row, for the first table."""
    shape, start, scope, _, _, strides = factors
    first, last = start[shape[i]], start[shape[i] + 1]
    return (0, min(1, len(scope))) if scope.shape[1] == len(strides) + 1 else (first, last - first)


@njit(cache=True, nogil=True)
def add_table_products(factors: GroupFactors, tables: F64, ids: I64, mu: F64, out: F64) -> None:
    """Add ``<table, mu>`` of the factors of one group of each listed example to ``out``.

    Parameters
    ----------
    factors : GroupFactors
    tables : ndarray of float64, shape (n_tables, c)
    ids : ndarray of int64, shape (n,)
    mu : ndarray of float64, shape (m, c)
        Packed over ``ids``.
    out : ndarray of float64, shape (n,)
        Changed.
    """
    factors = borrow(factors)
    row, base = factors.row, factors.base
    tables, mu, at = borrow(tables), borrow(mu), 0
    for k in range(len(ids)):
        i, total = ids[k], 0.0
        first, n_rows = answered(factors, i)
        for f in range(first, first + n_rows):
            own = base[i] + row[f]
            for c in range(mu.shape[1]):
                if mu[at, c] != 0.0:  # 0 times -inf would be nan
                    total += mu[at, c] * tables[own, c]
            at += 1
        out[k] += total


@njit(cache=True, nogil=True)
def add_table_marginals(factors: GroupFactors, ids: I64, coef: F64, mu: F64, tables: F64) -> None:
    """Add ``coef_k mu`` of the factors of one group of each listed example to the rows of their tables."""
    factors = borrow(factors)
    row, base = factors.row, factors.base
    tables, mu, at = borrow(tables), borrow(mu), 0
    for k in range(len(ids)):
        i = ids[k]
        first, n_rows = answered(factors, i)
        for f in range(first, first + n_rows):
            own = base[i] + row[f]
            for c in range(mu.shape[1]):
                tables[own, c] += coef[k] * mu[at, c]
            at += 1


@njit(cache=True, nogil=True)
def add_table_labels(factors: GroupFactors, var_ptr: I64, ids: I64, coef: F64, labels: I32, tables: F64) -> None:
    """Add ``coef_k`` to the joint states that labels, packed over ``ids``, choose for the factors of one group."""
    shape, start, scope, row, base, strides = borrow(factors)
    labels, tables, at = borrow(labels), borrow(tables), 0
    for k in range(len(ids)):
        i = ids[k]
        for f in range(start[shape[i]], start[shape[i] + 1]):
            config = table_state(scope, strides, f, labels, at)
            if config >= 0:
                tables[base[i] + row[f], config] += coef[k]
        at += var_ptr[i + 1] - var_ptr[i]


@njit(cache=True, nogil=True)
def states_agree(var_ptr: I64, state_ptr: I64, ids: I64, node: F64) -> bool:
    """Whether the marginals of each variable are not negative and sum to exactly one (or are zeros)."""
    node, at = borrow(node), 0
    for k in range(len(ids)):
        for v in range(var_ptr[ids[k]], var_ptr[ids[k] + 1]):
            total = 0.0
            for _ in range(state_ptr[v], state_ptr[v + 1]):
                if not node[at] >= 0.0:
                    return False
                total += node[at]
                at += 1
            if total != 1.0 and total != 0.0:
                return False
    return True


@njit(cache=True, nogil=True)
def margins_agree(factors: GroupFactors, var_ptr: I64, state_ptr: I64, ids: I64, node: F64, mu: F64) -> bool:
    """Whether tables are not negative, and their margins are exactly the marginals of their variables.

    Parameters
    ----------
    factors : GroupFactors
    var_ptr, state_ptr : ndarray of int64
        Variables of each example, and states of each variable.
    ids : ndarray of int64, shape (n,)
    node : ndarray of float64
        Marginals of variables, packed over ``ids``.
    mu : ndarray of float64, shape (m, prod(cards))
        Of factors, packed over ``ids``.
    """
    shape, start, scope, _, _, strides = borrow(factors)
    state_ptr = borrow(state_ptr)
    node, mu, size, at, f = borrow(node), borrow(mu), mu.shape[1], 0, 0
    for k in range(len(ids)):
        i, first_variable = ids[k], var_ptr[ids[k]]
        lo, hi = state_ptr[first_variable], state_ptr[var_ptr[i + 1]]
        for factor in range(start[shape[i]], start[shape[i] + 1]):
            least = 0.0
            for c in range(size):
                least = min(least, mu[f, c])
            if not least >= 0.0:
                return False
            for r in range(len(strides)):
                v, step = first_variable + scope[factor, r], strides[r]
                first, card = at + state_ptr[v] - lo, state_ptr[v + 1] - state_ptr[v]
                for s in range(card):
                    total, c = 0.0, s * step
                    while c < size:
                        for inner in range(c, c + step):
                            total += mu[f, inner]
                        c += card * step
                    if total != node[first + s]:
                        return False
            f += 1
        at += hi - lo
    return True


# -- rounding ------------------------------------------------------------------------------------------------------
#
# Of marginals to labellings, for :mod:`ssvm_dsl.scores.marginals`.

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
