"""Axes, ``T = Dim()``, and the index variables that run over them: positions and conditions.

An axis is ragged (its size differs from example to example) or fixed.  An index, ``t = T.index()``, runs over the
positions of an axis.  A *position* is an index, an index plus or minus an int, one on a ring (``(t + 1) % T``), one
counted from the end (``-1 - t``), an int, or what :class:`~ssvm_dsl.Edges` or :class:`~ssvm_dsl.Positions` hold at
positions.  A *condition*, ``(i < j) & friend[i, j]``, compares positions, or numbers of inputs; there positions are
numbers, with more arithmetic: differences, ``abs``, ``%``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import count
from math import isfinite
from typing import Any, ClassVar, NoReturn, overload

import numpy as np

from ssvm_dsl.errors import ModelError
from ssvm_dsl.lang.arrays import MOST
from ssvm_dsl.lang.symbols import Mistake, Node, Symbol, caller_line, compared, got, plain, show


@dataclass(frozen=True, init=False, repr=False)
class Dim(Symbol):
    """An axis shared by inputs and labels.

    Parameters
    ----------
    size : int, optional
        Fixed size; without it the axis is ragged and every example has its own size.

    Examples
    --------
    >>> T = Dim()      # ragged: a word of T letters
    >>> K = Dim(6)     # fixed: always six labels
    """

    size: int | None

    stands_alone = True

    def __init__(self, size: int | None = None) -> None:
        mistakes: list[Mistake] = []
        size = plain(size)
        if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
            mistakes.append(got("Dim: the size must be a positive int", size))
            size = None
        elif size is not None and size > MOST:
            mistakes.append(got(f"Dim: the size is at most {MOST}", size))
            size = None
        self._fill(mistakes, size=size)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (() if self.size is None else (self.size,)), {}

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        if "_paired" in self.__dict__:
            self.paired._follow()

    @overload
    def index(self) -> Index: ...

    @overload
    def index(self, n: int) -> tuple[Index, ...]: ...

    def index(self, n: int | None = None) -> Index | tuple[Index, ...]:
        """Return an index that runs over the positions of this axis, or a tuple of n of them.

        Indices are named by the attributes that they are bound to.

        Examples
        --------
        >>> t = T.index()
        >>> i, j = N.index(2)
        """
        if n is None:
            return Index(self)
        many = plain(n)
        if not isinstance(many, int) or isinstance(many, bool) or many < 1:
            refuse(f"index: how many indices, a positive int, got {show(n)}")
        return tuple(Index(self) for _ in range(many))

    @property
    def ragged(self) -> bool:
        """Whether the size differs from example to example."""
        return self.size is None

    @property
    def note(self) -> str:
        """``"ragged"`` where the length differs from example to example, for ``print(Model)``."""
        return "ragged" if self.ragged else ""

    @property
    def sized_axes(self) -> tuple[Dim, ...]:
        """Itself: what comes with an example under the name of an axis is its size."""
        return (self,)

    @property
    def paired(self) -> PairedDim:
        """The second copy of this axis, for arrays over pairs of its positions."""
        return self._kept("_paired", lambda: PairedDim(self))

    @property
    def origin(self) -> Dim:
        """The axis that was declared: the one that a paired is of, else this one."""
        return self


class PairedDim(Dim):
    """An axis in the second place of ``Input(T, T, 20)``, or of a pointer label: as long as the first.

    Parameters
    ----------
    of : Dim
        The axis that it repeats.
    """

    of: Dim

    def __init__(self, of: Dim) -> None:
        super().__init__(of.size)
        object.__setattr__(self, "of", of)
        self._follow()

    @property
    def origin(self) -> Dim:
        """The axis that it repeats."""
        return self.of

    def _follow(self) -> None:
        """Take a name that no user can give, after the axis."""
        object.__setattr__(self, "name", f"{self.of.name}'" if self.of.name else "")


def with_paired(axes: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Return axes where the second use of one is its paired."""
    return tuple(axis.paired if any(axis is other for other in axes[:k]) else axis for k, axis in enumerate(axes))


