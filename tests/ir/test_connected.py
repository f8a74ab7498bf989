"""Components by NumPy are those of SciPy, numbered by their first variable."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ssvm_dsl.ir.analysis.topology import first_of_component


@pytest.mark.parametrize("seed", range(5))
def test_components_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    edges = rng.integers(n, size=(int(rng.integers(0, 2 * n)), 2)).astype(np.int32)
    graph = coo_array((np.ones(len(edges), dtype=np.int8), (edges[:, 0], edges[:, 1])), shape=(n, n))
    number = connected_components(graph, directed=False)[1]
    first = np.array([np.flatnonzero(number == k)[0] for k in number])
    assert (first_of_component(n, edges) == first).all()


def test_a_long_path_in_any_order_is_one_component():
    order = np.random.default_rng(0).permutation(5000)
    assert not first_of_component(5000, np.stack([order[:-1], order[1:]], axis=1)).any()
