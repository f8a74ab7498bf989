"""Local search on labellings: moves of one variable to convergence, then of two variables that share a factor.

A labelling that no single move improves is a fixed point of iterated conditional modes (Besag 1986).  A pair move
picks the best joint state of two variables given all others; it escapes from the many fixed points in which two
neighbours would have to change together.  Both look at local sums only::

    gain_v(s) = node[v, s] + sum over factors f of v of table_f(s, labels of the other variables of f)

Forbidden joint states count first: a move is taken when it leaves fewer ``-inf`` terms, and among equals when it
raises the sum of the finite ones.  So the search repairs labellings as well, and a labelling of finite score never
becomes worse.  All moves are strict improvements by more than rounding, and capped in number, so it ends.

Use :func:`improve` on whole batches; :func:`local_search` works on one example within a budget, so that callers may
check the clock in between, as :func:`improve_within` does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.graphs.graph import Graph
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.kernels import borrow, njit
from ssvm_dsl.plugin_api import Clock

#: Table entries looked at between two checks of the clock: a few milliseconds.
LOOK_PART = 1_000_000

#: Relative size of improvements that may be rounding.
_TOLERANCE = 1e-12

#: Two variables whose joint states are more than this are not moved together.
_WIDEST_PAIR = 65536

#: Changes of each variable after which a search is taken to go round in rounding errors.
_MAX_CHANGES = 1000


class Neighbourhood(NamedTuple):
    """One example's labelling, the variables still to visit, and work space for the states of one or two variables.

    Parameters
    ----------
    graph : Graph
    node, pool : ndarray of float64
        Unary scores and tables.
    lo : int
        The example's first variable.
    labels : ndarray of int32, shape (n,)
        The labelling.
    stale : ndarray of bool, shape (2 n,)
        See :func:`local_search`.
    value : ndarray of float64
        Sums of finite terms for each state of a variable, or of two.
    bad : ndarray of int64
        Numbers of forbidden terms.
    joint, joint_bad : ndarray
        The same for joint states of two variables.
    """

    graph: Graph
    node: F64
    pool: F64
    lo: int
    labels: I32
    stale: Bools
    value: F64
    bad: I64
    joint: F64
    joint_bad: I64


@njit(cache=True, nogil=True)
def improve(graph: Graph, node: F64, pool: F64, ids: I64, labels: I32) -> F64:
    """Improve a labelling of each listed example in place until no move of one or two variables helps.

    Parameters
    ----------
    graph : Graph
    node, pool : ndarray of float64
        Scores (of an :class:`~ssvm_backends.graphs.graph.Instance`).
    ids : ndarray of int64, shape (n,)
        The examples.
    labels : ndarray of int32
        Packed over ``ids`` in that order.

    Returns
    -------
    ndarray of float64, shape (n,)
        Scores without the constants; ``-inf`` where the labelling is still forbidden.
    """
    out = np.empty(len(ids))
    at = 0
    for i in range(len(ids)):
        n = graph.var_ptr[ids[i] + 1] - graph.var_ptr[ids[i]]
        mine = labels[at : at + n]
        stale = np.ones(2 * n, np.bool_)
        local_search(graph, node, pool, ids[i], mine, stale, np.bool_(True), np.int64(1) << 62)
        out[i] = score_of(graph, node, pool, ids[i], mine)
        at += n
    return out


def improve_within(
    graph: Graph, node: F64, pool: F64, example: int, labels: I32, clock: Clock, pairs: bool = True
) -> bool:
    """Improve one example's labelling in place until nothing helps or time is up; return whether nothing helps.

    Parameters
    ----------
    graph, node, pool, example, labels, pairs
        As for :func:`local_search`.
    clock : Clock
    """
    stale = np.ones(2 * len(labels), np.bool_)
    while not local_search(graph, node, pool, example, labels, stale, pairs, LOOK_PART):
        if clock.over:
            return False
    return True


@njit(cache=True, nogil=True)
def score_of(graph: Graph, node: F64, pool: F64, example: int, labels: I32) -> float:
    """Return the score of one example's labelling, without the constant."""
    g = borrow(graph)
    lo, total = g.var_ptr[example], 0.0
    for v in range(lo, g.var_ptr[example + 1]):
        total += node[g.state_ptr[v] + labels[v - lo]]
    for f in range(g.factor_ptr[example], g.factor_ptr[example + 1]):
        at = g.table_ptr[f]
        for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
            at += g.stride[k] * labels[g.scope[k] - lo]
        total += pool[at]
    return total


