"""Max-marginals of factors, plain and soft, for message updates.

A soft maximum is ``T log sum exp(. / T)`` at temperature T (Meshi et al. 2010, equation 13).
Block-coordinate descent on the dual bound may get stuck above its minimum, because the bound is not smooth
(Kolmogorov 2006).  With soft maxima the bound is smooth and strictly convex up to constants, and the same updates
reach its minimum, which exceeds the least plain bound by at most T times the entropies of the terms.  So solvers
lower T step by step.  Reported bounds are the plain ones then, valid at any messages; hence an
exponential function of a few digits does: ``(1 + x / 1024) ** 1024`` is smooth, monotone, and eleven multiplications.
Where the soft bound itself is what is lowered (``msd`` at a temperature), the exponential is exact.
"""

from __future__ import annotations

from math import exp, log
from typing import NamedTuple

import numpy as np

from ssvm_backends.dual.kernels import LARGE, MAX_ARITY, NO_NAN, ROW, max_marginal
from ssvm_backends.graphs.graph import Graph
from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import njit


@njit(cache=True, nogil=True, fastmath=NO_NAN, inline="always")
def pair_marginal(
    pool: F64, table: int, messages: F64, source: int, target: int, n_source: int, n_target: int, rows: bool
) -> float:
    """Write the max-marginal ``max_source table - message`` of a pair to ``messages[target:]``; return its maximum.

    Parameters
    ----------
    pool : ndarray of float64
        Tables.
    table : int
        Place of the pair's table.
    messages : ndarray of float64
        Packed messages; those of the target are replaced without being read.
    source, target : int
        Places of the messages of the two slots.
    n_source, n_target : int
        Number of states of their variables.
    rows : bool
        The target is the first variable, whose states are the rows of the table.
    """
    if n_source == 2 and n_target == 2:
        a, b = messages[source], messages[source + 1]
        q, r = pool[table + 1], pool[table + 2]
        if not rows:
            q, r = r, q
        x, y = max(pool[table] - a, q - b), max(r - a, pool[table + 3] - b)
        messages[target], messages[target + 1] = x, y
        return max(x, y)
    top = -np.inf
    if rows:
        for t in range(n_target):
            best, row = -np.inf, table + t * n_source
            for s in range(n_source):
                best = max(best, pool[row + s] - messages[source + s])
            messages[target + t] = best
            top = max(top, best)
        return top
    for t in range(n_target):
        messages[target + t] = -np.inf
    for s in range(n_source):
        m, row = messages[source + s], table + s * n_target
        for t in range(n_target):
            messages[target + t] = max(messages[target + t], pool[row + t] - m)
    for t in range(n_target):
        top = max(top, messages[target + t])
    return top


@njit(cache=True, nogil=True, inline="always")
def exp_below(x: float) -> float:
    """Return about ``exp(x)`` for x <= 0 (exactly 0 below -1024)."""
    y = max(0.0, 1.0 + x * (1.0 / 1024.0))
    y *= y
    y *= y
    y *= y
    y *= y
    y *= y
    y *= y
    y *= y
    y *= y
    y *= y
    return y * y


class SoftPair(NamedTuple):
    """Where the numbers of a pair are: the arguments of :func:`pair_marginal` of the same names."""

    table: int
    source: int
    target: int
    n_source: int
    n_target: int
    rows: bool


class Softness(NamedTuple):
    """How soft a maximum is: its temperature T, above 0, and whether the exponential has all digits."""

    temperature: float
    exact: bool


@njit(cache=True, nogil=True)
def soft_pair(pool: F64, messages: F64, pair: SoftPair, soft: Softness) -> float:
    """Write the soft max-marginal ``T log sum_source exp((table - message) / T)`` of a pair; return its maximum.

    Parameters
    ----------
    pool, messages
        As for :func:`pair_marginal`.
    pair : SoftPair
    soft : Softness
    """
    temperature, exact = soft
    table, source, target, n_source, n_target, rows = pair
    top, beta = -np.inf, 1.0 / temperature
    along, across = (1, n_source) if rows else (n_target, 1)
    for t in range(n_target):
        start, best, total = table + t * across, -np.inf, 0.0
        for s in range(n_source):
            best = max(best, pool[start + s * along] - messages[source + s])
        for s in range(n_source):
            x = (pool[start + s * along] - messages[source + s] - best) * beta
            total += exp(x) if exact else exp_below(x)
        best += temperature * log(total)
        messages[target + t] = best
        top = max(top, best)
    return top


