"""Products of feature rows with weights, and their adjoints: what a parameter map is made of, one map at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.ir.features import FeatureMap, ObservedPairs, SlicedRows, SparseRows
from ssvm_dsl.ir.ragged import positions

#: So many factors of each unit with its own weights, and more, are worth a matrix product.
FEW = 8

#: Scores that are products of features first, and copied to their places then, are made so many at a time.
PART_SCORES = 2**20

#: Weights that are gathered at most, to be multiplied with the features of their factors.
PART_GATHERED = 2**16

#: Larger scores are refused: sums of them are no numbers.
LARGEST = 1e300


def moderate(scores: F64) -> bool:
    """Return whether scores are numbers that can be added up; that their squares can be is enough."""
    flat = scores.reshape(-1)
    if flat.dot(flat) < np.inf:
        return True
    return bool(flat.max(initial=0.0) <= LARGEST and flat.min(initial=0.0) >= -LARGEST)


def in_kernel(fmap: FeatureMap, n: int) -> bool:
    """Whether n factors with weights of their own are so few that a kernel is faster than a product for each unit."""
    return n < FEW * fmap.n_units


def gathered(fmap: FeatureMap, n: int) -> bool:
    """Whether n factors with weights of their own are so few that these are gathered for one product of batches."""
    dense = isinstance(fmap.features, np.ndarray)
    return dense and in_kernel(fmap, n) and n * fmap.n_basis * fmap.width <= PART_GATHERED


def split_rows(selected: slice | I64, width: int) -> Iterator[slice | I64]:
    """Yield a selection of rows of some width in parts: the products of a part are a temporary array."""
    size = selected.stop - selected.start if isinstance(selected, slice) else len(selected)
    most = max(1, PART_SCORES // width)
    for lo in range(0, size, most):
        hi = min(lo + most, size)
        yield slice(selected.start + lo, selected.start + hi) if isinstance(selected, slice) else selected[lo:hi]


def numbers(selected: slice | I64) -> I64:
    """Return a selection as an array."""
    return np.arange(selected.start, selected.stop) if isinstance(selected, slice) else selected


def plain_rows(fmap: FeatureMap, w: F64, rows: slice | I64, unit: int = 0) -> F64:
    """Return the tables of feature rows, one unit: ``X[rows] W' B``; ``shape (len(rows), prod(cards))``."""
    weights, pairs = fmap.weights(w)[unit], fmap.observed
    if isinstance(fmap.features, SparseRows):
        from ssvm_dsl.kernels.rows import observed_rows_times, sparse_rows_times, spread_rows_times

        ids = numbers(rows)
        values = np.zeros((len(ids), fmap.n_basis))
        csr = fmap.features.data, fmap.features.indices, fmap.features.ptr
        if pairs is None:
            sparse_rows_times(*csr, ids, weights, values)
        elif _few_entries(fmap.features, ids, pairs):
            observed_rows_times(*csr, ids, pairs.ptr, pairs.state, weights, values)
        else:
            with fmap.spread.table(weights) as table:
                spread_rows_times(csr, ids, (pairs.ptr, pairs.state), fmap.spread.common, weights, table, values)
    elif isinstance(fmap.features, SlicedRows):
        parts = [fmap.features[some] @ weights.T for some in split_rows(rows, fmap.width)]
        values = np.concatenate([np.zeros((0, fmap.n_basis)), *parts])
    else:
        assert fmap.features is not None
        values = fmap.features[rows] @ weights.T
    return values if fmap.basis is None else values @ fmap.basis


def _few_entries(features: SparseRows, rows: I64, pairs: ObservedPairs) -> bool:
    """Whether rows have so few entries that a table of the weights of all pairs is not worth its time."""
    if len(features.indices) < len(pairs.state) or len(rows) == len(features.ptr) - 1:
        return len(features.indices) < len(pairs.state)
    return int((features.ptr[1:][rows] - features.ptr[rows]).sum()) < len(pairs.state)


def joint_rows(fmap: FeatureMap, w: F64, examples: I64 | None) -> F64:
    """Return the tables of factors whose features depend on the joint state."""
    assert isinstance(fmap.features, np.ndarray)
    stacked = fmap.features.reshape(fmap.n_factors, fmap.n_configs, fmap.width)[positions(fmap.ptr, examples)]
    weights = fmap.weights(w)[:, 0, :]
    if fmap.units is None:
        return np.asarray(stacked @ weights[0])
    return np.einsum("fcp,fp->fc", stacked, weights[fmap.units_of(examples)])


def to_basis(fmap: FeatureMap, values: F64) -> F64:
    """Return numbers on joint states as numbers on the functions of the form."""
    return values if fmap.basis is None else values @ fmap.basis.T


def scatter_rows(fmap: FeatureMap, projected: F64, rows: slice | I64, target: F64) -> None:
    """Add ``projected' X[rows]`` to the stored weights of one unit."""
    if isinstance(fmap.features, SparseRows):
        from ssvm_dsl.kernels.rows import add_observed_outer, add_sparse_outer, add_spread_outer

        csr, pairs = (fmap.features.data, fmap.features.indices, fmap.features.ptr), fmap.observed
        values, ids = np.ascontiguousarray(projected), numbers(rows)
        if pairs is None:
            add_sparse_outer(*csr, ids, values, target)
        elif _few_entries(fmap.features, ids, pairs):
            add_observed_outer(*csr, ids, pairs.ptr, pairs.state, values, target)
        else:
            with fmap.spread.adding_to(target) as table:
                add_spread_outer(csr, ids, (pairs.ptr, pairs.state), fmap.spread.common, values, table, target)
    elif isinstance(fmap.features, SlicedRows):
        there = projected.any(axis=1)
        chosen, values = numbers(rows)[there], projected[there]
        for some in split_rows(np.arange(len(chosen)), fmap.width):
            target += values[some].T @ fmap.features[chosen[some]]
    else:
        assert fmap.features is not None
        target += projected.T @ fmap.features[rows]


def add_by_unit(target: F64, unit: I32 | None, values: F64) -> None:
    """Add a row of ``values`` for each factor to the row of its unit."""
    if unit is None:
        target[0] += values.sum(axis=0)
    else:
        np.add.at(target, unit, values)


def is_bare(fmap: FeatureMap) -> bool:
    """Whether a map has sparse features and a weight for each of them and each state, one unit."""
    own = fmap.basis is not None or fmap.observed is not None or fmap.units is not None or fmap.joint
    return isinstance(fmap.features, SparseRows) and not own


def add_scores(fmap: FeatureMap, w: F64, examples: I64 | None, start: I64, node: F64) -> None:
    """Add the scores of a map that is bare to those of states; each factor's begin at ``start``."""
    from ssvm_dsl.kernels.rows import add_sparse_scores

    csr, rows = fmap.features, np.asarray(fmap.rows_of(examples), dtype=np.int64)
    assert isinstance(csr, SparseRows)
    add_sparse_scores(csr.data, csr.indices, csr.ptr, rows, np.ascontiguousarray(fmap.weights(w)[0]), start, node)


def add_adjoint(fmap: FeatureMap, node: F64, examples: I64 | None, start: I64, out: F64) -> None:
    """Add the adjoint of :func:`add_scores` to the weights of a map."""
    from ssvm_dsl.kernels.rows import add_sparse_adjoint

    csr, rows = fmap.features, np.asarray(fmap.rows_of(examples), dtype=np.int64)
    assert isinstance(csr, SparseRows)
    add_sparse_adjoint(csr.data, csr.indices, csr.ptr, rows, node, start, fmap.weights(out)[0])
