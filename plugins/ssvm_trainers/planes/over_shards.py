"""``bcfw`` on shards of the data: dual variables stay where the examples are, and the driver joins directions.

In a round each shard makes an exact pass over its examples or a cached one, all from the same weights (CoCoA: Jaggi et
al. 2014, Ma et al. 2015), and returns one plane: the sum over its dual weights,

    R_s(w) >= b_s - v_s . w     for the risks R_s of the examples of s.

The driver searches the step of each shard from its dual weights before the round to those after it, for all shards
at once by exact line searches (Lee et al. 2015 search one line for all), so that every round raises the dual, however
many shards there are and however alike their moves.

Rounds of cached passes follow an exact one as long as they gain more per operation than the iteration has on average,
as in one process.  Each is joined: shards that made several cached passes without knowing of each other would go far
into moves that spoil each other.

The driver knows the plane of every shard, thus a feasible point of the dual at any time.  A shard that was lost and
opened again begins with dual weights of 0, and its earlier plane becomes its *anchor*: a plane that stands for a
share of its risk, which later combinations take from it.

In each round two vectors of weights and a few numbers travel for each shard.
"""

from __future__ import annotations

from copy import copy
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir import F64, I64
from ssvm_dsl.plugin_api import Iterate, ShardSteps, StopRule, TrainProblem
from ssvm_trainers.planes.cache import KEPT, LAST_ITERATION
from ssvm_trainers.planes.combination import combine
from ssvm_trainers.shared.passes import CertificationSchedule
from ssvm_trainers.shared.resumable import COUNTS, NUMBERS, PART, SHARES, Run

#: Planes of a shard: its anchor, its dual weights one round ago, and its current dual weights.
ANCHOR, BEFORE, NOW = range(3)

#: Share of the newest weights in the average.
NEWEST = 0.2

#: Number of rounds in a row without the dual variables of some shard that end the fit.
MOST_LOSSES = 20

#: The key under which a shard keeps its dual variables.
MEMORY_KEY = "bcfw"


class RoundRequest(NamedTuple):
    """The task of a shard in a round.

    Parameters
    ----------
    number : int
        Of the shard.
    n : int
        Number of the examples of all shards.
    round : int
        0 restarts the shard; otherwise the number of its rounds so far.
    v : ndarray of float64, shape (dim,)
        The aggregated plane of all shards.
    step : float
        The step from the dual weights before the last round to those after it.
    share : float
        Share of its risk that its dual weights stand for.
    exact : bool
        Whether the oracle is asked; kept planes are visited otherwise.
    """

    number: int
    n: int
    round: int
    v: F64
    step: float
    share: float
    exact: bool


class ShardOptions(Protocol):
    """The options of ``bcfw``, which make the run on a shard."""

    random_state: int | None
    averaging: bool
    keep: int
    max_cached_passes: int

    def begin(self, problem: TrainProblem, start: F64 | None) -> Any:
        """Return a run on examples of this process."""


class KeptDual(NamedTuple):
    """The state kept on a shard: its dual variables, their number of rounds, and dual weights before the last."""

    run: Any
    round: int
    before: F64


class Moved(NamedTuple):
    """The answer of a shard: its plane, the gaps of its examples, the number of oracle calls, and operations."""

    v: F64
    b: float
    gap: float
    n_asked: int
    operations: float


def local_round(
    problem: TrainProblem, memory: dict[str, Any], options: ShardOptions, request: RoundRequest
) -> Moved | None:
    """Move the dual variables of a shard; ``None`` where they are lost."""
    if request.round == 0:
        own = copy(options)
        own.random_state = int(np.random.SeedSequence([options.random_state or 0, request.number]).generate_state(1)[0])
        own.averaging, own.keep = False, LAST_ITERATION
        memory[MEMORY_KEY] = KeptDual(own.begin(problem, None), 0, np.zeros(0))
    kept: KeptDual | None = memory.pop(MEMORY_KEY, None)  # a round that time or an error cuts short is discarded
    if kept is None or kept.round != request.round:
        return None
    before = _prepare(kept, request, options.keep)
    moved = _pass(kept.run, problem.objective.weight / request.n, request)
    memory[MEMORY_KEY] = KeptDual(kept.run, request.round + 1, before)
    return moved