def with_origins(axes: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Return axes as they were declared."""
    return tuple(axis.origin for axis in axes)


def check_axes(
    axes: tuple[object, ...],
    what: str,
    mistakes: list[Mistake],
    twice: bool = False,
    second: str = "; make a second Dim()",
) -> tuple[Dim, ...]:
    """Return the Dims of ``axes``; note a mistake for every entry that is not a Dim.

    Parameters
    ----------
    axes : tuple
    what : str
        Whose axes they are.
    mistakes : list
        Where to note them.
    twice : bool
        Whether an axis may be used twice: once for positions, once for what they point to (its paired).
    second : str
        Advice on an axis that is used too often.
    """
    good = []
    for axis in axes:
        if isinstance(axis, Dim):
            good.append(axis)
        elif axis is Dim:
            mistakes.append(f"{what}: an axis is made by calling Dim: write T = Dim(), then {what}(T, ...)")
        else:
            mistakes.append(got(f"{what}: axes are Dims", axis))
    axes_twice = with_paired(tuple(good)) if twice else tuple(good)
    if len(set(map(id, axes_twice))) != len(axes_twice):
        mistakes.append(f"{what}: the same Dim is used {'three times' if twice else 'twice'}{second}")
    return axes_twice


def union_axes(*axes: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Return the axes of several arrays, each once, in order of first use."""
    # by identity: two Dims that have no name yet compare equal
    return tuple({id(dim): dim for each in axes for dim in each}.values())


def n_positions(axes: tuple[Dim, ...], sizes: Mapping[str, Any]) -> Any:
    """Return the number of positions of an array for axis sizes given by name (ints, or arrays over examples)."""
    total: Any = 1
    for dim in axes:
        total = total * sizes[dim.name]
    return total


#: Numbers the indices in the order in which they are made.
_NUMBERS = count()


def refuse(text: str) -> NoReturn:
    """Raise the error of an expression that no declaration can hold, with the line that it is on.

    Raises
    ------
    ModelError
    """
    raise ModelError("", [(caller_line(), text)])


class Joinable:
    """What ``&`` and ``|`` join to a condition."""

    def __and__(self, other: object) -> Condition:
        return join_conditions("&", self, other)

    def __rand__(self, other: object) -> Condition:
        return join_conditions("&", other, self)

    def __or__(self, other: object) -> Condition:
        return join_conditions("|", self, other)

    def __ror__(self, other: object) -> Condition:
        return join_conditions("|", other, self)


class Number(Joinable):
    """What conditions compare: positions, reads, inputs at positions, and sums and differences of these."""

    __array_ufunc__ = None  # np.int64(1) + t is t + 1, and np.arange(2) + t is refused

    is_truth = False  # whether it may be a condition: the input is 1 there

    @property
    def parts(self) -> tuple[Any, ...]:
        """The numbers that this one is computed from."""
        return ()

    def __add__(self, other: object) -> Any:
        return _add(self, other)

    def __radd__(self, other: object) -> Any:
        return _add(self, other)

    def __sub__(self, other: object) -> Any:
        if isinstance(other, Number):
            return Arithmetic("-", (self, other))
        return _add(self, -_whole(other, "-"))

    def __rsub__(self, other: object) -> Any:
        by = _whole(other, "-")
        if isinstance(self, Index) and by < 0:
            return FromEnd(self, by)
        refuse(f"{by} - {self!r}: only a negative int less an index is a position, counted from the end: -1 - t")

    def __neg__(self) -> NoReturn:
        refuse(f"-{self!r} is no position; -1 - t counts from the end")

    def __mod__(self, other: object) -> Any:
        if isinstance(other, Dim):
            base, by = (self.base, self.by) if isinstance(self, Shift) else (self, 0)
            if not isinstance(base, Index) or base.dim is not other:
                refuse(f"({self!r}) % {show(other)}: a ring is over the index's own axis, as in (t + 1) % T")
            return Ring(base, by, other)
        return Arithmetic("%", (self, _whole(other, "%")))

    def __abs__(self) -> Arithmetic:
        return Arithmetic("abs", (self,))

    def __lt__(self, other: object) -> Condition:
        return compare("<", self, other)

    def __le__(self, other: object) -> Condition:
        return compare("<=", self, other)

    def __gt__(self, other: object) -> Condition:
        return compare(">", self, other)

    def __ge__(self, other: object) -> Condition:
        return compare(">=", self, other)

    def is_(self, other: object) -> Condition:
        """Return the condition that this is equal to a number, a position or an input (``None``: it is no position)."""
        return compare("==", self, other)

    def is_not(self, other: object) -> Condition:
        """Return the condition that this differs from a number, a position or an input."""
        return compare("!=", self, other)

    def __bool__(self) -> NoReturn:
        refuse(f"{self!r} has no truth value in Python; write conditions as where=(i < j) & f[i, j]")

    def __iter__(self) -> NoReturn:
        refuse(f"{self!r} is one position and cannot be iterated; i, j = N.index(2) makes two indices")

    def __contains__(self, other: object) -> NoReturn:
        refuse(f"`in` asks Python, not the model; write {self!r}.is_(...)")

    def __invert__(self) -> NoReturn:
        refuse(f"~{self!r}: write Not({self!r})")

    def _no_product(self, other: object) -> NoReturn:
        refuse(f"{self!r} times or by {show(other)} is no position; put the positions into Positions(..., over=axis)")

    __mul__ = __rmul__ = __floordiv__ = __truediv__ = __pow__ = _no_product


class Position(Number):
    """A number that may be a position on an axis."""

    @property
    def axis(self) -> Dim | None:
        """The axis that it is a position on; ``None`` for a number that is none."""
        return None


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Index(Symbol, Position):
    """A variable that runs over the positions of an axis; made by :meth:`Dim.index`.

    Two indices are equal if they have the same name and run over equal axes; without names only an index and itself.

    Parameters
    ----------
    dim : Dim
    """

    dim: Dim
    number: int = field(compare=False)
    made_from: ClassVar = ("dim",)

    def __init__(self, dim: Dim) -> None:
        self._fill([], dim=dim, number=next(_NUMBERS))

    @property
    def axis(self) -> Dim:
        """The axis."""
        return self.dim

    def on(self, dim: Dim) -> OnAxis:
        """Return the position of the same number on another axis."""
        return OnAxis(self, dim)

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield the axis."""
        yield "the axis", self.dim

    @property
    def constructor(self) -> str:
        """What makes it."""
        return "index"

    @property
    def short(self) -> str:
        """How it is made."""
        return f"{show(self.dim)}.index()"

    def shown_as(self, text: str) -> Index:
        """Return the index, which reads as this text as long as it has no name: of words such as ``chain(y)``."""
        object.__setattr__(self, "_shown", text)
        return self

    def __repr__(self) -> str:
        shown: str = self.__dict__.get("_shown", "an unnamed index")
        return self.name or shown

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Index):
            return NotImplemented
        return self is other or (bool(self.name) and self.name == other.name and self.dim == other.dim)

    def __hash__(self) -> int:
        return hash((Index, self.dim.size))


@dataclass(frozen=True, repr=False)
class Expression(Node):
    """A node of an expression: its arguments are its fields, its parts the numbers and conditions among them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "line", caller_line())

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the fields, in the order of the constructor."""
        return tuple(getattr(self, one.name) for one in fields(self) if one.compare), {}

    @property
    def parts(self) -> tuple[Any, ...]:
        """The numbers and conditions that it is made of."""
        values = self.arguments()[0]
        listed = (one for value in values for one in (value if isinstance(value, tuple) else (value,)))
        return tuple(one for one in listed if isinstance(one, Number | Condition))


@dataclass(frozen=True, repr=False)
class Shift(Expression, Position):
    """A position some places after another one, or before it."""

    base: Any
    by: int

    @property
    def axis(self) -> Dim | None:
        """The axis of an index; a read plus a number is none."""
        return self.base.axis if isinstance(self.base, Index | OnAxis | FromEnd) else None

    def __repr__(self) -> str:
        return f"{self.base!r} {'+' if self.by > 0 else '-'} {abs(self.by)}"


@dataclass(frozen=True, repr=False)
class Ring(Expression, Position):
    """A position on an axis whose last position is followed by its first one: ``(t + 1) % T``."""

    base: Index
    by: int
    dim: Dim

    @property
    def axis(self) -> Dim:
        """The axis."""
        return self.dim

    def __repr__(self) -> str:
        inner = repr(Shift(self.base, self.by)) if self.by else repr(self.base)
        return f"({inner}) % {show(self.dim)}" if self.by else f"{inner} % {show(self.dim)}"


@dataclass(frozen=True, repr=False)
class FromEnd(Expression, Position):
    """A position counted from the end: ``-1 - t`` is the last one where t is 0."""

    base: Index
    by: int

    @property
    def axis(self) -> Dim:
        """The axis of the index."""
        return self.base.dim

    def __repr__(self) -> str:
        return f"{self.by} - {self.base!r}"


@dataclass(frozen=True, repr=False)
class OnAxis(Expression, Position):
    """The same number on another axis: ``i.on(J)``."""

    base: Index
    dim: Dim

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.dim, Dim):
            self._fill([got("on: an axis, as in i.on(J)", self.dim)], dim=self.base.dim)

    @property
    def axis(self) -> Dim:
        """The other axis."""
        return self.dim

    def __repr__(self) -> str:
        return f"{self.base!r}.on({show(self.dim)})"


@dataclass(frozen=True, repr=False)
class Read(Expression, Position):
    """What edges or positions hold: ``e[m, 0]``, ``parent[k]``."""

    source: Any  # Edges or Positions
    places: tuple[Any, ...]
    column: int = 0

    @property
    def axis(self) -> Dim:
        """The axis that the source holds positions on."""
        over: Dim = self.source.ends[self.column]
        return over

    def __repr__(self) -> str:
        columns = [] if len(self.source.ends) == 1 else [str(self.column)]
        return f"{show(self.source)}[{', '.join([*map(show, self.places), *columns])}]"


@dataclass(frozen=True, repr=False)
class Arithmetic(Expression, Number):
    """A number that is no position: ``i - j``, ``i + j``, ``abs(i - j)``, ``t % 2``."""

    op: str
    given: tuple[Any, ...]

    def __repr__(self) -> str:
        if self.op == "abs":
            return f"abs({self.given[0]!r})"
        left, right = (f"({one!r})" if isinstance(one, Arithmetic) else show(one) for one in self.given)
        return f"{left} {self.op} {right}"


def read_places(places: Any, what: str) -> tuple[Any, ...]:
    """Return what stands in square brackets as a tuple of positions; ints are plain ints.

    Raises
    ------
    ModelError
        A slice, a float, ``True`` or an array.
    """
    listed = places if isinstance(places, tuple) else (places,)
    read: list[Any] = []
    for place in listed:
        if isinstance(place, slice):
            refuse(f"{what}[...]: slices are no positions; write an index, as {what}[t + 1]")
        place = place.item() if isinstance(place, np.integer) else place
        whole = isinstance(place, int) and not isinstance(place, bool)
        if not whole and not isinstance(place, Number):
            refuse(f"{what}[...]: positions are indices and ints, got {show(place)}; use Positions for others")
        read.append(place)
    return tuple(read)


def place_mistakes(places: tuple[Any, ...], dims: tuple[Dim, ...], what: object) -> Iterator[Mistake]:
    """Yield why positions are not those of some axes, of a symbol that gets its name later."""
    if len(places) != len(dims):
        yield lambda: _count_words(what, len(dims), len(places))
        return
    for place, dim in zip(places, dims, strict=True):
        if isinstance(place, int):
            if dim.size is not None and not -dim.size <= place < dim.size:
                yield partial(_off_axis, what, place, dim)
            continue
        axis = place.axis if isinstance(place, Position) else None
        if axis is None:
            yield partial(_no_position, what, place)
        elif axis.origin is not dim.origin:
            yield partial(_other_axis, what, place, axis, dim)


def _count_words(what: object, wanted: int, found: int) -> str:
    advice = f"{wanted} position{'s' if wanted != 1 else ''}, one for each axis"
    return f"{show(what)} has {advice}, got {found}" + ("; write y[i, j], not y[i][j]" if found < wanted else "")


def _off_axis(what: object, place: int, dim: Dim) -> str:
    return f"{show(what)}[{place}]: there is no position {place} on an axis of {dim.size}"


def _no_position(what: object, place: Any) -> str:
    return f"{show(what)}[{place!r}]: this is no position; put the positions into Positions(..., over=axis)"


def _other_axis(what: object, place: Any, axis: Dim, dim: Dim) -> str:
    here, there = show(axis), show(dim.origin)
    if here == there:
        return f"{show(what)}[{place!r}]: {place!r} runs over the {here} of another model; make an index here"
    hint = f"; {place!r}.on({there}) is the same number there" if isinstance(place, Index) else ""
    return f"{show(what)}[{place!r}]: a position on {here}, expected one on {there}{hint}"


def walk(number: object) -> Iterator[Any]:
    """Yield a number or a condition, and everything it is computed from."""
    yield number
    if isinstance(number, Number | Condition):
        for part in number.parts:
            yield from walk(part)


def indices_of(*numbers: object) -> tuple[Index, ...]:
    """Return the indices in some numbers and conditions, each once, in the order of their declaration."""
    index_by_id = {id(one): one for number in numbers for one in walk(number) if isinstance(one, Index)}
    return tuple(sorted(index_by_id.values(), key=lambda one: one.number))


def _whole(value: object, op: str) -> int:
    """Return an int of an expression."""
    value = value.item() if isinstance(value, np.integer) else value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    hint = "; put the positions of an array into Positions" if hasattr(value, "__array__") else ""
    refuse(f"{op}: positions take ints, got {show(value)}{hint}")


def _add(number: Number, other: object) -> Any:
    """Return a number plus an int, or plus another number."""
    if isinstance(other, Number):
        return Arithmetic("+", (number, other))
    by = _whole(other, "+")
    base = number
    if isinstance(number, Shift):
        base, by = number.base, number.by + by
    if by == 0:
        return base
    return Shift(base, by) if isinstance(base, Position) else Arithmetic("+", (base, by))


@dataclass(frozen=True, repr=False)
class Condition(Expression, Joinable):
    """Something that is true of an assignment of indices, or false, or unknown (it reads at a missing position)."""

    def __invert__(self) -> NoReturn:
        refuse(f"~({self!r}): write Not({self!r})")

    def __bool__(self) -> NoReturn:
        refuse(f"`{self!r}` has no truth value in Python: write (i < j) & (j < k), and | and Not for `or` and `not`")


@dataclass(frozen=True, repr=False)
class Compare(Condition):
    """A comparison of two numbers; of a read with ``None``, which is no position."""

    op: str
    left: Any
    right: Any

    def __repr__(self) -> str:
        method = {"==": "is_", "!=": "is_not"}.get(self.op)
        left = f"({self.left!r})" if method and isinstance(self.left, Arithmetic | Shift) else show(self.left)
        return f"{left}.{method}({show(self.right)})" if method else f"{left} {self.op} {show(self.right)}"


@dataclass(frozen=True, repr=False)
class IsOne(Condition):
    """An input of zeros and ones at positions, as a condition."""

    number: Any

    def __repr__(self) -> str:
        return repr(self.number)


@dataclass(frozen=True, repr=False)
class Joined(Condition):
    """Conditions joined by ``&`` or ``|``, or the opposite of one (``not``)."""

    op: str
    given: tuple[Condition, ...]

    def __repr__(self) -> str:
        if self.op == "not":
            return f"Not({self.given[0]!r})"
        return f" {self.op} ".join(f"({one!r})" if not isinstance(one, IsOne) else repr(one) for one in self.given)


def compare(op: str, left: Number, right: object) -> Condition:
    """Return the comparison of a number with another one, an int or float, or (``is_`` alone) ``None``.

    Raises
    ------
    ModelError
        The other side is nothing that can be compared.
    """
    right = right.item() if isinstance(right, np.generic) else right
    if isinstance(right, Condition) or (isinstance(left, Number) and isinstance(right, bool)):
        refuse(f"{left!r} {op} {right!r}: brackets are missing: write (i < j) & f[i, j]")
    if right is None and op in ("==", "!="):
        if not isinstance(left, Read):
            refuse(f"{left!r}.is_(None): only what Positions hold may be no position")
        return Compare(op, left, None)
    if not (isinstance(right, Number) or (isinstance(right, int | float) and isfinite(right))):
        refuse(f"{left!r} {op} {show(right)}: conditions compare positions, and numbers of inputs with each other")
    mistakes: list[Mistake] = []
    axes = [getattr(one, "axis", None) for one in (left, right)]
    if axes[0] is not None and axes[1] is not None and axes[0].origin is not axes[1].origin:
        first, second = axes
        mistakes.append(
            lambda: f"{left!r} {op} {right!r}: positions on {show(first)} and on {show(second)}, two axes; "
            f"i.on({show(second)}) is the same number there"
        )
    for number in (left, right):
        mistakes += getattr(number, "mistakes", ())
    return Compare(op, left, right, mistakes=tuple(mistakes))


def as_condition(value: object, what: str = "where") -> Condition:
    """Return a condition; an input at positions means that it is 1 there.

    Raises
    ------
    ModelError
        It is something else.
    """
    if isinstance(value, Condition):
        return value
    if isinstance(value, Number) and value.is_truth:
        return IsOne(value)
    hint = compared(value)
    if isinstance(value, Position):
        hint = "; brackets are missing: write (i < j) & f[i, j]"
    elif isinstance(value, Number):
        hint = f"; it has several numbers, name one: {show(value)[:-1]}, 0]"
    elif type(value).__name__ in _OF_VARIABLES:
        hint = "; conditions are about positions and inputs, not about variables: that is a rule, as Implies(..., ...)"
    refuse(f"{what}: a condition such as i < j or friend[i, j], got {show(value)}{hint}")


#: What is about variables.
_OF_VARIABLES = frozenset({"LabelAt", "LiteralAt", "Formula"})


def join_conditions(op: str, left: object, right: object) -> Condition:
    """Return two conditions joined by ``&`` or ``|``."""
    given: list[Condition] = []
    for one in (as_condition(left, op), as_condition(right, op)):
        given += one.given if isinstance(one, Joined) and one.op == op else (one,)
    return Joined(op, tuple(given))


def opposite(condition: Condition | Number) -> Condition:
    """Return the condition that another one is not true."""
    return Joined("not", (as_condition(condition, "Not"),))


def conjuncts(condition: Condition | None) -> tuple[Condition, ...]:
    """Return the conditions that are joined by ``&``; none for ``None``."""
    if condition is None:
        return ()
    return condition.given if isinstance(condition, Joined) and condition.op == "&" else (condition,)


def conjunction(conditions: tuple[Condition, ...]) -> Condition | None:
    """Return conditions joined by ``&``; ``None`` for none."""
    return None if not conditions else conditions[0] if len(conditions) == 1 else Joined("&", conditions)
