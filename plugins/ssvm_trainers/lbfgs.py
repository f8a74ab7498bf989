"""``lbfgs``: limited-memory quasi-Newton steps for smooth risks (Liu and Nocedal 1989), with bounds on weights.

The direction is ``-H g`` with the two-loop recursion over the last pairs of steps and changes of the gradient.  With
lower bounds it is the two-metric projection of Bertsekas (1982): weights that lie on their bound and would leave the
domain are held, H acts on the others, and the step ends with projecting,

    held = { j : w_j = lower_j, g_j > 0 } ,        w <- max(w + a d, lower) .

The step a starts at 1 and shrinks by interpolation until the objective falls enough (Armijo); a convex objective needs
no more, because the change of the gradient along a step is never negative.

Every evaluated gradient gives an aggregated plane, the tangent of the risk, and with the regulariser a lower bound of
the optimum: for strongly convex objectives ``P(w) - |g|^2 / (2 lam)`` where there are no bounds.  The best convex
combination of all tangents so far is kept, so the gap is certified.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.plugin_api import Iterate, StopRule, TrainProblem
from ssvm_trainers._lower_bound import PlaneHull

F64 = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: Share of the predicted decrease a step must reach.
ARMIJO = 1e-4

#: Evaluations in one line search; after them the objective cannot be told from its rounding.
MAX_TRIALS = 30

#: Decreases below this share of the objective drown in its rounding.
ROUNDING = 1e-16

#: A step and a change of the gradient at nearly a right angle tell nothing.
TINY = 1e-12


class LBFGS:
    """Limited-memory BFGS.

    Parameters
    ----------
    memory : int
        Pairs of steps and gradient changes kept.
    random_state : int or None
        Not used: the method is deterministic.
    """

    def __init__(self, memory: int = 10, random_state: int | None = None) -> None:
        self.memory = memory

    def steps(self, problem: TrainProblem, stop: StopRule, start: F64 | None = None) -> Iterator[Iterate]:
        """Yield an iterate after each step; end when no step makes the objective smaller in floating point."""
        evaluate = Evaluator(problem)
        pairs: deque[tuple[F64, F64]] = deque(maxlen=self.memory)
        lower = problem.objective.lower
        now: Point | None = evaluate(np.maximum(np.zeros(problem.dim) if start is None else start, lower))
        while now is not None:
            yield Iterate(now.w, float(evaluate.n_calls), now.primal, now.upper, evaluate.dual)
            held = (now.w <= lower) & (now.grad > 0.0)
            free = np.where(held, 0.0, now.grad)
            new = search(evaluate, now, quasi_newton(free, pairs, held), free, 1.0 if pairs else 0.0)
            if new is None and pairs:  # the curvature of rounding errors leads nowhere: once more along the gradient
                pairs.clear()
                new = search(evaluate, now, -free, free, 0.0)
            if new is not None:
                remember(pairs, new.w - now.w, new.grad - now.grad)
            now = new


@dataclass(frozen=True, eq=False)
class Point:
    """Weights with the objective (and its certified upper bound) and its gradient there."""

    w: F64
    primal: float
    upper: float
    grad: F64


class Evaluator:
    """Evaluates the objective; keeps the best lower bound of the optimum and counts calls.

    Parameters
    ----------
    problem : TrainProblem
    """

    def __init__(self, problem: TrainProblem) -> None:
        self.problem, self.hull = problem, PlaneHull(problem.objective)
        self.n_calls, self.dual = 0, -np.inf

    def __call__(self, w: F64) -> Point:
        """Return objective and gradient at w."""
        objective, n = self.problem.objective, self.problem.n
        found = self.problem.gradient(w)
        self.n_calls += 1
        self.dual = max(self.dual, self.hull.add(-found.vector / n, found.offset / n))
        grad = objective.lam * objective.scale * w + found.vector / n
        return Point(w, objective.primal(w, found.value), objective.primal(w, found.bound), grad)


def remember(pairs: deque[tuple[F64, F64]], step: F64, bend: F64) -> None:
    """Keep a step and the change of the gradient along it, unless there was (nearly) none."""
    if float(np.dot(step, bend)) > TINY * float(np.linalg.norm(step)) * float(np.linalg.norm(bend)):
        pairs.append((step, bend))


def quasi_newton(grad: F64, pairs: Sequence[tuple[F64, F64]], held: Bools) -> F64:
    """Return ``-H grad`` by the two-loop recursion on the weights that are not held."""
    direction, done = -grad, []
    some = bool(held.any())
    for step, bend in reversed(pairs):
        if some:
            step, bend = np.where(held, 0.0, step), np.where(held, 0.0, bend)
        along = float(np.dot(step, bend))
        if along > TINY * float(np.linalg.norm(step)) * float(np.linalg.norm(bend)):
            share = float(np.dot(step, direction)) / along
            direction -= share * bend
            done.append((step, bend, along, share))
    if done:
        _, bend, along, _ = done[0]
        direction *= along / float(np.dot(bend, bend))
    for step, bend, along, share in reversed(done):
        direction += (share - float(np.dot(bend, direction)) / along) * step
    return direction


def search(evaluate: Evaluator, now: Point, direction: F64, grad: F64, length: float) -> Point | None:
    """Return a point along a direction where the objective is smaller by enough, ``None`` without one.

    ``length`` is the first step to try; 0: one that moves the weights by a distance of 1 at most.
    """
    objective = evaluate.problem.objective
    length = length or min(1.0, 1.0 / max(float(np.linalg.norm(direction)), 1e-300))
    for _ in range(MAX_TRIALS):
        w = np.maximum(now.w + length * direction, objective.lower)
        slope = float(np.dot(grad, w - now.w))
        if not slope < -ROUNDING * abs(now.primal):
            return None
        new = evaluate(w)
        if new.primal <= now.primal + ARMIJO * slope:
            return new
        # the parabola through both values with the slope at the start
        length *= float(np.clip(-0.5 * slope / max(new.primal - now.primal - slope, 1e-300), 0.1, 0.5))
    return None
