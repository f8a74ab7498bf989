"""``relations``: best clusterings, linear orders, transitive and acyclic relations.

Exact, exponential in the worst case, and with a bound at any time. A labelling of local search comes first. Dual
ascent on violated rows (:mod:`~ssvm_backends.structures.relations.relaxation`) then lowers the bound, and proves
most instances with little noise optimal. What it leaves open of clusterings of which most pairs are there, branch
and bound over semidefinite matrices finds (:mod:`~ssvm_backends.structures.relations.clusters`). Anything else is an
integer program: literals whose other truth value would cost more than the gap are fixed, CP-SAT answers for the rest
with the rows that are known, and the rows that its answer violates are added, until there are none (Groetschel and
Wakabayashi, Mathematical Programming 45, 1989).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ssvm_backends.programs.ortools_modules import import_ortools
from ssvm_backends.structures.relations.clusters import ClusterSearch, has_time
from ssvm_backends.structures.relations.relaxation import Relaxed, RowPool, ascent
from ssvm_backends.structures.routes.circuit import whole_gains
from ssvm_backends.structures.session import constraint_scores, verdict
from ssvm_dsl.ir import F64, Bools, ConstraintGroup, Need, Program, Question, Solution, Stop, pointers
from ssvm_dsl.plugin_api import (
    Clock,
    ConstraintScores,
    ExampleAnswer,
    ExampleSession,
    PlainExample,
    SeparableKind,
    StartingKind,
    Verdict,
    call_in_thread,
)

#: A gap below this share of the sum of all gains is rounding.
RELATIVE = 1e-12

#: Rows are violated by at least this at points of zeros and ones.
VIOLATED = 0.5

#: Local search is repeated with the point of the relaxation as part of the scores, with these weights.
WEIGHTS = (0.5, 2.0, 8.0)

#: Seconds for each literal to read its scores, to search locally, and to write the model of a search.
LITERAL_SECONDS, MODEL_SECONDS = 2e-6, 1e-5


class Relations:
    """Relations between the items of one set, by dual ascent and integer programs in rounds."""

    def check(self, need: Need) -> Verdict:
        """Accept constraints over different variables."""
        return verdict(need, 2e6 + 2e3 * float(need.max_variables) ** 1.2)

    def open(self, program: Program, options: Mapping[str, Any]) -> RelationsSession:
        """Return a session."""
        import_ortools("ortools.sat.python.cp_model")
        return RelationsSession(program, int(options["num_workers"]), options["max_conflicts"])


@dataclass(frozen=True, eq=False)
class RelationFound:
    """The result of one relation.

    Parameters
    ----------
    true : ndarray of bool, optional
        The truth of its literals; ``None`` without a relation.
    bound : float
        Upper bound on what true literals gain, ``-inf`` where there is no relation.
    stop : Stop
    pool : RowPool
        Rows with their duals, from which a later ascent can start.
    """

    true: Bools | None
    bound: float
    stop: Stop
    pool: RowPool


class RelationsSession(ExampleSession):
    """Relations of one program.

    Parameters
    ----------
    program : Program
    num_workers : int
        Threads of one search.
    max_conflicts : int, optional
        Conflicts of each search at most; 0: no search.
    """

    def __init__(self, program: Program, num_workers: int, max_conflicts: int | None = None) -> None:
        super().__init__(program)
        self.num_workers, self.max_conflicts = num_workers, max_conflicts
        self.groups = [group for group in program.constraints if group.n_constraints]

    def solve(self, question: Question) -> Solution:
        """Answer a question; there is always a start for the next call."""
        solution = super().solve(question)
        solution.warm = solution.warm or {}
        return solution

    def answer(self, example: PlainExample, clock: Clock, warm: Any) -> ExampleAnswer:
        """Answer for one example: every variable by itself, then relation by relation."""
        if not example.node:  # relations without literals hold
            return ExampleAnswer.exact(np.zeros(0, dtype=np.int32), example.const)
        score, ptr = np.concatenate(example.node), pointers(np.array([len(one) for one in example.node]))
        best = np.maximum.reduceat(score, ptr[:-1])
        labels = np.array([int(one.argmax()) for one in example.node], dtype=np.int32)
        bound = example.const + float(best.sum())
        if bound == -np.inf:
            return ExampleAnswer(bound=-np.inf)
        stop, complete, pools = Stop.FINISHED, True, list[RowPool]()
        known = warm if isinstance(warm, list) else []
        for group in self.groups:
            for k in range(group.ptr[example.number], group.ptr[example.number + 1]):
                clock.afford(LITERAL_SECONDS * float(group.literal_ptr[k + 1] - group.literal_ptr[k]))
                variables, scores = constraint_scores(group, k, ptr, score)
                pool = known[len(pools)] if len(pools) < len(known) else None
                answer = self.relation(group, k, scores, clock, pool)
                pools.append(answer.pool)
                stop, gain = max(stop, answer.stop), scores.gain
                bound += answer.bound - float(np.maximum(gain, 0.0)[np.isfinite(gain)].sum())
                states = None if answer.true is None else scores.labels(answer.true)
                complete = complete and states is not None
                if states is not None:
                    labels[variables] = states
        if bound == -np.inf or not complete:
            return ExampleAnswer(bound=bound, stop=stop, warm=pools)
        return ExampleAnswer(labels, bound=max(bound, example.score(labels)), stop=stop, warm=pools)

    def relation(
        self, group: ConstraintGroup, k: int, scores: ConstraintScores, clock: Clock, pool: RowPool | None = None
    ) -> RelationFound:
        """Return the best relation of one constraint.

        Parameters
        ----------
        group : ConstraintGroup
            Of a kind that is a :class:`~ssvm_dsl.plugin_api.SeparableKind`.
        k : int
        scores : ConstraintScores
            Of its variables.
        clock : Clock
        pool : RowPool, optional
            Of an earlier answer with other scores.
        """
        rules, gain = group.rules, scores.gain
        assert isinstance(rules, SeparableKind)
        forced = ~np.isfinite(gain)
        high = np.where(gain == -np.inf, 0.0, 1.0)
        low, worth = np.where(gain == np.inf, 1.0, 0.0), np.where(forced, 0.0, gain)
        tolerance = RELATIVE * float(np.abs(worth).sum())
        whole = bool((worth == np.rint(worth)).all()) and float(np.abs(worth).sum()) < 2.0**50

        separate = partial(rules.violated_rows, group, k)

        def lowered(bound: float) -> float:
            return float(np.floor(bound + tolerance)) if whole else bound

        true = started(group, k, scores)
        value = -np.inf if true is None else float(worth @ true)
        begin = None if pool is None else pool.take(np.ones(len(pool.lower), dtype=bool))
        enough = value + tolerance + (1.0 - 1e-6 if whole else 0.0)
        relaxed = ascent(separate, worth, low, high, enough, clock, begin)
        bound = lowered(relaxed.bound)
        stop, searched = Stop.FINISHED, None
        if group.kind == "equivalence" and bound > value + tolerance and not clock.over:
            searched = self.clusters(group, k, worth, low, high, tolerance, lowered, true, value, bound, clock)
        if searched is not None:
            true, bound, stop = searched
        elif bound > value + tolerance and not clock.over:
            for weight in WEIGHTS:
                other = started(group, k, blended(scores, weight * (2.0 * relaxed.point - 1.0)))
                if other is not None and float(worth @ other) > value:
                    true, value = other, float(worth @ other)
        if searched is None and bound > value + tolerance:
            search = RelationSearch(separate, worth, low, high, self.num_workers)
            true, bound, stop = search.run(relaxed, true, value, bound, tolerance, clock, self.max_conflicts)
            bound = lowered(bound)
        if true is None:
            return RelationFound(None, bound, stop, relaxed.pool)
        return RelationFound(true, max(bound, float(worth @ true)), stop, relaxed.pool)

    def clusters(
        self, group: ConstraintGroup, k: int, gain: F64, low: F64, high: F64, tolerance: float,
        lowered: Callable[[float], float], true: Bools | None, value: float, bound: float, clock: Clock,
    ) -> tuple[Bools | None, float, Stop] | None:  # fmt: skip
        """Return the best clustering by branch and bound, an upper bound, and why the search ended.

        ``None`` where rows serve better: where most pairs of items have no literal, and for few or very many items.
        """
        part = group.literals(k)
        items = np.concatenate([group.literal_meta[name][part].astype(np.int64) for name in ("first", "second")])
        used, place = np.unique(items, return_inverse=True)
        if 4 * len(gain) < len(used) * (len(used) - 1) or not has_time(len(used), clock):
            return None
        first, second = place.reshape(2, -1)
        search = ClusterSearch(group, len(used), first, second, gain, low, high, tolerance, lowered, clock)
        limits = [one for one in (self.max_conflicts, clock.limits.iterations) if one is not None]
        return search.run(true, value, bound, min(limits, default=None))


def started(group: ConstraintGroup, k: int, scores: ConstraintScores) -> Bools | None:
    """Return the truth of the literals where the kind of a constraint starts; ``None`` where it finds nothing."""
    states = group.rules.start(group, k, scores) if isinstance(group.rules, StartingKind) else None
    if states is None:
        return None
    return np.asarray((states[scores.place] == scores.state) != scores.negated)


def blended(scores: ConstraintScores, more: F64) -> ConstraintScores:
    """Return scores with true literals worth ``more`` of their mean size."""
    finite = np.abs(scores.gain[np.isfinite(scores.gain)])
    size, changed = float(finite.mean()) if len(finite) else 0.0, scores.score.copy()
    changed[scores.entry] += np.where(scores.negated, -size, size) * more
    return replace(scores, score=changed)


class RelationSearch:
    """Integer programs in rounds over the literals that a bound leaves open.

    Parameters
    ----------
    separate : callable
    gain, low, high : ndarray of float64, shape (l,)
    num_workers : int
    """

    def __init__(self, separate: Any, gain: F64, low: F64, high: F64, num_workers: int) -> None:
        self.separate, self.gain, self.low, self.high = separate, gain, low, high
        self.num_workers = num_workers

    def run(
        self,
        relaxed: Relaxed,
        true: Bools | None,
        value: float,
        bound: float,
        tolerance: float,
        clock: Clock,
        most: int | None,
    ) -> tuple[Bools | None, float, Stop]:
        """Return the best truth found, an upper bound, and why the search ended.

        Parameters
        ----------
        relaxed : Relaxed
        true : ndarray of bool, optional
            The best truth so far, of this ``value``.
        bound, tolerance : float
        clock : Clock
        most : int, optional
            Conflicts of each program at most.
        """
        if most == 0 or clock.limits.iterations == 0:
            return true, bound, Stop.ITERATIONS
        gap = bound - value if true is not None else np.inf
        up = np.where((relaxed.reduced > gap + tolerance) & (self.high > self.low), 1.0, self.low)
        down = np.where((relaxed.reduced < -gap - tolerance) & (self.high > self.low), 0.0, self.high)
        pool = relaxed.pool
        while True:
            if clock.over:
                return true, bound, Stop.TIME
            clock.afford(MODEL_SECONDS * (len(self.gain) + len(pool.column)))
            truth, proved, stop = self._solved(pool, up, down, true, clock, most)
            bound = min(bound, max(proved, value))
            if truth is None:  # nothing but the best so far, if there is one
                if stop is Stop.FINISHED:
                    return true, value if true is not None else -np.inf, stop
                return true, bound, stop
            rows = self.separate(truth.astype(np.float64), VIOLATED)
            if not rows.n_rows:
                if float(self.gain @ truth) > value:
                    true, value = truth, float(self.gain @ truth)
                if stop is Stop.FINISHED:
                    return true, max(bound, value), stop
                return true, bound, stop
            if stop is not Stop.FINISHED:
                return true, bound, stop
            pool.add(rows)

    def _solved(
        self, pool: RowPool, low: F64, high: F64, true: Bools | None, clock: Clock, most: int | None
    ) -> tuple[Bools | None, float, Stop]:
        """Return the best truth that keeps the rows of a pool, an upper bound, and why the solver stopped."""
        from ortools.sat.python import cp_model

        free = np.flatnonzero(low < high)
        column = np.full(len(low), -1, dtype=np.int64)
        column[free] = np.arange(len(free))
        fixed = np.where(low < high, 0.0, low)
        whole, unit, excess = whole_gains(self.gain[free])
        model = cp_model.CpModel()
        proto = model.proto
        for _ in range(len(free)):
            proto.variables.add().domain.extend([0, 1])
        length = np.diff(pool.ptr)
        owner = np.repeat(np.arange(len(length)), length)
        moved = pool.lower - np.bincount(owner, pool.coefficient * fixed[pool.column], len(length))
        inner = column[pool.column] >= 0
        ends = pointers(np.bincount(owner[inner], minlength=len(length))).tolist()
        variables, signs = column[pool.column[inner]].tolist(), np.rint(pool.coefficient[inner]).astype(int).tolist()
        for row, lower in enumerate(np.rint(moved).astype(int).tolist()):
            lo, hi = ends[row], ends[row + 1]
            least = sum(sign for sign in signs[lo:hi] if sign < 0)
            if lower > least:
                added = proto.constraints.add().linear
                added.vars.extend(variables[lo:hi])
                added.coeffs.extend(signs[lo:hi])
                added.domain.extend([lower, hi - lo + 1])
        proto.objective.vars.extend(range(len(free)))
        proto.objective.coeffs.extend((-whole).tolist())
        if true is not None:
            proto.solution_hint.vars.extend(range(len(free)))
            proto.solution_hint.values.extend(true[free].astype(int).tolist())
        solver = cp_model.CpSolver()
        solver.parameters.num_workers, solver.parameters.random_seed = self.num_workers, 0
        solver.parameters.catch_sigint_signal = False
        solver.parameters.linearization_level = 2
        if clock.end < np.inf:
            solver.parameters.max_time_in_seconds = clock.left
        limits = [one for one in (most, clock.limits.iterations) if one is not None]
        if limits:
            solver.parameters.max_number_of_conflicts = min(limits)
        ended = call_in_thread(lambda: solver.solve(model), solver.stop_search, clock)
        status = ended.value
        if status == cp_model.INFEASIBLE:
            return None, -np.inf, Stop.FINISHED
        stop = Stop.INTERRUPTED if ended.stop is Stop.INTERRUPTED else Stop.FINISHED
        if status != cp_model.OPTIMAL and stop is Stop.FINISHED:
            stop = Stop.TIME if not limits or clock.over else Stop.ITERATIONS
        base = float(self.gain @ fixed)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None, base + float(np.maximum(self.gain[free], 0.0).sum()), stop
        truth = fixed > 0.5
        truth[free] = np.array(list(solver.response_proto.solution), dtype=bool)
        return truth, base - float(solver.best_objective_bound) * unit + excess, stop
