"""What shape each example's graph has, its components, and an order in which dynamic programming eliminates it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I32, I64
from ssvm_dsl.ir.ragged import owners
from ssvm_dsl.ir.shapes import Shapes


class Topology(IntEnum):
    """Shape of a factor graph, from special to general."""

    CHAIN = 0
    FOREST = 1
    LOOPY = 2

    @property
    def word(self) -> str:
        """The name in ordinary words."""
        return ("disjoint chains", "a forest", "a graph with cycles or large factors")[self]


def topology_and_order(var_ptr: I64, groups: Sequence[Shapes]) -> tuple[NDArray[np.int8], I32]:
    """Return (topology of each example, elimination order of the variables).

    A forest has as many distinct edges as variables minus components; a chain is a forest of paths.  The
    order is a reversed breadth-first search from the last end of each component, so that leaves come first
    and paths run from their first end to their last.

    Parameters
    ----------
    var_ptr : ndarray of int64, shape (B + 1,)
        Variables of each example.
    groups : sequence of Shapes
        The factors of each group.
    """
    n_examples, n_variables = len(var_ptr) - 1, int(var_ptr[-1])
    topology = np.full(n_examples, Topology.CHAIN, dtype=np.int8)
    order = np.arange(n_variables, dtype=np.int32)
    edges = distinct_edges(groups, n_variables)
    if (edges[:, 1] - edges[:, 0] != 1).any():  # else every edge joins a variable with the next one: chains, in order
        owner = owners(var_ptr)
        degree = np.bincount(edges.ravel(), minlength=n_variables)
        topology[owner[degree > 2]] = Topology.FOREST
        dense = np.bincount(owner[edges[:, 0]], minlength=n_examples) >= np.maximum(np.diff(var_ptr), 1)
        topology[dense] = Topology.LOOPY  # as many edges as variables close a cycle, whichever these are
        edges = edges[~dense[owner[edges[:, 0]]]]
        if len(edges):
            topology[_cyclic(var_ptr, edges, owner)] = Topology.LOOPY
            order = _forest_order(edges, degree, owner, order)
    for shapes in groups:
        if shapes.arity > 2:
            topology[shapes.counts > 0] = Topology.LOOPY
    return topology, order


def distinct_edges(groups: Sequence[Shapes], n_variables: int) -> I64:
    """Return the pairs of variables that share a pairwise factor, each once, ``shape (m, 2)``, sorted."""
    pairs = [shapes.variables() for shapes in groups if shapes.arity == 2 and shapes.n_factors]
    ends = np.concatenate(pairs or [np.zeros((0, 2), np.int32)])
    if (ends[:, 0] < ends[:, 1]).all() and (ends[1:, 0] > ends[:-1, 0]).all():  # chains, for example
        return ends.astype(np.int64)
    ends = np.sort(ends.astype(np.int64), axis=1)
    keys = ends[:, 0] * n_variables + ends[:, 1]
    if not (np.diff(keys) > 0).all():
        keys = np.sort(keys)  # np.unique hashes, which takes ten times as long
        keys = keys[np.diff(keys, prepend=-1) > 0]
    return np.stack(np.divmod(keys, n_variables), axis=1)


def first_of_component(n: int, edges: NDArray[np.integer[Any]]) -> I64:
    """Return for each variable the first variable of its component.

    Parameters
    ----------
    n : int
        Number of variables.
    edges : ndarray of integers, shape (m, 2)

    Notes
    -----
    Roots hook onto smaller roots beside them, and paths to roots are shortened after each round; two rounds at least
    halve the roots of a component, so that there are at most ``2 log2 n`` (Shiloach and Vishkin 1982 hook and shorten
    so, for parallel machines).  ``scipy.sparse.csgraph.connected_components`` (1.17) takes 1.2 to 11 times as long on
    complete graphs, grids, trees, paths and random graphs of 6 to 250 000 variables, and to import it is an eighth of a
    second in every process that predicts.
    """
    root = np.arange(n, dtype=np.int64)
    a, b = edges[:, 0], edges[:, 1]
    while True:
        apart = np.flatnonzero(a != b)
        if not len(apart):
            return root
        a, b = a[apart], b[apart]
        np.minimum.at(root, np.maximum(a, b), np.minimum(a, b))
        while True:
            above = root[root]
            if np.array_equal(above, root):
                break
            root = above
        a, b = root[a], root[b]


def _cyclic(var_ptr: I64, edges: I64, owner: I64) -> NDArray[np.bool_]:
    """Return in which examples the pairwise factors close a cycle."""
    n_examples, n = len(var_ptr) - 1, int(var_ptr[-1])
    is_first = first_of_component(n, edges) == np.arange(n)
    n_components = np.bincount(owner, weights=is_first, minlength=n_examples)
    n_edges = np.bincount(owner[edges[:, 0]], minlength=n_examples)
    return np.asarray(n_edges > np.diff(var_ptr) - n_components, dtype=bool)


def _forest_order(edges: I64, degree: NDArray[np.intp], owner: I64, plain: I32) -> I32:
    """Return a leaves-first order for all variables (plain order where the search cannot tell)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order

    n = len(plain)
    component = first_of_component(n, edges)
    # the root of a component is its last variable of degree <= 1 (its last variable when it has no such one)
    rank = np.lexsort((np.arange(n), degree <= 1, component))
    last = np.flatnonzero(np.diff(component[rank], append=-1))
    roots = rank[last]
    rows = np.concatenate([edges[:, 0], np.full(len(roots), n)])
    cols = np.concatenate([edges[:, 1], roots])
    joined = coo_array((np.ones(len(rows), dtype=np.int8), (rows, cols)), shape=(n + 1, n + 1))
    breadth_first = breadth_first_order(joined.tocsr(), n, directed=False, return_predecessors=False)
    leaves_first = breadth_first[:0:-1]
    return leaves_first[np.argsort(owner[leaves_first], kind="stable")].astype(np.int32)
