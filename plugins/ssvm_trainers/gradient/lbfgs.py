"""``lbfgs``: limited-memory quasi-Newton steps for smooth risks (Liu and Nocedal 1989), with bounds on weights.

The direction is ``-H g`` with the two-loop recursion over the last pairs of steps and changes of the gradient, from a
multiple of the inverse of a diagonal guess of the curvature (``TrainProblem.curvature``).  With
lower bounds it is the two-metric projection of Bertsekas (1982): weights that lie on their bound and would leave the
domain are held, H acts on the others, and the step ends with projecting,

    held = { j : w_j = lower_j, g_j > 0 } ,        w <- max(w + a d, lower) .

With an L1 penalty the steps are those of OWL-QN (Andrew and Gao 2007): g is the pseudo-gradient of the whole objective,
of all its one-sided slopes the steepest way down, the pairs are of its smooth part, and a step stays in one orthant
(weights at 0 without a way down are held, too):

    d_j <- 0  where  w_j = 0, d_j g_j >= 0 ;
    w_j <- 0  where  w_j + a d_j leaves the orthant of w_j, or of -g_j at 0 .

OWL-QN sets ``d_j <- 0`` where w_j is not 0, too, which discards curvature of H.  It is not needed: ``d . g < 0`` holds,
and non-negative terms are left out.  On OCR letters a third of the passes suffices (178 in place of 585).

The step a starts at 1 and shrinks by interpolation until the objective falls enough (Armijo); a convex objective needs
no more, because the change of the gradient along a step is never negative.

Every evaluated gradient gives an aggregated plane, the tangent of the risk, and with the regulariser a lower bound of
the optimum: for strongly convex objectives ``P(w) - |g|^2 / (2 lam)`` where there are no bounds.  The best convex
combination of all tangents so far is kept, so the gap is certified.

Measured on one thread (``make bench ARGS=crf``): log-loss on nine folds of the OCR letters, to the objective at which
CRFsuite's l-bfgs stops, takes 12.1 s; CRFsuite takes 29.0 s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I64, Bools, slices
from ssvm_dsl.plugin_api import Iterate, StopRule, TrainProblem
from ssvm_trainers.gradient.evaluator import Evaluator, Point
from ssvm_trainers.shared.resumable import PART, Resumable, Run, StateRule, require

#: Share of the predicted decrease a step must reach.
ARMIJO = 1e-4

#: Most evaluations in one line search; after them the changes of the objective are rounding.
MAX_TRIALS = 30

#: Decreases below this share of the objective are within its rounding errors.
ROUNDING = 1e-16

#: A step at nearly a right angle to the change of the gradient carries no curvature.
TINY = 1e-12


class LBFGS(Resumable):
    """Limited-memory BFGS (Liu and Nocedal 1989) with bounds on weights and an L1 penalty.

    Parameters
    ----------
    memory : int
        Pairs of steps and gradient changes kept.
    random_state : int or None
        Not used: the method is deterministic.
    """

    def __init__(self, memory: int = 10, random_state: int | None = None) -> None:
        self.memory = memory

    def begin(self, problem: TrainProblem, start: F64 | None) -> Run:
        """Return a new run, before its first iterate."""
        return LBFGSRun(self, problem, start)


class LBFGSRun(Run):
    """The current point and the last pairs; a new pair reuses the memory of the previous point."""

    evaluate: Annotated[Evaluator, PART]
    now: Annotated[Point, PART]

    def __init__(self, options: LBFGS, problem: TrainProblem, start: F64 | None) -> None:
        self.evaluate, self.lower = Evaluator(problem), problem.objective.lower
        self.threshold = problem.objective.l1 * problem.objective.scale if problem.objective.l1 else None
        self.metric = inverse_curvature(problem)
        self.bent = bent_weights(problem, self.metric)
        self.pairs: deque[Pair] = deque(maxlen=options.memory)
        self.now = Point(np.maximum(np.zeros(problem.dim) if start is None else start, self.lower))

    def iterate(self, stop: StopRule) -> Iterate | None:
        """Take a step; end when no step reduces the objective in floating point."""
        new = self._step() if self.evaluate.n_calls else self.evaluate(self.now.w)
        if new is None:
            return None
        self.now = new
        return self.evaluate.iterate(new, float(self.evaluate.n_calls))

    def _step(self) -> Point | None:
        """Return the next point, ``None`` without one; keep the pair."""
        now, pairs, metric, some = self.now, self.pairs, self.metric, self.bent
        slope = now.grad if self.threshold is None else pseudo_gradient(now.w, now.grad, self.threshold)
        at_bound = (now.w <= self.lower) & (slope > 0.0)
        if self.threshold is not None:
            at_bound |= (now.w == 0.0) & (slope == 0.0)
        free = np.where(at_bound, 0.0, slope) if at_bound.any() else slope
        orthant = None if self.threshold is None else np.where(now.w == 0.0, -np.sign(free), np.sign(now.w))
        direction = quasi_newton(free[some], pairs, at_bound[some], metric[some])
        if not isinstance(some, slice):
            direction, newton = -metric * free, direction
            direction[some] = newton
        if self.threshold is not None:
            direction[(now.w == 0.0) & (direction * free >= 0.0)] = 0.0
        new = search(self.evaluate, now, direction, free, 1.0 if pairs else 0.0, orthant)
        if new is None and pairs:  # the pairs hold rounding errors: once more along the gradient
            pairs.clear()
            new = search(self.evaluate, now, -free, free, 0.0, orthant)
        if new is None:
            return None
        step, bend = np.subtract(new.w, now.w, out=now.w), np.subtract(new.grad, now.grad, out=now.grad)
        pair = Pair.of(step[some], bend[some], metric[some])
        if pair is not None:
            pairs.append(pair)
        return new

    def check(self, state: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Refuse pairs of another number of weights."""
        require(sizes["bent"] == len(self.metric[self.bent]), "'steps'", "a number for each weight that matters")

    def packed(self) -> SavedPairs:
        """Return the kept pairs of steps and gradient changes as the arrays of a checkpoint."""
        shape, pairs = (len(self.pairs), len(self.metric[self.bent])), self.pairs
        steps = np.array([pair.step for pair in pairs]).reshape(shape)
        return SavedPairs(steps, np.array([pair.bend for pair in pairs]).reshape(shape))

    def unpack(self, record: SavedPairs) -> None:
        """Rebuild the kept pairs of steps and gradient changes from the arrays of a checkpoint."""
        metric = self.metric[self.bent]
        made = (Pair.of(s.copy(), y.copy(), metric) for s, y in zip(record.steps, record.bends, strict=True))
        self.pairs.extend(pair for pair in made if pair is not None)


