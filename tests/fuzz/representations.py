"""The same data in other clothes, and data with one thing wrong: for the fuzzer of inputs.

``REWRITES`` and ``DAMAGES`` hold functions ``(value, rng) -> value`` by the kind of input: "dense", "sparse",
"attributes", "edges", "label".  A rewrite that does not suit a value returns it as it is.  Canonical values are float64
arrays (dense ones for sparse inputs, too), lists of dicts, int64 edges, and arrays of classes.
"""

from __future__ import annotations

from collections import OrderedDict, UserDict
from types import MappingProxyType

import numpy as np
import scipy.sparse as sp


class OwnArray(np.ndarray):
    """A subclass of arrays."""


class ArrayLike:
    """Something that numpy can read, as data frames and tensors of other libraries are."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array if dtype is None else self.array.astype(dtype)


class DictLike:
    """A dictionary by behaviour only."""

    def __init__(self, content):
        self.content = dict(content)

    def keys(self):
        return self.content.keys()

    def __getitem__(self, key):
        return self.content[key]

    def __iter__(self):
        return iter(self.content)

    def __len__(self):
        return len(self.content)


def padded(array):
    """A view of every other entry of a larger array."""
    large = np.zeros(tuple(2 * size for size in array.shape), dtype=array.dtype)
    view = large[tuple(slice(None, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def backwards(array):
    return np.ascontiguousarray(array[::-1])[::-1] if array.ndim else array


def as_type(array, rng):
    """In another type that holds all the numbers exactly."""
    names = rng.permutation(["f2", "f4", "g", ">f8", ">f4", "i1", "u1", ">i2", "i8", "u8", "?"])
    with np.errstate(all="ignore"):
        signed = array.size > 0 and array.min() < 0
        casts = (array.astype(name) for name in names if not (signed and name in ("u1", "u8", "?")))
        return next((cast for cast in casts if (cast.astype(array.dtype) == array).all()), array)


def on_disk(array, rng, scratch):
    path = scratch / f"{rng.integers(2**60)}"
    mapped = np.memmap(path, array.dtype, "w+", shape=array.shape) if array.size else array
    mapped[...] = array
    return mapped


DENSE = [
    lambda a, rng: a.tolist(),
    lambda a, rng: list(a) if a.ndim else a.item(),
    lambda a, rng: tuple(a) if a.ndim else a.item(),
    lambda a, rng: np.asfortranarray(a),
    lambda a, rng: backwards(a),
    lambda a, rng: padded(a),
    lambda a, rng: read_only(a),
    lambda a, rng: np.asmatrix(a) if a.ndim == 2 else a,
    lambda a, rng: a.view(OwnArray),
    lambda a, rng: np.ma.array(a, mask=False),
    lambda a, rng: np.ma.array(a),
    lambda a, rng: ArrayLike(a),
    as_type,
    as_type,
]


def unsorted(matrix):
    """The entries of each row in reverse order."""
    for lo, hi in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        matrix.indices[lo:hi] = matrix.indices[lo:hi][::-1].copy()
        matrix.data[lo:hi] = matrix.data[lo:hi][::-1].copy()
    matrix.has_sorted_indices = True  # a lie that scipy believes
    return matrix


def doubled(matrix):
    """Every entry in two halves."""
    coo = matrix.tocoo()
    row, column = (np.repeat(part, 2) for part in (coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)))
    return sp.coo_array((np.repeat(coo.data / 2, 2), (row, column)), shape=matrix.shape)


def uncompressed_duplicates(matrix):
    """Duplicates in CSR, which its constructor keeps."""
    data, columns = np.repeat(matrix.data / 2, 2), np.repeat(matrix.indices, 2)
    return sp.csr_array((data, columns, 2 * matrix.indptr), shape=matrix.shape)


def explicit_zeros(matrix):
    """All entries stored."""
    rows, columns = matrix.shape
    ptr = columns * np.arange(rows + 1)
    return sp.csr_array((matrix.toarray().ravel(), np.tile(np.arange(columns), rows), ptr), shape=matrix.shape)


def with_spare_room(matrix):
    """Longer arrays than the pointers use."""
    matrix.indices = np.append(matrix.indices, [10**6, -7]).astype(matrix.indices.dtype)
    matrix.data = np.append(matrix.data, [np.nan, 1.0])
    return matrix


def wide_indices(matrix):
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


def narrow_indices(matrix):
    matrix.indices, matrix.indptr = matrix.indices.astype(np.uint8), matrix.indptr.astype(np.uint16)
    return matrix


def some_format(a, rng):
    name = rng.choice(["coo", "dok", "lil", "dia", "bsr", "csc", "csr"])
    return getattr(sp, f"{name}_{rng.choice(['array', 'matrix'])}")(a)


SPARSE = [
    some_format,
    some_format,
    some_format,
    lambda a, rng: as_type(a, rng),
    lambda a, rng: sp.csr_array(a).astype(np.float32),
    lambda a, rng: unsorted(sp.csr_array(a)),
    lambda a, rng: doubled(sp.csr_array(a)),
    lambda a, rng: uncompressed_duplicates(sp.csr_array(a)),
    lambda a, rng: explicit_zeros(sp.csr_array(a)),
    lambda a, rng: with_spare_room(sp.csr_array(a)),
    lambda a, rng: wide_indices(sp.csr_array(a)),
    lambda a, rng: narrow_indices(sp.csr_array(a)),
    lambda a, rng: a.tolist() if a.size else a,
]


def names_only(token, kind):
    """A collection of names where all values are 1."""
    return kind(token) if all(value == 1.0 for value in token.values()) else token


TOKENS = [
    lambda d, rng: OrderedDict(d),
    lambda d, rng: UserDict(d),
    lambda d, rng: MappingProxyType(d),
    lambda d, rng: DictLike(d),
    lambda d, rng: {k: np.float32(v) for k, v in d.items()},
    lambda d, rng: {k: np.longdouble(v) for k, v in d.items()},
    lambda d, rng: {k: int(v) if v == int(v) else v for k, v in d.items()},
    lambda d, rng: {k: bool(v) if v in (0.0, 1.0) else v for k, v in d.items()},
    lambda d, rng: {np.str_(k): v for k, v in d.items()},
    lambda d, rng: names_only(d, list),
    lambda d, rng: names_only(d, tuple),
    lambda d, rng: names_only(d, set),
    lambda d, rng: names_only(d, frozenset),
    lambda d, rng: names_only(d, dict.keys),
    lambda d, rng: names_only(d, lambda names: np.array(list(names), dtype=str)),
]

EDGES = [
    lambda e, rng: e.tolist(),
    lambda e, rng: [tuple(one) for one in e.tolist()],
    lambda e, rng: e.astype(rng.choice(["i4", "u8", "u1", ">i8", "i2"])),
    lambda e, rng: np.asfortranarray(e),
    lambda e, rng: padded(e),
    lambda e, rng: read_only(e),
    lambda e, rng: np.ma.array(e),
    lambda e, rng: np.asmatrix(e) if len(e) else e,
    lambda e, rng: ArrayLike(e),
]


def words(labels):
    """Whether the classes are strings."""
    return labels.dtype.kind == "U"


LABELS = [
    lambda y, rng: y.tolist(),
    lambda y, rng: y.astype(object),
    lambda y, rng: padded(y) if y.ndim else y,
    lambda y, rng: np.ma.array(y),
    lambda y, rng: y.view(OwnArray) if y.ndim else y,
    lambda y, rng: y.astype("<U9") if words(y) else as_type(y, rng),
    lambda y, rng: tuple(y.tolist()) if y.ndim else y.item(),
    lambda y, rng: "".join(y.tolist()) if words(y) and y.ndim == 1 and all(map((1).__eq__, map(len, y))) else y,
]

REWRITES = {"dense": DENSE, "sparse": SPARSE, "edges": EDGES, "label": LABELS}

# -- one thing wrong -----------------------------------------------------------------------------------------


def put(array, value, rng, dtype=None):
    """A copy with one entry replaced."""
    array = np.asarray(array)
    array = array.astype(array.dtype if dtype is None else dtype)
    if array.size:
        array.reshape(-1)[rng.integers(array.size)] = value
    return array


def masked(array, rng):
    mask = np.zeros(array.shape, dtype=bool)
    if array.size:
        mask.reshape(-1)[rng.integers(array.size)] = True
    return np.ma.array(array, mask=mask)


DENSE_DAMAGE = [
    lambda a, rng: put(a, rng.choice([np.nan, np.inf, -np.inf]), rng),
    lambda a, rng: put(a, 1j, rng, complex),
    lambda a, rng: put(a, None, rng, object),
    lambda a, rng: put(a, 10**400, rng, object),
    lambda a, rng: masked(a, rng),
    lambda a, rng: list(masked(a, rng)) if a.ndim else masked(a, rng),
    lambda a, rng: a.astype(str),
    lambda a, rng: a.astype(bytes),
    lambda a, rng: a[..., None],
    lambda a, rng: a[..., :-1] if a.ndim else a[None],
    lambda a, rng: np.concatenate([a, a]) if a.ndim else None,
    lambda a, rng: [[1.0], [1.0, 2.0]],
    lambda a, rng: a.astype("M8[s]"),
    lambda a, rng: np.zeros(a.shape, dtype=[("a", float), ("b", int)]),
    lambda a, rng: put(a.astype(np.longdouble), np.longdouble("1e4000"), rng),
    lambda a, rng: sp.csr_array(np.atleast_2d(a)) if a.ndim <= 2 else None,
    lambda a, rng: (one for one in np.atleast_1d(a)),
    lambda a, rng: None,
    lambda a, rng: "text",
    lambda a, rng: {1.0, 2.0},
    lambda a, rng: np.float64,
]


def tampered(matrix, name, change):
    """A matrix with one of its arrays replaced."""
    setattr(matrix, name, change(getattr(matrix, name).copy()))
    return matrix


def entry(value, rng):
    def change(array):
        if array.size:
            array.reshape(-1)[rng.integers(array.size)] = value
        return array

    return change


FAR = (-1, -5, -(10**8), 10**3, 10**8, 2**31 - 1)


def coordinates(a, rng):
    """Coordinates outside the matrix."""
    matrix, which = sp.coo_array(a), int(rng.integers(2))
    changed = entry(rng.choice(FAR), rng)(matrix.coords[which].copy())
    matrix.coords = tuple(changed if k == which else one for k, one in enumerate(matrix.coords))
    return matrix


def lists(a, rng):
    matrix = sp.lil_array(a)
    row = int(rng.integers(len(matrix.rows))) if len(matrix.rows) else None
    if row is not None:
        target = matrix.rows if rng.random() < 0.5 else matrix.data
        target[row] = [*target[row], int(rng.choice(FAR))]
    return matrix


def keys(a, rng):
    matrix = sp.dok_array(a)
    matrix._dict[int(rng.choice(FAR)), int(rng.choice(FAR))] = 1.0
    return matrix


def compressed(a, rng):
    """CSR, CSC or BSR with a damaged array."""
    matrix = getattr(sp, f"{rng.choice(['csr', 'csr', 'csc', 'bsr'])}_array")(a)
    changes = [
        ("indices", entry(rng.choice(FAR), rng)),
        ("indptr", entry(rng.choice([*FAR, 1, 2, 3]), rng)),
        ("indices", lambda array: array[:-1]),
        ("indices", lambda array: array.astype(float)),
        ("indices", lambda array: array[None]),
        ("indptr", lambda array: array[:-1]),
        ("indptr", lambda array: np.append(array, array[-1:])),
        ("indptr", lambda array: array[::-1]),
        ("indptr", lambda array: array + 1),
        ("indptr", lambda array: None),
        ("data", lambda array: array[:-1]),
        ("data", lambda array: put(array, np.nan, rng)),
        ("data", lambda array: put(array, np.inf, rng)),
        ("data", lambda array: array.astype(complex)),
        ("data", lambda array: array.astype(object)),
        ("data", lambda array: array.reshape(-1, 1, 1, 1)),
    ]
    return tampered(matrix, *changes[int(rng.integers(len(changes)))])


SPARSE_DAMAGE = [
    *(compressed,) * 8,
    coordinates,
    lists,
    keys,
    lambda a, rng: tampered(sp.dia_array(a), "offsets", lambda array: array[:-1]),
    lambda a, rng: tampered(sp.dia_array(a), "offsets", entry(rng.choice(FAR), rng)),
    lambda a, rng: tampered(sp.dia_array(a), "data", lambda array: array[:, :-1]),
    lambda a, rng: sp.csr_array(a)[:, :-1],
    lambda a, rng: sp.csr_array(np.hstack([a, a])),
    lambda a, rng: masked(a, rng),
    lambda a, rng: put(a, np.nan, rng),
    lambda a, rng: put(a, 1j, rng, complex),
    lambda a, rng: a.tolist()[0] if len(a) > 1 else None,
    lambda a, rng: None,
    lambda a, rng: "text",
]

TOKEN_DAMAGE = [
    lambda d, rng: d | {1: 1.0},
    lambda d, rng: d | {"a": "1"},
    lambda d, rng: d | {"a": None},
    lambda d, rng: d | {"a": 1j},
    lambda d, rng: d | {"a": np.complex128(1j)},
    lambda d, rng: d | {"a": float(rng.choice([np.nan, np.inf]))},
    lambda d, rng: d | {"a": 10**400},
    lambda d, rng: d | {"a": np.longdouble("1e4000")},
    lambda d, rng: d | {"a": np.ma.masked},
    lambda d, rng: d | {"a": np.array([1.0])},
    lambda d, rng: {"a": np.array([1.0, 2.0])},
    lambda d, rng: d | {"a": np.datetime64("2020-01-01")},
    lambda d, rng: d | {("a", "b"): 1.0},
    lambda d, rng: [*d, ["a"]],
    lambda d, rng: {*d, 3},
    lambda d, rng: (name for name in d),
    lambda d, rng: "name",
    lambda d, rng: b"name",
    lambda d, rng: 3,
    lambda d, rng: None,
    lambda d, rng: np.array([1.0, 2.0]),
    lambda d, rng: np.ma.array(["a", "b"], mask=[False, True]),
    lambda d, rng: dict,
]

EDGES_DAMAGE = [
    lambda e, rng: put(e, rng.choice(FAR), rng),
    lambda e, rng: put(e.astype("u8"), 2**64 - 1, rng),
    lambda e, rng: np.concatenate([e, [[0, 0]]]),
    lambda e, rng: e.astype(float),
    lambda e, rng: put(e.astype(object), 2**70, rng),
    lambda e, rng: np.hstack([e, e]),
    lambda e, rng: e.T if len(e) != 2 else None,
    lambda e, rng: e[:-1] if len(e) else None,
    lambda e, rng: masked(e, rng),
    lambda e, rng: sp.csr_array(e) if len(e) else None,
    lambda e, rng: e.ravel(),
    lambda e, rng: None,
    lambda e, rng: {(0, 1)},
    lambda e, rng: "01",
]

LABEL_DAMAGE = [
    lambda y, rng: put(y, "?" if words(y) else 10**6, rng),
    lambda y, rng: put(y.astype(object), None, rng),
    lambda y, rng: put(y.astype(object), 2**70, rng),
    lambda y, rng: put(y.astype(object), y.ravel()[0] + "\0" if words(y) and y.size else 0.5, rng),
    lambda y, rng: put(y, np.nan, rng, float) if not words(y) else np.strings.encode(y, "utf-8"),
    lambda y, rng: put(y, 0.5, rng, float) if not words(y) else y[..., None],
    lambda y, rng: put(y, 1j, rng, complex) if not words(y) else None,
    lambda y, rng: put(y.astype("u8"), 2**64 - 1, rng) if not words(y) else np.zeros(y.shape),
    lambda y, rng: masked(y, rng),
    lambda y, rng: y[:-1] if y.ndim else y[None],
    lambda y, rng: np.concatenate([y, y[:1]]) if y.ndim else [0, 1],
    lambda y, rng: np.full(y.shape, np.datetime64("2020-01-01")),
    lambda y, rng: None,
    lambda y, rng: {0},
    lambda y, rng: (one for one in y.ravel()),
    lambda y, rng: sp.csr_array((1, 1)),
]

DAMAGES = {"dense": DENSE_DAMAGE, "sparse": SPARSE_DAMAGE, "edges": EDGES_DAMAGE, "label": LABEL_DAMAGE}
