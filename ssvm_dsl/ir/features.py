"""``FeatureMap``: the factored map from one block of weights to the scores of one factor template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import prod
from threading import Lock
from typing import Any, cast

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.ir.shapes import Shapes

NODE = -1

#: Numbers in a table of the weights of observed pairs, at most.
SPREAD = 3 * 2**19

#: Factors of a map of which places are kept one by one.
FEW_FACTORS = 2**12


@dataclass(frozen=True)
class Block:
    """A named part of the weight vector.

    Parameters
    ----------
    name : str
        Name of the factor template that owns the weights.
    offset : int
        Where the block starts in w.
    shape : tuple of int
        The shape users see: units, then states, then features.
    lower_bound : float
        0 for non-negative weights, ``-inf`` otherwise.
    feature_axis : int, optional
        Where the last (feature) axis of ``shape`` is *stored*; sparse features keep all states of a feature
        together.  ``None``: stored as shown.
    """

    name: str
    offset: int
    shape: tuple[int, ...]
    lower_bound: float = -np.inf
    feature_axis: int | None = None

    @cached_property
    def size(self) -> int:
        """Number of weights."""
        return prod(self.shape)

    @cached_property
    def stop(self) -> int:
        """Where the block ends in w."""
        return self.offset + self.size

    def view(self, w: F64) -> F64:
        """Return the block of a weight vector in the shape users see (a view)."""
        part = w[self.offset : self.stop]
        if self.feature_axis is None:
            return part.reshape(self.shape)
        stored = list(self.shape[:-1])
        stored.insert(self.feature_axis, self.shape[-1])
        return np.moveaxis(part.reshape(stored), self.feature_axis, -1)


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of features in CSR form.

    Parameters
    ----------
    data : ndarray of float64, shape (nnz,)
    indices : ndarray of int32, shape (nnz,)
    ptr : ndarray of int64, shape (R + 1,)
    n_columns : int
    """

    data: F64
    indices: I32
    ptr: I64
    n_columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """(number of rows, number of columns)."""
        return len(self.ptr) - 1, self.n_columns

    @classmethod
    def of_csr(cls, matrix: Any) -> SparseRows:
        """Return a ``scipy.sparse`` CSR matrix in the types of the IR."""
        data, indices = matrix.data.astype(np.float64, copy=False), matrix.indices.astype(np.int32, copy=False)
        return cls(data, indices, matrix.indptr.astype(np.int64), int(matrix.shape[1]))

    def read_columns(self, indices: I32) -> None:
        """Read the columns from another array of the same content from now on."""
        object.__setattr__(self, "indices", indices)


@dataclass(frozen=True, eq=False)
class SlicedRows:
    """Rows of dense features that are made when they are asked for, some at a time, and not kept.

    Parameters
    ----------
    shape : tuple of int
        (number of rows, number of columns).
    make : callable
        Returns the rows of some numbers, ``ndarray of int64``.
    """

    shape: tuple[int, int]
    make: Callable[[I64], F64]

    def __getitem__(self, rows: slice | I64) -> F64:
        """Return some rows."""
        return self.make(np.arange(*rows.indices(self.shape[0])) if isinstance(rows, slice) else rows)


@dataclass(frozen=True, eq=False)
class ObservedPairs:
    """The pairs of a feature and a joint state that have a weight; all others score zero.

    The weights lie in this order, so that those of one feature are a run.

    Parameters
    ----------
    ptr : ndarray of int64, shape (P + 1,)
        Pairs of each feature.
    state : ndarray of int32, shape (n_pairs,)
        Joint state of each pair, ascending for each feature.
    """

    ptr: I64
    state: I32

    @property
    def n_features(self) -> int:
        """Number of features P."""
        return len(self.ptr) - 1

    @property
    def n_pairs(self) -> int:
        """Number of pairs, which is that of weights."""
        return len(self.state)

    def pair(self, number: int) -> tuple[int, int]:
        """Return (joint state, feature) of one of the weights."""
        return int(self.state[number]), int(np.searchsorted(self.ptr, number, side="right")) - 1


