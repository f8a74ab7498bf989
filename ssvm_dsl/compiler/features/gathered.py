"""Features at positions of a pattern: ``x[t - 1]``, ``[x[i], x[j], g[i, j]]``, ``Feature(function, i, j, width=3)``.

A row for each factor, in the order of the pattern; rows at positions that do not exist are zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ssvm_dsl.array_types import F64, I64, Bools
from ssvm_dsl.compiler.features.encode import Encoder, Rows
from ssvm_dsl.compiler.features.sparse import side_by_side
from ssvm_dsl.compiler.inputs import check_finite
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.features import SparseRows
from ssvm_dsl.lang.features.sources import Concat, Feature
from ssvm_dsl.lang.inputs import At, Source
from ssvm_dsl.lang.symbols import show

if TYPE_CHECKING:
    from ssvm_dsl.compiler.scopes import Scopes


def gathered_rows(source: Source, encoder: Encoder, scopes: Scopes) -> Rows:
    """Return the feature rows of all factors of a batch, example by example.

    Parameters
    ----------
    source : Source
        Features at positions; parts without axes are the same for all factors of an example.
    encoder : Encoder
    scopes : Scopes
        Of all factors, none left out.
    """
    values = _values(source, encoder, scopes)
    if not isinstance(values, SparseRows):
        values = np.ascontiguousarray(values)
    return Rows((), values, scopes.shapes.ptr)


def plain_rows(source: Source | None, encoder: Encoder, scopes: Scopes) -> Rows | None:
    """Return the rows of a source of which each factor takes one, as they are; ``None`` if rows must be made."""
    if (
        not isinstance(source, At)
        or source.column is not None
        or scopes.rows(source.places, source.source.dims)[1] is not None
    ):
        return None
    return encoder.rows(source.source)


def _values(source: Source, encoder: Encoder, scopes: Scopes) -> F64 | SparseRows:
    if isinstance(source, Concat):
        parts = [_values(part, encoder, scopes) for part in source.parts]
        return side_by_side(parts)
    if isinstance(source, At):
        rows = encoder.rows(source.source)
        local, known = scopes.rows(source.places, source.source.dims)
        return _taken(rows, local, known, scopes, source.column)
    if isinstance(source, Feature) and source.places:
        return _called(source, encoder, scopes)
    rows = encoder.rows(source)
    return _taken(rows, np.zeros(len(scopes.place), dtype=np.int64), None, scopes, None)


def _taken(rows: Rows, local: I64, known: Bools | None, scopes: Scopes, column: int | None) -> F64 | SparseRows:
    """Return rows for each factor of the batch, zeros where positions do not exist."""
    there = None if known is None else scopes.shapes.spread(known)
    index = scopes.shapes.spread(local, rows.ptr[:-1])
    values = rows.values
    if not isinstance(values, SparseRows):
        if column is not None:
            values = values[:, column : column + 1]
        if there is None:
            return np.asarray(values[index])
        out = np.zeros((len(index), values.shape[1]))
        out[there] = values[index[there]]
        return out
    from scipy.sparse import csr_array

    matrix = csr_array((values.data, values.indices, values.ptr), shape=values.shape)
    if column is not None:
        matrix = matrix[:, [column]]
    if there is not None:  # an empty row after the last one
        ptr = np.append(matrix.indptr, matrix.indptr[-1])
        matrix = csr_array((matrix.data, matrix.indices, ptr), shape=(matrix.shape[0] + 1, matrix.shape[1]))
        index = np.where(there, index, matrix.shape[0] - 1)
    return SparseRows.of_csr(matrix[index].tocsr())


def _called(source: Feature, encoder: Encoder, scopes: Scopes) -> F64:
    """Return the rows that a function of positions makes, called once for each example with its distinct positions."""
    instances, shapes = scopes.found, scopes.shapes
    assert instances is not None
    columns, known = [], np.ones(len(instances), dtype=bool)
    for place in source.places:
        at, there = instances.position(place, getattr(place, "axis", None))
        columns.append(at)
        known &= True if there is None else there
    table, out = np.stack(columns, axis=1), np.zeros((shapes.n_factors, source.width))
    ends, what = shapes.ptr, f"Feature {source.ref.path}"
    for i in range(shapes.n_examples):
        if not encoder.goes_on(source, i):
            break
        mine = shapes.factors(i)
        listed = np.flatnonzero(known[mine])
        if not len(listed):
            continue
        places, number = np.unique(table[mine][listed], axis=0, return_inverse=True)
        value = encoder.call_at(source.ref, i, list(places.T.copy()), "Feature")
        if value.shape != (len(places), source.width) and not (source.width == 1 and value.shape == (len(places),)):
            expected = f"shape ({len(places)}, {source.width}): a row for each of the positions {show(source.places)}"
            raise DataError(what, example=i, expected=expected, found=f"shape {value.shape}")
        out[ends[i] + listed] = value.reshape(-1, source.width)[number.reshape(-1)]
    check_finite(out, ends, what)
    return out
