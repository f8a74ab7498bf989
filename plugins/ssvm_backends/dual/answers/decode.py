"""Labellings from messages: conditioning on earlier variables, and what becomes of a decoded labelling."""

from __future__ import annotations

import numpy as np

from ssvm_backends.dual.kernels import MAX_ARITY
from ssvm_backends.dual.progress import SolverProgress
from ssvm_backends.graphs.graph import Graph
from ssvm_backends.local.search import local_search, score_of
from ssvm_dsl.ir import F64, I32
from ssvm_dsl.kernels import assign, njit

#: Table entries that moves of two variables may look at, about 40 ms.
POLISH = 20_000_000


@njit(cache=True, nogil=True)
def add_conditional(
    g: Graph, pool: F64, messages: F64, shift: int, f: int, slot: int, labels: I32, place: int, out: F64
) -> None:
    """Add to ``out[s]`` the best of a factor with state s here, earlier variables as labelled, later ones free.

    Messages of later variables are subtracted: ``max_{later} table[f, c] - sum_{later} message[j, c_j]``.

    Parameters
    ----------
    g, pool, messages, shift, f
        As for :func:`~ssvm_backends.dual.kernels.max_marginal`.
    slot : int
        The slot of the variable to be labelled; earlier variables have smaller numbers.
    labels : ndarray of int32
        Labels of earlier variables; the others are not read.
    place : int
        Variable v has its label at ``labels[place + v]``.
    out : ndarray of float64, shape (at least the states of the slot's variable,)
        Added to in place.
    """
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
def decode(
    g: Graph, node: F64, pool: F64, messages: F64, shift: int, example: int, labels: I32, value: F64, lo: int, hi: int
) -> None:
    """Label the variables ``lo`` to ``hi`` in order, given earlier labels and messages of factors of later variables.

    Parameters
    ----------
    g, node, pool, messages, shift
        As for :func:`~ssvm_backends.dual.kernels.bound_terms`.
    example : int
        The example.
    labels : ndarray of int32
        Labels from 0 for the example's first variable: those before ``lo`` are read, those of ``lo`` to ``hi`` written.
    value : ndarray of float64, shape (at least the most states of a variable,)
        Work space.
    lo, hi : int
        First variable, and the one after the last.
    """
    first = g.var_ptr[example]
    for v in range(lo, hi):
        score_states(g, node, pool, messages, shift, v, labels, first, value)
        best = 0
        for s in range(1, g.card[v]):
            if value[s] > value[best]:
                best = s
        labels[v - first] = best


@njit(cache=True, nogil=True)
def score_states(
    g: Graph, node: F64, pool: F64, messages: F64, shift: int, v: int, labels: I32, first: int, value: F64
) -> None:
    """Write what the states of variable v are worth, given earlier labels and messages of factors of later variables.

    Parameters
    ----------
    g, node, pool, messages, shift
        As for :func:`~ssvm_backends.dual.kernels.bound_terms`.
    v : int
        The variable.
    labels : ndarray of int32
        Labels of the variables before v, from 0 for ``first``; read only.
    first : int
        The example's first variable.
    value : ndarray of float64, shape (at least the states of v,)
        Written.
    """
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
            add_conditional(g, pool, messages, shift, f, slot, labels, -first, value)
        else:
            for s in range(g.card[v]):
                value[s] += messages[g.message_ptr[slot] + shift + s]


@njit(cache=True, nogil=True)
def offer(
    g: Graph,
    node: F64,
    pool: F64,
    example: int,
    i: int,
    labels: I32,
    best: SolverProgress,
    packed: int,
    best_decoded: float,
) -> float:
    """Take a decoded labelling into account, improved by local search when it beats earlier ones.

    Parameters
    ----------
    g, node, pool, example, i
        As for :func:`~ssvm_backends.dual.kernels.publish`.
    labels : ndarray of int32
        The labelling; changed by the local search.
    best : Progress
        ``score`` and ``labels`` of the example are replaced by better ones.
    packed : int
        Where the example's best labelling starts in ``best.labels``.
    best_decoded : float
        Best score of a labelling before its local search; the new one is returned.
    """
    score = score_of(g, node, pool, example, labels)
    if score <= best_decoded and best.score[i] > -np.inf:
        return best_decoded
    n = g.var_ptr[example + 1] - g.var_ptr[example]
    local_search(g, node, pool, example, labels, np.ones(2 * n, np.bool_), np.bool_(False), np.int64(1) << 62)
    found = score_of(g, node, pool, example, labels)
    if found > best.score[i]:
        best.score[i] = found
        assign(best.labels[packed : packed + n], labels)
    return max(score, best_decoded)


@njit(cache=True, nogil=True)
def polish(g: Graph, node: F64, pool: F64, example: int, i: int, best: SolverProgress, packed: int) -> None:
    """Improve the best labelling by moves of two variables, and repair it where it is forbidden.

    Parameters
    ----------
    g, node, pool, example, i, best, packed
        As for :func:`offer`.
    """
    n = g.var_ptr[example + 1] - g.var_ptr[example]
    labels = best.labels[packed : packed + n].copy()
    local_search(g, node, pool, example, labels, np.ones(2 * n, np.bool_), np.bool_(True), np.int64(POLISH))
    score = score_of(g, node, pool, example, labels)
    if score > best.score[i]:
        best.score[i] = score
        assign(best.labels[packed : packed + n], labels)
