"""Scores of binary variables as a network whose minimum cuts are the best labellings.

State 1 is the side of the source.  A table of two variables with ``D = t00 + t11 - t01 - t10 >= 0`` is

    t(x, y) = t00 + (t10 - t00 + h) x + (t01 - t00 + D - h) y - h x (1 - y) - (D - h) (1 - x) y,     h = D / 2

unary scores and two links (Kolmogorov and Zabih, PAMI 2004).  Forbidden joint states (0, 1) and (1, 0) become links
that are never cut.  A table of three variables is a polynomial with highest coefficient c; where ``c >= 0``, and
otherwise after exchanging the states,

    c x y z = max_w  c w (x + y + z - 2)        over one more binary variable w

which is a sum of pairs (Freedman and Drineas, CVPR 2005); what remains are pairs that must have D >= 0.

Capacities are whole numbers: scores times a power of two, so large that the rounding of one score is at most
``2**-57`` (with tables of three variables ``2**-53``) of the sum of all scores of an example, and so small that no sum
of capacities overflows.  Scores with few binary digits are represented exactly, integers among them.

Tables that are computed from weights may miss ``D >= 0`` by the rounding of that computation.  A ``D`` below zero by
up to ``FORGIVEN`` of the sum of the table's sizes is taken for zero, unless the entries are integers.  The network then
rates labellings too high by up to ``-D``; the sum of these *losses* is part of the bound.
"""

from __future__ import annotations

from math import frexp, ldexp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.cuts.maxflow import (
    ARC,
    CONTROL,
    NODE,
    UNBOUNDED,
    Arcs,
    Flow,
    Nodes,
    advance,
    link,
    load,
    on_source_side,
    start,
)
from ssvm_backends.graphs.graph import Graph, Instance
from ssvm_backends.local.search import score_of
from ssvm_dsl.ir import F64, I32, I64, ROUNDING, Bools, pointers
from ssvm_dsl.kernels import SIGNATURE, borrow, cfunc, njit, packed_record

#: Violations of submodularity that count as rounding, relative to the sum of the sizes of the entries they come from;
#: more than what :mod:`ssvm_dsl.requirements.properties` forgives, which adds the same numbers in another way.
FORGIVEN = 2.0 * ROUNDING

#: The violation of submodularity by tables that hold ``-inf``.
FAR = 1 << 62


class CutGraph(NamedTuple):
    """Structure of the networks of a graph's examples; everything but capacities.

    Parameters
    ----------
    node_ptr : ndarray of int64, shape (B + 1,)
        Nodes of each example: its variables, then one more for each factor of three variables, then the second ones of
        variables that have two.
    var_node : ndarray of int64, shape (V,)
        Node of each variable.
    extra : ndarray of int64, shape (F,)
        The further node of a factor, -1 without one.
    second : ndarray of int64, shape (V,)
        The second node of a variable, -1 without one.
    edge_ptr : ndarray of int64, shape (F + 1,)
        Links of each factor: (a, b); for three variables (a, b), (a, c), (b, c), (w, a), (w, b), (w, c); where the
        first of two variables has a second node s, (a, b), (s, b).
    own_edge : ndarray of int64, shape (V,)
        The link from the first to the second node of a variable, -1 without one.
    number : ndarray of int32
        Arc of each link, in the order written above.
    first : ndarray of int64, shape (N + 1,)
    head, sister : ndarray of int32
        Arcs by node, see :func:`ssvm_backends.cuts.maxflow.link`.
    """

    node_ptr: I64
    var_node: I64
    extra: I64
    second: I64
    edge_ptr: I64
    own_edge: I64
    number: I32
    first: I64
    head: I32
    sister: I32

    def extent(self, ids: I64) -> tuple[int, int]:
        """Return the most nodes and arcs of one of the examples."""
        lo, hi = self.node_ptr[ids], self.node_ptr[1:][ids]
        return int((hi - lo).max(initial=0)), int((self.first[hi] - self.first[lo]).max(initial=0))


