"""Paths and circuits that searches begin with, against all simple paths of small graphs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from combinations import some
from ssvm_constraints.routes import OutgoingArcs, best_arcs, path_through, topological_order, tour_from
from ssvm_dsl.ir import owners, pointers


def random_arcs(seed, circuits=False):
    """Arcs of a random graph of seven nodes, by tail; without circuits unless asked for."""
    rng = np.random.default_rng(seed)
    pairs = [(u, v) for u in range(7) for v in range(7) if (u < v or (circuits and u != v)) and rng.random() < 0.45]
    name = rng.permutation(7)
    tail, head = (np.array([name[pair[side]] for pair in pairs], dtype=np.int64) for side in (0, 1))
    order = np.argsort(tail, kind="stable")
    gain, must = rng.normal(size=len(pairs)), rng.random(len(pairs)) < 0.15
    return OutgoingArcs(pointers(np.bincount(tail, minlength=7)), head[order], np.where(must, np.inf, gain), must)


@pytest.mark.parametrize("seed", some(range(60), 20))
def test_the_best_path_takes_most_arcs_that_must_be_taken_then_gains_most(seed):
    arcs = random_arcs(seed)
    tail, n = owners(arcs.start), len(arcs.start) - 1
    order = topological_order(arcs)
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    assert len(order) == n
    assert (place[tail] < place[arcs.head]).all()
    number = {(int(u), int(v)): a for a, (u, v) in enumerate(zip(tail, arcs.head, strict=True))}
    graph = nx.DiGraph(list(number))
    graph.add_nodes_from(range(n))

    def worth(path):
        taken = [number[step] for step in path]
        return sum(arcs.must[a] for a in taken), sum(arcs.gain[a] for a in taken if not arcs.must[a])

    came = best_arcs(arcs, order, 0)
    for target in range(1, n):
        paths = list(nx.all_simple_edge_paths(graph, 0, target))
        assert (came[target] < 0) == (not paths)
        if paths:
            found, node = [], target
            while node != 0:
                found.append((int(tail[came[node]]), node))
                node = found[-1][0]
            most = max(worth(path) for path in paths)
            assert worth(found[::-1]) == pytest.approx(most)


@pytest.mark.parametrize("seed", some(range(20), 8))
def test_circuits_are_seen(seed):
    arcs = random_arcs(seed, circuits=True)
    graph = nx.DiGraph(list(zip(owners(arcs.start).tolist(), arcs.head.tolist(), strict=True)))
    assert (len(topological_order(arcs)) == 7) == nx.is_directed_acyclic_graph(graph)


def with_must(arcs, n_must, rng):
    """The arcs, of which some must be taken: at most one leaves a node, at most one enters it."""
    tail, must = owners(arcs.start), np.zeros(len(arcs.head), bool)
    for a in rng.permutation(len(must))[:n_must].tolist():
        must[a] = not (must & ((tail == tail[a]) | (arcs.head == arcs.head[a]))).any()
    return arcs._replace(must=must)


@pytest.mark.parametrize("seed", some(range(80), 25))
def test_a_path_takes_all_arcs_that_must_be_taken(seed):
    rng = np.random.default_rng(seed)
    arcs = with_must(random_arcs(seed, circuits=True), seed % 4, rng)
    tail = owners(arcs.start)
    graph = nx.DiGraph(list(zip(tail.tolist(), arcs.head.tolist(), strict=True)))
    graph.add_nodes_from(range(7))
    needed = {(int(tail[a]), int(arcs.head[a])) for a in np.flatnonzero(arcs.must)}
    all_paths = [path for path in nx.all_simple_edge_paths(graph, 0, 6) if needed <= set(path)]
    found = [(int(tail[a]), int(arcs.head[a])) for a in path_through(arcs, 0, 6, 10**6)]
    assert not found or found in all_paths
    if not needed:  # the shortest one; with more it is a hard question whether there is any
        assert len(found) == min(map(len, all_paths), default=0)
    if len(needed) == 1 and all_paths and nx.has_path(graph, 0, 6):
        assert found or not greedy_is_enough(graph, *needed)


def greedy_is_enough(graph, arc):
    """Whether a shortest way to the arc, clear of its end and of the target, leaves a way on to the target."""
    rest = graph.copy()
    rest.remove_nodes_from({6, arc[1]} - {arc[0], 0})
    ways = nx.all_shortest_paths(rest, 0, arc[0]) if arc[0] != 0 else [[0]]
    try:
        return all(nx.has_path(graph.subgraph(set(graph) - set(way)), arc[1], 6) for way in ways if arc[1] not in way)
    except nx.NetworkXNoPath:
        return False


def test_a_search_for_a_path_has_an_end():
    arcs = OutgoingArcs(np.array([0, 2, 3, 3]), np.array([1, 2, 2]), np.zeros(3), np.zeros(3, bool))
    assert path_through(arcs, 0, 2, 3).tolist() == [1]
    assert path_through(arcs, 0, 2, 2).tolist() == []


@pytest.mark.parametrize("seed", some(range(20), 8))
def test_a_tour_is_one(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    pairs = [(u, v) for u in range(n) for v in range(n) if u != v and rng.random() < 0.7]
    start = pointers(np.bincount([u for u, _ in pairs], minlength=n))
    none = np.zeros(len(pairs))
    arcs = OutgoingArcs(start, np.array([v for _, v in pairs], dtype=np.int64), none, none > 0)
    graph = nx.DiGraph(pairs)
    tours = [one for one in nx.simple_cycles(graph) if len(one) == n]
    found = tour_from(arcs, 0)
    if len(found):
        assert arcs.head[found[-1]] == 0
        assert sorted(arcs.head[found].tolist()) == list(range(n))
        assert owners(start)[found[1:]].tolist() == arcs.head[found[:-1]].tolist()
    assert tours or not len(found)
    if n == 2:
        assert len(found) == 2 * (len(pairs) == 2)
