"""``perceptron``: online updates that take one example at a time and minimise no regularised objective.

With ``psi = Phi(x_i, y_i) - Phi(x_i, yhat)`` and the risk ``l = max_y [Delta(y) - w . psi(y)]`` of the example at the
current weights, reached by yhat, an update is ``w <- w + tau psi`` with

    perceptron   tau = 1                                      Collins 2002
    pa           tau = l / |psi|^2                            Crammer et al. 2006
    pa-i         tau = min(C, l / |psi|^2)
    pa-ii        tau = l / (|psi|^2 + 1/(2C))
    arow         w <- w + l / (psi' S psi + 1/C) S psi        Crammer, Kulesza and Dredze 2009, diagonal S
                 S <- 1 / (1/S + C psi^2)

C is the option ``aggressiveness`` (times the example's weight).  The risk says what the margin is: ``perceptron`` has
none, so yhat is the best labelling and only the first update makes sense; ``margin`` and ``hm`` are loss-augmented.
That is the *max-loss* update of Crammer et al. (2006, section 9); their *prediction-based* one takes for yhat the
labelling of the highest score and for l its own ``Delta(yhat) - w . psi``: it needs no loss-augmented maximum, and an
example that is predicted correctly changes nothing.

With the risk ``relaxed`` yhat is a point of the local polytope, which may be fractional: ``against="prediction"`` is
the perceptron with linear programs of Kulesza and Pereira (2007).  It ends where the data are *algorithmically*
separable, that is where some weights make every prediction of the relaxation the truth; that there are weights for
which the truth is the best labelling is not enough.

By default the average of the weights after each example is returned, ``average_from`` leaves out those of the first
passes.  In batches (``order="batch"``) a pass is one update, the sum of those of all examples at the same weights.  The
updates of pass p are multiplied by ``(p + offset) ** growth``.

The regularisation strength has no effect.  The report holds the objective at the weights found, as for every
trainer, but no lower bound: nothing here converges to the optimum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, cast

import numpy as np

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir import F64, I64
from ssvm_dsl.plugin_api import Iterate, Planes, PredictingProblem, StopRule, TrainProblem
from ssvm_trainers.shared.resumable import Resumable, Run, Stateful
from ssvm_trainers.shared.state_rules import COUNTS, NUMBERS, PART, SHARES

#: The option ``against`` for prediction-based updates.
PREDICTION = "prediction"


@dataclass(eq=False)
class Perceptron(Resumable):
    """Perceptron (Collins 2002), passive-aggressive (Crammer et al. 2006) and AROW (Crammer et al. 2009) updates.

    Parameters
    ----------
    update : {"perceptron", "pa", "pa-i", "pa-ii", "arow"}
        The step length of an update, see above.
    averaging : bool
        Return the average of the weights over all examples met, instead of the last ones.
    aggressiveness : float
        The C of ``pa-i``, ``pa-ii`` and ``arow``.
    order : {"stochastic", "incremental", "batch"}
        A new random order in each pass, or the given one; or one update a pass, with all examples.
    average_from : int
        The pass, counted from 0, from which on weights are averaged; -1: of the newest pass alone.
    growth, offset : float
        Updates of pass p, counted from 0, are multiplied by ``(p + offset) ** growth``.
    against : {"max-loss", "prediction"}
        The labelling an update moves away from: the one that attains the risk, or the one that is predicted.
    random_state : int or None
        Seed of the random order.
    """

    update: str = "perceptron"
    averaging: bool = True
    aggressiveness: float = 1.0
    order: str = "stochastic"
    against: str = "max-loss"
    average_from: int = 0
    growth: float = 0.0
    offset: float = 1.0
    random_state: int | None = None

    def begin(self, problem: TrainProblem, start: F64 | None) -> Run:
        """Return a new run, before its first iterate."""
        return PerceptronRun(self, problem, start)

    def partial(self, problem: TrainProblem, state: dict[str, Any] | None = None) -> tuple[F64, dict[str, Any]]:
        """Learn one pass over more examples; see :class:`~ssvm_dsl.plugin_api.IncrementalTrainer`."""
        learner = PerceptronState(self, problem)
        if state is not None:
            learner.go_on(state)
        learner.one_pass(problem)
        return learner.weights(), learner.state()


class PerceptronRun(Run):
    """Passes over one problem, until one changes nothing."""

    learner: Annotated[PerceptronState, PART]
    changes: Annotated[int, COUNTS]

    def __init__(self, options: Perceptron, problem: TrainProblem, start: F64 | None) -> None:
        self.problem, self.learner, self.changes = problem, PerceptronState(options, problem, start), 1

    def iterate(self, stop: StopRule) -> Iterate | None:
        """Take a pass; end after one without updates."""
        if not self.changes:
            return None
        self.changes = self.learner.one_pass(self.problem)
        extra = {"updates": float(self.changes)}
        return Iterate(self.learner.weights(), float(self.learner.n_passes), extra=extra)


class PerceptronState(Stateful):
    """Weights after ``t`` examples, and ``moved``: each change of them times the number of examples before it.

    The average of the weights over t examples is ``w - moved / t``.

    Parameters
    ----------
    options : Perceptron
    problem : TrainProblem
        The first one; later passes may be over others with the same weights.
    start : ndarray of float64, shape (dim,), optional
    """

    w: Annotated[F64, NUMBERS]
    moved: Annotated[F64, NUMBERS]
    variance: Annotated[F64, SHARES]  #: diagonal S of ``arow``
    t: Annotated[int, COUNTS]
    n_passes: Annotated[int, COUNTS]
    random: Annotated[np.random.Generator, PART]

    def __init__(self, options: Perceptron, problem: TrainProblem, start: F64 | None = None) -> None:
        if options.update != "perceptron" and not problem.loss.has_margin:
            text = f"update '{options.update}' needs a margin: a loss that is not zero; use risk='margin' or risk='hm'"
            raise TrainingError(text)
        if options.order == "batch" and options.update == "arow":
            raise TrainingError("update 'arow' looks at one example at a time; set order='incremental'")
        self.options = options
        self.w = np.maximum(np.zeros(problem.dim) if start is None else start, problem.objective.lower)
        self.moved, self.variance = np.zeros(problem.dim), np.ones(problem.dim if options.update == "arow" else 0)
        self.t, self.n_passes = 0, 0
        self.random = np.random.default_rng(options.random_state)

    def weights(self) -> F64:
        """Return the average, or the last weights."""
        if not (self.options.averaging and self.t):
            return self.w.copy()
        shift = self.moved / self.t
        return np.subtract(self.w, shift, out=shift)

    def one_pass(self, problem: TrainProblem) -> int:
        """Visit each example once; return how many changed the weights."""
        n, options = problem.n, self.options
        order = self.random.permutation(n) if options.order == "stochastic" else np.arange(n)
        factor = (self.n_passes + options.offset) ** options.growth
        if self.n_passes == options.average_from or options.average_from < 0:
            self.t, self.moved = 0, np.zeros(problem.dim)
        self.n_passes += 1
        if options.order == "batch":
            return self._batch_step(problem, factor)
        oracle = problem.compiled(tables=True)
        limited = options.update == "arow" or factor != 1.0 or np.isfinite(problem.objective.lower).any()
        if oracle is None or limited:
            return sum(self._step(problem, int(i), factor) for i in order)
        from ssvm_trainers.online.perceptron_kernels import compiled_pass

        predicted = self.options.against == PREDICTION
        changes = compiled_pass(
            problem, oracle, order, self.w, self.moved, self.t, self.options.update, predicted, self._limit(problem)
        )
        self.t += n
        return changes

    def _limit(self, problem: TrainProblem) -> F64:
        """Return the largest step of each example: ``aggressiveness`` times its weight."""
        return self.options.aggressiveness * problem.objective.weight

    def _planes(self, problem: TrainProblem, ids: I64) -> Planes:
        """Return the labellings that updates move away from."""
        if self.options.against == PREDICTION:
            return cast(PredictingProblem, problem).predicted(self.w, ids)
        return problem.oracle(self.w, ids)

    def _each(self, problem: TrainProblem) -> Iterator[Planes]:
        """Yield the plane of each example; fractional ones are asked for one at a time, at the same weights."""
        ids = np.arange(problem.n)
        if problem.relaxed:
            yield from (self._planes(problem, ids[i : i + 1]) for i in ids)
            return
        planes = self._planes(problem, ids)
        ends = zip(planes.ptr[:-1].tolist(), planes.ptr[1:].tolist(), strict=True)
        for i, (lo, hi) in enumerate(ends):
            yield Planes(
                planes.examples[i : i + 1], np.array([0, hi - lo]), planes.labels[lo:hi], planes.loss[i : i + 1],
                planes.value[i : i + 1], planes.bound[i : i + 1],
            )  # fmt: skip

    def _batch_step(self, problem: TrainProblem, factor: float) -> int:
        """Take one step with all examples; return how many have a part in it."""
        before, self.t = self.t, self.t + 1
        total, changes = np.zeros(problem.dim), 0
        for i, one in enumerate(self._each(problem)):
            psi = problem.accumulate(one, np.ones(1), np.zeros(problem.dim))
            weight = float(problem.objective.weight[i])
            if weight == 0.0 or not psi.any():
                continue
            limit = weight * self.options.aggressiveness
            total += length(self.options.update, weight, float(one.value[0]), float(np.dot(psi, psi)), limit) * psi
            changes += 1
        new = np.maximum(self.w + factor * total, problem.objective.lower)
        self.moved += before * (new - self.w)
        self.w = new
        return changes

    def _step(self, problem: TrainProblem, i: int, factor: float) -> bool:
        """Visit one example; return whether it changed the weights."""
        before, self.t = self.t, self.t + 1
        weight = float(problem.objective.weight[i])
        planes = self._planes(problem, np.array([i], dtype=np.int64))
        psi = problem.accumulate(planes, np.ones(1), np.zeros(problem.dim))
        if weight == 0.0 or not psi.any():
            return False
        direction = self.variance * psi if self.options.update == "arow" else psi
        limit, risk = weight * self.options.aggressiveness, float(planes.value[0])
        tau = factor * length(self.options.update, weight, risk, float(np.dot(psi, direction)), limit)
        new = np.maximum(self.w + tau * direction, problem.objective.lower)
        if self.options.update == "arow":
            self.variance /= 1.0 + limit * self.variance * psi**2
        self.moved += before * (new - self.w)
        self.w = new
        return tau > 0.0


def length(update: str, weight: float, risk: float, square: float, limit: float) -> float:
    """Return the step length of an update along its direction.

    Parameters
    ----------
    update : str
    weight : float
        Weight of the example.
    risk : float
    square : float
        ``psi . direction``.
    limit : float
        The C of the example.
    """
    if update == "perceptron":
        return weight
    if update == "pa":
        return risk / square
    if update == "pa-i":
        return min(limit, risk / square)
    return risk / (square + (0.5 if update == "pa-ii" else 1.0) / limit)
