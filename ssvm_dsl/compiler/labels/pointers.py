"""Pointers as users write them, positions, and as programs have them: a yes or no for each pair of positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.compiler.features.sparse import checked
from ssvm_dsl.compiler.inputs import position_words
from ssvm_dsl.compiler.labels.label_structure import LabelPlaces, LabelStructure
from ssvm_dsl.compiler.labels.unknown_labels import UnseenClasses, signed_hint
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.lang.arrays import is_masked, number_text, real_array, whole_numbers
from ssvm_dsl.lang.outputs.labels import Label

#: The value of a pointer that points nowhere.
NOWHERE = -1


def read_pointers(
    label: Label, values: Sequence[Any], shape_of: Callable[[int], tuple[int, ...]]
) -> tuple[I32, I32, Bools]:
    """Return (whether each position points to each, whether each points nowhere, which pointers are not known), packed.

    Parameters
    ----------
    label : Label
        A pointer label.
    values : sequence of arrays of ints
        What each position of each example points to, -1 for nowhere.  Not known are ``None``, masked entries, and what
        the label says is (``unknown=``).
    shape_of : callable
        Returns the shape of the pairs of an example: of the pointers, then how many positions there are to point to.

    Raises
    ------
    DataError
        Naming label, example, expected and found.
    """
    shapes = [shape_of(i) for i in range(len(values))]
    read = [_positions(label, value, i, *size) for i, (value, size) in enumerate(zip(values, shapes, strict=True))]
    n_rows = np.array([prod(shape[:-1]) for shape in shapes], dtype=np.int64)
    n_cols = np.array([shape[-1] for shape in shapes], dtype=np.int64)
    flat = np.concatenate([np.zeros(0, np.int64), *(found for found, _ in read)])
    unknown = np.concatenate([np.zeros(0, dtype=bool), *(hidden for _, hidden in read)])
    width = np.repeat(n_cols, n_rows)
    pairs, there = np.zeros(int(width.sum()), dtype=np.int32), flat >= 0
    pairs[(pointers(width)[:-1] + flat)[there]] = 1
    return pairs, (~there).astype(np.int32), unknown


def _positions(label: Label, value: Any, i: int, *shape: int) -> tuple[I64, Bools]:
    """Return the pointers of one example, and which of them are not known."""
    *own, n_cols = shape
    what, hidden = f"label '{label.name}'", np.zeros(prod(own), dtype=bool)
    if value is None:
        return np.full(prod(own), NOWHERE), ~hidden
    if is_masked(value):
        hidden = np.ma.getmaskarray(value).ravel()
        value = np.ma.filled(value, NOWHERE)
    elif isinstance(value, list | tuple | np.ndarray):
        listed = np.array(value, dtype=object) if np.ndim(value) == len(own) else np.zeros(0, dtype=object)
        gaps = np.array([one is None for one in listed.ravel()], dtype=bool)
        if gaps.any():
            hidden = gaps
            value = np.where(gaps.reshape(listed.shape), NOWHERE, listed).tolist()
    array = np.asarray(checked(real_array, value, what, i))
    if array.shape != tuple(own):
        axes = ", ".join(f"{dim.name}={size}" for dim, size in zip(label.dims, own, strict=False))
        raise DataError(what, example=i, expected=f"shape ({axes})", found=f"shape {array.shape}")
    array = array.ravel()
    whole, exact = whole_numbers(array)
    if label.unknown is not None:
        marked = exact & (whole == label.unknown) & ~hidden
        hidden, whole = hidden | marked, np.where(marked, NOWHERE, whole)
    wrong = np.flatnonzero((~exact | (whole < NOWHERE) | (whole >= n_cols)) & ~hidden)
    if len(wrong):
        nowhere = f", or {NOWHERE} for nowhere" if label.null else ""
        expected = f"positions in 0..{n_cols - 1} ({label.dims[-1].origin.name}={n_cols}){nowhere}"
        value = array[wrong[0]].item()
        found = f"{number_text(value)} {position_words(label.dims[:-1], tuple(own), int(wrong[0]))}"
        raise DataError(what, example=i, expected=expected, found=found, hint=signed_hint(label, value))
    return whole, hidden


def pointed(pairs: I32, n_rows: I64, n_cols: I64) -> list[Any]:
    """Return what each position of each example points to, -1 for nowhere; the inverse of :func:`read_pointers`."""
    out = []
    for table in _tables(pairs, n_rows, n_cols):
        targets = np.full(len(table), NOWHERE, dtype=np.int64)
        row, col = np.nonzero(table > 0)
        targets[row] = col
        out.append(targets)
    return out


def pair_values(pairs: F64, none: F64 | None, n_rows: I64, n_cols: I64) -> list[Any]:
    """Return numbers of all pairs as arrays (positions, what they point to), "nowhere" last where there is one."""
    tables = list(_tables(pairs, n_rows, n_cols))
    if none is None:
        return tables
    ends = pairwise(pointers(n_rows).tolist())
    return [np.column_stack([table, none[lo:hi]]) for table, (lo, hi) in zip(tables, ends, strict=True)]


def _tables(flat: NDArray[Any], n_rows: I64, n_cols: I64) -> Iterator[NDArray[Any]]:
    for (lo, hi), rows, cols in zip(
        pairwise(pointers(n_rows * n_cols).tolist()), n_rows.tolist(), n_cols.tolist(), strict=True
    ):
        yield flat[lo:hi].reshape(rows, cols)


class PointerLabels(LabelStructure):
    """Labels whose values are positions."""

    has_classes: ClassVar[bool] = False

    def words(self, label: Label) -> str:
        """Return what plans and reports call such a label."""
        assert label.over is not None
        return f"pointers to {label.over.name}{' or nowhere' if label.null else ''}"

    def judged(self, label: Label, parts_alone: bool) -> tuple[Label, ...]:
        """Return the pairs, and who points nowhere."""
        return (label, *label.parts)

    def encode(
        self, places: LabelPlaces, label: Label, values: Sequence[Any], out: tuple[I32, Bools], partial: bool,
        unseen: UnseenClasses | None = None,
    ) -> list[I64]:  # fmt: skip
        """Write whether each position points to each, or nowhere, and which pointers are not known."""
        states, ignored = out
        n_rows, n_cols = places.pairs(label)
        pairs, none, unknown = read_pointers(label, values, lambda i: places.shape(label, i))
        states[places.variables(label)] = pairs
        ignored[places.variables(label)] = np.repeat(unknown, np.repeat(n_cols, n_rows))
        if label.none is not None:
            states[places.variables(label.none)], ignored[places.variables(label.none)] = none, unknown
        return []

    def decode(self, places: LabelPlaces, label: Label, states: I32) -> list[Any]:
        """Return the position that each pointer points to, -1 for nowhere."""
        found = pointed(states[places.variables(label)], *places.pairs(label))
        return [one.reshape(places.shape(label, i)[:-1]) for i, one in enumerate(found)]