class SpreadPairs:
    """Weights of observed pairs as rows of a table, a number for each joint state, so that sums take rows as a whole.

    Features with more pairs come first where a table for all is too large; the others have no row.

    Parameters
    ----------
    pairs : ObservedPairs
    n_configs : int

    Attributes
    ----------
    width : int
        Numbers of a row: joint states, and zeros up to a multiple of 4.
    common : ndarray of int32, shape (P,) or (0,)
        The row of each feature, -1 for those without; empty where each has its own, in their order.
    """

    def __init__(self, pairs: ObservedPairs, n_configs: int) -> None:
        counts, self.width = np.diff(pairs.ptr), -(-n_configs // 4) * 4
        most, common = SPREAD // self.width, np.ones(len(counts), dtype=bool)
        if len(counts) > most:
            common = counts > np.partition(counts, -1 - most)[-1 - most]
        row = np.where(common, np.cumsum(common) - 1, -1).astype(np.int32)
        self.n_rows, owner = int(np.count_nonzero(common)), np.repeat(row, counts)
        self.common = np.zeros(0, np.int32) if common.all() else row
        self._pairs = slice(None) if common.all() else np.flatnonzero(owner >= 0)
        self._places = (owner.astype(np.int64) * self.width + pairs.state)[self._pairs]
        self._made = pairs, n_configs
        self._tables: list[_SpreadTable] = []
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[SpreadPairs], tuple[ObservedPairs, int]]:
        return SpreadPairs, self._made

    def _free(self) -> _SpreadTable:
        """Return a table that nobody uses."""
        for table in self._tables:
            if not table.n_users:
                return table
        self._tables.append(_SpreadTable(np.zeros(self.n_rows * self.width)))
        return self._tables[-1]

    @contextmanager
    def table(self, weights: F64) -> Iterator[F64]:
        """Lend the table of some weights, one row after the other, ``shape (n_rows * width,)``; not to be written to.

        Threads that ask for it with the same weights read the same one.
        """
        with self._lock:
            same = (t for t in self._tables if t.weights is not None and np.array_equal(t.weights, weights))
            known = next(same, None)
            lent = self._free() if known is None else known
            if known is None:
                lent.numbers[self._places], lent.weights = weights[self._pairs], weights.copy()
            lent.n_users += 1
        try:
            yield lent.numbers
        finally:
            with self._lock:
                lent.n_users -= 1

    @contextmanager
    def adding_to(self, weights: F64) -> Iterator[F64]:
        """Lend a table of zeros, and add what it holds for the pairs at the end to some weights."""
        with self._lock:
            lent = self._free()
            lent.n_users, lent.weights = 1, None
        lent.numbers[:] = 0.0
        try:
            yield lent.numbers
            weights[self._pairs] += lent.numbers[self._places]
        finally:
            lent.numbers[:] = 0.0
            with self._lock:
                lent.n_users = 0


