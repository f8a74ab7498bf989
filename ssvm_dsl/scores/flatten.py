"""From feature maps to the flat records that compiled kernels read (:class:`ssvm_dsl.kernels.flat.FlatMaps`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.ir.features import FeatureMap, ObservedPairs, SlicedRows, SparseRows
from ssvm_dsl.ir.program import ONE_SPAN, SPANS, Group
from ssvm_dsl.ir.ragged import owners, pointers
from ssvm_dsl.kernels.flat import COLUMNS, CSR_INDICES, DENSE, NO_FEATURES, OBSERVED, SPARSE, WORD, FlatMaps
from ssvm_dsl.scores.constants import Constants


class _Pool:
    """Collects arrays and hands out their offsets; the same array is stored once."""

    def __init__(self, dtype: Any) -> None:
        self.dtype, self.parts, self.size = dtype, list[NDArray[Any]](), 0
        self.seen: dict[int, int] = {}

    def add(self, array: NDArray[Any] | None) -> int:
        if array is None:
            return -1
        if id(array) not in self.seen:
            self.seen[id(array)] = self.size
            self.parts.append(array)
            self.size += array.size
        return self.seen[id(array)]

    def array(self) -> NDArray[Any]:
        if len(self.parts) == 1 and self.parts[0].dtype == self.dtype and self.parts[0].flags.c_contiguous:
            return self.parts[0].reshape(-1)
        if not self.parts:
            return np.zeros(1, self.dtype)
        return np.concatenate(list(map(np.ravel, self.parts)), dtype=self.dtype, casting="unsafe")


def flatten(maps: Sequence[FeatureMap], groups: Sequence[Group], constants: Constants | None = None) -> FlatMaps:
    """Return the flat form of feature maps of these groups; dense features are not copied when they are one array.

    Features that are not kept are left out.  Sparse features read their columns from the flat arrays from now on, so
    that memory holds them once.
    """
    ints, longs = _Pool(np.int32), _Pool(np.int64)
    features, values = _Pool(np.float64), _Pool(np.float64)
    base: F64 | None = None  # all dense features are views of it
    for fmap in maps:
        if isinstance(fmap.features, np.ndarray):
            base = fmap.features.base  # a transposed one lies in another order
            base = fmap.features if base is None or not base.flags.c_contiguous else base.reshape(-1)
            break
    features.add(base)
    pools = pointers(np.array([g.n_tables * g.n_configs for g in groups], dtype=np.int64)).tolist()
    desc = np.full((len(maps), len(COLUMNS)), -1, dtype=np.int64)
    for m, fmap in enumerate(maps):
        sparse = fmap.features if isinstance(fmap.features, SparseRows) else None
        pairs, q, p, start = fmap.observed, fmap.n_basis, fmap.width, fmap.shapes.start
        kind, offset, unit, function, feature = NO_FEATURES, -1, q * p, p, 1
        if sparse is not None:
            kind, offset, function, feature = SPARSE, features.add(sparse.data), 1, q
        elif isinstance(fmap.features, np.ndarray):
            assert base is not None
            kind = DENSE
            offset = (fmap.features.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // 8
        elif isinstance(fmap.features, SlicedRows):
            start = np.zeros_like(start)  # kernels see no factors of it
        if pairs is not None:  # a weight is found by its pair, see observed_kernels
            kind, unit, function, feature = OBSERVED, 0, 0, 0
        basis_ptr, basis_index, basis_value = _basis(fmap)
        strides = np.cumprod((1, *fmap.cards[:0:-1]), dtype=np.int64)[::-1].copy()
        group = None if fmap.group < 0 else groups[fmap.group]
        desc[m] = [
            *(len(fmap.cards), kind, p, int(fmap.joint), fmap.n_configs),
            *(ints.add(fmap.shapes.scope), longs.add(start), ints.add(fmap.local_rows), ints.add(fmap.units)),
            offset,
            *(longs.add(None if sparse is None else sparse.ptr), ints.add(None if sparse is None else sparse.indices)),
            longs.add(None if pairs is None else pair_bits(pairs, fmap.n_configs)),
            *(fmap.block.offset, unit, function, feature),
            *(ints.add(basis_ptr), ints.add(basis_index), values.add(basis_value), longs.add(strides)),
            *(int(fmap.basis is None and not fmap.joint), q, fmap.n_units),
            *((-1, -1) if group is None else (ints.add(group.rows), pools[fmap.group])),
            *(ints.add(fmap.shapes.of), longs.add(fmap.row_bases)),
            *(longs.add(None if group is None else group.table_base), longs.add(fmap.shapes.numbers)),
            values.add(None if constants is None else constants.tables.get(fmap.group)),
            0 if group is None else (group.kind == SPANS) + 2 * (group.kind == ONE_SPAN),
        ]
    flat = FlatMaps(desc, ints.array(), longs.array(), features.array(), values.array())
    for m, fmap in enumerate(maps):
        if isinstance(fmap.features, SparseRows):
            first = int(desc[m, CSR_INDICES])
            fmap.features.read_columns(flat.ints[first : first + len(fmap.features.indices)])
    return flat


def _basis(fmap: FeatureMap) -> tuple[I32, I32, F64]:
    """Return the basis of a map by columns: (ptr over joint states, basis functions, values)."""
    n = fmap.n_configs
    if fmap.joint:
        return np.arange(n + 1, dtype=np.int32), np.zeros(n, np.int32), np.ones(n)
    if fmap.basis is None:
        return np.arange(n + 1, dtype=np.int32), np.arange(n, dtype=np.int32), np.ones(n)
    config, q = np.nonzero(fmap.basis.T)
    ptr = pointers(np.bincount(config, minlength=n)).astype(np.int32)
    return ptr, q.astype(np.int32), fmap.basis[q, config]


def pair_bits(pairs: ObservedPairs, n_configs: int) -> I64:
    """Return for each feature where its weights start, then the bits of the joint states that have one.

    Returns
    -------
    ndarray of int64, shape (P, 1 + ceil(n_configs / 64))
        Joint state s is bit ``s % 64`` of word ``1 + s // 64``.
    """
    n_words = (n_configs + WORD - 1) // WORD
    out = np.zeros((pairs.n_features, 1 + n_words), dtype=np.int64)
    out[:, 0] = pairs.ptr[:-1]
    word = owners(pairs.ptr) * (1 + n_words) + 1 + pairs.state // WORD
    first = np.flatnonzero(np.diff(word, prepend=-1))
    bits = np.left_shift(np.int64(1), pairs.state.astype(np.int64) % WORD)
    if len(first):
        out.reshape(-1)[word[first]] = np.bitwise_or.reduceat(bits, first)
    return out
