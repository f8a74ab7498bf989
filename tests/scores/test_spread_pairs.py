"""Weights of observed pairs as rows of a table: the same sums as pair by pair."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl.ir import features
from ssvm_dsl.ir.features import ObservedPairs, SparseRows, SpreadPairs
from ssvm_dsl.kernels.rows import (
    add_observed_outer,
    add_spread_outer,
    observed_rows_times,
    spread_rows_times,
)


@pytest.mark.parametrize("n_states", [1, 3, 9, 22])
@pytest.mark.parametrize("most", [10**6, 80, 24, 0])
def test_the_same_as_pair_by_pair(n_states, most, monkeypatch):
    monkeypatch.setattr(features, "SPREAD", most)
    rng = np.random.default_rng(n_states)
    there = rng.random((12, n_states)) < rng.random((12, 1))
    state = np.concatenate([np.flatnonzero(row) for row in there]).astype(np.int32)
    pairs = ObservedPairs(np.append(0, np.cumsum(there.sum(axis=1))), state)
    ptr = np.array([0, 5, 5, 9, 16])
    rows = SparseRows(rng.normal(size=16), rng.integers(12, size=16).astype(np.int32), ptr, 12)
    csr, ids = (rows.data, rows.indices, rows.ptr), np.array([3, 0, 1, 2])
    spread, weights = SpreadPairs(pairs, n_states), rng.normal(size=pairs.n_pairs)
    assert spread.n_rows <= most // spread.width or spread.n_rows == 12
    expected = np.zeros((4, n_states))
    observed_rows_times(*csr, ids, pairs.ptr, pairs.state, weights, expected)
    values = rng.normal(size=(4, n_states))
    total = weights.copy()
    add_observed_outer(*csr, ids, pairs.ptr, pairs.state, values, total)
    for _ in range(2):  # tables are used again
        found, added = np.zeros((4, n_states)), weights.copy()
        with spread.table(weights) as table:
            spread_rows_times(csr, ids, (pairs.ptr, pairs.state), spread.common, weights, table, found)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        with spread.adding_to(added) as table:
            add_spread_outer(csr, ids, (pairs.ptr, pairs.state), spread.common, values, table, added)
        np.testing.assert_allclose(added, total, atol=1e-12)