@dataclass(eq=False)
class _SpreadTable:
    """Numbers of a table that are zero but for the pairs, the weights that these are, and how many use it now."""

    numbers: F64
    weights: F64 | None = None
    n_users: int = 0


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """The factored map from one block of weights to the scores of one factor template.

    Parameters
    ----------
    name : str
        Name of the factor template.
    group : int
        The group whose tables it fills, or ``NODE`` (-1) for unary scores.
    cards : tuple of int
        States of the variables of a factor.
    shapes : Shapes
        The variables of the factors, stored once for each distinct shape.
    block : Block
        The weights.
    n_units, n_basis : int
        Untied copies of the weights; basis functions q in each.
    features : ndarray (R, P), SparseRows, SlicedRows or None
        Feature rows (``None``: one constant feature).  With ``joint`` there is a row for each joint state of
        each factor, ``R = n * prod(cards)``.
    row_ptr : ndarray of int64, shape (B + 1,)
        Feature rows of each example.
    rows : ndarray of int32, shape (m,), optional
        Feature row of each factor of the shapes, counted from the example's ``row_base`` (``None``: factor f of the
        batch has row f).
    row_base : ndarray of int64, shape (B,), optional
        Given with ``rows``.
    units : ndarray of int32, shape (m,), optional
        Unit of each factor of the shapes (``None``: 0).
    basis : ndarray of float64, shape (q, prod(cards)), optional
        The form (``None``: identity).
    joint : bool
        Whether features depend on the joint state.
    observed : ObservedPairs, optional
        Only these pairs of a (sparse) feature and a joint state have a weight: one unit, no basis, and a block of
        shape ``(n_pairs,)``.
    source : str
        A description of the features for messages: ``"input 'x'"``.
    """

    name: str
    group: int
    cards: tuple[int, ...]
    shapes: Shapes
    block: Block
    n_units: int
    n_basis: int
    features: F64 | SparseRows | SlicedRows | None
    row_ptr: I64
    rows: I32 | None = None
    row_base: I64 | None = None
    units: I32 | None = None
    basis: F64 | None = None
    joint: bool = False
    observed: ObservedPairs | None = None
    source: str = "the features"

    @property
    def n_factors(self) -> int:
        """Number of factors."""
        return self.shapes.n_factors

    @property
    def ptr(self) -> I64:
        """Factors ``ptr[i]:ptr[i + 1]`` belong to example i; ``ndarray, shape (B + 1,)``."""
        return self.shapes.ptr

    @property
    def local_rows(self) -> I32:
        """Feature row of each factor of the shapes, counted from the example's base; ``ndarray, shape (m,)``."""
        return self.shapes.own_number if self.rows is None else self.rows

    @cached_property
    def row_bases(self) -> I64:
        """The base of the feature rows of each example; ``ndarray of int64, shape (B,)``."""
        return self.shapes.ptr[:-1] if self.row_base is None else self.row_base

    def variables(self, examples: I64 | None) -> I32:
        """Return the variables of each factor of the selected examples (global numbers); ``shape (n, r)``."""
        return self.scope if examples is None and self._few else self.shapes.variables(examples)

    @cached_property
    def _few(self) -> bool:
        """Whether an entry for every factor of every example takes little memory."""
        return self.n_factors <= FEW_FACTORS

    @cached_property
    def _all_rows(self) -> I64:
        return self.shapes.spread(self.local_rows.astype(np.int64), self.row_bases)

    def share_places(self) -> None:
        """Work out where factors, rows and units of few factors are, for all maps of other features."""
        if self._few:
            _ = self.scope, self._all_rows, self.unit

    def rows_of(self, examples: I64 | None) -> I64:
        """Return the feature row of each factor of the selected examples; ``shape (n,)``."""
        if examples is None and self._few:
            return self._all_rows
        return self.shapes.spread(self.local_rows.astype(np.int64), self.row_bases, examples)

    def units_of(self, examples: I64 | None) -> I32:
        """Return the unit of each factor of the selected examples; ``shape (n,)``."""
        if self.units is None:
            return np.zeros(self.shapes.count(examples), dtype=np.int32)
        if examples is None and self._few:
            assert self.unit is not None
            return self.unit
        return self.shapes.spread(self.units, None, examples)

    # what follows takes memory for every factor of every example, and keeps it

    @cached_property
    def scope(self) -> I32:
        """The variables of each factor of the batch (global numbers); ``ndarray of int32, shape (n, r)``."""
        return self.shapes.variables()

    @cached_property
    def row(self) -> I32 | None:
        """Feature row of each factor of the batch; ``ndarray of int32, shape (n,)`` or ``None`` (its own number)."""
        return None if self.rows is None else self.shapes.spread(self.rows, self.row_base)

    @cached_property
    def unit(self) -> I32 | None:
        """Unit of each factor of the batch; ``ndarray of int32, shape (n,)`` or ``None`` (0)."""
        return None if self.units is None else self.shapes.spread(self.units)

    @property
    def n_configs(self) -> int:
        """Joint states of a factor."""
        return prod(self.cards)

    @cached_property
    def spread(self) -> SpreadPairs:
        """The weights of observed pairs as rows of a table."""
        assert self.observed is not None
        return SpreadPairs(self.observed, self.n_configs)

    @property
    def width(self) -> int:
        """Number of features P."""
        return 1 if self.features is None else int(self.features.shape[1])

    @property
    def sparse(self) -> bool:
        """Whether features are CSR rows."""
        return isinstance(self.features, SparseRows)

    def with_features(
        self, features: F64 | SparseRows | SlicedRows | None, observed: ObservedPairs | None = None
    ) -> FeatureMap:
        """Return the map of other feature rows, as many as these: what follows from the structure is shared."""
        made = object.__new__(FeatureMap)
        made.__dict__.update(self.__dict__, features=features, observed=observed)
        return made

    def weights(self, w: F64) -> F64:
        """Return the block as stored (a view): ``(U, q, P)``, ``(U, P, q)`` for sparse features.

        With ``observed`` it is ``(1, n_pairs)``.
        """
        part = w[self.block.offset : self.block.stop]
        if self.observed is not None:
            return part.reshape(1, -1)
        if isinstance(self.features, SparseRows):
            return part.reshape(self.n_units, self.features.n_columns, self.n_basis)
        return part.reshape(self.n_units, self.n_basis, -1 if len(part) else self.width)


    def shared_tables(self, w: F64) -> F64:
        """Return the tables of factors without features, ``shape (n_units, prod(cards))``; not to be written to.

        Those of a form are kept with their weights: they are the same from one prediction to the next.
        """
        values = self.weights(w)[:, :, 0]
        if self.basis is None:
            return values
        weights = values.tobytes()
        made = self.__dict__.get("_tables")
        if made is None or made[0] != weights:
            made = self.__dict__["_tables"] = weights, values @ self.basis
        return cast(F64, made[1])


