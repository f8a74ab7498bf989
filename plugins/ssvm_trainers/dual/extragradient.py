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
probabilities.

Lengths are measured by ``|w|^2 = w . P w`` (:class:`WeightMetric`) and
``|mu|^2 = beta/n sum_i weight_i |mu_i|^2`` with beta the largest loss of a label over ``balance``, so that results do
not depend on the units of features.  P holds the change of scores that w makes, so what ties w to mu is no larger than
1 and F changes by at most 1.62 along a unit of length, however much alike features are.

The lower bound is the plane of the marginals, the primal that of the weights.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import Annotated, Any, cast

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array
from scipy.sparse.linalg import splu

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir import F64
from ssvm_dsl.plugin_api import Iterate, StopRule, TrainProblem
from ssvm_trainers.dual.junction_trees import JunctionTrees, from_conditionals, to_conditionals
from ssvm_trainers.dual.points_of_problem import polytope_of
from ssvm_trainers.dual.polytope import CliquePolytope, Polytope, clique_polytope
from ssvm_trainers.dual.projection.polytopes import PolytopeProjection
from ssvm_trainers.shared.resumable import COUNTS, NUMBERS, OPEN, PART, Resumable, Run, StateRule

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


# -- The saddle point of weights and marginals that the steps of ``extragradient`` are taken on ----------------------

#: Steps are shortened above this share of the longest length that is proved, and lengthened below the other.
LONG, SHORT = 0.9, 0.4

#: Seconds for each cell and for each feature of one that it takes to lay out equations, scores and their metric.
ENTRY_SECONDS = 8e-8


class SaddleRun(Run):
    """One training run; w and x are the point that is certified: the weights, and marginals (one for each cell)."""

    w: Annotated[F64, NUMBERS]
    x: Annotated[F64, NUMBERS]
    step: Annotated[float, StateRule(least=1e-300)]  #: length of the next step
    n_steps: Annotated[int, COUNTS]
    passes: Annotated[float, COUNTS]

    def __init__(self, options: Extragradient, problem: TrainProblem, polytope: Polytope) -> None:
        self.options, self.problem, self.polytope = options, problem, polytope
        problem.pause(ENTRY_SECONDS * (polytope.n_cells + polytope.n_features()))
        objective = problem.objective
        self.share, self.loss = objective.weight / problem.n, polytope.score_loss()
        self.of_truth = polytope.truth_features(self.share)
        self.w, self.x = objective.weights(np.zeros(problem.dim)), np.zeros(polytope.n_cells)
        self.counts = polytope.mass(polytope.full(self.share[polytope.owner]))
        self.beta = float(np.abs(problem.loss.node).max(initial=0.0) or 1.0) / options.balance
        counts = self.counts / self.beta
        problem.pause()
        self.metric = WeightMetric(polytope.score_matrix(), counts, objective.lam * objective.scale, objective.lower)
        self.step, self.n_steps, self.passes = 1.0, 0, 0.0

    @abstractmethod
    def start_at(self, w: F64) -> None:
        """Begin with given weights."""

    @abstractmethod
    def advance(self) -> None:
        """Take one step: a prediction, and the correction by the gradient there."""

    def slope(self, w: F64, mass: F64) -> F64:
        """Return the gradient in w, for marginals added up by score."""
        objective = self.problem.objective
        return objective.lam * objective.scale * w - self.of_truth + self.polytope.score_features(mass)

    def bounded(self, w: F64) -> F64:
        """Return the closest weights that are allowed."""
        return np.maximum(w, self.problem.objective.lower)

    def iterate(self, stop: StopRule) -> Iterate:
        """Take some steps and certify where they led."""
        for _ in range(self.options.evaluate_every):
            self.problem.pause()
            self.advance()
            self.n_steps += 1
        self.passes += 1.0
        objective = self.problem.objective
        v, b = self.polytope.plane(self.x[self.polytope.kept], objective.weight)
        primal, upper = self.problem.value(self.w)
        extra = {"steps": float(self.n_steps), "step_size": float(self.step)}
        return Iterate(self.w, self.passes, primal, upper, objective.dual(v, b), extra=extra, plane=(v, b))