def build_cut_graph(graph: Graph, two_nodes: Bools | None = None) -> CutGraph:
    """Return the networks' structure for factors of two and three variables.

    Parameters
    ----------
    graph : Graph
    two_nodes : ndarray of bool, shape (V,), optional
        Variables with two nodes; they come first in their factors, which are pairs with others.
    """
    two = np.zeros(graph.n_variables, dtype=bool) if two_nodes is None else two_nodes
    triple = np.diff(graph.slot_ptr) == 3
    split = two[graph.scope[graph.slot_ptr[:-1]]]
    before, seconds = pointers(triple.astype(np.int64)), pointers(two.astype(np.int64))
    triples_before, seconds_before = before[graph.factor_ptr], seconds[graph.var_ptr]
    node_ptr = graph.var_ptr + triples_before + seconds_before
    var_node = np.arange(graph.n_variables) + np.repeat(
        triples_before[:-1] + seconds_before[:-1], np.diff(graph.var_ptr)
    )
    owner = np.repeat(np.arange(graph.n_examples), np.diff(graph.factor_ptr))
    extra = np.where(triple, graph.var_ptr[1:][owner] + seconds_before[:-1][owner] + before[:-1], -1)
    after = np.repeat(graph.var_ptr[1:] + triples_before[1:], np.diff(graph.var_ptr))
    second = np.where(two, after + seconds[:-1], -1)
    edge_ptr = pointers(np.where(triple, 6, 1 + split))
    own_edge = np.where(two, int(edge_ptr[-1]) + seconds[:-1], -1)
    m = int(edge_ptr[-1] + seconds[-1])
    tail, head = np.empty(m, np.int32), np.empty(m, np.int32)
    tail[own_edge[two]], head[own_edge[two]] = var_node[two], second[two]
    first_node = graph.scope[graph.slot_ptr[:-1][split]]
    tail[edge_ptr[:-1][split] + 1] = second[first_node]
    head[edge_ptr[:-1][split] + 1] = var_node[graph.scope[graph.slot_ptr[:-1][split] + 1]]
    node = var_node[graph.scope]
    for factors, a, b, at in [
        (~triple, 0, 1, 0), (triple, 0, 1, 0), (triple, 0, 2, 1), (triple, 1, 2, 2),
        (triple, -1, 0, 3), (triple, -1, 1, 4), (triple, -1, 2, 5),
    ]:  # fmt: skip
        slots, edges = graph.slot_ptr[:-1][factors], edge_ptr[:-1][factors] + at
        tail[edges] = node[slots + a] if a >= 0 else extra[factors]
        head[edges] = node[slots + b]
    n = int(node_ptr[-1])
    first, number = np.empty(n + 1, np.int64), np.empty(m, np.int32)
    arc_head, sister = np.empty(2 * m, np.int32), np.empty(2 * m, np.int32)
    link(tail, head, first, arc_head, sister, number)
    return CutGraph(node_ptr, var_node, extra, second, edge_ptr, own_edge, number, first, arc_head, sister)


@njit(cache=True, nogil=True)
def whole_scale(graph: Graph, node: F64, pool: F64, example: int) -> float:
    """Return the power of two that turns an example's scores into whole numbers."""
    total, widest = 0.0, 2
    for v in range(graph.var_ptr[example], graph.var_ptr[example + 1]):
        largest = 0.0
        for s in range(graph.state_ptr[v], graph.state_ptr[v + 1]):
            largest = max(largest, abs(node[s]))
        total += largest
    for f in range(graph.factor_ptr[example], graph.factor_ptr[example + 1]):
        largest = 0.0
        for c in range(graph.table_ptr[f], graph.table_ptr[f] + graph.table_size[f]):
            if pool[c] > -np.inf:
                largest = max(largest, abs(pool[c]))
        total += largest
        widest = max(widest, graph.slot_ptr[f + 1] - graph.slot_ptr[f])
    exponent = frexp(total)[1] if total > 0.0 else 0
    return ldexp(1.0, (57 if widest == 2 else 53) - max(exponent, -900))


@njit(cache=True, nogil=True)
def whole(x: float, scale: float) -> np.int64:
    """Return a score as a whole number."""
    return np.int64(np.rint(x * scale))


@njit(cache=True, nogil=True)
def forgiven(table: F64, size: int, scale: float) -> np.int64:
    """Return the allowed violation of ``D >= 0`` of a table of this size (in whole numbers): 0 for integers."""
    integers = scale >= 1.0
    for x in table:
        integers &= x == np.rint(x)
    return np.int64(0) if integers else np.int64(4 + FORGIVEN * size)


