"""Axes: ragged (``Dim()``, its size differs from example to example) or fixed (``Dim(6)``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ssvm_dsl.lang.arrays import MOST
from ssvm_dsl.lang.symbols import Mistake, Symbol, got, plain


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

    @property
    def ragged(self) -> bool:
        """Whether the size differs from example to example."""
        return self.size is None

    @property
    def note(self) -> str:
        """``"ragged"`` where the length differs from example to example, for ``print(Model)``."""
        return "ragged" if self.ragged else ""

    @property
    def paired(self) -> PairedDim:
        """The second copy of this axis, for arrays over pairs of its positions."""
        if "_paired" not in self.__dict__:
            object.__setattr__(self, "_paired", PairedDim(self))
        made: PairedDim = self.__dict__["_paired"]
        return made

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
    found = with_paired(tuple(good)) if twice else tuple(good)
    if len(set(map(id, found))) != len(found):
        mistakes.append(f"{what}: the same Dim is used {'three times' if twice else 'twice'}{second}")
    return found


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
