"""``extragradient``: training as a saddle-point problem over weights and marginals.

With the maximum over the points mu_i of a polytope left in place, training is

    min_{w >= lower} max_mu  lam/2 sum_j scale_j w_j^2
                             + 1/n sum_i weight_i (loss_i . mu_i + const_i + w . Phi_i mu_i - w . Phi(x_i, y_i))

(Taskar, Lacoste-Julien and Jordan 2006).  With u = (w, mu) and F(u) the gradient in w and the negative gradient in
mu, the *extragradient* method looks ahead before it steps,

    u' = P(u - a F(u)),      u <- P(u - a F(u')),      P the projection onto the set of all u,

with a shortened until ``a |F(u) - F(u')| <= 0.9 |u - u'|`` and lengthened after easy steps (Korpelevich 1976; He and
Liao 2002); as F is affine and the set is a polyhedron it converges linearly (Tseng 1995).  The *dual extragradient*
method (Nesterov 2007; Taskar, Lacoste-Julien and Jordan 2006) adds up all F in one vector s and takes the average of

    v = P(u_0 + a s),        u = P(v - a F(v)),        s <- s - F(u),

whose error is O(1/t).  No oracle is called but for certificates: a step asks for projections onto the polytopes
(:mod:`ssvm_trainers._projection`).

Lengths are measured by ``|w|^2 = lam sum_j scale_j w_j^2`` and ``|mu|^2 = beta/n sum_i weight_i |mu_i|^2``, so that
results do not depend on the units of features; beta makes what ties w to mu as large as ``balance`` (or less, where
features are so small that hardly anything does).

The lower bound is the plane of the marginals, the primal that of the weights these make optimal.
"""

from __future__ import annotations

from copy import copy
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.plugin_api import Iterate, StopRule, TrainProblem
from ssvm_trainers._polytope import Polytope, polytope_of
from ssvm_trainers._projection import PolytopeProjection, SimplexProjection
from ssvm_trainers._resumable import Resumable, Run

F64 = NDArray[np.float64]

#: Shares of a step's length that F may change by: more and the step is too long, less and the next may be longer.
LONG, SHORT = 0.9, 0.4

#: Losses alone move marginals by at most so much in a step of length 1: enough to get anywhere, and few enough digits
#: before the point for projections to keep those after it.
MOST_MOVED = 1e5

#: Products with the map from weights to scores that estimate its norm.
POWER_STEPS = 30


class Extragradient(Resumable):
    """The extragradient method and the dual extragradient method.

    Parameters
    ----------
    method : {"extragradient", "dual"}
    balance : float
        How much longer steps of the marginals are, compared with those of the weights.
    evaluate_every : int
        Steps between two certificates, each a pass of the oracle.
    random_state : int or None
        Not used; nothing is random.
    """

    def __init__(
        self,
        method: str = "extragradient",
        balance: float = 8.0,
        evaluate_every: int = 20,
        random_state: int | None = None,
    ) -> None:
        self.method, self.balance = method, balance
        self.evaluate_every, self.random_state = evaluate_every, random_state

    def begin(self, problem: TrainProblem, start: F64 | None) -> _Run:
        """Return a run; see :class:`ssvm_trainers._resumable.Resumable`."""
        run = _DualRun(self, problem) if self.method == "dual" else _Run(self, problem)
        if start is not None:
            run.w, run.first_w = start.copy(), start.copy()
        return run


