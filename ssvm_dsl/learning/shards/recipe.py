"""How a shard becomes a training problem, in the process that has it, and what is asked of it there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.deadline import Deadline, time_left, within
from ssvm_dsl.errors import DataError, OutOfTime
from ssvm_dsl.inference.planned import UnplannedSession
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.threads import one_blas_thread
from ssvm_dsl.ir.features import Block
from ssvm_dsl.ir.need import Guarantee
from ssvm_dsl.learning.driver.checkpoint import fingerprint
from ssvm_dsl.learning.risks.accuracy import Excess
from ssvm_dsl.learning.risks.base import proved
from ssvm_dsl.learning.risks.kinds import Problem
from ssvm_dsl.learning.shards.messages import Opened, opening
from ssvm_dsl.learning.shards.parts import DataPart, has_examples
from ssvm_dsl.plugin_api.training import ShardStep


class ShardLearner(Protocol):
    """An estimator that has not been fitted, as workers have it."""

    def _shard_data(
        self, X: Any, Y: Any, sample_weight: Any, fitted: Any, in_time: bool = False
    ) -> tuple[Grounded, Any] | None:
        """Return the model laid over examples, and their weights, or ``None`` where no example is left to learn from.

        ``in_time`` is that of ``ground``.
        """

    def _shard_problem(self, grounded: Grounded, sample_weight: Any, deadline: Deadline | None = None) -> Problem:
        """Return the training problem of examples, without a backend where time is up before there is one."""


@dataclass(frozen=True, eq=False)
class Learnt:
    """What the features of one shard learnt from its examples alone.

    Parameters
    ----------
    fitted : mapping
    n : int
        Number of examples.
    complete : bool
        Whether time sufficed to look at all of them.
    spreads : mapping
        Of features that learnt mean and scale: number of rows, and standard deviations.
    """

    fitted: Mapping[str, Mapping[str, Any]]
    n: int
    complete: bool = True
    spreads: Mapping[str, tuple[int, F64]] = field(default_factory=dict)


@dataclass(eq=False)
class EmptyShard(Opened):
    """A part without examples to learn from."""


@dataclass(eq=False)
class LearntShard(Opened):
    """What a shard has learnt, with the examples where there is a limit of time: they may be all that is read."""

    learnt: Learnt
    opened: OpenShard | None = None


@dataclass(frozen=True, eq=False)
class LearningShard:
    """A shard whose features learn; it stays open for one call.

    Parameters
    ----------
    key : str
    learner : ShardLearner
    part : DataPart
    seconds : float
        Those that reading it may take.
    """

    key: str
    learner: ShardLearner
    part: DataPart
    seconds: float = np.inf

    def open(self) -> LearntShard:
        """Read the examples, check them, and let fitted features learn."""
        deadline = Deadline(min(self.seconds, time_left()))
        with opening() as noted, one_blas_thread():
            found = _grounded(self.learner, self.part, None, deadline)
        if found is None:
            return LearntShard(Learnt({}, 0), **noted)
        grounded, weight = found
        learnt = Learnt(grounded.fitted, grounded.n_examples, not grounded.n_uncomputed, grounded.spreads)
        if deadline.limit == np.inf:
            return LearntShard(learnt, **noted)
        return LearntShard(learnt, OpenShard(self, grounded, weight), **noted)


def _grounded(learner: ShardLearner, part: DataPart, fitted: Any, deadline: Deadline) -> tuple[Grounded, Any] | None:
    """Return the model laid over the examples of a part, and their weights, where it has any; errors say which part."""
    data = part.read()
    if not has_examples(data[0]) and not has_examples(data[1]):
        return None
    try:
        with within(deadline):
            return learner._shard_data(*data, fitted, in_time=deadline.limit < np.inf)
    except DataError as err:
        raise part.located(err) from err.__cause__


def learnt_of(shard: LearntShard) -> Learnt:
    """Return the fitted features of a shard."""
    return shard.learnt


def facts_with_its_own(shard: LearntShard) -> tuple[ShardFacts, Mapping[str, Mapping[str, Any]]]:
    """Return what the driver is to know of a shard whose features know its own examples only, and these features."""
    opened = shard.opened
    assert opened is not None, "shards of fits with a limit keep their examples"
    with one_blas_thread():
        opened.open_problem(Deadline(0.0))
    return _facts(opened), shard.learnt.fitted


@dataclass(frozen=True, eq=False)
class TrainingShard:
    """A shard to be trained on.

    Parameters
    ----------
    key : str
    learner : ShardLearner
    part : DataPart
    fitted : mapping
        The fitted features of all shards.
    seconds : float
        Those that reading it may take.
    """

    key: str
    learner: ShardLearner
    part: DataPart
    fitted: dict[str, dict[str, Any]]
    seconds: float = np.inf

    def open(self) -> OpenShard | EmptyShard:
        """Read the examples and lay the model over them."""
        deadline = Deadline(min(self.seconds, time_left()))
        with opening() as noted, one_blas_thread():
            found = _grounded(self.learner, self.part, self.fitted, deadline)
            if found is not None:
                made = OpenShard(self, *found)
                made.open_problem(deadline)
        if found is None:
            return EmptyShard(**noted)
        made.warned, made.seconds = noted["warned"], noted["seconds"]
        return made


@dataclass(eq=False)
class OpenShard(Opened):
    """A shard's training problem, its examples, and what a trainer keeps there.

    Parameters
    ----------
    recipe : TrainingShard or LearningShard
    grounded : Grounded
    weight : array_like or None
        Of the examples.
    memory : dict
        A trainer's.
    """

    recipe: TrainingShard | LearningShard
    grounded: Grounded
    weight: Any
    memory: dict[str, Any] = field(default_factory=dict)
    opened_problem: Problem | None = None

    def open_problem(self, deadline: Deadline) -> None:
        """Make the training problem; without a backend where time is up before there is one."""
        self.opened_problem = self.recipe.learner._shard_problem(self.grounded, self.weight, deadline)

    @property
    def complete(self) -> bool:
        """Whether time sufficed to compute all features and to open a backend."""
        planned = self.opened_problem is not None and not isinstance(self.opened_problem.session, UnplannedSession)
        return planned and not self.grounded.n_uncomputed

    @property
    def problem(self) -> Problem:
        """The training problem; one that time left incomplete is made again from the data.

        Raises
        ------
        OutOfTime
            It is incomplete once more.
        """
        if not self.complete:
            again = self.recipe.open()
            assert isinstance(again, OpenShard), "shards that only learn are asked for nothing else"
            self.grounded, self.weight, self.opened_problem = again.grounded, again.weight, again.opened_problem
            if not self.complete:
                raise OutOfTime("the time limit came before a shard was open")
        assert self.opened_problem is not None
        return self.opened_problem


@dataclass(frozen=True, eq=False)
class ShardFacts:
    """Facts about a shard for the driver.

    Parameters
    ----------
    n : int
        Number of examples.
    blocks : tuple of Block
    fingerprint : mapping
        Hashes of its data, model and objective.
    plan : Plan
    guarantee : Guarantee
    mass : ndarray of float64, shape (dim,)
        ``sum_i weight_i r_i sum_factors |x_j|``, for the error of rounding.
    n_factors : float
    largest : Excess or None
    at_zero : float
        The most that the sum of the weighted risks is at weights of 0; ``nan`` where that is not known.
    smooth, relaxed : bool
    degree : float
        Of the risks raised to their power.
    lightest : float
        The smallest weight of an example that is not 0.
    n_variables : int
    complete : bool
        Whether time sufficed for all of this; otherwise only ``n``, ``blocks`` and ``at_zero`` are known.
    """

    n: int
    blocks: tuple[Block, ...]
    fingerprint: Mapping[str, Any]
    plan: Plan
    guarantee: Guarantee
    mass: F64
    n_factors: float
    largest: Excess | None
    at_zero: float
    smooth: bool
    relaxed: bool
    degree: float
    lightest: float
    n_variables: int
    complete: bool = True


@dataclass(frozen=True)
class NoExamples:
    """What the driver is to know of a part without examples to learn from."""

    complete: bool = True


def facts_of(shard: OpenShard | EmptyShard) -> ShardFacts | NoExamples:
    """Return the facts about a shard for the driver."""
    return NoExamples() if isinstance(shard, EmptyShard) else _facts(shard)


def _facts(shard: OpenShard) -> ShardFacts:
    problem = shard.opened_problem
    assert problem is not None
    with one_blas_thread():
        objective, at_zero = problem.objective, problem.risks_at_zero()
        known = np.nan if at_zero is None else float(np.dot(objective.weight, objective.powered(at_zero)))
        facts = ShardFacts(
            problem.n, problem.blocks, {}, problem.session.plan, problem.session.guarantee, np.zeros(problem.dim), 0.0,
            None, known, problem.smooth, problem.relaxed, problem.degree * objective.power,
            float(objective.weight[objective.weight > 0.0].min(initial=np.inf)),
            problem.program.n_variables, shard.complete,
        )  # fmt: skip
        if not shard.complete:
            return facts
        accuracy, mine = problem.accuracy, fingerprint(problem, {})
        mass, n_factors = accuracy.by_weight() * problem.n, accuracy.n_factors
        return replace(facts, fingerprint=mine, mass=mass, n_factors=n_factors, largest=accuracy.largest())


@dataclass(frozen=True, eq=False)
class ShardSums:
    """Sums over the examples of a shard at some weights.

    Parameters
    ----------
    value, bound : float
        ``sum_i weight_i risk_i^power`` with the answers found, and its certified upper bound or ``nan``.
    vector : ndarray of float64, shape (dim,)
        A subgradient of that sum.
    offset : float
        ``sum >= offset + vector . w'`` for all w'.
    slope : float
        The largest slope of the power at these risks.
    n_proved, n_late : int
        Answers that are proved best, and those that time cut short.
    seconds : float
        Of the oracle.
    risks : ndarray of float64
        The risk of each example asked about; only where some were.
    """

    value: float
    bound: float
    vector: F64
    offset: float
    slope: float
    n_proved: int
    n_late: int
    seconds: float
    risks: F64 = field(default_factory=lambda: np.zeros(0))


def sums_at(shard: OpenShard, w: F64, seconds: float, examples: I64 | None = None) -> ShardSums:
    """Return the sums over the examples of a shard, or over some, with the risk of each; for so many seconds.

    Raises
    ------
    OutOfTime
    """
    problem = shard.problem
    before = problem.oracle_seconds
    with within(Deadline(seconds)), one_blas_thread():
        found = problem.gradient(w, examples)
    weight = problem.objective.weight if examples is None else problem.objective.weight[examples]
    sums = _summed(problem, found.value, found.bound, weight)
    return replace(
        sums, vector=found.vector, offset=found.offset, n_late=len(weight) - sums.n_proved if problem.cut_short else 0,
        seconds=problem.oracle_seconds - before, risks=np.zeros(0) if examples is None else found.value,
    )  # fmt: skip


def evaluated_at(shard: OpenShard, w: F64, seconds: float) -> tuple[ShardSums, int]:
    """Return the sums at weights without a vector, and oracle calls: none where the shard remembers the evaluation."""
    problem = shard.problem
    before, asked = problem.oracle_seconds, problem.n_oracle_calls
    with within(Deadline(seconds)), one_blas_thread():
        found = problem.evaluation(w)
    sums = _summed(problem, found.value, found.bound, problem.objective.weight)
    late = found.n_late if problem.cut_short else 0
    sums = replace(sums, n_late=late, seconds=problem.oracle_seconds - before)
    return sums, problem.n_oracle_calls - asked


@dataclass(frozen=True)
class StepFound:
    """What a trainer's step on a shard returned, and what it cost.

    Parameters
    ----------
    found : object
    n_calls : int
        Of the oracle.
    """

    found: Any
    n_calls: int


def step_on(shard: OpenShard, step: ShardStep, lam: float, n: int, seconds: float, given: tuple[Any, ...]) -> StepFound:
    """Return what a trainer's step finds on a shard; ``OutOfTime`` after so many seconds.

    Its problem has the strength of regularisation and the number of all examples.
    """
    problem = shard.problem
    if (problem.objective.lam, problem.objective.n) != (lam, n):
        problem.objective = replace(problem.objective, lam=lam, n=n)
    before = problem.n_oracle_calls
    with within(Deadline(seconds)), one_blas_thread():
        found = step(problem, shard.memory, *given)
    return StepFound(found, problem.n_oracle_calls - before)


def curvature_at(shard: OpenShard) -> F64:
    """Return the guess of the second derivatives, summed over the examples."""
    return shard.problem.curvature()


def _summed(problem: Problem, value: F64, bound: F64, weight: F64) -> ShardSums:
    """Return the sums of risks and of their bounds alone."""
    powered = problem.objective.powered
    return ShardSums(
        float(np.dot(weight, powered(value))), float(np.dot(weight, powered(bound))), np.zeros(0), 0.0,
        float(problem.steepness(value).max(initial=0.0)), int(proved(value, bound).sum()), 0, 0.0,
    )  # fmt: skip
