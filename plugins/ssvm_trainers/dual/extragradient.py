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
(:mod:`ssvm_trainers.dual.projection.polytopes`), or, with ``geometry="entropic"``, for marginals of products of
probabilities (:mod:`ssvm_trainers.dual.entropic`); the rest here is of Euclidean steps.

Lengths are measured by ``|w|^2 = w . P w`` (:mod:`ssvm_trainers.dual.projection.weight_metric`) and
``|mu|^2 = beta/n sum_i weight_i |mu_i|^2`` with beta the largest loss of a label over ``balance``, so that results do
not depend on the units of features.  P holds the change of scores that w makes, so what ties w to mu is no larger than
1 and F changes by at most 1.62 along a unit of length, however much alike features are.

The lower bound is the plane of the marginals, the primal that of the weights.
"""

from __future__ import annotations

from copy import copy
from typing import Annotated

import numpy as np

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir import F64
from ssvm_dsl.plugin_api import TrainProblem
from ssvm_trainers.dual.entropic import EntropicRun
from ssvm_trainers.dual.junction.junction_trees import JunctionTrees
from ssvm_trainers.dual.points_of_problem import polytope_of
from ssvm_trainers.dual.polytope import CliquePolytope
from ssvm_trainers.dual.projection.polytopes import PolytopeProjection
from ssvm_trainers.dual.projection.weight_metric import WeightMetric
from ssvm_trainers.dual.saddle_point import LONG, SHORT, SaddleRun
from ssvm_trainers.shared.resumable import Resumable
from ssvm_trainers.shared.state_rules import NUMBERS, PART

#: The balance of each geometry.
BALANCE = {"euclidean": 0.3, "entropic": 1.0}

#: How much F changes at most along a unit of length, as lengths are taken here.
LIPSCHITZ = 0.5 * (1.0 + np.sqrt(5.0))


#: Joint states that cliques of three and more variables share with a neighbour at most: Newton's method takes hundreds
#: of steps where they share more (27, a grid of three rows and three states: some; 81, of four rows: a minute).
MOST_SHARED = 32


def require_narrow(trees: JunctionTrees) -> None:
    """Refuse cliques onto whose marginals a Euclidean projection takes too long.

    Raises
    ------
    TrainingError
        The message names the size of the separators and an alternative.
    """
    shared = int(np.diff(trees.row_ptr)[np.diff(trees.member_ptr) > 2].max(initial=0))
    if shared > MOST_SHARED:
        text = f"trainer 'extragradient': cliques of the triangulated graphs share up to {shared} joint states, and "
        text += f"Euclidean projections take too long where they share more than {MOST_SHARED}"
        raise TrainingError(f"{text}; use trainer_options={{'geometry': 'entropic'}}, or trainer='smo'")


class Extragradient(Resumable):
    """The extragradient method (Korpelevich 1976) and the dual extragradient method (Nesterov 2007).

    Parameters
    ----------
    method : {"extragradient", "dual"}
    geometry : {"euclidean", "entropic"}
        Lengths of steps of marginals: by their squares, or by relative entropy.
    balance : float or None
        The largest loss of a label, divided by the length of a unit of marginals: more makes steps of the marginals
        longer and those of the weights shorter.  ``None``: the best value for the geometry on small problems.
    evaluate_every : int
        Steps between two certificates, each a pass of the oracle.
    random_state : int or None
        Not used: the method is deterministic.
    """

    def __init__(
        self,
        method: str = "extragradient",
        geometry: str = "euclidean",
        balance: float | None = None,
        evaluate_every: int = 20,
        random_state: int | None = None,
    ) -> None:
        self.method, self.geometry = method, geometry
        self.balance = BALANCE[geometry] if balance is None else balance
        self.evaluate_every, self.random_state = evaluate_every, random_state

    def begin(self, problem: TrainProblem, start: F64 | None) -> SaddleRun:
        """Return a run; see :class:`ssvm_trainers.shared.resumable.Resumable`."""
        kind = EntropicRun if self.geometry == "entropic" else _DualRun if self.method == "dual" else ExtragradientRun
        run = kind(self, problem)
        if start is not None:
            run.start_at(start)
        return run


class ExtragradientRun(SaddleRun):
    """Euclidean steps."""

    mass: Annotated[F64, NUMBERS]  #: what x adds up to, by score
    first_w: Annotated[F64, NUMBERS]  #: weights at the start
    projection: Annotated[PolytopeProjection, PART]

    def __init__(self, options: Extragradient, problem: TrainProblem) -> None:
        super().__init__(options, problem, polytope_of(problem, "extragradient"))
        polytope = self.polytope
        if isinstance(polytope, CliquePolytope):
            require_narrow(polytope.trees)
        layout, n_scores = polytope.layout(), len(self.loss)
        self.projection = PolytopeProjection(layout, n_scores, self.share, polytope.used, problem.pause)
        self.x = polytope.full(polytope.truth())
        self.first_w, self.first_x = self.w.copy(), self.x
        _, self.mass, _ = self.projection.step(self.x, np.zeros_like(self.loss), 0.0)
        self.step = LONG / LIPSCHITZ

    def start_at(self, w: F64) -> None:
        """Begin with given weights."""
        self.w, self.first_w = w.copy(), w.copy()

    def _score_length(self, scores: F64) -> float:
        """Return the length of what scores are on the columns, with beta = 1."""
        return float(np.sqrt(np.dot(self.counts * scores, scores)))

    def field(self, w: F64, mass: F64) -> tuple[F64, F64]:
        """Return F in the units of steps, for the marginals not of columns but of scores, which columns share."""
        return self.metric.solve(self.slope(w, mass)), -(self.loss + self.polytope.scores(w)) / self.beta

    def advance(self) -> None:
        """Take one step."""
        w, project = self.w, self.projection.step
        here = self.field(w, self.mass)
        while True:
            self.problem.pause()
            ahead = self.bounded(w - self.step * here[0])
            _, mass, moved_x = project(self.x, here[1], -self.step)
            there = self.field(ahead, mass)
            moved = _length(self.metric, w - ahead, self.beta * moved_x)
            changed = _length(self.metric, here[0] - there[0], self.beta * self._score_length(here[1] - there[1]) ** 2)
            ratio = self.step * changed / max(moved, 1e-300)
            if ratio <= LONG or moved == 0.0:
                break
            self.step *= 2.0 / 3.0 * min(1.0, 1.0 / ratio)
        self.w = self.bounded(w - self.step * there[0])
        self.x, self.mass, _ = project(self.x, there[1], -self.step)
        if ratio <= SHORT:
            self.step *= 1.5


class _DualRun(ExtragradientRun):
    """The dual method: s is the negative sum of all F, and the average of the points is certified."""

    sum_w: Annotated[F64, NUMBERS]  #: s, its part for w
    sum_scores: Annotated[F64, NUMBERS]  #: s, its part for x
    near: Annotated[PolytopeProjection, PART]  #: projects from the start

    def __init__(self, options: Extragradient, problem: TrainProblem) -> None:
        super().__init__(options, problem)
        self.sum_w, self.sum_scores = np.zeros_like(self.w), np.zeros_like(self.mass)
        self.step, self.near = 1.0 / LIPSCHITZ, copy(self.projection)  # each starts from its own last multipliers

    def advance(self) -> None:
        """Take one step."""
        w = self.bounded(self.first_w + self.step * self.sum_w)
        x, mass, _ = self.near.step(self.first_x, self.sum_scores, self.step)
        at = self.field(w, mass)
        w = self.bounded(w - self.step * at[0])
        x, mass, _ = self.projection.step(x, at[1], -self.step)
        at = self.field(w, mass)
        self.sum_w, self.sum_scores = self.sum_w - at[0], self.sum_scores - at[1]
        self.w = self.w + (w - self.w) / (self.n_steps + 1.0)
        self.x = self.x + (x - self.x) / (self.n_steps + 1.0)


def _length(metric: WeightMetric, w: F64, rest: float) -> float:
    """Return the length of a difference of two points whose marginals have this squared length."""
    return float(np.sqrt(metric.squared(w) + rest))