@njit(cache=True, nogil=True)
def local_search(
    graph: Graph, node: F64, pool: F64, example: int, labels: I32, stale: Bools, pairs: bool, budget: int
) -> bool:
    """Improve one example's labelling in place until nothing helps or the budget is spent; return whether it is done.

    Parameters
    ----------
    graph : Graph
        Structure; read only.
    node, pool : ndarray of float64
        Unary scores and tables of all examples; ``-inf`` is forbidden.
    example : int
        The example.
    labels : ndarray of int32, shape (n,)
        The labelling.
    stale : ndarray of bool, shape (2 n,)
        Which variables to look at alone (first half) and in pairs (second half); all True at first.  It
        holds the remaining variables when the budget was spent.
    pairs : bool
        Whether to try moves of two variables.
    budget : int
        About how many table entries to look at.
    """
    g = borrow(graph)
    lo, n = g.var_ptr[example], g.var_ptr[example + 1] - g.var_ptr[example]
    widest = 1
    for v in range(lo, lo + n):
        widest = max(widest, g.card[v])
    size = min(widest * widest, _WIDEST_PAIR) if pairs else 1
    here = Neighbourhood(
        g, borrow(node), borrow(pool), lo, labels, stale, np.empty(2 * widest), np.empty(2 * widest, np.int64),
        np.empty(size), np.empty(size, np.int64),
    )  # fmt: skip
    changes, again = 0, True
    while again and changes < _MAX_CHANGES * n:
        again = False
        for v in range(lo, lo + n):
            if stale[v - lo]:
                stale[v - lo] = False
                budget -= g.card[v] * (1 + g.touch_ptr[v + 1] - g.touch_ptr[v])
                if _move(here, v):
                    again = True
                    changes += 1
                if budget < 0:
                    return False
        if again or not pairs:
            continue
        for v in range(lo, lo + n):
            if stale[n + v - lo]:
                stale[n + v - lo] = False
                for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
                    f = g.slot_factor[g.touch_slot[t]]
                    for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
                        u = np.int64(g.scope[k])  # as v is: each type of argument is compiled again
                        # of two stale variables the later one looks at the pair
                        if u == v or stale[n + u - lo] or g.card[u] * g.card[v] > size:
                            continue
                        budget -= g.card[u] * g.card[v] + g.card[u] * (g.touch_ptr[u + 1] - g.touch_ptr[u])
                        budget -= g.card[v] * (g.touch_ptr[v + 1] - g.touch_ptr[v])
                        if _move_pair(here, v, u):
                            again = True
                            changes += 1
                if budget < 0:
                    return False
    return True


@njit(cache=True, nogil=True)
def _local(here: Neighbourhood, v: int, other: int, value: F64, bad: I64) -> None:
    """Write for each state of v the sum of its finite terms and the number of ``-inf``; skip factors with ``other``.

    The equation is that of ``gain_v`` in the module, with forbidden terms counted apart.

    Parameters
    ----------
    here : Neighbourhood
        Read only.
    v : int
        The variable; its own label does not matter.
    other : int
        A variable whose factors are left out, -1 for none.
    value, bad : ndarray, shape (at least the states of v,)
        Written.
    """
    site = borrow(here)
    g, node, pool, labels, lo = site.graph, site.node, site.pool, site.labels, site.lo
    for s in range(g.card[v]):
        x = node[g.state_ptr[v] + s]
        forbidden = x == -np.inf
        value[s], bad[s] = (0.0, 1) if forbidden else (x, 0)
    for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
        slot = g.touch_slot[t]
        f = g.slot_factor[slot]
        at, skip = g.table_ptr[f], False
        for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
            u = g.scope[k]
            skip |= u == other
            if k != slot:
                at += g.stride[k] * labels[u - lo]
        if skip:
            continue
        for s in range(g.card[v]):
            x = pool[at + s * g.stride[slot]]
            if x == -np.inf:
                bad[s] += 1
            else:
                value[s] += x