def _prepare(kept: KeptDual, request: RoundRequest, keep: int) -> F64:
    """Take the dual weights that the driver chose; return a copy of them, for planes that stay where they are.

    Planes without dual weight are dropped here and not in the round, which begins with space for one more.
    """
    run, planes = kept.run, kept.run.planes
    if kept.round and request.step < 1.0:
        planes.cache.alpha[:] = (1.0 - request.step) * kept.before + request.step * planes.cache.alpha
    if request.exact:
        planes.make_room(run.now + 1 - keep)
    return np.array(planes.cache.alpha)


def _pass(run: Any, share: F64, request: RoundRequest) -> Moved:
    """Make a pass around the weights of all shards."""
    planes, objective = run.planes, run.problem.objective
    planes.fixed = planes.fixed._replace(share=share * request.share)
    planes.w[:] = objective.weights(request.v)
    if planes.free is not planes.w:
        planes.free[:] = request.v / (objective.lam * objective.scale)
    operations, n_asked = planes.work.counter[0], 0
    if request.exact:
        run.now += 1
        examples = run.order(by_gap=True)
        n_asked = len(examples)
        run.exact_pass(examples)
    else:
        run.visit(KEPT, run.order())
    planes.fixed = planes.fixed._replace(share=share)
    _, (v, b) = planes.refresh()
    cost = float(planes.work.counter[0] - operations) + run.exact_cost * n_asked
    return Moved(v, b, planes.gap_estimate(), n_asked, cost)


