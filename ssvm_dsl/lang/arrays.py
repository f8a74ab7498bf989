"""What users pass as numbers: plain arrays from which nothing was lost on the way.

``np.asarray(value, dtype=float)`` reads digits in strings, drops imaginary parts and looks behind masks without a word;
every array that comes from a user goes through :func:`real_array` instead.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64

#: Sizes, class numbers and positions are counted in 32 bits.
MOST = 2**31 - 1


class NotNumbers(ValueError):
    """A value that should be an array of numbers or a sparse matrix, and is not.

    Parameters
    ----------
    expected, found, hint : str
        As for :class:`~ssvm_dsl.errors.DataError`, which callers raise with the input and the example.
    """

    def __init__(self, expected: str, found: str, hint: str = "") -> None:
        self.expected, self.found, self.hint = expected, found, hint
        super().__init__(f"expected {expected}, found {found}")


def describe(value: object) -> str:
    """Return a short description of a value for messages."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        masked = "masked " if is_masked(value) else ""
        return f"{'a sparse' if is_sparse(value) else f'a {masked}' if masked else 'an'} array of shape {shape}"
    if isinstance(value, str | bytes):
        return repr(value if len(value) <= 30 else value[:27]) + ("" if len(value) <= 30 else "...")
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{type(value).__name__} {number_text(value)}" if isinstance(value, int | float) else type(value).__name__


def is_number(value: object) -> bool:
    """Return whether a value is a plain or numpy number; True and False are none."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def number_text(value: object) -> str:
    """Return the text of a value; ints of thousands of digits only by their length."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an int of {value.bit_length()} bits"
    return repr(value)


def is_sparse(value: object) -> bool:
    """Whether a value is a matrix or array of ``scipy.sparse`` (which is loaded when there is one)."""
    module = sys.modules.get("scipy.sparse")
    return module is not None and bool(module.issparse(value))


def is_masked(value: object) -> bool:
    """Whether a value is an array with masked entries, or a list that holds such arrays."""
    module = sys.modules.get("numpy.ma")
    return module is not None and _holds_mask(value, module)


def _holds_mask(value: Any, module: Any) -> bool:
    if isinstance(value, list | tuple):
        deep = [kind for kind in set(map(type, value)) if issubclass(kind, (list, tuple, module.MaskedArray))]
        return bool(deep) and any(_holds_mask(one, module) for one in value if type(one) in deep)
    return isinstance(value, module.MaskedArray) and bool(module.getmaskarray(value).view(bool).any())


def plain_array(value: Any) -> NDArray[Any]:
    """Return a value as an array of any dtype except ``object``.

    Raises
    ------
    NotNumbers
        It is ragged, sparse, or has masked entries.
    """
    if value is None:
        hint = "labels may be None where they are not known, inputs may not: leave the example out, or fill in numbers"
        raise NotNumbers("an array of numbers", "None", hint)
    if is_masked(value):
        raise NotNumbers("an array without masked entries", describe(value), "fill them, or leave these positions out")
    try:
        array = np.asarray(value)
    except RecursionError:
        raise NotNumbers("a rectangular array", "lists inside lists without end") from None
    except Exception as err:  # numpy calls methods of the value, which may raise anything
        raise NotNumbers("a rectangular array", describe(value)) from err
    if array.dtype == object:
        raise _objects(value, array)
    return array


#: What to do about text among numbers.
_TEXT = "text is no number: ready models encode the columns of a data frame, Attributes takes named features"


def _objects(value: object, array: NDArray[Any]) -> NotNumbers:
    """Return why an array of Python objects is not one of numbers."""
    if is_sparse(value):
        return NotNumbers("a dense array", describe(value), "declare the input with sparse=True")
    if array.ndim == 0 or any(hasattr(one, "__len__") and not isinstance(one, str | bytes) for one in array.flat):
        hint = "is it ragged, or sparse? (declare sparse=True)"
        return NotNumbers("a rectangular array", describe(value), hint)
    texts = [one for one in array.flat if isinstance(one, str)]
    if texts:
        return NotNumbers("real numbers", f"the text {describe(texts[0])} (dtype object)", _TEXT)
    numbers = [one for one in array.flat if isinstance(one, int | float)]
    odd = next((one for one in array.flat if not isinstance(one, int | float)), max(numbers, key=abs, default=None))
    found = "dtype object" + (f" ({type(odd).__name__} {number_text(odd)})" if array.size else "")
    return NotNumbers("real numbers", found, "convert it: np.asarray(x, dtype=float)")


def real_array(value: Any) -> NDArray[Any]:
    """Return a value as an array of bools, ints or floats.

    Raises
    ------
    NotNumbers
        It is no array of real numbers, or has masked entries.
    """
    array = plain_array(value)
    if isinstance(value, str):
        hint = "list(table) of a data frame gives the names of its columns; its rows are table.to_numpy()"
        raise NotNumbers("real numbers", f"the string {describe(value)}", hint)
    if array.dtype.kind in "mM":
        zero = "" if array.dtype.kind == "m" else " - np.datetime64('2000-01-01')"
        hint = f"make numbers of them, e.g. days: (x{zero}) / np.timedelta64(1, 'D')"
        raise NotNumbers("real numbers", f"{'spans of time' if zero == '' else 'dates'} ({array.dtype})", hint)
    if array.dtype.kind == "U" and array.size:
        raise NotNumbers("real numbers", f"the text {describe(str(array.flat[0]))} (dtype {array.dtype})", _TEXT)
    if array.dtype.kind not in "biuf":
        raise NotNumbers("real numbers", f"dtype {array.dtype}")
    return array


def as_floats(array: NDArray[Any]) -> F64:
    """Return an array of real numbers in float64; numbers beyond its range become infinite, without a warning."""
    if type(array) is np.ndarray and array.dtype == np.float64:
        return array
    with np.errstate(over="ignore"):
        return np.asarray(array, dtype=np.float64)


def whole_numbers(array: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return (numbers as int64, which of them are whole and exact); others are 0.

    Floats count as long as they can hold every whole number around them (64-bit ones up to 2^53).
    """
    kind = array.dtype.kind
    if kind in "bi":
        return array.astype(np.int64, copy=False), np.ones(array.shape, dtype=bool)
    if kind == "u":
        exact = array <= np.array(np.iinfo(np.int64).max, dtype=np.uint64)
    elif kind == "f":
        most = 2.0 ** min(np.finfo(array.dtype).nmant + 1, 62)
        with np.errstate(invalid="ignore"):
            exact = (np.abs(array) <= most) & (array == np.floor(array))
    else:
        return np.zeros(array.shape, dtype=np.int64), np.zeros(array.shape, dtype=bool)
    return np.where(exact, array, array.dtype.type(0)).astype(np.int64), exact
