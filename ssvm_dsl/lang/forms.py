"""Forms: how the weights of a factor fill its table of scores over the states of its variables."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from math import prod

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.calls import checked_class
from ssvm_dsl.lang.arrays import NotNumbers, as_floats, real_array
from ssvm_dsl.lang.symbols import Mistake

#: Forms without numbers of their own.
_OF_USERS = ("full", "potts", "symmetric", "antisymmetric")


@checked_class
@dataclass(frozen=True)
class Form:
    """A label basis: ``table[states] = sum_q weight[q] * basis[q, states]``.

    Use the ready ones ``FULL`` (a weight for each combination of states), ``POTTS`` (one weight, scored when
    all states agree), ``SYMMETRIC`` and ``ANTISYMMETRIC`` (of two variables with the same states), or pass an
    explicit array of shape ``(p, *cards)`` as ``form=``.

    Parameters
    ----------
    name : str
        ``"full"``, ``"potts"``, ``"symmetric"``, ``"antisymmetric"``, ``"indicator"``, ``"basis"`` or ``"truth"``.
    values : tuple of float, optional
        The explicit basis, flattened (C order); the state of an indicator; where a rule is true.
    shape : tuple of int, optional
        Its shape ``(p, *cards)``.
    """

    name: str
    values: tuple[float, ...] = ()
    shape: tuple[int, ...] = ()

    def __repr__(self) -> str:
        explicit = isinstance(self.name, str) and self.name == "basis"
        return f"Form({self.name!r}, shape={self.shape})" if explicit else str(self.name).upper()

    def problems(self, cards: tuple[int, ...]) -> list[str]:
        """Return the mistakes in using this form on variables with ``cards`` states."""
        same = len(set(cards)) == 1
        if self.name == "potts" and not (same and len(cards) >= 2):
            return [f"POTTS needs two or more variables with the same states, got states {cards}"]
        if self.name in ("symmetric", "antisymmetric") and not (same and len(cards) == 2):
            return [f"{self.name.upper()} needs two variables with the same states, got states {cards}"]
        if self.name == "antisymmetric" and cards[0] < 2:
            return ["ANTISYMMETRIC needs at least two states"]
        if self.name == "basis" and self.shape[1:] != cards:
            return [f"the basis has shape {self.shape}, expected (p, {', '.join(map(str, cards))})"]
        return []

    def n_weights(self, cards: tuple[int, ...]) -> int:
        """Return the number of basis functions p."""
        if self.name == "full":
            return prod(cards)
        if self.name in ("potts", "indicator", "truth"):
            return 1
        if self.name == "basis":
            return self.shape[0]
        n = cards[0]
        return n * (n + 1) // 2 if self.name == "symmetric" else n * (n - 1) // 2

    def weight_shape(self, cards: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape users see: ``cards`` for FULL, ``()`` for one weight, ``(p,)`` otherwise."""
        if self.name == "full":
            return cards
        return () if self.name in ("potts", "indicator", "truth") else (self.n_weights(cards),)

    def matrix(self, cards: tuple[int, ...]) -> NDArray[np.float64] | None:
        """Return the basis as ``ndarray, shape (p, prod(cards))``; ``None`` means the identity (FULL)."""
        if self.name == "full":
            return None
        if self.name == "basis":
            return np.array(self.values).reshape(self.shape[0], -1)
        if self.name == "truth":
            return np.array(self.values).reshape(1, -1)
        basis = np.zeros((self.n_weights(cards), *cards))
        if self.name == "indicator":
            basis[(0, *[int(self.values[0])] * len(cards))] = 1.0
        elif self.name == "potts":
            for state in range(cards[0]):
                basis[(0, *[state] * len(cards))] = 1.0
        elif self.name == "symmetric":
            for row, (a, b) in enumerate(combinations_with_replacement(range(cards[0]), 2)):
                basis[row, a, b] = basis[row, b, a] = 1.0
        else:
            for row, (a, b) in enumerate(combinations(range(cards[0]), 2)):
                basis[row, a, b], basis[row, b, a] = 1.0, -1.0
        return basis.reshape(len(basis), -1)


FULL = Form("full")
POTTS = Form("potts")
SYMMETRIC = Form("symmetric")
ANTISYMMETRIC = Form("antisymmetric")


def as_form(form: object, mistakes: list[Mistake]) -> Form:
    """Return ``form`` as a :class:`Form`; arrays become an explicit basis."""
    if isinstance(form, Form):
        if form.name in _OF_USERS and not form.values and not form.shape:
            return form
        if not isinstance(form.name, str) or form.name in _OF_USERS:
            form = None
        elif form.name != "basis":
            usual = "FULL, POTTS, SYMMETRIC, ANTISYMMETRIC or an array (p, *states)"
            mistakes.append(f"{form!r} is not a form; use {usual}")
            return FULL
        else:
            form = _reshaped(form)
    try:
        array = as_floats(real_array(form))
    except NotNumbers:
        array = np.empty(0)
    if array.ndim < 2 or not np.isfinite(array).all() or array.shape[0] < 1:
        mistakes.append("form: FULL, POTTS, SYMMETRIC, ANTISYMMETRIC or a finite array of shape (p, *states)")
        return FULL
    return Form("basis", tuple(array.ravel().tolist()), array.shape)


def _reshaped(form: Form) -> object:
    """Return the array of an explicit basis, ``None`` where it is none."""
    try:
        return real_array(form.values).reshape(form.shape)
    except (NotNumbers, TypeError, ValueError):
        return None


def indicator_form(state: int) -> Form:
    """Return the form that scores one state of one variable, or of all variables of a factor together."""
    return Form("indicator", (float(state),))
