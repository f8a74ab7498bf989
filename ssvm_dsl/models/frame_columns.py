"""``FrameColumns``: the columns of data frames that a ready model was fitted to, and the features that they become.

Numbers stay numbers: gaps are filled with the median, and a feature marks where they were.  Text, categories and
booleans become a feature for each value, a gap being a value of its own; values that training has not seen have none.
The work is done by scikit-learn's ``SimpleImputer`` and ``OneHotEncoder`` in a ``ColumnTransformer``; what these learnt
is plain data that a model file holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.errors import DataError
from ssvm_dsl.lang.arrays import NotNumbers, describe, is_number
from ssvm_dsl.lang.frames import (
    CLASSES,
    DATES,
    NUMBERS,
    column_names,
    columns_of,
    date_hint,
    floats_of,
    is_frame,
    is_gap,
    is_numbered,
    kind_of_column,
    matched,
    with_index,
)
from ssvm_dsl.learning.tuning.folds import part_of
from ssvm_dsl.values import Value

#: Features of classes beyond which rows are sparse.
MOST_DENSE = 200


@dataclass(frozen=True, eq=False)
class FrameColumns(Value):
    """Columns of frames, and what was learnt to encode them.

    Parameters
    ----------
    names : list of str
        The columns, in the order of the first frame.
    named : bool
        Whether these are names, not only numbers.
    fill : dict of str to float
        What gaps of columns of numbers become.
    marked : list of str
        Columns of numbers that had gaps in training: a feature says where.
    categories : dict of str to list
        The values of columns of classes: text, whole numbers, booleans; ``None`` is a gap.
    """

    names: list[str]
    named: bool
    fill: dict[str, float] = field(default_factory=dict)
    marked: list[str] = field(default_factory=list)
    categories: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def learn(cls, frames: Sequence[Any], what: str) -> Self:
        """Return the columns of frames; the first one says which there are.

        Raises
        ------
        DataError
            A column is missing or unknown in some frame, or holds what cannot become features; names it.
        """
        named = not is_numbered(frames[0])
        made = cls(_checked(column_names, frames[0], what, 0), named)
        columns = made._collected(frames, what)
        for name, (values, declared) in columns.items():
            kind = _kind(values, declared, name, what)
            if kind == CLASSES:
                made.categories[name] = _categories(values)
                continue
            numbers = _finite_or_gap(floats_of(values), name, what)
            there = numbers[~np.isnan(numbers)]
            made.fill[name] = float(np.median(there)) if len(there) else 0.0
            if len(there) < len(numbers):
                made.marked.append(name)
        return made

    @property
    def sparse(self) -> bool:
        """Whether rows are sparse: there are very many values of classes."""
        return sum(map(len, self.categories.values())) > MOST_DENSE

    @cached_property
    def features(self) -> list[str]:
        """The names of the features, in their order: numbers, marks of gaps, values of classes."""
        marks = [f"{name} is missing" for name in self.marked]
        values = [f"{name} is missing" if one is None else f"{name}:{one}"
                  for name, listed in self.categories.items() for one in listed]  # fmt: skip
        return [*self.fill, *marks, *values]

    @cached_property
    def transformer(self) -> Any:
        """scikit-learn's ``ColumnTransformer`` of these columns, fitted, for matrices with a column for each.

        It is made of a few rows that hold what was learnt: their medians are the medians, their gaps are the marks.
        """
        from sklearn.compose import ColumnTransformer
        from sklearn.impute import SimpleImputer
        from sklearn.preprocessing import OneHotEncoder

        known = [np.array(listed, dtype=object) for listed in self.categories.values()]
        numbers = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
        classes = OneHotEncoder(categories=known, handle_unknown="ignore", sparse_output=self.sparse)
        parts = [("numbers", numbers, self._places(self.fill)), ("classes", classes, self._places(self.categories))]
        made = ColumnTransformer(
            [part for part in parts if part[2]], sparse_threshold=1.0 if self.sparse else 0.0
        )  # fmt: skip
        rows = np.empty((2 + max(map(len, known), default=0), len(self.names)), dtype=object)
        for name, k in zip(self.names, range(len(self.names)), strict=True):
            if name in self.fill:
                rows[:, k] = self.fill[name]
                rows[0, k] = np.nan if name in self.marked else self.fill[name]
            else:
                listed = self.categories[name]
                rows[:, k] = [listed[i % len(listed)] for i in range(len(rows))]
        return made.fit(rows)

    def _places(self, some: Mapping[str, Any]) -> list[int]:
        return [k for k, name in enumerate(self.names) if name in some]

    def encode(self, frames: Sequence[Any], what: str) -> list[Any]:
        """Return a matrix of features for each frame, sparse where there are very many.

        Raises
        ------
        DataError
            Columns are missing or unknown, or hold something else than in training; names them.
        """
        columns = self._collected(frames, what)
        ends = np.cumsum([len(one) for one in frames])
        for name, (values, declared) in columns.items():
            kind = _kind(values, declared, name, what) if len(values) else None
            expected = NUMBERS if name in self.fill else CLASSES
            boolean = expected == NUMBERS and values.dtype.kind == "b"
            if kind is not None and kind != expected and not boolean:
                words = {NUMBERS: "numbers", CLASSES: "text, categories or booleans"}
                raise DataError(f"{what}, column '{name}'", expected=f"{words[expected]}, as in fit", found=words[kind])
        numbers = {name: _finite_or_gap(floats_of(columns[name][0]), name, what) for name in self.fill}
        if not self.categories and not self.marked and not any(np.isnan(one).any() for one in numbers.values()):
            whole: Any = np.column_stack(list(numbers.values())) if numbers else np.zeros((int(ends[-1]), 0))
        elif not ends[-1]:
            whole = np.zeros((0, len(self.features)))
        else:
            table = np.empty((int(ends[-1]), len(self.names)), dtype=object)
            for k, name in enumerate(self.names):
                table[:, k] = numbers[name] if name in numbers else _plain(columns[name][0])
            whole = self.transformer.transform(table)
        if self.sparse:
            from scipy.sparse import csr_array

            whole = csr_array(whole)
        return [whole[end - len(one) : end] for one, end in zip(frames, ends.tolist(), strict=True)]

    def _collected(self, frames: Sequence[Any], what: str) -> dict[str, tuple[NDArray[Any], bool]]:
        """Return the values of each column in all frames, and whether they are declared to be classes."""
        parts: dict[str, list[Any]] = {name: [] for name in self.names}
        declared = dict.fromkeys(self.names, False)
        for i, frame in enumerate(frames):
            alone = None if len(frames) == 1 else i
            if self.named:
                frame = _checked(matched, frame, what, alone, self.names)
            elif len(frame.columns) != len(self.names):
                raise DataError(
                    what, example=alone, expected=f"{len(self.names)} columns", found=f"{len(frame.columns)}"
                )
            for name, (_, values, classes) in zip(self.names, columns_of(frame), strict=True):
                parts[name].append(values)
                declared[name] |= classes
        return {name: (_joined(listed), declared[name]) for name, listed in parts.items()}

    # -- text and files ------------------------------------------------------------------------------------

    def __str__(self) -> str:
        rows = []
        for name in self.names:
            if name in self.fill:
                gaps = f", {name} is missing" if name in self.marked else ""
                rows.append((name, "numbers", f"{name}{gaps}; gaps become {self.fill[name]:.6g}"))
            else:
                listed = ["missing" if one is None else str(one) for one in self.categories[name]]
                shown = listed if len(listed) <= 8 else [*listed[:7], f"... ({len(listed)} in all)"]
                rows.append((name, "classes", f"{name}: {', '.join(shown)}"))
        widths = [max(len(row[k]) for row in rows) for k in (0, 1)]
        return "\n".join(f"{a:{widths[0]}}  {b:{widths[1]}}  {c}" for a, b, c in rows)

    def plain(self) -> dict[str, Any]:
        """Return it as plain data, for files."""
        return {"names": self.names, "named": self.named, "fill": self.fill, "marked": self.marked,
                "categories": self.categories}  # fmt: skip

    @classmethod
    def of_plain(cls, found: Mapping[str, Any]) -> Self:
        """Return the columns that plain data of a file describe.

        Raises
        ------
        ValueError
            They do not fit together.
        """
        names, fill, marked, categories = found["names"], found["fill"], found["marked"], found["categories"]
        texts = isinstance(names, list) and all(isinstance(one, str) for one in names)
        if not texts or len(set(names)) < len(names) or not isinstance(found["named"], bool):
            raise ValueError("expected different names of columns")
        if [one for one in names if one in fill] + [one for one in names if one in categories] != [*fill, *categories]:
            raise ValueError("expected numbers or classes for each column, in the order of the names")
        if len(fill) + len(categories) != len(names) or any(one not in fill for one in marked):
            raise ValueError("expected numbers or classes for each column")
        if not all(is_number(one) and np.isfinite(one) for one in fill.values()) or len(set(marked)) < len(marked):
            raise ValueError("expected finite numbers for gaps")
        if [one for one in fill if one in marked] != marked:
            raise ValueError("expected marks in the order of the columns")
        for name, listed in categories.items():
            plain = isinstance(listed, list) and all(one is None or isinstance(one, str | int | bool) for one in listed)
            if not plain or not listed or len({(type(one), one) for one in listed}) < len(listed):
                raise ValueError(f"column '{name}': expected different values")
        return cls(names, found["named"], {key: float(one) for key, one in fill.items()}, marked, categories)


def _kind(values: NDArray[Any], declared: bool, name: str, what: str) -> str | None:
    """Return whether a column holds numbers or classes, ``None`` for gaps alone; refuse others by name."""
    try:
        kind = kind_of_column(values, declared, name)
    except NotNumbers as err:
        place = f"{what}, column '{name}'"
        raise DataError(place, expected=err.expected, found=err.found, hint=err.hint) from None
    if kind == DATES:
        expected, found = "numbers, text, categories or booleans", f"dates ({values.dtype})"
        raise DataError(f"{what}, column '{name}'", expected=expected, found=found, hint=date_hint(name))
    return kind


def _checked(call: Any, frame: Any, what: str, example: int | None, *more: Any) -> Any:
    try:
        return call(frame, *more)
    except NotNumbers as err:
        raise DataError(what, example=example, expected=err.expected, found=err.found, hint=err.hint) from None


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the values of a column in all frames, in one array that changes none of them."""
    if len(parts) == 1:
        return parts[0]
    full = [one for one in parts if len(one)] or parts[:1]
    if len({one.dtype for one in full}) == 1 or all(one.dtype.kind in "iuf" for one in full):
        return np.concatenate(full)
    joined: NDArray[Any] = np.concatenate([one.astype(object) for one in full])
    return joined


