"""``subgradient``: the (online) subgradient method of Ratliff, Bagnell and Zinkevich (2007).

Each step moves against a subgradient of the regularised risk of a few examples,

    w <- Project( w - a_t (lam scale w + 1/|B| sum_{i in B} weight_i (Phi(x_i, yhat_i) - Phi(x_i, y_i))) ) ,

with B all examples (``batch``), the next ones of a random order (``stochastic``) or of the given order
(``incremental``).  Averaging the iterates (Polyak; weighted by t: Lacoste-Julien, Schmidt and Bach 2012) makes
the last passes count most.  Evaluated iterates also give aggregated planes; the best convex combination of
them, found by line search, is a certified lower bound of the optimum.

Risks raised to a power, and sums of squares, have slopes that grow with the risk: steps ``1/(lam t)`` are long at first
and make the next slope larger than the last.  For these risks the steps are as long as the subgradients seen so far
allow (distance over gradients: Ivgi, Hinder and Carmon 2023),

    a_t = max(d, max_{s <= t} |w_s - w_0|) / sqrt(sum_{s <= t} |g_s|^2) ,        d = risk_1 / |grad risk_1| ,

where d is the distance to the point at which the linearised first risk is 0.  No step is longer than the largest
distance so far, and steps that overshoot meet large subgradients, which shorten all later ones.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from ssvm_dsl.errors import OptionError, TrainingError
from ssvm_dsl.ir import F64, I64, slices
from ssvm_dsl.plugin_api import Iterate, RiskGradient, StopRule, TrainProblem
from ssvm_trainers.shared.guard import checked, steps_of
from ssvm_trainers.shared.lower_bound import PlaneHull
from ssvm_trainers.shared.resumable import COUNTS, NUMBERS, PART, Resumable, Run, Stateful, StateRule

#: The option for a radius whose ball contains the optimum.
PEGASOS = "pegasos"

#: The name of the trainer, and the advice for steps that are too long.
NAME = "subgradient"
ADVICE = "set trainer_options={'schedule': 'distance'}, a smaller 'step_size', or 'radius': 'pegasos'"

#: Steps by distance over gradients.
DISTANCE = "distance"

#: The exponent of t in a step's length.
DECAY = {"constant": 0.0, "1/t": -1.0, "1/sqrt(t)": -0.5, "1/(lam t)": -1.0}


@dataclass(eq=False)
class Subgradient(Resumable):
    """The subgradient method (Ratliff, Bagnell and Zinkevich 2007); steps and schedules are in the module.

    Parameters
    ----------
    order : {"stochastic", "incremental", "batch"}
        Which examples a step takes.
    batch_size : int
        How many (except for ``batch``).
    schedule : {"auto", "1/(lam t)", "distance", "1/sqrt(t)", "1/t", "constant"}
        How steps shrink with the number of steps t.  ``auto`` is ``1/(lam t)``, and ``distance`` (see above) for
        risks raised to a power, or that are sums of squares.
    step_size : float
        Factor of the schedule.
    offset : float
        Number that is added to t in the schedule, so that the first steps are shorter.
    momentum : float
        Share of the last direction in the next one, below 1.
    averaging : {"weighted", "uniform", "none"}
        Which average of the iterates is returned.
    radius : float, "pegasos" or None
        Project onto the ball ``|w| <= radius`` after each step.  The optimum lies in the ball of radius
        ``sqrt(R(0) / (lam min scale))`` with the mean risk R(0) of no weights at all, which is ``"pegasos"``: for
        losses of at most 1 it is the ``1/sqrt(lam)`` of Shalev-Shwartz et al. (2007).
    project : callable, optional
        Project onto a convex set after each step: changes a dict of the weights by factor in place, to the nearest ones
        in the set.
    metric : {"identity", "newton", "newton-current"}
        Steps along the subgradient, or along its online Newton direction (:class:`OnlineNewton`): by the
        subgradients of the steps before, as in the paper, or by that of the step, too.
    ridge : float
        What Newton directions add to the diagonal of their matrix.
    best_iterate : bool
        Return the evaluated iterate with the lowest objective, instead of the last one.
    evaluate_every : int
        Passes between two evaluations of the objective (each is an additional pass with the oracle; ``batch``
        steps come with theirs).
    random_state : int or None
        Seed of the random order.
    """

    order: str = "stochastic"
    batch_size: int = 1
    schedule: str = "auto"
    step_size: float = 1.0
    offset: float = 0.0
    momentum: float = 0.0
    averaging: str = "weighted"
    radius: float | str | None = None
    best_iterate: bool = True
    evaluate_every: int = 5
    metric: str = "identity"
    ridge: float = 1.0
    random_state: int | None = None
    project: Callable[[dict[str, F64]], object] | None = None

    def __post_init__(self) -> None:
        """Refuse two projections."""
        if self.momentum >= 1.0:
            raise OptionError(f"momentum is a share of the last direction, below 1, got {self.momentum}")
        if self.momentum and self.metric != "identity":
            raise OptionError("momentum is for metric='identity': leave one of them out")
        if self.project is not None and (self.radius is not None or self.metric != "identity"):
            raise OptionError("project= already projects, by Euclidean distance: leave out radius and metric")

    def begin(self, problem: TrainProblem, start: F64 | None) -> Run:
        """Return a new run, before its first iterate."""
        return SubgradientRun(self, problem, start)

    def partial(self, problem: TrainProblem, state: dict[str, Any] | None = None) -> tuple[F64, dict[str, Any]]:
        """Learn one pass over more examples; see :class:`~ssvm_dsl.plugin_api.IncrementalTrainer`."""
        run = Descent(self, problem.dim)
        if state is not None:
            run.go_on(state)
        run.ball = 0.0  # that of another problem
        run.confine(problem)
        with run.guard():
            run.one_pass(problem)
        return run.weights().copy(), run.state()


class SubgradientRun(Run):
    """Passes over one problem, and the lower bound they give."""

    descent: Annotated[Descent, PART]
    hull: Annotated[PlaneHull, PART]

    def __init__(self, options: Subgradient, problem: TrainProblem, start: F64 | None) -> None:
        self.options, self.problem = options, problem
        self.descent, self.hull = Descent(options, problem.dim, start), PlaneHull(problem.objective)
        self.descent.confine(problem)
        self.warm = start is not None

    def iterate(self, stop: StopRule) -> Iterate:
        """Take a pass, and evaluate the objective when it is time."""
        with self.descent.guard():
            return checked(self._iterate(stop), NAME, ADVICE)

    def newest(self) -> F64:
        """Return the weights after the steps so far."""
        return self.descent.weights()

    def _iterate(self, stop: StopRule) -> Iterate:
        descent, problem, hull = self.descent, self.problem, self.hull
        if self.warm and not descent.spent:  # the first steps are long: a later point may be better
            return descent.evaluated(problem, hull)
        if self.options.order == "batch":
            return self._batch(stop)
        dual = hull.add(*descent.one_pass(problem))
        if descent.due(stop):
            return descent.evaluated(problem, hull)
        return Iterate(descent.weights(), descent.spent, dual=dual, plane=hull.plane)

    def _batch(self, stop: StopRule) -> Iterate:
        """Take one step with all examples; the last one is evaluated, too, and an average when it is time."""
        descent, problem, hull = self.descent, self.problem, self.hull
        before = descent.batch_step(problem, hull)
        averages = self.options.averaging != "none"
        if not (descent.due(stop) if averages else descent.at_end(stop)):
            return before
        after = descent.evaluated(problem, hull)
        if averages or not self.options.best_iterate or not after.upper > before.upper:  # or nan: not known
            return after
        return replace(before, n_passes=after.n_passes, dual=after.dual, plane=after.plane)


class Descent(Stateful):
    """Weights, their average, and the number of steps.

    Parameters
    ----------
    options : Subgradient
    dim : int
    start : ndarray of float64, shape (dim,), optional
    """

    w: Annotated[F64, NUMBERS]  #: the newest weights
    average: Annotated[F64, NUMBERS]  #: of the iterates
    average_weight: Annotated[float, COUNTS]  #: sum of the shares in it
    t: Annotated[int, COUNTS]  #: steps so far
    n_passes: Annotated[int, COUNTS]  #: passes so far
    spent: Annotated[float, COUNTS]  #: passes, those of evaluations too
    ball: Annotated[float, COUNTS]  #: radius of the ball; 0: not known yet
    reach: Annotated[float, COUNTS]  #: largest distance from the start so far
    squares: Annotated[float, COUNTS]  #: sum of the squares of the subgradients
    newton: Annotated[OnlineNewton | None, StateRule(optional=True)]  #: with ``metric='newton'``
    velocity: Annotated[F64, NUMBERS]  #: the last direction, with ``momentum``
    random: Annotated[np.random.Generator, PART]

    def __init__(self, options: Subgradient, dim: int, start: F64 | None = None) -> None:
        self.options = options
        self.w = np.zeros(dim) if start is None else start.copy()
        self.average = np.zeros(dim)
        self.average_weight = 0.0
        self.t = 0
        self.n_passes = 0
        self.spent = 0.0
        self.ball = 0.0  # not known yet
        self.start, self.reach, self.squares = start, 0.0, 0.0
        self.velocity = np.zeros(dim if options.momentum else 0)
        current = {"newton": False, "newton-current": True}.get(options.metric)
        self.newton = None if current is None else OnlineNewton(dim, options.ridge, current)
        self.random = np.random.default_rng(options.random_state)
        self.convex_set: ConvexSet | None = None

    def confine(self, problem: TrainProblem) -> None:
        """Keep the weights of a problem in the set of the option ``project``."""
        if self.options.project is not None:
            self.convex_set = ConvexSet(self.options.project, problem)

    def guard(self) -> AbstractContextManager[None]:
        """Return the context that reports steps that are too long."""
        return steps_of(NAME, lambda: self.w, ADVICE)

    def weights(self) -> F64:
        """Return the weights the options ask for: the average or the current ones."""
        return self.average if self.options.averaging != "none" and self.average_weight > 0.0 else self.w

    def due(self, stop: StopRule) -> bool:
        """Whether it is time for an evaluation."""
        return self.n_passes % self.options.evaluate_every == 0 or self.at_end(stop)

    def at_end(self, stop: StopRule) -> bool:
        """Whether there is no other pass for steps before that of an evaluation."""
        return self.spent + 2 > stop.max_passes

    def batch_step(self, problem: TrainProblem, hull: PlaneHull) -> Iterate:
        """Take one step with the subgradient of the whole objective; return the weights before it with theirs.

        With averages, whose objective is not known, the average after it.
        """
        w = self.w.copy()
        risk = problem.gradient(w)
        self.n_passes += 1
        self.spent += 1.0
        primal, upper = objectives(problem, w, risk)
        dual = hull.add(risk.vector / -problem.n, risk.offset / problem.n)
        self._move(problem, risk.vector, risk.offset, problem.n)
        if self.options.averaging == "none":
            return Iterate(w, self.spent, primal, upper, dual, plane=hull.plane)
        return Iterate(self.weights(), self.spent, dual=dual, plane=hull.plane)

    def one_pass(self, problem: TrainProblem) -> tuple[F64, float]:
        """Step through all examples once; return the aggregated plane of all planes met."""
        n = problem.n
        order = self.random.permutation(n) if self.options.order == "stochastic" else np.arange(n)
        oracle = problem.compiled(tables=True)
        if oracle is None or not self._single_steps(problem):
            plane = self._batched_pass(problem, order)
        else:
            from ssvm_trainers.online.subgradient_kernels import compiled_pass

            average = None if self.options.averaging == "none" else self.add_to_average
            plane = compiled_pass(problem, oracle, order, self.w, *self.next_steps(n, problem), average)
        self.n_passes += 1
        self.spent += 1.0
        return plane

    def _batched_pass(self, problem: TrainProblem, order: I64) -> tuple[F64, float]:
        v, b, gradient = np.zeros(problem.dim), 0.0, self._gradients(problem)
        size = problem.n if self.options.order == "batch" else self.options.batch_size
        for lo in range(0, problem.n, size):
            batch = np.sort(order[lo : lo + size])
            vector, offset = gradient(batch)
            for part in slices(problem.dim):
                v[part] -= vector[part] / problem.n
            b += offset / problem.n
            self._move(problem, vector, offset, len(batch))
        return v, b

    def _gradients(self, problem: TrainProblem) -> Callable[[I64], tuple[F64, float]]:
        """Return a function of examples: the subgradient of their weighted risks at the newest weights, its offset."""
        oracle = problem.compiled(tables=True)
        if oracle is not None and self.options.order != "batch" and problem.objective.power == 1.0:
            from ssvm_trainers.online.subgradient_kernels import compiled_gradients

            return compiled_gradients(problem, oracle, self.w)

        def gradient(examples: I64) -> tuple[F64, float]:
            found = problem.gradient(self.w, examples)
            return found.vector, found.offset

        return gradient

    def _single_steps(self, problem: TrainProblem) -> bool:
        """Whether the compiled kernel takes these options and this risk."""
        from ssvm_trainers.online.subgradient_kernels import applies

        plain = self.options.batch_size == 1 and self.options.order != "batch"
        plain = plain and self.options.radius is None and self.newton is None
        plain = plain and self.convex_set is None and not self.options.momentum and self.schedule(problem) != DISTANCE
        return plain and problem.objective.power == 1.0 and applies(problem)

    def schedule(self, problem: TrainProblem) -> str:
        """Return the name of the step rule."""
        linear = problem.degree * problem.objective.power == 1.0 and problem.objective.lam > 0.0
        auto = "1/(lam t)" if linear else DISTANCE
        name = auto if self.options.schedule == "auto" else self.options.schedule
        if name == DISTANCE and self.options.momentum:
            raise TrainingError("momentum: the schedule 'distance' has none; set another schedule, or leave it out")
        return name

    def evaluated(self, problem: TrainProblem, hull: PlaneHull) -> Iterate:
        """Return the current iterate with its objective and the lower bound."""
        w = self.weights()
        risk = problem.gradient(w)
        self.spent += 1.0
        v = risk.vector
        v /= -problem.n
        dual = hull.add(v, risk.offset / problem.n)
        return Iterate(w, self.spent, *objectives(problem, w, risk), dual, plane=hull.plane)

    def next_steps(self, n: int, problem: TrainProblem) -> tuple[F64, F64]:
        """Return (length, share in the average) of the next n steps, and count them; lengths by ``t`` alone."""
        t: F64 = np.arange(self.t + 1.0, self.t + n + 0.5)
        late = t + self.options.offset
        self.t += n
        o, schedule = self.options, self.schedule(problem)
        factor = o.step_size / problem.objective.lam if schedule == "1/(lam t)" else o.step_size
        return factor * late ** DECAY.get(schedule, 0.0), t if o.averaging == "weighted" else np.ones(n)

    def add_to_average(self, summed: F64, share: float) -> None:
        """Add iterates (their sum, each times its share, and the sum of the shares) to the average."""
        if share == 0.0:  # time was up before any step
            return
        self.average_weight += share
        for part in slices(len(summed)):
            self.average[part] += (summed[part] - share * self.average[part]) / self.average_weight

    def _move(self, problem: TrainProblem, vector: F64, offset: float, n: int) -> None:
        """Take one step against a subgradient of the mean risk of n examples; it may be changed."""
        if self.convex_set is not None and not self.t:
            self.convex_set.require(self.w)
        objective = problem.objective
        lengths, shares = self.next_steps(1, problem)
        step, share = float(lengths[0]), float(shares[0])
        if self.options.momentum:
            momentum = self.options.momentum
            for part in slices(problem.dim):
                direction = vector[part] / n + objective.lam * objective.scale[part] * self.w[part]
                self.velocity[part] = (1.0 - momentum) * direction + momentum * self.velocity[part]
                self.w[part] -= step * self.velocity[part]
        elif self.newton is None and self.schedule(problem) != DISTANCE:
            for part in slices(problem.dim):
                self.w[part] *= 1.0 - step * objective.lam * objective.scale[part]
                self.w[part] -= step / n * vector[part]
        else:
            grad, adaptive = vector, self.schedule(problem) == DISTANCE
            if adaptive and self.reach == 0.0:
                slope = float(np.linalg.norm(grad))
                self.reach = max(offset + float(np.dot(grad, self.w)), 0.0) / slope if slope > 0.0 else 0.0
            for part in slices(problem.dim):
                grad[part] /= n
                grad[part] += objective.lam * objective.scale[part] * self.w[part]
            direction = grad if self.newton is None else self.newton.direction(grad)
            step *= self._length(float(np.linalg.norm(direction))) if adaptive else 1.0
            direction *= step
            self.w -= direction
        if objective.l1:  # a proximal step
            for part in slices(problem.dim):
                amount = step * objective.l1 * objective.scale[part]
                self.w[part] -= np.clip(self.w[part], -amount, amount)
        np.maximum(self.w, objective.lower, out=self.w)
        if self.options.radius is not None:
            self.w *= min(1.0, self._radius(problem) / max(float(np.linalg.norm(self.w)), 1e-300))
        if self.convex_set is not None:
            self.convex_set.project(self.w)
        if self.options.averaging != "none":
            self.add_to_average(share * self.w, share)

    def _length(self, size: float) -> float:
        """Return the step length by distance over gradients, given the size of one more subgradient."""
        self.reach = max(self.reach, self._gone())
        self.squares += size * size
        return self.reach / float(np.sqrt(self.squares)) if self.squares > 0.0 else 0.0

    def _gone(self) -> float:
        """Return the distance from the weights at the start."""
        if self.start is None:
            return float(np.linalg.norm(self.w))
        square = 0.0
        for part in slices(len(self.w)):
            moved = self.w[part] - self.start[part]
            square += float(np.dot(moved, moved))
        return float(np.sqrt(square))

    def _radius(self, problem: TrainProblem) -> float:
        """Return the radius of the ball; that of Pegasos needs a pass for the risk at w = 0."""
        if not isinstance(self.options.radius, str):
            assert self.options.radius is not None
            return self.options.radius
        if not self.ball:
            objective = problem.objective
            if not (objective.scale > 0).all():
                raise TrainingError(f"radius={PEGASOS!r} needs every factor regularised; give a number")
            at_zero, _ = problem.value(np.zeros(problem.dim))
            self.ball = float(np.sqrt(at_zero / (objective.lam * objective.scale.min())))
            self.spent += 1.0
        return self.ball


def objectives(problem: TrainProblem, w: F64, risk: RiskGradient) -> tuple[float, float]:
    """Return (objective, certified upper bound or nan) at w from the risks of all examples."""
    return problem.objective.primal(w, risk.value), problem.objective.primal(w, risk.bound)


# -- A user's convex set of weights: the function that projects onto it, and checks of this function -----------------
#
# Ratliff, Bagnell and Zinkevich (2007) end each step with a projection onto a convex set W of weights,
#
#     P(w) = argmin_{v in W} |v - w| .
#
# Its subgradient method converges to the best weights in W.  A lower bound of the optimum over all weights stays one of
# the optimum over W, but the gap between the two stays open where the set keeps the weights from the former.

#: Largest move by a second projection, or by one of weights in the set, relative to the size of the weights.
STILL = 1e-6


class ConvexSet:
    """The set that a function projects onto.

    Parameters
    ----------
    project : callable
        Takes a dict of the weights by factor, arrays of the shapes that ``svm.weights_`` shows, and changes the arrays
        in place to those of the nearest weights in the set.
    problem : TrainProblem
        Whose weights they are.
    """

    def __init__(self, project: Callable[[dict[str, F64]], object], problem: TrainProblem) -> None:
        self.function, self.blocks = project, problem.parameters.blocks
        self.lower, self.tried = problem.objective.lower, False

    def require(self, w: F64) -> None:
        """Refuse weights to start from that are not in the set.

        Raises
        ------
        TrainingError
            The function moves them.
        """
        moved = w.copy()
        self.project(moved)
        if np.linalg.norm(moved - w) > STILL * (1.0 + np.linalg.norm(w)):
            text = "the weights that training starts from (0, or those of warm_start) are not in the set of 'project'"
            raise TrainingError(f"{text}; choose a set that holds them, or start from weights in it")

    def project(self, w: F64) -> None:
        """Move weights to the nearest ones in the set, in place.

        Raises
        ------
        TrainingError
            The function is no projection: it returned a value, left nan or infinities, made ``nonneg``
            weights negative, or moves weights that it has just projected.
        """
        before = None if self.tried else w.copy()
        self._apply(w)
        if before is None:
            return
        again = w.copy()
        self._apply(again)
        self.tried = bool((before != w).any())
        if np.linalg.norm(again - w) > STILL * (1.0 + np.linalg.norm(w)):
            raise TrainingError("option 'project': a second call moves the weights again, so it is no projection")

    def _apply(self, w: F64) -> None:
        returned = self.function({block.name: block.view(w) for block in self.blocks})
        if returned is not None:
            raise TrainingError(f"option 'project' changes the arrays in place; it returned {type(returned).__name__}")
        if not np.isfinite(w).all():
            raise TrainingError("option 'project' left weights that are not finite")
        if (w < self.lower).any():
            raise TrainingError("option 'project' made weights of a nonneg factor negative; keep them at 0 or above")


# -- The online Newton direction of Ratliff, Bagnell and Zinkevich (2007), footnote 9 --------------------------------
#
# direction = (H + eps I)^-1 g ,        then  H <- t/(t+1) H + 1/(t+1) g g'        (t = 1, 2, ...)
#
# H holds the outer products of the subgradients of the steps before, 1/t of each, and is dense.  The paper does not say
# what it is at first; here it is 0, so that the first direction is g / eps.  So is every part of g in directions that
# no earlier subgradient has: eps must be as large as squares of subgradients are.  With ``current`` the subgradient of
# a step is taken in before the step instead, H is the mean of all outer products so far, and a small eps does.

#: Weights at most: H of 3000 weights takes 72 MB, and a direction about a second.
MAX_DIM = 3000


class OnlineNewton(Stateful):
    """The second moments of the subgradients met.

    Parameters
    ----------
    dim : int
    ridge : float
        The eps of the direction.
    current : bool
        Whether H takes a subgradient in before its direction is computed, instead of after.

    Raises
    ------
    TrainingError
        There are too many weights for a dense matrix.
    """

    moments: Annotated[F64, NUMBERS]
    t: Annotated[int, COUNTS]

    def __init__(self, dim: int, ridge: float, current: bool) -> None:
        if dim > MAX_DIM:
            text = f"metric='newton' keeps and factors a dense matrix of {dim} x {dim} weights in every step;"
            raise TrainingError(f"{text} it is for at most {MAX_DIM} weights, use metric='identity'")
        self.ridge, self.current, self.t = ridge, current, 0
        self.moments = np.zeros((dim, dim))

    def direction(self, grad: F64) -> F64:
        """Return the Newton direction of a subgradient, and take it in."""
        if self.current:
            self._take_in(grad, self.t)
        found = np.linalg.solve(self.moments + self.ridge * np.eye(len(grad)), grad)
        if not self.current:
            self._take_in(grad, self.t + 1)
        self.t += 1
        return np.asarray(found, dtype=np.float64)

    def _take_in(self, grad: F64, t: int) -> None:
        """Set ``H <- t/(t+1) H + 1/(t+1) g g'``."""
        self.moments *= t / (t + 1.0)
        self.moments += np.outer(grad, grad / (t + 1.0))
