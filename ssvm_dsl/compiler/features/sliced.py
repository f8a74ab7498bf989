"""Features of spans that are not kept: a function makes those of some spans at a time, whenever they are asked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.compiler.inputs.validate import check_finite
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.features import SlicedRows
from ssvm_dsl.ir.ragged import pointers, runs
from ssvm_dsl.lang.features.sources import Feature


def sliced_rows(
    source: Feature, longest: int, sizes: I64, call: Callable[[int, dict[str, I64]], F64]
) -> tuple[SlicedRows, I64]:
    """Return rows of all spans up to a length, those of each start by length; and pointers to those of each example.

    Parameters
    ----------
    source : Feature
    longest : int
        Most positions of a span.
    sizes : ndarray of int64, shape (n,)
        Positions of each example.
    call : callable
        Returns what the function makes of example i, and of ``start`` and ``end`` of some of its spans.
    """
    first, width, what = pointers(sizes), source.width, f"Feature {source.ref.path}"
    at = runs(np.zeros(len(sizes), dtype=np.int64), sizes)
    before = pointers(np.minimum(np.repeat(sizes, sizes) - at, longest))  # spans of all earlier positions

    def make(rows: I64) -> F64:
        out, place = np.zeros((len(rows), width)), np.searchsorted(before, rows, side="right") - 1
        owner = np.searchsorted(first, place, side="right") - 1
        for i in np.unique(owner).tolist():
            mine = np.flatnonzero(owner == i)
            start = place[mine] - first[i]
            value = call(i, {"start": start, "end": start + 1 + rows[mine] - before[place[mine]]})
            if value.shape != (len(mine), width) and not (width == 1 and value.shape == (len(mine),)):
                expected = f"shape {(len(mine), width)}, a row for each of some spans"
                raise DataError(what, example=i, expected=expected, found=f"shape {value.shape}")
            out[mine] = value.reshape(-1, width)
            check_finite(out[mine], np.append(np.zeros(i + 1, dtype=np.int64), len(mine)), what)
        return out

    return SlicedRows((int(before[-1]), width), make), before[first]