@njit(cache=True, nogil=True)
def pair_terms(t00: float, t01: float, t10: float, t11: float, scale: float) -> tuple[int, int, int, int, int]:
    """Return (constant, unary of x, unary of y, link x to y, link y to x) of a table.

    Links of -1 say that the table is not submodular; where all entries are finite, the constant is what it misses
    that by, negative.
    """
    if t00 == -np.inf or t11 == -np.inf:
        return -FAR, 0, 0, -1, -1
    a, d = whole(t00, scale), whole(t11, scale)
    if t01 == -np.inf and t10 == -np.inf:
        return a, d - a, 0, UNBOUNDED, UNBOUNDED
    if t01 == -np.inf:
        c = whole(t10, scale)
        return a, c - a, d - c, 0, UNBOUNDED
    if t10 == -np.inf:
        b = whole(t01, scale)
        return a, d - b, b - a, UNBOUNDED, 0
    b, c = whole(t01, scale), whole(t10, scale)
    gain = a + d - b - c
    if gain < 0:
        return gain, 0, 0, -1, -1
    half = gain // 2
    return a, c - a + half, b - a + gain - half, half, gain - half


@njit(cache=True, nogil=True)
def add_pair(node: Nodes, arc: Arcs, a: int, x: int, y: int, table: F64, scale: float) -> np.int64:
    """Add a table to nodes x and y and to arc a between them; return the loss, -1 when it is not submodular.

    The equation is that of the module, in whole numbers and with ``h = D // 2``.  -1 means that nothing was written.

    Parameters
    ----------
    node, arc : ndarray of NODE, ndarray of ARC
        The network: ``excess`` of x and y and ``cap`` of both arcs grow in place.
    a : int
        The arc from x to y; its sister leads back.
    x, y : int
        Nodes of the table's first and second variable.
    table : ndarray of float64, shape (4,)
        Scores ``t00, t01, t10, t11``; ``-inf`` is forbidden.
    scale : float
        Power of two that makes scores whole numbers, see :func:`whole_scale`.

    Returns
    -------
    int
        ``-D`` where a D below zero was taken for zero, 0 otherwise (both in units of ``1 / scale``).
    """
    miss, e_x, e_y, c_xy, c_yx = pair_terms(table[0], table[1], table[2], table[3], scale)
    lost = np.int64(0)
    if c_xy < 0:
        if miss == -FAR:
            return np.int64(-1)
        first = whole(table[0], scale)
        b, c, d = whole(table[1], scale), whole(table[2], scale), whole(table[3], scale)
        if -miss > forgiven(table, abs(first) + abs(b) + abs(c) + abs(d), scale):
            return np.int64(-1)
        # without links the network gives (1, 1) the score c + b - first, too much by the loss
        lost, e_x, e_y, c_xy, c_yx = -miss, c - first, b - first, 0, 0
    node[x].excess += e_x
    node[y].excess += e_y
    arc[a].cap += c_xy
    arc[arc[a].sister].cap += c_yx
    return lost


