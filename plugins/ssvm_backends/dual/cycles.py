"""``cycles``: bounds of ``trws`` tightened by cycle clusters, beyond the local polytope, for factors of two variables.

``trws`` comes to rest at a bound that no labelling need reach.  From its messages on, clusters of three variables are
added that lower the bound most for sure: with b_e the reparametrised tables of the edges of a cycle,

    d(cycle) = sum_e max b_e - max over x of sum_e b_e(x_e)  >= 0

is what one update of the cluster takes off the bound (Sontag, Meltzer, Globerson, Jaakkola and Weiss, UAI 2008).  A
longer cycle gets chords, edges that score zero, and is as many clusters; which ones are looked at is told in
:mod:`ssvm_backends.dual.triangles`.  Clusters send messages to their edges, edges to their variables (MPLP); no
update raises the bound, and every bound on the way is certified.

Measured in processor time (``make bench ARGS=loopy``): of 20 spin glasses on 10 x 10 grids with weak fields (0.1) 19
are proved, in 0.64 s each, where the local polytope is 17 % above the optimum; with fields of 0.5 and 1.0 all, in 41
and 18 ms.  ``combi`` proves them in 15 ms each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ssvm_backends.dual.session import message_pointers
from ssvm_backends.dual.triangles import (
    ClusterGraph,
    ClusterState,
    cycle_gains,
    dual_bound,
    frustrated_cycles,
    fundamental_cycles,
    refresh,
    short_cycles,
    sweep,
)  # fmt: skip
from ssvm_backends.dual.trws import TRWSSession
from ssvm_backends.graphs.deadline import UNLIMITED
from ssvm_backends.graphs.graph import make_graph, top_states
from ssvm_backends.local.search import improve_within, score_of
from ssvm_dsl.ir import F64, I32, I64, Messages, Need, Program, Question, Solution, Stop, pointers
from ssvm_dsl.plugin_api import Clock, ExampleAnswer, ExampleSession, PlainExample, Verdict

#: Sweeps between two looks at the bound.
SWEEPS = 10

#: Clusters are added when that many sweeps close less than this share of the gap.
SLOW = 0.02

#: Share of the time that message passing without clusters may take.
FIRST = 0.5


class Cycles:
    """Message passing on edges and clusters of cycles (Sontag et al. 2008)."""

    def check(self, need: Need) -> Verdict:
        """Accept factors of two variables; the cost is that of 3000 sweeps and as much for clusters."""
        work = need.n_factors * (need.max_table + 8.0) * (1.0 + need.max_card)
        return Verdict(True, 2e4 * work + 1e6 * need.n_examples, n_bytes=80.0 * need.n_factors * need.max_table)

    def open(self, program: Program, options: Mapping[str, Any]) -> CycleSession:
        """Open the backend on a program; the session tightens the relaxation by clusters of cycles."""
        return CycleSession(program, options)


@dataclass(frozen=True, eq=False)
class CycleStart:
    """What ``trws`` has found for an example.

    Parameters
    ----------
    labels : ndarray of int32 or None
        ``None`` without a labelling.
    score, bound : float
    messages : ndarray of float64
    """

    labels: I32 | None
    score: float
    bound: float
    messages: F64


class CycleSession(ExampleSession):
    """Answers all examples by ``trws``, then those that it leaves open one by one.

    Parameters
    ----------
    program : Program
    options : mapping
    """

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        super().__init__(program)
        self.options = options
        self.relaxation = TRWSSession(program, {**options, "smooth": True})

    def solve(self, question: Question) -> Solution:
        """Answer ``map`` or ``map_clamped``; see :class:`~ssvm_dsl.plugin_api.Session`."""
        clock, limits = Clock.start(question.limits), question.limits
        pays = self._pays(question)
        shorter = replace(limits, time=FIRST * limits.time) if pays and limits.time is not None else limits
        relaxed = self.relaxation.solve(question.replace(limits=shorter))
        if (relaxed.stop == Stop.INTERRUPTED).any():
            return self._cut_short(relaxed, Stop.INTERRUPTED)
        if not pays or clock.over:
            return self._cut_short(relaxed, Stop.TIME)
        left = limits if limits.time is None else replace(limits, time=clock.left)
        solution = super().solve(question.replace(limits=left, warm=self._starts(question, relaxed)))
        self._fill_in(question, solution, relaxed)
        self._cut_short(solution, Stop.TIME, relaxed.stop == Stop.TIME)  # other messages may come to rest lower
        solution.warm = relaxed.warm
        solution.stats["iterations"] = solution.stats.get("iterations", 0) + relaxed.stats["iterations"]
        return solution

    def _pays(self, question: Question) -> bool:
        """Whether there is time for clusters of any example; without, message passing may have all of it."""
        if question.limits.time is None:
            return True
        ids = question.ids(self.program)
        edges = sum(group.shapes.counts[ids] for group in self.program.groups)
        each = (1.0 - FIRST) * question.limits.time / max(len(ids), 1)
        return bool((EDGE_SECONDS * np.asarray(edges) < each).any())

    def _cut_short(self, solution: Solution, why: Stop, where: Any = True) -> Solution:
        """Say of examples that have a gap that they were cut short: without an end bounds might have become lower."""
        gap_left = solution.bound > solution.score + float(self.options["tol"])
        solution.stop[(solution.stop == Stop.FINISHED) & gap_left & where] = why
        return solution

    def _starts(self, question: Question, relaxed: Solution) -> dict[int, CycleStart]:
        """Return the results of each example so far."""
        ids, ends, messages = question.ids(self.program), question.label_ptr(self.program), relaxed.warm
        assert isinstance(messages, Messages)
        ptr = message_pointers(self.relaxation.graph, ids)
        starts = {}
        for k, number in enumerate(ids.tolist()):
            labels = relaxed.labels[ends[k] : ends[k + 1]] if relaxed.score[k] > -np.inf else None
            mine = messages.values[ptr[k] : ptr[k + 1]]
            starts[number] = CycleStart(labels, float(relaxed.score[k]), float(relaxed.bound[k]), mine)
        return starts

    def _fill_in(self, question: Question, solution: Solution, relaxed: Solution) -> None:
        """Keep what ``trws`` has found for examples whose turn did not come before time was up."""
        missing = np.isnan(solution.bound)
        for name in ("score", "bound", "primal"):
            getattr(solution, name)[missing] = getattr(relaxed, name)[missing]
        places = np.repeat(missing, np.diff(question.label_ptr(self.program)))
        solution.labels[places] = relaxed.labels[places]

    def answer(self, example: PlainExample, clock: Clock, warm: Any) -> ExampleAnswer:
        """Lower the bound until a labelling reaches it, or nothing lowers it any more."""
        assert isinstance(warm, CycleStart)
        tol, const = float(self.options["tol"]), example.const
        dual = ClusterDual.from_instance(example, warm.messages, clock)
        if dual is None or warm.bound == -np.inf:
            return ExampleAnswer(None, -np.inf, -np.inf)
        most = int(self.options["max_iterations"])
        most = most if clock.limits.iterations is None else min(most, clock.limits.iterations)
        best, score, bound, sweeps = warm.labels, warm.score - const, warm.bound - const, 0
        bound = np.inf if np.isnan(bound) else bound
        least, stop = tol * dual.size, Stop.FINISHED
        try:
            while True:
                last, bound = bound, min(bound, dual.bound())
                labels = dual.labels()
                if dual.score_of(labels) > score:
                    states = dual.states(labels)
                    value = example.score(states) - const
                    if value > score:
                        best, score = states, value
                clock.tell(score + const, bound + const)
                gap, fall = bound - score, last - bound
                added = gap > least and fall <= max(least, SLOW * gap) and self._tighten(dual, least, clock)
                if gap > least and clock.over:
                    stop = Stop.TIME
                    break
                if gap <= least or (fall <= least and not added):
                    break
                if sweeps >= most:
                    stop = Stop.ITERATIONS
                    break
                dual.sweep(min(SWEEPS, most - sweeps), clock)
                sweeps += SWEEPS
        except KeyboardInterrupt:
            stop = Stop.INTERRUPTED
        found_bound = min(np.nextafter(max(bound, score) + const, np.inf), warm.bound)
        stats = {"iterations": min(sweeps, most), "clusters": len(dual.clusters)}
        return ExampleAnswer(best, score + const, float(found_bound), stop, stats=stats)

    def _tighten(self, dual: ClusterDual, least: float, clock: Clock) -> bool:
        """Add the clusters that lower the bound most; return whether there are any."""
        capacity = int(self.options["max_clusters"]) - len(dual.clusters)
        return capacity > 0 and dual.add(min(capacity, int(self.options["clusters"])), least, clock)


# -- ``ClusterDual``: the dual of one example's local polytope with clusters of three edges --------------------------

#: Seconds for each edge that it takes to lay the dual out, and after how many edges the clock is looked at.
EDGE_SECONDS, LOOK_EVERY = 3e-5, 1024

#: Entries of edges and clusters that sweeps look at between two checks of the clock, and steps around cycles.
CALL, CHUNK = 1e7, 2_000_000


@dataclass(eq=False)
class ClusterDual:
    """The dual of one example: edges with first variable below the second, clusters of three edges.

    Parameters
    ----------
    open : list of ndarray
        The states of each variable that are not ruled out.
    card : ndarray of int64, shape (n,)
        Their numbers.
    node : ndarray of float64
        Their scores.
    tables : dict of (int, int) to ndarray
        Scores of each edge.
    moved : dict of (int, int) to ndarray
        Initial messages: the amounts that each edge has added to the scores of its two variables.
    size : float
        Of the scores, for tolerances.
    """

    open: list[I64]
    card: I64
    node: F64
    tables: dict[tuple[int, int], F64]
    moved: dict[tuple[int, int], F64]
    size: float

    def __post_init__(self) -> None:
        self.clusters: list[tuple[int, int, int]] = []
        self.number: dict[tuple[int, int], int] = {}
        none, nothing, triples = np.zeros(1, np.int64), np.zeros(0), np.zeros((0, 3), np.int64)
        self.graph = ClusterGraph(
            np.zeros((0, 2), np.int64), self.card, pointers(self.card), none, none, triples, triples
        )
        work = np.zeros(4 * int(self.card.max(initial=1)) ** 2)
        self.score, self.state = nothing, ClusterState(self.node, nothing, nothing, nothing, work)
        self.n_given = len(self.tables)
        self._add_edges(list(self.tables))

    @classmethod
    def from_instance(
        cls, example: PlainExample, messages: F64 | None = None, clock: Clock = UNLIMITED
    ) -> ClusterDual | None:
        """Return the dual of an example; ``None`` where there is no labelling.

        Joint states that are ruled out score so little that no labelling with one is best, if there is another: the
        bound stays one.

        Parameters
        ----------
        example : PlainExample
            Its factors have two variables.
        messages : ndarray of float64, optional
            Those of each factor to its first and to its second variable, a number for each state.
        clock : Clock

        Raises
        ------
        OutOfTime
        """
        clock.afford(EDGE_SECONDS * len(example.factors))
        states = [np.flatnonzero(scores > -np.inf) for scores in example.node]
        if any(not len(one) for one in states):
            return None
        node = [scores[one] for scores, one in zip(example.node, states, strict=True)]
        tables: dict[tuple[int, int], F64] = {}
        moved: dict[tuple[int, int], F64] = {}
        at = 0
        for number, (scope, table) in enumerate(example.factors):
            if number % LOOK_EVERY == 0:
                clock.afford(0.0)
            i, j = int(scope[0]), int(scope[1])
            part, mine = table[np.ix_(states[i], states[j])], []
            for k, n in zip((i, j), table.shape, strict=True):
                mine.append(np.zeros(len(states[k])) if messages is None else messages[at : at + n][states[k]])
                at += n
            if i > j:
                i, j, part, mine = j, i, part.T, mine[::-1]
            tables[i, j] = tables[i, j] + part if (i, j) in tables else np.array(part)
            moved[i, j] = np.concatenate(mine) + moved.get((i, j), 0.0)
        if any(not np.isfinite(table).any() for table in tables.values()):
            return None
        blocks = [*node, *(table[np.isfinite(table)] for table in tables.values())]
        span = sum(float(np.ptp(block)) for block in blocks)
        size = max(1.0, max((float(np.abs(block).max()) for block in blocks), default=0.0))
        for table in tables.values():
            table[~np.isfinite(table)] = table[np.isfinite(table)].max() - 2.0 * span - size
        card = np.array([len(one) for one in states], dtype=np.int64)
        return cls(states, card, np.concatenate([np.zeros(0), *node]), tables, moved, size)

    def states(self, labels: I32) -> I32:
        """Return labels among open states as states of the variables."""
        return np.array([states[k] for states, k in zip(self.open, labels.tolist(), strict=True)], dtype=np.int32)

    def labels(self) -> I32:
        """Return the best states by reparametrised score, improved one variable at a time."""
        labels = top_states(self.state.node, self.card).astype(np.int32)
        improve_within(self.plain, self.node, self.score, 0, labels, UNLIMITED, pairs=False)
        return labels

    def score_of(self, labels: I32) -> float:
        """Return the score of labels; where one is ruled out, less than any that is not."""
        return float(score_of(self.plain, self.node, self.score, 0, labels))

    def bound(self) -> float:
        """Return the bound of the messages, from recomputed scores: rounding errors do not add up."""
        refresh(self.graph, self.node, self.score, self.state)
        return float(dual_bound(self.graph, self.state))

    def sweep(self, n: int, clock: Clock = UNLIMITED) -> None:
        """Update all edges and clusters n times; less often where time is up."""
        entries = len(self.state.edge) + len(self.state.share) * int(self.card.max(initial=1))
        at_a_time = 2 * max(1, int(CALL / (2.0 * max(entries, 1))))  # each call begins forwards: an even number
        while n > 0 and not clock.over:
            sweep(self.graph, self.state, min(n, at_a_time))
            n -= at_a_time

    def cycles(self, least: float, clock: Clock = UNLIMITED) -> tuple[list[tuple[int, ...]], F64]:
        """Return cycles that may lower the bound by more than ``least``, and the certain fall by a cluster of each.

        Those that are found by the time that the clock is over.
        """
        cycles = short_cycles(list(self.number), len(self.card), set(self.clusters), clock)
        cycles += frustrated_cycles(self.graph.ends, self.card, self.graph.edge_at, self.state.edge, least, clock)
        if (self.card > 2).any() and not clock.over:
            root = len(self.clusters) % len(self.card)
            trees = fundamental_cycles(self.graph.ends[: self.n_given], len(self.card), root, clock)
            cycles = list(dict.fromkeys(cycles + trees))
        gains: list[F64] = [np.zeros(0)]
        for part in self._chunks(cycles):
            if clock.over:
                break
            gains.append(self._gains(part))
        known = np.concatenate(gains)
        return cycles[: len(known)], known

    def _chunks(self, cycles: list[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
        """Yield cycles, so many at a time that their gains take some milliseconds."""
        sizes = np.array([len(cycle) for cycle in cycles], dtype=np.int64) * int(self.card.max(initial=1)) ** 3
        number = np.cumsum(sizes) // CHUNK
        cuts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(cycles)]
        return (cycles[lo:hi] for lo, hi in pairwise(cuts) if lo < hi)

    def _gains(self, cycles: list[tuple[int, ...]]) -> F64:
        """Return the certain fall of the bound by a cluster of each cycle."""
        ptr = pointers(np.array([len(cycle) for cycle in cycles], dtype=np.int64))
        along = [self.number[min(u, v), max(u, v)] for c in cycles for u, v in pairwise([*c, c[0]])]
        path = np.array([v for cycle in cycles for v in cycle], dtype=np.int64)
        edges = np.array(along, dtype=np.int64)
        return cycle_gains(ptr, path, edges, self.graph, self.state)

    def add(self, most: int, least: float, clock: Clock = UNLIMITED) -> bool:
        """Add clusters of cycles that lower the bound by more than ``least``, best first; return whether any did.

        A cycle of more than three variables is as many triangles as it takes, all with its first one; chords score 0.
        """
        cycles, gains = self.cycles(least, clock)
        each = gains / np.array([len(cycle) - 2.0 for cycle in cycles])
        known = set(self.clusters)
        new: dict[tuple[int, int, int], None] = {}
        for k in np.argsort(-each, kind="stable").tolist():
            if len(new) >= most:
                break
            if gains[k] <= least:
                continue
            first, *others = cycles[k]
            for u, v in pairwise(others):
                a, b, c = sorted((first, u, v))
                if (a, b, c) not in known:
                    new[a, b, c] = None
        chords = {pair for a, b, c in new for pair in ((a, b), (a, c), (b, c)) if pair not in self.number}
        for i, j in chords:
            self.tables[i, j] = np.zeros((self.card[i], self.card[j]))
            self.moved[i, j] = np.zeros(self.card[i] + self.card[j])
        self._add_edges(sorted(chords))
        self._add_clusters(list(new))
        return bool(new)

    def _add_edges(self, pairs: list[tuple[int, int]]) -> None:
        for pair in pairs:
            self.number[pair] = len(self.number)
        ends = np.concatenate([self.graph.ends, np.array(pairs, dtype=np.int64).reshape(-1, 2)])
        sizes = self.card[ends]
        edge_at, lam_at = pointers(sizes[:, 0] * sizes[:, 1]), pointers(sizes.sum(axis=1))
        self.graph = self.graph._replace(ends=ends, edge_at=edge_at, lam_at=lam_at)
        self.score = np.concatenate([self.score, *(self.tables[pair].ravel() for pair in pairs)])
        lam = np.concatenate([self.state.lam, *(self.moved[pair] for pair in pairs)])
        self.state = self.state._replace(node=self.node.copy(), edge=self.score.copy(), lam=lam)
        whole, slots = np.array([0, len(self.card)]), 2 * np.arange(len(ends) + 1)
        scope, card = ends.ravel().astype(np.int32), self.card.astype(np.int32)
        self.plain = make_graph(whole, card, np.array([0, len(ends)]), slots, scope)
        self.bound()

    def _add_clusters(self, new: list[tuple[int, int, int]]) -> None:
        self.clusters += new
        edges = [(self.number[a, b], self.number[a, c], self.number[b, c]) for a, b, c in self.clusters]
        of_clusters = np.array(edges, dtype=np.int64).reshape(-1, 3)
        at = pointers(np.diff(self.graph.edge_at)[of_clusters].ravel())
        self.graph = self.graph._replace(edges=of_clusters, share_at=at[:-1].reshape(-1, 3))
        share = np.concatenate([self.state.share, np.zeros(int(at[-1]) - len(self.state.share))])
        self.state = self.state._replace(share=share)
