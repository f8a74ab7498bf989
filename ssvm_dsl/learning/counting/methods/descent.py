"""Online training: stochastic gradient descent in the reproducing kernel Hilbert space (section 3 of the paper).

Step t looks at one example, at the policy f_t that the coefficients so far give it, and moves h against the gradient of
``lam/2 |h|^2 + risk_t`` in the Hilbert space by the step size ``eta_t = p / (lam (t + delay))``:

    alpha <- (1 - lam eta_t) alpha ,       alpha_t <- -eta_t weight_t gradient_t(f_t) .

(The paper's equation (4) is the gradient by alpha, which has a further factor K; its text describes these updates: old
coefficients shrink by ``1 - lam eta_t``, and a new one is added.)  Coefficients that were set more than tau steps ago
are dropped, so that a step costs O(tau (p + d) + d^2) whatever n is: a :class:`Window` of the latest ones is all that a
stream of examples goes on from.

With the paper's ``delay = 0`` the first steps are p / (lam t), and where ``lam`` is small beside the curvature
``L = max_i k(x_i, x_i) |Q_i|`` they overshoot: every step before t = p L / (2 lam) makes the error of its example
larger.  The automatic delay is the least one with which no step is longer than 1 / L.

*Meta-descent* adapts its own step size.  The source text (Gaertner and Vembu 2009, section 3.3) leaves the factor p of
the step size ``eta_t = p / (lam (t + delay))`` to be tuned, and names these updates as the better way (Schraudolph
1999; in the Hilbert space Vishwanathan, Schraudolph and Smola, JMLR 7, 2006).  Step t looks at
``J_t(h) = lam/2 |h|^2 + weight_t risk_t(h(x_t))``, whose gradient and Hessian in the space are

    g_t = lam h + weight_t risk_t'(h(x_t)) k(x_t, .) ,        H_t v = lam v + weight_t risk_t'' v(x_t) k(x_t, .) ,

the latter exact, as risks are quadratic.  With v, the derivative of h by ln p with a memory that fades by ``fade``,

    ln p <- ln p - mu <g_t, v> ,      h <- h - eta_t g_t ,      v <- fade v - eta_t (g_t + fade H_t v) ,

where ``exp(x)`` is taken as ``1 + x``, within 1/2 and 2.  With ``fade = 1`` and p left alone v is that derivative.
Both h and v are combinations of kernels at the examples met, and ``<h, v>`` and ``<h, h>`` follow from step to step,
so that a step costs as much as two of plain descent.  Coefficients that are dropped (tau) stay in these two numbers.

The schedule 1/t remains, so that steps become short enough to end at the optimum.  No step is longer than 1 over the
largest curvature where the delay is automatic.
"""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.learning.counting.kernels import InputKernel
from ssvm_dsl.learning.counting.objective import CountingRisk

#: Steps whose rows of the Gram matrix are computed together.
BLOCK = 64

#: A common factor of the coefficients below this is multiplied out.
SMALLEST = 1e-100

#: How much of v is left after a step.
FADE = 0.99

#: A step changes p by a factor of at least and at most as much.
LEAST, MOST = 0.5, 2.0


def largest_curvature(kernel: InputKernel, X: F64, risk: CountingRisk) -> float:
    """Return what the curvature of no example's risk is above, in the Hilbert space."""
    return float((kernel.diagonal(X) * risk.curvatures() * risk.weight).max())


def automatic_delay(kernel: InputKernel, X: F64, risk: CountingRisk, lam: float, step: float) -> float:
    """Return the least delay with which no step is longer than the inverse of the largest curvature."""
    return max(step * (1.0 + largest_curvature(kernel, X, risk) / lam) - 1.0, 0.0)


class Window(NamedTuple):
    """The latest coefficients, oldest first.

    Parameters
    ----------
    ids : ndarray of int64, shape (w,)
        The rows of X that they belong to.
    coef : ndarray of float64, shape (w, d)
    n_steps : int
        Steps so far.
    """

    ids: I64
    coef: F64
    n_steps: int


