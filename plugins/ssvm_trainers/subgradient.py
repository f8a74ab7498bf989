"""``subgradient``: the (online) subgradient method of Ratliff, Bagnell and Zinkevich (2007).

Each step moves against a subgradient of the regularised risk of a few examples,

    w <- Project( w - a_t (lam scale w + 1/|B| sum_{i in B} weight_i (Phi(x_i, yhat_i) - Phi(x_i, y_i))) ) ,

with B all examples (``batch``), the next ones of a random order (``stochastic``) or of the given order
(``incremental``).  Averaging the iterates (Polyak; weighted by t: Lacoste-Julien, Schmidt and Bach 2012) makes
the last passes count most.  Evaluated iterates also give aggregated planes; the best convex combination of
them, found by line search, is a certified lower bound of the optimum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import OptionError, TrainingError
from ssvm_dsl.ir.stretches import stretches
from ssvm_dsl.plugin_api import Iterate, RiskGradient, StopRule, TrainProblem
from ssvm_trainers._lower_bound import PlaneHull
from ssvm_trainers._online_newton import OnlineNewton
from ssvm_trainers._resumable import Resumable, Run, Stateful

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

#: The radius that is sure to hold the optimum.
PEGASOS = "pegasos"


class Subgradient(Resumable):
    """The subgradient method.

    Parameters
    ----------
    order : {"stochastic", "incremental", "batch"}
        Which examples a step looks at.
    batch_size : int
        How many (except for ``batch``).
    schedule : {"1/(lam t)", "1/sqrt(t)", "1/t", "constant"}
        How steps shrink with the number of steps t.
    step_size : float
        Factor of the schedule.
    averaging : {"weighted", "uniform", "none"}
        Which average of the iterates is returned.
    radius : float, "pegasos" or None
        Project onto the ball ``|w| <= radius`` after each step.  The optimum lies in the ball of radius
        ``sqrt(R(0) / (lam min scale))`` with the mean risk R(0) of no weights at all, which is ``"pegasos"``: for
        losses of at most 1 it is the ``1/sqrt(lam)`` of Shalev-Shwartz et al. (2007).
    metric : {"identity", "newton"}
        Steps along the subgradient, or along its online Newton direction (:mod:`ssvm_trainers._online_newton`).
    ridge : float
        What ``newton`` adds to the diagonal of its matrix.
    best_iterate : bool
        Return the evaluated iterate with the lowest objective, instead of the last one.
    evaluate_every : int
        Passes between two evaluations of the objective (each is a pass with the oracle of its own; ``batch``
        steps come with theirs).
    random_state : int or None
        Seed of the random order.
    """

    def __init__(
        self,
        order: str = "stochastic",
        batch_size: int = 1,
        schedule: str = "1/(lam t)",
        step_size: float = 1.0,
        averaging: str = "weighted",
        radius: float | str | None = None,
        best_iterate: bool = True,
        evaluate_every: int = 5,
        metric: str = "identity",
        ridge: float = 1.0,
        random_state: int | None = None,
    ) -> None:
        if not (radius is None or radius == PEGASOS or (isinstance(radius, int | float) and radius > 0)):
            raise OptionError(f"option 'radius' is a positive number, {PEGASOS!r} or None, got {radius!r}")
        if not ridge > 0:
            raise OptionError(f"option 'ridge' is a positive number, got {ridge!r}")
        self.order, self.batch_size = order, batch_size
        self.schedule, self.step_size = schedule, step_size
        self.averaging, self.radius = averaging, radius
        self.best_iterate, self.evaluate_every = best_iterate, evaluate_every
        self.metric, self.ridge = metric, ridge
        self.random_state = random_state

    def begin(self, problem: TrainProblem, start: F64 | None) -> Run:
        """Return a run that has not made an iterate yet."""
        return _Run(self, problem, start)

    def partial(self, problem: TrainProblem, state: Any = None) -> tuple[F64, Any]:
        """Learn one pass over more examples.

        Parameters
        ----------
        problem : TrainProblem
            The new examples.
        state : object, optional
            What an earlier call returned.

        Returns
        -------
        (w, state)
        """
        run: Descent = Descent(self, problem.dim) if state is None else state
        run.ball = 0.0  # that of another problem
        run.one_pass(problem)
        return run.weights().copy(), run


class _Run(Run):
    """Passes over one problem, and the lower bound they give."""

    STATE = ("descent", "hull")

    def __init__(self, options: Subgradient, problem: TrainProblem, start: F64 | None) -> None:
        self.options, self.problem = options, problem
        self.descent, self.hull = Descent(options, problem.dim, start), PlaneHull(problem.objective)
        self.warm = start is not None

    def iterate(self, stop: StopRule) -> Iterate:
        """Take a pass, and evaluate the objective when it is time."""
        descent, problem, hull = self.descent, self.problem, self.hull
        if self.warm and not descent.spent:  # the first steps are long: what they leave behind may be better
            return descent.evaluated(problem, hull)
        if self.options.order == "batch":
            return descent.batch_step(problem, hull)
        dual = hull.add(*descent.one_pass(problem))
        due = descent.n_passes % self.options.evaluate_every == 0 or descent.spent + 2 > stop.max_passes
        if due:
            return descent.evaluated(problem, hull)
        return Iterate(descent.weights(), descent.spent, dual=dual, plane=hull.plane)


class Descent(Stateful):
    """Weights, their average, and the number of steps.

    Parameters
    ----------
    options : Subgradient
    dim : int
    start : ndarray of float64, shape (dim,), optional
    """

    STATE = ("w", "average", "average_weight", "t", "n_passes", "spent", "ball", "newton", "random")

    def __init__(self, options: Subgradient, dim: int, start: F64 | None = None) -> None:
        self.options = options
        self.w = np.zeros(dim) if start is None else start.copy()
        self.average = np.zeros(dim)
        self.average_weight = 0.0
        self.t = 0
        self.n_passes = 0
        self.spent = 0.0
        self.ball = 0.0  # not known yet
        self.newton = OnlineNewton(dim, options.ridge) if options.metric == "newton" else None
        self.random = np.random.default_rng(options.random_state)

    def weights(self) -> F64:
        """Return the weights the options ask for: the average or the current ones."""
        return self.average if self.options.averaging != "none" and self.average_weight > 0.0 else self.w

    def batch_step(self, problem: TrainProblem, hull: PlaneHull) -> Iterate:
        """Take one step with the subgradient of the whole objective; evaluates w on the way."""
        w = self.w.copy()
        found = problem.gradient(w)
        self.spent += 1.0
        primal, upper = objectives(problem, w, found)
        dual = hull.add(found.vector / -problem.n, found.offset / problem.n)
        self._move(problem, found)
        if self.options.averaging == "none":
            return Iterate(w, self.spent, primal, upper, dual, plane=hull.plane)
        return Iterate(self.weights(), self.spent, dual=dual, plane=hull.plane)

    def one_pass(self, problem: TrainProblem) -> tuple[F64, float]:
        """Step through all examples once; return the aggregated plane of all planes met."""
        n = problem.n
        order = self.random.permutation(n) if self.options.order == "stochastic" else np.arange(n)
        oracle = problem.compiled()
        if oracle is None or not self._single_steps(problem):
            plane = self._batched_pass(problem, order)
        else:
            from ssvm_trainers._subgradient_pass import compiled_pass

            plane = compiled_pass(self, problem, oracle, order)
        self.n_passes += 1
        self.spent += 1.0
        return plane

    def _batched_pass(self, problem: TrainProblem, order: I64) -> tuple[F64, float]:
        v, b = np.zeros(problem.dim), 0.0
        for lo in range(0, problem.n, self.options.batch_size):
            batch = np.sort(order[lo : lo + self.options.batch_size])
            found = problem.gradient(self.w, batch)
            for part in stretches(problem.dim):
                v[part] -= found.vector[part] / problem.n
            b += found.offset / problem.n
            self._move(problem, found)
        return v, b

    def _single_steps(self, problem: TrainProblem) -> bool:
        """Whether the compiled kernel takes these options and this risk."""
        from ssvm_trainers._subgradient_pass import applies

        plain = self.options.batch_size == 1 and self.options.radius is None and self.newton is None
        return plain and problem.objective.power == 1.0 and applies(problem)

    def evaluated(self, problem: TrainProblem, hull: PlaneHull) -> Iterate:
        """Return the current iterate with its objective and the lower bound."""
        w = self.weights()
        found = problem.gradient(w)
        self.spent += 1.0
        v = found.vector
        v /= -problem.n
        dual = hull.add(v, found.offset / problem.n)
        return Iterate(w, self.spent, *objectives(problem, w, found), dual, plane=hull.plane)

    def next_steps(self, n: int, lam: float) -> tuple[F64, F64]:
        """Return (length, share in the average) of the next n steps, and count them."""
        t: F64 = np.arange(self.t + 1.0, self.t + n + 0.5)
        self.t += n
        o = self.options
        power = {"constant": 0.0, "1/t": -1.0, "1/sqrt(t)": -0.5, "1/(lam t)": -1.0}[o.schedule]
        factor = o.step_size / lam if o.schedule == "1/(lam t)" else o.step_size
        return factor * t**power, t if o.averaging == "weighted" else np.ones(n)

    def add_to_average(self, summed: F64, share: float) -> None:
        """Add iterates (their sum, each times its share, and the sum of the shares) to the average."""
        self.average_weight += share
        for part in stretches(len(summed)):
            self.average[part] += (summed[part] - share * self.average[part]) / self.average_weight

    def _move(self, problem: TrainProblem, found: RiskGradient) -> None:
        """Take one step against a subgradient of the mean risk of a few examples."""
        objective = problem.objective
        lengths, shares = self.next_steps(1, objective.lam)
        step, share = float(lengths[0]), float(shares[0])
        if self.newton is None:
            for part in stretches(problem.dim):
                self.w[part] *= 1.0 - step * objective.lam * objective.scale[part]
                self.w[part] -= step / len(found.value) * found.vector[part]
        else:
            grad = objective.lam * objective.scale * self.w + found.vector / len(found.value)
            self.w -= step * self.newton.direction(grad)
        np.maximum(self.w, objective.lower, out=self.w)
        if self.options.radius is not None:
            self.w *= min(1.0, self._radius(problem) / max(float(np.linalg.norm(self.w)), 1e-300))
        if self.options.averaging != "none":
            self.add_to_average(share * self.w, share)

    def _radius(self, problem: TrainProblem) -> float:
        """Return the radius of the ball; that of Pegasos takes a pass to know the risk of no weights."""
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


def objectives(problem: TrainProblem, w: F64, found: RiskGradient) -> tuple[float, float]:
    """Return (objective, certified upper bound or nan) at w from the risks of all examples."""
    return problem.objective.primal(w, found.value), problem.objective.primal(w, found.bound)
