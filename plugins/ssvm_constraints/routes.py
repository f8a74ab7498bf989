"""``path`` and ``circuit``: literals are arcs of a directed graph, the true ones form one route."""

from __future__ import annotations

import itertools

import numpy as np

from ssvm_constraints.explaining import numbers, route_faults
from ssvm_constraints.row_builder import RowBuilder, add_capacities
from ssvm_constraints.small_structure import Drawn, any_of, chosen_places, ends_of, node_sums, structure_problem
from ssvm_constraints.starts import routes
from ssvm_dsl.ir import I32, I64, Bools, ConstraintGroup, Program, Theta, owners, pointers
from ssvm_dsl.plugin_api import ConstraintScores, LinearRows

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
        return routes.path(group, k, scores)

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
        return routes.circuit(group, k, scores)

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
