"""Data frames, told by what they have: no package of frames is imported for them.

A frame has columns with names and types, as those of pandas and polars; a row of one (``frame.iloc[0]``) has the names
in its index.  Columns are matched by name, never by place, unless they are only numbered.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64
from ssvm_dsl.lang.arrays import NotNumbers, describe, is_number

#: What columns hold; ``DATES`` and what is none of these is refused.
NUMBERS, CLASSES, DATES = "numbers", "classes", "dates"


def is_frame(value: object) -> bool:
    """Whether a value is a data frame."""
    return not isinstance(value, np.ndarray | type) and all(
        hasattr(value, name) for name in ("columns", "dtypes", "to_numpy")
    )


def is_series(value: object) -> bool:
    """Whether a value is a column of a data frame, or another series."""
    return not isinstance(value, np.ndarray | type) and hasattr(value, "to_numpy") and not is_frame(value)


def is_row(value: object) -> bool:
    """Whether a value is a row of a data frame of pandas: names of columns in its index, text all of them."""
    index = getattr(value, "index", None)
    if not is_series(value) or callable(index) or index is None or not len(index):
        return False
    return all(isinstance(name, str) for name in index)


def as_frame(row: Any) -> Any:
    """Return a row as a frame with one row."""
    return row.to_frame().T


def column_names(frame: Any) -> list[str]:
    """Return the names of the columns, as text.

    Raises
    ------
    NotNumbers
        Two have one name.
    """
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise NotNumbers("columns of different names", f"'{twice}' {names.count(twice)} times")
    return names


def is_numbered(frame: Any) -> bool:
    """Whether columns have no names but their numbers."""
    return all(is_number(name) and name == k for k, name in enumerate(frame.columns))


def matched(frame: Any, names: Sequence[str]) -> Any:
    """Return a frame whose columns are those of some names, in their order.

    Raises
    ------
    NotNumbers
        Columns are missing, or there are others; names them.
    """
    given = column_names(frame)
    if given == list(names):
        return frame
    missing, unknown = ([f"'{one}'" for one in a if one not in b] for a, b in ((names, given), (given, names)))
    if missing or unknown:
        parts = [f"{word} {', '.join(some)}" for word, some in (("no", missing), ("unknown", unknown)) if some]
        hint = "columns are matched by name; rename them, or leave out those that fit has not seen"
        raise NotNumbers(f"the columns {_listed(names)}", "; ".join(parts), hint)
    own = dict(zip(given, frame.columns, strict=True))
    return frame[[own[name] for name in names]]


def _listed(names: Sequence[str]) -> str:
    shown = list(names) if len(names) <= 12 else [*names[:10], f"... ({len(names)} in all)"]
    return ", ".join(shown)


def columns_of(frame: Any) -> Iterable[tuple[str, NDArray[Any], bool]]:
    """Yield (name, values, whether it is declared to hold classes) of each column."""
    for name, own in zip(column_names(frame), frame.columns, strict=True):
        column = frame[own]
        kind = str(getattr(column, "dtype", ""))
        yield name, np.asarray(column.to_numpy()), kind.startswith(("category", "Categorical", "Enum"))


def is_gap(value: Any) -> bool:
    """Whether an entry says that nothing is known: ``None``, nan, or what pandas has for it."""
    if value is None:
        return True
    if isinstance(value, float | np.floating):
        return bool(value != value)
    return type(value).__name__ in ("NAType", "NaTType")


def kind_of_column(values: NDArray[Any], declared: bool, name: str) -> str | None:
    """Return what a column holds, ``None`` where all entries are gaps.

    Raises
    ------
    NotNumbers
        Nothing of it is a feature; says what it holds.
    """
    kind = values.dtype.kind
    if kind == "M":
        return DATES
    if declared or kind in "bUST":
        return CLASSES
    if kind in "iuf":
        return NUMBERS
    if kind == "m":
        cure = f"X['{name}'] = X['{name}'].dt.total_seconds()"
        raise NotNumbers("numbers, text, categories or booleans", f"spans of time ({values.dtype})", cure)
    there = [one for one in values.tolist() if not is_gap(one)] if kind == "O" else []
    if kind != "O":
        raise NotNumbers("numbers, text, categories or booleans", f"dtype {values.dtype}")
    if all(isinstance(one, str) for one in there):
        return CLASSES if there else None
    if all(isinstance(one, bool | np.bool_) for one in there):
        return CLASSES
    if any(hasattr(one, "isoformat") or isinstance(one, np.datetime64) for one in there):
        return DATES
    if all(_real(one) for one in there):
        return NUMBERS
    if all(isinstance(one, str | int | float | np.generic) for one in there):
        cure = f"make one kind of them: X['{name}'] = X['{name}'].astype(str)"
        raise NotNumbers("a column of one kind", "text and numbers", cure)
    odd = next(one for one in there if not isinstance(one, str | int | float | np.generic))
    raise NotNumbers("numbers, text, categories or booleans", describe(odd))


def _real(value: Any) -> bool:
    if isinstance(value, str | bytes | bool | np.bool_ | complex | np.complexfloating):
        return False
    return hasattr(value, "__float__")


def date_hint(name: str) -> str:
    """Return the lines that make features of a column of dates."""
    day = f"X['{name}'].dt"
    made = f"{name}_year={day}.year, {name}_month={day}.month, {name}_weekday={day}.day_name()"
    lines = f"    X = X.assign({made})\n    X = X.drop(columns='{name}')"
    return f"a date is no feature by itself; make some of it, e.g.\n{lines}"


def floats_of(values: NDArray[Any]) -> F64:
    """Return a column of numbers as floats; gaps are nan."""
    if values.dtype.kind == "O":
        flat = [np.nan if is_gap(one) else float(one) for one in values.tolist()]
        return np.array(flat, dtype=np.float64)
    return values.astype(np.float64, copy=False)


def matrix_of(frame: Any) -> F64:
    """Return a frame of numbers as a matrix.

    Raises
    ------
    NotNumbers
        A column holds something else, or gaps; names it.
    """
    out = np.empty((len(frame), len(frame.columns)))
    for k, (name, values, declared) in enumerate(columns_of(frame)):
        kind = kind_of_column(values, declared, name) if len(values) else NUMBERS
        if values.dtype.kind == "b":
            kind = NUMBERS
        if kind == DATES:
            raise NotNumbers(f"numbers in column '{name}'", "dates", date_hint(name))
        if kind == CLASSES:
            cure = f"encode it: pandas.get_dummies(X, columns=['{name}']); ready models do so by themselves"
            raise NotNumbers(f"numbers in column '{name}'", "text or categories", cure)
        out[:, k] = floats_of(values)
        if not np.isfinite(out[:, k]).all():
            row = int(np.flatnonzero(~np.isfinite(out[:, k]))[0])
            cure = f"fill it: X['{name}'].fillna(...); ready models do so by themselves"
            raise NotNumbers(f"finite numbers in column '{name}'", f"{out[row, k]} at row {row}", cure)
    return out


def with_index(values: Any, frame: Any, columns: Any = None) -> Any:
    """Return values, one for each row of a frame of pandas, with its index: a series, or a frame with columns.

    Other values, and rows of other frames, are left as they are.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or values is None or not isinstance(frame, pandas.DataFrame | pandas.Series):
        return values
    if np.ndim(values) == 0 or len(values) != len(frame):
        return values
    if np.ndim(values) == 1:
        return pandas.Series(values, index=frame.index)
    return pandas.DataFrame(values, index=frame.index, columns=columns)