@njit(cache=True, nogil=True)
def _better(x: float, x_bad: int, y: float, y_bad: int) -> bool:
    """Whether x (with so many forbidden terms) is better than y, by more than rounding."""
    if x_bad != y_bad:
        return x_bad < y_bad
    return x > y + _TOLERANCE * (abs(x) + abs(y))


@njit(cache=True, nogil=True)
def _wake(g: Graph, v: int, lo: int, stale: Bools) -> None:
    """Mark v's neighbours to be tried again (and v for pairs; alone it is at its best)."""
    n = len(stale) // 2
    stale[n + v - lo] = True
    for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
        f = g.slot_factor[g.touch_slot[t]]
        for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
            u = g.scope[k]
            stale[n + u - lo] = True
            if u != v:
                stale[u - lo] = True


@njit(cache=True, nogil=True)
def _move(here: Neighbourhood, v: int) -> bool:
    """Set v to its best state given all others, and mark its neighbours; return whether it changed."""
    site = borrow(here)
    labels, value, bad, lo = site.labels, site.value, site.bad, site.lo
    _local(site, v, np.int64(-1), value, bad)
    now = labels[v - lo]
    best = now
    for s in range(site.graph.card[v]):
        if _better(value[s], bad[s], value[best], bad[best]):
            best = s
    if best == now:
        return False
    labels[v - lo] = best
    _wake(site.graph, v, lo, site.stale)
    return True


@njit(cache=True, nogil=True)
def _move_pair(here: Neighbourhood, v: int, u: int) -> bool:
    """Set two variables that share a factor to their best joint state given all others; return whether they changed.

    The neighbours of the variables that changed are marked.
    """
    site = borrow(here)
    g, pool, lo, labels, stale = site.graph, site.pool, site.lo, site.labels, site.stale
    value, bad, joint, joint_bad = site.value, site.bad, site.joint, site.joint_bad
    c_v, c_u = g.card[v], g.card[u]
    _local(site, v, u, value, bad)
    _local(site, u, v, value[c_v:], bad[c_v:])
    for s in range(c_v):
        for t in range(c_u):
            joint[s * c_u + t] = value[s] + value[c_v + t]
            joint_bad[s * c_u + t] = bad[s] + bad[c_v + t]
    for k in range(g.touch_ptr[v], g.touch_ptr[v + 1]):  # the factors of both, which the local sums left out
        slot = g.touch_slot[k]
        f = g.slot_factor[slot]
        at, partner = g.table_ptr[f], -1
        for m in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
            if g.scope[m] == u:
                partner = m
            elif m != slot:
                at += g.stride[m] * labels[g.scope[m] - lo]
        if partner < 0:
            continue
        for s in range(c_v):
            for t in range(c_u):
                x = pool[at + s * g.stride[slot] + t * g.stride[partner]]
                if x == -np.inf:
                    joint_bad[s * c_u + t] += 1
                else:
                    joint[s * c_u + t] += x
    now = labels[v - lo] * c_u + labels[u - lo]
    best = now
    for c in range(c_v * c_u):
        if _better(joint[c], joint_bad[c], joint[best], joint_bad[best]):
            best = c
    if best == now:
        return False
    before = labels[v - lo], labels[u - lo]
    labels[v - lo], labels[u - lo] = best // c_u, best % c_u
    if labels[v - lo] != before[0]:
        _wake(g, v, lo, stale)
    if labels[u - lo] != before[1]:
        _wake(g, u, lo, stale)
    return True
