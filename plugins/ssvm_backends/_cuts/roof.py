"""Roof duality: bound and partial labelling of any binary pairwise problem from one flow.

Every variable x has two nodes, x and its negation; a table with ``D >= 0`` (see :mod:`ssvm_backends._cuts.graph`) links
x and y, any other one links x and the negation of y, in whose states the table is submodular; each link has a mirror
image between the negations.  A minimum cut of this network is twice the optimum of the relaxation in which
x + not x = 1 may fail, which is the local polytope (Hammer, Hansen and Simeone 1984; Boros and Hammer 2002).  With e
the unary scores after all tables are rewritten and R the excess that cannot flow away::

    score(y) <= const + (sum_v e_v + R) / 2        for every labelling y, and for every flow, maximal or not

A node that the source still reaches takes its state in some optimum (persistency).  Of the variables undecided so
far, those are decided too whose nodes lie in different strongly connected components of the residual arcs, taken in
topological order (Kolmogorov and Rother, PAMI 2007, section 2.3); overwriting any labelling with all decided states
never lowers its score.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ssvm_backends._cuts.graph import pair_terms, whole
from ssvm_backends._cuts.maxflow import Arcs, Nodes
from ssvm_backends._graphs.graph import F64, I32, I64, Graph

Bools = NDArray[np.bool_]


@njit(cache=True, nogil=True)
def roof_links(graph: Graph, pool: F64, example: int, scale: float, turned: Bools, tail: I32, head: I32) -> None:
    """Decide which tables are read with their second variable negated, and list the links of all factors.

    Links 2 f and 2 f + 1 of the example's factor f are mirror images; node 2 v stands for variable v, 2 v + 1
    for its negation.
    """
    lo, first = graph.var_ptr[example], graph.factor_ptr[example]
    for f in range(first, graph.factor_ptr[example + 1]):
        k = graph.slot_ptr[f]
        p, q = 2 * (graph.scope[k] - lo), 2 * (graph.scope[k + 1] - lo)
        at = graph.table_ptr[f]
        straight = pair_terms(pool[at], pool[at + 1], pool[at + 2], pool[at + 3], scale)[3] >= 0
        turned[f - first] = not straight
        e = 2 * (f - first)
        tail[e], head[e] = p, q + (0 if straight else 1)
        tail[e + 1], head[e + 1] = q + (1 if straight else 0), p + 1


@njit(cache=True, nogil=True)
def roof_price(
    graph: Graph, score: F64, pool: F64, example: int, scale: float, turned: Bools, number: I32, node: Nodes, arc: Arcs
) -> tuple[int, int]:
    """Write capacities and excess (zero before); return (const, sum of unary scores) as whole numbers."""
    lo, n = graph.var_ptr[example], graph.var_ptr[example + 1] - graph.var_ptr[example]
    first, const, total = graph.factor_ptr[example], 0, 0
    for v in range(n):
        s = graph.state_ptr[lo + v]
        zero = whole(score[s], scale)
        const += zero
        node[2 * v].excess = whole(score[s + 1], scale) - zero
    for f in range(first, graph.factor_ptr[example + 1]):
        at, flip = graph.table_ptr[f], turned[f - first]
        a, b, c, d = pool[at], pool[at + 1], pool[at + 2], pool[at + 3]
        if flip:
            a, b, c, d = b, a, d, c
        base, e_x, e_y, c_xy, c_yx = pair_terms(a, b, c, d, scale)
        k = graph.slot_ptr[f]
        const += base + (e_y if flip else 0)
        node[2 * (graph.scope[k] - lo)].excess += e_x
        node[2 * (graph.scope[k + 1] - lo)].excess += -e_y if flip else e_y
        for side in range(2):
            link = number[2 * (f - first) + side]
            arc[link].cap += c_xy
            arc[arc[link].sister].cap += c_yx
    for v in range(n):
        total += node[2 * v].excess
        node[2 * v + 1].excess = -node[2 * v].excess
    return const, total


@njit(cache=True, nogil=True)
def roof_labels(n: int, number: I32, node: Nodes, arc: Arcs) -> I32:
    """Return the persistent state of each variable, -1 where roof duality leaves it open, after the flow.

    The residual network is made symmetric first (changed in place).
    """
    for e in range(0, len(number), 2):
        a, b = number[e], number[e + 1]
        for _ in range(2):
            both = arc[a].cap + arc[b].cap
            arc[a].cap, arc[b].cap = both, both
            a, b = arc[a].sister, arc[b].sister
    labels, stack, n_stack = np.full(n, -1, np.int32), np.empty(2 * n, np.int64), 0
    for v in range(n):
        rest = node[2 * v].excess - node[2 * v + 1].excess
        if rest != 0:
            labels[v] = 1 if rest > 0 else 0
            stack[n_stack] = 2 * v + (0 if rest > 0 else 1)
            n_stack += 1
    while n_stack > 0:  # what the source reaches
        n_stack -= 1
        u = stack[n_stack]
        for a in range(node[u].first, node[u + 1].first):
            w = arc[a].head
            if arc[a].cap > 0 and labels[w >> 1] < 0:
                labels[w >> 1] = 1 - (w & 1)
                stack[n_stack] = w
                n_stack += 1
    component = components(n, labels, node, arc)
    for v in range(n):
        if labels[v] < 0 and component[2 * v] != component[2 * v + 1]:
            labels[v] = component[2 * v] < component[2 * v + 1]
    return labels


@njit(cache=True, nogil=True)
def components(n: int, labels: I32, node: Nodes, arc: Arcs) -> I64:
    """Return the strongly connected component of each node of an open variable (Tarjan 1972).

    Components are numbered against the arcs: residual arcs lead to the same or a smaller number.
    """
    index, low = np.full(2 * n, -1, np.int64), np.zeros(2 * n, np.int64)
    component, at = np.full(2 * n, -1, np.int64), np.zeros(2 * n, np.int64)
    stack, path = np.empty(2 * n, np.int64), np.empty(2 * n, np.int64)
    n_stack, count, found = 0, 0, 0
    for root in range(2 * n):
        if labels[root >> 1] >= 0 or index[root] >= 0:
            continue
        path[0], depth = root, 1
        while depth > 0:
            u = path[depth - 1]
            if index[u] < 0:
                index[u] = low[u] = count
                count += 1
                at[u] = node[u].first
                stack[n_stack] = u
                n_stack += 1
            deeper = False
            while at[u] < node[u + 1].first:
                w = arc[at[u]].head
                if arc[at[u]].cap > 0 and labels[w >> 1] < 0:
                    if index[w] < 0:
                        path[depth] = w
                        depth += 1
                        deeper = True
                        break
                    if component[w] < 0:
                        low[u] = min(low[u], low[w])
                at[u] += 1
            if deeper:
                continue
            depth -= 1
            if low[u] == index[u]:
                while True:
                    n_stack -= 1
                    component[stack[n_stack]] = found
                    if stack[n_stack] == u:
                        break
                found += 1
    return component
