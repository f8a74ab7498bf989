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
