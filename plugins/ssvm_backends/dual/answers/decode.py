"""Labellings from messages: each variable in turn, given the labels of earlier ones."""

from __future__ import annotations

import numpy as np

from ssvm_backends.dual.kernels import MAX_ARITY, Site
from ssvm_dsl.ir import F64, I32
from ssvm_dsl.kernels import njit


@njit(cache=True, nogil=True)
def add_conditional(site: Site, f: int, slot: int, labels: I32, out: F64) -> None:
    """Add to ``out[s]`` the best of a factor with state s here, earlier variables as labelled, later ones free.

    Messages of later variables are subtracted: ``max_{later} table[f, c] - sum_{later} message[j, c_j]``.

    Parameters
    ----------
    site : Site
        Read only.
    f : int
        The factor.
    slot : int
        The slot of the variable to be labelled; earlier variables have smaller numbers.
    labels : ndarray of int32
        Labels of earlier variables, from 0 for the example's first one; the others are not read.
    out : ndarray of float64, shape (at least the states of the slot's variable,)
        Added to in place.
    """
    g, pool, messages, shift = site.graph, site.pool, site.messages, site.shift
    place = -g.var_ptr[site.example]
    lo, hi, v = g.slot_ptr[f], g.slot_ptr[f + 1], g.scope[slot]
    digit, free = np.zeros(MAX_ARITY, np.int64), np.zeros(MAX_ARITY, np.int64)
    n_free, at, base = 0, g.table_ptr[f], 0.0
    for k in range(lo, hi):
        if g.scope[k] < v:
            at += labels[place + g.scope[k]] * g.stride[k]
        elif k != slot:
            free[n_free] = k
            n_free += 1
            base += messages[g.message_ptr[k] + shift]
    card = g.card[v]
    best = np.full(card, -np.inf)
    while True:
        for s in range(card):
            best[s] = max(best[s], pool[at + s * g.stride[slot]] - base)
        j = n_free - 1
        while j >= 0:
            k = free[j]
            message = g.message_ptr[k] + shift + digit[j]
            digit[j] += 1
            if digit[j] < g.card[g.scope[k]]:
                at += g.stride[k]
                base += messages[message + 1] - messages[message]
                break
            digit[j] -= 1
            at -= digit[j] * g.stride[k]
            base += messages[message - digit[j]] - messages[message]
            digit[j] = 0
            j -= 1
        if j < 0:
            break
    for s in range(card):
        out[s] += best[s]


@njit(cache=True, nogil=True)
def decode(site: Site, labels: I32, value: F64, lo: int, hi: int) -> None:
    """Label the variables ``lo`` to ``hi`` in order, given earlier labels and messages of factors of later variables.

    Parameters
    ----------
    site : Site
        Read only.
    labels : ndarray of int32
        Labels from 0 for the example's first variable: those before ``lo`` are read, those of ``lo`` to ``hi`` written.
    value : ndarray of float64, shape (at least the most states of a variable,)
        Work space.
    lo, hi : int
        First variable, and the one after the last.
    """
    g, first = site.graph, site.graph.var_ptr[site.example]
    for v in range(lo, hi):
        score_states(site, v, labels, value)
        best = 0
        for s in range(1, g.card[v]):
            if value[s] > value[best]:
                best = s
        labels[v - first] = best


@njit(cache=True, nogil=True)
def score_states(site: Site, v: int, labels: I32, value: F64) -> None:
    """Write the scores of the states of variable v, given earlier labels and messages of factors of later variables.

    Parameters
    ----------
    site : Site
        Read only.
    v : int
        The variable.
    labels : ndarray of int32
        Labels of the variables before v, from 0 for the example's first one; read only.
    value : ndarray of float64, shape (at least the states of v,)
        Written.
    """
    g, node, pool, messages, shift = site.graph, site.node, site.pool, site.messages, site.shift
    first = g.var_ptr[site.example]
    for s in range(g.card[v]):
        value[s] = node[g.state_ptr[v] + s]
    for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
        slot = g.touch_slot[t]
        f, given = g.slot_factor[slot], False
        begin, end = g.slot_ptr[f], g.slot_ptr[f + 1]
        for k in range(begin, end):
            given |= g.scope[k] < v
        if given and end - begin == 2:
            other = 2 * begin + 1 - slot
            at = g.table_ptr[f] + labels[g.scope[other] - first] * g.stride[other]
            for s in range(g.card[v]):
                value[s] += pool[at + s * g.stride[slot]]
        elif given:
            add_conditional(site, f, slot, labels, value)
        else:
            for s in range(g.card[v]):
                value[s] += messages[g.message_ptr[slot] + shift + s]
