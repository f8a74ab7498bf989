"""The training objective, in one place: every trainer, certificate and test uses this one.

    P(w) = sum_j scale_j (lam/2 w_j^2 + l1 |w_j|) + 1/n sum_i weight_i risk_i(w)^power      subject to  w >= lower

(``power`` is 1 and ``l1`` 0 unless said otherwise).
A convex combination of planes ``risk_i(w) >= loss - w . psi`` of each example adds up to one aggregated plane
``1/n sum_i weight_i risk_i(w) >= b - v . w``, whose minimum over w is a lower bound of P:

    D(v, b) = b + sum_j min_{w_j >= lower_j} (scale_j (lam/2 w_j^2 + l1 |w_j|) - v_j w_j)

With l1 this is ``b - sum_j max(|v_j| - l1 scale_j, 0)^2 / (2 lam scale_j)``, at weights that are soft thresholds of v.
No risk is negative, so that a plane may be scaled down, and the largest D(t v, t b) over 0 <= t <= 1 is a lower bound,
too.  With lam = 0 it is the only one: t b, where t v just fits into the box ``|v_j| <= l1 scale_j``.

Users who gave C see both multiplied by ``C n = 1/lam``: ``1/2 |w|^2 + C sum_i weight_i risk_i``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.ir.ragged import slices
from ssvm_dsl.lang.arrays import NotNumbers, as_floats, describe, is_number, real_array
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.scores.parameter_map import ParameterMap


@dataclass(frozen=True, eq=False)
class RegularizedRisk:
    """The objective of one training problem.

    Parameters
    ----------
    lam : float
        Regularisation strength.
    n : int
        Number of examples.
    weight : ndarray of float64, shape (n,)
        Weight of each example's risk.
    scale : ndarray of float64, shape (dim,)
        Relative regularisation of each weight; 0 for weights that are not regularised.  With millions of weights
        this and ``lower`` are better one number, broadcast.
    lower : ndarray of float64, shape (dim,)
        Lower bound of each weight, ``-inf`` without one.
    power : float
        Each risk is raised to this power, at least 1 (Ratliff et al. 2007, footnote 3; 2: squared slacks).
    l1 : float
        Strength of the L1 penalty; above 0 where ``lam`` is 0.  Lower bounds are at most 0 beside it.
    hard : bool
        Whether all risks must be 0 (``C = inf``): the objective is the regulariser where they are, and infinite else.
    negligible : float
        Risks up to it count as 0 then.
    """

    lam: float
    n: int
    weight: F64
    scale: F64
    lower: F64
    power: float = 1.0
    l1: float = 0.0
    hard: bool = False
    negligible: float = 0.0

    @property
    def strongly_convex(self) -> bool:
        """Whether every weight is regularised by its square."""
        return bool(self.lam > 0.0 and (self.scale > 0).all())

    @cached_property
    def plain(self) -> float:
        """The one positive scale of all weights when none has a lower bound or an L1 penalty, else 0."""
        if self.l1 or not len(self.scale):
            return 0.0
        same = bool((self.scale == self.scale[0]).all()) and self.unbounded
        return float(self.scale[0]) if same else 0.0

    @cached_property
    def unbounded(self) -> bool:
        """Whether no weight has a lower bound."""
        return bool((self.lower == -np.inf).all())

    @property
    def dim(self) -> int:
        """Number of weights."""
        return len(self.scale)

    def regularizer(self, w: F64) -> float:
        """Return ``sum_j scale_j (lam/2 w_j^2 + l1 |w_j|)``."""
        if self.plain:
            return 0.5 * self.lam * self.plain * float(np.dot(w, w))
        squares = 0.5 * self.lam * sum(float(np.dot(self.scale[p] * w[p], w[p])) for p in slices(len(w)))
        if not self.l1:
            return squares
        return squares + self.l1 * sum(float(np.dot(self.scale[p], np.abs(w[p]))) for p in slices(len(w)))

    def primal(self, w: F64, risks: F64) -> float:
        """Return P(w) for given risks of all examples."""
        if self.hard:
            return np.inf if (risks[self.weight > 0.0] > self.negligible).any() else self.regularizer(w)
        return self.regularizer(w) + float(np.dot(self.weight, self.powered(risks))) / self.n

    def powered(self, risks: F64) -> F64:
        """Return ``risk ** power``."""
        return risks if self.power == 1.0 else np.asarray(risks**self.power)

    def slopes(self, risks: F64) -> F64:
        """Return the derivative of ``risk ** power``."""
        return np.ones_like(risks) if self.power == 1.0 else np.asarray(self.power * risks ** (self.power - 1.0))

    def weights(self, v: F64) -> F64:
        """Return the weights that attain D(v, b): ``max(soft(v, l1 scale) / (lam scale), lower)``.

        Weights that are not regularised are 0, or at their bound where ``v < 0``; with ``lam = 0`` all are 0.
        """
        if self.plain:
            return v / (self.lam * self.plain)
        if self.l1:
            v = soft_threshold(v, self.l1 * self.scale)
            if not self.lam:
                return np.zeros_like(v)
        still = np.where((v < 0) & (self.lower > -np.inf), self.lower, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            free = np.where(self.scale > 0, v / (self.lam * self.scale), still)
        return np.maximum(free, self.lower)

    def dual(self, v: F64, b: float) -> float:
        """Return D(v, b), ``-inf`` when a weight without a square could run away."""
        if self.plain:
            return b - 0.5 * float(np.dot(v, v)) / (self.lam * self.plain)
        w = self.weights(v)
        loose = np.flatnonzero(self.scale <= 0) if self.lam else np.arange(self.dim)
        slack = self.l1 * self.scale[loose]
        if ((v[loose] > slack) | ((v[loose] < -slack) & (self.lower[loose] == -np.inf))).any():
            return -np.inf
        return b + self.regularizer(w) - float(np.dot(v, w))

    def bound(self, v: F64, b: float) -> float:
        """Return the largest ``D(t v, t b)`` over t in [0, 1] with an L1 penalty, which scaling down helps; else D.

        In ``t b - sum_j max(t |v_j| - l1 scale_j, 0)^2 / (2 lam scale_j)`` only the j that pass the threshold at t = 1
        count; its slope falls along straight lines, ever steeper, so that Newton's steps from t = 1 end at its root.
        """
        if not self.l1 or not b > 0.0:
            return self.dual(v, b)
        size = np.abs(v) if self.unbounded else np.where(self.lower == -np.inf, np.abs(v), np.maximum(v, 0.0))
        past = np.flatnonzero(size > self.l1 * self.scale)
        size, scale = size[past], self.scale[past]
        if not len(past):
            return b
        if not scale.all():
            return -np.inf
        t = self.l1 * scale / size
        if not self.lam:
            return b * float(t.min())
        best, bend = 1.0, size**2 / scale
        while len(t):
            root = (self.lam * b + self.l1 * float(size.sum())) / float(bend.sum())  # of the line at best
            if root >= best:
                break
            best, on = root, t < root
            size, scale, bend, t = size[on], scale[on], bend[on], t[on]
        past_best = best * size - self.l1 * scale
        return best * b - 0.5 * float(np.sum(past_best**2 / scale)) / self.lam

    def of_some(self, places: I64) -> RegularizedRisk:
        """Return the same objective of some weights alone, the others being 0."""
        return replace(self, scale=self.scale[places], lower=self.lower[places])

    def project(self, w: F64) -> F64:
        """Return w with each weight raised to its lower bound, in place."""
        np.maximum(w, self.lower, out=w)
        return w


def soft_threshold(v: F64, amount: F64 | float) -> F64:
    """Return v, each number moved towards 0 by an amount, but not past it."""
    return v - np.clip(v, -amount, amount)


class DefaultC(float):
    """The C of an estimator that was given none; beside ``lam`` it says nothing, as any other C would."""


DEFAULT_C = DefaultC(1.0)


def is_hard(C: Any, lam: Any) -> bool:
    """Return whether margins are hard: ``C = inf``; values of other kinds, which are refused elsewhere, are not."""
    return lam is None and is_number(C) and bool(np.inf == C)


def lam_of(C: float, lam: float | None, n: int) -> float:
    """Return the regularisation strength: ``lam`` itself, or ``1 / (C n)``; with hard margins (``C = inf``) ``1 / n``.

    Raises
    ------
    OptionError
        C is so small that this is no number.
    """
    if lam is not None:
        return float(lam)
    C = 1.0 if is_hard(C, lam) else float(C)
    strength = 1.0 / (C * n) if C * n < np.inf else 1.0 / C / n  # the product may overflow
    if strength == np.inf:
        raise OptionError(f"C is {float(C):.3g}, so small that 1 / (C n) overflows: choose a larger C")
    return strength


def l1_of(C: float, lam: float | None, n: int, l1: float) -> float:
    """Return the strength of the L1 penalty beside the mean risk: users of C have it beside ``C sum_i risk_i``."""
    if lam is not None or not l1:
        return float(l1)
    strength = float(l1) / (C * n) if C * n < np.inf else float(l1) / C / n
    if strength == np.inf:
        raise OptionError(f"l1 is {float(l1):.3g}, C {float(C):.3g}, so that l1 / (C n) overflows: choose a larger C")
    return strength


def convention(C: float, lam: float | None, norm: str = "w", l1: float = 0.0) -> str:
    """Return the objective as users are shown it, with its strengths; ``norm`` names what is regularised."""
    sparse, strength = (f" + l1 |{norm}|_1", f", l1 = {float(l1):g}") if l1 else ("", "")
    if lam is not None:
        square = f"lam/2 |{norm}|^2{sparse}" if lam else f"l1 |{norm}|_1"
        return f"{square} + 1/n sum_i risk_i{f', lam = {lam:g}' if lam else ''}{strength}"
    if is_hard(C, lam):
        return f"1/2 |{norm}|^2 where all risks are 0 (hard margins, C = inf)"
    return f"1/2 |{norm}|^2{sparse} + C sum_i risk_i, C = {float(C):g}{strength}"


def regularized_risk(
    parameters: ParameterMap,
    lam: float,
    weight: F64,
    regularization: Mapping[Any, float] | None = None,
    power: float = 1.0,
    l1: float = 0.0,
) -> RegularizedRisk:
    """Return the objective of a grounded data set.

    Parameters
    ----------
    parameters : ParameterMap
    lam : float
    weight : ndarray of float64, shape (n,)
        Weight of each example.
    regularization : mapping, optional
        Relative regularisation by factor or name; 1 where nothing is said.
    power, l1 : float

    Raises
    ------
    OptionError
        An unknown factor, or a number that is negative or not finite.
    """
    scale = np.ones(parameters.dim) if regularization else np.broadcast_to(1.0, parameters.dim)
    for key, value in (regularization or {}).items():
        blocks, name = {block.name: block for block in parameters.blocks}, factor_name(key)
        if name not in blocks or not (isinstance(value, int | float | np.number) and 0 <= value < np.inf):
            text = f"regularization: non-negative numbers for the factors {', '.join(blocks)}; got {name!r}: {value!r}"
            raise OptionError(text)
        scale[blocks[name].offset : blocks[name].stop] = value
    n, lower = parameters.program.n_examples, parameters.lower_bound
    return RegularizedRisk(lam, n, weight, scale, lower, float(power), l1)


def factor_name(key: Factor | str) -> str:
    """Return the name of a factor given as itself or by name."""
    return key.name if isinstance(key, Factor) else key


def check_sample_weight(given: Any, n: int, part: bool = False) -> F64:
    """Return the weights of n examples, ones by default; those of a ``part`` of the data may all be 0.

    Raises
    ------
    DataError
        Wrong number, a negative or infinite weight, or none that is positive.
    """
    if given is None:
        return np.ones(n)
    expected = f"{n} numbers, one for each example"
    try:
        weight = as_floats(real_array(given))
    except NotNumbers as err:
        hint = "weights of classes belong to the loss: Hamming(y, weights=[...])" if isinstance(given, str) else ""
        found = describe(given) if given is None or isinstance(given, str | dict) else err.found
        raise DataError("sample_weight", expected=expected, found=found, hint=hint or err.hint) from None
    if weight.shape != (n,):
        raise DataError("sample_weight", expected=expected, found=f"shape {weight.shape}")
    wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(wrong):
        i = int(wrong[0])
        found = repr(weight[i].item())
        raise DataError("sample_weight", example=i, expected="a finite non-negative number", found=found)
    if not part:
        require_weight(bool(weight.any()))
    return weight


def require_labels(n_variables: int, n_examples: int) -> None:
    """Refuse data that have nothing to label.

    Raises
    ------
    DataError
        There are no variables.
    """
    if not n_variables:
        expected = "at least one example with something to label"
        raise DataError("X", expected=expected, found=f"{n_examples} empty examples")


def require_weight(some: bool) -> None:
    """Refuse data without an example whose weight is above 0.

    Raises
    ------
    DataError
        There is none.
    """
    if not some:
        raise DataError("sample_weight", expected="at least one weight above 0", found="zeros only")

