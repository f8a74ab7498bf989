"""Paths and circuits: by the order of the nodes where there are no circuits, by breadth-first search, and greedily."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, pointers
from ssvm_dsl.kernels import njit
from ssvm_dsl.plugin_api import ConstraintScores, loading

#: Nodes that a circuit through all nodes is begun at, one after the other, at most.
MOST_TRIALS = 20

#: Arcs that a search for a path through arcs that must be taken looks at, at most.
MOST_LOOKS = 2**25


@dataclass(frozen=True, eq=False)
class RouteGraph:
    """The arcs of one route, those that may be taken.

    Parameters
    ----------
    arcs : OutgoingArcs
        By tail; of one tail, the best first.
    tail : ndarray of int64, shape (a,)
    literal : ndarray of int64, shape (a,)
        Of each arc.
    scores : ConstraintScores
    """

    arcs: OutgoingArcs
    tail: I64
    literal: I64
    scores: ConstraintScores

    @classmethod
    def from_group(
        cls, group: ConstraintGroup, k: int, scores: ConstraintScores, ends: tuple[int, int] | None = None
    ) -> RouteGraph | None:
        """Return that of constraint k; ``None`` where more arcs must be taken than can.

        Parameters
        ----------
        ends : tuple of int, optional
            Source and target of a path: nothing enters the former, nothing leaves the latter.
        """
        part, n, gain = group.literals(k), int(group.meta["n_nodes"][k]), scores.gain
        tail, head = (group.literal_meta[name][part].astype(np.int64) for name in ("tail", "head"))
        must, able = gain == np.inf, (gain > -np.inf) & (tail != head)
        if ends is not None:
            able &= (head != ends[0]) & (tail != ends[1])
        if must.any():
            leaving, entering = (np.bincount(one[must], minlength=n) for one in (tail, head))
            if max(leaving.max(), entering.max()) > 1 or (must & ~able).any():
                return None
            able &= must | ((leaving[tail] == 0) & (entering[head] == 0))
        literal = np.flatnonzero(able)
        literal = literal[np.lexsort((-gain[literal], tail[literal]))]
        start = pointers(np.bincount(tail[literal], minlength=n))
        return cls(OutgoingArcs(start, head[literal], gain[literal], must[literal]), tail[literal], literal, scores)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.arcs.start) - 1

    def states(self, taken: I64 | None) -> I32 | None:
        """Return the states that take these arcs alone; ``None`` without them."""
        return None if taken is None else _states(self.scores, self.literal[taken])

    def path(self, source: int, target: int, must: Bools | None = None) -> I64 | None:
        """Return the arcs of a path through all that must be taken, of few arcs; ``None`` if none is found."""
        arcs = self.arcs if must is None else self.arcs._replace(must=must)
        path = path_through(arcs, source, target, MOST_LOOKS)
        return path if len(path) else None


def _states(scores: ConstraintScores, literals: I64) -> I32 | None:
    """Return the states that make these literals true, and no others."""
    true = np.zeros(len(scores.place), dtype=bool)
    true[literals] = True
    return scores.labels(true)


def path(group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
    """Return states of a simple path; the best one by its arcs where the graph has no circuit."""
    source, target = int(group.meta["source"][k]), int(group.meta["target"][k])
    if source == target:
        return _states(scores, np.zeros(0, np.int64))
    graph = RouteGraph.from_group(group, k, scores, (source, target))
    if graph is None:
        return None
    order = topological_order(graph.arcs)
    if len(order) == graph.n:
        return graph.states(_along(graph, order, source, target))
    return graph.states(graph.path(source, target))


def _along(graph: RouteGraph, order: I64, source: int, target: int) -> I64 | None:
    """Return the arcs of the best path of a graph without circuits; ``None`` where it has none."""
    came, path, node = best_arcs(graph.arcs, order, source), list[int](), target
    while node != source:
        if came[node] < 0:
            return None
        path.append(int(came[node]))
        node = int(graph.tail[path[-1]])
    return np.array(path, dtype=np.int64)


def circuit(group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
    """Return states of a simple circuit; one through all nodes is searched for by the best node that is left."""
    if not group.meta["n_nodes"][k]:
        return _states(scores, np.zeros(0, np.int64))
    graph = RouteGraph.from_group(group, k, scores)
    if graph is None:
        return None
    if group.meta["all_nodes"][k]:
        return graph.states(_tour(graph))
    needed = np.flatnonzero(graph.arcs.must)
    first = int(needed[0]) if len(needed) else _within_component(graph)
    if first is None:
        return None
    rest = graph.arcs.must.copy()
    rest[first] = False
    back = graph.path(int(graph.arcs.head[first]), int(graph.tail[first]), rest)
    return graph.states(None if back is None else np.append(back, first))


def _within_component(graph: RouteGraph) -> int | None:
    """Return the best arc between nodes that lead to each other: it is in a circuit, and no other arc is."""
    with loading():
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

    arcs = graph.arcs
    matrix = csr_array((np.ones(len(arcs.head)), arcs.head, arcs.start), shape=(graph.n, graph.n))
    of = connected_components(matrix, connection="strong")[1]
    inside = np.flatnonzero(of[graph.tail] == of[arcs.head])
    return int(inside[arcs.gain[inside].argmax()]) if len(inside) else None


def _tour(graph: RouteGraph) -> I64 | None:
    """Return a circuit through all nodes: to the best node that is left, each time; ``None`` where all trials fail.

    Whether there is one at all is a hard question.
    """
    for first in range(min(graph.n, MOST_TRIALS)):
        tour = tour_from(graph.arcs, first)
        if len(tour):
            return tour
    return None


# -- Paths and circuits, compiled: graphs of hundreds of thousands of arcs take milliseconds -------------------------


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


@njit(cache=True, nogil=True)
def path_through(arcs: OutgoingArcs, source: int, target: int, most: int) -> I64:
    """Return a path through all arcs that must be taken: to the nearest of them, each time, and to the target at last.

    A search from where the path has come to, breadth first, avoids nodes that it has been at, and those of arcs that
    come later.  It may get stuck although there is a path, which is a hard question where more than one arc is needed.

    Parameters
    ----------
    arcs : OutgoingArcs
        At most one that must be taken leaves a node, and at most one enters it.
    source, target : int
        Different nodes.
    most : int
        Arcs to look at, at most.

    Returns
    -------
    ndarray of int64
        Numbers of arcs, in the order of the path; none where no path was found.
    """
    n = len(arcs.start) - 1
    needed, entered, left = np.full(n, -1, np.int64), np.zeros(n, np.bool_), 0
    path, length, looks = np.empty(n, np.int64), 0, 0
    for u in range(n):
        for a in range(arcs.start[u], arcs.start[u + 1]):
            if arcs.must[a]:
                needed[u], entered[arcs.head[a]] = a, True
                left += 1
    last = 0  # arcs left that must be taken and lead to the target: they come last
    for u in range(n):
        last += needed[u] >= 0 and arcs.head[needed[u]] == target
    been, reached = np.zeros(n, np.bool_), np.full(n, -1, np.int64)  # the search that has come to a node
    came, before, queue = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    node, been[source] = source, True
    for search in range(n + 1):
        queue[0], reached[node], head, size, goal = node, search, 0, 1, -1
        while head < size:
            u = queue[head]
            head += 1
            mine = needed[u] >= 0 and (arcs.head[needed[u]] != target or left == last)
            if (left == 0 and u == target) or (mine and (u == node or not entered[u])):
                goal = u
                break
            if u != node and (u == target or needed[u] >= 0 or entered[u]):
                continue
            looks += arcs.start[u + 1] - arcs.start[u]
            for a in range(arcs.start[u], arcs.start[u + 1]):
                v = arcs.head[a]
                if reached[v] != search and not been[v]:
                    reached[v], came[v], before[v] = search, a, u
                    queue[size] = v
                    size += 1
        if goal < 0 or looks > most:
            return path[:0]
        u, steps = goal, 0
        while u != node:
            steps, u = steps + 1, before[u]
        u, length = goal, length + steps
        for back in range(1, steps + 1):
            path[length - back], been[u], u = came[u], True, before[u]
        if left == 0:
            return path[:length]
        a = needed[goal]
        node = arcs.head[a]
        if been[node]:
            return path[:0]
        path[length], needed[goal], entered[node], been[node] = a, -1, False, True
        length, left, last = length + 1, left - 1, last - (1 if node == target else 0)
        if node == target:
            return path[: length if left == 0 else 0]
    return path[:0]


@njit(cache=True, nogil=True)
def tour_from(arcs: OutgoingArcs, first: int) -> I64:
    """Return a circuit through all nodes, by the first arc to a node that is left, each time.

    Parameters
    ----------
    arcs : OutgoingArcs
        Those out of one node in the order in which they are tried.
    first : int
        The node to begin at.

    Returns
    -------
    ndarray of int64
        Numbers of arcs, of shape (n,); none where it gets stuck.
    """
    n = len(arcs.start) - 1
    taken, been, node = np.empty(n, np.int64), np.zeros(n, np.bool_), first
    for step in range(n):
        been[node], next_arc = True, -1
        for a in range(arcs.start[node], arcs.start[node + 1]):
            v = arcs.head[a]
            if (step < n - 1 and not been[v]) or (step == n - 1 and v == first):
                next_arc = a
                break
        if next_arc < 0:
            return taken[:0]
        taken[step], node = next_arc, arcs.head[next_arc]
    return taken