def table_rows(fmap: FeatureMap) -> tuple[I32, I64, int]:
    """Return (table row of each factor of the shapes, base of each example, number of rows).

    Rows are shared wherever weights and features are: without features there is a row for each unit; with features
    and one unit a row for each feature row; else a row for each factor.
    """
    shapes = fmap.shapes
    if fmap.features is None:
        rows = np.zeros(len(shapes.scope), dtype=np.int32) if fmap.units is None else fmap.units
        return rows, np.zeros(shapes.n_examples, dtype=np.int64), fmap.n_units
    if fmap.units is None and not fmap.joint:
        if fmap.rows is None:
            return shapes.own_number, shapes.ptr[:-1], fmap.features.shape[0]
        assert fmap.row_base is not None
        return fmap.rows, fmap.row_base, fmap.features.shape[0]
    return shapes.own_number, shapes.ptr[:-1], shapes.n_factors


def pool_features(maps: Sequence[FeatureMap]) -> list[FeatureMap]:
    """Return maps whose dense features are views of one array (as they are when there is only one)."""
    if len(maps) == 1:
        return list(maps)
    dense = {id(m.features): m.features for m in maps if isinstance(m.features, np.ndarray)}
    if len(dense) <= 1:
        return list(maps)
    ptr = pointers(np.array([array.size for array in dense.values()], dtype=np.int64))
    pool = np.concatenate([array.ravel() for array in dense.values()])
    views = {
        key: pool[lo:hi].reshape(array.shape)
        for (key, array), lo, hi in zip(dense.items(), ptr[:-1], ptr[1:], strict=True)
    }
    return [m.with_features(views[id(m.features)]) if id(m.features) in views else m for m in maps]
