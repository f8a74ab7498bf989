"""Entropic steps of ``extragradient``: proximal steps by the relative entropy of distributions over labellings.

Where a Euclidean step projects marginals, an entropic one multiplies probabilities,

    q'_i(y)  ~  q_i(y) exp(a/beta (loss_i(y) + w . Phi(x_i, y))) ,

which is the proximal step of ``beta/n sum_i weight_i KL(q'_i | q_i)``: the Bregman projections of Taskar,
Lacoste-Julien and Jordan (2006, "Structured prediction, dual extragradient and Bregman projections").  Such q_i are
products over the cliques of a junction tree, so that a projection is one pass of sums up the tree and one of marginals
down; no equations are solved.  From u = (w, q) a step looks ahead to u' along F(u) and goes from u to u+ along F(u')
(mirror-prox, Nemirovski 2004), as long as

    a (F(u') - F(u)) . (u' - u+)  <=  0.9 (D(u', u) + D(u+, u')) ,        D = 1/2 |w|^2 + beta/n sum_i weight_i KL ,

else a is shortened; it is lengthened after easy steps.  ``method="dual"`` certifies the averages of all u', each
weighted by its a, whose error is O(1/t) whatever the steps; otherwise u+ is.  Weights with lower bounds keep what they
would be without them for ``"dual"``, as Nesterov's method does (2007).

Probabilities are kept as logarithms, conditional on the separator to the parent clique: none becomes zero by rounding.
"""

from __future__ import annotations

from typing import Annotated, cast

import numpy as np

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir import F64
from ssvm_dsl.plugin_api import TrainProblem
from ssvm_trainers.dual.junction.junction_kernels import from_conditionals, to_conditionals
from ssvm_trainers.dual.polytope import CliquePolytope, clique_polytope
from ssvm_trainers.dual.saddle_point import LONG, SHORT, SaddleOptions, SaddleRun
from ssvm_trainers.shared.state_rules import COUNTS, NUMBERS, OPEN

#: Most trials of one step; after them only rounding is left to gain.
MAX_TRIALS = 60


class EntropicRun(SaddleRun):
    """One training run."""

    logs: Annotated[F64, OPEN]  #: log-probability of each cell given its row; -inf where it is ruled out
    mu: Annotated[F64, NUMBERS]  #: their marginals
    at: Annotated[F64, NUMBERS]  #: the weights that steps are taken from
    free: Annotated[F64, NUMBERS]  #: the same without lower bounds, for the dual method
    total: Annotated[float, COUNTS]  #: lengths of all steps

    def __init__(self, options: SaddleOptions, problem: TrainProblem) -> None:
        if problem.relaxed:
            text = "trainer 'extragradient': geometry='entropic' is that of distributions over labellings, "
            text += "which points of risk 'relaxed' are not"
            raise TrainingError(f"{text}; use geometry='euclidean', or risk='margin'")
        if problem.parameters.program.constraints:
            text = "trainer 'extragradient': geometry='entropic' is that of products of probabilities, "
            raise TrainingError(f"{text}which hard constraints do not allow; use geometry='euclidean'")
        super().__init__(options, problem, clique_polytope(problem))
        self.trees = cast(CliquePolytope, self.polytope).trees
        self.of_cell = self.polytope.full(self.share[self.polytope.owner])
        self.logs, self.mu = self._normalised(np.where(self.polytope.used, 0.0, -np.inf))
        self.x, self.at, self.free, self.total = self.mu.copy(), self.w.copy(), self.w.copy(), 0.0

    def start_at(self, w: F64) -> None:
        """Begin with given weights."""
        self.w, self.at, self.free = w.copy(), w.copy(), w.copy()

    def _normalised(self, scores: F64) -> tuple[F64, F64]:
        """Return log-probabilities of cells given their rows, and marginals; the scores are overwritten."""
        largest, total = np.empty(self.trees.n_rows), np.empty(self.trees.n_rows)
        to_conditionals(self.trees, scores, largest, total, 0, len(self.trees.parent))
        mu = np.zeros_like(scores)
        from_conditionals(self.trees, np.exp(scores), mu, 0, len(self.trees.parent))
        return scores, mu

    def _divergence(self, logs: F64, mu: F64, other: F64) -> float:
        """Return ``1/n sum_i weight_i KL(q_i | p_i)`` of q, which has these marginals, and p.

        Each term ``mu (d + exp(-d) - 1)``, d the difference of logarithms, is not negative; the terms added to
        ``mu d`` add up to zero.
        """
        kept = self.polytope.kept
        q, difference = mu[kept], logs[kept] - other[kept]
        of_row = np.bincount(self.trees.up, mu, self.trees.n_rows)[self.trees.up[kept]]
        near = q * (difference + np.expm1(-np.maximum(difference, -1.0)))
        far = q * difference + of_row * np.exp(other[kept]) - q
        return float(np.dot(self.of_cell[kept], np.where(difference > -1.0, near, far)))

    def advance(self) -> None:
        """Take one entropic extragradient step; halve the step length until the step is short enough."""
        w, scores = self.at, self._scores(self.at)
        slope = self.slope(w, self.of_cell * self.mu)
        direction = self.metric.solve(slope)
        for _ in range(MAX_TRIALS):
            self.problem.pause()
            ahead = self.bounded(w - self.step * direction)
            logs, mu = self._normalised(self.logs + self.step / self.beta * (self.loss + scores))
            scores_ahead, slope_ahead = self._scores(ahead), self.slope(ahead, self.of_cell * mu)
            free = (self.free if self.options.method == "dual" else w) - self.step * self.metric.solve(slope_ahead)
            new = self.bounded(free)
            new_logs, new_mu = self._normalised(self.logs + self.step / self.beta * (self.loss + scores_ahead))
            changed = np.dot(slope_ahead - slope, ahead - new)
            changed -= np.dot(self.of_cell * (scores_ahead - scores), mu - new_mu)
            squares = 0.5 * (self.metric.squared(ahead - w) + self.metric.squared(new - ahead))
            moved = self._divergence(logs, mu, self.logs) + self._divergence(new_logs, new_mu, logs)
            moved = squares + self.beta * moved
            ratio = self.step * float(changed) / max(moved, 1e-300)
            if ratio <= LONG or moved == 0.0:
                break
            self.step *= 2.0 / 3.0 * min(1.0, 1.0 / ratio)
        self.total += self.step
        self.at, self.free, self.logs, self.mu = new, free, new_logs, new_mu
        if self.options.method == "dual":
            share = self.step / self.total
            self.w, self.x = self.w + share * (ahead - self.w), self.x + share * (mu - self.x)
        else:
            self.w, self.x = new, new_mu
        if ratio <= SHORT:
            self.step *= 1.5

    def _scores(self, w: F64) -> F64:
        return self.polytope.scores(w)
