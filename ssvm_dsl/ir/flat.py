"""All feature maps of a model as flat arrays, so that one compiled kernel serves every template kind.

For each factor the joint state c of its variables picks basis entries (q, value), and each of them a row of
weights that is multiplied with (or moved along) the factor's features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir.features import FeatureMap, ObservedPairs, SparseRows
from ssvm_dsl.ir.ragged import owners, pointers

if TYPE_CHECKING:
    from ssvm_dsl.ir.parameters import ParameterMap

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

#: Columns of ``FlatMaps.desc``.  Offsets point into the pools; -1 marks what a map does not have.
_COLUMNS = (
    *("arity", "kind", "width", "joint", "n_configs"),
    *("scope", "ptr", "row", "unit"),
    *("features", "csr_ptr", "csr_indices", "pairs"),
    *("weights", "unit_stride", "basis_stride", "feature_stride"),
    *("basis_ptr", "basis_index", "basis_value", "strides"),
    *("identity", "n_basis", "n_units", "table", "pool"),
)
ARITY, KIND, WIDTH, JOINT, N_CONFIGS = range(5)
SCOPE, PTR, ROW, UNIT = range(5, 9)
FEATURES, CSR_PTR, CSR_INDICES, PAIRS = range(9, 13)
WEIGHTS, UNIT_STRIDE, BASIS_STRIDE, FEATURE_STRIDE = range(13, 17)
BASIS_PTR, BASIS_INDEX, BASIS_VALUE, STRIDES = range(17, 21)
IDENTITY, N_BASIS, N_UNITS, TABLE, POOL = range(21, 26)

#: Kinds of features.  ``OBSERVED`` are sparse ones with weights for some pairs of a feature and a joint state only.
#: ``PAIRS`` then has for each feature where its weights start, and a bit for each joint state that has one.
NO_FEATURES, DENSE, SPARSE, OBSERVED = 0, 1, 2, 3

#: Bits of a word.
WORD = 64


class FlatMaps(NamedTuple):
    """Every feature map of a model as rows of ``desc`` that point into four pools."""

    desc: I64
    ints: I32
    longs: I64
    features: F64
    values: F64


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
        return np.concatenate(flat).astype(self.dtype, copy=False) if flat else np.zeros(1, self.dtype)


def flatten(parameters: ParameterMap) -> FlatMaps:
    """Return the flat form of a parameter map; dense features are not copied when they are one array."""
    ints, longs = _Pool(np.int32), _Pool(np.int64)
    features, values = _Pool(np.float64), _Pool(np.float64)
    bases = _bases(parameters)
    desc = np.full((len(parameters.maps), len(_COLUMNS)), -1, dtype=np.int64)
    base = _feature_base(parameters)
    if base is not None:
        features.add(base)
    groups = parameters.program.groups
    starts = pointers(np.array([g.n_tables * g.n_configs for g in groups], dtype=np.int64))
    for m, fmap in enumerate(parameters.maps):
        row = _describe(fmap, bases[m], (ints, longs, features, values), base)
        where = [-1, -1] if fmap.group < 0 else [ints.add(groups[fmap.group].table), int(starts[fmap.group])]
        desc[m] = [*row, *where]
    return FlatMaps(desc, ints.array(), longs.array(), features.array(), values.array())


def _feature_base(parameters: ParameterMap) -> F64 | None:
    """Return the one array all dense features are views of."""
    for fmap in parameters.maps:
        if isinstance(fmap.features, np.ndarray):
            return fmap.features if fmap.features.base is None else fmap.features.base.reshape(-1)
    return None


def _bases(parameters: ParameterMap) -> list[tuple[I32, I32, F64]]:
    """Return each map's basis by columns: (ptr over joint states, basis functions, values)."""
    out = []
    for fmap in parameters.maps:
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


def _describe(
    fmap: FeatureMap, basis: tuple[I32, I32, F64], pools: tuple[_Pool, ...], base: F64 | None
) -> list[int]:
    ints, longs, features, values = pools
    sparse = fmap.features if isinstance(fmap.features, SparseRows) else None
    kind, offset = NO_FEATURES, -1
    if sparse is not None:
        kind, offset = SPARSE if fmap.observed is None else OBSERVED, features.add(sparse.data)
    elif isinstance(fmap.features, np.ndarray):
        assert base is not None
        kind = DENSE
        offset = (fmap.features.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // 8
    strides = np.array([int(np.prod(fmap.cards[k + 1 :])) for k in range(len(fmap.cards))], dtype=np.int64)
    q, p, pairs = fmap.n_basis, fmap.width, fmap.observed
    unit, function, feature = q * p, 1 if sparse is not None else p, q if sparse is not None else 1
    if pairs is not None:  # a weight is found by its pair, see observed_kernels
        unit = function = feature = 0
    return [
        *(len(fmap.cards), kind, p, int(fmap.joint), fmap.n_configs),
        *(ints.add(fmap.scope), longs.add(fmap.ptr), ints.add(fmap.row), ints.add(fmap.unit)),
        offset,
        *(longs.add(None if sparse is None else sparse.ptr), ints.add(None if sparse is None else sparse.indices)),
        longs.add(None if pairs is None else pair_bits(pairs, fmap.n_configs)),
        *(fmap.block.offset, unit, function, feature),
        *(ints.add(basis[0]), ints.add(basis[1]), values.add(basis[2]), longs.add(strides)),
        *(int(fmap.basis is None and not fmap.joint), q, fmap.n_units),
    ]
