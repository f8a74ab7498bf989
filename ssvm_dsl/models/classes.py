"""Classes, sizes and kinds of input that ready models read from labels and features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import DataError
from ssvm_dsl.lang.arrays import describe, is_sparse
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.frames import is_gap
from ssvm_dsl.lang.inputs import Attributes, Input


def classes_of(labels: Iterable[Any]) -> list[str] | list[int]:
    """Return the different values of the labels of all examples, sorted; arrays of them, or single values.

    Raises
    ------
    DataError
        A label is neither a string nor a whole number, or both occur, or there is none.
    """
    found: set[Any] = set()
    for i, one in enumerate(labels):
        try:
            values = set(np.ravel(np.asarray(one)).tolist()) if not isinstance(one, list | tuple) else set(one)
        except (TypeError, ValueError):  # ragged, or lists in lists
            raise DataError("Y", example=i, expected="a list of classes", found=repr(one)[:80]) from None
        found |= {_class(value, i) for value in values if not is_gap(value)}
    kinds = {isinstance(value, str) for value in found}
    if len(kinds) != 1:
        what = "strings and numbers" if found else "no classes at all"
        raise DataError("Y", expected="classes that are all strings or all whole numbers", found=what)
    return sorted(found)


def _class(value: Any, example: int) -> str | int:
    """Return a class as a string or an int."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | np.integer | bool | np.bool_) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise DataError("Y", example=example, expected="classes that are strings or whole numbers", found=repr(value)[:80])


def input_of(examples: Sequence[Any], *axes: Dim, what: str = "X") -> Input | Attributes:
    """Return the input for examples that are arrays ``(*axes, width)``, sparse rows, or lists of named features.

    Raises
    ------
    DataError
        An array with another number of axes.
    """
    first = next((one for one in examples if n_rows(one)), examples[0])
    if is_sparse(first):
        return Input(*axes, int(first.shape[-1]), sparse=True)
    named = first
    for _ in axes:
        named = named[0] if isinstance(named, list | tuple) and named else named
    if isinstance(named, Mapping | set | frozenset) or _names(named):
        return Attributes(*axes)
    expected = f"an array with {len(axes) or 'no'} axes, and one of features"
    shape = array_of(first, what, 0, expected).shape
    if len(shape) not in (len(axes), len(axes) + 1):
        raise DataError(what, example=0, expected=expected, found=f"shape {shape}")
    return Input(*axes, *shape[len(axes) :])


def array_of(one: Any, what: str, example: int, expected: str) -> NDArray[Any]:
    """Return what an example is as an array.

    Raises
    ------
    DataError
        It has lists of different lengths.
    """
    try:
        return np.asarray(one)
    except ValueError:
        raise DataError(what, example=example, expected=expected, found=describe(one)) from None


def require_names(example: Any, i: int, names: Sequence[str], expected: str) -> None:
    """Refuse an example that is no dict with some names.

    Raises
    ------
    DataError
        Says what an example is, by ``expected``.
    """
    if not isinstance(example, Mapping):
        raise DataError("X", example=i, expected=expected, found=describe(example))
    missing = [name for name in names if name not in example]
    if missing:
        found = f"a dict with {', '.join(map(str, example)) or 'nothing'}"
        raise DataError("X", example=i, expected=expected, found=found)


def in_form(predicted: Any, change: Callable[[Any], Any]) -> Any:
    """Return what ``predict`` returned with its labels in another form; the bounds beside them stay as they are."""
    if isinstance(predicted, tuple):
        return change(predicted[0]), *predicted[1:]
    return change(predicted)


def n_rows(one: Any) -> int:
    """Return how many examples a list has, or positions an example; of something that is no list, 1."""
    if hasattr(one, "shape"):
        return int(one.shape[0]) if one.shape else 1
    return len(one) if hasattr(one, "__len__") else 1


def _names(one: Any) -> bool:
    """Whether this is a list of names of features."""
    return isinstance(one, list | tuple) and all(isinstance(name, str) for name in one)
