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
        flat = [part.ravel() for part in self.parts]
        return np.concatenate(flat, dtype=self.dtype, casting="unsafe") if flat else np.zeros(1, self.dtype)


def flatten(maps: Sequence[FeatureMap], groups: Sequence[Group], constants: Constants | None = None) -> FlatMaps:
    """Return the flat form of feature maps of these groups; dense features are not copied when they are one array.

    Features that are not kept are left out.
    """
    shared = {} if constants is None else constants.tables
    ints, longs = _Pool(np.int32), _Pool(np.int64)
    features, values = _Pool(np.float64), _Pool(np.float64)
    basis = _bases(maps)
    desc = np.full((len(maps), len(COLUMNS)), -1, dtype=np.int64)
    base = _feature_base(maps)
    if base is not None:
        features.add(base)
    starts = pointers(np.array([g.n_tables * g.n_configs for g in groups], dtype=np.int64))
    for m, fmap in enumerate(maps):
        row = _describe(fmap, basis[m], (ints, longs, features, values), base)
        group = None if fmap.group < 0 else groups[fmap.group]
        table, pool = (-1, -1) if group is None else (ints.add(group.rows), int(starts[fmap.group]))
        bases = [longs.add(fmap.row_bases), longs.add(None if group is None else group.table_base)]
        rest = (
            values.add(shared.get(fmap.group)),
            0 if group is None else (group.kind == SPANS) + 2 * (group.kind == ONE_SPAN),
        )
        desc[m] = [*row, table, pool, ints.add(fmap.shapes.of), *bases, longs.add(fmap.shapes.numbers), *rest]
    flat = FlatMaps(desc, ints.array(), longs.array(), features.array(), values.array())
    _share_columns(maps, flat)
    return flat


def _share_columns(maps: Sequence[FeatureMap], flat: FlatMaps) -> None:
    """Let sparse features read their columns from the flat arrays, so that memory holds them once."""
    for fmap, start in zip(maps, flat.desc[:, CSR_INDICES].tolist(), strict=True):
        if isinstance(fmap.features, SparseRows):
            fmap.features.read_columns(flat.ints[start : start + len(fmap.features.indices)])


def _feature_base(maps: Sequence[FeatureMap]) -> F64 | None:
    """Return the one array all dense features are views of."""
    for fmap in maps:
        if isinstance(fmap.features, np.ndarray):
            base = fmap.features.base  # a transposed one lies in another order
            return fmap.features if base is None or not base.flags.c_contiguous else base.reshape(-1)
    return None


def _bases(maps: Sequence[FeatureMap]) -> list[tuple[I32, I32, F64]]:
    """Return each map's basis by columns: (ptr over joint states, basis functions, values)."""
    out = []
    for fmap in maps:
        n = fmap.n_configs
        if fmap.joint:
            out.append((np.arange(n + 1, dtype=np.int32), np.zeros(n, np.int32), np.ones(n)))
        elif fmap.basis is None:
            out.append((np.arange(n + 1, dtype=np.int32), np.arange(n, dtype=np.int32), np.ones(n)))
        else:
            config, q = np.nonzero(fmap.basis.T)
            ptr = pointers(np.bincount(config, minlength=n)).astype(np.int32)
            out.append((ptr, q.astype(np.int32), fmap.basis[q, config]))
    return out


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


def _describe(fmap: FeatureMap, basis: tuple[I32, I32, F64], pools: tuple[_Pool, ...], base: F64 | None) -> list[int]:
    ints, longs, features, values = pools
    sparse = fmap.features if isinstance(fmap.features, SparseRows) else None
    kind, offset = NO_FEATURES, -1
    if sparse is not None:
        kind, offset = SPARSE if fmap.observed is None else OBSERVED, features.add(sparse.data)
    elif isinstance(fmap.features, np.ndarray):
        assert base is not None
        kind = DENSE
        offset = (fmap.features.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // 8
    start = fmap.shapes.start
    if isinstance(fmap.features, SlicedRows):
        start = np.zeros_like(start)  # kernels see no factors of it
    strides = np.array([int(np.prod(fmap.cards[k + 1 :])) for k in range(len(fmap.cards))], dtype=np.int64)
    q, p, pairs = fmap.n_basis, fmap.width, fmap.observed
    unit, function, feature = q * p, 1 if sparse is not None else p, q if sparse is not None else 1
    if pairs is not None:  # a weight is found by its pair, see observed_kernels
        unit = function = feature = 0
    return [
        *(len(fmap.cards), kind, p, int(fmap.joint), fmap.n_configs),
        *(ints.add(fmap.shapes.scope), longs.add(start), ints.add(fmap.local_rows), ints.add(fmap.units)),
        offset,
        *(longs.add(None if sparse is None else sparse.ptr), ints.add(None if sparse is None else sparse.indices)),
        longs.add(None if pairs is None else pair_bits(pairs, fmap.n_configs)),
        *(fmap.block.offset, unit, function, feature),
        *(ints.add(basis[0]), ints.add(basis[1]), values.add(basis[2]), longs.add(strides)),
        *(int(fmap.basis is None and not fmap.joint), q, fmap.n_units),
    ]
