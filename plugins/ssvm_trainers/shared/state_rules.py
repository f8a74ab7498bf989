"""Rules for the values of a trainer's state, checked when a fit resumes from a file, before any kernel sees them.

A file may be damaged or edited, and kernels trust their arrays: an index out of range is a crash or a wrong model.  So
a class that keeps a state lists a :class:`StateRule` for each of its values, and :func:`check_values` compares.  Most
arrays are as large as in a run that was just begun; the shapes of those that grow are named in sizes, such as
``("planes", "dim")``.  Sizes that are not known are those of the first array that has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl.errors import FileFormatError

#: Ints beyond this do not fit the counters of kernels.
MOST = 2**53

#: The type of scipy's indices: 32 bits where that is enough.
INDEX = "int32 or int64"

#: The largest rounding error of a number that is at most 1.
ROUNDING = 1e-6


@dataclass(frozen=True)
class StateRule:
    """The rule for a value of a state.

    Parameters
    ----------
    least, most : float
        Bounds of the number, or of all numbers of the array.
    below : str
        A size that the ints of the array stay below; empty for none.
    shape : tuple of int and str, optional
        Numbers and names of sizes; as in a run that was just begun when left out.
    dtype : str
        The type of an array with a ``shape``; with the others it is that of a run just begun.
    finite : bool
        Whether infinities and ``nan`` are wrong.
    optional : bool
        Whether ``None`` stands for "not yet".
    """

    least: float = -np.inf
    most: float = np.inf
    below: str = ""
    shape: tuple[int | str, ...] | None = None
    dtype: str = "float64"
    finite: bool = True
    optional: bool = False


#: Any finite numbers; also where nothing is known yet; none below 0; from 0 to 1; a part that keeps a state itself.
NUMBERS, OPEN, COUNTS, SHARES, PART = (
    StateRule(), StateRule(finite=False), StateRule(least=0), StateRule(-ROUNDING, 1 + ROUNDING), StateRule()
)  # fmt: skip


def require(ok: bool | np.bool_, name: str, expected: str) -> None:
    """Refuse a state.

    Raises
    ------
    FileFormatError
        ``ok`` is false.
    """
    if not ok:
        raise FileFormatError(f"the state of the trainer is damaged: {name}: expected {expected}")


def check_values(
    rules: Mapping[str, StateRule], now: Mapping[str, Any], state: Mapping[str, Any], sizes: Mapping[str, int]
) -> dict[str, int]:
    """Compare the values of a state with their rules; return all sizes.

    Parameters
    ----------
    rules : mapping
    now : mapping
        The values of a run that was just begun.
    state : mapping
        The values of a file.
    sizes : mapping
        The sizes that are known.

    Raises
    ------
    FileFormatError
        A value is missing or breaks its rule; names it.
    """
    known = dict(sizes)
    for name, rule in rules.items():
        require(name in state, f"'{name}'", "a value")
        value, fresh = state[name], now.get(name)
        if value is None and rule.optional:
            continue
        require(fresh is not None or rule.shape is not None, f"'{name}'", "nothing")
        if rule.shape is not None or isinstance(fresh, np.ndarray):
            _check_array(name, rule, fresh, value, known)
        else:
            _check_number(name, rule, fresh, value)
    return known


def _check_array(name: str, rule: StateRule, fresh: Any, value: Any, sizes: dict[str, int]) -> None:
    require(isinstance(value, np.ndarray), f"'{name}'", "an array")
    dtype = rule.dtype if rule.shape is not None else fresh.dtype
    known = value.dtype in ("int32", "int64") if dtype == INDEX else value.dtype == dtype
    require(known, f"'{name}'", f"{dtype}, found {value.dtype}")
    if rule.shape is None:
        wanted: tuple[int, ...] = fresh.shape
    else:
        require(value.ndim == len(rule.shape), f"'{name}'", f"{len(rule.shape)} axes, found {value.ndim}")
        wanted = tuple(_size(axis, size, sizes) for axis, size in zip(rule.shape, value.shape, strict=True))
    require(value.shape == wanted, f"'{name}'", f"shape {wanted}, found {value.shape}")
    if not value.size:
        return
    if value.dtype.kind == "f":
        require(not rule.finite or np.isfinite(value).all(), f"'{name}'", "finite numbers")
    most = sizes[rule.below] - 1 if rule.below else rule.most
    inside = not ((value < rule.least) | (value > most)).any()
    require(inside, f"'{name}'", f"numbers from {rule.least:g} to {most:g}")


def _size(axis: int | str, size: int, sizes: dict[str, int]) -> int:
    """Return the size of an axis; an unknown one becomes the size found."""
    return axis if isinstance(axis, int) else sizes.setdefault(axis, size)


def _check_number(name: str, rule: StateRule, fresh: Any, value: Any) -> None:
    if isinstance(fresh, bool):
        require(isinstance(value, bool), f"'{name}'", "true or false")
        return
    kinds = (int,) if isinstance(fresh, int) else (int, float)
    require(type(value) in kinds, f"'{name}'", " or ".join(kind.__name__ for kind in kinds))
    require(not rule.finite or abs(value) < np.inf, f"'{name}'", "a finite number")
    require(isinstance(value, float) or abs(value) <= MOST, f"'{name}'", "an int that fits 54 bits")
    require(not (value < rule.least or value > rule.most), f"'{name}'", f"from {rule.least:g} to {rule.most:g}")


def check_pointers(ptr: np.ndarray[Any, Any], n: int, name: str) -> None:
    """Check that pointers begin at 0, end at n and do not fall.

    Raises
    ------
    FileFormatError
        The pointers are others.
            """
    falls = bool((np.diff(ptr) < 0).any())
    require(len(ptr) > 0 and ptr[0] == 0 and ptr[-1] == n and not falls, f"'{name}'", f"pointers from 0 to {n}")
