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
from typing import Annotated, Any, NamedTuple, cast

import numpy as np

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import borrow, njit, tables_score
from ssvm_dsl.plugin_api import CompiledOracle, Iterate, Planes, PredictingProblem, StopRule, TrainProblem, fixed_tables
from ssvm_trainers.shared.arrays import Fixed, Work, fixed_arrays, work_space
from ssvm_trainers.shared.oracle_call import OracleInputs, ask, oracle_inputs, table_prices
from ssvm_trainers.shared.passes import chunks, count_calls, visit_cost
from ssvm_trainers.shared.products import clear_parts, collect_parts, labels_score, move_parts, part_dots
from ssvm_trainers.shared.resumable import COUNTS, NUMBERS, PART, SHARES, Resumable, Run, Stateful

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


# -- One pass of perceptron or passive-aggressive updates inside a compiled kernel -----------------------------------
#
# Measured against CRFsuite (python-crfsuite 0.9.12) on 6173 words of OCR letters, one thread: a pass of ``perceptron``
# takes 75 ms and one of ``pa-i`` 121 ms; averaged perceptron and passive-aggressive of CRFsuite 269 and 284 ms.

#: Numbers of the updates in the kernel.
UPDATES = {"perceptron": 0, "pa": 1, "pa-i": 2, "pa-ii": 3}


def compiled_pass(
    problem: TrainProblem, oracle: CompiledOracle, order: I64, w: F64, moved: F64, t: int, update: str,
    predicted: bool, limit: F64,
) -> int:  # fmt: skip
    """Visit the examples in order, each with the newest weights; return how many changed them.

    Parameters
    ----------
    problem : TrainProblem
    oracle : CompiledOracle
    order : ndarray of int64, shape (n,)
    w, moved
        As for :func:`online_steps`.
    t : int
        Examples met before.
    update : str
        A name in :data:`UPDATES`.
    predicted, limit
        As in :class:`UpdateRule`.
    """
    fixed = fixed_arrays(problem, fixed_tables(problem.parameters, problem.loss, predicted))
    work, inputs, total = work_space(problem, 1), oracle_inputs(problem, oracle, w), 0
    if predicted:
        given = 0.0 if problem.loss.given is None else problem.loss.given
        bonus = np.where(fixed.bonus > -np.inf, given, -np.inf)
        fixed = fixed._replace(bonus=bonus, node_loss=fixed.node_loss - given)
    rule = UpdateRule(UPDATES[update], predicted, problem.objective.weight, limit)
    for chunk in chunks(problem, order, visit_cost(problem)):
        begin = problem.seconds()
        changes, off = online_steps(oracle.function, inputs, fixed, work, rule, OnlineVisits(chunk, t), w, moved)
        count_calls(problem, len(chunk), begin, off, w, np.sort(chunk), predicted)
        t, total = t + len(chunk), total + int(changes)
    return total


class UpdateRule(NamedTuple):
    """The rule by which an example moves the weights.

    Parameters
    ----------
    update : int
        The number in :data:`UPDATES`.
    predicted : bool
        Whether the oracle predicts, so that the loss has to be added to find the risk.
    weight, limit : ndarray of float64, shape (n,)
        Weight of each example, and its C, the bound of tau.
    """

    update: int
    predicted: bool
    weight: F64
    limit: F64


class OnlineVisits(NamedTuple):
    """The examples to visit, and the number of earlier visits.

    Parameters
    ----------
    examples : ndarray of int64, shape (n_listed,)
    met : int
    """

    examples: I64
    met: int


