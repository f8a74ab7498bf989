"""``path`` and ``circuit``: literals are arcs of a directed graph, the true ones form one route."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ssvm_constraints.explaining import numbers, route_faults
from ssvm_constraints.row_builder import RowBuilder, add_capacities
from ssvm_constraints.small_problems import Drawn, any_of, chosen_places, ends_of, node_sums, structure_problem
from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, Program, Theta, owners, pointers
from ssvm_dsl.kernels import njit
from ssvm_dsl.plugin_api import ConstraintScores, LinearRows, loading

MOST_NODES = 5


def degrees(group: ConstraintGroup, true: Bools) -> tuple[I64, I64, I64]:
    """Return how many true arcs leave and enter each node, packed over the constraints, and where those start."""
    sizes = group.meta["n_nodes"]
    out, into = (node_sums(group, true, name, sizes) for name in ("tail", "head"))
    return out, into, pointers(sizes)[:-1]


def ends_of_arcs(group: ConstraintGroup, true: Bools, first: I64, n_nodes: int) -> I64:
    """Return where each node ends up along true arcs, one of which leaves it at most; packed node numbers."""
    follow, base = np.arange(n_nodes), first[group.constraint_of[true]]
    follow[base + group.literal_meta["tail"][true]] = base + group.literal_meta["head"][true]
    return ends_of(follow, int(group.meta["n_nodes"].max(initial=1)))


def has_loop(group: ConstraintGroup, true: Bools) -> Bools:
    """Return for each constraint whether a true arc leads from a node to itself."""
    loop = true & (group.literal_meta["tail"] == group.literal_meta["head"])
    return np.bincount(group.constraint_of[loop], minlength=group.n_constraints) > 0


def has_circle(n_nodes: int, tail: I64, head: I64) -> bool:
    """Return whether some arcs lead in a circle."""
    left = np.ones(len(tail), dtype=bool)
    while left.any():
        entered = np.zeros(n_nodes, dtype=bool)
        entered[head[left]] = True
        if entered[tail[left]].all():
            return True
        left &= entered[tail]
    return False


class RouteArcs:
    """The arcs of one constraint, with the rows that all routes have.

    Parameters
    ----------
    group : ConstraintGroup
    k : int
    """

    def __init__(self, group: ConstraintGroup, k: int) -> None:
        part = group.literals(k)
        self.n_nodes = int(group.meta["n_nodes"][k])
        self.tail, self.head = (group.literal_meta[name][part] for name in ("tail", "head"))
        self.builder = RowBuilder(len(self.tail))
        self.flow = self.builder.add_columns(len(self.tail), self.n_nodes)
        add_capacities(self.builder, self.flow, self.n_nodes)
        loops = np.flatnonzero(self.tail == self.head)
        if len(loops):
            self.builder.add(0.0, 0.0, (loops, 1.0))

    def out(self, node: int) -> I64:
        """Return the arcs that leave a node."""
        return np.flatnonzero(self.tail == node)

    def into(self, node: int) -> I64:
        """Return the arcs that enter a node."""
        return np.flatnonzero(self.head == node)

    def consumed(self, node: int) -> tuple[tuple[I64, float], ...]:
        """Return the terms of what of the flow stays at a node beyond 1 if it is entered."""
        into = self.into(node)
        return (self.flow[into], 1.0), (self.flow[self.out(node)], -1.0), (into, -1.0)


class Route:
    """What paths and circuits have in common."""

    def n_row_entries(self, group: ConstraintGroup, k: int) -> float:
        """Return about how many entries the rows have (see :class:`~ssvm_dsl.plugin_api.SizedKind`)."""
        return 12.0 * len(range(*group.literals(k).indices(len(group.variable))))


class PathKind(Route):
    """One simple path from ``source`` to ``target``; no arc where they are the same.  Loops are never true."""

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Return which constraints are broken (see :class:`~ssvm_dsl.plugin_api.ConstraintKind`)."""
        sizes = group.meta["n_nodes"]
        out, into, first = degrees(group, true)
        leave, enter = np.zeros(len(out), dtype=np.int64), np.zeros(len(out), dtype=np.int64)
        apart = group.meta["source"] != group.meta["target"]
        source, target = first + group.meta["source"], first + group.meta["target"]
        leave[source[apart]], enter[target[apart]] = 1, 1
        broken = any_of((out > 1) | (into > 1) | (out - into != leave - enter), sizes) | has_loop(group, true)
        broken |= (into[source] > 0) | (out[target] > 0)
        astray = ends_of_arcs(group, true, first, len(out)) != target[owners(pointers(sizes))]
        return np.asarray(broken | any_of(astray & (out > 0), sizes))

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return degrees, and a flow from the source that leaves 1 at every node that is entered."""
        arcs, source, target = RouteArcs(group, k), int(group.meta["source"][k]), int(group.meta["target"][k])
        for node in range(arcs.n_nodes):
            out, into = arcs.out(node), arcs.into(node)
            balance = float((node == source) - (node == target))
            arcs.builder.add(balance, balance, (out, 1.0), (into, -1.0))
            arcs.builder.add(0.0, float(node != target), (out, 1.0))
            arcs.builder.add(0.0, float(node != source), (into, 1.0))
            if node != source:
                arcs.builder.add(0.0, 0.0, *arcs.consumed(node))
        return arcs.builder.finish()

    def hull(self, group: ConstraintGroup, k: int) -> LinearRows | None:
        """Return a flow from source to target, where arcs form no circle.

        See :class:`~ssvm_dsl.plugin_api.IntegralKind`.  With circles the description is not small: a longest simple
        path would be found by it.
        """
        part, n = group.literals(k), int(group.meta["n_nodes"][k])
        tail, head = (group.literal_meta[name][part].astype(np.int64) for name in ("tail", "head"))
        arcs, loops = np.flatnonzero(tail != head), np.flatnonzero(tail == head)
        if has_circle(n, tail[arcs], head[arcs]):
            return None
        builder, balance = RowBuilder(len(tail)), np.zeros(n)
        balance[int(group.meta["source"][k])] += 1.0
        balance[int(group.meta["target"][k])] -= 1.0
        value = np.repeat([1.0, -1.0], len(arcs))
        builder.add_rows(balance, balance, np.concatenate([tail[arcs], head[arcs]]), np.tile(arcs, 2), value)
        if len(loops):
            builder.add(0.0, 0.0, (loops, 1.0))
        return builder.finish()

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return a path (see :class:`~ssvm_dsl.plugin_api.StartingKind`)."""
        return start_path(group, k, scores)

    def explain(self, group: ConstraintGroup, k: int, true: Bools) -> str:
        """Return what is no path (see :class:`~ssvm_dsl.plugin_api.ExplainingKind`)."""
        part, ends = group.literals(k), (int(group.meta["source"][k]), int(group.meta["target"][k]))
        tail, head = (group.literal_meta[name][part][true].astype(np.int64) for name in ("tail", "head"))
        return route_faults(tail, head, int(group.meta["n_nodes"][k]), ends)

    def problem(self, rng: np.random.Generator) -> tuple[Program, Theta]:
        """Return small graphs, mostly without cycles; source and target may be one, or not connected."""
        forward = rng.random() < 0.7

        def draw() -> Drawn:
            n = int(rng.integers(1, MOST_NODES + 1))
            arcs = [(u, v) for u, v in itertools.product(range(n), repeat=2) if u < v or not forward]
            source, target = rng.integers(0, n, 2) if rng.random() < 0.3 else (0, n - 1)
            return Drawn(chosen_places(rng, arcs), (n, source, target))

        names = dict.fromkeys(("n_nodes", "source", "target"), np.int64)
        return structure_problem(rng, "path", draw, ("tail", "head"), names)