@njit(cache=True, nogil=True)
def add_triple(node: Nodes, arc: Arcs, edge: I32, x: I64, w: int, table: F64, scale: float) -> np.int64:
    """Add a table of three variables; return the loss, -1 when it is not submodular.

    The cubic term becomes ``max_w c w (x + y + z - 2)``, what remains three pairs (Freedman and Drineas, CVPR 2005).
    When the result is -1, part of the table may have been added: the network is of no use any more.

    Parameters
    ----------
    node, arc : ndarray of NODE, ndarray of ARC
        The network: ``excess`` of the four nodes and ``cap`` of their arcs change in place.
    edge : ndarray of int32, shape (6,)
        Arcs (x0, x1), (x0, x2), (x1, x2), (w, x0), (w, x1), (w, x2).
    x : ndarray of int64, shape (3,)
        The variables' nodes.
    w : int
        The further node.
    table : ndarray of float64, shape (8,)
        Scores in C order; with ``-inf`` the table is refused.
    scale : float
        Power of two that makes scores whole numbers, see :func:`whole_scale`.

    Returns
    -------
    int
        The sum of the violations of ``D >= 0`` by the three pairs, in units of ``1 / scale``.
    """
    t, size, lost = np.empty(8, np.int64), np.int64(0), np.int64(0)
    for k in range(8):
        if table[k] == -np.inf:
            return np.int64(-1)
        t[k] = whole(table[k], scale)
        size += abs(t[k])
    top = t[7] - t[6] - t[5] - t[3] + t[4] + t[2] + t[1] - t[0]
    turned = top < 0
    sign = -1 if turned else 1
    if turned:  # exchange the states: read the table backwards
        for k in range(4):
            t[k], t[7 - k] = t[7 - k], t[k]
    node[w].excess += top
    bits = (4, 2, 1)
    for k in range(3):
        node[x[k]].excess += sign * (t[bits[k]] - t[0])
        a = edge[3 + k]
        arc[arc[a].sister if turned else a].cap += abs(top)
    for k in range(3):
        i, j = (0, 1) if k == 0 else ((0, 2) if k == 1 else (1, 2))
        gain = t[bits[i] + bits[j]] - t[bits[i]] - t[bits[j]] + t[0]
        if gain < 0:
            if -gain > forgiven(table, size, scale):
                return np.int64(-1)
            lost -= gain
            gain = np.int64(0)
        half, a = gain // 2, edge[k]
        node[x[i]].excess += sign * half
        node[x[j]].excess += sign * (gain - half)
        arc[arc[a].sister if turned else a].cap += half
        arc[a if turned else arc[a].sister].cap += gain - half
    return lost


# -- The batch kernel of ``graph-cut``: network, flow and labels, example after example ------------------------------

#: The position in a batch: examples finished, whether the flow of the next one is under way, the refused factor or -1.
CUT_STATE = np.dtype([("finished", np.int64), ("under_way", np.int64), ("refused", np.int64)])


class CutBatch(NamedTuple):
    """Minimum cuts of some examples.

    Parameters
    ----------
    instance : Instance
        Every variable has two states.
    cut : CutGraph
    ids : ndarray of int64, shape (n,)
        Examples.
    label_ptr : ndarray of int64, shape (n + 1,)
        Where their labels go.
    labels : ndarray of int32
        Result.
    lost : ndarray of float64, shape (n,)
        Result: how far the best score may be above that of the labels, where tables miss submodularity by rounding.
    """

    instance: Instance
    cut: CutGraph
    ids: I64
    label_ptr: I64
    labels: I32
    lost: F64


def cut_state() -> NDArray[np.void]:
    """Return the state of a batch that has not begun."""
    state = np.zeros(1, CUT_STATE)
    state["refused"] = -1
    return state


@njit(cache=True, nogil=True)
def price(instance: Instance, cut: CutGraph, example: int, flow: Flow, lost: F64) -> int:
    """Write one example's capacities; return a factor that is not submodular, -1 when all are.

    Parameters
    ----------
    instance, cut
        As for :class:`CutBatch`; read only.
    example : int
        The example.
    flow : Flow
        Written: the network, its nodes and arcs numbered from 0.
    lost : ndarray of float64, shape (1,)
        Written: how far scores of labellings may be above those of the network.  Not touched when a factor is refused.
    """
    graph, score, pool, node, arc = instance.graph, instance.node, instance.pool, flow.node, flow.arc
    lo, nodes = graph.var_ptr[example], cut.node_ptr[example]
    base = cut.first[nodes]
    load(cut.first, cut.head, cut.sister, nodes, cut.node_ptr[example + 1], node, arc)
    scale = whole_scale(graph, score, pool, example)
    for v in range(lo, graph.var_ptr[example + 1]):
        s = graph.state_ptr[v]
        node[cut.var_node[v] - nodes].excess = whole(score[s + 1], scale) - whole(score[s], scale)
    x, edge, total = np.empty(3, np.int64), np.empty(6, np.int32), np.int64(0)
    for f in range(graph.factor_ptr[example], graph.factor_ptr[example + 1]):
        k, t, e = graph.slot_ptr[f], graph.table_ptr[f], cut.edge_ptr[f]
        if cut.extra[f] < 0:
            u, v = cut.var_node[graph.scope[k]] - nodes, cut.var_node[graph.scope[k + 1]] - nodes
            a = cut.number[e] - base
            less = add_pair(node, arc, a, u, v, pool[t : t + 4], scale)
        else:
            for i in range(3):
                x[i] = cut.var_node[graph.scope[k + i]] - nodes
            for i in range(6):
                edge[i] = cut.number[e + i] - base
            less = add_triple(node, arc, edge, x, cut.extra[f] - nodes, pool[t : t + 8], scale)
        if less < 0:
            return f
        total += less
    lost[0] = total / scale
    return -1