@njit(cache=True, nogil=True, borrowed=True)
def online_steps(
    oracle: Any,
    inputs: OracleInputs,
    fixed: Fixed,
    work: Work,
    rule: UpdateRule,
    visits: OnlineVisits,
    w: F64,
    moved: F64,
) -> tuple[int, float]:
    """Update w with each listed example, and ``moved`` with each change times the number of examples before it.

    With ``psi = Phi(x_i, y_i) - Phi(x_i, y)`` for the y the oracle finds and ``risk = loss(y_i, y) - w . psi``, it is
    ``w <- w + tau psi``, where tau is the weight of the example for ``perceptron``, and otherwise (Crammer et al. 2006)

        pa : risk / |psi|^2      pa-i : min(limit, risk / |psi|^2)      pa-ii : risk / (|psi|^2 + 1 / (2 limit)) .

    The average of the weights over the first T examples is ``w - moved / T``.

    Parameters
    ----------
    oracle : compiled function
        Of the signature :data:`ssvm_dsl.kernels.SIGNATURE`.
    inputs : OracleInputs
    fixed : Fixed
        Read only.  The oracle adds ``bonus`` to the scores: the loss, or zeros where it predicts (-inf in
        either where masks rule a state out).
    work : Work
        Work space for caches of capacity 1.
    rule : UpdateRule
    visits : OnlineVisits
    w, moved : ndarray of float64, shape (dim,)
        Changed in place, only at the features of wrong variables and factors.

    Returns
    -------
    changes : int
        How many examples changed the weights.
    off : float
        Largest relative difference between a score that the oracle reported and the score of its labelling; ``nan``
        where it has no answer, which ends the pass.
    """
    rule, inputs, fixed, work = borrow(rule), borrow(inputs), borrow(fixed), borrow(work)
    changes, off, parts = 0, 0.0, work.parts
    ones, free, zero, one = work.ones, work.unbounded, np.int64(0), np.int64(1)
    for number in range(len(visits.examples)):
        i = visits.examples[number]
        own, off = ask(oracle, inputs, fixed, work, i, w, ones, off)
        if np.isnan(off):
            break
        truth, same = fixed.truth[fixed.var_ptr[i] : fixed.var_ptr[i + 1]], True
        for v in range(len(truth)):
            same &= work.labels[v] == truth[v]
        if same or rule.weight[i] == 0.0:
            continue
        collected = collect_parts(fixed, i, work.labels, zero, one, parts)
        tau = rule.weight[i]
        if rule.update > 0:
            direction, work.delta[0] = work.direction, 1.0
            move_parts(fixed, parts, collected, ones, free, work.delta, direction, direction)
            part_dots(fixed.maps, parts, collected, direction, work.slope)
            clear_parts(fixed.maps, parts, collected, zero, direction)  # zeros again, for the next example
            square = work.slope[0]
            if square <= 0.0:  # another labelling with the same features: there is nothing to move along
                continue
            risk = own - labels_score(fixed, inputs.scores, i, truth) - table_prices(fixed.tables, i, truth)
            if rule.predicted:  # scores are without the loss
                risk += left_out(fixed, i, work.labels, truth)
            risk = max(risk, 0.0)
            limit = rule.limit[i]
            tau = risk / (square + 0.5 / limit) if rule.update == 3 else risk / square
            tau = min(tau, limit) if rule.update == 2 else tau
        work.delta[0] = tau
        move_parts(fixed, parts, collected, ones, free, work.delta, w, w)
        work.delta[0] = tau * (visits.met + number)
        move_parts(fixed, parts, collected, ones, free, work.delta, moved, moved)
        changes += tau > 0.0
    return changes, off


@njit(cache=True, nogil=True, borrowed=True)
def left_out(fixed: Fixed, i: int, labels: I32, truth: I32) -> float:
    """Return the loss of a labelling of example i that an oracle which predicts has not seen; it is 0 at the truth."""
    tables, lo = fixed.tables, fixed.var_ptr[i]
    first, last = tables.ptr[2 * i + 1], tables.ptr[2 * i + 2]
    loss = tables_score(tables, first, last, labels) - tables_score(tables, first, last, truth)
    for v in range(len(truth)):
        first = fixed.state_ptr[lo + v]
        loss += fixed.node_loss[first + labels[v]] - fixed.node_loss[first + truth[v]]
    return loss
