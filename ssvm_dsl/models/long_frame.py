"""``LongFrame``: one data frame with the rows of many sequences, which a column tells apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.array_types import I64
from ssvm_dsl.errors import DataError
from ssvm_dsl.lang.arrays import describe
from ssvm_dsl.lang.frames import is_frame, is_gap, with_index
from ssvm_dsl.learning.tuning.folds import part_of


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