def _finite_or_gap(numbers: F64, name: str, what: str) -> F64:
    """Return numbers; refuse infinite ones."""
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        hint = f"X['{name}'] = X['{name}'].replace([np.inf, -np.inf], np.nan) makes gaps of them, which are filled"
        expected, found = "finite numbers or gaps", f"{numbers[row]} in row {row}"
        raise DataError(f"{what}, column '{name}'", expected=expected, found=found, hint=hint)
    return numbers


def _plain(values: NDArray[Any]) -> list[Any]:
    """Return classes as text, whole numbers and booleans; a gap is ``None``."""
    return [None if is_gap(one) else _class(one) for one in values.tolist()]


def _class(value: Any) -> Any:
    if isinstance(value, str | bool | int):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, float) and value.is_integer():  # whole numbers beside gaps
        return int(value)
    return str(value)


def _categories(values: NDArray[Any]) -> list[Any]:
    """Return the different values of a column of classes, sorted, a gap last; at least one."""
    distinct = set(_plain(values))
    listed = sorted((one for one in distinct if one is not None), key=lambda one: (str(type(one)), one))
    return [*listed, *([None] if None in distinct or not distinct else [])]


# -- ``LongFrame``: one data frame with the rows of many sequences, which a column tells apart ---------------------


class LongFrame:
    """A frame and the rows of its sequences, which come in the order in which they are first met.

    Parameters
    ----------
    frame : data frame
    groups : str
        The column whose equal values make one sequence; its rows need not stand together.
    time : str, optional
        The column by which the rows of a sequence are sorted; by default they are in the order of the frame.

    Raises
    ------
    DataError
        There is no such column, or it has gaps.
    """

    def __init__(self, frame: Any, groups: str, time: str | None) -> None:
        self.frame = frame
        for name, what in ((groups, "groups"), (time, "time")):
            if name is not None and name not in list(frame.columns):
                listed = ", ".join(map(str, frame.columns))
                raise DataError("X", expected=f"a column '{name}' ({what}={name!r})", found=f"the columns {listed}")
        self._left_out = {groups, time}
        values = self._values(groups)
        rows: dict[Any, list[int]] = {}
        for row, value in enumerate(values.tolist()):
            rows.setdefault(value, []).append(row)
        self.rows: list[I64] = [np.array(one, dtype=np.int64) for one in rows.values()]
        if time is not None:
            moments = self._values(time)
            self.rows = [one[np.argsort(moments[one], kind="stable")] for one in self.rows]

    def _values(self, name: str) -> Any:
        values = np.asarray(self.frame[name].to_numpy())
        gaps = [row for row, value in enumerate(values.tolist()) if is_gap(value)] if values.dtype.kind in "Of" else []
        if values.dtype.kind in "mM":
            gaps = np.flatnonzero(np.isnat(values)).tolist()
        if gaps:
            expected, hint = "a value in each row", "leave these rows out, or fill in which sequence they belong to"
            raise DataError(f"X, column '{name}'", expected=expected, found=f"none in row {gaps[0]}", hint=hint)
        return values

    def sequences(self, without: Any = None) -> list[Any]:
        """Return a frame for each sequence, without the columns that tell sequences and moments, and another one."""
        kept = [name for name in self.frame.columns if name not in self._left_out and name != without]
        features = self.frame[kept]
        return [part_of(features, rows) for rows in self.rows]

    def labels(self, Y: Any) -> Any:
        """Return the labels of each sequence, from those of all rows.

        Raises
        ------
        DataError
            They are not one for each row; they are a column of the features.
        """
        if Y is None:
            return None
        expected = f"a label for each of the {len(self.frame)} rows of the frame"
        if isinstance(Y, str) or not hasattr(Y, "__len__"):
            raise DataError("Y", expected=expected, found=describe(Y))
        if len(Y) != len(self.frame):
            raise DataError("Y", expected=expected, found=f"{len(Y)}")
        name = getattr(Y, "name", None)
        if name is not None and name in list(self.frame.columns):
            hint = f"leave them out of X: fit(X.drop(columns={name!r}), X[{name!r}]), or fit(X, {name!r})"
            raise DataError("X", expected="features", found=f"the labels, as column '{name}'", hint=hint)
        kind = None if hasattr(Y, "dtype") else object
        values = np.asarray(Y.to_numpy() if hasattr(Y, "to_numpy") else Y, dtype=kind)
        return [values[rows].tolist() for rows in self.rows]

    def joined(self, found: list[Any], columns: Any = None) -> Any:
        """Return what was found for the positions of sequences as one array, series or frame with the frame's rows."""
        known = [(rows, one) for rows, one in zip(self.rows, found, strict=True) if one is not None]
        shape = np.shape(known[0][1])[1:] if known else ()
        out = np.full((len(self.frame), *shape), np.nan) if shape else np.full(len(self.frame), None, dtype=object)
        for rows, one in known:
            out[rows] = np.asarray(one) if shape else list(one)
        plain = np.array(out.tolist()) if not shape and len(known) == len(found) else out
        return with_index(plain, self.frame, columns)


def as_long(X: Any, groups: str | None, time: str | None) -> LongFrame | None:
    """Return a frame of many sequences; ``None`` for lists of sequences.

    Raises
    ------
    DataError
        It is a frame, and no column tells its sequences apart.
    """
    if not is_frame(X):
        return None
    if groups is None:
        hint = "name the column that tells sequences apart, ChainTagger(groups='subject'); one sequence is the list [X]"
        raise DataError("X", expected="a list of sequences", found="one data frame", hint=hint)
    return LongFrame(X, groups, time)
