"""Paths and circuits: by the order of the nodes where there are no circuits, by breadth-first search, and greedily."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ssvm_constraints.starts.route_kernels import OutgoingArcs, best_arcs, path_through, topological_order, tour_from
from ssvm_dsl.ir import I32, I64, Bools, ConstraintGroup, pointers
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
    def of(
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
    graph = RouteGraph.of(group, k, scores, (source, target))
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
    graph = RouteGraph.of(group, k, scores)
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