class _Run(Run):
    """One training run; w and x are the point, x the marginals of all examples."""

    STATE: ClassVar[tuple[str, ...]] = ("w", "x", "first_w", "first_x", "step", "n_steps", "passes", "projection")

    def __init__(self, options: Extragradient, problem: TrainProblem) -> None:
        self.options, self.problem, self.polytope = options, problem, polytope_of(problem, "extragradient")
        objective, polytope = problem.objective, self.polytope
        self.share = objective.weight / problem.n
        self.column_share = self.share[polytope.owner]
        self.metric = objective.lam * objective.scale
        self.of_truth = polytope.truth_features(self.share)
        self.projection = _projection(polytope)
        self.w, self.x = objective.weights(np.zeros(problem.dim)), polytope.truth()
        self.first_w, self.first_x = self.w.copy(), self.x.copy()
        largest = float(np.abs(polytope.loss).max(initial=0.0))
        self.beta = max((self._tie() / options.balance) ** 2, largest / MOST_MOVED, 1e-24)
        self.lipschitz = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * options.balance**2))
        self.step, self.n_steps, self.passes = LONG / self.lipschitz, 0, 0.0

    def _tie(self) -> float:
        """Return the norm of the map from w to scores, lengths taken with beta = 1; a few steps of the power method."""
        x, size = np.cos(np.arange(len(self.x), dtype=np.float64)), 0.0
        for _ in range(POWER_STEPS):
            length = float(np.sqrt(np.dot(self.column_share * x, x)))
            if length == 0.0:
                break
            x = self.polytope.scores(self.polytope.features(self.column_share * x / length) / self.metric)
            size = float(np.sqrt(np.dot(self.column_share * x, x)))
        return float(np.sqrt(size))

    def field(self, w: F64, x: F64) -> tuple[F64, F64]:
        """Return F(w, x) in the units of steps."""
        v = self.of_truth - self.polytope.features(self.column_share * x)
        return w - v / self.metric, -(self.polytope.loss + self.polytope.scores(w)) / self.beta

    def project(self, w: F64, x: F64) -> tuple[F64, F64]:
        """Return the closest point of the set."""
        return np.maximum(w, self.problem.objective.lower), self.projection.project(x)

    def length(self, w: F64, x: F64) -> float:
        """Return the length of a difference of two points."""
        return float(np.sqrt(np.dot(self.metric * w, w) + self.beta * np.dot(self.column_share * x, x)))

    def iterate(self, stop: StopRule) -> Iterate:
        """Take some steps and certify where they led."""
        for _ in range(self.options.evaluate_every):
            self.advance()
            self.n_steps += 1
        self.passes += 1.0
        objective = self.problem.objective
        v, b = self.polytope.plane(self.x, objective.weight)
        w = objective.weights(v)
        primal, upper = self.problem.value(w)
        extra = {"steps": float(self.n_steps), "step_size": float(self.step)}
        return Iterate(w, self.passes, primal, upper, objective.dual(v, b), extra=extra, plane=(v, b))

    def advance(self) -> None:
        """Take one step."""
        w, x = self.w, self.x
        here = self.field(w, x)
        while True:
            ahead = self.project(w - self.step * here[0], x - self.step * here[1])
            there = self.field(*ahead)
            moved = self.length(w - ahead[0], x - ahead[1])
            ratio = self.step * self.length(here[0] - there[0], here[1] - there[1]) / max(moved, 1e-300)
            if ratio <= LONG or moved == 0.0:
                break
            self.step *= 2.0 / 3.0 * min(1.0, 1.0 / ratio)
        self.w, self.x = self.project(w - self.step * there[0], x - self.step * there[1])
        if ratio <= SHORT:
            self.step *= 1.5


class _DualRun(_Run):
    """The dual method: s is the negative sum of all F, and the average of the points is what is certified."""

    STATE: ClassVar[tuple[str, ...]] = (*_Run.STATE, "sum_w", "sum_x", "near")

    def __init__(self, options: Extragradient, problem: TrainProblem) -> None:
        super().__init__(options, problem)
        self.sum_w, self.sum_x = np.zeros_like(self.w), np.zeros_like(self.x)
        self.step, self.near = 1.0 / self.lipschitz, copy(self.projection)  # each starts from its own last multipliers

    def advance(self) -> None:
        """Take one step."""
        w = np.maximum(self.first_w + self.step * self.sum_w, self.problem.objective.lower)
        x = self.near.project(self.first_x + self.step * self.sum_x)
        at = self.field(w, x)
        w, x = self.project(w - self.step * at[0], x - self.step * at[1])
        at = self.field(w, x)
        self.sum_w, self.sum_x = self.sum_w - at[0], self.sum_x - at[1]
        self.w = self.w + (w - self.w) / (self.n_steps + 1.0)
        self.x = self.x + (x - self.x) / (self.n_steps + 1.0)


def _projection(polytope: Polytope) -> SimplexProjection | PolytopeProjection:
    """Return the projection onto the polytope, the closed form where there are no factors."""
    if any(group.n_factors for group in polytope.cliques.program.groups):
        return PolytopeProjection(polytope.matrix, polytope.right, polytope.owner, polytope.row_owner)
    return SimplexProjection(np.diff(polytope.matrix.indptr).astype(np.int64))
