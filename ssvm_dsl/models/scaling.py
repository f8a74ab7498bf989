"""Inputs of ready models brought to one scale: what their declarations have in place of a bare input.

Regularisation treats all weights alike, so that a column of large numbers gets small weights for nothing, and a column
of small ones is hardly used.  Dense inputs are standardised.  Sparse ones and attributes are divided by the largest
absolute value of each column, which keeps zeros, where that is above 10 or below .1 in some column: frequencies of
words are, names that are there or not are 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ssvm_dsl.lang.arrays import is_sparse
from ssvm_dsl.lang.features.sources import Scaled, Standardized
from ssvm_dsl.lang.inputs import Attributes, Input, Source

#: How many times as large, or as small, as 1 the largest number of a column may be: that is what a name counts.
APART = 10.0


def scaled(x: Input | Attributes, examples: Sequence[Any]) -> Source:
    """Return an input on one scale.

    Parameters
    ----------
    x : Input or Attributes
    examples : sequence
        What is given for the input in each example.
    """
    if isinstance(x, Input) and not x.sparse:
        return Standardized(x)
    return Scaled(x) if are_apart(examples) else x


def are_apart(examples: Any) -> bool:
    """Whether the largest absolute value of some column of sparse rows or named features is far from 1.

    Values are looked at before columns: most features are names, all of which count 1.
    """
    values = set[Any]()
    _gather(examples, values)
    sizes = [abs(float(one)) for one in values if _is_number(one)]
    most, least = max(sizes, default=0.0), min(filter(None, sizes), default=1.0)
    if most > APART or least * APART >= 1.0:
        return most > APART
    largest = dict[Any, float]()
    _gather_columns(examples, largest)
    return min(filter(None, largest.values()), default=1.0) * APART < 1.0


def _gather(one: Any, values: set[Any]) -> None:
    """Add the different values of sparse rows, or of named features, however they are nested."""
    if is_sparse(one):
        there = np.abs(one.data[one.data != 0.0])
        values.update((float(there.max()), float(there.min())) if len(there) else ())
    elif hasattr(one, "select_dtypes"):
        values.update(one.select_dtypes("number").to_numpy(dtype=np.float64).ravel().tolist())
    elif isinstance(one, Mapping):
        try:
            values.update(one.values())
        except TypeError:  # a value that is refused later
            values.update(filter(_is_number, one.values()))
    elif isinstance(one, list | tuple):
        for part in one:
            if not isinstance(part, str):
                _gather(part, values)


def _gather_columns(one: Any, largest: dict[Any, float]) -> None:
    """Note the largest absolute value of each column."""
    if is_sparse(one):
        rows = one.tocsc()
        for column in np.flatnonzero(np.diff(rows.indptr)).tolist():
            size = float(np.abs(rows.data[rows.indptr[column] : rows.indptr[column + 1]]).max())
            largest[column] = max(largest.get(column, 0.0), size)
    elif hasattr(one, "select_dtypes"):
        for name, column in one.select_dtypes("number").items():
            size = float(np.nanmax(np.abs(column.to_numpy(dtype=np.float64)), initial=0.0))
            largest[name] = max(largest.get(name, 0.0), size)
    elif isinstance(one, Mapping):
        for name, value in one.items():
            if _is_number(value):
                largest[name] = max(largest.get(name, 0.0), abs(float(value)))
    elif isinstance(one, list | tuple):
        for part in one:
            if not isinstance(part, str):
                _gather_columns(part, largest)


def _is_number(value: Any) -> bool:
    return (type(value) in (int, float) or isinstance(value, np.number)) and bool(np.isfinite(value))