class ShardedBCFWRun(Run):
    """The planes of all shards, and their best combination."""

    anchors: Annotated[F64, NUMBERS]  #: vectors of the anchors, and their offsets last; ``shape (n_shards, dim + 1)``
    planes: Annotated[F64, NUMBERS]  #: those of the dual weights on the shards, likewise
    share: Annotated[F64, SHARES]  #: what dual weights on a shard stand for; the rest is the anchor's
    average: Annotated[F64, NUMBERS]  #: of v after rounds, whose weights lag behind and are less noisy
    averaged: Annotated[int, COUNTS]  #: how many of them
    passes: Annotated[float, COUNTS]
    schedule: Annotated[CertificationSchedule, PART]

    def __init__(self, options: ShardOptions, problem: TrainProblem, shards: ShardSteps, start: F64 | None) -> None:
        self.options, self.problem, self.shards = copy(options), problem, shards
        k = len(shards.sizes)
        self.anchors, self.planes = np.zeros((k, problem.dim + 1)), np.zeros((k, problem.dim + 1))
        self.share, self.step, self.passes = np.ones(k), np.ones(k), 0.0
        self.average, self.averaged = np.zeros(problem.dim), 0
        self.schedule = CertificationSchedule()
        self.rounds: I64 = np.zeros(k, dtype=np.int64)  # a run that resumes from a file restarts on all shards
        self.losses, self.start = np.zeros(k, dtype=np.int64), start

    def iterate(self, stop: StopRule) -> Iterate:
        """Run an exact round on all shards and cached ones, and join the results of each."""
        if self.start is not None and not self.passes:
            return Iterate(self.start, 1.0, *self._evaluate(self.start))
        moved, gain = self._joined(exact=True)
        self.passes += sum(one.n_asked for one in moved) / self.problem.n
        gap = sum(one.gap for one in moved)
        self._cached(gain, sum(one.operations for one in moved))
        v, b, dual = self._total()
        w = self.problem.objective.weights(v)
        if not self.schedule.asks(stop, dual, gap, self.passes):
            return Iterate(w, self.passes, extra={"gap_estimate": gap, "dual_estimate": dual})
        return self._certify(w, dual, (v, b), gap, stop)

    def certified(self) -> Iterate:
        """Return the newest iterate with its plane."""
        v, b, dual = self._total()
        return Iterate(self.problem.objective.weights(v), self.passes, dual=dual, plane=(v, b))

    def newest(self) -> F64:
        """Return the weights of the dual variables."""
        return self.problem.objective.weights(self._total()[0])

    def _cached(self, gain: float, cost: float) -> None:
        """Run cached rounds while they gain more per operation than the iteration did so far."""
        for _ in range(self.options.max_cached_passes):
            self.problem.pause()
            moved, gained = self._joined(exact=False)
            spent = sum(one.operations for one in moved)
            worth = gained * cost >= gain * spent
            gain, cost = gain + gained, cost + spent
            if gained <= 0.0 or not worth:
                break

    def _joined(self, exact: bool) -> tuple[list[Moved], float]:
        """Run one round and join the moves of the shards; return these, and the gain of the dual."""
        before = self._total()[2]
        moved = self._round(exact)
        planes = np.stack([self.anchors, self.planes, [np.append(one.v, one.b) for one in moved]], axis=1)
        weight = np.stack([1.0 - self.share, self.share, np.zeros(len(moved))], axis=1)
        combine(self.problem.objective, planes, weight)
        self._keep(planes, weight)
        v, _, dual = self._total()
        self.averaged += 1
        self.average += max(1.0 / self.averaged, NEWEST) * (v - self.average)
        return moved, dual - before

    def _round(self, exact: bool) -> list[Moved]:
        """Ask all shards; those whose dual variables are lost restart with their earlier plane as anchor."""
        v = self._total()[0]
        self._forget(np.flatnonzero(self.rounds == 0))
        rounds = self.shards.each(local_round, [(self.options, one) for one in self._requests(v, exact)])
        lost = np.array([number for number, one in enumerate(rounds) if one is None], dtype=np.int64)
        self.losses[lost] += 1
        if len(lost):
            if self.losses.max() >= MOST_LOSSES:
                text = f"shard {int(self.losses.argmax())} did not keep its dual variables for {MOST_LOSSES} rounds"
                raise TrainingError(f"{text}: more shards are opened on a worker than it keeps; use fewer shards")
            self._forget(lost)
            again = self.shards.each(local_round, [(self.options, one) for one in self._requests(v, exact)], lost)
            for number, one in zip(lost.tolist(), again, strict=True):
                rounds[number] = one
        self.losses[[number for number in range(len(rounds)) if number not in set(lost.tolist())]] = 0
        self.rounds += 1
        return rounds

    def _requests(self, v: F64, exact: bool) -> list[RoundRequest]:
        """Return the request to each shard; one that restarts is asked as if it were new, and alone."""
        requests = []
        for number, made in enumerate(self.rounds.tolist()):
            anew = made == 0
            others = v - self.anchors[number, :-1] if anew else v
            share = 1.0 if anew else float(self.share[number])
            step = float(self.step[number])
            requests.append(RoundRequest(number, self.problem.n, made, others, step, share, exact or anew))
        return requests

    def _forget(self, which: I64) -> None:
        """Make the planes of shards their anchors: their dual variables are lost."""
        share = self.share[which, None]
        self.anchors[which] = (1.0 - share) * self.anchors[which] + share * self.planes[which]
        self.planes[which], self.share[which], self.rounds[which] = 0.0, 0.0, 0

    def _keep(self, planes: F64, weight: F64) -> None:
        """Take over a combination: the shards continue from dual weights between those before and after the round."""
        self.share = weight[:, BEFORE] + weight[:, NOW]
        self.step = np.where(self.share > 0.0, weight[:, NOW] / np.where(self.share > 0.0, self.share, 1.0), 1.0)
        self.planes += self.step[:, None] * (planes[:, NOW] - planes[:, BEFORE])

    def _total(self) -> tuple[F64, float, float]:
        """Return the aggregated plane (v, b) of all shards, and the dual value."""
        share = self.share[:, None]
        total = ((1.0 - share) * self.anchors + share * self.planes).sum(axis=0)
        v, b = total[:-1], float(total[-1])
        return v, b, self.problem.objective.dual(v, b)

    def _certify(self, w: F64, dual: float, plane: tuple[F64, float], estimate: float, stop: StopRule) -> Iterate:
        """Return the iterate with its certificate: a pass over all shards at the average, another at the newest."""
        best = self.problem.objective.weights(self.average)
        primal, upper = self._evaluate(best)
        if upper - dual > stop.tol * abs(upper) and self.passes + 1.0 <= stop.max_passes:
            values = self._evaluate(w)
            if values[1] < upper:
                best, (primal, upper) = w, values
                self.average[:], self.averaged = plane[0], 1
        self.schedule.learn(primal - dual, estimate)
        return Iterate(best, self.passes, primal, upper, dual, plane=plane)

    def _evaluate(self, w: F64) -> tuple[float, float]:
        """Return the objective at w and its certified upper bound."""
        risk, objective = self.problem.gradient(w), self.problem.objective
        self.passes += 1.0
        return objective.primal(w, risk.value), objective.primal(w, risk.bound)