class SavedPairs(NamedTuple):
    """The pairs of a run, oldest first."""

    steps: Annotated[F64, StateRule(shape=("pairs", "bent"))]
    bends: Annotated[F64, StateRule(shape=("pairs", "bent"))]


@dataclass(frozen=True, eq=False)
class Pair:
    """A step s with the change of the gradient y along it.

    Parameters
    ----------
    step, bend : ndarray of float64
        Of the weights that bend the risks (:func:`bent_weights`).
    along : float
        ``s . y``.
    size : float
        ``y . H y`` with the first guess H of the inverse Hessian.
    """

    step: F64
    bend: F64
    along: float
    size: float

    @classmethod
    def of(cls, step: F64, bend: F64, metric: F64) -> Pair | None:
        """Return the pair, ``None`` when there was (nearly) no change of the gradient."""
        along = float(np.dot(step, bend))
        if not along > TINY * float(np.linalg.norm(step)) * float(np.linalg.norm(bend)):
            return None
        size = sum(float(np.dot(bend[part], metric[part] * bend[part])) for part in slices(len(bend)))
        return cls(step, bend, along, size)

    def restricted(self, free: I64, metric: F64) -> Pair | None:
        """Return the pair on some weights alone, whose metric this is."""
        return Pair.of(self.step[free], self.bend[free], metric)


