"""Which pairs of a feature and a state have weights, where a factor has them for those seen in training only.

An attribute such as a word of a text occurs with few of the states.  CRFsuite gives weights to the pairs that occur in
the training data (its ``feature.possible_states=0``); a factor with ``weights="observed"`` does the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.array_types import I32
from ssvm_dsl.compiler.features.sparse import csr_of
from ssvm_dsl.ir.features import ObservedPairs, SparseRows


def observe_pairs(rows: SparseRows, row: I32 | None, states: I32, cards: tuple[int, ...]) -> ObservedPairs:
    """Return the pairs that occur: a feature that is not zero at a factor, and the factor's true joint state.

    Parameters
    ----------
    rows : SparseRows
    row : ndarray of int32, shape (n,), optional
        Feature row of each factor (``None``: its own number).
    states : ndarray of int32, shape (n, r)
        True states of the variables of each factor, negative where they are not known.
    cards : tuple of int
        Numbers of states.
    """
    from scipy.sparse import csr_array

    known = np.flatnonzero((states >= 0).all(axis=1))
    config = np.ravel_multi_index(tuple(states[known].T), cards)
    places = config, known if row is None else row[known]
    at_rows = csr_array((np.ones(len(known), dtype=bool), places), shape=(int(np.prod(cards)), rows.shape[0]))
    seen = (at_rows @ csr_of(rows.data != 0.0, rows.indices, rows.ptr, rows.n_columns)).tocsc()
    seen.eliminate_zeros()
    seen.sort_indices()
    return ObservedPairs(seen.indptr.astype(np.int64), seen.indices.astype(np.int32))


def as_learnt(pairs: ObservedPairs) -> dict[str, Any]:
    """Return pairs in the form of what features learnt."""
    return {"ptr": pairs.ptr, "state": pairs.state}


def of_learnt(learnt: dict[str, Any]) -> ObservedPairs:
    """Return the pairs that were learnt."""
    return ObservedPairs(learnt["ptr"], learnt["state"])


def check_pairs(pairs: ObservedPairs, n_features: int, n_configs: int) -> None:
    """Check what comes from a file: kernels rely on it.

    Raises
    ------
    ValueError
        These are no pairs of that many features and joint states.
    """
    ptr, state = pairs.ptr, pairs.state
    typed = (ptr.dtype.str, state.dtype.str) == (np.dtype(np.int64).str, np.dtype(np.int32).str)
    if not typed or ptr.shape != (n_features + 1,) or state.ndim != 1:
        raise ValueError(f"expected pairs of {n_features} features with states")
    if ptr[0] != 0 or ptr[-1] != pairs.n_pairs or (np.diff(ptr) < 0).any():
        raise ValueError(f"expected pairs of {n_features} features with states")
    owner = np.repeat(np.arange(n_features), np.diff(ptr))
    inside = bool(((state >= 0) & (state < n_configs)).all())
    if not inside or (np.diff(owner * n_configs + state) <= 0).any():
        raise ValueError(f"expected ascending states below {n_configs} for each feature")
