"""``Option``: what users may set of a plug-in, and what kind of value it takes.

The kind is declared, not guessed from the default: a default of ``None`` has no kind, and one of 3 may be a number
that need not be whole.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from types import FunctionType
from typing import Any

import numpy as np

#: What an option may be, besides a choice among listed values, in words.
KINDS: dict[type, str] = {
    int: "an int", float: "a number", str: "a text", bool: "True or False", FunctionType: "a function",
}  # fmt: skip


@dataclass(frozen=True)
class Option:
    """One option of a plug-in.

    Parameters
    ----------
    name : str
    default : Any
        A value of the kind.
    doc : str
        One line: what it does, and its unit.
    kind : int, float, str, bool, types.FunctionType or tuple
        The type of its values, or the values that are allowed.  ``int`` takes whole numbers of 64 bits and no 2.0,
        ``float`` finite numbers, ints as well, ``FunctionType`` whatever can be called.  A function is not kept in
        files of models; checkpoints keep its name.  A tuple may hold types and values: ``(float, "auto")``.
    least, above : float, optional
        Numbers are at least ``least``, and above ``above``.
    optional : bool
        Whether it may be ``None``.
    """

    name: str
    default: Any
    doc: str
    kind: type | tuple[Any, ...]
    least: float | None = None
    above: float | None = None
    optional: bool = False

    def expected(self, value: Any) -> str:
        """Return ``""`` if a value is allowed, else a description of the allowed values."""
        plain = _plain(value)
        fits = (plain is None and self.optional) or any(self._is(one, plain) for one in self.alternatives)
        return "" if fits else self.words

    def converted(self, value: Any) -> Any:
        """Return an allowed value as the plug-in receives it: a Python number of the option's kind."""
        plain = _plain(value)
        if isinstance(plain, Real) and not isinstance(plain, bool | float):
            kind = next(one for one in self.alternatives if self._is(one, plain))
            return kind(plain) if isinstance(kind, type) else plain
        return plain

    @property
    def alternatives(self) -> tuple[Any, ...]:
        """The types and values that it takes."""
        return self.kind if isinstance(self.kind, tuple) else (self.kind,)

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values it takes, where they are listed."""
        return tuple(one for one in self.alternatives if not isinstance(one, type))

    @property
    def words(self) -> str:
        """A description of allowed values: ``"an int of at least 1"``."""
        kinds = [self._in_range(one) for one in self.alternatives if isinstance(one, type)]
        listed = [f"one of {list(self.choices)}" if len(self.choices) > 1 else repr(one) for one in self.choices[:1]]
        return " or ".join([*kinds, *listed, *(["None"] if self.optional else [])])

    def _in_range(self, kind: type) -> str:
        words = [KINDS[kind]]
        if kind in (int, float):
            words += [] if self.least is None else [f"of at least {self.least:g}"]
            words += [] if self.above is None else [f"above {self.above:g}"]
        return " ".join(words)

    def _is(self, kind: Any, value: Any) -> bool:
        """Whether a value is of a type and in range, or is a listed value."""
        if kind is str or kind is bool:
            return isinstance(value, kind)
        if kind is FunctionType:
            return callable(value)
        if not isinstance(kind, type):
            return type(value) is type(kind) and bool(value == kind)
        if not isinstance(value, Integral if kind is int else Real) or isinstance(value, bool):
            return False
        number: Any = value
        in_range = bool(abs(number) <= (2**63 - 1 if kind is int else sys.float_info.max))
        return in_range and (self.least is None or number >= self.least) and (self.above is None or number > self.above)


def named_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the names of functions in their place, which are the same in every process."""
    return {key: _name(value) if callable(value) else value for key, value in options.items()}


def _name(function: Any) -> str:
    """Return the name of a function with its module."""
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _plain(value: Any) -> Any:
    """Return a number or text of NumPy as one of Python, which files can hold; anything else unchanged."""
    return value.item() if isinstance(value, np.generic) else value
