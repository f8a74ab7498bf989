"""Features at positions of a pattern: ``x[t - 1]``, ``[x[i], x[j], g[i, j]]``, ``Feature(function, i, j, width=3)``.

A row for each factor, in the order of the pattern; rows at positions that do not exist are zeros.  Users' functions of
the states of factors are called here, too: prices of a loss, and what ``Forbid`` and ``Allow`` rule out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64, Bools
from ssvm_dsl.compiler.features.encode import Encoder, Rows
from ssvm_dsl.compiler.features.sparse import side_by_side
from ssvm_dsl.compiler.inputs import check_finite
from ssvm_dsl.compiler.scopes import Scopes
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.features import SparseRows
from ssvm_dsl.lang.features.sources import Concat, Feature
from ssvm_dsl.lang.functions import FunctionRef
from ssvm_dsl.lang.inputs import At, Source
from ssvm_dsl.lang.outputs.labels import Target
from ssvm_dsl.lang.symbols import show


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


def class_arrays(target: Target) -> list[NDArray[Any]]:
    """Return the classes of each variable of a factor, each on an axis of its own after that of factors."""
    r = target.arity
    names = [np.array(label.classes or range(label.n_states)) for label in target.members]
    return [one.reshape(1, *(-1 if k == at else 1 for k in range(r))) for at, one in enumerate(names)]


def call_of_factors(
    ref: FunctionRef, classes: Sequence[NDArray[Any]], places: Sequence[Any], target: Target, scopes: Scopes,
    encoder: Encoder, what: str,
) -> F64:  # fmt: skip
    """Return what a function says of each joint state of each factor of a batch, ``shape (n, *cards)``.

    Parameters
    ----------
    ref : FunctionRef
        Called once for each example: with classes, then positions, then inputs by name.
    classes : sequence of ndarray, shape (1 or n, ...)
        Of each factor, or of all.
    places : sequence of positions
    target : Target
    scopes : Scopes
        Of n factors.
    encoder : Encoder
    what : str
        What the function belongs to, for messages.

    Raises
    ------
    DataError
        The function fails, or returns another shape.
    """
    shapes, found, cards = scopes.shapes, scopes.found, target.cards
    assert found is not None
    columns = [found.position(one, getattr(one, "axis", None))[0] for one in places]
    out = np.zeros((shapes.n_factors, *cards))
    for i in range(shapes.n_examples):
        mine, lo, hi = shapes.factors(i), int(shapes.ptr[i]), int(shapes.ptr[i + 1])
        given = [one if len(one) == 1 else one[lo:hi] for one in classes]
        given += [column[mine].reshape(-1, *[1] * len(cards)) for column in columns]
        value = encoder.call_at(ref, i, given, what)
        try:
            out[lo:hi] = np.broadcast_to(value, (hi - lo, *cards))
        except ValueError as err:
            expected = f"an array that broadcasts to {(hi - lo, *cards)}"
            raise DataError(f"{what} {ref.path}", example=i, expected=expected, found=f"shape {value.shape}") from err
    return out
