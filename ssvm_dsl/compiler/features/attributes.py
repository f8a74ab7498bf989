"""Named features become sparse rows: each name a column, its number the value (a list of names: ones).

As in CRFsuite, a value that is text is part of the name, ``{"word": "the"}`` is ``{"word:the": 1}``, and so are keys of
nested dicts and names in nested lists: ``{"shape": ["caps", "digit"]}`` is ``{"shape:caps": 1, "shape:digit": 1}``.

There are many times more attributes in the data than different ones, so one that was seen before costs one look-up in
a dict and no Python call.  A vocabulary is looked up by name where tokens are lists or dicts of numbers, and by pair
``("word", "the")`` where some values are texts: the name ``"word:the"`` is made, and checked, when the pair is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from functools import cached_property
from itertools import chain, repeat
from math import isfinite
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.features import SparseRows
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.lang.arrays import as_floats, describe, number_text
from ssvm_dsl.lang.inputs import Attributes

#: Positions whose attributes are read between two looks at the clock.
POSITIONS = 4096


def tokens_of(source: Attributes, raw: Iterable[Any]) -> Iterable[Any]:
    """Return the attributes of each position of all examples, those of the last axis next to each other."""
    for _ in source.dims:
        raw = chain.from_iterable(raw)
    return raw


def require_names(fitted: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse examples none of which has a named feature.

    Raises
    ------
    DataError
        Names the input.
    """
    for name, state in fitted.items():
        if "names" in state and not len(state["names"]):
            expected, hint = "attribute names in some example", "without any there is nothing to learn a weight for"
            raise DataError(f"input '{name}'", expected=expected, found="none at all", hint=hint)


class Names(list[str]):
    """A vocabulary: the name of each column."""

    @cached_property
    def numbers(self) -> Columns:
        """The column of each name, -1 for unknown ones."""
        return Columns(zip(self, range(len(self)), strict=True))

    @cached_property
    def pairs(self) -> NamedValues:
        """The column of each pair of a name and a value that was met so far."""
        return NamedValues(self.numbers)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a copy is made of: the names alone."""
        return Names, (list(self),)


#: Pairs with unknown texts, or with numbers, that are remembered, too: there is no end of them.
UNKNOWN = 2**14


class Columns(dict[str, int]):
    """The column of each name of a vocabulary, -1 for unknown names."""

    def __missing__(self, name: str) -> int:
        check_name(name)
        return -1

    def of(self, names: list[Any]) -> Iterator[int]:
        """Return the column of each of some names."""
        if type(self) is not Columns:  # new names get columns
            return map(self.__getitem__, names)
        if not set(map(type, names)) <= _TEXTS:
            for name in names:
                check_name(name)
        return map(self.get, names, repeat(-1))  # no call of Python for unknown ones


class _Growing(Columns):
    """Gives every new name the next column."""

    def __missing__(self, name: str) -> int:
        check_name(name)
        column = self[name] = len(self)
        return column


class _Hashing(Columns):
    """Gives every new name the column of its hash."""

    def __init__(self, width: int) -> None:
        from sklearn.utils import murmurhash3_32

        self.width, self.hash = width, murmurhash3_32

    def __missing__(self, name: str) -> int:
        check_name(name)
        # halves of surrogate pairs, as in text read with errors="surrogateescape", are characters like others
        column: int = self.hash(name.encode("utf-8", "surrogatepass"), positive=True) % self.width
        self[name] = column
        return column


class NamedValues(dict[tuple[Any, Any], int]):
    """What each pair of a name and its value is: the column where the value is a text or 1, -1 for unknown names and 0.

    Pairs of a name and another number are ``-2 - column``.

    Parameters
    ----------
    columns : Columns
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def __missing__(self, pair: tuple[Any, Any]) -> int:
        name, value = pair
        check_name(name)
        if isinstance(value, str):
            code = column = self.columns[f"{name}:{value}"]
        elif isinstance(value, _NAMED):
            raise NestedNames
        elif not is_finite(value):
            raise TypeError(f"{name!r}: {number_text(value)}")
        else:
            column = self.columns[name]
            code = -1 if value == 0 or column < 0 else column if value == 1 else -2 - column
        if code >= 0 or len(self) < len(self.columns) + UNKNOWN:
            self[pair] = code
        return code


class NestedNames(Exception):
    """A value of an attribute holds more names."""


def check_name(name: object) -> None:
    """Refuse an attribute name that is not a string."""
    if not isinstance(name, str):
        raise TypeError(f"attribute name {name!r}")


def is_finite(value: object) -> bool:
    """Whether a value is a real number within the range of floats."""
    try:
        return isinstance(value, int | float | np.integer | np.floating | np.bool_) and isfinite(float(value))
    except OverflowError:
        return False


