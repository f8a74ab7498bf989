"""Output variables: ``Label(T, "abc")`` is an array of discrete variables, one at each position of its axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from ssvm_dsl.lang.arrays import MOST
from ssvm_dsl.lang.dims import Dim, check_axes
from ssvm_dsl.lang.symbols import Mistake, Symbol, got, plain

if TYPE_CHECKING:
    from ssvm_dsl.lang.relations import Target

ClassName = str | int


@dataclass(frozen=True, init=False, repr=False)
class Label(Symbol):
    """Discrete output variables, one for each position of the axes (a single one without axes).

    Parameters
    ----------
    *axes : Dim
        The axes of the array of variables, e.g. ``T`` or ``H, W``; none for a single variable.
    states : int, str or sequence of class names
        An int ``k`` means the classes ``0 .. k-1``; a string means one class per character; a sequence gives
        the class names (strings or ints).  Declared, never inferred from data.

    Examples
    --------
    >>> y = Label(T, "abcdefghijklmnopqrstuvwxyz")
    >>> y = Label(H, W, 21)
    >>> y = Label(["noun", "verb", "other"])
    """

    dims: tuple[Dim, ...]
    n_states: int
    classes: tuple[ClassName, ...] | None

    def __init__(self, *axes_then_states: Dim | int | str | Sequence[ClassName]) -> None:
        mistakes: list[Mistake] = []
        *axes, states = axes_then_states or (1,)
        if not axes_then_states:
            mistakes.append("Label: the number of states or their names are missing, e.g. Label(T, 26) or Label('ab')")
        dims = check_axes(tuple(axes), "Label", mistakes)
        n_states, classes = _read_states(plain(states), mistakes)
        if prod(dim.size or 1 for dim in dims) > MOST:
            mistakes.append(f"Label: the fixed axes have more than {MOST} positions")
        self._fill(mistakes, dims=dims, n_states=n_states, classes=classes)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (*self.dims, self.n_states if self.classes is None else self.classes), {}

    def is_(self, state: ClassName) -> Target:
        """Return the target "this variable has class ``state``" (an indicator; ``==`` is never overloaded).

        Parameters
        ----------
        state : class name
            One of the declared classes.
        """
        from ssvm_dsl.lang.relations import Target

        return Target("indicator", (self,), state=plain(state))

    def index(self, state: ClassName) -> int | None:
        """Return the position of a class name among the states, ``None`` when it is not one of them."""
        if not isinstance(state, str | int) or isinstance(state, bool):
            return None
        if self.classes is not None:
            return self.classes.index(state) if state in self.classes else None
        return state if isinstance(state, int) and 0 <= state < self.n_states else None


def _read_states(states: object, mistakes: list[Mistake]) -> tuple[int, tuple[ClassName, ...] | None]:
    """Return (number of states, class names or None for plain ints)."""
    if isinstance(states, int) and not isinstance(states, bool):
        if states < 1:
            mistakes.append(got("Label: the last argument is the number of states or their names", states))
        elif states > MOST:
            mistakes.append(got(f"Label: at most {MOST} states", states))
        return min(max(states, 1), MOST), None
    if isinstance(states, Dim | bytes | bytearray | memoryview) or not isinstance(states, Sequence):
        mistakes.append(got("Label: the last argument is the number of states or their names", states))
        return 1, None
    names = tuple(map(plain, states))
    wrong = [name for name in names if not isinstance(name, str | int) or isinstance(name, bool)]
    if wrong:
        mistakes.append(got("Label: class names are strings or ints", wrong[0]))
        return len(names), None
    # plain ones: members of an enum, for one, are not written to files as themselves
    names = tuple(str.__str__(name) if isinstance(name, str) else int(name) for name in names)
    mistakes += _name_mistakes(names)
    return max(len(names), 1), names or None


def _name_mistakes(names: tuple[ClassName, ...]) -> Iterator[Mistake]:
    """Yield what is wrong with strings and ints as class names."""
    if len({type(name) for name in names}) > 1:
        yield "Label: class names are all strings or all ints, not a mixture"
    if len(set(names)) != len(names):
        yield "Label: class names are given twice"
    if not names:
        yield "Label: at least one class is needed"
    for name in names:
        if isinstance(name, str) and name.endswith("\0"):
            yield got("Label: class names do not end with the character NUL, which numpy drops", name)
        if isinstance(name, int) and not -(2**63) <= name < 2**63:
            yield got("Label: class names that are ints have at most 64 bits", name)
