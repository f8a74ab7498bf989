"""``eg``: exponentiated gradient on the dual of log-sum-exp risks (Collins, Globerson, Koo, Carreras, Bartlett 2008).

The dual of the log-loss has a distribution q_i over the labellings of each example,

    max_q  1/n sum_i weight_i H(q_i) - (value of the regulariser at v(q)),   v(q) = 1/n sum_i weight_i E_q psi_i ,

(plus the expected loss for softmax-margin), and w = v(q) / (lam scale) minimises the primal for it.  The update

    q_i(y)  ~  q_i(y)^(1 - a) exp(w . Phi(x_i, y))^a

keeps q_i in the form ``exp(u_i . Phi(x_i, y))`` with ``u_i <- (1 - a) u_i + a w``: one vector of weights for each
example stands for a distribution over all its labellings, and one call for marginals gives entropy and expectation.
As in the paper each example has a step a of its own: halved when the dual would fall, lengthened after each success.

Memory is two vectors of all weights for each example, so this is for small problems; the certificate is the dual.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.plugin_api import Iterate, RiskGradient, StopRule, TrainProblem

F64 = NDArray[np.float64]

#: Numbers held for the examples at most: 1.6 GB.
MAX_NUMBERS = 200_000_000

#: What a success does to a step, and steps tried in one visit.
LONGER, MAX_TRIALS = 1.05, 20


class ExponentiatedGradient:
    """Exponentiated gradient, one example at a time.

    Parameters
    ----------
    step_size : float
        The first a of each example, at most 1.
    random_state : int or None
        Seed of the random order.
    """

    def __init__(self, step_size: float = 0.5, random_state: int | None = None) -> None:
        self.step_size, self.random_state = step_size, random_state

    def steps(self, problem: TrainProblem, stop: StopRule, start: F64 | None = None) -> Iterator[Iterate]:
        """Yield an iterate after each pass; see :class:`~ssvm_dsl.plugin_api.Trainer`."""
        dual = _Dual(problem, np.zeros(problem.dim) if start is None else start)
        step, random, passes = np.full(problem.n, min(self.step_size, 1.0)), np.random.default_rng(self.random_state), 0
        while True:
            w = dual.refresh()
            primal, upper = problem.value(w)
            passes += 1
            yield Iterate(w, passes + dual.calls / problem.n, primal, upper, dual.value)
            for i in random.permutation(problem.n):
                if problem.objective.weight[i] > 0.0:
                    step[i] = dual.visit(int(i), float(step[i]))


class _Dual:
    """The distributions of all examples, each as weights ``u``, and what they add up to."""

    def __init__(self, problem: TrainProblem, start: F64) -> None:
        n, dim = problem.n, problem.dim
        if 2 * n * dim > MAX_NUMBERS:
            text = f"trainer 'eg' keeps two vectors of {dim} weights for each of {n} examples, which is too much memory"
            raise TrainingError(f"{text}; use trainer='lbfgs'")
        self.problem, self.calls = problem, 0
        self.u, self.psi, self.entropy = np.tile(start, (n, 1)), np.zeros((n, dim)), np.zeros(n)
        for i in range(n):
            found = self._ask(i, start)
            self.psi[i], self.entropy[i] = -found.vector / n, found.offset / n
        self.v, self.b, self.value = np.zeros(dim), 0.0, -np.inf

    def _ask(self, i: int, u: F64) -> RiskGradient:
        self.calls += 1
        return self.problem.gradient(u, np.array([i], dtype=np.int64))

    def refresh(self) -> F64:
        """Add everything up afresh and return w."""
        self.v, self.b = self.psi.sum(axis=0), float(self.entropy.sum())
        self.value = self.problem.objective.dual(self.v, self.b)
        return self.problem.objective.weights(self.v)

    def visit(self, i: int, step: float) -> float:
        """Move the distribution of one example; return its next step."""
        objective, n = self.problem.objective, self.problem.n
        w = objective.weights(self.v)
        for _ in range(MAX_TRIALS):
            u = self.u[i] + step * (w - self.u[i])
            found = self._ask(i, u)
            v, b = self.v - self.psi[i] - found.vector / n, self.b - self.entropy[i] + found.offset / n
            value = objective.dual(v, b)
            if value >= self.value:
                self.u[i], self.psi[i], self.entropy[i] = u, -found.vector / n, found.offset / n
                self.v, self.b, self.value = v, b, value
                return min(step * LONGER, 1.0)
            if value >= self.value - 1e-14 * abs(self.value):
                return step  # no gain that is more than rounding
            step *= 0.5
        return step