def stochastic(
    kernel: InputKernel,
    X: F64,
    risk: CountingRisk,
    lam: float,
    window: Window,
    *,
    step: float,
    delay: float,
    tau: int,
    order: I64,
    n_steps: int,
    max_seconds: float,
) -> Window:
    """Go through the examples, in the same order in each pass; return the latest coefficients.

    Parameters
    ----------
    kernel : InputKernel
    X : ndarray of float64, shape (m + n, p)
        Inputs of earlier examples, which ``window`` refers to, and of the n examples.
    risk : CountingRisk
        Of the n examples.
    lam : float
    window : Window
        State to continue from.
    step, delay : float
        p and the delay of the step size.
    tau : int
        How many of the latest coefficients are kept; with tau = n an example that comes again keeps a single one.
    order : ndarray of int64, shape (n,)
        The examples, in the order they are met.
    n_steps : int
        Number of visits; after n of them examples are visited again.
    max_seconds : float
    """
    (ids, coef, before), n, first = window, risk.n, len(X) - risk.n
    end, scale, done = perf_counter() + max_seconds, 1.0, 0
    while done < n_steps and perf_counter() < end:
        size, w = min(BLOCK, n_steps - done), len(ids)
        new = first + order[np.arange(done, done + size) % n]
        ids, coef = np.concatenate([ids, new]), np.concatenate([coef, np.zeros((size, coef.shape[1]))])
        rows = kernel(X[new], X[ids])
        for j, i in enumerate((new - first).tolist(), w):
            lo = max(j - tau, 0)
            policy = rows[j - w, lo:j] @ coef[lo:j] * scale
            eta = step / (lam * (before + done + j - w + 1 + delay))
            scale *= 1.0 - lam * eta
            if abs(scale) < SMALLEST:
                coef *= scale
                scale = 1.0
            coef[j] = risk.gradient(i, policy) * (-eta * risk.weight[i] / scale)
            if n_steps > n and tau == n and j >= n:
                coef[j] += coef[j - n]  # the same example, a pass ago
        ids, coef = ids[-tau:], coef[-tau:]
        done += size
    return Window(ids, scale * coef, before + done)


class MetaWindow(NamedTuple):
    """All that the next steps depend on; coefficients are the latest ones, oldest first.

    Parameters
    ----------
    ids : ndarray of int64, shape (w,)
        The rows of X that they belong to.
    coef, trace : ndarray of float64, shape (w, d)
        Coefficients of h and of v.
    n_steps : int
        Steps so far.
    factor : float
        p.
    square, cross : float
        ``<h, h>`` and ``<h, v>``.
    """

    ids: I64
    coef: F64
    trace: F64
    n_steps: int
    factor: float
    square: float = 0.0
    cross: float = 0.0

    @classmethod
    def begin(cls, d: int, step: float) -> MetaWindow:
        """Return the state before the first step, for policies of d features."""
        return cls(np.zeros(0, dtype=np.int64), np.zeros((0, d)), np.zeros((0, d)), 0, step)


def meta_descent(
    kernel: InputKernel,
    X: F64,
    risk: CountingRisk,
    lam: float,
    window: MetaWindow,
    *,
    delay: float,
    longest: float,
    meta_step: float,
    tau: int,
    order: I64,
    n_steps: int,
    max_seconds: float,
    fade: float = FADE,
) -> MetaWindow:
    """Go through the examples, in the same order in each pass; return the latest coefficients.

    Parameters
    ----------
    kernel, X, risk, lam, window, delay, tau, order, n_steps, max_seconds
        As for :func:`~ssvm_dsl.learning.counting.methods.descent.stochastic`.
    longest : float
        No step size is larger.
    meta_step : float
        mu.
    fade : float
    """
    (ids, coef, trace, before, factor, square, cross), n, first = window, risk.n, len(X) - risk.n
    diagonal, end, done = kernel.diagonal(X), perf_counter() + max_seconds, 0
    while done < n_steps and perf_counter() < end:
        size, w = min(BLOCK, n_steps - done), len(ids)
        new = first + order[np.arange(done, done + size) % n]
        ids, more = np.concatenate([ids, new]), np.zeros((size, coef.shape[1]))
        coef, trace = np.concatenate([coef, more]), np.concatenate([trace, more])
        rows = kernel(X[new], X[ids])
        for j, i in enumerate((new - first).tolist(), w):
            lo, row = max(j - tau, 0), rows[j - w]
            h, v = row[lo:j] @ coef[lo:j], row[lo:j] @ trace[lo:j]
            slope = risk.weight[i] * risk.gradient(i, h)
            bend = slope + fade * risk.weight[i] * risk.hessian_product(i, v)
            factor *= min(max(1.0 - meta_step * (lam * cross + float(slope @ v)), LEAST), MOST)
            slack = lam * (before + done + j - w + 1 + delay)
            factor = min(factor, longest * slack)
            eta = factor / slack
            keep, fading, mixed = 1.0 - lam * eta, fade * (1.0 - lam * eta), lam * eta
            cross = (
                keep * (fading * cross - mixed * square - eta * float(bend @ h)) - eta * fading * float(slope @ v)
                + eta * mixed * float(slope @ h) + eta * eta * diagonal[first + i] * float(slope @ bend)
            )  # fmt: skip
            square = (
                keep * keep * square - 2.0 * keep * eta * float(slope @ h)
                + eta * eta * diagonal[first + i] * float(slope @ slope)
            )  # fmt: skip
            trace[lo:j] = fading * trace[lo:j] - mixed * coef[lo:j]
            coef[lo:j] *= keep
            coef[j], trace[j] = -eta * slope, -eta * bend
            if n_steps > n and tau == n and j >= n:  # the same example, a pass ago
                coef[j] += coef[j - n]
                trace[j] += trace[j - n]
        ids, coef, trace = ids[-tau:], coef[-tau:], trace[-tau:]
        done += size
    return MetaWindow(ids, coef, trace, before + done, factor, square, cross)
