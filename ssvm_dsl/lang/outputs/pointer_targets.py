"""Patterns of several pointers: ``siblings(y)`` and ``grandparents(y)``.

Factors of several pointers score where all of them point as the pattern says; elsewhere they score nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I64
from ssvm_dsl.calls import checked_call
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.symbols import Mistake, got

#: What functions of features of such factors may ask for beside the inputs.
POINTER_ENDS = ("first", "second", "target")


class PointerTarget(Target):
    """Two pointers that share a position; made by the function it is named after."""

    @property
    def arity(self) -> int:
        """Two pointers."""
        return 2

    @property
    def feature_axes(self) -> tuple[Dim, ...]:
        """No axes: features are a row for each factor."""
        return ()

    @property
    def shared_axes(self) -> tuple[Dim, ...]:
        """No axes."""
        return ()

    def ends(self, sizes: tuple[int, ...]) -> tuple[I64, I64, I64]:
        """Return the positions (first, second, target) of each factor; see the function that makes it.

        Parameters
        ----------
        sizes : tuple of int
            Numbers of pointers, and of positions to point to.
        """
        n, m = sizes
        if self.kind == "siblings":
            first, second = np.triu_indices(n, 1)
        else:
            first, second = np.nonzero(~np.eye(n, dtype=bool))
        target = np.tile(np.arange(m, dtype=np.int64), len(first))
        return np.repeat(first, m).astype(np.int64), np.repeat(second, m).astype(np.int64), target

    def scopes(self, sizes: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the two pairs of positions of each factor, as flat positions in C order; ``shape (n, 2)``."""
        (first, second, target), m = self.ends(sizes), sizes[1]
        middle = target if self.kind == "siblings" else second
        return np.stack([first * m + middle, second * m + target], axis=1)

    def count(self, sizes: Mapping[str, Any]) -> Any:
        """Return the number of factors for axis sizes given by name (ints, or arrays over examples)."""
        n, m = (sizes[dim.name] for dim in self.label.dims)
        return n * (n - 1) * m // (2 if self.kind == "siblings" else 1)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the pointer label."""
        return self.labels, {}


@checked_call
def siblings(y: Label) -> Target:
    """Join each two pointers to the same position: ``first`` and ``second`` point to ``target``, ``first < second``.

    A factor scores where both do.  Its features are a row for each (first, second, target), the target running fastest:
    ``Feature(function, siblings(y), width=...)``, a function that takes these as arrays.

    Parameters
    ----------
    y : Label
        A pointer label, such as ``Label(T, over=T, null=True)``.

    Examples
    --------
    >>> both = Factor(siblings(head))
    >>> def apart(first, second, target): return (second - first == 1).astype(float)
    >>> near = Factor(siblings(head), features=Feature(apart, siblings(head), width=1))
    """
    return PointerTarget("siblings", (y,), mistakes=_pointer_mistakes("siblings", y))


@checked_call
def grandparents(y: Label) -> Target:
    """Join pointers one after the other: ``first`` points to ``second``, which points to ``target``.

    A factor scores where both do.  Its features are those of :func:`siblings`, with all pairs of different positions in
    order, and the target running fastest.

    Parameters
    ----------
    y : Label
        A label that points to positions of its own axis, such as ``Label(T, over=T, null=True)``.

    Examples
    --------
    >>> chains = Factor(grandparents(head))
    """
    mistakes = _pointer_mistakes("grandparents", y)
    if not mistakes and y.dims[1].origin is not y.dims[0]:
        mistakes.append("grandparents: pointers to pointers need one axis: Label(T, over=T)")
    return PointerTarget("grandparents", (y,), mistakes=mistakes)


def _pointer_mistakes(what: str, y: object) -> list[Mistake]:
    return [] if isinstance(y, Label) and y.pointer else [got(f"{what}: a pointer label, as Label(T, over=T)", y)]