def learn_rows(tokens: list[Any], goes_on: GoesOn | None = None) -> tuple[Names, SparseRows]:
    """Return (the vocabulary of all names, feature rows); names are numbered as they come."""
    columns = _Growing()
    pairs = NamedValues(columns)
    rows = _read(tokens, columns, pairs, 0, goes_on)
    names = Names(columns)
    names.pairs, pairs.columns = pairs, names.numbers  # from now on new names are unknown ones
    return names, replace(rows, n_columns=len(names))


def known_rows(tokens: list[Any], names: Names, goes_on: GoesOn | None = None) -> SparseRows:
    """Return feature rows over a vocabulary; unknown names are left out."""
    return _read(tokens, names.numbers, names.pairs, len(names), goes_on)


def hashed_rows(tokens: list[Any], width: int, goes_on: GoesOn | None = None) -> SparseRows:
    """Return feature rows of a fixed width, each name in the column of its hash."""
    columns = _Hashing(width)
    return _read(tokens, columns, NamedValues(columns), width, goes_on)


#: Whether the attributes from a position on are read.
GoesOn = Callable[[int], bool]

#: What attributes of a position usually are; everything else is made one of these first.
_PLAIN = frozenset({dict, list, tuple})


def plain_token(token: Any) -> dict[Any, Any] | list[Any] | tuple[Any, ...]:
    """Return the attributes of one position as a dict, list or tuple.

    Sets are sorted: their own order differs from process to process.

    Raises
    ------
    TypeError
        It is none of these; iterators, which would be empty when the data are used again, are not either.
    """
    if type(token) in _PLAIN:
        return token  # type: ignore[no-any-return]
    if isinstance(token, str | bytes | type) or hasattr(token, "__next__") or not hasattr(token, "__iter__"):
        raise TypeError("neither a dict nor a list of names")
    try:
        if isinstance(token, Mapping) or hasattr(token, "keys"):
            return dict(token)
        return sorted(token) if isinstance(token, Set) else list(token)
    except Exception as err:  # methods of the user's own class
        raise TypeError(f"{type(err).__name__}: {err}") from err


def _read(
    tokens: list[Any], columns: Columns, pairs: NamedValues, width: int, goes_on: GoesOn | None
) -> SparseRows:
    """Return the rows of all attributes, or of the first ones: the other rows are empty then.

    They are read some at a time: what is made on the way takes little memory then.
    """
    if goes_on is None and len(tokens) <= POSITIONS:
        return _collect(tokens, columns, pairs, width)
    indices, values, ptr, n = np.empty(0, np.int32), np.empty(0), np.zeros(len(tokens) + 1, dtype=np.int64), 0
    for lo in range(0, len(tokens), POSITIONS):
        if goes_on is not None and not goes_on(lo):
            break
        part = _collect(tokens[lo : lo + POSITIONS], columns, pairs, width)
        hi, end = lo + part.shape[0], n + len(part.indices)
        if end > len(indices):  # to what all tokens take, if they are like those so far
            size = max(end, int(1.05 * end / hi * len(tokens)))
            indices.resize(size, refcheck=False)
            values.resize(size, refcheck=False)
        indices[n:end], values[n:end] = part.indices, part.data
        ptr[lo + 1 : hi + 1] = part.ptr[1:] + n
        ptr[hi + 1 :] = n = end
    indices.resize(n, refcheck=False)
    values.resize(n, refcheck=False)
    return SparseRows(values, indices, ptr, width)


def _collect(tokens: list[Any], columns: Columns, pairs: NamedValues, width: int) -> SparseRows:
    """Return the rows of some tokens.

    Raises
    ------
    TypeError, ValueError, OverflowError
        Something that is not a dict of finite numbers or a list of names.
    """
    kinds = set(map(type, tokens))
    if not kinds <= _PLAIN:
        tokens = list(map(plain_token, tokens))
        kinds = set(map(type, tokens))
    texts = dict in kinds and (
        (type(tokens[0]) is dict and str in map(type, tokens[0].values())) or _has_texts(tokens)
    )
    if texts and len(kinds) == 1:
        try:
            return _collect_pairs(tokens, pairs, width)
        except (NestedNames, TypeError):  # lists and dicts among the values
            pass
    if texts:
        tokens = [_flattened(token) if type(token) is dict else token for token in tokens]
    ptr = pointers(np.fromiter(map(len, tokens), np.int64, len(tokens)))
    n = int(ptr[-1])
    indices = np.fromiter(columns.of(list(chain.from_iterable(tokens))), np.int32, n)
    return _tidy(indices, _values(tokens, n) if dict in kinds else None, ptr, width)