# -- Euclidean steps -------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------------------------
# Entropic steps of ``extragradient``: proximal steps by the relative entropy of distributions over labellings.
#
# Where a Euclidean step projects marginals, an entropic one multiplies probabilities,
#
#     q'_i(y)  ~  q_i(y) exp(a/beta (loss_i(y) + w . Phi(x_i, y))) ,
#
# which is the proximal step of ``beta/n sum_i weight_i KL(q'_i | q_i)``: the Bregman projections of Taskar,
# Lacoste-Julien and Jordan (2006, "Structured prediction, dual extragradient and Bregman projections").  Such q_i are
# products over the cliques of a junction tree, so that a projection is one pass of sums up the tree and one of
# marginals down; no equations are solved.  From u = (w, q) a step looks ahead to u' along F(u) and goes from u to u+
# along F(u') (mirror-prox, Nemirovski 2004), as long as
#
#     a (F(u') - F(u)) . (u' - u+)  <=  0.9 (D(u', u) + D(u+, u')) ,        D = 1/2 |w|^2 + beta/n sum_i weight_i KL ,
#
# else a is shortened; it is lengthened after easy steps.  ``method="dual"`` certifies the averages of all u', each
# weighted by its a, whose error is O(1/t) whatever the steps; otherwise u+ is.  Weights with lower bounds keep what
# they would be without them for ``"dual"``, as Nesterov's method does (2007).
#
# Probabilities are kept as logarithms, conditional on the separator to the parent clique: none becomes zero by
# rounding.

#: Most trials of one step; after them only rounding is left to gain.
MAX_TRIALS = 60


class EntropicRun(SaddleRun):
    """One training run."""

    logs: Annotated[F64, OPEN]  #: log-probability of each cell given its row; -inf where it is ruled out
    mu: Annotated[F64, NUMBERS]  #: their marginals
    at: Annotated[F64, NUMBERS]  #: the weights that steps are taken from
    free: Annotated[F64, NUMBERS]  #: the same without lower bounds, for the dual method
    total: Annotated[float, COUNTS]  #: lengths of all steps

    def __init__(self, options: Extragradient, problem: TrainProblem) -> None:
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


# -- Lengths of weights that tell how far scores move -------------------------------------------------------------
#
# Where features are much alike - all images of letters have ink in the middle - some directions of w move nearly all
# scores and most move few.  Steps that are short enough for the first are far too short for the others, unless lengths
# are taken by
#
#     |w|^2 = w . P w ,        P = lam diag(scale) + Phi' diag(counts) Phi ,
#
# the cost of a step of w in the objective plus the weighted change of the scores.  So no move of the weights is shorter
# than that of the scores.  Weights with a lower bound must be projected one by one: for these a diagonal stands in for
# P that is at least as large (Pock and Chambolle 2011, lemma 2), as it does for all weights where P is not sparse
# enough to be factored.

#: Products that make P at most, and entries of it.
MOST_PRODUCTS, MOST_ENTRIES = 2e9, 5e6


class WeightMetric:
    """The matrix P, or a diagonal that is at least as large.

    Parameters
    ----------
    matrix : csr_array, shape (n_scores, dim)
        Phi: the scores are ``Phi w``.
    counts : ndarray of float64, shape (n_scores,)
        How much a score counts.
    regularizer : ndarray of float64, shape (dim,)
        ``lam * scale``.
    lower : ndarray of float64, shape (dim,)
        Lower bounds of weights, ``-inf`` for none.
    """

    def __init__(self, matrix: Any, counts: F64, regularizer: F64, lower: F64) -> None:
        used = csr_array(matrix[np.flatnonzero(counts > 0.0)])
        counts, sizes = counts[counts > 0.0], abs(used)
        row_sums = sizes.T @ (counts * (sizes @ np.ones(matrix.shape[1])))
        free = np.flatnonzero(np.broadcast_to(lower, regularizer.shape) == -np.inf)
        part = csc_array(used[:, free])
        products = float(np.square(np.bincount(part.indices, minlength=len(counts)).astype(np.float64)).sum())
        gram = csc_array((0, 0))
        if products <= MOST_PRODUCTS:
            gram = csc_array(part.T @ (diags_array(counts) @ part))
        if products > MOST_PRODUCTS or gram.nnz > MOST_ENTRIES:
            free = free[:0]
        parts = 2.0 if 0 < len(free) < len(regularizer) else 1.0  # P is at most twice its diagonal blocks
        self.free, self.diagonal = free, regularizer + parts * row_sums
        if len(free):
            self.block = csc_array(parts * gram + diags_array(regularizer[free]))
            options = {"SymmetricMode": True}
            self.factor = splu(self.block, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)

    def solve(self, v: F64) -> F64:
        """Return ``P^-1 v``."""
        out: F64 = v / self.diagonal
        if len(self.free):
            out[self.free] = self.factor.solve(v[self.free])
        return out

    def squared(self, w: F64) -> float:
        """Return ``|w|^2``."""
        out = w * self.diagonal
        if len(self.free):
            out[self.free] = self.block @ w[self.free]
        return float(np.dot(w, out))
