"""Where a dual bound is attained: the best state of each variable and the best joint state of each factor.

For fixed messages the bound ``sum_v max_s node'[v, s] + sum_f max_c table'[f, c]`` is a maximum of linear functions
of the scores, one for each choice of a state for every variable and, apart from them, of a joint state for every
factor.  The choice that attains it is a subgradient: ``bound(theta') >= bound + <choice, theta' - theta>``, whatever
the messages.

Some updates leave factors with many joint states that are equally good but for rounding.  Then the one whose states
were chosen for the variables is taken: choices at random would send a subgradient method nowhere.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.dual.kernels import shift_of
from ssvm_backends.graphs.graph import Graph
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import borrow, njit

#: Joint states are equally good whose scores differ by less than this, relative to the numbers they are sums of.
TIE = 1e-9


@njit(cache=True, nogil=True)
def best_choices(
    graph: Graph, node: F64, pool: F64, ids: I64, ptr: I64, messages: F64, states: I32, configs: I32
) -> None:
    """Write the best state of each variable and joint state of each factor of the listed examples, packed.

    Parameters
    ----------
    graph, node, pool
        Structure, unary scores and tables of all examples; read only.
    ids : ndarray of int64, shape (n,)
        The examples.
    ptr : ndarray of int64, shape (at least n,)
        Where the messages of each start.
    messages : ndarray of float64
        Packed messages; read only.
    states : ndarray of int32, shape (variables of these examples,)
        Written.
    configs : ndarray of int32, shape (factors of these examples,)
        Written: places in the factors' tables.
    """
    g, v_at, f_at = borrow(graph), 0, 0
    for i in range(len(ids)):
        example = ids[i]
        v_end = v_at + g.var_ptr[example + 1] - g.var_ptr[example]
        f_end = f_at + g.factor_ptr[example + 1] - g.factor_ptr[example]
        shift = shift_of(g, example, ptr[i])
        choose(g, node, pool, messages, shift, example, states[v_at:v_end], configs[f_at:f_end])
        v_at, f_at = v_end, f_end


@njit(cache=True, nogil=True)
def choose(g: Graph, node: F64, pool: F64, messages: F64, shift: int, example: int, states: I32, configs: I32) -> float:
    """Write the best states and joint states of an example; return the sum of their scores: the dual bound.

    Parameters
    ----------
    g, node, pool, messages, shift
        As for :func:`~ssvm_backends.dual.kernels.bound_terms`.
    example : int
        The example.
    states : ndarray of int32, shape (variables of the example,)
        Written: of equally good states the first.
    configs : ndarray of int32, shape (factors of the example,)
        Written: places in the factors' tables, that of ``states`` where it is as good.
    """
    total = 0.0
    for v in range(g.var_ptr[example], g.var_ptr[example + 1]):
        best = -np.inf
        for s in range(g.card[v]):
            value = node[g.state_ptr[v] + s]
            for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
                value += messages[g.message_ptr[g.touch_slot[t]] + shift + s]
            if value > best:
                best, states[v - g.var_ptr[example]] = value, s
        total += best
    for f in range(g.factor_ptr[example], g.factor_ptr[example + 1]):
        preferred = 0
        for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
            preferred += g.stride[k] * states[g.scope[k] - g.var_ptr[example]]
        if g.slot_ptr[f + 1] - g.slot_ptr[f] == 2:
            choice, best = best_pair(g, pool, messages, shift, f, preferred)
        else:
            choice, best = best_joint(g, pool, messages, shift, f, preferred)
        configs[f - g.factor_ptr[example]] = choice
        total += best
    return total


@njit(cache=True, nogil=True)
def best_pair(g: Graph, pool: F64, messages: F64, shift: int, f: int, preferred: int) -> tuple[int, float]:
    """Return (best joint state, its score) of a factor of two variables; the preferred one where it is as good."""
    slot, table, best, choice = g.slot_ptr[f], g.table_ptr[f], -np.inf, 0
    first, second, columns = g.message_ptr[slot] + shift, g.message_ptr[slot + 1] + shift, g.card[g.scope[slot + 1]]
    for r in range(g.card[g.scope[slot]]):
        row = table + r * columns
        for s in range(columns):
            value = pool[row + s] - messages[first + r] - messages[second + s]
            if value > best:
                best, choice = value, r * columns + s
    a, b = messages[first + preferred // columns], messages[second + preferred % columns]
    close = TIE * (abs(pool[table + preferred]) + abs(a) + abs(b))
    return preferred if pool[table + preferred] - a - b >= best - close else choice, best


@njit(cache=True, nogil=True)
def best_joint(g: Graph, pool: F64, messages: F64, shift: int, f: int, preferred: int) -> tuple[int, float]:
    """Return (best joint state, its score) of a factor of any size; the preferred one where it is as good."""
    best, choice, own, close = -np.inf, 0, 0.0, 0.0
    for c in range(g.table_size[f]):
        value = pool[g.table_ptr[f] + c]
        size = abs(value)
        for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
            message = messages[g.message_ptr[k] + shift + (c // g.stride[k]) % g.card[g.scope[k]]]
            value -= message
            size += abs(message)
        if value > best:
            best, choice = value, c
        if c == preferred:
            own, close = value, TIE * size
    return preferred if own >= best - close else choice, best
