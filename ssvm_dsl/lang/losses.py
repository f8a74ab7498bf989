"""Losses: how bad a labelling is when the truth is known; zero for the truth itself.

Losses add and scale: ``Hamming(y) + 0.5 * Cost(z, matrix)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from ssvm_dsl.lang.labels import Label
from ssvm_dsl.lang.symbols import Mistake, Symbol, as_numbers, got, plain


@dataclass(frozen=True, init=False, repr=False)
class Loss(Symbol):
    """Base class of losses."""

    @property
    def terms(self) -> tuple[tuple[float, Loss], ...]:
        """The (weight, loss) terms whose weighted sum this is."""
        return ((1.0, self),)

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels the loss looks at."""
        return ()

    def __add__(self, other: Loss) -> LossSum:
        if not isinstance(other, Loss):
            return NotImplemented
        return LossSum(self.terms + other.terms)

    def __rmul__(self, factor: float) -> LossSum:
        return LossSum(tuple((float(factor) * weight, loss) for weight, loss in self.terms))

    __mul__ = __rmul__


@dataclass(frozen=True, init=False, repr=False)
class LabelLoss(Loss):
    """A loss of one label array."""

    label: Label

    @property
    def labels(self) -> tuple[Label, ...]:
        """The one label."""
        return (self.label,)

    @staticmethod
    def _start(label: object, name: str) -> tuple[Label, list[Mistake]]:
        if isinstance(label, Label):
            return label, []
        return Label(1), [got(f"{name}: the first argument is a Label", label)]


@dataclass(frozen=True, init=False, repr=False)
class Hamming(LabelLoss):
    """Number of wrong variables: ``sum_v weights[y_v] [yhat_v != y_v]``.

    Parameters
    ----------
    y : Label
        The label.
    normalize : bool
        Divide by the number of (not ignored) variables of the example.
    weights : sequence of float, optional
        Price of missing each true class, one for each state.
    ignore : class name, optional
        A value in Y (usually not one of the classes, e.g. 255) that marks variables without a known truth:
        they cost nothing, and in training they are left out together with the factors that touch them.
    """

    normalize: bool
    weights: tuple[float, ...] | None
    ignore: str | int | None

    def __init__(
        self,
        y: Label,
        *,
        normalize: bool = False,
        weights: Sequence[float] | None = None,
        ignore: str | int | None = None,
    ) -> None:
        label, mistakes = self._start(y, "Hamming")
        complaint = f"Hamming: weights are {label.n_states} non-negative numbers, one for each state"
        prices = None if weights is None else as_numbers(weights, complaint, mistakes)
        if prices is not None and (len(prices) != label.n_states or not 0 <= min(prices) <= max(prices) < inf):
            mistakes.append(complaint)
        ignore = plain(ignore)
        named = label.classes is not None and isinstance(label.classes[0], str)
        if ignore is not None and (isinstance(ignore, bool) or not isinstance(ignore, str if named else int)):
            kind = "a string" if named else "an int"
            mistakes.append(f"Hamming: ignore is {kind}, as the classes are, got {ignore!r}")
        self._fill(mistakes, label=label, normalize=bool(normalize), weights=prices, ignore=ignore)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        options = {"normalize": self.normalize, "weights": self.weights, "ignore": self.ignore}
        return (self.label,), {key: value for key, value in options.items() if value not in (None, False)}


@dataclass(frozen=True, init=False, repr=False)
class Cost(LabelLoss):
    """A price for each confusion: ``sum_v matrix[y_v, yhat_v]``.

    Parameters
    ----------
    y : Label
        The label.
    matrix : array_like, shape (n_states, n_states)
        Row: true class, column: predicted class; non-negative with a zero diagonal.
    normalize : bool
        Divide by the number of variables of the example.
    """

    matrix: tuple[tuple[float, ...], ...]
    normalize: bool

    def __init__(self, y: Label, matrix: Any, *, normalize: bool = False) -> None:
        label, mistakes = self._start(y, "Cost")
        try:
            array = np.asarray(matrix, dtype=float)
        except (TypeError, ValueError):
            array = np.zeros((label.n_states, label.n_states))
            mistakes.append(f"Cost: the matrix is a table of numbers, got {matrix!r}")
        if array.shape != (label.n_states, label.n_states):
            mistakes.append(
                f"Cost: the matrix has shape {array.shape}, expected {(label.n_states, label.n_states)}"
            )
        elif not (np.isfinite(array).all() and (array >= 0).all() and not array.diagonal().any()):
            mistakes.append("Cost: the matrix is non-negative and finite with a zero diagonal")
        rows = tuple(tuple(row) for row in np.atleast_2d(array).tolist())
        self._fill(mistakes, label=label, matrix=rows, normalize=bool(normalize))

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.label, self.matrix), ({"normalize": True} if self.normalize else {})


@dataclass(frozen=True, init=False, repr=False)
class ZeroOne(Loss):
    """1 when any variable is wrong, 0 when all are right; needs a backend with 2-best (or one that lists it)."""

    over: tuple[Label, ...]

    def __init__(self, *labels: Label) -> None:
        mistakes: list[Mistake] = [got("ZeroOne: expected Labels", y) for y in labels if not isinstance(y, Label)]
        self._fill(mistakes, over=tuple(y for y in labels if isinstance(y, Label)))

    @property
    def labels(self) -> tuple[Label, ...]:
        """All the labels given."""
        return self.over

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return self.over, {}


@dataclass(frozen=True, init=False, repr=False)
class NoLoss(Loss):
    """Zero for every labelling (the perceptron's criterion)."""

    def __init__(self) -> None:
        self._fill([])


@dataclass(frozen=True, init=False, repr=False)
class CustomLoss(LabelLoss):
    """A loss from a plug-in (hook ``ssvm_losses``), named as it is registered.

    Parameters
    ----------
    kind : str
        Name of the registered loss.
    y : Label
        The label.
    **options : str, int, float or bool
        Passed on to the plug-in.
    """

    kind: str
    options: tuple[tuple[str, Any], ...]

    def __init__(self, kind: str, y: Label, **options: Any) -> None:
        label, mistakes = self._start(y, "CustomLoss")
        self._fill(mistakes, label=label, kind=kind, options=tuple(sorted(options.items())))

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.kind, self.label), dict(self.options)


@dataclass(frozen=True, init=False, repr=False)
class LossSum(Loss):
    """A weighted sum of losses."""

    parts: tuple[tuple[float, Loss], ...]

    def __init__(self, parts: Sequence[tuple[float, Loss]]) -> None:
        mistakes: list[Mistake] = [text for _, loss in parts for text in loss.mistakes]
        if any(not weight >= 0 for weight, _ in parts):
            mistakes.append("loss: weights of a sum are non-negative")
        if len(parts) > 1 and any(isinstance(loss, ZeroOne) for _, loss in parts):
            mistakes.append("loss: ZeroOne cannot be added to another loss")
        self._fill(mistakes, parts=tuple(parts))

    @property
    def terms(self) -> tuple[tuple[float, Loss], ...]:
        """The weighted terms."""
        return self.parts

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels of all terms."""
        return tuple(dict.fromkeys(label for _, loss in self.parts for label in loss.labels))

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.parts,), {}
