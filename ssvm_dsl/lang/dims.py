"""Axes: ragged (``Dim()``, its size differs from example to example) or fixed (``Dim(6)``)."""

from __future__ import annotations

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
            mistakes.append(got("Dim: the size is a positive int", size))
            size = None
        elif size is not None and size > MOST:
            mistakes.append(got(f"Dim: the size is at most {MOST}", size))
            size = None
        self._fill(mistakes, size=size)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (() if self.size is None else (self.size,)), {}

    @property
    def ragged(self) -> bool:
        """Whether the size differs from example to example."""
        return self.size is None


def check_axes(axes: tuple[object, ...], what: str, mistakes: list[Mistake]) -> tuple[Dim, ...]:
    """Return the Dims of ``axes``; note a mistake for everything that is not a Dim."""
    good = []
    for axis in axes:
        if isinstance(axis, Dim):
            good.append(axis)
        else:
            mistakes.append(got(f"{what}: axes are Dims", axis))
    if len(set(map(id, good))) != len(good):
        mistakes.append(f"{what}: the same Dim is used twice; make a second Dim()")
    return tuple(good)
