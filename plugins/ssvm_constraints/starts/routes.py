"""Paths and circuits: by the order of the nodes where there are no circuits, by breadth-first search, and greedily."""

from __future__ import annotations

from collections import deque

import numpy as np

from ssvm_constraints.starts.route_kernels import OutgoingArcs, best_arcs, topological_order
from ssvm_dsl.ir import I32, I64, ConstraintGroup, owners, pointers
from ssvm_dsl.plugin_api import ConstraintScores, loading

#: Nodes that a circuit through all nodes is begun at, one after the other, at most.
MOST_TRIALS = 20


class RouteGraph:
    """The arcs of one route, those that may be taken.

    Parameters
    ----------
    group : ConstraintGroup
    k : int
    scores : ConstraintScores

    Attributes
    ----------
    out : list of list of (head, literal)
        The arcs that leave each node, the best first; where one must be taken, no other one.
    must : set of int
        The literals of arcs that must be taken.
    """

    def __init__(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> None:
        part, self.n, self.scores = group.literals(k), int(group.meta["n_nodes"][k]), scores
        self.gain = scores.gain
        tail, head = (group.literal_meta[name][part] for name in ("tail", "head"))
        self.tail, self.head = tail.tolist(), head.tolist()
        self.must = set(np.flatnonzero(self.gain == np.inf).tolist())
        leaves, enters = {self.tail[l] for l in self.must}, {self.head[l] for l in self.must}
        self.impossible = len(leaves) < len(self.must) or len(enters) < len(self.must)  # two leave, or enter, one node
        self.out: list[list[tuple[int, int]]] = [[] for _ in range(self.n)]
        for l in np.argsort(-self.gain, kind="stable").tolist():
            u, v = self.tail[l], self.head[l]
            other = (u in leaves or v in enters) and l not in self.must
            if u != v and self.gain[l] > -np.inf and not other:
                self.out[u].append((v, l))

    def states(self, literals: list[int] | None) -> I32 | None:
        """Return the states that take these arcs alone; ``None`` without them."""
        if literals is None or self.impossible:
            return None
        return _states(self.scores, np.array(literals, dtype=np.int64))

    def shortest(self, source: int, targets: set[int], barred: set[int]) -> list[int] | None:
        """Return the arcs of a shortest path to one of some nodes that avoids others; ``None`` without one."""
        came: dict[int, int] = {source: -1}
        queue, node = deque([source]), source
        while queue and (node := queue.popleft()) not in targets:
            for v, l in self.out[node]:
                if v not in came and v not in barred:
                    came[v] = l
                    queue.append(v)
        if node not in targets:
            return None
        found = []
        while node != source:
            found.append(came[node])
            node = self.tail[came[node]]
        return found[::-1]

    def chained(self, source: int, target: int) -> list[int] | None:
        """Return a path through all arcs that must be taken, the nearest first; ``None`` if stuck.

        It avoids nodes that it has been at, and those of arcs that come later.
        """
        left = {self.tail[l]: l for l in self.must}
        heads, found, node, seen = {self.head[l] for l in self.must}, list[int](), source, {source}
        while left:
            goals = {u for u, l in left.items() if self.head[l] != target} or set(left)  # what ends there comes last
            inner = (heads | {target} | left.keys()) - goals
            route = self.shortest(node, goals, (seen | inner) - ({node} & goals))
            if route is None:
                return None
            l = left.pop(self.head[route[-1]] if route else node)
            found += [*route, l]
            seen |= {self.head[one] for one in (*route, l)}
            node = self.head[l]
            heads.discard(node)
        rest = self.shortest(node, {target}, seen - {target})
        return None if rest is None else found + rest


def _states(scores: ConstraintScores, literals: I64) -> I32 | None:
    """Return the states that make these literals true, and no others."""
    true = np.zeros(len(scores.place), dtype=bool)
    true[literals] = True
    return scores.labels(true)


def path(group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
    """Return states of a simple path; the best one by its arcs where the graph has no circuit."""
    source, target = int(group.meta["source"][k]), int(group.meta["target"][k])
    if source != target:
        arcs, literal = _arcs(group, k, scores, source, target)
        order = topological_order(arcs)
        if len(order) == len(arcs.start) - 1:
            found = _along(arcs, order, source, target)
            return None if found is None else _states(scores, literal[found])
    graph = RouteGraph(group, k, scores)
    if source == target:
        return graph.states([])
    graph.out[target] = []
    for node, out in enumerate(graph.out):
        graph.out[node] = [(v, l) for v, l in out if v != source]
    return graph.states(graph.chained(source, target))


def _arcs(
    group: ConstraintGroup, k: int, scores: ConstraintScores, source: int, target: int
) -> tuple[OutgoingArcs, I64]:
    """Return the arcs that a path may take, sorted by tail, and the literal of each."""
    part, n = group.literals(k), int(group.meta["n_nodes"][k])
    tail, head = (group.literal_meta[name][part].astype(np.int64) for name in ("tail", "head"))
    able = (scores.gain > -np.inf) & (tail != head) & (tail != target) & (head != source)
    literal = np.flatnonzero(able)
    literal = literal[np.argsort(tail[literal], kind="stable")]
    gain = scores.gain[literal]
    return OutgoingArcs(pointers(np.bincount(tail[literal], minlength=n)), head[literal], gain, gain == np.inf), literal


def _along(arcs: OutgoingArcs, order: I64, source: int, target: int) -> list[int] | None:
    """Return the arcs of the best path of a graph without circuits; ``None`` where it has none."""
    came, found, node = best_arcs(arcs, order, source), list[int](), target
    tail = owners(arcs.start)
    while node != source:
        if came[node] < 0:
            return None
        found.append(int(came[node]))
        node = int(tail[found[-1]])
    return found


def circuit(group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
    """Return states of a simple circuit; one through all nodes is searched for by the nearest node that is left."""
    graph = RouteGraph(group, k, scores)
    if not graph.n:
        return graph.states([])
    if group.meta["all_nodes"][k]:
        return graph.states(_tour(graph))
    if graph.must:
        first = min(graph.must)
        graph.must.discard(first)
        back = graph.chained(graph.head[first], graph.tail[first])
        return graph.states(None if back is None else [first, *back])
    able = _within_component(graph)
    if able is None:
        return None
    back = graph.shortest(graph.head[able], {graph.tail[able]}, set())
    return graph.states(None if back is None else [able, *back])


def _within_component(graph: RouteGraph) -> int | None:
    """Return an arc between nodes that lead to each other: it is in a circuit, and no other arc is."""
    with loading():
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

    arcs = [(u, v, l) for u, out in enumerate(graph.out) for v, l in out]
    if not arcs:
        return None
    tail, head, literal = np.array(arcs).T
    matrix = csr_array((np.ones(len(arcs)), (tail, head)), shape=(graph.n, graph.n))
    of = connected_components(matrix, connection="strong")[1]
    inside = literal[of[tail] == of[head]]
    return int(inside[graph.gain[inside].argmax()]) if len(inside) else None


def _tour(graph: RouteGraph) -> list[int] | None:
    """Return a circuit through all nodes: to the best node that is left, each time; ``None`` where all trials fail.

    Whether there is one at all is a hard question.
    """
    for first in range(min(graph.n, MOST_TRIALS)):
        found, node, seen = list[int](), first, {first}
        while len(seen) < graph.n:
            step = next(((v, l) for v, l in graph.out[node] if v not in seen), None)
            if step is None:
                break
            node = step[0]
            seen.add(node)
            found.append(step[1])
        last = next((l for v, l in graph.out[node] if v == first), None)
        if len(seen) == graph.n > 1 and last is not None:
            return [*found, last]
    return None
