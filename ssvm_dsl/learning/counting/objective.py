"""The counting objective: misordered pairs of a true and a false output, bounded by a quadratic function.

For an input with true outputs Y_i, out of all outputs Y, and the score ``h(z) = phi(z) . f`` of an output z, the risk
is the mean over pairs of a true output y and a false one z of

    texp(h(z) - h(y)) ,     texp(a) = 1 + a + a^2 / 2 ,

an upper bound of the share of pairs in the wrong order (Gaertner and Vembu 2009, section 2).  It is quadratic in f.
Let m be the number of true outputs, q = m / |Y|, ``mean`` and ``M`` the means of phi(z) and phi(z) phi(z)' over Y
(Phi / |Y| and C / |Y| of the paper), and ``t`` and ``S`` the same means over Y_i.  Then

    risk(f) = 1 + ((mean - t) . f + f' M f / 2 + (1/2 - q) f' S f - (mean . f)(t . f) + q (t . f)^2) / (1 - q)
    gradient = (mean - t + Q f) / (1 - q)
    Q        = M + (1 - 2 q) S - mean t' - t mean' + 2 q t t' .

With one true output, |Y| (1 - q) times this is the paper's equation (3), but for a constant, with 1 in place of 2 as
the coefficients of ``Phi' alpha k`` and ``|Y| y alpha k``: the printed ones do not follow from texp, as enumeration
confirms.  (Its ``diag(Y alpha K)^2`` holds for one true output only; for several, S takes the place of ``t t'``.)  Sums
over all of Y contain pairs of two true outputs; the terms with q take these out again.

A policy is ``f = sum_j alpha_j k(x_j, x)``, and the objective, with h in the reproducing kernel Hilbert space,

    P(alpha) = lam/2 |h|^2 + 1/n sum_i weight_i risk_i(f_i) ,      |h|^2 = tr alpha' K alpha ,     f_i = (K alpha)_i .

Its gradient in that space has the coefficients ``Gamma = lam alpha + weight/n * gradients``, so that, P being strongly
convex with modulus lam, no policy has an objective below

    P(alpha) - tr Gamma' K Gamma / (2 lam) .
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.errors import DataError
from ssvm_dsl.learning.counting.kernels import Gram
from ssvm_dsl.learning.counting.outputs.output_spaces import OutputSpace
from ssvm_dsl.values import Value


@dataclass(frozen=True, eq=False)
class CountingRisk:
    """The risks of all examples.

    Parameters
    ----------
    mean : ndarray, shape (d,)
        Of the features of all outputs.
    second : ndarray, shape (d, d)
        M, the mean of ``phi(z) phi(z)'`` over all outputs.
    features : ndarray, shape (T, d)
        Those of the true outputs, example by example.
    ptr : ndarray of int64, shape (n + 1,)
        Where the true outputs of each example start.
    truth : ndarray, shape (n, d)
        t, the mean of the features of the true outputs of each example.
    share : ndarray, shape (n,)
        q, the share of true outputs among all.
    weight : ndarray, shape (n,)
        Weight of each example's risk.
    """

    mean: F64
    second: F64
    features: F64
    ptr: I64
    truth: F64
    share: F64
    weight: F64

    @classmethod
    def of(cls, space: OutputSpace, features: F64, ptr: I64, weight: F64) -> CountingRisk:
        """Return the risks for the features of true outputs.

        Raises
        ------
        DataError
            All outputs of an example are true: there is no pair to order.
        """
        counts = np.diff(ptr)
        size = space.size
        full = np.flatnonzero([int(m) >= size for m in counts])
        if len(full):
            found = f"all {size} outputs of {space!r}"
            raise DataError("Y", example=int(full[0]), expected="at least one output that is false", found=found)
        truth = np.add.reduceat(features, ptr[:-1], axis=0) / counts[:, None]
        share = np.array([int(m) / size for m in counts])  # whole numbers: the size may be beyond all floats
        return cls(space.mean, space.second_moment, features, ptr, truth, share, weight)

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self.truth)

    def values(self, policy: F64) -> F64:
        """Return the risk of each example at its policy; ``policy (n, d)``."""
        mean, own, scores = policy @ self.mean, (policy * self.truth).sum(axis=1), self._scores(policy)
        squares = np.add.reduceat(scores**2, self.ptr[:-1]) / np.diff(self.ptr)
        total = mean - own + 0.5 * ((policy @ self.second) * policy).sum(axis=1)
        total += (0.5 - self.share) * squares - mean * own + self.share * own**2
        return np.asarray(1.0 + total / (1.0 - self.share))

    def gradients(self, policy: F64) -> F64:
        """Return the gradient of each risk by its policy; ``shape (n, d)``."""
        mean, own = policy @ self.mean, (policy * self.truth).sum(axis=1)
        total = policy @ self.second + self.mean * (1.0 - own)[:, None]
        total -= self.truth * (1.0 + mean - 2.0 * self.share * own)[:, None]
        scores = self._scores(policy)[:, None] * self.features
        spread = (1.0 - 2.0 * self.share) / np.diff(self.ptr)
        total += spread[:, None] * np.add.reduceat(scores, self.ptr[:-1], axis=0)
        return np.asarray(total / (1.0 - self.share)[:, None])

    def gradient(self, i: int, policy: F64) -> F64:
        """Return the gradient of one risk; the loop of stochastic descent is as fast as this."""
        return np.asarray(self.hessian_product(i, policy) + (self.mean - self.truth[i]) / (1.0 - self.share[i]))

    def hessian_product(self, i: int, vector: F64) -> F64:
        """Return the product of the Hessian of one risk, ``Q / (1 - q)``, with a vector."""
        truth, share, mean = self.truth[i], self.share[i], self.mean
        own, through_mean = truth @ vector, mean @ vector
        total = self.second @ vector
        total -= own * mean
        first, last = self.ptr[i], self.ptr[i + 1]
        if last == first + 1:  # S is t t'
            total += (own - through_mean) * truth
        else:
            part = self.features[first:last]
            total += (2.0 * share * own - through_mean) * truth
            total += ((1.0 - 2.0 * share) / (last - first)) * (part.T @ (part @ vector))
        return np.asarray(total / (1.0 - share))

    def hessians(self, first: int, last: int) -> F64:
        """Return ``Q / (1 - q)`` of some examples; ``shape (last - first, d, d)``."""
        truth, share = self.truth[first:last], self.share[first:last, None, None]
        hessians = np.repeat(self.second[None], last - first, axis=0)
        cross = truth[:, :, None] * self.mean
        hessians -= cross + cross.transpose(0, 2, 1)
        hessians += 2.0 * share * truth[:, :, None] * truth[:, None, :]
        for k, i in enumerate(range(first, last)):
            part = self.features[self.ptr[i] : self.ptr[i + 1]]
            hessians[k] += (1.0 - 2.0 * share[k]) * (part.T @ part) / len(part)
        return np.asarray(hessians / (1.0 - share))

    def curvatures(self) -> F64:
        """Return the trace of each Hessian, which bounds its largest eigenvalue; ``shape (n,)``."""
        squares = np.add.reduceat((self.features**2).sum(axis=1), self.ptr[:-1]) / np.diff(self.ptr)
        own = (self.truth**2).sum(axis=1)
        total = np.trace(self.second) + (1.0 - 2.0 * self.share) * squares - 2.0 * self.truth @ self.mean
        return np.asarray((total + 2.0 * self.share * own) / (1.0 - self.share))

    def _scores(self, policy: F64) -> F64:
        """Return the score of each true output."""
        rows = np.repeat(np.arange(self.n), np.diff(self.ptr))
        return np.asarray((policy[rows] * self.features).sum(axis=1))


@dataclass(frozen=True, eq=False)
class CountingEvaluation(Value):
    """The objective at some coefficients.

    Parameters
    ----------
    value : float
    norm : float
        The norm of the gradient in the Hilbert space.
    bound : float
        What no policy's objective is below.
    gradient : ndarray, shape (n, d)
        By the coefficients alpha: K Gamma.
    """

    value: float
    norm: float
    bound: float
    gradient: F64


@dataclass(frozen=True, eq=False)
class CountingObjective:
    """The objective over the coefficients alpha.

    Parameters
    ----------
    risk : CountingRisk
    gram : Gram
    lam : float
    """

    risk: CountingRisk
    gram: Gram
    lam: float

    def value(self, alpha: F64, policy: F64) -> float:
        """Return P at coefficients, and the policies ``K @ alpha`` that these give."""
        total = float(np.vdot(alpha, policy))
        return 0.5 * self.lam * total + float(self.risk.weight @ self.risk.values(policy)) / self.risk.n

    def evaluate(self, alpha: F64) -> CountingEvaluation:
        """Return P, its gradient, and a lower bound of all its values."""
        policy = self.gram.dot(alpha)
        value = self.value(alpha, policy)
        gamma = self.lam * alpha + (self.risk.weight / self.risk.n)[:, None] * self.risk.gradients(policy)
        gradient = self.gram.dot(gamma)
        square = max(float(np.vdot(gamma, gradient)), 0.0)
        return CountingEvaluation(value, float(np.sqrt(square)), value - 0.5 * square / self.lam, gradient)
