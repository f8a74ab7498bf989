"""Base classes of the language's names: a name, the source line, and the mistakes found so far.

A symbol is frozen plain data.  Constructors never raise for a *semantic* mistake: they note it in
``mistakes``, and the model class reports all of them together when it is created, with file and line.
Python gives the name (``__set_name__``) when the class body ends; it is the one field set after construction.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Protocol, Self, TypeVar

from ssvm_dsl import calls
from ssvm_dsl.calls import CheckedCalls
from ssvm_dsl.lang.arrays import is_masked, number_text

#: A mistake in words; a function if the words name symbols that get their names later.
Mistake = str | Callable[[], str]

R = TypeVar("R")

#: Names of keywords that are usual elsewhere, without punctuation, and what to write here.
HABITS = {
    "nstates": "the number of states is the last argument: Label(T, 3)",
    "nclasses": "the number of states is the last argument: Label(T, 3)",
    "numclasses": "the number of states is the last argument: Label(T, 3)",
    "states": "the states are the last argument: Label(T, 3) or Label(T, 'abc')",
    "classes": "the states are the last argument: Label(T, 3) or Label(T, 'abc')",
    "ignoreindex": "it is called ignore=",
    "ignorelabel": "it is called ignore=",
    "classweight": "weights=[...] of the loss has a number for each class",
    "feature": "it is called features=",
    "inputs": "it is called features=",
    "shared": "weights are shared by default; per= unties them, tie= shares those of another factor",
    "positive": "nonneg=True keeps weights from becoming negative",
    "shape": "axes and sizes are arguments without a name: Input(T, 128)",
    "dims": "axes are arguments without a name: Label(T, 3)",
    "axes": "axes are arguments without a name: Label(T, 3)",
}

_OURS = (str(Path(__file__).parent), str(Path(calls.__file__)), "<string>")


def caller_line() -> str:
    """Return ``file.py:line`` of the nearest frame outside this package's language code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(_OURS):
            return f"{Path(path).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@dataclass(frozen=True, init=False, repr=False)
class Node(CheckedCalls):
    """Frozen plain data with the line it was written on and its mistakes."""

    line: str = field(compare=False, init=False)
    mistakes: tuple[Mistake, ...] = field(default=(), compare=False, kw_only=True)

    #: Names of the attributes that the constructor takes without a name.
    made_from: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def _habits(cls) -> Mapping[str, str]:
        """Return our names for names of other libraries."""
        return HABITS

    def _fill(self, mistakes: Sequence[Mistake], /, **fields: Any) -> None:
        object.__setattr__(self, "line", caller_line())
        object.__setattr__(self, "mistakes", tuple(mistakes))
        for key, value in fields.items():
            object.__setattr__(self, key, value)

    def __copy__(self) -> Self:
        """Return a copy without what was worked out, as it may get other fields."""
        names, made = {one.name for one in fields(self)}, object.__new__(type(self))
        for key, value in self.__dict__.items():
            if key in names or not key.startswith("_"):
                object.__setattr__(made, key, value)
        return made

    def _kept(self, key: str, make: Callable[[], R]) -> R:
        """Return what was worked out once, under a key that begins with an underscore."""
        if key not in self.__dict__:
            object.__setattr__(self, key, make())
        found: R = self.__dict__[key]
        return found

    @property
    def constructor(self) -> str:
        """Name of the public function or class that makes this node."""
        return type(self).__name__

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that make an equal node: what ``repr`` shows and JSON stores."""
        return tuple(getattr(self, name) for name in self.made_from), {}

    def __repr__(self) -> str:
        args, options = self.arguments()
        shown = [show(arg) for arg in args] + [f"{key}={show(value)}" for key, value in options.items()]
        return f"{self.constructor}({', '.join(shown)})"


class Unnamed(str):
    """The name of a symbol that has none yet and is equal to itself alone: empty, and no other one."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = str.__hash__


