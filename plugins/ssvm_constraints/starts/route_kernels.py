"""The best path of a graph without circuits, compiled: graphs of tens of thousands of arcs take milliseconds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I64, Bools
from ssvm_dsl.kernels import njit


class OutgoingArcs(NamedTuple):
    """The arcs of a graph of n nodes, those out of one node after the other.

    Parameters
    ----------
    start : ndarray of int64, shape (n + 1,)
        Arcs ``start[u]:start[u + 1]`` leave node u; a in all.
    head : ndarray of int64, shape (a,)
    gain : ndarray of float64, shape (a,)
    must : ndarray of bool, shape (a,)
        Arcs that have to be taken; what they gain does not matter.
    """

    start: I64
    head: I64
    gain: F64
    must: Bools


@njit(cache=True, nogil=True)
def topological_order(arcs: OutgoingArcs) -> I64:
    """Return the nodes in an order in which each arc leads to a later one (Kahn 1962).

    Parameters
    ----------
    arcs : OutgoingArcs

    Returns
    -------
    ndarray of int64
        Of shape (n,) for a graph without circuits; else shorter: nodes on circuits, and after them, are missing.
    """
    n = len(arcs.start) - 1
    into, order, made = np.zeros(n, np.int64), np.empty(n, np.int64), 0
    for v in arcs.head:
        into[v] += 1
    for u in range(n):
        if into[u] == 0:
            order[made] = u
            made += 1
    done = 0
    while done < made:
        u = order[done]
        done += 1
        for a in range(arcs.start[u], arcs.start[u + 1]):
            v = arcs.head[a]
            into[v] -= 1
            if into[v] == 0:
                order[made] = v
                made += 1
    return order[:made]


@njit(cache=True, nogil=True)
def best_arcs(arcs: OutgoingArcs, order: I64, source: int) -> I64:
    """Return the last arc of the best path from one node to each of the others, in a graph without circuits.

    The best path has the most arcs that must be taken; among those, it gains most.

    Parameters
    ----------
    arcs : OutgoingArcs
    order : ndarray of int64, shape (n,)
        As :func:`topological_order` returns it.
    source : int
        The node that paths start at.

    Returns
    -------
    ndarray of int64, shape (n,)
        Numbers of arcs; -1 for the source, and for nodes that no path leads to.
    """
    n = len(arcs.start) - 1
    came, needed, total = np.full(n, -1, np.int64), np.full(n, -1, np.int64), np.zeros(n)
    needed[source] = 0
    for u in order:
        if needed[u] < 0:
            continue
        for a in range(arcs.start[u], arcs.start[u + 1]):
            v = arcs.head[a]
            count = needed[u] + (1 if arcs.must[a] else 0)
            gained = total[u] if arcs.must[a] else total[u] + arcs.gain[a]
            if count > needed[v] or (count == needed[v] and gained > total[v]):
                needed[v], total[v], came[v] = count, gained, a
    return came
