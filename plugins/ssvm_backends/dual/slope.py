"""Where a dual bound is attained: the best state of each variable and the best joint state of each factor.

For fixed messages the bound ``sum_v max_s node'[v, s] + sum_f max_c table'[f, c]`` is a maximum of linear functions
of the scores, one for each choice of a state for every variable and, apart from them, of a joint state for every
factor.  The choice that attains it is a subgradient: ``bound(theta') >= bound + <choice, theta' - theta>``, whatever
the messages.

Some updates leave variables and factors with many choices that are equally good but for rounding: sequential updates
hand all that a variable has to its factors, so that its states tie.  Choices at random would send a subgradient method
nowhere.  The minimum over messages has a subgradient where choices agree, so agreement breaks ties: of its equally good
states a variable takes the one that is worth most given the states of earlier variables, as in decoding, and a factor
the joint state that variables have chosen.  Training with ``trws`` ended at several times the optimum, worse than at
weights of 0, while a variable took its first state instead.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.dual.kernels import Site, score_states, shift_of
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
        site = Site(g, node, pool, messages, shift, example)
        choose(site, states[v_at:v_end], configs[f_at:f_end])
        v_at, f_at = v_end, f_end


@njit(cache=True, nogil=True)
def choose(site: Site, states: I32, configs: I32) -> float:
    """Write the best states and joint states of an example; return the sum of their scores: the dual bound.

    Parameters
    ----------
    site : Site
        Read only.
    states : ndarray of int32, shape (variables of the example,)
        Written: of equally good states the one that agrees best with earlier variables.
    configs : ndarray of int32, shape (factors of the example,)
        Written: places in the factors' tables, that of ``states`` where it is as good.
    """
    g, node, pool, messages, shift, example = site
    total, first = 0.0, g.var_ptr[example]
    for v in range(first, g.var_ptr[example + 1]):
        choice, best, tied = best_state(g, node, messages, shift, v)
        if tied:
            choice = agreeing_state(site, v, best, states)
        states[v - first] = choice
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
def best_state(g: Graph, node: F64, messages: F64, shift: int, v: int) -> tuple[int, float, bool]:
    """Return (best state of a variable, its score, whether another one is as good)."""
    choice, best, second = 0, -np.inf, -np.inf
    for s in range(g.card[v]):
        value = state_score(g, node, messages, shift, v, s)
        if value > best:
            choice, second, best = s, best, value
        else:
            second = max(second, value)
    return choice, best, second >= best - TIE * state_size(g, node, messages, shift, v, choice)


@njit(cache=True, nogil=True)
def agreeing_state(site: Site, v: int, best: float, states: I32) -> int:
    """Return the state that is worth most given those of earlier variables, of all that are as good as the best.

    Parameters
    ----------
    site : Site
        Read only.
    v : int
        The variable.
    best : float
        The score of its best states.
    states : ndarray of int32
        The states of earlier variables, from 0 for the example's first one; read only.
    """
    g, node, _, messages, shift, _ = site
    worth = np.empty(g.card[v])
    score_states(site, v, states, worth)
    choice, most = 0, -np.inf
    for s in range(g.card[v]):
        close = TIE * state_size(g, node, messages, shift, v, s)
        if state_score(g, node, messages, shift, v, s) >= best - close and worth[s] > most:
            choice, most = s, worth[s]
    return choice


@njit(cache=True, nogil=True)
def state_score(g: Graph, node: F64, messages: F64, shift: int, v: int, s: int) -> float:
    """Return the score of a state with all messages of its variable."""
    value = node[g.state_ptr[v] + s]
    for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
        value += messages[g.message_ptr[g.touch_slot[t]] + shift + s]
    return value


@njit(cache=True, nogil=True)
def state_size(g: Graph, node: F64, messages: F64, shift: int, v: int, s: int) -> float:
    """Return the sum of the sizes of the numbers that the score of a state is the sum of."""
    size = abs(node[g.state_ptr[v] + s])
    for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
        size += abs(messages[g.message_ptr[g.touch_slot[t]] + shift + s])
    return size


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
