"""The best path of a graph without circuits, against all its simple paths."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from ssvm_constraints.starts.route_kernels import OutgoingArcs, best_arcs, topological_order
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


@pytest.mark.parametrize("seed", range(60))
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


@pytest.mark.parametrize("seed", range(20))
def test_circuits_are_seen(seed):
    arcs = random_arcs(seed, circuits=True)
    graph = nx.DiGraph(list(zip(owners(arcs.start).tolist(), arcs.head.tolist(), strict=True)))
    assert (len(topological_order(arcs)) == 7) == nx.is_directed_acyclic_graph(graph)