def inverse_curvature(problem: TrainProblem) -> F64:
    """Return ``1 / (lam scale_j + curvature_j / n)``, 1 where a weight has neither; ``shape (dim,)``."""
    objective, curvature = problem.objective, problem.curvature()
    curvature /= problem.n
    curvature += objective.lam * objective.scale
    curvature[curvature <= 0.0] = 1.0
    return np.divide(1.0, curvature, out=curvature)


def bent_weights(problem: TrainProblem, metric: F64) -> slice | I64:
    """Return the weights along which the risks are not flat: all, unless fewer than half of them are.

    Flat are those of features that no example has, words outside of the training texts for one: what is learnt of the
    curvature needs no numbers for them.
    """
    alone = problem.objective.lam * problem.objective.scale
    bent: I64 = np.flatnonzero(metric != 1.0 / np.where(alone > 0.0, alone, 1.0))
    return bent if 2 * len(bent) < len(metric) else slice(None)


def pseudo_gradient(w: F64, grad: F64, threshold: F64) -> F64:
    """Return the steepest one-sided slopes of a smooth function plus ``sum_j threshold_j |w_j|``.

    At ``w_j = 0`` they are 0 where the gradient of the smooth part is within the threshold.
    """
    at_zero = grad - np.clip(grad, -threshold, threshold)
    return np.where(w == 0.0, at_zero, grad + threshold * np.sign(w))


def quasi_newton(grad: F64, pairs: Sequence[Pair], at_bound: Bools, metric: F64) -> F64:
    """Return ``-H grad`` by the two-loop recursion on the weights that are not held."""
    from scipy.linalg.blas import daxpy

    if at_bound.any():  # the others alone: with an L1 penalty most weights are held
        free, direction = np.flatnonzero(~at_bound), np.zeros_like(grad)
        some = metric[free]
        used = [pair for pair in (one.restricted(free, some) for one in pairs) if pair is not None]
        direction[free] = quasi_newton(grad[free], used, np.zeros(0, dtype=bool), some)
        return direction
    direction, shares = -grad, []
    for pair in reversed(pairs):
        shares.append(float(np.dot(pair.step, direction)) / pair.along)
        daxpy(pair.bend, direction, a=-shares[-1])  # in place: temporary vectors cost more than the sums
    direction *= metric
    if pairs:
        direction *= pairs[-1].along / pairs[-1].size
    for pair, share in zip(pairs, reversed(shares), strict=True):
        daxpy(pair.step, direction, a=share - float(np.dot(pair.bend, direction)) / pair.along)
    return direction


def search(
    evaluate: Evaluator, now: Point, direction: F64, grad: F64, length: float, orthant: F64 | None = None
) -> Point | None:
    """Return a point along a direction where the objective is smaller by enough, ``None`` without one.

    ``length`` is the first step to try; 0: one that moves the weights by a distance of 1 at most.  Weights whose sign
    would be another one than that in ``orthant`` become 0.
    """
    objective = evaluate.problem.objective
    length = length or min(1.0, 1.0 / max(float(np.linalg.norm(direction)), 1e-300))
    for _ in range(MAX_TRIALS):
        w = length * direction
        w += now.w
        np.maximum(w, objective.lower, out=w)
        if orthant is not None:
            w[w * orthant <= 0.0] = 0.0
        slope = float(np.dot(grad, w - now.w))
        if not slope < -ROUNDING * abs(now.primal):
            if orthant is None:
                return None
            length *= 0.5  # weights that became 0 made up most of the descent: a shorter step keeps more of them
            continue
        new = evaluate(w)
        if new.primal <= now.primal + ARMIJO * slope:
            return new
        # the parabola through both values with the slope at the start
        length *= float(np.clip(-0.5 * slope / max(new.primal - now.primal - slope, 1e-300), 0.1, 0.5))
        del w, new  # before the next trial takes its vectors
    return None