@njit(cache=True, nogil=True)
def cut_batch(batch: CutBatch, flow: Flow, state: NDArray[np.void], budget: int) -> bool:
    """Continue a batch until it is done (return True), the budget is spent or a table is not submodular (False).

    Parameters
    ----------
    batch : CutBatch
        ``labels`` and ``lost`` are written.
    flow : Flow
        Work space for the largest example; between calls it holds the flow that is under way.
    state : ndarray of CUT_STATE, shape (1,)
        The position in the batch, in and out.
    budget : int
        Number of arcs to visit, approximately.
    """
    instance, cut, flow = borrow(batch.instance), borrow(batch.cut), borrow(flow)
    graph, at = instance.graph, state[0]
    while at.finished < len(batch.ids):
        k = at.finished
        i = batch.ids[k]
        n = cut.node_ptr[i + 1] - cut.node_ptr[i]
        if at.under_way == 0:
            at.refused = price(instance, cut, i, flow, batch.lost[k : k + 1])
            if at.refused >= 0:
                return False
            start(flow.node, n, flow.control)
            at.under_way = 1
            budget -= 2 * n
        if budget <= 0 or not advance(flow.node, flow.arc, flow.control, budget):
            return False
        budget -= flow.control[0].time
        to, first = batch.label_ptr[k], graph.var_ptr[i]
        for v in range(first, graph.var_ptr[i + 1]):
            batch.labels[to + v - first] = on_source_side(flow.node, cut.var_node[v] - cut.node_ptr[i])
        at.finished += 1
        at.under_way = 0
    return True


#: Fields of a :class:`~ssvm_backends.graphs.graph.Graph` that are packed, before those of the networks.
OF_GRAPH = ("var_ptr", "state_ptr", "factor_ptr", "slot_ptr", "scope", "table_ptr", "table_size", "stride")


#: How the scopes and tables of a graph, and its networks, are read.
graph_in, cut_in = packed_record(Graph, OF_GRAPH), packed_record(CutGraph)


@cfunc(SIGNATURE)
def cut_oracle(ints, longs, example, pool, node, labels, work):  # type: ignore[no-untyped-def]
    """Compiled oracle; returns the best score of one example, without the constant.

    ``nan`` where a table is not submodular.

    Parameters
    ----------
    ints, longs : ndarray of int32 and of int64
        Packed: :data:`OF_GRAPH`, and the fields of a :class:`CutGraph`.
    example : int
        The example.
    pool, node : ndarray of float64
        As in :class:`~ssvm_dsl.ir.Theta`, finite.
    labels : ndarray of int32, shape (at least the example's variables,)
        Written.
    work : ndarray of float64
        Not used.
    """
    ints, longs, pool, node, labels = borrow(ints), borrow(longs), borrow(pool), borrow(node), borrow(labels)
    graph, cut = graph_in(ints, longs, 0), cut_in(ints, longs, len(OF_GRAPH))
    lo, hi = cut.node_ptr[example], cut.node_ptr[example + 1]
    nodes, arcs = np.empty(hi - lo + 1, NODE), np.empty(cut.first[hi] - cut.first[lo], ARC)
    flow = Flow(nodes, arcs, np.zeros(1, CONTROL))
    state = np.zeros(1, CUT_STATE)
    state[0].refused = -1
    instance = Instance(graph, node, pool, node)  # nobody reads the constants
    batch = CutBatch(instance, cut, np.full(1, example), np.zeros(1, np.int64), labels, np.zeros(1))
    if cut_batch(batch, flow, state, np.int64(1) << 62):
        return score_of(graph, node, pool, example, labels)
    return np.nan
