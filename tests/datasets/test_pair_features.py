"""Features of pairs of words: shapes, counts, and that they tell arcs apart."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.datasets import arc_features, link_features


def test_features_of_arcs_are_a_row_for_each_pair_and_each_word():
    arcs, roots = arc_features(["the", "cat", "sat"], ["DT", "NN", "VB"])
    assert (arcs.shape, roots.shape) == ((9, 2**18), (3, 2**18))
    assert np.diff(arcs.indptr).tolist() == [10] * 9
    rows = [tuple(arcs.indices[lo:hi]) for lo, hi in zip(arcs.indptr, arcs.indptr[1:])]
    assert len(set(rows)) == 9
    again, _ = arc_features(["the", "cat", "sat"], ["DT", "NN", "VB"])
    np.testing.assert_array_equal(again.indices, arcs.indices)  # the same in every process: no hash of Python's


def test_features_of_links_count_over_all_pairs():
    pairs = [(["house", "blue"], ["maison", "bleue"]), (["house"], ["maison"])]
    first, second = link_features(pairs)
    assert (first.shape, second.shape) == ((2, 2, 19), (1, 1, 19))
    rare, dice = first[..., 0], first[..., 2]
    assert rare.all()
    np.testing.assert_allclose(dice, [[2 * 2 / 4, 2 * 1 / 3], [2 * 1 / 3, 1.0]])
    np.testing.assert_array_equal(first[1, 1, -4:], [1, 0, 0, 0])  # bl