def _collect_pairs(tokens: list[dict[Any, Any]], pairs: NamedValues, width: int) -> SparseRows:
    """Return the rows of dicts with texts among their values."""
    ptr = pointers(np.fromiter(map(len, tokens), np.int64, len(tokens)))
    indices = np.fromiter(map(pairs.__getitem__, chain.from_iterable(map(dict.items, tokens))), np.int32, int(ptr[-1]))
    if not len(indices) or np.minimum.reduce(indices) >= -1:
        return _tidy(indices, None, ptr, width)
    at = np.flatnonzero(indices < -1)
    listed, values = list(chain.from_iterable(map(dict.values, tokens))), np.ones(len(indices))
    given = [listed[k] for k in at.tolist()]
    if not set(map(type, given)) <= _NUMBERS and not all(map(is_finite, given)):
        raise TypeError("a number of another kind, equal to one that was met")
    indices[at], values[at] = -2 - indices[at], given
    return _tidy(indices, values, ptr, width)


def _has_texts(tokens: list[Any]) -> bool:
    """Whether values in dicts are texts or hold more names."""
    kinds = set(map(type, chain.from_iterable(token.values() for token in tokens if type(token) is dict)))
    return str in kinds or any(issubclass(kind, _NAMED) for kind in kinds)


#: What names and numbers usually are.
_TEXTS, _NUMBERS = frozenset({str}), frozenset({float, int, bool})

#: Values that are, or hold, names.
_NAMED = (str, Mapping, list, tuple, Set)

#: How deep dicts in dicts go at most.
DEEPEST = 20


def _flattened(token: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a dict of attributes with all texts and nested names in its keys; values of equal names are added.

    Raises
    ------
    TypeError
        A name is no text, or dicts are nested without end.
    """
    out: dict[str, Any] = {}
    for name, value in _leaves(token, "", 0):
        out[name] = out[name] + value if name in out else value
    return out


def _leaves(token: Any, prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield (name, number) of what a token, or a part of it, holds."""
    if depth > DEEPEST:
        raise TypeError(f"attributes nested more than {DEEPEST} deep")
    if not isinstance(token, Mapping):
        for name in sorted(token) if isinstance(token, Set) else token:
            check_name(name)
            yield prefix + name, 1.0
        return
    for name, value in token.items():
        check_name(name)
        if isinstance(value, str):
            yield f"{prefix}{name}:{value}", 1.0
        elif isinstance(value, _NAMED):
            yield from _leaves(value, f"{prefix}{name}:", depth + 1)
        else:
            yield prefix + name, value


def _values(tokens: list[Any], n: int) -> F64:
    """Return the values of all attributes; names in lists have the value 1."""
    each = (token.values() if type(token) is dict else repeat(1.0, len(token)) for token in tokens)
    listed = list(chain.from_iterable(each))
    with catch_warnings():
        simplefilter("ignore")  # a masked entry becomes nan, with a warning
        values = np.array(listed) if n else np.zeros(0)
    if values.dtype == object and all(map(is_finite, listed)):  # ints of more than 64 bits
        values = np.fromiter(listed, np.float64, n)
    if values.dtype.kind not in "biuf" or values.ndim != 1:
        raise TypeError(f"values of dtype {values.dtype}")
    values = as_floats(values)
    if not np.isfinite(values).all():
        raise ValueError("values that are not finite")
    return values


def _tidy(columns: I32, values: F64 | None, ptr: I64, width: int) -> SparseRows:
    """Return rows whose columns ascend, without unknown (-1) ones and zeros, duplicates of a row added up.

    Without values all are 1.
    """
    from ssvm_dsl.kernels.rows import tidy_rows

    ones = values is None
    if values is None:
        values = np.empty(len(columns))
        values.fill(1.0)
    n = tidy_rows(columns, values, ptr)
    if not ones and not np.isfinite(values[:n]).all():
        raise OverflowError("attributes of one name (or one column) whose sum is infinite")
    if n < len(columns):
        columns, values = columns[:n], values[:n]
    return SparseRows(values, columns, ptr, width)


def malformed(token: Any) -> str | None:
    """Return the mistake in the attributes of one position, ``None`` if there is none."""
    try:
        token = plain_token(token)
    except TypeError:
        return describe(token)
    try:
        token = _flattened(token) if isinstance(token, dict) and _has_texts([token]) else token
    except TypeError as err:
        return str(err)
    wrong = [f"the name {name!r}" for name in token if not isinstance(name, str)]
    if isinstance(token, dict):
        wrong += [f"{name!r}: {number_text(value)}" for name, value in token.items() if not is_finite(value)]
    return wrong[0] if wrong else None