@njit(cache=True, nogil=True)
def soft_marginal(
    g: Graph, pool: F64, messages: F64, shift: int, f: int, slot: int, soft: Softness, out: F64
) -> float:
    """Write ``out[s] = T log sum_{c: c_slot = s} exp((table[f, c] - other messages) / T)``; return the maximum.

    Parameters
    ----------
    g, pool, messages, shift, f, out
        As for :func:`~ssvm_backends.dual.kernels.max_marginal`.
    slot : int
        One of the factor's slots.
    soft : Softness
    """
    temperature, exact = soft
    max_marginal(g, pool, messages, shift, f, slot, out)
    lo, hi, card = g.slot_ptr[f], g.slot_ptr[f + 1], g.card[g.scope[slot]]
    digit, total = np.zeros(MAX_ARITY, np.int64), np.zeros(card)
    for at in range(g.table_ptr[f], g.table_ptr[f] + g.table_size[f]):
        value = pool[at]
        for k in range(lo, hi):
            if k != slot:
                value -= messages[g.message_ptr[k] + shift + digit[k - lo]]
        s = digit[slot - lo]
        # rounding: the plain maximum out[s] was summed up in another order
        x = min(0.0, value - out[s]) / temperature
        total[s] += exp(x) if exact else exp_below(x)
        k = hi - 1
        while k >= lo and digit[k - lo] + 1 == g.card[g.scope[k]]:
            digit[k - lo] = 0
            k -= 1
        if k >= lo:
            digit[k - lo] += 1
    top = -np.inf
    for s in range(card):
        out[s] += temperature * log(total[s])
        top = max(top, out[s])
    return top


@njit(cache=True, nogil=True)
def collect_large(g: Graph, pool: F64, messages: F64, shift: int, f: int, slot: int, soft: float) -> float:
    """Set one message of a factor to its (soft) max-marginal; return its maximum.

    Parameters
    ----------
    g, pool, shift, f
        As for :func:`~ssvm_backends.dual.kernels.max_marginal`.
    messages : ndarray of float64
        Packed messages; those of the slot are replaced without being read.
    slot : int
        One of the factor's slots.
    soft : float
        Temperature of soft maxima, 0 for plain ones.
    """
    mine, card = g.message_ptr[slot] + shift, g.card[g.scope[slot]]
    out = messages[mine : mine + card]
    if soft > 0.0:
        return soft_marginal(g, pool, messages, shift, f, slot, Softness(soft, False), out)
    return max_marginal(g, pool, messages, shift, f, slot, out)


@njit(cache=True, nogil=True, inline="always")
def collect(g: Graph, visits: I64, at: int, pool: F64, messages: F64, shift: int, card: int, soft: float) -> float:
    """Set the message of the slot at ``visits[at:]`` to its max-marginal, soft above temperature 0; return its maximum.

    The slot's own message is not subtracted: ``max_{c: c_slot = s} table[f, c] - sum_{j != slot} message[j, c_j]``.

    Parameters
    ----------
    g : Graph
        Structure; read only (for factors of more than two variables).
    visits : ndarray of int64
        Data for the visit to each slot, see :func:`~ssvm_backends.dual.kernels.fill_visits`.
    at : int
        Where the slot's numbers start in ``visits``.
    pool : ndarray of float64
        Tables.
    messages : ndarray of float64
        Packed messages; those of the slot are replaced.
    shift : int
        Offset to add to ``message_ptr`` for this example (``visits`` has it added already).
    card : int
        Number of states of the slot's variable.
    soft : float
        Temperature of soft maxima, 0 for plain ones.
    """
    mine, other, table, n_other, kind = visits[at], visits[at + 1], visits[at + 2], visits[at + 3], visits[at + 5]
    if kind == LARGE:
        return collect_large(g, pool, messages, shift, g.slot_factor[other], other, soft)
    if soft > 0.0:
        pair = SoftPair(table, other, mine, n_other, card, kind == ROW)
        return soft_pair(pool, messages, pair, Softness(soft, False))
    return pair_marginal(pool, table, messages, other, mine, n_other, card, kind == ROW)


@njit(cache=True, nogil=True)
def collect_soft(
    g: Graph, visits: I64, at: int, pool: F64, messages: F64, shift: int, card: int, temperature: float
) -> None:
    """Set the message of the slot at ``visits[at:]`` to its soft max-marginal, to all digits.

    Parameters
    ----------
    g, visits, at, pool, messages, shift, card
        As for :func:`collect`.
    temperature : float
        T, positive.
    """
    mine, other, table, n_other, kind = visits[at], visits[at + 1], visits[at + 2], visits[at + 3], visits[at + 5]
    if kind == LARGE:
        out = messages[mine : mine + card]
        soft_marginal(g, pool, messages, shift, g.slot_factor[other], other, Softness(temperature, True), out)
    else:
        pair = SoftPair(table, other, mine, n_other, card, kind == ROW)
        soft_pair(pool, messages, pair, Softness(temperature, True))
