"""Bounds of single states by dual messages: the reparametrised unary scores, and a bound for each state.

Forcing state s at variable v costs a labelling, against the dual bound, at least

    max_s' node'[v, s'] - node'[v, s]
    + sum_{f with v} max_c table'[f, c] - max_{c: c_v = s} (table'[f, c] - sum_{u in f, u != v} slack[u, c_u] / n_vu)

where ``slack[u, c_u] = max node'[u] - node'[u, c_u]`` and n_vu is the number of factors that hold both u and v, so that
the loss at a neighbour is counted once.  That is the exact maximum over the star of factors around v (up to
neighbours that share several factors with v), all others relaxed: it is what reduced-cost fixing
(Swoboda et al. 2016, section 5) needs.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.dual.kernels import MAX_ARITY, dual_bound, factor_maximum
from ssvm_backends.graphs.graph import Graph
from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import borrow, njit


def reparametrised(graph: Graph, node: F64, pool: F64, messages: F64) -> tuple[F64, F64, F64]:
    """Return (bounds, reparametrised unary scores, slack of each state) of all examples.

    Parameters
    ----------
    graph : Graph
    node, pool : ndarray of float64
    messages : ndarray of float64, shape (graph.message_ptr[-1],)
        Any messages; good ones make the answer useful.

    Returns
    -------
    bound : ndarray of float64, shape (B,)
        Upper bound on the score of every labelling of each example, without the constant.
    moved : ndarray of float64, shape (S,)
        ``node'``: unary scores plus messages.
    slack : ndarray of float64, shape (S,)
        Not negative; ``bound[i] - slack[state_ptr[v] + s]`` is an upper bound on the score of every
        labelling of example i with state s at variable v (rounding is allowed for).
    """
    bound, moved, slack = np.zeros(graph.n_examples), node.copy(), np.zeros(len(node))
    _star_slacks(graph, node, pool, messages, bound, moved, slack)
    return bound, moved, slack


@njit(cache=True, nogil=True)
def _star_slacks(graph: Graph, node: F64, pool: F64, messages: F64, bound: F64, moved: F64, slack: F64) -> None:
    """Fill in the results of :func:`reparametrised`.

    Parameters
    ----------
    graph : Graph
        Structure; read only.
    node, pool, messages : ndarray of float64
        As for :func:`reparametrised`.
    bound : ndarray of float64, shape (B,)
        Written.
    moved : ndarray of float64, shape (S,)
        The unary scores on entry; messages are added in place.
    slack : ndarray of float64, shape (S,)
        Written.
    """
    g = borrow(graph)
    loss = np.empty(len(node))
    shared = np.zeros(len(g.card), np.int64)
    widest = 1
    for v in range(len(g.card)):
        widest = max(widest, g.card[v])
        for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
            at = g.message_ptr[g.touch_slot[t]]
            for s in range(g.card[v]):
                moved[g.state_ptr[v] + s] += messages[at + s]
        top = -np.inf
        for s in range(g.state_ptr[v], g.state_ptr[v + 1]):
            top = max(top, moved[s])
        for s in range(g.state_ptr[v], g.state_ptr[v + 1]):
            loss[s] = top - moved[s]
    out = np.empty(widest)
    for e in range(len(bound)):
        bound[e], rounding, _ = dual_bound(g, node, pool, messages, np.int64(0), e)
        for v in range(g.var_ptr[e], g.var_ptr[e + 1]):
            _count_shared(g, v, shared, np.int64(1))
            first = g.state_ptr[v]
            for s in range(g.card[v]):
                slack[first + s] = loss[first + s]
            for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
                k = g.touch_slot[t]
                f = g.slot_factor[k]
                top = factor_maximum(g, pool, messages, np.int64(0), f)
                _star_marginal(g, pool, messages, f, k, loss, shared, out)
                at = g.message_ptr[k]
                for s in range(g.card[v]):
                    slack[first + s] += top - out[s] + messages[at + s]
            for s in range(g.card[v]):
                # for the rounding of both maxima: of all states, and with state s fixed
                slack[first + s] = max(0.0, slack[first + s] - 2.0 * rounding)
            _count_shared(g, v, shared, np.int64(-1))


@njit(cache=True, nogil=True)
def _count_shared(g: Graph, v: int, shared: I64, step: int) -> None:
    """Add ``step`` to the count of every variable for each factor it shares with v."""
    for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
        f = g.slot_factor[g.touch_slot[t]]
        for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
            shared[g.scope[k]] += step


@njit(cache=True, nogil=True)
def _star_marginal(g: Graph, pool: F64, messages: F64, f: int, slot: int, loss: F64, shared: I64, out: F64) -> None:
    """Write the max-marginals of a slot, with ``message + loss / shared`` subtracted for all other slots.

    Parameters
    ----------
    g : Graph
        Structure; read only.
    pool : ndarray of float64
        Tables; ``-inf`` is forbidden.
    messages : ndarray of float64, shape (graph.message_ptr[-1],)
        Messages of all examples; read only.
    f : int
        The factor.
    slot : int
        One of its slots, of the variable at the centre of the star.
    loss : ndarray of float64, shape (S,)
        How far the reparametrised unary score of each state is below its variable's best.
    shared : ndarray of int64, shape (V,)
        How many factors each variable shares with the centre.
    out : ndarray of float64, shape (at least the states of the slot's variable,)
        Written.
    """
    lo, hi = g.slot_ptr[f], g.slot_ptr[f + 1]
    digit = np.zeros(MAX_ARITY, np.int64)
    for s in range(g.card[g.scope[slot]]):
        out[s] = -np.inf
    for at in range(g.table_ptr[f], g.table_ptr[f] + g.table_size[f]):
        value = pool[at]
        if value > -np.inf:
            for k in range(lo, hi):
                if k != slot:
                    u, s = g.scope[k], digit[k - lo]
                    value -= messages[g.message_ptr[k] + s] + loss[g.state_ptr[u] + s] / shared[u]
            s = digit[slot - lo]
            out[s] = max(out[s], value)
        k = hi - 1
        while k >= lo and digit[k - lo] + 1 == g.card[g.scope[k]]:
            digit[k - lo] = 0
            k -= 1
        if k >= lo:
            digit[k - lo] += 1
