"""Spanning trees of a factor graph, drawn at random inside kernels until every factor has been in one.

A tree is a set of factors whose factor graph has no cycle: factors are taken in a random order, those that were in no
tree so far first, and each that would close a cycle is left out (Kruskal 1956).  Unconnected graphs make several
trees, one for each component.  Trees depend on the shape of the example and on the number they are drawn by, and on
nothing else, so that the order of examples, threads and interruptions change no answer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.graphs.graph import Graph
from ssvm_backends.graphs.kernels import STEP, random_bits
from ssvm_dsl.ir import F64, I64, Bools
from ssvm_dsl.kernels import borrow, njit


class SpanningTrees(NamedTuple):
    """Spanning trees of an example with m factors and n variables (or fewer), and work space to draw them.

    Parameters
    ----------
    factor : ndarray of int64, shape (m,)
        The factors of the trees, from the roots to the leaves, as the graph numbers them.
    parent : ndarray of int64, shape (m,)
        For each of them the slot of its variable nearest to the root.
    below : ndarray of float64, shape (m,)
        For each of them the number of variables beyond that one.
    weight : ndarray of float64, shape (n,)
        Variables that are still to get a share: each variable and its subtree.
    order : ndarray of int64, shape (m,)
        The factors of the example, from 0, in the random order of this round.
    covered, chosen : ndarray of bool, shape (m,)
        Factors that were in a tree of this round; factors of the tree at hand.
    joined : ndarray of int64, shape (n,)
        Sets of connected variables (union-find).
    queue : ndarray of int64, shape (n,)
        Variables to visit.
    """

    factor: I64
    parent: I64
    below: F64
    weight: F64
    order: I64
    covered: Bools
    chosen: Bools
    joined: I64
    queue: I64


@njit(cache=True, nogil=True)
def no_trees(g: Graph, ids: I64) -> SpanningTrees:
    """Return space for the trees of any of the listed examples."""
    n, m = 1, 1
    for e in ids:
        n, m = max(n, g.var_ptr[e + 1] - g.var_ptr[e]), max(m, g.factor_ptr[e + 1] - g.factor_ptr[e])
    return SpanningTrees(
        np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m), np.empty(n), np.empty(m, np.int64),
        np.empty(m, np.bool_), np.empty(m, np.bool_), np.empty(n, np.int64), np.empty(n, np.int64),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def begin_round(g: Graph, example: int, number: int, trees: SpanningTrees) -> int:
    """Put the factors of an example in a random order; return how many there are, none of them covered."""
    m = g.factor_ptr[example + 1] - g.factor_ptr[example]
    for j in range(m):
        trees.order[j], trees.covered[j] = j, False
    state = random_bits(STEP * np.uint64(number + 1))
    for j in range(m - 1, 0, -1):
        state += STEP
        k = np.int64(random_bits(state) % np.uint64(j + 1))
        trees.order[j], trees.order[k] = trees.order[k], trees.order[j]
    return m


@njit(cache=True, nogil=True)
def draw_trees(g: Graph, example: int, number: int, trees: SpanningTrees) -> tuple[int, int]:
    """Draw a spanning tree of each component; return its factors' number, and how many of them were not covered yet.

    Parameters
    ----------
    g : Graph
        Structure; read only.
    example : int
        The example.
    number : int
        The random number that chooses the root.
    trees : Trees
        After :func:`begin_round`; ``factor``, ``parent`` and ``covered`` are written, ``weight`` is set to 1.
    """
    g, trees = borrow(g), borrow(trees)
    first, offset = g.var_ptr[example], g.factor_ptr[example]
    n, m = g.var_ptr[example + 1] - first, g.factor_ptr[example + 1] - offset
    for v in range(n):
        trees.joined[v], trees.weight[v] = v, 0.0
    for j in range(m):
        trees.chosen[j] = False
    n_new, size = 0, 0
    for again in (False, True):
        for j in range(m):
            f = trees.order[j]
            if trees.covered[f] == again and not trees.chosen[f] and join(g, f + offset, first, trees.joined):
                trees.chosen[f] = True
                n_new += not again
    for j in range(m):
        trees.covered[j] |= trees.chosen[j]
    start = np.int64(random_bits(STEP * np.uint64(number + 1)) % np.uint64(max(n, 1)))
    for i in range(n):
        root = (start + i) % n
        if trees.weight[root] == 0.0:
            size = hang_up(g, first, offset, root, size, trees)
    return size, n_new


@njit(cache=True, nogil=True)
def hang_up(g: Graph, first: int, offset: int, root: int, size: int, trees: SpanningTrees) -> int:
    """List the chosen factors of the component of ``root``, breadth first; return how many there are in the list.

    Parameters
    ----------
    g : Graph
        Structure; read only.
    first, offset : int
        The example's first variable and factor.
    root : int
        A variable, from 0 for the example's first.
    size : int
        How many factors are listed already.
    trees : Trees
        ``factor`` and ``parent`` are written, ``chosen`` is undone, ``weight`` becomes 1.
    """
    trees.queue[0], trees.weight[root] = root, 1.0
    head, tail = 0, 1
    while head < tail:
        v = first + trees.queue[head]
        head += 1
        for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
            k = g.touch_slot[t]
            f = g.slot_factor[k]
            if trees.chosen[f - offset]:
                trees.chosen[f - offset] = False
                trees.factor[size], trees.parent[size] = f, k
                size += 1
                for j in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
                    if j != k:
                        u = g.scope[j] - first
                        trees.queue[tail], trees.weight[u] = u, 1.0
                        tail += 1
    return size


@njit(cache=True, nogil=True)
def join(g: Graph, f: int, first: int, joined: I64) -> bool:
    """Connect the variables of a factor; return False, nothing done, where two of them are connected already."""
    lo, hi = g.slot_ptr[f], g.slot_ptr[f + 1]
    a = representative(joined, g.scope[lo] - first)
    for k in range(lo + 1, hi):
        b = representative(joined, g.scope[k] - first)
        if a == b:
            return False
        for j in range(lo + 1, k):
            if representative(joined, g.scope[j] - first) == b:
                return False
    for k in range(lo + 1, hi):
        joined[representative(joined, g.scope[k] - first)] = a
    return True


@njit(cache=True, nogil=True)
def representative(joined: I64, v: int) -> int:
    """Return the variable that stands for the set of v; paths are halved on the way."""
    while joined[v] != v:
        joined[v] = joined[joined[v]]
        v = joined[v]
    return v