@dataclass(frozen=True, init=False, repr=False)
class Symbol(Node):
    """A node that the class body (or :class:`ModelBuilder`) gives a name.

    Hashes do not depend on names, which come after construction.
    """

    name: str = field(hash=False)

    #: Whether two of them without names are different ones, equal or not: axes, inputs and labels.
    stands_alone = False

    def _fill(self, mistakes: Sequence[Mistake], /, **fields: Any) -> None:
        super()._fill(mistakes, name=Unnamed() if self.stands_alone else "", **fields)

    # -- what a kind brings: models ask their symbols, and know no kinds ------------------------------------------

    @property
    def made_of(self) -> tuple[Symbol, ...]:
        """The symbol and the unnamed ones inside it, whose own mistakes are its mistakes."""
        return (self,)

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield (role, symbol) of everything it refers to, which must be part of the model."""
        yield from ()

    @property
    def about(self) -> tuple[Symbol, ...]:
        """The labels that it is about."""
        return ()

    @property
    def targets(self) -> tuple[Any, ...]:
        """The targets that it uses."""
        return ()

    @property
    def functions(self) -> tuple[Any, ...]:
        """References of the user functions that it calls."""
        return ()

    def clashes(self, model: ModelView) -> Iterator[str]:
        """Yield conflicts with other symbols.  Called for every symbol."""
        yield from ()

    def misfits(self, model: ModelView) -> Iterator[str]:
        """Yield mismatches with symbols that it refers to.  Called if none of these has another mistake."""
        yield from ()

    def gaps(self, model: ModelView) -> Iterator[str]:
        """Yield things that the model lacks for it.  Called if all symbols have no other mistake."""
        yield from ()

    @property
    def short(self) -> str:
        """How it reads on the right-hand side of a printed model."""
        return repr(self)

    @property
    def note(self) -> str:
        """The comment that is printed after it."""
        return ""

    def __set_name__(self, owner: type, name: str) -> None:
        if not self.name:
            object.__setattr__(self, "name", name)
        elif self.name != name:
            text = f"this {type(self).__name__} already has the name '{self.name}'; make a second one for '{name}'"
            object.__setattr__(self, "mistakes", (*self.mistakes, text))


S = TypeVar("S", bound=Symbol)


class ModelView(Protocol):
    """What symbols see of the model that they are checked in."""

    def of(self, kind: type[S]) -> tuple[S, ...]:
        """Return the symbols of a kind, in order."""

    @property
    def input_names(self) -> frozenset[str]:
        """Names of the inputs."""

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the labels that users know."""

    @property
    def sized_axes(self) -> frozenset[int]:
        """Identities of the axes whose sizes are read from inputs."""


def got(text: str, value: object, hint: str = "") -> Mistake:
    """Return a mistake that shows a value, symbols by the names they get later."""
    return lambda: f"{text}, got {show(value)}{hint}"


def compared(value: object) -> str:
    """Return advice where a truth value stands in place of something of the language: what Python makes of ``==``."""
    known = isinstance(value, bool) or type(value).__name__ == "bool_"
    return "; Python has compared already: use .is_ in place of ==" if known else ""


def plain(value: Any) -> Any:
    """Return numpy scalars and arrays (and what behaves like them) as plain Python numbers, strings and lists."""
    return value.tolist() if hasattr(value, "tolist") and not isinstance(value, type) else value


def as_numbers(values: Any, complaint: Mistake, mistakes: list[Mistake]) -> tuple[float, ...] | None:
    """Return a sequence as floats; note ``complaint`` and return ``None`` when it is not one."""
    try:
        if isinstance(values, Mapping | Set | str | bytes):  # no order, or digits
            raise TypeError
        listed = list(values)
        if is_masked(values) or any(isinstance(value, str | bytes) or is_masked(value) for value in listed):
            raise TypeError
        return tuple(map(float, listed))
    except (TypeError, ValueError, OverflowError):
        mistakes.append(complaint)
        return None


def as_flag(value: object, what: str, mistakes: list[Mistake]) -> bool:
    """Return a truth value; note anything else, for example the string "no"."""
    flag = plain(value)
    if isinstance(flag, bool):
        return flag
    mistakes.append(got(f"{what} is True or False", value))
    return False


def show(value: object) -> str:
    """Return how an argument reads in a declaration: symbols by their names, long lists shortened."""
    if isinstance(value, Symbol) and value.name:
        return value.name
    if isinstance(value, tuple | list):
        items = [show(item) for item in value]
        if len(items) > 8:
            items = [*items[:3], "...", items[-1]]
        plain_nodes = (isinstance(item, Node) and not isinstance(item, Symbol) for item in value)
        written = isinstance(value, tuple) and all(plain_nodes)
        if written and value:
            return f"({', '.join(items)})"
        return f"[{', '.join(items)}]"
    try:
        return number_text(value)
    except Exception:  # the value's own method
        return f"a {type(value).__name__}"
