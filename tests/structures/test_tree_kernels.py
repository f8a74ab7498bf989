"""The kernels of trees against all trees, and against networkx."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from ssvm_backends.structures.spanning_trees.chu_liu_edmonds import best_arborescence
from ssvm_backends.structures.spanning_trees.projective import best_projective, sum_projective, tree_items
from ssvm_backends.structures.spanning_trees.spanning_trees import sum_arborescences
from structures.trees_by_hand import all_trees, is_projective, is_tree, sums, tree_score

KINDS = ["normal", "integer", "sparse", "huge", "two-cycles"]


def arcs(rng, n, kind):
    """Scores of arcs, ``w[h, d]``, -inf where there is none."""
    w = rng.normal(size=(n + 1, n + 1))
    if kind == "integer":
        w = np.rint(w)
    if kind == "huge":
        w *= 1e5
    if kind == "two-cycles":  # every word wants its neighbour for a head, the root wants none
        w[0] -= 60
    w[:, 0] = -np.inf
    np.fill_diagonal(w, -np.inf)
    if kind == "sparse":
        w[rng.random(w.shape) < 0.5] = -np.inf
    return w


def best(w, single, projective):
    n = len(w) - 1
    heads = np.zeros(n + 1, np.int32)
    if projective:
        found = best_projective(n, single, w.ravel().copy(), tree_items(n, True), heads)
    else:
        found = best_arborescence(n, single, w.ravel().copy(), heads)
    return tuple(heads.tolist()) if found else None


def totals(w, single, projective):
    n = len(w) - 1
    probability = np.zeros((n + 1) ** 2)
    if projective:
        items = tree_items(n, True)
        log_z = sum_projective(n, single, w.ravel().copy(), items)
        probability = items.outer[(n + 1) ** 2 : 2 * (n + 1) ** 2]
    else:
        log_z = sum_arborescences(n, single, w.ravel().copy(), probability)
    return log_z, probability.reshape(n + 1, n + 1)


@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("n", range(6))
def test_against_all_trees(n, single, projective):
    rng, trees = np.random.default_rng(n), list(all_trees(n, single, projective))
    for kind in KINDS:
        for _ in range(4):
            w = arcs(rng, n, kind)
            right = max(tree_score(w, tree) for tree in trees)
            heads = best(w, single, projective)
            log_z, probability = totals(w, single, projective)
            if right == -np.inf:
                assert heads is None
                assert log_z == -np.inf
                continue
            assert is_tree(heads, single)
            assert is_projective(heads) or not projective
            size = np.abs(w[np.isfinite(w)]).sum()
            assert tree_score(w, heads) == pytest.approx(right, abs=1e-13 * (1 + size))
            expected_z, expected = sums(w, trees)
            assert log_z == pytest.approx(expected_z, abs=1e-10 * (1 + 1e-2 * size))
            np.testing.assert_allclose(probability, expected, atol=1e-9 * (1 + 1e-2 * size))


@pytest.mark.parametrize("n", [1, 7, 12, 30])
def test_chu_liu_edmonds_against_networkx(n):
    rng = np.random.default_rng(n)
    for kind in KINDS:
        w = arcs(rng, n, kind)
        graph = networkx.DiGraph()
        graph.add_nodes_from(range(n + 1))
        graph.add_weighted_edges_from((h, d, w[h, d]) for h, d in zip(*np.nonzero(np.isfinite(w))))
        heads = best(w, False, False)
        if heads is None:
            with pytest.raises(networkx.NetworkXException):
                networkx.maximum_spanning_arborescence(graph)
            continue
        tree = networkx.maximum_spanning_arborescence(graph)
        assert tree_score(w, heads) == pytest.approx(sum(w[h, d] for h, d in tree.edges), rel=1e-12)


@pytest.mark.parametrize("n", [3, 9, 15])
def test_single_root_against_all_roots(n):
    """The best tree with one dependent of the root is the best over which one it is."""
    rng = np.random.default_rng(n)
    for kind in ("normal", "integer", "two-cycles"):
        w = arcs(rng, n, kind)
        w[0] += 3.0  # several arcs from the root would be better
        scores = []
        for r in range(1, n + 1):
            only = w.copy()
            only[0] = -np.inf
            only[0, r] = w[0, r]
            scores.append(tree_score(w, best(only, False, False)))
        heads = best(w, True, False)
        assert is_tree(heads, True)
        assert tree_score(w, heads) == pytest.approx(max(scores), rel=1e-12)
