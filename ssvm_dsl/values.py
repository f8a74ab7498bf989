"""Equality of records that may hold ``nan``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from numbers import Real
from typing import Any


class Value:
    """Base of dataclasses that are values although they may hold ``nan``: a number that is not known.

    Python 3.13 compares dataclasses field by field, so that a record with an unknown number differs even from itself;
    before, it depended on whether both hold the same object.  Here two unknown numbers are equal, within tuples, lists
    and mappings, too.  Subclasses are declared with ``@dataclass(frozen=True, eq=False)``: the decorator would write
    the comparison of its own.
    """

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return same(_compared(self), _compared(other))

    def __hash__(self) -> int:
        return hash(tuple(map(_hashable, _compared(self))))


def same(a: Any, b: Any) -> bool:
    """Return whether two fields are equal, where ``nan`` equals ``nan``."""
    if isinstance(a, str) or isinstance(b, str):
        return bool(a == b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, Sequence) and isinstance(b, Sequence):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a is b or (_unknown(a) and _unknown(b)) or bool(a == b)


def _compared(record: Any) -> tuple[Any, ...]:
    """Return the fields that count in a comparison."""
    return tuple(getattr(record, field.name) for field in fields(record) if field.compare)


def _unknown(value: object) -> bool:
    return isinstance(value, Real) and value != value


def _hashable(value: Any) -> Any:
    """Return what stands for a field in a hash: one object for all ``nan``, within tuples, too."""
    if isinstance(value, tuple):
        return tuple(map(_hashable, value))
    return "nan" if _unknown(value) else value