class CircuitKind(Route):
    """One simple directed circuit of two nodes or more, through all nodes if ``all_nodes``.  Loops are never true.

    Without nodes there is none, and no arc.
    """

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Return which constraints are broken (see :class:`~ssvm_dsl.plugin_api.ConstraintKind`)."""
        sizes = group.meta["n_nodes"]
        out, into, first = degrees(group, true)
        least = np.repeat(group.meta["all_nodes"], sizes)
        broken = any_of((out != into) | (out > 1) | (out < least), sizes) | has_loop(group, true)
        broken |= (group.true_counts(true) == 0) & (sizes > 0)
        start = np.full(len(sizes), -1)
        tails = first[group.constraint_of[true]] + group.literal_meta["tail"][true]
        start[group.constraint_of[true][::-1]] = tails[::-1]  # the first true arc of each
        return np.asarray(broken | self._parted(group, true, first, start, out))

    def _parted(self, group: ConstraintGroup, true: Bools, first: I64, start: I64, out: I64) -> Bools:
        """Return whether some true arcs do not lead to ``start``: nodes that are met on the way there stop."""
        sizes = group.meta["n_nodes"]
        follow, base = np.arange(len(out)), first[group.constraint_of[true]]
        follow[base + group.literal_meta["tail"][true]] = base + group.literal_meta["head"][true]
        follow[start[start >= 0]] = start[start >= 0]
        ends = ends_of(follow, int(sizes.max(initial=1)))
        return any_of((out > 0) & (ends != np.repeat(start, sizes)), sizes)

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return degrees, one node that a flow starts from, and 1 of it left at every other node that is entered."""
        arcs, every = RouteArcs(group, k), bool(group.meta["all_nodes"][k])
        n = arcs.n_nodes
        if n == 0:
            return arcs.builder.finish()
        start = arcs.builder.add_columns(n, 1.0)
        arcs.builder.add(1.0, 1.0, (start, 1.0))
        arcs.builder.add(1.0, float(n), (np.arange(len(arcs.tail)), 1.0))
        for node in range(n):
            out, into = arcs.out(node), arcs.into(node)
            arcs.builder.add(0.0, 0.0, (out, 1.0), (into, -1.0))
            arcs.builder.add(float(every), 1.0, (out, 1.0))
            arcs.builder.add(-np.inf, 0.0, (start[[node]], 1.0), (into, -1.0))
            arcs.builder.add(0.0, np.inf, *arcs.consumed(node), (start[[node]], float(n)))
        return arcs.builder.finish()

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return a circuit (see :class:`~ssvm_dsl.plugin_api.StartingKind`)."""
        return start_circuit(group, k, scores)

    def explain(self, group: ConstraintGroup, k: int, true: Bools) -> str:
        """Return what is no circuit (see :class:`~ssvm_dsl.plugin_api.ExplainingKind`)."""
        part, n = group.literals(k), int(group.meta["n_nodes"][k])
        tail, head = (group.literal_meta[name][part][true].astype(np.int64) for name in ("tail", "head"))
        missing = np.flatnonzero(~np.isin(np.arange(n), tail)) if group.meta["all_nodes"][k] else np.zeros(0, np.int64)
        if len(missing):
            return f"the circuit goes through all nodes, no edge leaves node {numbers(missing)}"
        return route_faults(tail, head, n, None)

    def problem(self, rng: np.random.Generator) -> tuple[Program, Theta]:
        """Return small graphs of up to five nodes; some have no circuit."""

        def draw() -> Drawn:
            n = int(rng.integers(0, MOST_NODES))
            arcs = [(u, v) for u, v in itertools.product(range(n), repeat=2) if u != v or rng.random() < 0.1]
            return Drawn(chosen_places(rng, arcs), (n, rng.random() < 0.5))

        return structure_problem(rng, "circuit", draw, ("tail", "head"), {"n_nodes": np.int64, "all_nodes": np.bool_})


# --------------------------------------------------------------------------------------------------------------------
# Paths and circuits: by the order of the nodes where there are no circuits, by breadth-first search, and greedily.

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


def start_path(group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
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


def start_circuit(group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
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
    component = connected_components(matrix, connection="strong")[1]
    inside = np.flatnonzero(component[graph.tail] == component[arcs.head])
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
