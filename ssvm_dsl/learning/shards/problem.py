"""``ShardedProblem``: the objective of data that are elsewhere, as a sum over shards.

    P(w) = lam/2 sum_j scale_j w_j^2 + 1/n sum_s R_s(w) ,      R_s(w) = sum_{i in s} weight_i risk_i(w)^power

Each shard returns ``R_s``, its certified upper bound and a subgradient; they are added up in the order of the shards,
so that the sum is the same for any number of workers.  Nothing here is as long as the data are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.deadline import time_left, work_seconds
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.inference.planned import UnplannedSession
from ssvm_dsl.inference.threads import Threads
from ssvm_dsl.ir.features import Block
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.ir.need import Guarantee
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.learning.risks.accuracy import Accuracy, Mass
from ssvm_dsl.learning.risks.base import Evaluation
from ssvm_dsl.learning.risks.ceilings import risen_sum
from ssvm_dsl.learning.risks.gradients.gradient import GradientProblem
from ssvm_dsl.learning.shards.messages import ShardMessages
from ssvm_dsl.learning.shards.recipe import (
    ShardFacts,
    ShardSums,
    StepFound,
    curvature_at,
    evaluated_at,
    step_on,
    sums_at,
)
from ssvm_dsl.plugin_api.training import RiskGradient, ShardStep
from ssvm_dsl.scores.parameter_map import ParameterMap


def no_examples(blocks: tuple[Block, ...]) -> ParameterMap:
    """Return the parameter map of weights over no examples."""
    program = Program(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), blocks=blocks)
    return ParameterMap.build(program, (), blocks)


@dataclass(frozen=True, eq=False)
class SumEvaluation(Evaluation):
    """An evaluation whose values are those of shards.

    Parameters
    ----------
    n_proved : int
        Answers that are proved best.
    """

    n_proved: int = 0


class ShardedProblem(GradientProblem):
    """The training problem of all shards; values, gradients and curvature are all that it knows.

    Parameters
    ----------
    facts : sequence of ShardFacts
    objective : RegularizedRisk
        Of all examples, with a weight of 1 for each shard.
    where : ShardMessages
        Runs calls on the shards.
    keeps : bool
        Whether shards stay open.

    Attributes
    ----------
    complete : bool
        Whether time sufficed to open all shards that are known; otherwise nothing is asked of them.
    """

    def __init__(
        self, facts: Sequence[ShardFacts], objective: RegularizedRisk, where: ShardMessages, keeps: bool = True
    ) -> None:
        first = facts[0]
        parameters = no_examples(first.blocks)
        heuristic = any(one.guarantee is Guarantee.HEURISTIC for one in facts)
        exact = all(one.guarantee is Guarantee.EXACT for one in facts)
        guarantee = Guarantee.HEURISTIC if heuristic else Guarantee.EXACT if exact else Guarantee.BOUND
        session = UnplannedSession(parameters.program, None, first.plan, guarantee)
        states: I32 = np.zeros(0, dtype=np.int32)
        loss = LossTerm(states, np.zeros(0), np.zeros(0))
        super().__init__(parameters, loss, objective, session, Threads())
        self.facts, self.where, self.keeps = facts, where, keeps
        self.smooth, self.relaxed, self.degree = first.smooth, first.relaxed, first.degree
        self.ptr: I64 = pointers(np.array([one.n for one in facts], dtype=np.int64))
        self.n = int(self.ptr[-1])
        self.shards = self
        self.complete = all(one.complete for one in facts)

    @property
    def sizes(self) -> I64:
        """Number of examples of each shard."""
        return np.diff(self.ptr)

    def each(self, step: ShardStep, given: Sequence[tuple[Any, ...]], which: I64 | None = None) -> list[Any]:
        """Return what a trainer's step finds on every shard, or on some (:class:`~ssvm_dsl.plugin_api.ShardSteps`)."""
        begin, left, objective = work_seconds(), self._left(), self.objective
        numbers = range(len(given)) if which is None else which.tolist()
        calls = [(number, (step, objective.lam, self.n, left, given[number])) for number in numbers]
        found: list[StepFound] = self._run(step_on, calls)
        self.n_oracle_calls += sum(one.n_calls for one in found)
        self.oracle_seconds += work_seconds() - begin
        return [one.found for one in found]

    @cached_property
    def accuracy(self) -> Accuracy:
        """What rounding may do to objectives and lower bounds."""
        total = np.zeros(self.dim)
        for one in self.facts:
            total += one.mass / self.n
        found = [one.largest for one in self.facts if one.largest is not None]
        largest = max(found, key=lambda one: abs(one.value), default=None)
        masses = [Mass(block, total[block.offset : block.stop]) for block in self.blocks if block.size]
        return Accuracy(self.objective, masses, sum(one.n_factors for one in self.facts), lambda: largest)

    def _gradient(self, w: F64, examples: I64 | None) -> RiskGradient:
        """Return sums of the risks of each shard, or the risks of the selected examples, and a subgradient.

        Without ``examples``, ``value`` and ``bound`` have an entry for each shard, whose weight in the objective is 1.
        """
        begin, left = work_seconds(), self._left()
        calls: list[tuple[int, tuple[Any, ...]]] = [(number, (w, left)) for number in range(len(self.facts))]
        if examples is not None:
            calls = self._routed(w, left, examples)
        found: list[ShardSums] = self._run(sums_at, calls)
        vector, offset = np.zeros(self.dim), 0.0
        for one in found:
            vector += one.vector
            offset += one.offset
        self.n_oracle_calls += self.n if examples is None else len(examples)
        self.oracle_seconds += work_seconds() - begin
        if examples is not None:
            self.accuracy.watch(np.array([one.slope for one in found]))
            bounds = np.array([one.bound for one in found])
            return RiskGradient(np.concatenate([one.risks for one in found]), bounds, vector, offset)
        return RiskGradient(*self._taken(w, found), vector, offset)

    def value(self, w: F64) -> tuple[float, float]:
        """Return (objective, certified upper bound or nan) at w; shards that have asked their oracle there know it."""
        begin, left = work_seconds(), self._left()
        found: list[tuple[ShardSums, int]] = self._run(evaluated_at, [(s, (w, left)) for s in range(len(self.facts))])
        sums = [one for one, _ in found]
        self.n_oracle_calls += sum(n_calls for _, n_calls in found)
        self.oracle_seconds += work_seconds() - begin
        value, bound = self._taken(w, sums)
        return self.objective.primal(w, value), self.objective.primal(w, bound)

    def curvature(self) -> F64:
        """Return a guess of the second derivatives of smooth risks at no weights, summed over the examples."""
        total = np.zeros(self.dim)
        for one in self._run(curvature_at, [(number, ()) for number in range(len(self.facts))]):
            total += one
        return total

    def evaluation_in_time(self, w: F64) -> Evaluation:
        """Return what can be known of the objective at w before time is up: all of it, or a bound from the data."""
        try:
            if self.complete:
                return self.evaluation(w)
        except OutOfTime:
            pass  # a bound from what is known of the data is the answer
        at_zero, upper = np.array([one.at_zero for one in self.facts]), np.nan
        if self.session.guarantee is not Guarantee.HEURISTIC:
            upper = self.objective.primal(w, at_zero)
            rise = self.n * self.accuracy.size(w)
            lightest = min(one.lightest for one in self.facts)
            upper += risen_sum(float(at_zero.sum()), rise, self.degree, lightest) / self.n
        found = Evaluation(self.objective.regularizer(w), upper, np.zeros(len(at_zero)), at_zero, self.n)
        self.note(w, found)
        return found

    def steepness(self, risks: F64) -> F64:
        """Return nothing: the shards told how steep their planes are when they were asked."""
        return np.zeros(0)

    def tightness(self, w: F64, ask: bool = True) -> float:
        """Return the share of the oracle's answers at w that are proved best; ``nan`` where nothing is."""
        free = self.smooth or self.session.guarantee is Guarantee.EXACT
        if self.smooth or self.session.guarantee is Guarantee.HEURISTIC or not (free or ask):
            return np.nan
        found = self.evaluation(w)
        return found.n_proved / self.n if isinstance(found, SumEvaluation) else np.nan

    def _taken(self, w: F64, found: Sequence[ShardSums]) -> tuple[F64, F64]:
        """Remember an evaluation of all examples; return the sums of each shard, and their bounds."""
        self.accuracy.watch(np.array([one.slope for one in found]))
        value, bound = np.array([one.value for one in found]), np.array([one.bound for one in found])
        n_proved, n_late = sum(one.n_proved for one in found), sum(one.n_late for one in found)
        estimate, upper = self.objective.primal(w, value), self.objective.primal(w, bound)
        self.note(w, SumEvaluation(estimate, upper, value, bound, n_late, n_proved))
        return value, bound

    def _left(self) -> float:
        """Return the seconds that an oracle call has; raise ``OutOfTime`` where there are none."""
        self.pause()
        return time_left()

    def _routed(self, w: F64, left: float, examples: I64) -> list[tuple[int, tuple[Any, ...]]]:
        """Return the calls for some examples, in ascending order, to the shards that have them."""
        number = np.searchsorted(self.ptr, examples, side="right") - 1
        return [(shard, (w, left, examples[number == shard] - self.ptr[shard])) for shard in np.unique(number).tolist()]

    def _run(self, function: Any, calls: list[tuple[int, tuple[Any, ...]]]) -> list[Any]:
        """Return what shards found before the deadline; the question counts as asked until then."""
        self._asked = work_seconds()
        found = self.where.run(function, calls)
        self._asked = np.nan
        return found
