"""Inputs of ready models brought to one scale: what their declarations have in place of a bare input.

Regularisation treats all weights alike, so that a column of large numbers gets small weights for nothing, and a column
of small ones is hardly used.  Dense inputs are standardised.  Sparse ones and attributes are divided by the largest
absolute value of each column, which keeps zeros, where some are more than ten times as large as others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ssvm_dsl.lang.arrays import is_sparse
from ssvm_dsl.lang.features.sources import Scaled, Standardized
from ssvm_dsl.lang.inputs import Attributes, Input, Source

#: How many times as large as others numbers may be; those up to 1 count as 1, as the absence and presence of a name do.
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
    return Scaled(x) if largest(examples) > APART else x


def largest(examples: Any) -> float:
    """Return the largest absolute number in sparse rows, data frames or named features, however they are nested."""
    if is_sparse(examples):
        return float(np.abs(examples.data).max(initial=0.0))
    return max(_numbers(examples), default=0.0)


def _numbers(one: Any) -> Iterator[float]:
    """Yield the absolute values of numbers that have names."""
    if is_sparse(one):
        yield largest(one)
    elif hasattr(one, "select_dtypes"):
        columns = one.select_dtypes("number").to_numpy(dtype=np.float64)
        yield float(np.nanmax(np.abs(columns), initial=0.0))
    elif isinstance(one, Mapping):
        for value in one.values():
            if (type(value) in (int, float) or isinstance(value, np.number)) and np.isfinite(value):
                yield abs(float(value))
    elif isinstance(one, list | tuple):
        for part in one:
            if not isinstance(part, str):
                yield from _numbers(part)
